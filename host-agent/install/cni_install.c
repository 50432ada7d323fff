/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_install.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "loop/daemon.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define MOD "cni"

#define GATE_TYPE     "dpu-gate"
#define LAST_DELEGATE "lastDelegate"
/* Of ovn-kubernetes, while neither its file nor what stands tells the name. */
#define DEFAULT_NETWORK "\"ovn-kubernetes\""

enum { ESCAPED_BYTES = 6 /* of one character at most */, QUOTES_BYTES = 2 };

#define SETTLE_NS (100 * NS_PER_MS) /* an owner that writes in two steps is looked at once */
#define AGAIN_NS  NS_PER_SEC        /* between two writes of ours; while another agent keeps it */
#define RETRY_NS  (30 * NS_PER_SEC) /* after a failure, or while the directory is not there */

enum { EXIT_USAGE = 2, NAME_BYTES = 256, GATE_MODE = 0755, CONFLIST_MODE = 0600 };

enum {
    GATE_MAX_BYTES = 64 << 20,
    /* A plan, and so a conflist, holds each part of its source twice at most, and little more. */
    PLAN_MAX_BYTES = 3 * CONFLIST_MAX_BYTES,
};

/* ---- the source ------------------------------------------------------------------------------ */

/* Absent for what is no JSON. */
static struct json_slice read_conf(const char *text, size_t len)
{
    struct json_slice conf = {.at = NULL};
    return json_scan_check(text, len, &conf, NULL) == 0 ? conf : (struct json_slice){.at = NULL};
}

/* Absent for an empty one, too. */
static struct json_slice type_of(struct json_slice plugin)
{
    struct json_slice type;
    bool is_text = json_scan_field(plugin, "type", &type);
    return is_text && type.len > QUOTES_BYTES ? type : (struct json_slice){.at = NULL};
}

static bool is_gate(struct json_slice plugin)
{
    return json_scan_equals(type_of(plugin), GATE_TYPE);
}

/* Of a list, or of the plugin that the source is; absent: there is none. */
static struct json_slice first_plugin(struct json_slice conf)
{
    struct json_slice plugins = json_scan_member(conf, "plugins");
    return json_scan_kind(plugins) == JSON_KIND_ABSENT ? conf : json_scan_item(plugins, 0);
}

static int check_plugins(struct json_slice plugins, struct err *e)
{
    struct json_walk w = json_walk_start(plugins);
    if (json_scan_kind(plugins) != JSON_KIND_ARRAY || json_scan_count(plugins) == 0) {
        return err_set(e, ERR_PARSE, "its 'plugins' is not a list");
    }
    for (size_t i = 0; json_walk_next(&w); i++) {
        if (json_scan_kind(type_of(w.value)) == JSON_KIND_ABSENT) {
            return err_set(e, ERR_PARSE, "its plugin %zu has no type", i);
        }
        if (is_gate(w.value)) {
            return err_set(e, ERR_PARSE, "it already calls dpu-gate");
        }
    }
    return 0;
}

