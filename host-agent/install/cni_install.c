/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_install.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "host-agent/install/conflist_plan.h"
#include "loop/daemon.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define MOD "cni"

#define SETTLE_NS (100 * NS_PER_MS) /* an owner that writes in two steps is looked at once */
#define AGAIN_NS  NS_PER_SEC        /* between two writes of ours; while another agent keeps it */
#define RETRY_NS  (30 * NS_PER_SEC) /* after a failure, or while the directory is not there */

enum {
    EXIT_USAGE = 2,
    NAME_BYTES = 256,
    DIR_MAX_BYTES = 2048,
    GATE_MODE = 0755,
    CONFLIST_MODE = 0600
};

enum {
    GATE_MAX_BYTES = 64 << 20,
    /* A plan, and so a conflist, holds each part of its source twice at most, and little more. */
    PLAN_MAX_BYTES = 3 * CONFLIST_MAX_BYTES,
};

/* ---- options --------------------------------------------------------------------------------- */

/* The configuration of dpu-gate, beside the source: it sorts before that, because a runtime takes
 * the first one by name. */
static const char *conflist_name(const struct cni_options *o)
{
    return strcmp(o->source, "05-dpu-gate.conflist") > 0 ? "05-dpu-gate.conflist"
                                                         : "00-dpu-gate.conflist";
}

static bool is_file_name(const char *name)
{
    return !text_is_empty(name) && !strchr(name, '/') && name[0] != '.' && strlen(name) < 200;
}

int cni_options_check(const struct cni_options *o, const struct option_origins *origins,
                      struct err *e)
{
    if (o->conf_dir[0] != '/' || strlen(o->conf_dir) > DIR_MAX_BYTES) {
        return option_refuse(origins, "cni-conf-dir", o->conf_dir, "an absolute path", e);
    }
    if (!is_file_name(o->source)) {
        return option_refuse(origins, "cni-source", o->source,
                             "the name of a file in --cni-conf-dir", e);
    }
    if (strcmp(o->source, conflist_name(o)) <= 0) {
        return option_refuse(origins, "cni-source", o->source,
                             "a name that sorts behind 00-dpu-gate.conflist", e);
    }
    return 0;
}

/* What became of the conflist. */
struct wiring {
    bool changed;            /* it was written */
    bool has_source;         /* the source is there */
    char bypass[NAME_BYTES]; /* a configuration that sorts before ours; "": none */
};

/* ---- files ----------------------------------------------------------------------------------- */

static void join(const char *dir, const char *name, char out[static PATH_MAX])
{
    text_format(out, PATH_MAX, "%s/%s", dir, name); /* it fits: the options are bounded */
}

/* A regular file that nobody else owns or may write. */
static bool is_our_file(const char *path, struct stat *out)
{
    return lstat(path, out) == 0 && S_ISREG(out->st_mode) && out->st_uid == geteuid() &&
           (out->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool stands_already(const char *path, const struct buf *bytes, mode_t mode)
{
    struct stat found;
    CLEANUP(buf) struct buf old;
    buf_init(&old, bytes->len);
    return is_our_file(path, &found) && (found.st_mode & 07777) == mode &&
           (size_t)found.st_size == bytes->len && file_read(path, &old, NULL) == 0 &&
           old.len == bytes->len && memcmp(buf_text(&old), buf_text(bytes), bytes->len) == 0;
}

/* Also writes the same bytes under another owner or mode. What killed attempts left beside it a
 * minute ago or more is removed. */
static int put_file(const char *path, const struct buf *bytes, mode_t mode, bool *changed,
                    struct err *e)
{
    *changed = !stands_already(path, bytes, mode);
    if (!*changed) {
        file_sweep(path);
        return 0;
    }
    return file_replace(path, bytes->data, bytes->len, mode, e);
}

/* It not being there is fine. */
static int remove_file(const char *path, struct err *e)
{
    bool is_removed = unlink(path) == 0;
    int why = errno;
    file_sweep(path);
    if (!is_removed && why != ENOENT) {
        return err_set_errno(e, ERR_IO, why, "removing '%s'", path);
    }
    log_info(MOD, "'%s' %s", path, is_removed ? "was removed" : "is not there");
    if (is_removed) {
        file_flush_directory(path);
    }
    return 0;
}

static bool is_configuration(const struct dirent *entry)
{
    return entry->d_type != DT_DIR && names_is_cni_configuration(entry->d_name);
}

/* ---- the conflist ---------------------------------------------------------------------------- */

/* Runtimes take the first configuration by name. */
static void find_bypass(const struct cni_options *o, char out[static NAME_BYTES])
{
    out[0] = '\0';
    CLEANUP(dir) DIR *dir = opendir(o->conf_dir);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        const char *first = out[0] != '\0' ? out : conflist_name(o);
        if (strcmp(entry->d_name, first) < 0 && is_configuration(entry)) {
            text_format(out, NAME_BYTES, "%s", entry->d_name);
        }
    }
}

/* A configuration in the directory whose first plugin is dpu-gate, whatever its name is. */
static bool find_gated(const struct cni_options *o, char out[static NAME_BYTES])
{
    char path[PATH_MAX];
    CLEANUP(dir) DIR *dir = opendir(o->conf_dir);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        CLEANUP(buf) struct buf text;
        buf_init(&text, PLAN_MAX_BYTES);
        join(o->conf_dir, entry->d_name, path);
        if (is_configuration(entry) && file_read(path, &text, NULL) == 0 &&
            conflist_is_gated(buf_text(&text), text.len)) {
            text_format(out, NAME_BYTES, "%s", entry->d_name);
            return true;
        }
    }
    return false;
}

