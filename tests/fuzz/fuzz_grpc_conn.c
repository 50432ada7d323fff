/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes behind the client preface: the connection survives or says that it is to be closed,
 * never answers a call twice, and frees every call. The first byte is the size of the reads. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/h2_client.h"

#include <errno.h>
#include <sys/socket.h>

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
        grpc_call_end(call, GRPC_UNAVAILABLE, "one is enough");
        return;
    }
    s->watch = call;
    grpc_call_on_cancel(call, forget, s);
    grpc_call_send(call, message, len);
}

static const struct grpc_method methods[] = {{"/t.S/Echo", echo}, {"/t.S/W", watch}};

/* Says it to the server; false once that has closed. */
static bool say(struct h2_peer *peer, const void *bytes, size_t len)
{
    uint8_t in[4096];
    (void)!send(peer->client->fd, bytes, len, MSG_NOSIGNAL);
    h2_peer_turn(peer, 2);
    ssize_t got;
    while ((got = recv(peer->client->fd, in, sizeof(in), 0)) > 0) {
    }
    return got < 0 && errno == EAGAIN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct state s = {.watch = NULL};
    struct h2_peer peer = {.server = NULL};
    if (size == 0) {
        return 0;
    }
    h2_peer_start(&peer, methods, ARRAY_LEN(methods), &s);
    size_t step = data[0] ? data[0] : size;
    bool is_open = say(&peer, preface, sizeof(preface) - 1);
    for (size_t at = 1; at < size && is_open; at += step) {
        is_open = say(&peer, data + at, size - at < step ? size - at : step);
        if (s.watch && (at & 1)) {
            grpc_call_send(s.watch, data, size);
        }
    }
    fuzz_tell(s.is_called);
    if (s.watch) {
        struct grpc_call *call = s.watch;
        s.watch = NULL;
        grpc_call_end(call, GRPC_OK, "%s", "");
    }
    grpc_server_shutdown(peer.server);
    h2_peer_turn(&peer, 2);
    h2_peer_stop(&peer);
    return 0;
}
