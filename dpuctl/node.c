/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/node.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/lease.h"
#include "contract/names.h"
#include "dpuctl/api.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the record ------------------------------------------------------------------------------ */

/* Pids are this pid namespace's: where the agent runs in a pod of its own they say nothing. */
static bool is_host_agent(int pid)
{
    char path[64];
    CLEANUP(buf) struct buf name = {.max_bytes = 64};
    text_format(path, sizeof(path), "/proc/%d/comm", pid);
    return pid > 0 && file_read(path, &name, NULL) == 0 &&
           strncmp(buf_text(&name), "dpu-host-agent", 14) == 0;
}

static enum readiness_state answer_of(const struct gate_decision *gate, const struct record *record)
{
    enum readiness_state state = gate->reason == REASON_OTHER
                                     ? record->readiness.state
                                     : readiness_reason_traits(gate->reason)->state;
    /* Held by a dead writer's last word: nobody knows. */
    bool is_held = !gate->admit || gate->note[0] != '\0';
    return state == READINESS_READY && is_held ? READINESS_UNKNOWN : state;
}

static struct mono holds_since(const struct node_snapshot *seen)
{
    struct mono after_boot = {1};
    const struct record *r = &seen->record;
    if (seen->gate.reason == REASON_RECORD_INVALID) {
        return (struct mono){0};
    }
    if (seen->gate.note[0] != '\0') { /* a dead writer's last word */
        return r->writer_until;
    }
    if (seen->gate.reason != r->readiness.reason) { /* it is stale */
        return r->hold_until;
    }
    /* The record has only the wall clock's time of the change. If that clock was set since, the age
     * is wrong by as much; a change in the future counts as one of now. */
    int64_t age_ns = wall_since(seen->wall, r->readiness.transition);
    return age_ns < 0 ? seen->now : mono_max(mono_add(seen->now, -age_ns), after_boot);
}

void node_snapshot_take(const struct admin_config *config, struct node_snapshot *out)
{
    *out = (struct node_snapshot){.wall = clock_wall_now()};
    admin_path(config, config->readiness_file, out->path, sizeof(out->path));
    out->has_record = record_file_judge(out->path, &out->record, &out->gate, &out->problem) == 0;
    out->now = clock_mono_now(); /* after reading: what was read is not of the future */
    if (out->has_record) {
        out->writer_exists = is_host_agent(out->record.pid);
        out->since = holds_since(out);
    }
    out->answer = answer_of(&out->gate, &out->record);
}

/* One sentence: why it is refused, why it is admitted nonetheless, or what the record says. */
static const char *node_message(const struct node_snapshot *seen)
{
    return seen->gate.message[0] != '\0' ? seen->gate.message
           : seen->gate.note[0] != '\0'  ? seen->gate.note
                                         : seen->record.readiness.message;
}

/* The DPU's clock against ours: the stamp of its last renewal, and when that was observed. The time
 * that the news took is in it, well below a second. False if it cannot be known. */
static bool node_dpu_skew(const struct node_snapshot *seen, int64_t *out_ns)
{
    const struct readiness *v = &seen->record.readiness;
    const char *renewed = v->lease.renew_stamp;
    struct wall stamped;
    if (!seen->has_record || v->observed.ns <= 0 ||
        rfc3339_parse(renewed, strlen(renewed), &stamped, NULL) != 0) {
        return false;
    }
    int64_t age_ns = mono_since(seen->now, v->observed);
    *out_ns = wall_since(stamped, (struct wall){.ns = mono_ns_sub(seen->wall.ns, age_ns)});
    return true;
}

/* ---- CNI: one file --------------------------------------------------------------------------- */

/* The highest that is declared; NULL: none. */
static const char *find_version(const json_t *conf, const json_t *versions, const char **problem)
{
    const char *best = json_text_get(conf, "cniVersion");
    size_t i;
    const json_t *item;
    if (versions && !json_is_array(versions)) {
        *problem = "its cniVersions is not a list";
    }
    json_array_foreach(versions, i, item)
    {
        const char *version = json_string_value(item);
        if (!version) {
            *problem = "its cniVersions contains a value that is not a string";
        }
        best = version_reaches(version, version_reaches(best, "") ? best : "") ? version : best;
    }
    return best;
}

