/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/configuration.md from the option tables; a test compares the two. */
#include "dpu-agent/dpu_options.h"
#include "dra-driver/driver.h"
#include "host-agent/host_options.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char intro[] =
    "# Configuration\n"
    "\n"
    "This page lists every option of the programs, generated from their option tables (`./dev "
    "fmt`).\n"
    "\n"
    "You can give each option four ways, the stronger first: the flag `--option=VALUE`, an "
    "environment variable, a line\n"
    "`option: VALUE` in the YAML file of `--config` (environment `DPU_HEARTBEAT_CONFIG`), the "
    "default. The environment variable\n"
    "of `stale-hold` is `DPU_HEARTBEAT_STALE_HOLD`, and so on; *also* lists names that platforms "
    "use. The first that is set\n"
    "and not empty counts. A *list* is a repeated flag or a YAML sequence and has no environment "
    "variable; flags replace the\n"
    "whole list of the file.\n"
    "\n"
    "Durations are seconds (`10`, `0.5`) or have a unit (`500ms`, `10s`, `1m`, `2h`). A value has "
    "at most 4096 bytes, a list 64\n"
    "items, the file 64 KiB. A mistake is an error that names the source, the value and what is "
    "allowed; the agent does not start.\n";

/* The row of that name that says the same; NULL if there is none. */
static const struct option_row *same_row(const struct option_program *program,
                                         const struct option_row *row)
{
    for (size_t i = 0; i < program->row_count; i++) {
        const struct option_row *other = &program->rows[i];
        if (strcmp(other->name, row->name) == 0 && strcmp(other->help, row->help) == 0 &&
            (other->default_text == row->default_text ||
             (other->default_text && row->default_text &&
              strcmp(other->default_text, row->default_text) == 0))) {
            return other;
        }
    }
    return NULL;
}

static void print_row(const struct option_row *row)
{
    char range[OPTION_RANGE_BYTES];
    option_range(row, range);
    bool has_default = row->default_text && row->default_text[0] != '\0';
    (void)printf("- **`%s`**%s: %s", row->name, row->type == OPTION_LIST ? " (list)" : "",
                 row->help);
    if (has_default) {
        (void)printf(" Default: `%s`.", row->default_text);
    }
    if (range[0] != '\0' && row->type != OPTION_BOOL) {
        (void)printf(" Allowed: %s.", range);
    }
    for (size_t i = 0; i < ARRAY_LEN(row->env) && row->env[i]; i++) {
        (void)printf("%s%s", i == 0 ? " *Also* " : ", ", row->env[i]);
    }
    (void)fputs(row->env[0] ? ".\n" : "\n", stdout);
}

enum { DPU, HOST, DRIVER, PROGRAMS };

/* The rows of `program` that those of the bits in `alike` have alike, and no others. */
static void print_rows(const struct option_program *const programs[static PROGRAMS], int program,
                       unsigned alike)
{
    for (size_t i = 0; i < programs[program]->row_count; i++) {
        const struct option_row *row = &programs[program]->rows[i];
        unsigned found = 0;
        for (unsigned p = 0; p < PROGRAMS; p++) {
            found |= same_row(programs[p], row) ? 1U << p : 0;
        }
        if (found == alike) {
            print_row(row);
        }
    }
}

int main(void)
{
    static const struct {
        const char *title;
        int program;
        unsigned alike;
    } parts[] = {
        {"All programs", DPU, 1U << DPU | 1U << HOST | 1U << DRIVER},
        {"Both agents", DPU, 1U << DPU | 1U << HOST},
        {"dpu-host-agent and dpu-dra-driver", HOST, 1U << HOST | 1U << DRIVER},
        {"dpu-agent", DPU, 1U << DPU},
        {"dpu-host-agent", HOST, 1U << HOST},
        {"dpu-dra-driver", DRIVER, 1U << DRIVER},
    };
    const struct option_program *const programs[PROGRAMS] = {
        dpu_options_program(), host_options_program(), driver_options_program()};
    (void)fputs(intro, stdout);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const struct option_program *p = programs[parts[i].program];
        bool is_one = strcmp(parts[i].title, p->name) == 0;
        (void)printf("\n## %s\n\n", parts[i].title);
        if (is_one) {
            (void)printf("%s\n\n", p->summary);
        }
        print_rows(programs, parts[i].program, parts[i].alike);
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
