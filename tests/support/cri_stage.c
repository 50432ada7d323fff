/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC of a container runtime that a test plays (dpu_testing/runtime.py). Never installed.
 *
 *   cri-stage SOCKET
 *
 * Prints "started", and then "METHOD LENGTH" for each call, with the bytes of the request. The
 * answer to it is "STATUS LENGTH" on stdin, with the bytes of the reply, or the words of an error;
 * -1 answers never. The end of the input ends it.
 */
#include "base/err.h"
#include "base/mem.h"
#include "dra-driver/grpc/grpc_server.h"
#include "loop/daemon.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void ask(struct grpc_call *call, const char *method, const uint8_t *bytes, size_t len)
{
    static char reply[GRPC_REPLY_MAX_BYTES];
    char head[64] = "";
    char *rest = head;
    (void)printf("%s %zu\n", method, len);
    (void)fwrite(bytes, 1, len, stdout);
    (void)fflush(stdout);
    int status = fgets(head, sizeof(head), stdin) ? (int)strtol(head, &rest, 10) : -1;
    size_t reply_len = status < 0 ? 0 : strtoull(rest, NULL, 10);
    if (reply_len > sizeof(reply) || fread(reply, 1, reply_len, stdin) != reply_len) {
        abort(); /* the test is wrong */
    }
    if (status == GRPC_OK) {
        grpc_call_reply(call, reply, reply_len);
    } else if (status > 0) {
        grpc_call_end(call, (enum grpc_status)status, "%.*s", (int)reply_len, reply);
    }
}

#define METHOD(name)                                                                               \
    static void on_##name(void *user, struct grpc_call *call, const uint8_t *bytes, size_t len)    \
    {                                                                                              \
        ask(call, #name, bytes, len);                                                              \
    }

METHOD(ListPodSandbox)
METHOD(PodSandboxStatus)
METHOD(StopPodSandbox)
METHOD(Status)
METHOD(Version)

static const struct grpc_method methods[] = {
    {"/runtime.v1.RuntimeService/ListPodSandbox", on_ListPodSandbox},
    {"/runtime.v1.RuntimeService/PodSandboxStatus", on_PodSandboxStatus},
    {"/runtime.v1.RuntimeService/StopPodSandbox", on_StopPodSandbox},
    {"/runtime.v1.RuntimeService/Status", on_Status},
    {"/runtime.v1.RuntimeService/Version", on_Version},
};

/* Between two calls there is nothing to read. */
static void on_end(struct ev_loop *loop, ev_io *watcher, int events)
{
    daemon_quit(watcher->data, 0);
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    struct grpc_server *server;
    ev_io input;
    if (argc != 2) {
        (void)fputs("usage: cri-stage SOCKET\n", stderr);
        return 2;
    }
    struct daemon *daemon = daemon_new(1000, NULL, NULL, NULL);
    const struct grpc_server_config config = {.loop = daemon_loop(daemon),
                                              .name = "cri",
                                              .path = argv[1],
                                              .methods = methods,
                                              .method_count = ARRAY_LEN(methods)};
    if (grpc_server_start(&config, &server, &e) != 0) {
        (void)fprintf(stderr, "cri-stage: %s\n", e.msg);
        return 1;
    }
    ev_io_init(&input, on_end, STDIN_FILENO, EV_READ);
    input.data = daemon;
    ev_io_start(daemon_loop(daemon), &input);
    (void)puts("started");
    (void)fflush(stdout);
    int status = daemon_run(daemon);
    grpc_server_free(server);
    daemon_free(daemon);
    return status;
}