static int check_source(struct json_slice source, struct err *e)
{
    struct json_slice plugins = json_scan_member(source, "plugins");
    struct json_slice name = json_scan_member(source, "name");
    if (json_scan_kind(source) != JSON_KIND_OBJECT) {
        return err_set(e, ERR_PARSE, "it is not a JSON object");
    }
    if (json_scan_kind(name) != JSON_KIND_TEXT || name.len == QUOTES_BYTES) {
        return err_set(e, ERR_PARSE, "it names no network");
    }
    if (json_scan_kind(plugins) != JSON_KIND_ABSENT) {
        return check_plugins(plugins, e);
    }
    if (json_scan_kind(type_of(source)) == JSON_KIND_ABSENT) {
        return err_set(e, ERR_PARSE, "it has neither type nor plugins");
    }
    return is_gate(source) ? err_set(e, ERR_PARSE, "it already calls dpu-gate") : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The first failure stays; what follows it does nothing. */
struct plan {
    const struct conflist_request *request;
    struct json_slice source; /* absent: unknown */
    struct json_slice known;  /* the source, or what stands in its place */
    struct buf *out;
    struct err *e;
    int rc;
};

static void put(struct plan *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void put(struct plan *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    p->rc = p->rc != 0 ? p->rc : buf_vappendf(p->out, p->e, fmt, ap);
    va_end(ap);
}

#define SLICE(slice) (int)(slice).len, (slice).at /* for "%.*s": no JSON holds a NUL */

static void put_text_member(struct plan *p, const char *key, const char *text)
{
    char json[ESCAPED_BYTES * PATH_MAX + QUOTES_BYTES];
    char again[PATH_MAX];
    struct json_writer w = {.out = json, .max_bytes = sizeof(json)};
    json_put_text(&w, text);
    struct json_slice made = {.at = json, .len = w.used};
    if (p->rc == 0 && (w.overflow || !json_scan_text(made, again, sizeof(again)))) {
        char shown[NAMES_MESSAGE_BYTES];
        text_sanitize(shown, sizeof(shown), text, strlen(text));
        p->rc =
            err_set(p->e, ERR_PARSE, "'%.150s' cannot be written in JSON: it is not UTF-8", shown);
    }
    put(p, ", \"%s\": %.*s", key, SLICE(made));
}

/* The plugins of a list behind the first `skipped`, each after `between`, but for the first. */
static void put_plugins(struct plan *p, struct json_slice plugins, size_t skipped,
                        const char *between)
{
    struct json_walk w = json_walk_start(plugins);
    for (size_t i = 0; json_walk_next(&w); i++) {
        if (i >= skipped) {
            put(p, "%s%.*s", i > skipped ? between : "", SLICE(w.value));
        }
    }
}

/* By which pods are removed once the source is gone: its only plugin. Without one it is what stands
 * that tells: a copy, or the plugins behind the gate of a chain. */
static void put_last_delegate(struct plan *p)
{
    struct json_slice chain = json_scan_member(p->known, "plugins");
    struct json_slice last = first_plugin(p->known);
    last = p->source.len > 0 ? last : json_scan_member(last, LAST_DELEGATE);
    if (json_scan_kind(last) == JSON_KIND_OBJECT) {
        put(p, ",\n     \"" LAST_DELEGATE "\": %.*s", SLICE(last));
    } else if (json_scan_count(chain) > 1) {
        put(p, ",\n     \"" LAST_DELEGATE "\": {\"plugins\": [");
        put_plugins(p, chain, 1, ", ");
        put(p, "]}");
    }
}

/* The gate itself reads a wrapped source; without its capabilities the runtime sends nothing. */
static void put_gate_plugin(struct plan *p, bool wraps)
{
    struct json_slice capabilities = json_scan_member(first_plugin(p->known), "capabilities");
    put(p, "    {\"type\": \"" GATE_TYPE "\"");
    if (wraps) {
        put_text_member(p, "delegateConf", p->request->source_path);
    }
    if (!text_equal(p->request->readiness_file, NAMES_READINESS_FILE)) {
        put_text_member(p, "readinessFile", p->request->readiness_file);
    }
    if (wraps && json_scan_kind(capabilities) == JSON_KIND_OBJECT &&
        json_scan_count(capabilities) > 0) {
        put(p, ", \"capabilities\": %.*s", SLICE(capabilities));
    }
    if (wraps) {
        put_last_delegate(p);
    }
    put(p, "}");
}

/* Those of a list that are not ours, as they stand. A .conf's own keys are its plugin's. */
static void put_list_keys(struct plan *p)
{
    static const char *const ours[] = {"cniVersion", "cniVersions", "name", "plugins"};
    for (struct json_walk w = json_walk_start(p->known); json_walk_next(&w);) {
        bool is_ours = false;
        for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
            is_ours = is_ours || json_scan_equals(w.key, ours[i]);
        }
        if (!is_ours) {
            put(p, "  %.*s: %.*s,\n", SLICE(w.key), SLICE(w.value));
        }
    }
}

/* With its quotes. */
static struct json_slice network_of(const struct plan *p)
{
    struct json_slice name = json_scan_member(p->known, "name");
    bool is_name = json_scan_kind(name) == JSON_KIND_TEXT && name.len > QUOTES_BYTES;
    return is_name ? name
                   : (struct json_slice){.at = DEFAULT_NETWORK, .len = strlen(DEFAULT_NETWORK)};
}

int conflist_plan(const char *source, size_t len, const struct conflist_request *request,
                  struct buf *out, struct err *e)
{
    struct json_slice whole;
    struct plan p = {.request = request, .out = out, .e = e};
    p.known = read_conf(request->standing, request->standing_len);
    if (source) {
        int rc = json_scan_check(source, len, &p.source, e);
        if (rc != 0 || (rc = check_source(p.source, e)) != 0) {
            return rc;
        }
        p.known = p.source;
    }
    struct json_slice plugins = json_scan_member(p.source, "plugins");
    bool wraps = json_scan_count(plugins) <= 1;
    struct json_slice network = network_of(&p);
    put(&p,
        "{\n  \"cniVersion\": \"1.0.0\",\n"
        "  \"cniVersions\": [\"1.0.0\", \"1.1.0\"],\n  \"name\": %.*s,\n",
        SLICE(network));
    if (json_scan_kind(json_scan_member(p.known, "plugins")) != JSON_KIND_ABSENT) {
        put_list_keys(&p);
    }
    put(&p, "  \"plugins\": [\n");
    put_gate_plugin(&p, wraps);
    if (!wraps) {
        put(&p, ",\n    ");
        put_plugins(&p, plugins, 0, ",\n    ");
    }
    put(&p, "\n  ]\n}\n");
    /* The copy of a source stands deeper than the source did. */
    return p.rc == 0 ? json_scan_check(buf_text(out), out->len, &whole, e) : p.rc;
}

/* ---- what stands ----------------------------------------------------------------------------- */

bool conflist_is_gated(const char *text, size_t len)
{
    return is_gate(first_plugin(read_conf(text, len)));
}

/* ---- options --------------------------------------------------------------------------------- */

/* The configuration of dpu-gate, beside the source: it sorts before that, because a runtime takes
 * the first one by name. */
static const char *conflist_name(const struct cni_options *o)
{
    return strcmp(o->source, "05-dpu-gate.conflist") > 0 ? "05-dpu-gate.conflist"
                                                         : "00-dpu-gate.conflist";
}

int cni_options_check(const struct cni_options *o, const struct option_origins *origins,
                      struct err *e)
{
    if (strchr(o->source, '/') || o->source[0] == '.') {
        return option_refuse(origins, "cni-source", o->source,
                             "the name of a file in --cni-conf-dir", e);
    }
    if (strcmp(o->source, conflist_name(o)) <= 0) {
        return option_refuse(origins, "cni-source", o->source,
                             "a name that sorts after 00-dpu-gate.conflist", e);
    }
    return 0;
}

/* The state of the conflist. */
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
    CLEANUP(buf) struct buf old = {.max_bytes = bytes->len};
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

/* ---- the conflist ---------------------------------------------------------------------------- */

static bool is_file_gated(const char *path)
{
    CLEANUP(buf) struct buf text = {.max_bytes = PLAN_MAX_BYTES};
    return file_read(path, &text, NULL) == 0 && conflist_is_gated(buf_text(&text), text.len);
}

/* The first configuration by name, which is what runtimes take: of those that sort before ours, or
 * of those whose first plugin is dpu-gate. "": there is none. */
static void find_first(const struct cni_options *o, bool is_gated, char out[static NAME_BYTES])
{
    char path[PATH_MAX];
    out[0] = '\0';
    CLEANUP(dir) DIR *dir = opendir(o->conf_dir);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        const char *name = entry->d_name;
        join(o->conf_dir, name, path);
        if (entry->d_type != DT_DIR && names_is_cni_configuration(name) &&
            (out[0] == '\0' || strcmp(name, out) < 0) &&
            (is_gated ? is_file_gated(path) : strcmp(name, conflist_name(o)) < 0)) {
            text_format(out, NAME_BYTES, "%s", name);
        }
    }
}