/* Without its source (`source` NULL), a wrapping conflist that was made when it was there says
 * more, and stays. A chain would go on as if nothing were missing: a wrapping one of the same name
 * takes its place. */
static int put_plan(const char *path, const struct buf *source, struct conflist_request *request,
                    bool *changed, struct err *e)
{
    struct stat found;
    CLEANUP(buf) struct buf old;
    CLEANUP(buf) struct buf plan;
    buf_init(&old, PLAN_MAX_BYTES);
    buf_init(&plan, PLAN_MAX_BYTES);
    if (!source && is_our_file(path, &found) && file_read(path, &old, NULL) == 0 &&
        conflist_is_gated(buf_text(&old), old.len)) {
        if (conflist_wraps(buf_text(&old), old.len, request->source_path)) {
            return put_file(path, &old, CONFLIST_MODE, changed, e);
        }
        request->standing = buf_text(&old);
        request->standing_len = old.len;
    }
    int rc = conflist_plan(source ? buf_text(source) : NULL, source ? source->len : 0, request,
                           &plan, e);
    if (rc != 0) {
        return source ? err_wrap(e, "'%s' cannot be wrapped", request->source_path) : rc;
    }
    return put_file(path, &plan, CONFLIST_MODE, changed, e);
}

/* By the source as it is now. A source that cannot be understood leaves an older conflist as it is.
 * Errors: ERR_PARSE naming what is wrong with the source, ERR_IO. */
static int put_conflist(const struct cni_options *o, const char *readiness_file, struct wiring *out,
                        struct err *e)
{
    char source[PATH_MAX];
    char conflist[PATH_MAX];
    CLEANUP(buf) struct buf text;
    buf_init(&text, CONFLIST_MAX_BYTES);
    join(o->conf_dir, o->source, source);
    join(o->conf_dir, conflist_name(o), conflist);
    int rc = file_read(source, &text, e);
    if (rc != 0 && rc != ERR_NOTFOUND) {
        return rc;
    }
    out->has_source = rc == 0;
    find_bypass(o, out->bypass);
    struct conflist_request request = {.source_path = source, .readiness_file = readiness_file};
    return put_plan(conflist, out->has_source ? &text : NULL, &request, &out->changed, e);
}

static void warn_of_bypass(const struct cni_options *o, const char *bypass)
{
    if (strstr(bypass, "multus")) {
        log_info(MOD,
                 "'%s/%s' comes first: Multus has to call '%s' as its cluster network, and to be "
                 "of a version that passes STATUS on; 'dpuctl doctor' looks",
                 o->conf_dir, bypass, conflist_name(o));
    } else if (bypass[0] != '\0') {
        log_warn(MOD,
                 "'%s/%s' sorts before '%s': the container runtime takes it, past dpu-gate; rename "
                 "one of them",
                 o->conf_dir, bypass, conflist_name(o));
    }
}

/* ---- the subcommands ------------------------------------------------------------------------- */

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

static int command_check(void *config, const struct option_origins *origins, struct err *e)
{
    struct command_config *c = config;
    int rc = cni_options_check(&c->cni, origins, e);
    if (rc != 0) {
        return rc;
    }
    if (c->bin_dir[0] != '/' || strlen(c->bin_dir) > DIR_MAX_BYTES) {
        return err_set(e, ERR_PARSE, "--cni-bin-dir '%s' is not an absolute path", c->bin_dir);
    }
    if (c->readiness_file && c->readiness_file[0] != '/') {
        return err_set(e, ERR_PARSE, "--readiness-file '%s' is not an absolute path",
                       c->readiness_file);
    }
    return 0;
}