/* Up to the first that has none. */
static json_t *list_types(const json_t *plugins, const char **problem)
{
    json_t *types = json_array();
    size_t i;
    const json_t *plugin;
    json_array_foreach(plugins, i, plugin)
    {
        const char *type = json_text_get(plugin, "type");
        if (text_is_empty(type)) {
            *problem = "a plugin has no type";
            return types;
        }
        (void)json_array_append_new(types, print_json_text(type));
    }
    *problem = json_array_size(plugins) == 0 ? "it has no plugins" : *problem;
    return types;
}

/* The plugins that dpu-gate and Multus call. */
static void add_calls(json_t *entry, const json_t *first, const json_t *next)
{
    const char *type = json_text_get(first, "type");
    const json_t *delegate = json_object_get(first, "delegate");
    bool is_gated = text_equal(type, "dpu-gate");
    bool is_multus = type && strncmp(type, "multus", 6) == 0;
    print_json_put(entry, "isGated", json_boolean(is_gated));
    print_json_put(entry, "isMultus", json_boolean(is_multus));
    if (is_gated) {
        const char *conf = json_text_get(first, "delegateConf");
        print_json_put(entry, "isWrapping", json_boolean(delegate || conf));
        print_json_put(entry, "delegateConf", print_json_text(conf));
        print_json_put(entry, "readinessFile",
                       print_json_text(json_text_get(first, "readinessFile")));
        print_json_put(entry, "delegateType",
                       print_json_text(json_text_get(delegate ? delegate : next, "type")));
    }
    if (is_multus) {
        const json_t *called = json_array_get(json_object_get(first, "delegates"), 0);
        const json_t *theirs = json_object_get(called, "plugins");
        print_json_put(entry, "clusterNetwork",
                       print_json_text(json_text_get(first, "clusterNetwork")));
        print_json_put(
            entry, "firstDelegate",
            print_json_text(json_text_get(theirs ? json_array_get(theirs, 0) : called, "type")));
    }
}

json_t *cni_entry_json(const char *text, size_t len)
{
    struct err e = ERR_INIT;
    const char *problem = NULL;
    CLEANUP(json) json_t *conf = json_text_parse(text, len, &e);
    if (!json_is_object(conf)) {
        return json_pack("{s:o}", "problem",
                         print_json_text(conf ? "it is not a JSON object" : e.msg));
    }
    const char *network = json_text_get(conf, "name");
    const json_t *list = json_object_get(conf, "plugins");
    CLEANUP(json) json_t *alone = json_pack("[O]", conf);
    const json_t *plugins = list ? list : alone;
    problem = text_is_empty(network) ? "it names no network" : NULL;
    /* libcni reads several versions in lists alone. */
    const char *version =
        find_version(conf, list ? json_object_get(conf, "cniVersions") : NULL, &problem);
    json_t *types = list_types(plugins, &problem);
    json_t *entry =
        json_pack("{s:o, s:o, s:o, s:o, s:b, s:b}", "problem", print_json_text(problem), "network",
                  print_json_text(network), "types", types, "version", print_json_text(version),
                  "speaksStatus", version_reaches(version, "1.1.0"), "isList", list != NULL);
    print_json_put(entry, "pluginNetwork",
                   print_json_text(json_text_get(json_array_get(plugins, 0), "name")));
    add_calls(entry, json_array_get(plugins, 0), json_array_get(plugins, 1));
    return entry;
}

/* ---- CNI: the directory ---------------------------------------------------------------------- */

