/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/status.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "dpuctl/admin_options.h"
#include "dpuctl/node_look.h"
#include "dpuctl/page.h"
#include "dpuctl/screen.h"
#include "dpuctl/status_text.h"
#include "dpuctl/status_tree.h"
#include "dpuctl/tree_print.h"
#include "json/json_text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static const char summary[] =
    "Is the DPU of this node ready, and how is that known? Looks at the readiness record, at what "
    "CNI makes of it and, with a kubeconfig, at the lease. Needs no agent to be alive. Exit "
    "status: 0 ready, 1 not ready, 2 unknown, 64 wrong usage.";

static bool print(const struct admin_config *config, const struct node_look *look)
{
    CLEANUP(json) json_t *tree = status_tree_make(config, look);
    if (!tree) {
        (void)fputs("dpuctl status: out of memory\n", stderr);
        return false;
    }
    if (config->output == ADMIN_JSON) {
        return tree_print_json(tree, stdout);
    }
    if (config->output == ADMIN_YAML) {
        return tree_print_yaml(tree, stdout);
    }
    const struct status_look how = {.has_color = screen_has_color(config), .columns = PAGE_COLUMNS};
    return status_text_print(look, tree, how, stdout) == 0 && fflush(stdout) == 0;
}

int status_main(int argc, char **argv)
{
    struct admin_config config;
    int status = NODE_UNKNOWN;
    (void)signal(SIGPIPE, SIG_IGN); /* seen by the flush */
    if (!admin_options_parse("dpuctl status", summary, argc, argv, &config, &status)) {
        return status;
    }
    struct node_look *look = calloc(1, sizeof(*look)); /* large */
    log_setup(LOG_ERROR, LOG_TEXT, "");
    if (look) {
        node_look_take(&config, look);
        status = print(&config, look) ? (int)look->answer : NODE_UNKNOWN;
    }
    free(look);
    admin_options_fini(&config);
    return status;
}
