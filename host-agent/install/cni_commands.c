/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_commands.h"

#include "base/log.h"
#include "base/text.h"
#include "contract/names.h"
#include "host-agent/install/cni_files.h"
#include "host-agent/install/cni_wiring.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define MOD "cni"

enum { EXIT_USAGE = 2 };

struct command_config {
    struct cni_options cni;
    char *bin_dir;
    char *gate;
    char *readiness_file;
    bool remove_binary;
    int log_format;
};

/* clang-format off */
#define BIN_DIR_ROW \
    {.name = "cni-bin-dir", .type = OPTION_TEXT, .offset = offsetof(struct command_config, bin_dir), \
     .default_text = "/opt/cni/bin", .placeholder = "DIR", \
     .help = "Where the container runtime looks for CNI plugins."}
#define LOG_FORMAT_ROW \
    {.name = "log-format", .type = OPTION_CHOICE, \
     .offset = offsetof(struct command_config, log_format), .choices = "text|json", \
     .default_text = "text", .help = "How a log line looks."}

static const struct option_row install_rows[] = {
    CNI_OPTION_ROWS(struct command_config, cni),
    BIN_DIR_ROW,
    {.name = "gate-binary", .type = OPTION_TEXT, .offset = offsetof(struct command_config, gate),
     .default_text = DPU_GATE_PATH, .placeholder = "FILE", .help = "The dpu-gate to install."},
    {.name = "readiness-file", .type = OPTION_TEXT,
     .offset = offsetof(struct command_config, readiness_file),
     .default_text = NAMES_READINESS_FILE, .placeholder = "FILE",
     .help = "Where the agent writes the readiness record."},
    LOG_FORMAT_ROW,
};

static const struct option_row uninstall_rows[] = {
    CNI_OPTION_ROWS(struct command_config, cni),
    BIN_DIR_ROW,
    {.name = "remove-binary", .type = OPTION_BOOL,
     .offset = offsetof(struct command_config, remove_binary), .default_text = "false",
     .help = "Remove dpu-gate, too. Only once no pod is left that was added through it: its removal "
             "calls it again."},
    LOG_FORMAT_ROW,
};
/* clang-format on */

static int check(void *config, const struct option_origins *origins, struct err *e)
{
    struct command_config *c = config;
    int rc = cni_options_check(&c->cni, origins, e);
    if (rc == 0 && c->bin_dir[0] != '/') {
        return err_set(e, ERR_PARSE, "--cni-bin-dir '%s' is not an absolute path", c->bin_dir);
    }
    if (rc == 0 && c->readiness_file && c->readiness_file[0] != '/') {
        return err_set(e, ERR_PARSE, "--readiness-file '%s' is not an absolute path",
                       c->readiness_file);
    }
    return rc;
}

static int install(const struct command_config *c, struct err *e)
{
    struct cni_wiring wiring;
    bool new_gate = false;
    int rc = cni_wiring_put_gate(c->gate, c->bin_dir, &new_gate, e);
    if (rc != 0) {
        return rc;
    }
    log_info(MOD, "'%s/dpu-gate' %s", c->bin_dir, new_gate ? "was installed" : "is up to date");
    rc = cni_wiring_put_conflist(&c->cni, c->readiness_file, &wiring, e);
    if (rc != 0) {
        return rc;
    }
    log_info(MOD, "'%s/%s' %s", c->cni.conf_dir, c->cni.conflist,
             wiring.changed ? "was written" : "is up to date");
    if (!wiring.has_source) {
        log_warn(MOD,
                 "there is no '%s/%s' yet: the node's network counts as not ready until it is "
                 "written",
                 c->cni.conf_dir, c->cni.source);
    }
    cni_wiring_warn(&c->cni, &wiring);
    return 0;
}

static int uninstall_program(const struct command_config *c, struct err *e)
{
    char program[PATH_MAX];
    bool removed = false;
    text_format(program, sizeof(program), "%s/dpu-gate", c->bin_dir); /* cut: not found */
    if (!c->remove_binary) {
        log_info(MOD,
                 "'%s' stays for pods that were added through it; remove it with --remove-binary "
                 "once they are gone",
                 program);
        return 0;
    }
    int rc = cni_file_remove(program, &removed, e);
    if (rc == 0) {
        log_info(MOD, "'%s' %s", program, removed ? "was removed" : "is not there");
    }
    return rc;
}

static int uninstall(const struct command_config *c, struct err *e)
{
    char other[CNI_WIRING_NAME_BYTES];
    bool removed = false;
    int rc = cni_wiring_remove_conflist(&c->cni, &removed, e);
    if (rc != 0) {
        return rc;
    }
    log_info(MOD, "'%s/%s' %s", c->cni.conf_dir, c->cni.conflist,
             removed ? "was removed" : "is not there");
    /* Installed under another name, or put back by an agent with --cni-sync. */
    if (cni_wiring_find_gated(&c->cni, other)) {
        return err_set(e, ERR_CONFLICT,
                       "'%s/%s' still calls dpu-gate: remove it, too (--cni-conflist=%s)",
                       c->cni.conf_dir, other, other);
    }
    return uninstall_program(c, e);
}

static const struct command {
    const char *verb;
    const char *name;
    const char *summary;
    const struct option_row *rows;
    size_t row_count;
    int (*perform)(const struct command_config *c, struct err *e);
} commands[] = {
    {"install-cni", "dpu-host-agent install-cni",
     "Puts dpu-gate in front of this node's CNI plugin: the program first, then the "
     "configuration. Does nothing where both stand already.",
     install_rows, ARRAY_LEN(install_rows), install},
    {"uninstall-cni", "dpu-host-agent uninstall-cni",
     "Takes dpu-gate out of the way again: removes its configuration. The program stays for the "
     "pods that were added through it.",
     uninstall_rows, ARRAY_LEN(uninstall_rows), uninstall},
};

static int run(const struct command *command, int argc, char **argv, char **env)
{
    const struct option_program program = {.name = command->name,
                                           .summary = command->summary,
                                           .env_prefix = "DPU_HEARTBEAT_",
                                           .rows = command->rows,
                                           .row_count = command->row_count,
                                           .check = check,
                                           .shared_file = NAMES_HOST_AGENT_CONFIG};
    struct command_config config = {.bin_dir = NULL};
    struct err e = ERR_INIT;
    enum option_outcome outcome;
    int status = EXIT_SUCCESS;
    if (option_parse(&program, argc, argv, env, &config, &outcome, &e) != 0) {
        (void)fprintf(stderr, "%s: %s\nTry '%s --help'.\n", program.name, e.msg, program.name);
        status = EXIT_USAGE;
    } else if (outcome == OPTION_RUN) {
        log_setup(LOG_INFO, (enum log_format)config.log_format, "");
        if (command->perform(&config, &e) != 0) {
            log_error(MOD, "%s", e.msg);
            status = EXIT_FAILURE;
        }
    }
    option_fini(&program, &config);
    return status;
}

bool cni_commands_run(int argc, char **argv, char **env, int *exit_status)
{
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(commands); i++) {
        if (text_equal(argv[1], commands[i].verb)) {
            *exit_status = run(&commands[i], argc - 1, argv + 1, env);
            return true;
        }
    }
    return false;
}