static int is_configuration(const struct dirent *entry)
{
    return entry->d_type != DT_DIR && names_is_cni_configuration(entry->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* bytes, as the runtimes sort */
}

static json_t *cni_file_json(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct err e = ERR_INIT;
    CLEANUP(buf) struct buf text = {.max_bytes = CNI_SCAN_FILE_MAX_BYTES};
    text_format(path, sizeof(path), "%s/%s", dir, name);
    int rc = file_read(path, &text, &e);
    json_t *entry = rc == 0 ? cni_entry_json(buf_text(&text), text.len)
                            : json_pack("{s:o, s:b}", "problem", print_json_text(e.msg),
                                        "isForbidden", rc == ERR_AUTH);
    /* Runtimes go by the name of the file. */
    bool has_list_name = text_equal(strrchr(name, '.'), ".conflist");
    if (!print_holds(entry, "problem") && has_list_name != print_holds(entry, "isList")) {
        print_json_put(entry, "problem",
                       json_string(has_list_name ? "a .conflist must have a list of plugins"
                                                 : "a list of plugins must be in a .conflist"));
    }
    print_json_put(entry, "file", print_json_text(name));
    return entry;
}

json_t *cni_scan_json(const char *dir)
{
    struct dirent **found = NULL;
    json_t *files = json_array();
    json_t *scan =
        json_pack("{s:o, s:n, s:o}", "directory", print_json_text(dir), "problem", "files", files);
    int count = scandir(dir, &found, is_configuration, by_name);
    if (count < 0) {
        CLEANUP(free)
        char *problem = mem_format("reading '%.150s': %s", dir, strerrordesc_np(errno));
        print_json_put(scan, "problem", print_json_text(problem));
        return scan;
    }
    for (int i = 0; i < count; i++) {
        if (i < CNI_SCAN_MAX) {
            json_t *entry = cni_file_json(dir, found[i]->d_name);
            bool is_taken = !print_holds(entry, "problem");
            (void)json_array_append_new(files, entry);
            if (is_taken && !json_object_get(scan, "first")) {
                (void)json_object_set(scan, "first", entry);
            }
            if (is_taken && print_holds(entry, "isGated") && !json_object_get(scan, "gate")) {
                (void)json_object_set(scan, "gate", entry);
            }
        }
        free(found[i]);
    }
    free(found);
    print_json_put(scan, "more", json_integer(count > CNI_SCAN_MAX ? count - CNI_SCAN_MAX : 0));
    return scan;
}

/* ---- CNI: a plugin is asked ------------------------------------------------------------------ */

static int judge_versions(const struct buf *text, struct err *e)
{
    CLEANUP(json) json_t *answer = json_text_parse(buf_text(text), text->len, e);
    size_t i;
    const json_t *version;
    if (!answer) {
        return err_wrap(e, "its answer to VERSION");
    }
    json_array_foreach(json_object_get(answer, "supportedVersions"), i, version)
    {
        if (text_equal(json_string_value(version), "1.1.0")) {
            return 0;
        }
    }
    return err_set(e, ERR_NOTFOUND, "it does not speak CNI 1.1.0, so no runtime calls STATUS");
}

/* 0 or an errno. */
static int spawn_plugin(const char *path, int out_fd, pid_t *out_pid)
{
    char *const argv[] = {(char *)(uintptr_t)path, NULL};
    char question[] = "CNI_COMMAND=VERSION";
    char *const env[] = {question, NULL};
    posix_spawn_file_actions_t actions;
    int rc;
    (void)posix_spawn_file_actions_init(&actions); /* cannot fail in glibc */
    if ((rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) == 0 &&
        (rc = posix_spawn_file_actions_adddup2(&actions, out_fd, 1)) == 0 &&
        (rc = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)) == 0) {
        rc = posix_spawn(out_pid, path, &actions, NULL, argv, env);
    }
    (void)posix_spawn_file_actions_destroy(&actions); /* nor can this */
    return rc;
}

static int collect_answer(int fd, struct buf *out, struct err *e)
{
    char chunk[4096];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    struct mono until = mono_add(clock_mono_now(), CNI_PROBE_DEADLINE_MS * NS_PER_MS);
    ssize_t got = 1;
    while (got > 0) { /* a pipe that is ready gives no error */
        int64_t left_ms = mono_since(until, clock_mono_now()) / NS_PER_MS;
        if (left_ms <= 0 || poll(&wait, 1, (int)left_ms) <= 0) { /* no signal of ours is caught */
            return err_set(e, ERR_IO, "it did not answer VERSION within %d ms",
                           CNI_PROBE_DEADLINE_MS);
        }
        got = read(fd, chunk, sizeof(chunk));
        if (got > 0 && buf_append(out, chunk, (size_t)got, NULL) != 0) {
            return err_set(e, ERR_LIMIT, "its answer to VERSION is larger than %d bytes",
                           CNI_PROBE_ANSWER_MAX_BYTES);
        }
    }
    return 0;
}

