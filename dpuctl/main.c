/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl: finds the command. Each is a module of its own. */
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/version.h"
#include "dpuctl/options.h"
#include "loop/daemon.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
static const struct command {
    const char *words[2]; /* the second may be NULL */
    enum admin_scope scope;
    int (*run)(struct admin_config *config);
    const char *help;
    const char *summary;
} commands[] = {
    {{"nodes", NULL}, ADMIN_CLUSTER, nodes_run, "all DPUs of the cluster, broken ones first",
     "Lists all DPUs of the cluster, broken ones first. Asks the API server only: leases, Nodes, "
     "ResourceSlices and Pods. Computes ages from the DPU's time stamps, by the API server's clock. "
     "Exit status: 0 all shown are Ready, 1 one is NotReady, 2 one is Unknown, NODE has no DPU or the "
     "list failed, 64 wrong usage."},
    {{"status", NULL}, ADMIN_THIS_NODE, status_run, "whether the DPU of this node is ready, and why",
     "Shows whether the DPU of this node is ready, and why. Reads the readiness record and the CNI "
     "configuration and, with a kubeconfig, the lease. Needs no running agent. 'dpuctl status NODE' "
     "asks the API server about another node. Exit status: 0 ready, 1 not ready, 2 unknown, 64 wrong "
     "usage."},
    {{"watch", NULL}, ADMIN_THIS_NODE, watch_run, "each change of the readiness, live",
     "Prints a line for each change of this node's readiness, as dpu-gate sees it. Needs no running "
     "agent."},
    {{"doctor", NULL}, ADMIN_THIS_NODE, doctor_run, "which link is broken, and how to fix it",
     "Checks each link from the DPU to a Pod, and says how to repair what is broken. Changes nothing, "
     "and needs no running agent. Run it as root on the node, with the agent's own kubeconfig. "
     "'dpuctl doctor NODE' checks what the API server knows of another node. Exit status: 0 whole "
     "(with or without warnings), 1 broken, 2 not everything could be checked, 64 wrong usage."},
    {{"pods", NULL}, ADMIN_THIS_NODE, pods_run, "which Pods of this node have lost their network",
     "Lists the Pods of this node, oldest first, and whether each has its network. Shows what "
     "happens next by --on-lost-network. Asks the container runtime and the kernel; run it as root "
     "on the node. Exit status: 0 no Pod has lost its network, 1 some have, 2 unknown for one or "
     "all, 64 wrong usage."},
    {{"dra", "watch"}, ADMIN_DRA, dra_watch_run, "what a kubelet sees of a DRA driver's devices",
     "Shows what a kubelet sees of a DRA driver's devices: lines, or on a terminal a table."},
};

/* The same word, with the name of another node. */
static const struct command status_of_node = {
    {"status", NULL}, ADMIN_CLUSTER, status_of_node_run, NULL,
    "Shows what the API server knows of one node's DPU, and the command that shows the rest on the "
    "node. Exit status: 0 Ready, 1 NotReady, 2 Unknown or no DPU there, 64 wrong usage."};
/* clang-format on */

/* By its other name it is a plugin of kubectl's. */
static const char *called(const char *program)
{
    const char *slash = strrchr(program, '/');
    return text_equal(slash ? slash + 1 : program, "kubectl-dpu") ? "kubectl dpu" : "dpuctl";
}

static void print_usage(const char *name, FILE *out)
{
    (void)fprintf(out, "Usage: %s COMMAND [NODE] [OPTION]...\n\n", name);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        int used = fprintf(out, "  %s%s%s", c->words[0], c->words[1] ? " " : "",
                           c->words[1] ? c->words[1] : "");
        (void)fprintf(out, "%*s%s\n", 14 - used, "", c->help);
    }
    (void)fputs("\nWith NODE, status and doctor ask the API server about that node. Without NODE, "
                "they check this node.\nEach command has --help.\n",
                out);
}

static int run_command(const struct command *c, int argc, char **argv)
{
    char name[32];
    int status;
    if (c->run == status_run && argc > 1 && argv[1][0] != '-') {
        c = &status_of_node;
    }
    struct admin_config config = {.name = name, .scope = c->scope};
    text_format(name, sizeof(name), "dpuctl %s%s%s", c->words[0], c->words[1] ? " " : "",
                c->words[1] ? c->words[1] : "");
    if (!admin_options_parse(&config, c->summary, argc, argv, &status)) {
        return status;
    }
    status = c->run(&config);
    admin_options_fini(&config);
    return status;
}

/* The usual status would be an answer: 1 is NotReady. */
const struct mem_last_word mem_last_word = {
    .fd = STDERR_FILENO,
    .status = ADMIN_EXIT_NO_MEMORY,
    .text = "dpuctl: out of memory: raise the memory limit of this process\n"};

int main(int argc, char **argv)
{
    daemon_use_memory();
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        int words = c->words[1] ? 2 : 1;
        if (argc > words && text_equal(argv[1], c->words[0]) &&
            (words == 1 || text_equal(argv[2], c->words[1]))) {
            return run_command(c, argc - words, argv + words);
        }
    }
    bool is_help = argc == 2 && (text_equal(argv[1], "--help") || text_equal(argv[1], "-h") ||
                                 text_equal(argv[1], "help"));
    if (argc == 2 && text_equal(argv[1], "--version")) {
        (void)printf("dpuctl %s\n", VERSION_TEXT);
        return EXIT_SUCCESS;
    }
    if (argc > 1 && !is_help) {
        (void)fprintf(stderr, "%s: unknown command '%s'\n\n", called(argv[0]), argv[1]);
    }
    print_usage(called(argv[0]), is_help ? stdout : stderr);
    return is_help ? EXIT_SUCCESS : ADMIN_EXIT_USAGE;
}
