/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/node.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/names.h"
#include "dpuctl/print.h"
#include "grpc/grpc_unary.h"

#include <ev.h>

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

/* ---- the record ------------------------------------------------------------------------------ */

/* Pids are this pid namespace's: where the agent runs in a pod of its own they say nothing. */
static bool is_host_agent(int pid)
{
    char path[64];
    CLEANUP(buf) struct buf name;
    buf_init(&name, 64);
    text_format(path, sizeof(path), "/proc/%d/comm", pid);
    return pid > 0 && file_read(path, &name, NULL) == 0 &&
           strncmp(buf_text(&name), "dpu-host-agent", 14) == 0;
}

static enum node_answer answer_of(const struct gate_decision *gate)
{
    enum readiness_state state = readiness_reason_traits(gate->reason)->state;
    if (state == READINESS_NOT_READY) {
        return NODE_NOT_READY;
    }
    /* Held by a dead writer's last word: nobody knows. */
    bool is_held = !gate->admit || gate->note[0] != '\0';
    return state == READINESS_READY && !is_held ? NODE_READY : NODE_UNKNOWN;
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
    if (seen->gate.reason != r->verdict.reason) { /* it is stale */
        return r->hold_until;
    }
    /* On the boot clock, by which it does not matter whether the wall clock was set since. */
    int64_t age_ns = wall_since(seen->wall, r->verdict.transition);
    return age_ns < 0 ? seen->now : mono_max(mono_add(seen->now, -age_ns), after_boot);
}

static struct mono next_flip(const struct node_snapshot *seen)
{
    const struct mono turns[] = {seen->record.writer_until, seen->record.hold_until};
    struct mono next = MONO_NEVER;
    for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
        if (mono_before(seen->now, turns[i])) {
            next = mono_min(next, turns[i]);
        }
    }
    return seen->record.verdict.admit ? next : MONO_NEVER;
}

void node_snapshot_take(const struct admin_config *config, struct node_snapshot *out)
{
    char boot_id[CLOCK_BOOT_ID_BYTES];
    struct err e = config->record_problem;
    int rc = config->record_rc;
    *out = (struct node_snapshot){.wall = clock_wall_now(),
                                  .has_record = rc == 0,
                                  .record = config->record,
                                  .flips_at = MONO_NEVER};
    text_format(out->path, sizeof(out->path), "%s", config->record_path);
    if (rc == 0) {
        rc = clock_boot_id(boot_id, &e);
    }
    out->now = clock_mono_now(); /* after reading: what was read is not of the future */
    if (rc != 0) {
        text_format(out->problem, sizeof(out->problem), "%s", e.msg);
        gate_refuse(rc == ERR_NOTFOUND ? REASON_RECORD_MISSING : REASON_RECORD_INVALID, e.msg,
                    out->path, &out->gate);
    } else {
        gate_judge(&out->record, boot_id, out->now, out->path, &out->gate);
        out->writer_exists = is_host_agent(out->record.pid);
        out->flips_at = next_flip(out);
        out->since = holds_since(out);
    }
    out->answer = answer_of(&out->gate);
}

const char *node_message(const struct node_snapshot *seen)
{
    return seen->gate.message[0] != '\0' ? seen->gate.message
           : seen->gate.note[0] != '\0'  ? seen->gate.note
                                         : seen->record.verdict.message;
}