int cni_probe_version(const char *path, struct err *e)
{
    int ends[2];
    pid_t pid = -1;
    CLEANUP(buf) struct buf answer = {.max_bytes = CNI_PROBE_ANSWER_MAX_BYTES};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_set_errno(e, ERR_IO, errno, "making a pipe");
    }
    CLEANUP(fd) int fd = ends[0];
    int rc = spawn_plugin(path, ends[1], &pid);
    (void)close(ends[1]); /* the child has its own */
    if (rc != 0) {
        return err_set_errno(e, ERR_IO, rc, "running it");
    }
    assert(pid > 0); /* of this one child: 0 and -1 would mean others */
    rc = collect_answer(fd, &answer, e);
    (void)kill(pid, SIGKILL);    /* it has said all, or too much, or too late */
    (void)waitpid(pid, NULL, 0); /* no signal of ours is caught */
    return rc != 0 ? rc : judge_versions(&answer, e);
}

/* ---- DRA ------------------------------------------------------------------------------------- */

/* Reached through the directory's descriptor: a whole path may be too long for a socket's name. */
static bool is_heard(int dir_fd, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int len =
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
    if (fd < 0 || len < 0 || (size_t)len >= sizeof(address.sun_path)) {
        return true; /* cannot be told: accuse nobody */
    }
    return connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
           errno != ECONNREFUSED;
}

/* Counts the sockets in `dir` whose names begin with `prefix`. */
static size_t count_sockets(const char *dir, const char *prefix, size_t *unheard)
{
    size_t count = 0;
    CLEANUP(dir) DIR *entries = opendir(dir);
    for (struct dirent *at = entries ? readdir(entries) : NULL; at; at = readdir(entries)) {
        if (strncmp(at->d_name, prefix, strlen(prefix)) == 0 && at->d_type == DT_SOCK) {
            count++;
            *unheard += !is_heard(dirfd(entries), at->d_name);
        }
    }
    return count;
}

/* As dpu-dra-driver notes it (dra-driver/dra/instance.h). */
static bool is_registered(const char *dir)
{
    char path[PATH_MAX];
    bool found = false;
    CLEANUP(dir) DIR *entries = opendir(dir);
    for (struct dirent *at = entries ? readdir(entries) : NULL; at && !found;
         at = readdir(entries)) {
        CLEANUP(buf) struct buf note = {.max_bytes = PATH_MAX};
        text_format(path, sizeof(path), "%s/%s", dir, at->d_name);
        found = strncmp(at->d_name, NAMES_DRA_INSTANCE, strlen(NAMES_DRA_INSTANCE)) == 0 &&
                file_read(path, &note, NULL) == 0 &&
                text_equal(buf_text(&note), NAMES_DRA_REGISTERED);
    }
    return found;
}

json_t *dra_sockets_json(const struct admin_config *config)
{
    const char *root = config->root ? config->root : "";
    char dir[PATH_MAX];
    char prefix[256];
    size_t unheard = 0;
    text_format(dir, sizeof(dir), "%s%s/plugins/%s", root, config->kubelet_root, config->driver);
    size_t serving = count_sockets(dir, "dra", &unheard);
    bool is_noted = is_registered(dir);
    text_format(dir, sizeof(dir), "%s%s/plugins_registry", root, config->kubelet_root);
    text_format(prefix, sizeof(prefix), "%s-", config->driver);
    size_t offered = count_sockets(dir, prefix, &unheard);
    if (offered == 0 && serving > 0) { /* named by a hash: may be ours */
        offered = count_sockets(dir, "dra-", &unheard);
    }
    bool is_there = access(dir, F_OK) == 0;
    return json_pack("{s:o, s:b, s:i, s:i, s:i, s:i, s:b}", "directory", print_json_text(dir),
                     "isThere", is_there, "sockets", is_there ? (int)(offered + serving) : 0,
                     "offered", (int)offered, "serving", (int)serving, "unheard", (int)unheard,
                     "registered", is_noted);
}

/* ---- the document ---------------------------------------------------------------------------- */

static json_t *seconds_if(bool is_known, int64_t ns)
{
    return is_known ? print_json_seconds(ns) : json_null();
}

