/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/grpc/listen.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <ev.h>

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { READ_BYTES = 16 << 10, BACKLOG = 16, NAME_TRIES = 4 };
static const double ACCEPT_PAUSE_S = 0.5; /* after running out of descriptors or memory */

/* One connection and its watchers. */
struct peer {
    struct grpc_listener *listener; /* borrowed */
    struct peer *next;              /* in listener->peers */
    int fd;                         /* owned */
    struct grpc_conn *conn;
    struct mono heard; /* when it last sent something */
    ev_io readable;
    ev_io writable;
    ev_timer deadline;
};

struct grpc_listener {
    struct grpc_listener_config config; /* the path is our own */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int fd;       /* -1: closed */
    dev_t device; /* of the name in the file system, to tell it from a successor's */
    ino_t inode;
    ev_io acceptable;
    ev_timer accept_again;
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
    if (l->is_stopping && !l->peers && l->config.on_drained) {
        l->config.on_drained(l->config.user);
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
    struct peer **at = &l->peers;
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    l->open--;
    free(p);
    drained_if_empty(l);
}

static void peer_wake(void *user)
{
    struct peer *p = user;
    ev_io_start(p->listener->config.loop, &p->writable);
}

/* Writes until the peer takes no more. Returns false if the connection is to be closed. */
static bool peer_write(struct peer *p)
{
    for (;;) {
        struct grpc_slice out = grpc_conn_output(p->conn);
        if (out.len == 0) {
            ev_io_stop(p->listener->config.loop, &p->writable);
            return !grpc_conn_is_done(p->conn);
        }
        ssize_t sent = send(p->fd, out.bytes, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            grpc_conn_sent(p->conn, (size_t)sent);
        } else if (errno == EAGAIN) {
            ev_io_start(p->listener->config.loop, &p->writable);
            return true;
        } else if (errno != EINTR) {
            return false;
        }
    }
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
    if (peer_write(p) && keep) {
        peer_arm_deadline(p, now);
    } else {
        peer_free(p);
    }
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    struct peer *p = watcher->data;
    uint8_t bytes[READ_BYTES];
    ssize_t len = recv(p->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
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
    peer_settle(p, grpc_conn_tick(p->conn, now), now);
}

/* Takes `fd`. */
static void peer_new(struct grpc_listener *l, int fd, struct mono now)
{
    struct peer *p = MEM_NEW(struct peer);
    const struct grpc_conn_config config = {.router = l->config.router,
                                            .name = l->config.name,
                                            .calls = &l->calls,
                                            .wake = peer_wake,
                                            .user = p};
    *p = (struct peer){.listener = l, .next = l->peers, .fd = fd, .heard = now};
    ev_io_init(&p->readable, on_readable, fd, EV_READ);
    ev_io_init(&p->writable, on_writable, fd, EV_WRITE);
    ev_init(&p->deadline, on_deadline);
    p->readable.data = p->writable.data = p->deadline.data = p;
    p->conn = grpc_conn_new(&config, now);
    l->peers = p;
    l->open++;
    ev_io_start(l->config.loop, &p->readable);
    peer_settle(p, true, now); /* our SETTINGS go first */
}

/* ---- who may connect ---- */

static int check_peer(int fd, struct err *e)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
        return err_set_errno(e, ERR_IO, errno, "asking for the peer's credentials");
    }
    return peer.uid == 0 || peer.uid == geteuid()
               ? 0
               : err_set(e, ERR_AUTH, "user %u is neither root nor ours", (unsigned)peer.uid);
}

static bool is_more_idle(const struct peer *a, const struct peer *b)
{
    bool a_works = grpc_conn_is_serving(a->conn);
    bool b_works = grpc_conn_is_serving(b->conn);
    return a_works == b_works ? mono_before(a->heard, b->heard) : b_works;
}

/* Idle connections, and those whose other end is half gone, must not keep the kubelet out. */
static void make_room(struct grpc_listener *l)
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
    (void)log_limited(
        &l->evictions, LOG_AGAIN_NS, LOG_WARN, "grpc",
        "%s: %d connections are open, closing the one that has been silent for longest",
        l->config.name, GRPC_CONNECTIONS_MAX);
    peer_free(idlest);
}

static void on_acceptable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)events;
    struct grpc_listener *l = watcher->data;
    struct err e = ERR_INIT;
    int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0 && check_peer(fd, &e) == 0) {
        make_room(l);
        peer_new(l, fd, clock_mono_now());
        return;
    }
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    } else if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) {
        return;
    } else {                                                    /* no descriptors, no memory */
        (void)err_set_errno(&e, ERR_IO, errno, "accepting it"); /* told below */
        ev_io_stop(loop, &l->acceptable);
        ev_timer_set(&l->accept_again, ACCEPT_PAUSE_S, 0.0);
        ev_timer_start(loop, &l->accept_again);
    }
    (void)log_limited(&l->refusals, LOG_AGAIN_NS, LOG_WARN, "grpc",
                      "%s: turned a connection away: %s", l->config.name, e.msg);
}

