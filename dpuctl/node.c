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

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

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

static enum node_answer answer_of(const struct node_look *look)
{
    switch (readiness_reason_traits(look->gate.reason)->state) {
    case READINESS_NOT_READY:
        return NODE_NOT_READY;
    case READINESS_READY: /* held by a dead writer's last word: nobody knows */
        return look->gate.admit && look->gate.note[0] == '\0' ? NODE_READY : NODE_UNKNOWN;
    case READINESS_UNKNOWN:
        break;
    }
    return NODE_UNKNOWN;
}

/* On the boot clock, by which it does not matter whether the wall clock was set since. */
static struct mono transition_of(const struct node_look *look)
{
    struct mono after_boot = {1};
    int64_t age_ns = wall_since(look->wall, look->record.verdict.transition);
    return age_ns < 0 ? look->now : mono_max(mono_add(look->now, -age_ns), after_boot);
}

static struct mono holds_since(const struct node_look *look)
{
    const struct record *r = &look->record;
    const struct readiness *v = &r->verdict;
    enum readiness_reason reason = look->gate.reason;
    if (!look->has_record || reason == REASON_RECORD_INVALID) {
        return (struct mono){0};
    }
    if (look->gate.note[0] != '\0') { /* a dead writer's last word */
        return r->writer_until;
    }
    return reason == v->reason ? transition_of(look) : r->hold_until; /* else it is stale */
}

static struct mono next_flip(const struct node_look *look)
{
    const struct record *r = &look->record;
    const struct mono turns[] = {r->writer_until, r->hold_until};
    struct mono next = MONO_NEVER;
    for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
        if (mono_before(look->now, turns[i])) {
            next = mono_min(next, turns[i]);
        }
    }
    return look->has_record && r->verdict.admit ? next : MONO_NEVER;
}

void node_look_take(const struct admin_config *config, struct node_look *out)
{
    char boot_id[CLOCK_BOOT_ID_BYTES];
    struct err e = config->record_problem;
    int rc = config->record_rc;
    *out = (struct node_look){.wall = clock_wall_now(),
                              .has_record = rc == 0,
                              .record = config->record,
                              .flips_at = MONO_NEVER};
    text_format(out->path, sizeof(out->path), "%s", config->record_path);
    if (rc == 0) {
        rc = clock_boot_id(boot_id, &e);
    }
    out->now = clock_mono_now(); /* after reading: what was read is not of the future */
    if (rc != 0) {
        bool is_missing = rc == ERR_NOTFOUND;
        text_format(out->problem, sizeof(out->problem), "%s", e.msg);
        gate_refuse(is_missing ? REASON_RECORD_MISSING : REASON_RECORD_INVALID, e.msg, out->path,
                    &out->gate);
    } else {
        gate_judge(&out->record, boot_id, out->now, out->path, &out->gate);
        out->writer_exists = is_host_agent(out->record.pid);
        out->flips_at = next_flip(out);
        out->since = holds_since(out);
    }
    out->answer = answer_of(out);
}

const char *node_look_message(const struct node_look *look)
{
    return look->gate.message[0] != '\0' ? look->gate.message
           : look->gate.note[0] != '\0'  ? look->gate.note
                                         : look->record.verdict.message;
}

bool node_look_dpu_skew(const struct node_look *look, int64_t *out_ns)
{
    const struct readiness *v = &look->record.verdict;
    const char *renewed = v->lease.renew_stamp;
    struct wall stamped;
    if (!look->has_record || v->observed.ns <= 0 ||
        rfc3339_parse(renewed, strlen(renewed), &stamped, NULL) != 0) {
        return false;
    }
    int64_t age_ns = mono_since(look->now, v->observed);
    *out_ns = wall_since(stamped, (struct wall){.ns = mono_ns_sub(look->wall.ns, age_ns)});
    return true;
}

const char *node_answer_name(enum node_answer answer)
{
    static const char *const names[] = {
        [NODE_READY] = "Ready", [NODE_NOT_READY] = "NotReady", [NODE_UNKNOWN] = "Unknown"};
    return names[answer];
}

/* ---- one file -------------------------------------------------------------------------------- */

