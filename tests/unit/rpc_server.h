/* SPDX-License-Identifier: Apache-2.0 */
/* A server on a unix socket in the test's own loop: it takes one connection, says what it is told
 * to once it has heard something, and keeps what it heard. */
#ifndef TESTS_UNIT_RPC_SERVER_H
#define TESTS_UNIT_RPC_SERVER_H

#include <ev.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct rpc_server {
    char path[64];
    int listener;
    ev_io acceptable;
    ev_io ready;        /* of the connection */
    const char *answer; /* NULL: silence */
    size_t left;        /* how often it is still said */
    bool at_once;       /* before anything was heard */
    bool hangs_up;
    char heard[4096];
    size_t heard_len;
};

static inline void rpc_server_say(struct ev_loop *loop, struct rpc_server *s)
{
    while (s->answer && s->left > 0) {
        if (send(s->ready.fd, s->answer, strlen(s->answer), MSG_NOSIGNAL) < 0) {
            return; /* full, or gone */
        }
        s->left--;
    }
    if (s->hangs_up) {
        ev_io_stop(loop, &s->ready);
        (void)close(s->ready.fd);
        ev_io_set(&s->ready, -1, EV_READ);
    }
}

static inline void rpc_server_on_ready(struct ev_loop *loop, ev_io *w, int events)
{
    struct rpc_server *s = w->data;
    (void)events;
    ssize_t got = recv(w->fd, s->heard + s->heard_len, sizeof(s->heard) - 1 - s->heard_len, 0);
    if (got == 0) {
        ev_io_stop(loop, w);
        return;
    }
    s->heard_len += got > 0 ? (size_t)got : 0;
    s->heard[s->heard_len] = '\0';
    rpc_server_say(loop, s);
}

static inline void rpc_server_on_connection(struct ev_loop *loop, ev_io *w, int events)
{
    struct rpc_server *s = w->data;
    (void)events;
    int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ev_io_init(&s->ready, rpc_server_on_ready, fd, s->left > 1 ? EV_READ | EV_WRITE : EV_READ);
    s->ready.data = s;
    s->heard_len = 0;
    ev_io_start(loop, &s->ready);
    if (s->at_once) {
        rpc_server_say(loop, s);
    }
}

/* `s` holds its answer already. */
static inline bool rpc_server_open(struct ev_loop *loop, const char *path, struct rpc_server *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(s->path, sizeof(s->path), "%s", path);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    s->left = s->left > 0 ? s->left : 1;
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->listener < 0 ||
        bind(s->listener, (struct sockaddr *)&address, (socklen_t)sizeof(address)) != 0 ||
        listen(s->listener, 8) != 0) {
        return false;
    }
    ev_io_init(&s->ready, rpc_server_on_ready, -1, EV_READ);
    ev_io_init(&s->acceptable, rpc_server_on_connection, s->listener, EV_READ);
    s->acceptable.data = s;
    ev_io_start(loop, &s->acceptable);
    return true;
}

static inline void rpc_server_close(struct ev_loop *loop, struct rpc_server *s)
{
    ev_io_stop(loop, &s->acceptable);
    ev_io_stop(loop, &s->ready);
    if (s->ready.fd >= 0) {
        (void)close(s->ready.fd);
    }
    (void)close(s->listener);
    (void)unlink(s->path);
}

#endif