static int put_gate(const struct command_config *c, struct err *e)
{
    char path[PATH_MAX];
    bool changed = false;
    CLEANUP(buf) struct buf program;
    buf_init(&program, GATE_MAX_BYTES);
    int rc = file_read(c->gate, &program, e);
    if (rc != 0) {
        return rc;
    }
    if (program.len < 4 || memcmp(program.data, "\177ELF", 4) != 0) {
        return err_set(e, ERR_PARSE, "'%s' is no program", c->gate);
    }
    join(c->bin_dir, "dpu-gate", path);
    rc = put_file(path, &program, GATE_MODE, &changed, e);
    if (rc == 0) {
        log_info(MOD, "'%s' %s", path, changed ? "was installed" : "is up to date");
    }
    return rc;
}

static int install(const struct command_config *c, struct err *e)
{
    struct wiring wiring = {.changed = false};
    int rc = put_gate(c, e);
    if (rc != 0 || (rc = put_conflist(&c->cni, c->readiness_file, &wiring, e)) != 0) {
        return rc;
    }
    log_info(MOD, "'%s/%s' %s", c->cni.conf_dir, conflist_name(&c->cni),
             wiring.changed ? "was written" : "is up to date");
    if (!wiring.has_source) {
        log_warn(MOD,
                 "there is no '%s/%s' yet: the node's network counts as not ready until it is "
                 "written",
                 c->cni.conf_dir, c->cni.source);
    }
    warn_of_bypass(&c->cni, wiring.bypass);
    return 0;
}

/* Errors: ERR_PARSE if it is somebody else's, ERR_IO. */
static int remove_conflist(const struct cni_options *o, struct err *e)
{
    char conflist[PATH_MAX];
    CLEANUP(buf) struct buf text;
    buf_init(&text, PLAN_MAX_BYTES);
    join(o->conf_dir, conflist_name(o), conflist);
    int rc = file_read(conflist, &text, e);
    if (rc != 0 && rc != ERR_NOTFOUND) {
        return rc;
    }
    if (rc == 0 && !conflist_is_gated(buf_text(&text), text.len)) {
        return err_set(e, ERR_PARSE, "'%s' has not dpu-gate as its first plugin: it stays",
                       conflist);
    }
    return remove_file(conflist, e);
}

static int uninstall(const struct command_config *c, struct err *e)
{
    char other[NAME_BYTES];
    char program[PATH_MAX];
    int rc = remove_conflist(&c->cni, e);
    if (rc != 0) {
        return rc;
    }
    /* Installed in front of another source, or put back by an agent with --cni-sync. */
    if (find_gated(&c->cni, other)) {
        return err_set(e, ERR_CONFLICT, "'%s/%s' still calls dpu-gate: remove it, too",
                       c->cni.conf_dir, other);
    }
    join(c->bin_dir, "dpu-gate", program);
    if (c->remove_binary) {
        return remove_file(program, e);
    }
    log_info(MOD,
             "'%s' stays for pods that were added through it; remove it with --remove-binary once "
             "they are gone",
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
     "Puts dpu-gate in front of this node's CNI plugin: the program first, then the "
     "configuration. Does nothing where both stand already.",
     install_rows, ARRAY_LEN(install_rows), install},
    {"uninstall-cni", "dpu-host-agent uninstall-cni",
     "Takes dpu-gate out of the way again: removes its configuration. The program stays for the "
     "pods that were added through it.",
     uninstall_rows, ARRAY_LEN(uninstall_rows), uninstall},
};

static int command_run(const struct command *command, int argc, char **argv, char **env)
{
    const struct option_program program = {.name = command->name,
                                           .summary = command->summary,
                                           .env_prefix = "DPU_HEARTBEAT_",
                                           .rows = command->rows,
                                           .row_count = command->row_count,
                                           .check = command_check,
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
            *exit_status = command_run(&commands[i], argc - 1, argv + 1, env);
            return true;
        }
    }
    return false;
}

/* ---- in step --------------------------------------------------------------------------------- */

struct cni_sync {
    const struct cni_options *options;
    const char *readiness_file;
    struct dir_watch watch;
    int lock_fd; /* of the directory; -1: not locked */
    struct boot_timer *timer;
    struct mono look_at;
    struct wiring last;
    struct mono written_at; /* 0: there was no look yet */
    struct log_repeat complaint;
    struct log_repeat repaired;
    struct log_repeat kept_by_another;
};

