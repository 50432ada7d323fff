/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container runtime that has nothing but sandboxes, as many and as ill as a test wants. Never
 * installed.
 *
 *   cri-stage SOCKET
 *
 * Each line on stdin is an order: "add ID NAMESPACE NAME UID PID MADE-NS NETWORK [NETNS]" (network
 * "pod" or "host"; pid 0: none is told, as by CRI-O; nor is a namespace, without its path),
 * "hang METHOD", "slow METHOD" (0.2 s each), "refuse METHOD", "network MESSAGE" (empty: ready),
 * "listen", which is the end of its start (prints "started"). METHOD is List, Inspect, Stop, Status
 * or Version. Prints "stop ID" for each StopPodSandbox that it obeyed; the sandbox is then gone.
 * The end of the input ends it.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "grpc_proto/cri.pb-c.h"
#include "host-agent/grpc/grpc_server.h"
#include "loop/daemon.h"

#include <ev.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SANDBOXES_MAX = 1200, WORD_BYTES = 256, INPUT_MAX_BYTES = 1 << 20 };

enum method { LIST, INSPECT, STOP, STATUS, VERSION, METHODS };
enum mood { SERVES, SLOW, HANGS, REFUSES };

static const char *const method_names[METHODS] = {"List", "Inspect", "Stop", "Status", "Version"};

struct stage_sandbox {
    char id[WORD_BYTES];
    char ns[WORD_BYTES];
    char name[WORD_BYTES];
    char uid[WORD_BYTES];
    char netns[WORD_BYTES];
    int32_t pid;
    int64_t made_ns;
    bool has_host_network;
};

struct stage {
    struct daemon *daemon;
    const char *socket;
    struct grpc_server *server; /* NULL: not yet */
    ev_io input;
    struct buf text;
    enum mood moods[METHODS];
    char trouble[WORD_BYTES]; /* of the network */
    struct stage_sandbox sandboxes[SANDBOXES_MAX];
    size_t count;
};

