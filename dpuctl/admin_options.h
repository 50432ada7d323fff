/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of the commands that look at a node. They have the agent's own names, environment
 * variables and configuration file, so that on a node no flag is needed to see what it sees. Names
 * that none of these give are the record's; without a record, the host's. Below a root, the file is
 * the node's, but no kubeconfig is taken from it.
 */
#ifndef DPUCTL_ADMIN_OPTIONS_H
#define DPUCTL_ADMIN_OPTIONS_H

#include "contract/record.h"
#include "loop/agent_options.h"
#include "loop/option_table.h"

#include <limits.h>
#include <stdbool.h>

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

#endif
