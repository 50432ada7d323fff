/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/grpc/listen.h"

#include "base/clock.h"
#include "base/log.h"
#include "host-agent/grpc/conn.h"
#include "host-agent/grpc/unix_socket.h"

#include <ev.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 16 << 10 };
static const double ACCEPT_PAUSE_S = 0.5; /* after running out of descriptors or memory */

/* One connection and its watchers. */
struct peer {
    struct grpc_listener *listener; /* borrowed */
    struct peer *prev;              /* in listener->peers */
    struct peer *next;
    int fd; /* owned */
    struct grpc_conn *conn;
    struct mono heard; /* when it last sent something */
    ev_io readable;
    ev_io writable;
    ev_timer deadline;
};

struct grpc_listener {
    struct grpc_listener_config config; /* path points into `socket` */
    struct unix_socket socket;
    ev_io acceptable;
    ev_timer accept_again;
    ev_timer drained; /* zero delay: on_drained comes from the loop, never from our own caller */
    bool is_stopping;
    struct peer *peers; /* owned list */
    size_t open;
    uint64_t calls; /* that there were */
    struct log_repeat refusals;
    struct log_repeat evictions;
};

/* ---- one peer ---- */

static void drained_if_empty(struct grpc_listener *l)
{
    if (l->is_stopping && !l->peers) {
        ev_timer_start(l->config.loop, &l->drained);
    }
}

static void peer_free(struct peer *p)
{
    struct grpc_listener *l = p->listener;
    grpc_conn_free(p->conn); /* cancelled handlers may wake us: so the watchers stop after it */
    ev_io_stop(l->config.loop, &p->readable);
    ev_io_stop(l->config.loop, &p->writable);
    ev_timer_stop(l->config.loop, &p->deadline);
    (void)close(p->fd); /* nothing of ours is left to be written */
    if (p->prev) {
        p->prev->next = p->next;
    } else {
        l->peers = p->next;
    }
    if (p->next) {
        p->next->prev = p->prev;
    }
    l->open--;
    free(p);
    drained_if_empty(l);
}

static void peer_wake(void *user)
{
    struct peer *p = user;
    ev_io_start(p->listener->config.loop, &p->writable);
}

static void peer_log_call(void *user, const struct grpc_ended *ended)
{
    const struct peer *p = user;
    int64_t took_ns = mono_since(clock_mono_now(), ended->begun);
    log_debug("grpc", "%s: call %" PRIu64 " of %s: %s after %.3f ms", p->listener->config.name,
              ended->number, ended->path, grpc_status_name((int)ended->status),
              (double)took_ns / (double)NS_PER_MS);
}

