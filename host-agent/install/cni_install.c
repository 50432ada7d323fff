/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_install.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "host-agent/install/wiring.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOD "cni"

enum { GATE_MODE = 0755, GATE_MAX_BYTES = 64 << 20 };

/* ---- options --------------------------------------------------------------------------------- */

int cni_options_check(const struct cni_options *o, const struct option_origins *origins,
                      struct err *e)
{
    if (strchr(o->source, '/') || o->source[0] == '.') {
        return option_refuse(origins, "cni-source", o->source,
                             "the name of a file in --cni-conf-dir", e);
    }
    if (strcmp(o->source, "00-dpu-gate.conflist") <= 0) {
        return option_refuse(origins, "cni-source", o->source,
                             "a name that sorts after 00-dpu-gate.conflist", e);
    }
    return 0;
}

/* ---- the subcommands ------------------------------------------------------------------------- */

struct command_config {
    struct cni_options cni;
    char *gate;
    char *readiness_file;
    bool remove_binary;
    int log_format;
};

#define ROW(option, kind, member) OPTION_ROW(option, kind, struct command_config, member)

/* clang-format off */
#define SHARED_ROWS \
    CNI_OPTION_ROWS(struct command_config, cni), \
    {ROW("log-format", OPTION_CHOICE, log_format), .choices = "text|json", \
     .default_text = "text", .help = "The format of log lines."}

static const struct option_row install_rows[] = {
    SHARED_ROWS,
    {ROW("gate-binary", OPTION_TEXT, gate), .default_text = DPU_GATE_PATH, .placeholder = "FILE",
     .help = "The program dpu-gate to install."},
    {ROW("readiness-file", OPTION_PATH, readiness_file), .default_text = NAMES_READINESS_FILE,
     .min = 1, .placeholder = "FILE", .help = "The readiness record that the agent writes."},
};

static const struct option_row uninstall_rows[] = {
    SHARED_ROWS,
    {ROW("remove-binary", OPTION_BOOL, remove_binary), .default_text = "false",
     .help = "Remove the program dpu-gate too. Wait until all Pods that were added through it "
             "are gone, because removing a Pod calls it again."},
};
/* clang-format on */

static int command_check(void *config, const struct option_origins *origins, struct err *e)
{
    const struct command_config *c = config;
    return cni_options_check(&c->cni, origins, e);
}

static int put_gate(const struct command_config *c, struct err *e)
{
    char path[PATH_MAX];
    bool changed = false;
    CLEANUP(buf) struct buf program = {.max_bytes = GATE_MAX_BYTES};
    int rc = file_read(c->gate, &program, e);
    if (rc != 0) {
        return rc;
    }
    if (program.len < 4 || memcmp(program.data, "\177ELF", 4) != 0) {
        return err_set(e, ERR_PARSE, "'%s' is not an executable program", c->gate);
    }
    wiring_join(c->cni.bin_dir, "dpu-gate", path);
    rc = wiring_put_file(path, &program, GATE_MODE, &changed, e);
    if (rc == 0) {
        log_info(MOD, "'%s' %s", path, changed ? "was installed" : "is up to date");
    }
    return rc;
}

static int install(const struct command_config *c, struct err *e)
{
    const struct cni_options *o = &c->cni;
    CLEANUP(wiring) struct wiring w = {.stands = false};
    int rc = put_gate(c, e);
    if (rc != 0 || (rc = wiring_look(o, c->readiness_file, &w, e)) != 0 ||
        (rc = wiring_write(o, &w, e)) != 0) {
        return rc;
    }
    log_info(MOD, "'%s/%s' %s", o->conf_dir, w.ours, w.stands ? "is up to date" : "was written");
    if (w.source[0] == '\0') {
        log_warn(MOD,
                 "'%s/%s' does not exist yet: the node's network is not ready until another "
                 "program writes it",
                 o->conf_dir, o->source);
    } else if (!text_equal(w.source, o->source)) {
        log_warn(MOD, CNI_SOURCE_MOVED, o->conf_dir, o->source, w.source);
    }
    wiring_warn_of_bypass(o, &w);
    return 0;
}

static int uninstall(const struct command_config *c, struct err *e)
{
    char other[WIRING_NAME_BYTES];
    char program[PATH_MAX];
    int rc = wiring_remove(&c->cni, e);
    if (rc != 0) {
        return rc;
    }
    /* Installed in front of another source, or put back by an agent with --cni-sync. */
    wiring_find_gate(&c->cni, other);
    if (other[0] != '\0') {
        return err_set(e, ERR_CONFLICT, "'%s/%s' still calls dpu-gate: remove that file first",
                       c->cni.conf_dir, other);
    }
    wiring_join(c->cni.bin_dir, "dpu-gate", program);
    if (c->remove_binary) {
        return wiring_remove_file(program, e);
    }
    log_info(MOD,
             "keeping '%s' for Pods that were added through it; once they are gone, remove it with "
             "--remove-binary",
             program);
    return 0;
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
     "Puts dpu-gate in front of this node's CNI plugin: first the program, then the "
     "configuration. Does nothing if both are up to date.",
     install_rows, ARRAY_LEN(install_rows), install},
    {"uninstall-cni", "dpu-host-agent uninstall-cni",
     "Removes the configuration of dpu-gate. The program stays for Pods that were added through "
     "it.",
     uninstall_rows, ARRAY_LEN(uninstall_rows), uninstall},
};

bool cni_commands_take(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        for (size_t k = 0; k < commands[i].row_count; k++) {
            if (text_equal(commands[i].rows[k].name, key)) {
                return true;
            }
        }
    }
    return false;
}

static int command_run(const struct command *command, int argc, char **argv, char **env)
{
    const struct option_program program = {.name = command->name,
                                           .summary = command->summary,
                                           .env_prefix = "DPU_HEARTBEAT_",
                                           .rows = command->rows,
                                           .row_count = command->row_count,
                                           .check = command_check,
                                           .shared_file = NAMES_HOST_AGENT_CONFIG};
    struct command_config config = {.gate = NULL};
    struct err e = ERR_INIT;
    int status;
    if (option_take(&program, argc, argv, env, &config, &status)) {
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
            *exit_status = command_run(&commands[i], argc - 1, argv + 1, env);
            return true;
        }
    }
    return false;
}
