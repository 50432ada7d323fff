/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/grpc_unary.h"

#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "grpc/http2.h"

#include <ev.h>

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { READ_BYTES = 16 << 10 };

struct grpc_unary {
    struct ev_loop *loop;
    struct grpc_unary_plan plan;
    int fd;
    ev_io io;
    ev_timer deadline;
    nghttp2_session *session; /* owned */
    struct grpc_slice unsent; /* borrowed from the session */
    struct buf request;       /* with prefix */
    size_t request_sent;
    struct grpc_deframer deframer;
    struct buf message; /* under way; of a unary call the whole answer */
    size_t messages;
    bool is_http_ok;
    bool has_status;
    bool is_over;
    int status;
    char text[GRPC_UNARY_TEXT_BYTES];
};

/* ---- what the server says -------------------------------------------------------------------- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    (void)session;
    (void)frame;
    (void)flags;
    struct grpc_unary *u = user;
    int64_t status;
    if (http2_is(name, name_len, ":status")) {
        u->is_http_ok = http2_is(value, value_len, "200");
    } else if (http2_is(name, name_len, "grpc-status") &&
               text_to_i64((const char *)value, value_len, &status, NULL) == 0 && status >= 0 &&
               status < 100) {
        u->has_status = true;
        u->status = (int)status;
    } else if (http2_is(name, name_len, "grpc-message")) {
        char decoded[GRPC_UNARY_TEXT_BYTES];
        grpc_percent_decode((const char *)value, value_len, decoded, sizeof(decoded));
        text_sanitize(u->text, sizeof(u->text), decoded, strlen(decoded));
    }
    return 0;
}

static void end_with(struct grpc_unary *u, int status, const char *text)
{
    u->is_over = true;
    u->status = status;
    text_format(u->text, sizeof(u->text), "%s", text);
}

static void take_message(struct grpc_unary *u)
{
    u->messages++;
    if (u->plan.on_message) {
        u->plan.on_message(u->plan.user, (const uint8_t *)buf_text(&u->message), u->message.len);
        buf_clear(&u->message);
    }
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t len, void *user)
{
    (void)session;
    (void)flags;
    (void)stream_id;
    struct grpc_unary *u = user;
    struct grpc_slice in = {.bytes = bytes, .len = len};
    while (!u->is_over) {
        struct grpc_slice part;
        switch (grpc_deframe(&u->deframer, &in, &part)) {
        case GRPC_NEED_MORE:
            return 0;
        case GRPC_PAYLOAD:
            if (buf_append(&u->message, part.bytes, part.len, NULL) != 0) {
                end_with(u, GRPC_RESOURCE_EXHAUSTED, "the answer is too large");
            }
            break;
        case GRPC_MESSAGE:
            take_message(u);
            break;
        case GRPC_COMPRESSED:
        case GRPC_BAD_FLAG:
        case GRPC_TOO_LARGE:
            end_with(u, GRPC_INTERNAL, "the answer is compressed, malformed or too large");
            break;
        }
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code, void *user)
{
    (void)session;
    (void)stream_id;
    struct grpc_unary *u = user;
    if (u->is_over || u->has_status) {
        u->is_over = true;
    } else if (error_code != NGHTTP2_NO_ERROR) {
        end_with(u, GRPC_UNAVAILABLE, nghttp2_http2_strerror(error_code));
    } else {
        end_with(u, GRPC_INTERNAL,
                 u->is_http_ok ? "the stream ended without a status"
                               : "the HTTP status is not 200");
    }
    return 0;
}

/* ---- the request ----------------------------------------------------------------------------- */

static ssize_t read_request(nghttp2_session *session, int32_t stream_id, uint8_t *out,
                            size_t length, uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)stream_id;
    (void)user;
    struct grpc_unary *u = source->ptr;
    size_t rest = u->request.len - u->request_sent;
    size_t count = rest < length ? rest : length;
    memcpy(out, u->request.data + u->request_sent, count);
    u->request_sent += count;
    if (count == rest) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)count;
}