/* Writes until the peer takes no more. Returns false if the connection is to be closed. */
static bool peer_write(struct peer *p)
{
    const uint8_t *bytes;
    size_t len;
    while (grpc_conn_output(p->conn, &bytes, &len, NULL) == 0) {
        if (len == 0) {
            ev_io_stop(p->listener->config.loop, &p->writable);
            return !grpc_conn_is_done(p->conn);
        }
        ssize_t sent = send(p->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            grpc_conn_sent(p->conn, (size_t)sent);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            ev_io_start(p->listener->config.loop, &p->writable);
            return true;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return false;
}

static void peer_arm_deadline(struct peer *p, struct mono now)
{
    struct ev_loop *loop = p->listener->config.loop;
    struct mono next = grpc_conn_next_deadline(p->conn);
    ev_timer_stop(loop, &p->deadline);
    if (!mono_is_never(next)) {
        int64_t left_ns = mono_since(next, now);
        ev_now_update(loop); /* a relative timer counts from the loop's idea of now */
        ev_timer_set(&p->deadline, left_ns > 0 ? (double)left_ns / (double)NS_PER_SEC : 0.0, 0.0);
        ev_timer_start(loop, &p->deadline);
    }
}

/* After any event: write what there is, then wait for the next or close. */
static void peer_settle(struct peer *p, bool keep, struct mono now)
{
    bool writes = peer_write(p);
    if (!keep || !writes) {
        peer_free(p);
        return;
    }
    peer_arm_deadline(p, now);
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    struct peer *p = watcher->data;
    uint8_t bytes[READ_BYTES];
    ssize_t len = recv(p->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return;
    }
    if (len <= 0) {
        peer_free(p);
        return;
    }
    struct err e = ERR_INIT;
    struct mono now = clock_mono_now();
    p->heard = now;
    int rc = grpc_conn_recv(p->conn, bytes, (size_t)len, now, &e);
    if (rc != 0) {
        log_debug("grpc", "%s: closing a connection: %s", p->listener->config.name, e.msg);
    }
    peer_settle(p, rc == 0, now);
}

static void on_writable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    peer_settle(watcher->data, true, clock_mono_now());
}

static void on_deadline(struct ev_loop *loop, ev_timer *watcher, int events)
{
    (void)loop;
    (void)events;
    struct peer *p = watcher->data;
    struct mono now = clock_mono_now();
    peer_settle(p, grpc_conn_tick(p->conn, now, NULL) == 0, now);
}

/* Takes `fd`, also on failure. */
static int peer_new(struct grpc_listener *l, int fd, struct mono now, struct err *e)
{
    struct peer *p = calloc(1, sizeof(*p));
    if (!p) {
        (void)close(fd);
        return err_no_memory(e);
    }
    p->listener = l;
    p->fd = fd;
    p->heard = now;
    ev_io_init(&p->readable, on_readable, fd, EV_READ);
    ev_io_init(&p->writable, on_writable, fd, EV_WRITE);
    ev_init(&p->deadline, on_deadline);
    p->readable.data = p->writable.data = p->deadline.data = p;
    struct grpc_conn_config config = {.router = l->config.router,
                                      .wake = peer_wake,
                                      .on_ended = peer_log_call,
                                      .calls = &l->calls,
                                      .user = p};
    int rc = grpc_conn_new(&config, now, &p->conn, e);
    if (rc != 0) {
        (void)close(fd);
        free(p);
        return rc;
    }
    p->next = l->peers;
    if (l->peers) {
        l->peers->prev = p;
    }
    l->peers = p;
    l->open++;
    ev_io_start(l->config.loop, &p->readable);
    peer_settle(p, true, now); /* our SETTINGS go first */
    return 0;
}

/* ---- the listening socket ---- */

static int check_peer(int fd, struct err *e)
{
    uid_t uid;
    int rc = unix_socket_peer_uid(fd, &uid, e);
    if (rc == 0 && uid != 0 && uid != geteuid()) {
        rc = err_set(e, ERR_AUTH, "user %u is neither root nor ours", (unsigned)uid);
    }
    return rc;
}

static bool is_more_idle(const struct peer *a, const struct peer *b)
{
    bool a_works = grpc_conn_is_serving(a->conn);
    bool b_works = grpc_conn_is_serving(b->conn);
    return a_works == b_works ? mono_before(a->heard, b->heard) : b_works;
}

/* Idle connections, and those whose other end is half gone, must not keep the kubelet out. */
static void make_room(struct grpc_listener *l, struct mono now)
{
    struct peer *idlest = l->peers;
    if (l->open < GRPC_CONNECTIONS_MAX || !idlest) {
        return;
    }
    for (struct peer *p = l->peers; p; p = p->next) {
        if (is_more_idle(p, idlest)) {
            idlest = p;
        }
    }
    if (log_repeat_due(&l->evictions, now, LOG_AGAIN_NS)) {
        log_warn("grpc",
                 "%s: %d connections are open, closing the one that has been silent for longest%s",
                 l->config.name, GRPC_CONNECTIONS_MAX, l->evictions.more);
    }
    peer_free(idlest);
}

/* Takes `fd`. */
static void admit(struct grpc_listener *l, int fd)
{
    struct err e = ERR_INIT;
    struct mono now = clock_mono_now();
    int rc = check_peer(fd, &e);
    if (rc != 0) {
        (void)close(fd);
    } else {
        make_room(l, now);
        rc = peer_new(l, fd, now, &e);
    }
    if (rc != 0 && log_repeat_due(&l->refusals, now, LOG_AGAIN_NS)) {
        log_warn("grpc", "%s: turned a connection away: %s%s", l->config.name, e.msg,
                 l->refusals.more);
    }
}

/* A listening socket that was shut down is readable for ever and accepts nothing. */
static bool is_shut_down(const struct grpc_listener *l)
{
    struct pollfd p = {.fd = l->socket.fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

static void accept_failed(struct grpc_listener *l, int sys_errno)
{
    struct err e = ERR_INIT;
    if (sys_errno == EAGAIN && is_shut_down(l)) {
        sys_errno = ESHUTDOWN;
    }
    switch (sys_errno) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:
        return;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        ev_io_stop(l->config.loop, &l->acceptable);
        ev_timer_set(&l->accept_again, ACCEPT_PAUSE_S, 0.0);
        ev_timer_start(l->config.loop, &l->accept_again);
        return;
    default:
        ev_io_stop(l->config.loop, &l->acceptable);
        (void)err_set_errno(&e, ERR_IO, sys_errno, "accepting on '%s'", l->socket.path);
        log_error("grpc", "%s: %s", l->config.name, e.msg);
        if (l->config.on_broken) {
            l->config.on_broken(l->config.user, &e);
        }
    }
}

static void on_acceptable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    struct grpc_listener *l = watcher->data;
    int fd = accept4(l->socket.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        accept_failed(l, errno);
        return;
    }
    admit(l, fd);
}

static void on_accept_again(struct ev_loop *loop, ev_timer *watcher, int events)
{
    (void)events;
    struct grpc_listener *l = watcher->data;
    ev_io_start(loop, &l->acceptable);
}

static void on_drained_timer(struct ev_loop *loop, ev_timer *watcher, int events)
{
    (void)loop;
    (void)events;
    struct grpc_listener *l = watcher->data;
    if (l->config.on_drained) {
        l->config.on_drained(l->config.user);
    }
}

int grpc_listener_start(const struct grpc_listener_config *config, struct grpc_listener **out,
                        struct err *e)
{
    struct grpc_listener *l = calloc(1, sizeof(*l));
    if (!l) {
        return err_no_memory(e);
    }
    int rc = unix_socket_listen(config->path, config->mode, &l->socket, e);
    if (rc != 0) {
        free(l);
        return rc;
    }
    l->config = *config;
    l->config.path = l->socket.path;
    ev_io_init(&l->acceptable, on_acceptable, l->socket.fd, EV_READ);
    ev_init(&l->accept_again, on_accept_again);
    ev_timer_init(&l->drained, on_drained_timer, 0.0, 0.0);
    l->acceptable.data = l->accept_again.data = l->drained.data = l;
    ev_io_start(config->loop, &l->acceptable);
    *out = l;
    return 0;
}

static void stop_accepting(struct grpc_listener *l)
{
    ev_io_stop(l->config.loop, &l->acceptable);
    ev_timer_stop(l->config.loop, &l->accept_again);
    unix_socket_close(&l->socket);
}

void grpc_listener_shutdown(struct grpc_listener *l)
{
    stop_accepting(l);
    l->is_stopping = true;
    for (struct peer *p = l->peers; p; p = p->next) {
        grpc_conn_shutdown(p->conn);
    }
    drained_if_empty(l);
}

void grpc_listener_free(struct grpc_listener *l)
{
    if (!l) {
        return;
    }
    stop_accepting(l);
    while (l->peers) {
        peer_free(l->peers);
    }
    ev_timer_stop(l->config.loop, &l->drained);
    free(l);
}

bool grpc_listener_is_in_place(const struct grpc_listener *l)
{
    return unix_socket_is_in_place(&l->socket);
}
