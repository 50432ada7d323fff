/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands and their options. The options share names, environment variables and configuration
 * file with the host agent, so that on a node dpuctl needs no flags. Node and lease default to the
 * record's; without a record, to the host's. With --root, the file is the node's, but dpuctl takes
 * no kubeconfig from it.
 */
#ifndef DPUCTL_OPTIONS_H
#define DPUCTL_OPTIONS_H

#include "loop/agent_options.h"
#include "loop/option.h"

#include <limits.h>
#include <stdbool.h>

enum {
    ADMIN_EXIT_USAGE = 64,     /* EX_USAGE of sysexits(3) */
    ADMIN_EXIT_NO_MEMORY = 71, /* EX_OSERR */
    ADMIN_DRIVER_MAX = 63,     /* Kubernetes' limit for a DRA driver's name */
};

/* What a command found, and its exit status. */
enum admin_answer { ADMIN_GOOD, ADMIN_BAD, ADMIN_UNCLEAR };
enum admin_output { ADMIN_TEXT, ADMIN_WIDE, ADMIN_JSON, ADMIN_YAML, ADMIN_NAME };
enum admin_color { ADMIN_COLOR_AUTO, ADMIN_COLOR_ALWAYS, ADMIN_COLOR_NEVER };
enum admin_lost_network { LOST_NETWORK_REPORT, LOST_NETWORK_STATUS, LOST_NETWORK_RESTART };
enum admin_filter { ADMIN_ALL, ADMIN_BROKEN, ADMIN_NOT_READY, ADMIN_UNKNOWN, ADMIN_READY };

/* The table of options that a command has. */
enum admin_scope {
    ADMIN_THIS_NODE, /* what is on the node and, of it, in the API server */
    ADMIN_CLUSTER,   /* what the API server knows of all nodes, or of one */
    ADMIN_DRA,       /* a DRA plugin: flags alone */
};

struct admin_config {
    const char *name; /* as in "dpuctl status"; borrowed */
    enum admin_scope scope;
    int output;                /* enum admin_output */
    int color;                 /* enum admin_color */
    int filter;                /* enum admin_filter: of the cluster */
    const char *node;          /* that was named, another than this; borrowed; NULL: none */
    struct agent_config agent; /* of the cluster: kubeconfig, namespace and holder alone */
    bool is_list;              /* the kubeconfig: KUBECONFIG names several files */
    char *context;             /* of the kubeconfig; NULL or "": its current one */
    char *driver;
    int64_t api_timeout_ns; /* of all answers together, from started_at on */
    struct mono started_at;
    /* Of this node. */
    char *readiness_file;
    char *cni_conf_dir;
    char *cni_bin_dir;
    char *kubelet_root;
    char *cri_socket;    /* "" for none given */
    char *root;          /* what stands before every path of the node; "" for none */
    char *host_root;     /* where a Pod of the agent's has the host's /proc; "": nowhere else */
    int on_lost_network; /* enum admin_lost_network */
    bool is_driver;      /* the rights of dpu-dra-driver count, not the host agent's */
    bool events;
    bool node_condition;
    bool claim_conditions;
    bool asks_runtime; /* after the API server, which leaves half of the time to it */
    /* Of the cluster, and of a DRA driver. */
    bool watch;
    bool registers; /* also says that it has registered */
    bool once;
    char *selector;      /* labels of Nodes; NULL or "": all */
    int64_t interval_ns; /* between two looks */
    char *dra_socket;    /* NULL: found through registration */
};

/* Completes a `config` that has a name and a scope; `summary` is for --help. Prints what is wrong.
 * Returns false with `*exit_status` set when there is nothing more to do. From then on a reader
 * that has gone is seen by the flush of stdout. */
NODISCARD bool admin_options_parse(struct admin_config *config, const char *summary, int argc,
                                   char **argv, int *exit_status);
void admin_options_fini(struct admin_config *config);

/* The path of a file of the node, below --root. Returns `out`; cut if it does not fit. */
const char *admin_path(const struct admin_config *config, const char *path, char *out,
                       size_t out_bytes);

/* A descriptor that becomes readable when the command is to end; -1: no such thing can be had. */
int admin_stop_signals(void);

/* Waits. Returns false if the command is to end, or its reader has gone. */
bool admin_wait(int stop_fd, int64_t span_ns);

/* The commands: each returns the exit status. */
int status_run(struct admin_config *config);
int status_of_node_run(struct admin_config *config);
int nodes_run(struct admin_config *config);
int watch_run(struct admin_config *config);
int doctor_run(struct admin_config *config);
int pods_run(struct admin_config *config);
int dra_watch_run(struct admin_config *config);

#endif
