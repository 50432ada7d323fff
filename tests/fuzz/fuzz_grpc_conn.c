/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes behind the client preface: the connection survives or says that it is to be closed,
 * never answers a call twice, and frees every call. The first byte is the size of the reads. */
#include "host-agent/grpc/conn.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct state {
    struct grpc_call *watch;
    bool is_called;
};

static void forget(void *user, struct grpc_call *call)
{
    struct state *s = user;
    if (s->watch == call) {
        s->watch = NULL;
    }
}

static void echo(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    ((struct state *)user)->is_called = true;
    grpc_call_reply(call, message, len);
}

static void watch(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    struct state *s = user;
    s->is_called = true;
    if (s->watch) {
        grpc_call_fail(call, GRPC_UNAVAILABLE, "one is enough");
        return;
    }
    s->watch = call;
    grpc_call_on_cancel(call, forget, s);
    grpc_call_send(call, message, len);
}

static void wake(void *user)
{
    (void)user;
}

static void drain(struct grpc_conn *conn)
{
    for (size_t len; (len = grpc_conn_output(conn).len) > 0;) {
        grpc_conn_sent(conn, len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct state s = {.watch = NULL};
    struct grpc_router router = {
        .methods = {{"/t.S/Echo", GRPC_UNARY, echo, &s}, {"/t.S/W", GRPC_SERVER_STREAM, watch, &s}},
        .count = 2,
    };
    uint64_t calls = 0;
    struct grpc_conn_config config = {
        .router = &router, .name = "fuzz", .calls = &calls, .wake = wake, .user = &s};
    if (size == 0) {
        return 0;
    }
    struct grpc_conn *conn = grpc_conn_new(&config, (struct mono){0});
    size_t step = data[0] ? data[0] : size;
    struct mono now = {0};
    int rc = grpc_conn_recv(conn, (const uint8_t *)preface, sizeof(preface) - 1, now, NULL);
    for (size_t at = 1; at < size && rc == 0; at += step) {
        size_t count = size - at < step ? size - at : step;
        now = mono_add(now, NS_PER_MS);
        rc = grpc_conn_recv(conn, data + at, count, now, NULL);
        drain(conn);
        if (s.watch && (at & 1)) {
            grpc_call_send(s.watch, data, size);
        }
    }
    fuzz_tell(s.is_called);
    (void)grpc_conn_tick(conn, mono_add(now, GRPC_REQUEST_NS));
    if (s.watch) {
        struct grpc_call *call = s.watch;
        s.watch = NULL;
        grpc_call_end(call, GRPC_OK, "");
    }
    grpc_conn_shutdown(conn);
    drain(conn);
    grpc_conn_free(conn);
    return 0;
}
