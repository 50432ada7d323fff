/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/configuration.md from the option tables; a test compares the two. */
#include "dpu-agent/dpu_options.h"
#include "host-agent/host_options.h"

#include <stdio.h>
#include <stdlib.h>

static const char intro[] =
    "# Configuration\n"
    "\n"
    "Generated from the option tables (`./dev fmt` writes it, a test keeps it current).\n"
    "\n"
    "Each option can be given four ways, the stronger first: the flag `--option=VALUE`, an\n"
    "environment variable, a line `option: VALUE` in the YAML file of `--config` (environment\n"
    "`DPU_HEARTBEAT_CONFIG`), the default. Where several environment names are listed, the first\n"
    "that is set and not empty counts. A list is a repeated flag or a YAML sequence;\n"
    "the flags replace the whole list of the file.\n"
    "\n"
    "Durations are seconds (`10`, `0.5`) or have a unit (`500ms`, `10s`, `1m`, `2h`). A mistake "
    "is\n"
    "an error that names the source, the value and what is allowed; the agent does not start.\n"
    "A value has at most 4096 bytes, a list 64 items, the file 64 KiB.\n"
    "\n";

/* Text inside a Markdown table: '|' would end the cell. */
static void print_cell(const char *text)
{
    for (const char *c = text; *c; c++) {
        (void)fputs(*c == '|' ? "\\|" : (char[]){*c, '\0'}, stdout);
    }
}

static void print_program(const struct option_program *program)
{
    (void)printf("## %s\n\n%s\n\n", program->name, program->summary);
    (void)printf("| option | default | allowed | environment | meaning |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < program->row_count; i++) {
        const struct option_row *row = &program->rows[i];
        const char *quote = row->default_text ? "`" : "";
        struct option_facts facts;
        option_describe(program, row, &facts);
        (void)printf("| `%s` | %s%s%s | ", row->name, quote,
                     row->default_text ? row->default_text : "", quote);
        print_cell(facts.range);
        (void)printf(" | %s | ", facts.env);
        print_cell(row->help);
        (void)fputs(row->type == OPTION_LIST ? " Repeatable. |\n" : " |\n", stdout);
    }
}

int main(void)
{
    (void)fputs(intro, stdout);
    print_program(dpu_options_program());
    (void)fputs("\n", stdout);
    print_program(host_options_program());
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