bool node_dpu_skew(const struct node_snapshot *seen, int64_t *out_ns)
{
    const struct readiness *v = &seen->record.verdict;
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

const char *node_answer_name(enum node_answer answer)
{
    static const char *const names[] = {
        [NODE_READY] = "Ready", [NODE_NOT_READY] = "NotReady", [NODE_UNKNOWN] = "Unknown"};
    return names[answer];
}

/* ---- CNI: one file --------------------------------------------------------------------------- */

static void keep(char out[static CNI_SCAN_TEXT_BYTES], const char *text)
{
    print_clean(out, CNI_SCAN_TEXT_BYTES, text);
}

static void read_versions(const json_t *conf, struct cni_entry *out)
{
    /* libcni reads these in lists alone. */
    const json_t *versions = out->is_list ? json_object_get(conf, "cniVersions") : NULL;
    const char *best = json_text_get(conf, "cniVersion");
    if (versions && !json_is_array(versions)) {
        keep(out->problem, "its cniVersions is no list");
    }
    for (size_t i = 0; i < json_array_size(versions); i++) {
        const char *version = json_string_value(json_array_get(versions, i));
        if (!version) {
            keep(out->problem, "its cniVersions holds more than texts");
        }
        if (version_number(version) > version_number(best)) {
            best = version;
        }
    }
    print_clean(out->version, sizeof(out->version), best);
    out->speaks_status = version_number(best) >= version_number("1.1.0");
}

/* What dpu-gate calls, and what Multus does. */
static void read_calls(const json_t *first, const json_t *next, struct cni_entry *out)
{
    if (out->is_gated) {
        const json_t *delegate = json_object_get(first, "delegate");
        out->is_wrapping = delegate || json_object_get(first, "delegateConf");
        keep(out->delegate_conf, json_text_get(first, "delegateConf"));
        keep(out->readiness_file, json_text_get(first, "readinessFile"));
        keep(out->delegate_type, json_text_get(delegate ? delegate : next, "type"));
    }
    if (out->is_multus) {
        const json_t *delegate = json_array_get(json_object_get(first, "delegates"), 0);
        const json_t *plugins = json_object_get(delegate, "plugins");
        keep(out->cluster_network, json_text_get(first, "clusterNetwork"));
        keep(out->first_delegate,
             json_text_get(plugins ? json_array_get(plugins, 0) : delegate, "type"));
    }
}

static void read_plugins(const json_t *conf, struct cni_entry *out)
{
    const json_t *plugins = json_object_get(conf, "plugins");
    size_t count = plugins ? json_array_size(plugins) : 1;
    const json_t *first = plugins ? json_array_get(plugins, 0) : conf;
    const char *first_type = json_text_get(first, "type");
    out->is_gated = text_equal(first_type, "dpu-gate"); /* problem or not: it matters whose */
    for (size_t i = 0; i < count; i++) {
        const char *type = json_text_get(plugins ? json_array_get(plugins, i) : conf, "type");
        size_t used = strlen(out->types);
        char shown[64];
        if (text_is_empty(type)) {
            keep(out->problem, "a plugin has no type");
            return;
        }
        text_sanitize(shown, sizeof(shown), type, strlen(type));
        text_format(out->types + used, sizeof(out->types) - used, "%s%s", used > 0 ? ", " : "",
                    shown);
    }
    out->plugin_count = count;
    if (count == 0) {
        keep(out->problem, "it has no plugins");
        return;
    }
    out->is_multus = strncmp(first_type, "multus", 6) == 0;
    read_calls(first, plugins ? json_array_get(plugins, 1) : NULL, out);
}

void cni_entry_read(const char *text, size_t len, struct cni_entry *out)
{
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *conf = json_text_parse(text, len, CNI_SCAN_FILE_MAX_BYTES, &e);
    if (!json_is_object(conf)) {
        keep(out->problem, conf ? "it is not a JSON object" : e.msg);
        return;
    }
    keep(out->network, json_text_get(conf, "name"));
    if (text_is_empty(out->network)) {
        keep(out->problem, "it names no network");
    }
    out->is_list = json_object_get(conf, "plugins") != NULL;
    read_versions(conf, out);
    read_plugins(conf, out);
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

static void read_entry(const char *dir, const char *name, struct cni_entry *out)
{
    char path[PATH_MAX];
    struct err e = ERR_INIT;
    CLEANUP(buf) struct buf text;
    buf_init(&text, CNI_SCAN_FILE_MAX_BYTES);
    keep(out->file, name);
    text_format(path, sizeof(path), "%s/%s", dir, name);
    int rc = file_read(path, &text, &e);
    if (rc != 0) {
        out->is_forbidden = rc == ERR_AUTH;
        keep(out->problem, e.msg);
        return;
    }
    cni_entry_read(buf_text(&text), text.len, out);
    /* Runtimes go by the name of the file. */
    bool has_list_name = text_equal(strrchr(out->file, '.'), ".conflist");
    if (text_is_empty(out->problem) && has_list_name != out->is_list) {
        keep(out->problem, out->is_list ? "a list of plugins has to be in a .conflist"
                                        : "a .conflist has to have a list of plugins");
    }
}

void cni_scan_directory(const char *dir, struct cni_scan *out)
{
    struct dirent **found = NULL;
    *out = (struct cni_scan){.count = 0};
    int count = scandir(dir, &found, is_configuration, by_name);
    if (count < 0) {
        text_format(out->problem, sizeof(out->problem), "reading '%.150s': %s", dir,
                    strerrordesc_np(errno));
        return;
    }
    for (int i = 0; i < count; i++) {
        if (out->count < CNI_SCAN_MAX) {
            read_entry(dir, found[i]->d_name, &out->entries[out->count++]);
        } else {
            out->more++;
        }
        free(found[i]);
    }
    free(found);
}

static const struct cni_entry *find_usable(const struct cni_scan *scan, bool only_gated)
{
    for (size_t i = 0; i < scan->count; i++) {
        const struct cni_entry *entry = &scan->entries[i];
        if (text_is_empty(entry->problem) && (entry->is_gated || !only_gated)) {
            return entry;
        }
    }
    return NULL;
}

const struct cni_entry *cni_scan_first(const struct cni_scan *scan)
{
    return find_usable(scan, false);
}

const struct cni_entry *cni_scan_gated(const struct cni_scan *scan)
{
    return find_usable(scan, true);
}

/* ---- CNI: a plugin is asked ------------------------------------------------------------------ */

int cni_probe_judge(const char *text, size_t len, struct err *e)
{
    CLEANUP(json) json_t *answer = json_text_parse(text, len, CNI_PROBE_ANSWER_MAX_BYTES, e);
    const json_t *versions = json_object_get(answer, "supportedVersions");
    if (!answer) {
        return err_wrap(e, "its answer to VERSION");
    }
    for (size_t i = 0; i < json_array_size(versions); i++) {
        if (text_equal(json_string_value(json_array_get(versions, i)), "1.1.0")) {
            return 0;
        }
    }
    return err_set(e, ERR_NOTFOUND, "it does not speak CNI 1.1.0, so nobody asks it for STATUS");
}

/* 0 or an errno. */
static int spawn_plugin(const char *path, int out_fd, pid_t *out_pid)
{
    char *const argv[] = {(char *)(uintptr_t)path, NULL};
    char question[] = "CNI_COMMAND=VERSION";
    char *const env[] = {question, NULL};
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0) {
        return rc;
    }
    if ((rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) == 0 &&
        (rc = posix_spawn_file_actions_adddup2(&actions, out_fd, 1)) == 0 &&
        (rc = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)) == 0) {
        rc = posix_spawn(out_pid, path, &actions, NULL, argv, env);
    }
    (void)posix_spawn_file_actions_destroy(&actions); /* cannot fail */
    return rc;
}