static void session_new(struct grpc_unary *u)
{
    const nghttp2_nv headers[] = {
        grpc_header(":method", "POST"),
        grpc_header(":scheme", "http"),
        grpc_header(":path", u->plan.method),
        grpc_header(":authority", "localhost"),
        grpc_header("te", "trailers"),
        grpc_header("content-type", "application/grpc"),
        grpc_header("user-agent", "dpu-heartbeat/" DPU_VERSION),
    };
    const nghttp2_data_provider body = {.source.ptr = u, .read_callback = read_request};
    nghttp2_session_callbacks *callbacks;
    nghttp2_mem mem = http2_mem();
    http2_must(nghttp2_session_callbacks_new(&callbacks));
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    http2_must(nghttp2_session_client_new3(&u->session, callbacks, u, NULL, &mem));
    nghttp2_session_callbacks_del(callbacks);
    http2_must(nghttp2_submit_settings(u->session, NGHTTP2_FLAG_NONE, NULL, 0));
    int32_t stream =
        nghttp2_submit_request(u->session, NULL, headers, ARRAY_LEN(headers), &body, NULL);
    http2_must(stream < 0);
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* Does not wait: a server that is frozen accepts nobody once its queue is full. */
static int open_socket(const char *path, int *out_fd, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!text_copy(address.sun_path, sizeof(address.sun_path), path)) {
        return err_set(e, ERR_LIMIT, "socket path '%s' has more than %zu bytes", path,
                       sizeof(address.sun_path) - 1);
    }
    CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        bool is_busy = errno == ECONNREFUSED || errno == EAGAIN;
        int code = errno == ENOENT ? ERR_NOTFOUND : is_busy ? ERR_RETRY : ERR_IO;
        return err_set_errno(e, code, errno, "connecting to '%s'", path);
    }
    *out_fd = fd;
    fd = -1;
    return 0;
}

static int write_some(struct grpc_unary *u, struct err *e)
{
    for (;;) {
        if (u->unsent.len == 0) {
            ssize_t len = nghttp2_session_mem_send(u->session, &u->unsent.bytes);
            if (len < 0) {
                return err_set(e, ERR_BUG, "making frames: %s", nghttp2_strerror((int)len));
            }
            u->unsent.len = (size_t)len;
        }
        ssize_t sent =
            u->unsent.len > 0 ? send(u->fd, u->unsent.bytes, u->unsent.len, MSG_NOSIGNAL) : 0;
        bool is_full = sent < 0 && errno == EAGAIN;
        if (sent < 0 && !is_full) {
            return err_set_errno(e, ERR_RETRY, errno, "writing to '%s'", u->plan.path);
        }
        if (sent <= 0) {
            ev_io_stop(u->loop, &u->io);
            ev_io_set(&u->io, u->fd, is_full ? EV_READ | EV_WRITE : EV_READ);
            ev_io_start(u->loop, &u->io);
            return 0;
        }
        u->unsent.bytes += sent;
        u->unsent.len -= (size_t)sent;
    }
}

static int read_some(struct grpc_unary *u, struct err *e)
{
    uint8_t bytes[READ_BYTES];
    ssize_t len = recv(u->fd, bytes, sizeof(bytes), 0);
    if (len < 0 && errno == EAGAIN) {
        return 0;
    }
    if (len <= 0) {
        return err_set_errno(e, ERR_RETRY, len < 0 ? errno : ECONNRESET,
                             "'%s' closed the connection", u->plan.path);
    }
    ssize_t taken = nghttp2_session_mem_recv(u->session, bytes, (size_t)len);
    return taken >= 0
               ? 0
               : err_set(e, ERR_PARSE, "the server broke HTTP/2: %s", nghttp2_strerror((int)taken));
}

/* ---- the call -------------------------------------------------------------------------------- */

void grpc_unary_cancel(struct grpc_unary *u)
{
    if (u) {
        ev_io_stop(u->loop, &u->io);
        ev_timer_stop(u->loop, &u->deadline);
        (void)close(u->fd); /* nothing of ours is left to be written */
        nghttp2_session_del(u->session);
        buf_fini(&u->request);
        buf_fini(&u->message);
        free(u);
    }
}