static void keep(char out[static CNI_SCAN_TEXT_BYTES], const char *text)
{
    if (text) {
        text_sanitize(out, CNI_SCAN_TEXT_BYTES, text, strlen(text));
    }
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
    if (best) {
        text_sanitize(out->version, sizeof(out->version), best, strlen(best));
    }
    out->speaks_status = version_number(best) >= version_number("1.1.0");
}

static void read_gate(const json_t *gate, const json_t *next, struct cni_entry *out)
{
    const json_t *delegate = json_object_get(gate, "delegate");
    out->is_wrapping = delegate || json_object_get(gate, "delegateConf");
    keep(out->delegate_conf, json_text_get(gate, "delegateConf"));
    keep(out->readiness_file, json_text_get(gate, "readinessFile"));
    keep(out->delegate_type, json_text_get(delegate ? delegate : next, "type"));
}

static void read_multus(const json_t *multus, struct cni_entry *out)
{
    const json_t *delegate = json_array_get(json_object_get(multus, "delegates"), 0);
    const json_t *plugins = json_object_get(delegate, "plugins");
    keep(out->cluster_network, json_text_get(multus, "clusterNetwork"));
    keep(out->first_delegate,
         json_text_get(plugins ? json_array_get(plugins, 0) : delegate, "type"));
}

static void add_type(struct cni_entry *out, const char *type)
{
    size_t used = strlen(out->types);
    char shown[64];
    text_sanitize(shown, sizeof(shown), type, strlen(type));
    text_format(out->types + used, sizeof(out->types) - used, "%s%s", used > 0 ? ", " : "", shown);
}

static void read_plugins(const json_t *conf, struct cni_entry *out)
{
    const json_t *plugins = json_object_get(conf, "plugins");
    size_t count = plugins ? json_array_size(plugins) : 1;
    const json_t *first = plugins ? json_array_get(plugins, 0) : conf;
    const char *first_type = json_text_get(first, "type");
    for (size_t i = 0; i < count; i++) {
        const char *type = json_text_get(plugins ? json_array_get(plugins, i) : conf, "type");
        if (i == 0) { /* before there can be a problem: it matters whose */
            out->is_gated = text_equal(type, "dpu-gate");
        }
        if (text_is_empty(type)) {
            keep(out->problem, "a plugin has no type");
            return;
        }
        add_type(out, type);
    }
    out->plugin_count = count;
    if (count == 0) {
        keep(out->problem, "it has no plugins");
        return;
    }
    out->is_multus = strncmp(first_type, "multus", 6) == 0;
    if (out->is_gated) {
        read_gate(first, plugins ? json_array_get(plugins, 1) : NULL, out);
    }
    if (out->is_multus) {
        read_multus(first, out);
    }
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

/* ---- the directory --------------------------------------------------------------------------- */

static int is_configuration(const struct dirent *entry)
{
    return entry->d_type != DT_DIR && names_is_cni_configuration(entry->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* bytes, as the runtimes sort */
}

/* Runtimes go by the name of the file. */
static void check_kind(struct cni_entry *entry)
{
    bool has_list_name = text_equal(strrchr(entry->file, '.'), ".conflist");
    if (text_is_empty(entry->problem) && has_list_name != entry->is_list) {
        keep(entry->problem, entry->is_list ? "a list of plugins has to be in a .conflist"
                                            : "a .conflist has to have a list of plugins");
    }
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
    check_kind(out);
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

const struct cni_entry *cni_scan_first(const struct cni_scan *scan)
{
    for (size_t i = 0; i < scan->count; i++) {
        if (text_is_empty(scan->entries[i].problem)) {
            return &scan->entries[i];
        }
    }
    return NULL;
}

const struct cni_entry *cni_scan_gated(const struct cni_scan *scan)
{
    for (size_t i = 0; i < scan->count; i++) {
        if (scan->entries[i].is_gated && text_is_empty(scan->entries[i].problem)) {
            return &scan->entries[i];
        }
    }
    return NULL;
}

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
static int spawn(const char *path, int out_fd, pid_t *out_pid)
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

/* Gives its pid and the end from which its output is read. */
static int start(const char *path, pid_t *out_pid, int *out_fd, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_set_errno(e, ERR_IO, errno, "making a pipe");
    }
    int rc = spawn(path, ends[1], out_pid);
    (void)close(ends[1]); /* the child has its own */
    if (rc != 0) {
        (void)close(ends[0]); /* nothing was written */
        return err_set_errno(e, ERR_IO, rc, "running it");
    }
    *out_fd = ends[0];
    return 0;
}

static int collect(int fd, struct buf *out, struct err *e)
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
    pid_t pid = -1;
    int status = 0;
    CLEANUP(fd) int fd = -1;
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, CNI_PROBE_ANSWER_MAX_BYTES);
    int rc = start(path, &pid, &fd, e);
    if (rc != 0) {
        return rc;
    }
    assert(pid > 0); /* of this one child: 0 and -1 would mean others */
    rc = collect(fd, &answer, e);
    (void)kill(pid, SIGKILL); /* it has said all, or too much, or too late */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return rc != 0 ? rc : cni_probe_judge(buf_text(&answer), answer.len, e);
}

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
    const struct grpc_unary_plan plan = {
        .path = socket,
        .method = request->method,
        .message = {.bytes = request->bytes, .len = request->len},
        .timeout_ns = admin_time_left_ns(config),
    };
    buf_clear(answer);
    return grpc_unary_ask(&plan, -1, answer, e);
}