/* Without its source (`source` NULL), a conflist that was made when it was there says more: it
 * stays, but for a chain, which would go on as if nothing were missing and so is wrapped. */
static int put_plan(const char *path, const struct buf *source, struct conflist_request *request,
                    bool *changed, struct err *e)
{
    struct stat found;
    CLEANUP(buf) struct buf old = {.max_bytes = PLAN_MAX_BYTES};
    CLEANUP(buf) struct buf plan = {.max_bytes = PLAN_MAX_BYTES};
    if (!source && is_our_file(path, &found) && file_read(path, &old, NULL) == 0 &&
        conflist_is_gated(buf_text(&old), old.len)) {
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
    CLEANUP(buf) struct buf text = {.max_bytes = CONFLIST_MAX_BYTES};
    join(o->conf_dir, o->source, source);
    join(o->conf_dir, conflist_name(o), conflist);
    int rc = file_read(source, &text, e);
    if (rc != 0 && rc != ERR_NOTFOUND) {
        return rc;
    }
    out->has_source = rc == 0;
    find_first(o, false, out->bypass);
    struct conflist_request request = {.source_path = source, .readiness_file = readiness_file};
    return put_plan(conflist, out->has_source ? &text : NULL, &request, &out->changed, e);
}

static void warn_of_bypass(const struct cni_options *o, const char *bypass)
{
    if (strstr(bypass, "multus")) {
        log_info(MOD,
                 "'%s/%s' comes first: Multus must call '%s' as its cluster network, in a version "
                 "that passes STATUS on; 'dpuctl doctor' checks both",
                 o->conf_dir, bypass, conflist_name(o));
    } else if (bypass[0] != '\0') {
        log_warn(MOD,
                 "'%s/%s' sorts before '%s', so the container runtime uses it and bypasses "
                 "dpu-gate; rename one of them",
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

#define ROW(option, kind, member) OPTION_ROW(option, kind, struct command_config, member)

/* clang-format off */
#define SHARED_ROWS \
    CNI_OPTION_ROWS(struct command_config, cni), \
    {ROW("cni-bin-dir", OPTION_PATH, bin_dir), .default_text = "/opt/cni/bin", \
     .min = 1, .max = CNI_DIR_MAX_BYTES, .placeholder = "DIR", \
     .help = "The container runtime's directory of CNI plugins."}, \
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
                 "'%s/%s' does not exist yet: the node's network is not ready until another "
                 "program writes it",
                 c->cni.conf_dir, c->cni.source);
    }
    warn_of_bypass(&c->cni, wiring.bypass);
    return 0;
}

/* Errors: ERR_PARSE if it is somebody else's, ERR_IO. */
static int remove_conflist(const struct cni_options *o, struct err *e)
{
    char conflist[PATH_MAX];
    join(o->conf_dir, conflist_name(o), conflist);
    if (access(conflist, F_OK) == 0 && !is_file_gated(conflist)) {
        return err_set(e, ERR_PARSE, "dpu-gate is not the first plugin of '%s': keeping that file",
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
    find_first(&c->cni, true, other);
    if (other[0] != '\0') {
        return err_set(e, ERR_CONFLICT, "'%s/%s' still calls dpu-gate: remove that file first",
                       c->cni.conf_dir, other);
    }
    join(c->bin_dir, "dpu-gate", program);
    if (c->remove_binary) {
        return remove_file(program, e);
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
    struct file_lock lock; /* of the directory */
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

static void sync_report(struct cni_sync *s, const struct wiring *now)
{
    const struct cni_options *o = s->options;
    bool is_first = s->written_at.ns == 0;
    if (now->changed) {
        log_limited(&s->repaired, LOG_AGAIN_NS, LOG_INFO, MOD, "wrote '%s/%s' anew", o->conf_dir,
                    conflist_name(o));
    }
    if (!now->has_source && (s->last.has_source || is_first)) {
        log_warn(MOD, "'%s/%s' is gone: the node's network is not ready until it is back",
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
    /* Of two agents that write one conflist, each by its own options, the gate would follow both in
     * turn. A directory that is not there is locked later. */
    if (file_lock_take(&s->lock, NULL) == ERR_CONFLICT) {
        log_limited(&s->kept_by_another, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "another dpu-host-agent keeps '%s/%s' in sync, so this one waits until that "
                    "agent ends; set cni-sync for only one agent of a node",
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
                    "%s; keeping dpu-gate's configuration as it is, will check again", e.msg);
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
    int rc = file_lock_init(&s->lock, options->conf_dir, "/.", NULL);
    assert(rc == 0); /* the options bound it */
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
        file_lock_release(&s->lock);
        free(s);
    }
}