static void call_finish(struct grpc_unary *u, const struct err *why)
{
    const struct grpc_unary_plan plan = u->plan;
    CLEANUP(buf) struct buf answer = u->message;
    buf_init(&u->message, 0); /* moved */
    grpc_unary_cancel(u);
    plan.done(plan.user, (const uint8_t *)buf_text(&answer), why ? 0 : answer.len, why);
}

/* How the call ended, once it is over. */
static int call_outcome(const struct grpc_unary *u, struct err *e)
{
    const char *method = u->plan.method;
    if (u->status != GRPC_OK) {
        return err_set(e, u->status == GRPC_NOT_FOUND ? ERR_GONE : ERR_RETRY, "%s: %s: %s", method,
                       grpc_status_name(u->status), u->text);
    }
    return u->plan.on_message || u->messages == 1
               ? 0
               : err_set(e, ERR_PARSE, "%s: %zu messages in place of one", method, u->messages);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
    (void)loop;
    struct grpc_unary *u = io->data;
    struct err e = ERR_INIT;
    int rc = (events & EV_READ) != 0 ? read_some(u, &e) : 0;
    if (rc == 0) {
        rc = u->is_over ? call_outcome(u, &e) : write_some(u, &e);
    }
    if (rc != 0 || u->is_over) {
        call_finish(u, rc != 0 ? &e : NULL);
    }
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    struct grpc_unary *u = timer->data;
    struct err e = ERR_INIT;
    (void)err_set_errno(&e, ERR_RETRY, ETIMEDOUT, "%s: waiting for '%s'", u->plan.method,
                        u->plan.path);
    call_finish(u, &e);
}

int grpc_unary_start(struct ev_loop *loop, const struct grpc_unary_plan *plan,
                     struct grpc_unary **out, struct err *e)
{
    struct buf request;
    int fd;
    buf_init(&request, GRPC_UNARY_REQUEST_MAX_BYTES);
    int rc = grpc_put_message(&request, plan->message.bytes, plan->message.len, e);
    if (rc == 0) {
        rc = open_socket(plan->path, &fd, e);
    }
    if (rc != 0) {
        buf_fini(&request);
        return rc;
    }
    struct grpc_unary *u = MEM_NEW(struct grpc_unary);
    u->loop = loop;
    u->plan = *plan;
    u->fd = fd;
    u->request = request;
    u->deframer.max_bytes = GRPC_UNARY_REPLY_MAX_BYTES;
    buf_init(&u->message, GRPC_UNARY_REPLY_MAX_BYTES);
    session_new(u);
    ev_io_init(&u->io, on_io, fd, EV_READ | EV_WRITE);
    u->io.data = u;
    ev_io_start(loop, &u->io);
    ev_now_update(loop); /* a relative timer counts from the loop's idea of now */
    ev_timer_init(&u->deadline, on_deadline, (double)plan->timeout_ns / (double)NS_PER_SEC, 0.);
    u->deadline.data = u;
    ev_timer_start(loop, &u->deadline);
    *out = u;
    return 0;
}

/* ---- for a command --------------------------------------------------------------------------- */

struct asking {
    struct ev_loop *loop;
    struct buf *answer;
    struct grpc_unary *call; /* NULL: over */
    struct err *e;
    int rc;
};

static void on_answer(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct asking *a = user;
    a->call = NULL;
    a->rc = why ? why->code : buf_append(a->answer, message, len, a->e);
    if (why && a->e) {
        *a->e = *why;
    }
    ev_break(a->loop, EVBREAK_ALL);
}

int grpc_unary_ask(struct ev_loop *loop, const struct grpc_unary_plan *plan, struct buf *answer,
                   struct err *e)
{
    struct asking a = {.loop = loop, .answer = answer, .e = e};
    struct grpc_unary_plan own = *plan;
    own.done = on_answer;
    own.user = &a;
    int rc = grpc_unary_start(loop, &own, &a.call, e);
    if (rc != 0) {
        return rc;
    }
    (void)ev_run(loop, 0); /* until it is broken off: by the answer, or by somebody else */
    if (a.call) {
        grpc_unary_cancel(a.call);
        return err_set(e, ERR_GONE, "interrupted");
    }
    return a.rc;
}
