/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of the commands that look at the whole cluster from outside. Those that a node's
 * agent has, too, have its names, environment variables and configuration file.
 */
#ifndef DPUCTL_FLEET_OPTIONS_H
#define DPUCTL_FLEET_OPTIONS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

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

#endif