/* From now until then, negative once it is over; null: never, or not known. */
static json_t *seconds_until(struct mono until, struct mono now)
{
    return seconds_if(!mono_is_never(until) && until.ns != 0, mono_since(until, now));
}

static json_t *gate_json(const struct node_snapshot *seen)
{
    const struct gate_decision *g = &seen->gate;
    return json_pack("{s:b, s:i, s:s, s:o, s:o, s:o}", "admitsPods", g->admit, "statusCode",
                     gate_status_code(g), "reason", g->word, "message", print_json_text(g->message),
                     "note", print_json_text(g->note), "forSeconds",
                     seconds_if(seen->since.ns > 0, mono_since(seen->now, seen->since)));
}

static json_t *host_probes_json(const struct readiness_host_probes *probes)
{
    json_t *all = json_array();
    for (size_t i = 0; i < probes->count; i++) {
        const struct readiness_host_probe *probe = &probes->each[i];
        (void)json_array_append_new(all,
                                    json_pack("{s:o, s:s}", "probe", print_json_text(probe->probe),
                                              "says", host_probe_state_name(probe->says)));
    }
    return all;
}

static json_t *record_json(const struct node_snapshot *seen)
{
    const struct record *r = &seen->record;
    const struct readiness *v = &r->readiness;
    int64_t skew_ns = 0;
    if (!seen->has_record) {
        return json_pack("{s:o, s:o}", "file", print_json_text(seen->path), "problem",
                         print_json_text(seen->problem.msg));
    }
    bool has_skew = node_dpu_skew(seen, &skew_ns);
    return json_pack(
        "{s:o, s:n, s:o, s:s, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, "
        "s:b, s:o, s:o, s:o, s:o}",
        "file", print_json_text(seen->path), "problem", "node", print_json_text(r->node), "state",
        readiness_state_name(v->state), "admit", v->admit, "reason", readiness_reason_word(v),
        "message", print_json_text(v->message), "transitionTime", print_json_stamp(v->transition),
        "lastRenewalAgeSeconds", seconds_if(v->observed.ns > 0, mono_since(seen->now, v->observed)),
        "validSeconds", seconds_until(v->lease_until, seen->now), "writerSeconds",
        seconds_until(r->writer_until, seen->now), "holdSeconds",
        seconds_until(r->hold_until, seen->now), "dpuClockSkewSeconds",
        seconds_if(has_skew, skew_ns), "writtenTime", print_json_stamp(r->written), "writerPid",
        (int)r->pid, "writerAlive", seen->writer_exists, "dpuBootId",
        print_json_text(v->dpu_boot_id), "dpuRebootTime", print_json_stamp(v->dpu_rebooted),
        "dpuRebootAgeSeconds",
        seconds_if(v->dpu_rebooted.ns > 0, wall_since(seen->wall, v->dpu_rebooted)), "hostProbes",
        host_probes_json(&v->host_probes));
}

static json_t *cni_json(const struct admin_config *config)
{
    char path[PATH_MAX];
    CLEANUP(json)
    json_t *scan = cni_scan_json(admin_path(config, config->cni_conf_dir, path, sizeof(path)));
    const json_t *first = json_object_get(scan, "first");
    char types[PRINT_TEXT_BYTES];
    print_fill(first, "{types}", types, sizeof(types));
    return json_pack(
        "{s:O, s:O, s:o, s:o, s:o, s:o, s:b, s:b}", "directory", json_object_get(scan, "directory"),
        "problem", json_object_get(scan, "problem"), "first",
        print_json_text(json_text_get(first, "file")), "network",
        print_json_text(json_text_get(first, "network")), "plugins", print_json_text(types), "gate",
        print_json_text(json_text_get(json_object_get(scan, "gate"), "file")), "gated",
        print_holds(first, "isGated"), "statusSupported", print_holds(first, "speaksStatus"));
}

static json_t *dra_json(const struct admin_config *config)
{
    CLEANUP(json) json_t *found = dra_sockets_json(config);
    return json_pack("{s:o, s:b, s:b}", "driver", print_json_text(config->driver),
                     "registrationSocket", print_holds(found, "offered"), "serviceSocket",
                     print_holds(found, "serving"));
}

static const char *problem_of(const struct api_answer *answer)
{
    return answer->http_status == 404 ? "not found" : answer->message;
}

