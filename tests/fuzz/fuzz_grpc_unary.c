/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server says: the call ends, with a message or with a reason. */
#include "grpc/grpc_unary.h"
#include "tests/fuzz/fuzz.h"

#include <ev.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct outcome {
    int ended;
    size_t messages;
};

static void on_message(void *user, const uint8_t *message, size_t len)
{
    ((struct outcome *)user)->messages++;
    assert(message);
}

static void on_done(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct outcome *o = user;
    assert(message && (!why || len == 0));
    assert(!why || (why->code != 0 && strlen(why->msg) < ERR_MSG_BYTES));
    o->ended++;
}

/* A call of a server that says `data` and closes. */
static void answer(const char *path, int listener, const uint8_t *data, size_t size, bool streams)
{
    struct outcome o = {.ended = 0};
    const struct grpc_unary_plan plan = {.path = path,
                                         .method = "/t.S/M",
                                         .timeout_ns = INT64_MAX,
                                         .done = on_done,
                                         .on_message = streams ? on_message : NULL,
                                         .user = &o};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    assert(loop);
    (void)grpc_unary_start(loop, &plan);
    (void)ev_run(loop, EVRUN_ONCE); /* it connects */
    int peer = accept(listener, NULL, NULL);
    assert(peer >= 0);
    (void)ev_run(loop, EVRUN_NOWAIT); /* the request goes first */
    (void)!send(peer, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(peer, SHUT_WR);
    while (o.ended == 0) {
        (void)ev_run(loop, EVRUN_ONCE);
    }
    assert(o.ended == 1);
    (void)close(peer);
    fuzz_tell(o.messages > 0);
    ev_loop_destroy(loop);
}

static struct sockaddr_un address = {.sun_family = AF_UNIX};

static void remove_socket(void)
{
    (void)unlink(address.sun_path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int listener = -1;
    if (listener < 0) {
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/fuzz-unary.%d",
                       (int)getpid());
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert(bind(listener, (const struct sockaddr *)&address, sizeof(address)) == 0);
        assert(listen(listener, 1) == 0);
        (void)atexit(remove_socket);
    }
    answer(address.sun_path, listener, data, size, true);
    answer(address.sun_path, listener, data, size, false);
    return 0;
}