static void on_accept_again(struct ev_loop *loop, ev_timer *watcher, int events)
{
    (void)events;
    struct grpc_listener *l = watcher->data;
    ev_io_start(loop, &l->acceptable);
}

/* ---- the listening socket ---- */

/* Binds `fd` to a hidden name in the directory of `path`. The name is shorter than any of ours, so
 * it fits where `path` does; it is random because two containers may share the directory and not
 * their process ids. */
static int bind_hidden(int fd, const char *path, struct sockaddr_un *out_address, struct err *e)
{
    const char *slash = strrchr(path, '/');
    int dir_len = slash ? (int)(slash - path) + 1 : 0;
    for (int i = 0; i < NAME_TRIES; i++) {
        uint8_t random[3];
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
            return err_set_errno(e, ERR_IO, errno, "reading random bytes");
        }
        int len = snprintf(address.sun_path, sizeof(address.sun_path), "%.*s.%02x%02x%02x", dir_len,
                           path, random[0], random[1], random[2]);
        if (len < 0 || (size_t)len >= sizeof(address.sun_path)) {
            return err_set(e, ERR_LIMIT, "no room for a hidden name beside '%s'", path);
        }
        if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
            *out_address = address;
            return 0;
        }
        if (errno != EADDRINUSE) {
            break;
        }
    }
    return err_set_errno(e, ERR_IO, errno, "binding a socket beside '%s'", path);
}

/* From the hidden name to the listening socket under its own. */
static int publish(struct grpc_listener *l, const char *hidden, struct err *e)
{
    struct stat st;
    /* chmod because the umask may have taken bits away that the admin asked for. */
    if (chmod(hidden, l->config.mode) != 0 || lstat(hidden, &st) != 0 ||
        listen(l->fd, BACKLOG) != 0 || rename(hidden, l->path) != 0) {
        (void)err_set_errno(e, ERR_IO, errno, "listening on '%s'", l->path); /* that is returned */
        (void)unlink(hidden);
        return ERR_IO;
    }
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return 0;
}

static int listener_bind(struct grpc_listener *l, struct err *e)
{
    struct sockaddr_un hidden;
    struct stat st;
    const char *path = l->config.path;
    if (!text_copy(l->path, sizeof(l->path), path)) {
        return err_set(e, ERR_LIMIT, "socket path '%s' has %zu bytes, more than %zu", path,
                       strlen(path), sizeof(l->path) - 1);
    }
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        return err_set(e, ERR_CONFLICT, "'%s' exists and is not a socket", path);
    }
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The mode of the socket becomes that of the name, so it is never wider than asked for. */
    if (l->fd < 0 || fchmod(l->fd, l->config.mode) != 0) {
        return err_set_errno(e, ERR_IO, errno, "making a socket for '%s'", path);
    }
    int rc = bind_hidden(l->fd, l->path, &hidden, e);
    return rc == 0 ? publish(l, hidden.sun_path, e) : rc;
}

bool grpc_listener_is_in_place(const struct grpc_listener *l)
{
    struct stat st;
    return l->fd >= 0 && lstat(l->path, &st) == 0 && st.st_dev == l->device &&
           st.st_ino == l->inode;
}

int grpc_listener_start(const struct grpc_listener_config *config, struct grpc_listener **out,
                        struct err *e)
{
    struct grpc_listener *l = MEM_NEW(struct grpc_listener);
    l->config = *config;
    l->fd = -1;
    int rc = listener_bind(l, e);
    if (rc != 0) {
        cleanup_fd(&l->fd);
        free(l);
        return rc;
    }
    l->config.path = l->path;
    ev_io_init(&l->acceptable, on_acceptable, l->fd, EV_READ);
    ev_init(&l->accept_again, on_accept_again);
    l->acceptable.data = l->accept_again.data = l;
    ev_io_start(config->loop, &l->acceptable);
    *out = l;
    return 0;
}

static void stop_accepting(struct grpc_listener *l)
{
    ev_io_stop(l->config.loop, &l->acceptable);
    ev_timer_stop(l->config.loop, &l->accept_again);
    if (grpc_listener_is_in_place(l)) {
        (void)unlink(l->path); /* gone already: just as well */
    }
    cleanup_fd(&l->fd);
    l->fd = -1;
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
    l->config.on_drained = NULL;
    while (l->peers) {
        peer_free(l->peers);
    }
    free(l);
}