static json_t *node_slice_json(const struct api_answer *answer)
{
    const json_t *devices = json_object_get(json_object_get(answer->body, "spec"), "devices");
    const json_t *taints = json_object_get(json_array_get(devices, 0), "taints");
    const json_t *taint = json_array_get(taints, 0);
    const char *key = json_text_get(taint, "key");
    const char *value = json_text_get(taint, "value");
    const char *effect = json_text_get(taint, "effect");
    char shown[NAMES_MESSAGE_BYTES] = "";
    if (!answer->body) {
        return json_pack("{s:b, s:o}", "found", 0, "problem", print_json_text(problem_of(answer)));
    }
    if (taint) {
        text_format(shown, sizeof(shown), "%.200s%s%.200s:%.60s", key ? key : "", value ? "=" : "",
                    value ? value : "", effect ? effect : "");
    }
    return json_pack("{s:b, s:n, s:I, s:b, s:o}", "found", 1, "problem", "devices",
                     (json_int_t)json_array_size(devices), "tainted", taint != NULL, "taint",
                     print_json_text(shown));
}

json_t *node_lease_json(const struct agent_config *a, const struct node_snapshot *seen,
                        const struct api_answer *answer)
{
    struct lease_view l;
    struct err e = ERR_INIT;
    if (!answer->body || lease_read(answer->body, &l, &e) != 0) {
        return json_pack("{s:s, s:s, s:b, s:o}", "namespace", a->lease_namespace, "name",
                         a->lease_name, "found", 0, "problem",
                         print_json_text(answer->body ? e.msg : problem_of(answer)));
    }
    return json_pack(
        "{s:s, s:s, s:b, s:n, s:o, s:b, s:o, s:i, s:s?, s:o, s:o, s:o, s:b}", "namespace",
        a->lease_namespace, "name", a->lease_name, "found", 1, "problem", "holder",
        print_json_text(l.holder), "holderExpected", text_equal(l.holder, a->holder_identity),
        "renewTime", print_json_text(l.renew_stamp), "durationSeconds", (int)l.duration_s, "health",
        lease_health_name(l.health), "healthMessage", print_json_text(l.health_message),
        "resourceVersion", print_json_text(l.resource_version), "uid", print_json_text(l.uid),
        "uidOfRecord", seen->has_record && text_equal(l.uid, seen->record.readiness.lease.uid));
}

json_t *node_api_json(const struct api *api, const struct api_answer *lease)
{
    bool is_reached = lease->http_status != 0;
    const char *server = api->client ? kube_client_describe(api->client) : NULL;
    return json_pack("{s:o, s:b, s:o, s:o}", "server", print_json_text(server), "reached",
                     is_reached, "problem", print_json_text(is_reached ? NULL : lease->message),
                     "clockSkewSeconds", seconds_if(lease->has_date, lease->skew_ns));
}

json_t *node_document(const struct admin_config *config, const struct node_snapshot *seen)
{
    return json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:o}", "node", config->agent.node_name,
                     "version", DPU_VERSION, "time", print_json_stamp(seen->wall), "answer",
                     readiness_state_name(seen->answer), "gate", gate_json(seen), "record",
                     record_json(seen), "cni", cni_json(config), "dra", dra_json(config));
}

static json_t *status_document(struct admin_config *config, const struct node_snapshot *seen)
{
    char socket[PATH_MAX];
    const struct agent_config *a = &config->agent;
    json_t *tree = node_document(config, seen);
    config->asks_runtime = /* where the agent does, too */
        !text_is_empty(config->cri_socket) && pods_find_runtime(config, socket);
    struct api *api = api_open(config);
    const struct api_answer *lease =
        api_ask(api, NULL, mem_format(API_LEASE_PATH, a->lease_namespace, a->lease_name));
    const struct api_answer *slice =
        api_ask(api, NULL, mem_format(API_SLICE_PATH, config->driver, a->node_name));
    api_wait(api);
    print_json_put(tree, "api", node_api_json(api, lease));
    if (api->client) {
        print_json_put(json_object_get(tree, "dra"), "slice", node_slice_json(slice));
        print_json_put(tree, "lease", node_lease_json(a, seen, lease));
    }
    api_close(api);
    if (config->asks_runtime) {
        print_json_put(tree, "pods", node_pods_json(config, socket));
    }
    return tree;
}