/* An earlier look that is due already stays: who writes all the time does not put it off. */
static void look_in(struct cni_sync *s, int64_t wait_ns)
{
    s->look_at = mono_min(s->look_at, mono_add(clock_mono_now(), wait_ns));
    boot_timer_arm(s->timer, s->look_at);
}

static void unlock_directory(struct cni_sync *s)
{
    cleanup_fd(&s->lock_fd);
    s->lock_fd = -1;
}

/* Of two agents that write one conflist, each by its own options, the gate would follow both in
 * turn. False while another one has the directory's lock; one that is not there is locked later. */
static bool lock_directory(struct cni_sync *s)
{
    struct stat locked;
    struct stat now;
    const char *path = s->options->conf_dir;
    if (s->lock_fd >= 0 && fstat(s->lock_fd, &locked) == 0 && stat(path, &now) == 0 &&
        locked.st_dev == now.st_dev && locked.st_ino == now.st_ino) {
        return true;
    }
    unlock_directory(s);
    s->lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock_fd < 0 || flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0) {
        return true;
    }
    bool is_taken = errno == EWOULDBLOCK;
    unlock_directory(s);
    return !is_taken;
}

static void sync_report(struct cni_sync *s, const struct wiring *now)
{
    const struct cni_options *o = s->options;
    bool is_first = s->written_at.ns == 0;
    if (now->changed) {
        log_limited(&s->repaired, LOG_AGAIN_NS, LOG_INFO, MOD, "'%s/%s' was written anew",
                    o->conf_dir, conflist_name(o));
    }
    if (!now->has_source && (s->last.has_source || is_first)) {
        log_warn(MOD, "'%s/%s' is gone: the node's network counts as not ready until it is back",
                 o->conf_dir, o->source);
    } else if (now->has_source && !s->last.has_source && !is_first) {
        log_info(MOD, "'%s/%s' is there", o->conf_dir, o->source);
    }
    if (!text_equal(now->bypass, s->last.bypass)) {
        warn_of_bypass(o, now->bypass);
    }
}

static void on_look(void *user)
{
    struct cni_sync *s = user;
    const struct cni_options *o = s->options;
    struct wiring now = {.changed = false};
    struct err e = ERR_INIT;
    s->look_at = MONO_NEVER;
    if (!lock_directory(s)) {
        log_limited(&s->kept_by_another, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "another dpu-host-agent keeps '%s/%s' in step, so this one waits until that "
                    "ends; set cni-sync for the agent of one DPU only",
                    o->conf_dir, conflist_name(o));
        look_in(s, AGAIN_NS);
        return;
    }
    /* Before looking, so that nothing is missed. */
    bool is_watched =
        dir_watch_add(&s->watch, o->conf_dir,
                      DIR_WATCH_NAMES | IN_CREATE /* a link */ | IN_CLOSE_WRITE | IN_ONLYDIR);
    if (put_conflist(o, s->readiness_file, &now, &e) != 0) {
        log_limited(&s->complaint, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "%s; what dpu-gate has stays as it is, will look again", e.msg);
        look_in(s, RETRY_NS);
        return;
    }
    log_repeat_reset(&s->complaint);
    sync_report(s, &now);
    s->last = now;
    if (now.changed || s->written_at.ns == 0) {
        s->written_at = clock_mono_now();
    }
    if (!is_watched) {
        look_in(s, RETRY_NS);
    }
}

static void on_changed(void *user)
{
    struct cni_sync *s = user;
    bool is_recent = mono_since(clock_mono_now(), s->written_at) < AGAIN_NS;
    look_in(s, is_recent ? AGAIN_NS : SETTLE_NS);
}

struct cni_sync *cni_sync_start(struct ev_loop *loop, const struct cni_options *options,
                                const char *readiness_file)
{
    struct cni_sync *s = MEM_NEW(struct cni_sync);
    s->lock_fd = -1;
    s->options = options;
    s->readiness_file = readiness_file;
    s->look_at = MONO_NEVER;
    s->timer = boot_timer_new(loop, on_look, s);
    dir_watch_start(&s->watch, loop, on_changed, s);
    look_in(s, 0);
    return s;
}

void cni_sync_stop(struct cni_sync *s)
{
    if (s) {
        dir_watch_stop(&s->watch);
        boot_timer_free(s->timer);
        unlock_directory(s);
        free(s);
    }
}