static struct stage_sandbox *find(struct stage *s, const char *id)
{
    for (size_t i = 0; i < s->count; i++) {
        if (text_equal(s->sandboxes[i].id, id)) {
            return &s->sandboxes[i];
        }
    }
    return NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* False if the call was dealt with already. */
static bool serves(const struct stage *s, enum method method, struct grpc_call *call)
{
    if (s->moods[method] == REFUSES) {
        grpc_call_end(call, GRPC_UNAVAILABLE, "%s is refused", method_names[method]);
    }
    if (s->moods[method] == SLOW) {
        const struct timespec pause = {.tv_nsec = 200 * NS_PER_MS};
        (void)nanosleep(&pause, NULL); /* about so long */
    }
    return s->moods[method] == SERVES || s->moods[method] == SLOW;
}

static void reply(struct grpc_call *call, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(len + 1);
    if (!bytes) {
        abort(); /* a test without memory is none */
    }
    protobuf_c_message_pack(message, bytes);
    grpc_call_reply(call, bytes, len);
    free(bytes);
}

static void on_list(void *user, struct grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct stage *s = user;
    static Cri__Sandbox items[SANDBOXES_MAX];
    static Cri__SandboxMetadata pods[SANDBOXES_MAX];
    static Cri__Sandbox *list[SANDBOXES_MAX];
    Cri__ListResponse answer = CRI__LIST_RESPONSE__INIT;
    if (!serves(s, LIST, call)) {
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        struct stage_sandbox *at = &s->sandboxes[i];
        pods[i] = (Cri__SandboxMetadata)CRI__SANDBOX_METADATA__INIT;
        pods[i].name = at->name;
        pods[i].uid = at->uid;
        pods[i].namespace_ = at->ns;
        items[i] = (Cri__Sandbox)CRI__SANDBOX__INIT;
        items[i].id = at->id;
        items[i].metadata = &pods[i];
        items[i].created_at = at->made_ns;
        list[i] = &items[i];
    }
    answer.n_items = s->count;
    answer.items = list;
    reply(call, &answer.base);
}

static void describe(const struct stage_sandbox *at, char *out, size_t out_bytes)
{
    char pid[32] = "";
    char path[WORD_BYTES + 16] = "";
    if (at->pid != 0) {
        text_format(pid, sizeof(pid), "\"pid\":%d,", (int)at->pid);
    }
    if (at->netns[0] != '\0') {
        text_format(path, sizeof(path), ",\"path\":\"%s\"", at->netns);
    }
    text_format(
        out, out_bytes,
        "{\"image\":\"pause\",%s\"runtimeSpec\":{\"linux\":{\"namespaces\":[{\"type\":\"ipc\"},"
        "{\"type\":\"network\"%s}]}}}",
        pid, path);
}

static void on_inspect(void *user, struct grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct stage *s = user;
    char info[2 * WORD_BYTES];
    char key[] = "info";
    Cri__NamespaceOption option = CRI__NAMESPACE_OPTION__INIT;
    Cri__Namespaces namespaces = CRI__NAMESPACES__INIT;
    Cri__LinuxStatus linux_status = CRI__LINUX_STATUS__INIT;
    Cri__SandboxStatus status = CRI__SANDBOX_STATUS__INIT;
    Cri__InfoEntry entry = CRI__INFO_ENTRY__INIT;
    Cri__InfoEntry *entries[] = {&entry};
    Cri__SandboxStatusResponse answer = CRI__SANDBOX_STATUS_RESPONSE__INIT;
    if (!serves(s, INSPECT, call)) {
        return;
    }
    Cri__SandboxStatusRequest *request = cri__sandbox_status_request__unpack(NULL, len, bytes);
    struct stage_sandbox *at = request ? find(s, request->id) : NULL;
    cri__sandbox_status_request__free_unpacked(request, NULL);
    if (!at) {
        grpc_call_end(call, GRPC_NOT_FOUND, "no such sandbox");
        return;
    }
    option.network = at->has_host_network ? CRI__NAMESPACE_MODE__NODE : CRI__NAMESPACE_MODE__POD;
    namespaces.options = &option;
    linux_status.namespaces = &namespaces;
    status.linux_status = &linux_status;
    describe(at, info, sizeof(info));
    entry.key = key;
    entry.value = info;
    answer.status = &status;
    answer.n_info = 1;
    answer.info = entries;
    reply(call, &answer.base);
}

static void on_stop(void *user, struct grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct stage *s = user;
    if (!serves(s, STOP, call)) {
        return;
    }
    Cri__StopRequest *request = cri__stop_request__unpack(NULL, len, bytes);
    struct stage_sandbox *at = request ? find(s, request->id) : NULL;
    if (at) {
        (void)printf("stop %s\n", at->id);
        *at = s->sandboxes[--s->count];
    }
    cri__stop_request__free_unpacked(request, NULL);
    grpc_call_reply(call, "", 0); /* one that is not there is stopped */
}

static void on_status(void *user, struct grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct stage *s = user;
    char type[] = "NetworkReady";
    char reason[] = "NetworkPluginNotReady";
    Cri__RuntimeCondition condition = CRI__RUNTIME_CONDITION__INIT;
    Cri__RuntimeCondition *conditions[] = {&condition};
    Cri__RuntimeStatus status = CRI__RUNTIME_STATUS__INIT;
    Cri__StatusResponse answer = CRI__STATUS_RESPONSE__INIT;
    if (!serves(s, STATUS, call)) {
        return;
    }
    condition.type = type;
    condition.status = s->trouble[0] == '\0';
    if (!condition.status) {
        condition.reason = reason;
        condition.message = s->trouble;
    }
    status.n_conditions = 1;
    status.conditions = conditions;
    answer.status = &status;
    reply(call, &answer.base);
}

static void on_version(void *user, struct grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct stage *s = user;
    char name[] = "containerd";
    char version[] = "v2.1.9";
    Cri__VersionResponse answer = CRI__VERSION_RESPONSE__INIT;
    if (serves(s, VERSION, call)) {
        answer.runtime_name = name;
        answer.runtime_version = version;
        reply(call, &answer.base);
    }
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void add(struct stage *s, const char *words)
{
    struct stage_sandbox at = {.pid = 0};
    char network[WORD_BYTES];
    if (s->count == SANDBOXES_MAX ||
        sscanf(words, "%255s %255s %255s %255s %" SCNd32 " %" SCNd64 " %255s %255s", at.id, at.ns,
               at.name, at.uid, &at.pid, &at.made_ns, network, at.netns) < 7) {
        (void)fprintf(stderr, "cri-stage: cannot add: %s\n", words);
        abort(); /* the test is wrong */
    }
    at.has_host_network = text_equal(network, "host");
    s->sandboxes[s->count++] = at;
}

static void set_mood(struct stage *s, const char *name, enum mood mood)
{
    for (size_t i = 0; i < METHODS; i++) {
        if (text_equal(method_names[i], name)) {
            s->moods[i] = mood;
        }
    }
}

/* Whoever asks a runtime finds all that it has. */
static void listen_for_calls(struct stage *s)
{
    struct err e = ERR_INIT;
    static const struct grpc_method methods[] = {
        {"/runtime.v1.RuntimeService/ListPodSandbox", on_list},
        {"/runtime.v1.RuntimeService/PodSandboxStatus", on_inspect},
        {"/runtime.v1.RuntimeService/StopPodSandbox", on_stop},
        {"/runtime.v1.RuntimeService/Status", on_status},
        {"/runtime.v1.RuntimeService/Version", on_version},
    };
    const struct grpc_server_config config = {.loop = daemon_loop(s->daemon),
                                              .name = "cri",
                                              .path = s->socket,
                                              .methods = methods,
                                              .method_count = ARRAY_LEN(methods),
                                              .user = s};
    if (grpc_server_start(&config, &s->server, &e) != 0) {
        (void)fprintf(stderr, "cri-stage: %s\n", e.msg);
        abort(); /* the test is wrong */
    }
    (void)puts("started");
}

static void obey(struct stage *s, char *line)
{
    char *space = strchr(line, ' ');
    const char *rest = space ? space + 1 : "";
    if (space) {
        *space = '\0';
    }
    if (text_equal(line, "add")) {
        add(s, rest);
    } else if (text_equal(line, "hang")) {
        set_mood(s, rest, HANGS);
    } else if (text_equal(line, "slow")) {
        set_mood(s, rest, SLOW);
    } else if (text_equal(line, "refuse")) {
        set_mood(s, rest, REFUSES);
    } else if (text_equal(line, "network")) {
        (void)text_copy(s->trouble, sizeof(s->trouble), rest); /* a test's sentence */
    } else if (text_equal(line, "listen")) {
        listen_for_calls(s);
    }
}

static void on_input(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct stage *s = watcher->data;
    char chunk[65536];
    ssize_t len = read(STDIN_FILENO, chunk, sizeof(chunk));
    if (len <= 0 || buf_append(&s->text, chunk, (size_t)len, NULL) != 0) {
        daemon_quit(s->daemon, 0);
        return;
    }
    char *line = s->text.data;
    for (char *end = strchr(line, '\n'); end; end = strchr(line, '\n')) {
        *end = '\0';
        obey(s, line);
        line = end + 1;
    }
    struct buf rest = {.max_bytes = INPUT_MAX_BYTES};
    if (buf_appendf(&rest, NULL, "%s", line) != 0) {
        abort(); /* a test without memory is none */
    }
    buf_fini(&s->text);
    s->text = rest;
}

int main(int argc, char **argv)
{
    static struct stage s;
    if (argc != 2) {
        (void)fputs("usage: cri-stage SOCKET\n", stderr);
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a test waits for the lines */
    s.text = (struct buf){.max_bytes = INPUT_MAX_BYTES};
    s.socket = argv[1];
    s.daemon = daemon_new(1000, NULL, NULL, &s);
    ev_io_init(&s.input, on_input, STDIN_FILENO, EV_READ);
    s.input.data = &s;
    ev_io_start(daemon_loop(s.daemon), &s.input);
    int status = daemon_run(s.daemon);
    grpc_server_free(s.server);
    daemon_free(s.daemon);
    buf_fini(&s.text);
    return status;
}