static int collect_answer(int fd, struct buf *out, struct err *e)
{
    char chunk[4096];
    struct mono until = mono_add(clock_mono_now(), CNI_PROBE_DEADLINE_MS * NS_PER_MS);
    for (;;) {
        int64_t left_ms = mono_since(until, clock_mono_now()) / NS_PER_MS;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = left_ms > 0 ? poll(&wait, 1, (int)left_ms) : 0;
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return err_set(e, ERR_IO, "it did not answer VERSION within %d ms",
                           CNI_PROBE_DEADLINE_MS);
        }
        ssize_t got = read(fd, chunk, sizeof(chunk));
        if (got < 0) {
            return err_set_errno(e, ERR_IO, errno, "reading its answer to VERSION");
        }
        if (got == 0) {
            return 0;
        }
        if (buf_append(out, chunk, (size_t)got, NULL) != 0) {
            return err_set(e, ERR_LIMIT, "its answer to VERSION is larger than %d bytes",
                           CNI_PROBE_ANSWER_MAX_BYTES);
        }
    }
}

int cni_probe_version(const char *path, struct err *e)
{
    int ends[2];
    pid_t pid = -1;
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, CNI_PROBE_ANSWER_MAX_BYTES);
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
    return rc != 0 ? rc : cni_probe_judge(buf_text(&answer), answer.len, e);
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
static size_t count_sockets(const char *dir, const char *prefix, size_t *unheard, size_t *rolling)
{
    size_t count = 0;
    DIR *entries = opendir(dir);
    for (struct dirent *at = entries ? readdir(entries) : NULL; at; at = readdir(entries)) {
        if (strncmp(at->d_name, prefix, strlen(prefix)) == 0 && at->d_type == DT_SOCK) {
            count++;
            *unheard += !is_heard(dirfd(entries), at->d_name);
            *rolling += strncmp(at->d_name, "dra-", 4) == 0;
        }
    }
    if (entries) {
        (void)closedir(entries); /* read-only */
    }
    return count;
}

const char *dra_sockets_find(const struct admin_config *config, char dir[static PATH_MAX],
                             struct dra_sockets *out)
{
    const char *root = config->root ? config->root : "";
    char prefix[256];
    size_t ignored = 0;
    *out = (struct dra_sockets){0};
    text_format(dir, PATH_MAX, "%s%s/plugins/%s", root, config->kubelet_root, config->driver);
    out->serving = count_sockets(dir, "dra", &out->unheard, &out->rolling);
    text_format(dir, PATH_MAX, "%s%s/plugins_registry", root, config->kubelet_root);
    text_format(prefix, sizeof(prefix), "%s-", config->driver);
    out->offered = count_sockets(dir, prefix, &out->unheard, &ignored);
    if (out->offered == 0 && out->serving > 0) { /* named by a hash: may be ours */
        out->offered = count_sockets(dir, "dra-", &out->unheard, &ignored);
    }
    return dir;
}

