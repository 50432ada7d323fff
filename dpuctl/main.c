/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl: finds the command. Each is a module of its own. */
#include "base/attr.h"
#include "base/text.h"
#include "base/version.h"
#include "dpuctl/options.h"
#include "loop/daemon.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
    const char *words[2]; /* the second may be NULL */
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {{"nodes", NULL}, nodes_main, "every DPU of the cluster, what is broken first"},
    {{"status", NULL}, status_main, "is the DPU of this node ready, and how is that known?"},
    {{"watch", NULL}, watch_main, "each change of the readiness, live"},
    {{"doctor", NULL}, doctor_main, "which link of the chain is broken, and how to mend it"},
    {{"pods", NULL}, pods_main, "which pods of this node have lost their network"},
    {{"dra", "watch"}, dra_watch_main, "what a kubelet would know of the DPU as a DRA device"},
};

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

int main(int argc, char **argv)
{
    daemon_use_memory();
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        int words = c->words[1] ? 2 : 1;
        if (argc > words && text_equal(argv[1], c->words[0]) &&
            (words == 1 || text_equal(argv[2], c->words[1]))) {
            return c->run(argc - words, argv + words);
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
