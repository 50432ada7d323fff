/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl: finds the command. Each is a module of its own. */
#include "base/attr.h"
#include "base/text.h"
#include "dpuctl/admin_options.h"
#include "dpuctl/commands.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static const struct command {
    const char *words[2]; /* the second may be NULL */
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {{"status", NULL}, status_main, "is the DPU of this node ready, and how is that known?"},
    {{"watch", NULL}, watch_main, "each change of the readiness, live"},
    {{"doctor", NULL}, doctor_main, "which link of the chain is broken, and how to mend it"},
    {{"dra", "watch"}, dra_watch_main, "what a kubelet would know of the DPU as a DRA device"},
};

static void print_usage(FILE *out)
{
    (void)fputs("Usage: dpuctl COMMAND [OPTION]...\n\n", out);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        int used = fprintf(out, "  %s%s%s", c->words[0], c->words[1] ? " " : "",
                           c->words[1] ? c->words[1] : "");
        (void)fprintf(out, "%*s%s\n", 14 - used, "", c->help);
    }
    (void)fputs("\nEach command has --help.\n", out);
}

int main(int argc, char **argv)
{
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
        (void)puts("dpuctl " DPU_VERSION);
        return EXIT_SUCCESS;
    }
    print_usage(is_help ? stdout : stderr);
    return is_help ? EXIT_SUCCESS : ADMIN_EXIT_USAGE;
}
