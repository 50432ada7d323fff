/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/unix_flight.h"

#include "base/mem.h"
#include "base/time.h"
#include "grpc/grpc_client.h"
#include "grpc/unix_call.h"

#include <ev.h>

#include <errno.h>
#include <sys/socket.h>

enum { READ_BYTES = 16 << 10 };

struct unix_flight {
    struct ev_loop *loop;
    struct unix_flight_plan plan;
    int fd;
    ev_io io;
    ev_timer deadline;
    struct grpc_client *client;
    struct buf answer;
    size_t messages;
    struct err problem; /* with a message of the answer */
};

void unix_flight_cancel(struct unix_flight *f)
{
    if (f) {
        ev_io_stop(f->loop, &f->io);
        ev_timer_stop(f->loop, &f->deadline);
        (void)close(f->fd); /* nothing of ours is left to be written */
        grpc_client_free(f->client);
        buf_fini(&f->answer);
        free(f);
    }
}

static void finish(struct unix_flight *f, const struct err *why)
{
    unix_flight_fn *done = f->plan.done;
    void *user = f->plan.user;
    struct buf answer = f->answer;
    buf_init(&f->answer, 0); /* moved */
    unix_flight_cancel(f);
    done(user, (const uint8_t *)buf_text(&answer), why ? 0 : answer.len, why);
    buf_fini(&answer);
}

static void on_message(void *user, const uint8_t *message, size_t len)
{
    struct unix_flight *f = user;
    f->messages++;
    if (f->messages == 1 && buf_append(&f->answer, message, len, &f->problem) != 0) {
        f->messages = 0; /* told by `problem` */
    }
}

static int write_some(struct unix_flight *f, struct err *e)
{
    for (;;) {
        const uint8_t *bytes;
        size_t len;
        int rc = grpc_client_output(f->client, &bytes, &len, e);
        if (rc != 0) {
            return rc;
        }
        ssize_t sent = len > 0 ? send(f->fd, bytes, len, MSG_NOSIGNAL) : 0;
        bool is_full = sent < 0 && errno == EAGAIN;
        if (sent < 0 && !is_full) {
            return err_set_errno(e, ERR_RETRY, errno, "writing to '%s'", f->plan.path);
        }
        if (len == 0 || is_full) {
            ev_io_stop(f->loop, &f->io);
            ev_io_set(&f->io, f->fd, is_full ? EV_READ | EV_WRITE : EV_READ);
            ev_io_start(f->loop, &f->io);
            return 0;
        }
        grpc_client_sent(f->client, (size_t)sent);
    }
}

static int read_some(struct unix_flight *f, struct err *e)
{
    uint8_t bytes[READ_BYTES];
    ssize_t len = recv(f->fd, bytes, sizeof(bytes), 0);
    if (len < 0 && errno == EAGAIN) {
        return 0;
    }
    if (len <= 0) {
        return err_set_errno(e, ERR_RETRY, len < 0 ? errno : ECONNRESET,
                             "'%s' closed the connection", f->plan.path);
    }
    return grpc_client_recv(f->client, bytes, (size_t)len, e);
}

/* How the call ended, once it is over. */
static int judge(struct unix_flight *f, struct err *e)
{
    int status = grpc_client_status(f->client);
    if (status != GRPC_OK) {
        return err_set(e, ERR_RETRY, "%s: %s: %s", f->plan.method, grpc_status_name(status),
                       grpc_client_text(f->client));
    }
    if (f->problem.code != 0) {
        *e = f->problem;
        return e->code;
    }
    return f->messages == 1 ? 0
                            : err_set(e, ERR_PARSE, "%s: %zu messages in place of one",
                                      f->plan.method, f->messages);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
    (void)loop;
    struct unix_flight *f = io->data;
    struct err e = ERR_INIT;
    int rc = (events & EV_READ) != 0 ? read_some(f, &e) : 0;
    bool is_over = grpc_client_is_over(f->client);
    if (rc == 0 && !is_over) {
        rc = write_some(f, &e);
    }
    if (rc == 0 && is_over) {
        rc = judge(f, &e);
    }
    if (rc != 0 || is_over) {
        finish(f, rc != 0 ? &e : NULL);
    }
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    struct unix_flight *f = timer->data;
    struct err e = ERR_INIT;
    (void)err_set_errno(&e, ERR_RETRY, ETIMEDOUT, "%s: waiting for '%s'", f->plan.method,
                        f->plan.path);
    finish(f, &e);
}

int unix_flight_start(struct ev_loop *loop, const struct unix_flight_plan *plan,
                      struct unix_flight **out, struct err *e)
{
    CLEANUP(free) struct unix_flight *f = calloc(1, sizeof(*f));
    if (!f) {
        return err_set(e, ERR_NOMEM, "out of memory for a call");
    }
    f->loop = loop;
    f->plan = *plan;
    buf_init(&f->answer, GRPC_CLIENT_REPLY_MAX_BYTES);
    int rc = unix_call_connect(plan->path, SOCK_NONBLOCK, &f->fd, e);
    if (rc != 0) {
        return rc;
    }
    rc = grpc_client_new(plan->method, plan->message.bytes, plan->message.len, on_message, f,
                         &f->client, e);
    if (rc != 0) {
        (void)close(f->fd); /* nothing was written */
        return rc;
    }
    ev_io_init(&f->io, on_io, f->fd, EV_READ | EV_WRITE);
    f->io.data = f;
    ev_io_start(loop, &f->io);
    ev_timer_init(&f->deadline, on_deadline, (double)plan->timeout_ns / (double)NS_PER_SEC, 0.);
    f->deadline.data = f;
    ev_timer_start(loop, &f->deadline);
    *out = TAKE(f);
    return 0;
}