/* ---- the document as text -------------------------------------------------------------------- */

static const struct print_row head[] = {
    {"", "", " ({gate.reason})"},
    {"", "gate.forSeconds", " for {gate.forSeconds}"},
    {"\n  ", "gate.message", "{gate.message}"},
    {"\n  ", "!gate.message gate.note", "{gate.note}"},
    {"\n  ", "!gate.message !gate.note", "{record.message}"},
    {"\n\n  pods    ", "gate.admitsPods", "ADD passes"},
    {"\n\n  pods    ", "!gate.admitsPods", "ADD fails at once"},
    {"", "", ", STATUS answers {gate.statusCode}"},
    {"\n  record  ", "record.problem", "{record.file}: {record.problem}"},
    {"\n  record  ", "record.state", "{record.state} ({record.file})\n          "},
    {"", "record.reason=HealthCheckDisabled", "the health check is disabled; "},
    {"", "record.lastRenewalAgeSeconds", "last renewal {record.lastRenewalAgeSeconds} ago"},
    {"", "record.state !record.lastRenewalAgeSeconds", "no renewal was observed yet"},
    {", ", "record.validSeconds>0", "valid for {record.validSeconds}"},
    {", ", "record.validSeconds !record.validSeconds>0", "expired {record.validSeconds} ago"},
    {"\n  agent   ", "record.state", "pid {record.writerPid}"},
    {" ", "record.state !record.writerAlive !record.writerPid>1", "of its Pod"},
    {" ", "!record.writerAlive record.writerPid>1", "(no such dpu-host-agent is visible here)"},
    {", ", "record.writerSeconds>0", "writes again within {record.writerSeconds}"},
    {", ", "record.state !record.writerSeconds>0", "overdue for {record.writerSeconds}"},
    {"\n  DPU     ", "record.dpuBootId", "boot {record.dpuBootId}"},
    {", ", "record.dpuBootId record.dpuRebootAgeSeconds",
     "rebooted {record.dpuRebootAgeSeconds} ago"},
};

static const struct print_row host_probe[] = {
    {"\n  probe   ", "", "{probe}: "},
    {"", "says=none", "has not passed since this host booted, so its failures do not count"},
    {"", "says=well", "well"},
    {"", "says=failed", "failed"},
};

static const struct print_row rest[] = {
    {"\n  lease   ", "lease", "{lease.namespace}/{lease.name}: {lease.problem}"},
    {"", "lease.holder", "held by {lease.holder}"},
    {"", "lease.found !lease.holder", "it has no holder"},
    {"", "lease.found !lease.holderExpected", " (not the expected holder)"},
    {", ", "lease.found", "{lease.durationSeconds} s\n          "},
    {"", "lease.renewTime", "renewed {lease.renewTime}"},
    {"", "lease.found !lease.renewTime", "never renewed"},
    {", ", "lease.found !lease.uidOfRecord", "its UID differs from the record's"},
    {"\n          ", "lease.health", "the DPU says: {lease.health}"},
    {", ", "lease.healthMessage", "{lease.healthMessage}"},
    {"\n  clocks  ", "record.dpuClockSkewSeconds",
     "DPU (at its last renewal) {record.dpuClockSkewSeconds+} against this host"},
    {"\n  clocks  ", "api.clockSkewSeconds",
     "API server {api.clockSkewSeconds+} against this host"},
    {"\n  API     ", "", "{api.server}"},
    {": ", "api.server api.problem", ""},
    {"", "api.problem", "{api.problem}"},
    {"\n  CNI     ", "", "{cni.problem}"},
    {"", "!cni.problem !cni.first", "no configuration that a runtime can use"},
    {"", "cni.first", "{cni.first} comes first ({cni.plugins})"},
    {", ", "cni.gated !cni.statusSupported",
     "without cniVersion 1.1.0, so no runtime calls STATUS"},
    {"; ", "cni.first !cni.gated cni.gate", "dpu-gate is in {cni.gate}: run dpuctl doctor"},
    {", ", "cni.first !cni.gate", "without dpu-gate"},
    {"\n  DRA     ", "dra.registrationSocket", "{dra.driver}: offered to the kubelet"},
    {"\n  DRA     ", "!dra.registrationSocket dra.slice.found",
     "{dra.driver}: not offered to the kubelet"},
    {", ", "dra.slice.found", "slice published"},
    {", ", "dra.slice.taint", "tainted {dra.slice.taint}"},
    {", ", "dra.registrationSocket dra.slice.problem", "slice: {dra.slice.problem}"},
    {"\n  network ", "pods.problem", "{pods.problem}"},
    {"\n  network ", "pods !pods.problem",
     "{pods.lost} of {pods.count} Pods have lost their network"},
    {": ", "pods.lost", "run dpuctl pods"},
    {"; ", "pods.unseen", "{pods.unseen} could not be inspected"},
    {"\n", "", ""},
};

