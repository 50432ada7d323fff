/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl: finds the command. Each is a module of its own. */
#include "base/attr.h"
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
    {{"nodes", NULL}, ADMIN_CLUSTER, nodes_run, "every DPU of the cluster, what is broken first",
     "Every DPU of the cluster in one table, what is broken first, by what the API server can tell: "
     "leases, Nodes, ResourceSlices and pods. Ages are counted on the API server's clock from the "
     "DPU's own stamps. Exit status: 0 all shown are Ready, 1 at least one is NotReady, 2 at least "
     "one is Unknown or the cluster could not be read, 64 wrong usage."},
    {{"status", NULL}, ADMIN_THIS_NODE, status_run,
     "is the DPU of this node ready, and how is that known?",
     "Is the DPU of this node ready, and how is that known? Looks at the readiness record, at what "
     "CNI makes of it and, with a kubeconfig, at the lease. Needs no agent to be alive. 'dpuctl "
     "status NODE' asks the API server about another node. Exit status: 0 ready, 1 not ready, 2 "
     "unknown, 64 wrong usage."},
    {{"watch", NULL}, ADMIN_THIS_NODE, watch_run, "each change of the readiness, live",
     "Shows each change of this node's readiness as dpu-gate sees it, at the moment it takes "
     "effect: a line per change. Needs no agent to be alive."},
    {{"doctor", NULL}, ADMIN_THIS_NODE, doctor_run,
     "which link of the chain is broken, and how to mend it",
     "Checks the whole chain from the DPU to a pod, link by link, and says how to mend what is "
     "broken. 'dpuctl doctor NODE' does that for another node, as far as the API server knows. "
     "Changes nothing, and needs no agent to be alive. Run it as root on the node, with the "
     "agent's own kubeconfig. Exit status: 0 whole (warnings are allowed), 1 broken, 2 unknown "
     "(nothing is broken, but not everything could be looked at), 64 wrong usage."},
    {{"pods", NULL}, ADMIN_THIS_NODE, pods_run, "which pods of this node have lost their network",
     "The pods of this node, oldest first: when each was made, whether its network is there or lost "
     "(as when the DPU was reset), and what follows by --on-lost-network. Asks the container "
     "runtime and the kernel, and no agent. Run it as root on the node. Exit status: 0 none has "
     "lost it, 1 some have, 2 unknown (also of one pod only), 64 wrong usage."},
    {{"dra", "watch"}, ADMIN_DRA, dra_watch_run,
     "what a kubelet would know of the DPU as a DRA device",
     "Shows what a kubelet would know of a DRA plugin's devices: lines, or on a terminal a table."},
};

/* The same word, with the name of another node. */
static const struct command status_of_node = {
    {"status", NULL}, ADMIN_CLUSTER, status_of_node_run, NULL,
    "One node's DPU as the API server tells of it, and the command that tells the rest from the "
    "node itself. Exit status: 0 Ready, 1 NotReady, 2 Unknown, 64 wrong usage."};
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
    (void)fputs("\nstatus and doctor of a NODE ask the API server; without one they look at this "
                "node.\nEach command has --help.\n",
                out);
}

static int run_command(const struct command *c, int argc, char **argv)
{
    struct admin_config config;
    char name[32];
    int status;
    if (c->run == status_run && argc > 1 && argv[1][0] != '-') {
        c = &status_of_node;
    }
    text_format(name, sizeof(name), "dpuctl %s%s%s", c->words[0], c->words[1] ? " " : "",
                c->words[1] ? c->words[1] : "");
    if (!admin_options_parse(c->scope, name, c->summary, argc, argv, &config, &status)) {
        return status;
    }
    status = c->run(&config);
    admin_options_fini(&config);
    return status;
}

/* The usual status would be an answer: 1 is NotReady. */
_Noreturn void mem_exhausted(size_t bytes)
{
    static const char sentence[] =
        "dpuctl: out of memory: raise the memory limit of this process\n";
    (void)bytes;
    ssize_t written = write(STDERR_FILENO, sentence, sizeof(sentence) - 1);
    (void)written; /* nobody is left to tell */
    _exit(ADMIN_EXIT_NO_MEMORY);
}

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
    bool is_help = argc == 2 && (text_equal(argv[1], "--help") || text_equal(argv[1], "help"));
    if (argc == 2 && text_equal(argv[1], "--version")) {
        (void)printf("dpuctl %s\n", VERSION_TEXT);
        return EXIT_SUCCESS;
    }
    print_usage(called(argv[0]), is_help ? stdout : stderr);
    return is_help ? EXIT_SUCCESS : ADMIN_EXIT_USAGE;
}