static const uint8_t *bytes_of(const struct buf *answer)
{
    return (const uint8_t *)buf_text(answer);
}

static void take_sandbox(void *user, const struct cri_sandbox *sandbox)
{
    struct pods_look *look = user;
    if (look->pods) { /* else out of memory */
        look->pods[look->count++] = (struct pods_pod){.sandbox = *sandbox};
    }
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
static int look_at(const struct admin_config *config, const char *socket, struct pods_pod *pod,
                   struct err *e)
{
    struct cri_request request;
    struct cri_detail detail;
    struct pod_net net;
    const char *root = config->root ? config->root : "";
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, GRPC_UNARY_REPLY_MAX_BYTES);
    cri_ask(CRI_INSPECT, pod->sandbox.id, &request);
    struct err own = ERR_INIT;
    int rc = pods_ask_runtime(config, socket, &request, &answer, &own);
    if (rc != 0 && own.sys_errno != 0) {
        return err_set(e, rc, "%s", own.msg);
    }
    if (rc == ERR_GONE) {
        return rc;
    }
    if (rc == 0) {
        rc = cri_read_detail(bytes_of(&answer), answer.len, &detail, &own);
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

static void count_pod(struct pods_look *look, const struct pods_pod *pod)
{
    look->lost += pod->net.evidence == POD_NET_LOST;
    look->unseen += pod->net.evidence == POD_NET_UNSEEN && !pod->has_host_network;
}

int pods_look_take(const struct admin_config *config, const char *socket, struct pods_look *out,
                   struct err *e)
{
    struct cri_request request;
    struct pods_look look = {.pods = calloc(CRI_SANDBOXES_MAX, sizeof(*look.pods))};
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, GRPC_UNARY_REPLY_MAX_BYTES);
    if (!look.pods) {
        return err_set(e, ERR_NOMEM, "out of memory for the pods");
    }
    cri_ask(CRI_LIST, NULL, &request);
    int rc = pods_ask_runtime(config, socket, &request, &answer, e);
    if (rc == 0) {
        rc = cri_read_list(bytes_of(&answer), answer.len, take_sandbox, &look, e);
    }
    size_t listed = look.count;
    look.count = 0;
    for (size_t i = 0; rc == 0 && i < listed; i++) {
        struct pods_pod pod = look.pods[i];
        rc = look_at(config, socket, &pod, e);
        if (rc == ERR_GONE) {
            rc = 0;
        } else {
            look.pods[look.count++] = pod;
            count_pod(&look, &pod);
        }
    }
    if (rc != 0) {
        pods_look_fini(&look);
        return rc;
    }
    qsort(look.pods, look.count, sizeof(*look.pods), compare_age);
    *out = look;
    return 0;
}

void pods_look_fini(struct pods_look *look)
{
    free(look->pods);
}
