/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DPUCTL_OPTIONS_H
#define DPUCTL_OPTIONS_H

#include "base/attr.h"
#include "contract/record.h"
#include "loop/agent_options.h"
#include "loop/option.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The options of the commands that look at a node. They have the agent's own names, environment
 * variables and configuration file, so that on a node no flag is needed to see what it sees. Names
 * that none of these give are the record's; without a record, the host's. Below a root, the file is
 * the node's, but no kubeconfig is taken from it.
 */

enum {
    ADMIN_EXIT_USAGE = 64, /* EX_USAGE of sysexits(3): 0, 1 and 2 are answers */
    ADMIN_DRIVER_MAX = 63, /* Kubernetes' limit for a DRA driver's name */
};

#define ADMIN_CONTEXT_HELP "Which context of the kubeconfig; without it its current one."

enum admin_output { ADMIN_TEXT, ADMIN_JSON, ADMIN_YAML, ADMIN_NAME };
enum admin_color { ADMIN_COLOR_AUTO, ADMIN_COLOR_ALWAYS, ADMIN_COLOR_NEVER };

struct admin_config {
    struct agent_config agent;
    char *context; /* of the kubeconfig; NULL or "": its current one */
    char *readiness_file;
    char *cni_conf_dir;
    char *cni_bin_dir;
    char *kubelet_root;
    char *driver;
    char *cri_socket;       /* "" for none given */
    int on_lost_network;    /* report, status, restart */
    char *root;             /* what stands before every path of the node; "" for none */
    int64_t api_timeout_ns; /* of all answers together, from started_at on */
    struct mono started_at;
    bool asks_runtime; /* after the API server, which leaves half of the time to it */
    int output;        /* enum admin_output */
    int color;         /* enum admin_color */
    /* The readiness record, as it was last read. */
    char record_path[PATH_MAX]; /* below --root */
    int record_rc;              /* 0: `record` counts; else as record_file_read */
    struct record record;
    struct err record_problem;
};

/* `name` as in "dpuctl status"; the others are for --help. Prints what is wrong. Returns false with
 * `*exit_status` set when there is nothing more to do. */
NODISCARD bool admin_options_parse(const char *name, const char *summary, int argc, char **argv,
                                   struct admin_config *out, int *exit_status);
void admin_options_fini(struct admin_config *config);

/* What is left of --api-timeout, at least 0. */
int64_t admin_time_left_ns(const struct admin_config *config);

/* Parsing reads the record, for its names; who goes on looking reads it anew. */
void admin_read_record(struct admin_config *config);

/* Replaces the short flags, as kubectl has them, in argv. */
void admin_long_flags(int argc, char **argv);

/* Says on stderr what is wrong with the use of the command `name`. Returns the exit status. */
int admin_wrong_usage(const char *name, const char *what);

/* Checks a DRA driver's name, or that a path was given; the origin is named. Errors: ERR_PARSE. */
NODISCARD int admin_check_driver(const struct option_origins *origins, const char *option,
                                 const char *name, struct err *e);
NODISCARD int admin_check_path(const struct option_origins *origins, const char *option,
                               const char *path, struct err *e);

/* The path of a file of the node, below --root. Returns `out`; cut if it does not fit. */
const char *admin_path(const struct admin_config *config, const char *path, char *out,
                       size_t out_bytes);

/*
 * The options of the commands that look at the whole cluster from outside. Those that a node's
 * agent has, too, have its names, environment variables and configuration file.
 */

enum fleet_output { FLEET_TEXT, FLEET_WIDE, FLEET_JSON, FLEET_YAML, FLEET_NAME };
enum fleet_filter { FLEET_ALL, FLEET_BROKEN, FLEET_NOT_READY, FLEET_UNKNOWN, FLEET_READY };

/* Texts are owned: free with fleet_options_fini. */
struct fleet_config {
    char *kubeconfig;
    char *context; /* of the kubeconfig; NULL or "": its current one */
    char *ns;      /* of the leases, and of dpu-host-agent's pods */
    char *holder;
    char *driver;
    char *selector;         /* labels of Nodes; NULL or "": all */
    int64_t api_timeout_ns; /* of all requests of one look together */
    int64_t interval_ns;    /* between two looks */
    int output;             /* enum fleet_output */
    int filter;             /* enum fleet_filter */
    int color;              /* enum admin_color */
    bool watch;
    const char *node; /* the only one to look at; borrowed; NULL: all */
};

/* As admin_options_parse. `out->node` is argv[1], where that is no flag. */
NODISCARD bool fleet_options_parse(const char *name, const char *summary, int argc, char **argv,
                                   struct fleet_config *out, int *exit_status);
void fleet_options_fini(struct fleet_config *config);

/* The commands of dpuctl. argv[0] is the last word of the command; each returns the exit status. */

/* Is the DPU of this node ready, and how is that known? */
int status_main(int argc, char **argv);
/* The same of another node, argv[1], as the API server tells of it. */
int status_of_node(int argc, char **argv);
/* Every DPU of the cluster. */
int nodes_main(int argc, char **argv);
/* The readiness of this node, live, as dpu-gate sees it. */
int watch_main(int argc, char **argv);
/* Which link of the chain from the DPU to a pod is broken, and how to mend it. */
int doctor_main(int argc, char **argv);
/* Which pods of this node have lost their network, and what follows? */
int pods_main(int argc, char **argv);
/* Plays the kubelet's part against a DRA plugin and shows what it would know: registers, opens the
 * health stream, keeps the cache of dra_cache.h, tries again when the stream ends. */
int dra_watch_main(int argc, char **argv);

#endif