static void print_page(const struct admin_config *config, const json_t *tree)
{
    bool has_color = print_has_color(config->color);
    const char *answer = json_text_get(tree, "answer");
    const json_t *probes = json_object_get(json_object_get(tree, "record"), "hostProbes");
    (void)printf("%s: ", json_text_get(tree, "node"));
    print_cell(has_color, print_state_color(answer), answer, 0);
    print_rows(tree, head, ARRAY_LEN(head), has_color);
    print_rows(probes, host_probe, ARRAY_LEN(host_probe), has_color);
    print_rows(tree, rest, ARRAY_LEN(rest), has_color);
}

int status_run(struct admin_config *config)
{
    static const enum admin_answer answers[] = {[READINESS_READY] = ADMIN_GOOD,
                                                [READINESS_NOT_READY] = ADMIN_BAD,
                                                [READINESS_UNKNOWN] = ADMIN_UNCLEAR};
    struct node_snapshot seen;
    node_snapshot_take(config, &seen);
    CLEANUP(json) json_t *tree = status_document(config, &seen);
    return print_document(config, tree, print_page, answers[seen.answer]);
}

/* ---- watch: a line for each change of the readiness ------------------------------------------ */

/* So soon after it took effect a change is shown. */
#define LOOK_AGAIN_NS (100 * NS_PER_MS)

/* Looks; prints what is new against `shown`, and keeps it there. `since`: from when on that held.
 */
static void look_again(const struct admin_config *config, json_t **shown, struct mono *since)
{
    static const struct print_row rows[] = {
        {"", "", "{reason}"},
        {" after ", "former", "{formerSeconds} {former}"},
        {": ", "", "{message}\n"},
    };
    struct node_snapshot seen;
    const char *former = json_text_get(*shown, "answer");
    node_snapshot_take(config, &seen);
    const struct rfc3339_text time = rfc3339_text(seen.wall, true);
    CLEANUP(json)
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:b, s:s, s:o, s:s?, s:o}", "time", time.text, "node",
                  config->agent.node_name, "answer", readiness_state_name(seen.answer),
                  "admitsPods", seen.gate.admit, "reason", seen.gate.word, "message",
                  print_json_text(node_message(&seen)), "former", former, "formerSeconds",
                  former ? print_json_seconds(mono_since(seen.now, *since)) : json_null());
    if (text_equal(former, readiness_state_name(seen.answer)) &&
        text_equal(json_text_get(*shown, "reason"), json_text_get(line, "reason")) &&
        print_holds(*shown, "admitsPods") == seen.gate.admit) {
        return;
    }
    if (config->output == ADMIN_JSON) {
        print_json_line(line);
    } else {
        (void)printf("%s  %-8s  ", time.text, readiness_state_name(seen.answer));
        print_rows(line, rows, ARRAY_LEN(rows), false);
    }
    *since = !former && seen.since.ns > 0 ? seen.since : seen.now;
    json_decref(*shown);
    *shown = TAKE(line);
}

int watch_run(struct admin_config *config)
{
    CLEANUP(fd) int stop_fd = admin_stop_signals();
    CLEANUP(json) json_t *shown = NULL;
    struct mono since = {0};
    bool is_written;
    do {
        look_again(config, &shown, &since);
        is_written = fflush(stdout) == 0 || errno == EPIPE; /* a reader may go at any moment */
    } while (!ferror(stdout) && admin_wait(stop_fd, LOOK_AGAIN_NS));
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}