/* ---- pods ------------------------------------------------------------------------------------ */

bool pods_find_runtime(const struct admin_config *config, char out[static PATH_MAX])
{
    static const char *const known[] = {"/run/containerd/containerd.sock", "/run/crio/crio.sock"};
    if (!text_is_empty(config->cri_socket)) {
        admin_path(config, config->cri_socket, out, PATH_MAX);
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (access(admin_path(config, known[i], out, PATH_MAX), F_OK) == 0) {
            return true;
        }
    }
    return false;
}

int pods_ask_runtime(const struct admin_config *config, const char *socket,
                     const struct cri_request *request, struct buf *answer, struct err *e)
{
    int64_t left_ns = config->api_timeout_ns - mono_since(clock_mono_now(), config->started_at);
    const struct grpc_unary_plan plan = {.path = socket,
                                         .method = request->method,
                                         .message = {.bytes = request->bytes, .len = request->len},
                                         .timeout_ns = left_ns > 0 ? left_ns : 0};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    if (!loop) {
        return err_set(e, ERR_IO, "making an event loop");
    }
    buf_clear(answer);
    int rc = grpc_unary_ask(loop, &plan, answer, e);
    ev_loop_destroy(loop);
    return rc;
}

static const uint8_t *bytes_of(const struct buf *answer)
{
    return (const uint8_t *)buf_text(answer);
}

static void take_sandbox(void *user, const struct cri_sandbox *sandbox)
{
    struct pods_snapshot *seen = user;
    seen->pods[seen->count++] = (struct pods_pod){.sandbox = *sandbox};
}

static int compare_age(const void *a, const void *b)
{
    const struct pods_pod *left = a;
    const struct pods_pod *right = b;
    return (left->sandbox.made.ns > right->sandbox.made.ns) -
           (left->sandbox.made.ns < right->sandbox.made.ns);
}

/* Errors only where the runtime itself does not answer any more; ERR_GONE: the sandbox has ended.
 */
static int inspect_pod(const struct admin_config *config, const char *socket, struct buf *answer,
                       struct pods_pod *pod, struct err *e)
{
    struct cri_request request;
    struct cri_detail detail;
    struct pod_net net;
    struct err own = ERR_INIT;
    const char *root = config->root ? config->root : "";
    cri_ask(CRI_INSPECT, pod->sandbox.id, &request);
    int rc = pods_ask_runtime(config, socket, &request, answer, &own);
    if (rc == ERR_GONE || own.sys_errno != 0) {
        return err_set(e, rc, "%s", own.msg);
    }
    if (rc == 0) {
        rc = cri_read_detail(bytes_of(answer), answer->len, &detail, &own);
    }
    if (rc != 0) {
        text_format(pod->net.words, sizeof(pod->net.words), "%s", own.msg); /* may be cut */
        return 0;
    }
    pod->has_host_network = detail.has_host_network;
    if (!detail.has_host_network) {
        (void)pod_net_open(root, pod->sandbox.id, &detail, &net); /* the look says so, too */
        pod_net_look(&net, root, &pod->net);
    }
    return 0;
}

int pods_snapshot_take(const struct admin_config *config, const char *socket,
                       struct pods_snapshot *out, struct err *e)
{
    struct cri_request request;
    struct pods_snapshot seen = {.pods = mem_calloc(CRI_SANDBOXES_MAX, sizeof(*seen.pods))};
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, GRPC_UNARY_REPLY_MAX_BYTES);
    cri_ask(CRI_LIST, NULL, &request);
    int rc = pods_ask_runtime(config, socket, &request, &answer, e);
    if (rc == 0) {
        rc = cri_read_list(bytes_of(&answer), answer.len, take_sandbox, &seen, e);
    }
    size_t listed = seen.count;
    seen.count = 0;
    for (size_t i = 0; rc == 0 && i < listed; i++) {
        struct pods_pod pod = seen.pods[i];
        int one = inspect_pod(config, socket, &answer, &pod, e);
        rc = one == ERR_GONE ? 0 : one;
        if (one == 0) {
            seen.pods[seen.count++] = pod;
            seen.lost += pod.net.evidence == POD_NET_LOST;
            seen.unseen += pod.net.evidence == POD_NET_UNSEEN && !pod.has_host_network;
        }
    }
    if (rc != 0) {
        pods_snapshot_fini(&seen);
        return rc;
    }
    qsort(seen.pods, seen.count, sizeof(*seen.pods), compare_age);
    *out = seen;
    return 0;
}

void pods_snapshot_fini(struct pods_snapshot *seen)
{
    free(seen->pods);
}
