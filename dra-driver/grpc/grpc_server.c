/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/grpc/grpc_server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <curl/curl.h>
#include <ev.h>
#include <nghttp2/nghttp2.h>

#include <assert.h>
#include <stdarg.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define MOD "grpc"

enum {
    PATH_BYTES = 256,         /* of a method */
    STATUS_TEXT_BYTES = 1024, /* before it is encoded */
    READ_BYTES = 16 << 10,
    SOCKET_MODE = 0600, /* kubelets are root */
};
static const double ACCEPT_PAUSE_S = 0.5; /* after running out of descriptors or memory */

enum call_phase {
    CALL_RECEIVING, /* its request is not complete */
    CALL_HANDLING,  /* the handler has it */
    CALL_ANSWERED,  /* the status is decided; the rest is transport */
};

struct grpc_call {
    struct grpc_conn *conn; /* borrowed */
    LIST_ENTRY(grpc_call) link;
    int32_t stream_id;
    struct mono begun;
    enum call_phase phase;

    /* The request. Of the headers only what has to be judged is kept. */
    const struct grpc_method *method; /* borrowed; NULL if not found */
    char path[PATH_BYTES];
    bool is_post;
    bool is_grpc;       /* content-type */
    struct buf request; /* with prefix */
    ev_timer deadline;  /* for it */

    /* The answer: `sending` is in flight, `pending` replaces it when it is out. Both prefixed. */
    bool has_headers; /* response headers were submitted */
    struct buf sending;
    size_t sent_bytes;
    struct buf pending;
    enum grpc_status status; /* once CALL_ANSWERED */
    char status_text[STATUS_TEXT_BYTES];

    grpc_cancel_fn *on_cancel;
    void *cancel_user;
};

struct grpc_conn {
    struct grpc_server *server; /* borrowed */
    LIST_ENTRY(grpc_conn) link;
    nghttp2_session *session;                   /* owned */
    ev_io io;                                   /* its fd is owned */
    struct grpc_slice unsent;                   /* borrowed from the session */
    LIST_HEAD(grpc_call_list, grpc_call) calls; /* owned */
    size_t request_bytes;                       /* held in all calls' request buffers */
    struct mono heard;                          /* when it last sent something */
};

struct grpc_server {
    struct grpc_server_config config;
    int fd;            /* -1: closed */
    struct stat named; /* the name in the file system, to tell it from a successor's */
    ev_io acceptable;
    ev_timer accept_again;
    bool is_stopping;
    LIST_HEAD(grpc_conn_list, grpc_conn) conns; /* owned */
    struct log_repeat refusals;
    struct log_repeat evictions;
};

/* ---- nghttp2 --------------------------------------------------------------------------------- */

static void *session_alloc(size_t bytes, void *user)
{
    return mem_alloc(bytes);
}

static void session_free(void *p, void *user)
{
    free(p);
}

static void *session_calloc(size_t count, size_t bytes_each, void *user)
{
    return mem_calloc(count, bytes_each);
}

static void *session_realloc(void *p, size_t bytes, void *user)
{
    return mem_realloc(p, bytes);
}

static void session_must(int rc)
{
    if (rc != 0) {
        mem_exhausted();
    }
}

/* Borrows both; nghttp2 copies them and does not write to them: its type is not const. */
static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .value = (uint8_t *)(uintptr_t)value,
        .namelen = strlen(name),
        .valuelen = strlen(value),
    };
}

static bool is_word(const uint8_t *bytes, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(bytes, word, len) == 0;
}

/* There is something to write. */
static void conn_wake(struct grpc_conn *conn)
{
    ev_feed_event(conn->server->config.loop, &conn->io, EV_WRITE);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Trailers are submitted when the last byte is handed out, never earlier: submitted earlier they
 * would overtake a body that waits for the peer's window (nghttp2 issue 269). Submissions fail for
 * lack of memory only, and that ends the process. */
static void submit_trailers(const struct grpc_call *call)
{
    char number[8];
    char *text = curl_easy_escape(NULL, call->status_text, 0);
    text_format(number, sizeof(number), "%d", (int)call->status);
    const nghttp2_nv trailers[] = {header("grpc-status", number),
                                   header("grpc-message", text ? text : "")};
    (void)nghttp2_submit_trailer(call->conn->session, call->stream_id, trailers,
                                 ARRAY_LEN(trailers));
    curl_free(text);
}

/* Moves the waiting message into flight if nothing is in flight. */
static void promote_pending(struct grpc_call *call)
{
    if (call->sent_bytes == call->sending.len) {
        struct buf empty = call->sending;
        call->sending = call->pending;
        call->pending = empty;
        buf_consume(&call->pending, SIZE_MAX);
        call->sent_bytes = 0;
    }
}

static ssize_t read_body(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t length,
                         uint32_t *data_flags, nghttp2_data_source *source, void *user)
{
    struct grpc_call *call = source->ptr;
    promote_pending(call);
    size_t rest = call->sending.len - call->sent_bytes;
    size_t count = rest < length ? rest : length;
    if (count == 0 && call->phase != CALL_ANSWERED) {
        return NGHTTP2_ERR_DEFERRED;
    }
    memcpy(out, buf_text(&call->sending) + call->sent_bytes, count);
    call->sent_bytes += count;
    if (call->phase == CALL_ANSWERED && call->pending.len == 0 && count == rest) {
        *data_flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(call);
    }
    return (ssize_t)count;
}

/* Headers now, and what there is of data and trailers; later what there is by then. */
static void answer_go_on(struct grpc_call *call, const char *http_status)
{
    nghttp2_session *session = call->conn->session;
    const nghttp2_nv headers[] = {header(":status", http_status),
                                  header("content-type", "application/grpc"),
                                  header("grpc-accept-encoding", "identity")};
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_body};
    if (!call->has_headers) {
        (void)nghttp2_submit_response(session, call->stream_id, headers, ARRAY_LEN(headers), &body);
    } else {
        /* Fails if the body is not deferred: then it is read on anyway. */
        (void)nghttp2_session_resume_data(session, call->stream_id);
    }
    call->has_headers = true;
    conn_wake(call->conn);
}

static void call_drop_request(struct grpc_call *call)
{
    call->conn->request_bytes -= call->request.len;
    buf_fini(&call->request);
}

static void call_end(struct grpc_call *call, const char *http_status, enum grpc_status status,
                     const char *text)
{
    assert(call->phase != CALL_ANSWERED);
    call->phase = CALL_ANSWERED;
    call->status = status;
    text_format(call->status_text, sizeof(call->status_text), "%s", text); /* may be cut */
    answer_go_on(call, http_status);
}

static int answer_put(struct grpc_call *call, const void *message, size_t len, struct err *e)
{
    buf_consume(&call->pending, SIZE_MAX);
    return len > GRPC_REPLY_MAX_BYTES ? err_set(e, ERR_LIMIT, "a reply of %zu bytes", len)
                                      : grpc_put_message(&call->pending, message, len, e);
}

void grpc_call_on_cancel(struct grpc_call *call, grpc_cancel_fn *on_cancel, void *user)
{
    call->on_cancel = on_cancel;
    call->cancel_user = user;
}

void grpc_call_reply(struct grpc_call *call, const void *message, size_t len)
{
    struct err e = ERR_INIT;
    assert(call->phase == CALL_HANDLING);
    bool is_put = answer_put(call, message, len, &e) == 0;
    call_end(call, "200", is_put ? GRPC_OK : GRPC_RESOURCE_EXHAUSTED, is_put ? "" : e.msg);
}

void grpc_call_send(struct grpc_call *call, const void *message, size_t len)
{
    assert(call->phase == CALL_HANDLING);
    int rc = answer_put(call, message, len, NULL);
    assert(rc == 0);
    answer_go_on(call, "200");
}

void grpc_call_end(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
{
    char text[STATUS_TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    text_vformat(text, sizeof(text), fmt, ap); /* may be cut */
    va_end(ap);
    assert(call->phase == CALL_HANDLING);
    call_end(call, "200", status, text);
}

/* ---- the request ----------------------------------------------------------------------------- */

static struct grpc_call *call_of(nghttp2_session *session, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(session, stream_id);
}

static void on_request_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct grpc_call *call = timer->data;
    if (call->phase == CALL_RECEIVING) {
        call_end(call, "200", GRPC_DEADLINE_EXCEEDED, "the request took too long");
    }
}

static struct grpc_call *call_new(struct grpc_conn *conn, int32_t stream_id)
{
    struct grpc_call *call = MEM_NEW(struct grpc_call);
    call->conn = conn;
    call->stream_id = stream_id;
    call->begun = conn->heard;
    ev_timer_init(&call->deadline, on_request_deadline, GRPC_REQUEST_S, 0.);
    call->deadline.data = call;
    ev_timer_start(conn->server->config.loop, &call->deadline);
    call->request = (struct buf){.max_bytes = GRPC_PREFIX_BYTES + GRPC_REQUEST_MAX_BYTES};
    call->sending = (struct buf){.max_bytes = GRPC_PREFIX_BYTES + GRPC_REPLY_MAX_BYTES};
    call->pending = call->sending;
    LIST_INSERT_HEAD(&conn->calls, call, link);
    return call;
}

static void call_log(const struct grpc_call *call)
{
    int64_t took_ns = mono_since(clock_mono_now(), call->begun);
    log_debug(MOD, "%s: call of %s: %s after %.3f ms", call->conn->server->config.name, call->path,
              grpc_status_name(call->phase == CALL_ANSWERED ? (int)call->status : GRPC_CANCELLED),
              (double)took_ns / (double)NS_PER_MS);
}

static void call_free(struct grpc_call *call)
{
    struct grpc_conn *conn = call->conn;
    call_log(call);
    ev_timer_stop(conn->server->config.loop, &call->deadline);
    if (call->on_cancel && call->phase == CALL_HANDLING) {
        call->on_cancel(call->cancel_user, call);
    }
    call_drop_request(call);
    buf_fini(&call->sending);
    buf_fini(&call->pending);
    LIST_REMOVE(call, link);
    free(call);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) { /* no trailers */
        struct grpc_call *call = call_new(user, frame->hd.stream_id);
        /* The stream was opened for this. */
        (void)nghttp2_session_set_stream_user_data(session, call->stream_id, call);
    }
    return 0;
}

/* "application/grpc", perhaps with "+proto" or ";..." behind it. */
static bool is_grpc_content_type(const uint8_t *value, size_t len)
{
    static const char want[] = "application/grpc";
    size_t n = sizeof(want) - 1;
    return len >= n && memcmp(value, want, n) == 0 &&
           (len == n || value[n] == '+' || value[n] == ';');
}

static void take_path(struct grpc_call *call, const uint8_t *value, size_t len)
{
    text_sanitize(call->path, sizeof(call->path), (const char *)value, len);
    const struct grpc_server_config *c = &call->conn->server->config;
    for (size_t i = 0; i < c->method_count; i++) {
        call->method = text_equal(c->methods[i].path, call->path) ? &c->methods[i] : call->method;
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (!call || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0; /* trailers of a request say nothing to us */
    }
    if (is_word(name, name_len, ":path")) {
        take_path(call, value, value_len);
    } else if (is_word(name, name_len, ":method")) {
        call->is_post = is_word(value, value_len, "POST");
    } else if (is_word(name, name_len, "content-type")) {
        call->is_grpc = is_grpc_content_type(value, value_len);
    }
    return 0;
}

/* All headers are there: answer at once what need not be read any further. */
static void judge_headers(struct grpc_call *call)
{
    if (!call->is_post) {
        call_end(call, "405", GRPC_INTERNAL, "the HTTP method is not POST");
    } else if (!call->is_grpc) {
        call_end(call, "415", GRPC_INTERNAL, "the content-type is not application/grpc");
    } else if (!call->method) {
        char text[STATUS_TEXT_BYTES];
        text_format(text, sizeof(text), "unknown method %s", call->path); /* may be cut */
        call_end(call, "200", GRPC_UNIMPLEMENTED, text);
    }
}

static enum grpc_framing call_message(const struct grpc_call *call, struct grpc_slice *out)
{
    return grpc_first_message(&call->request, GRPC_REQUEST_MAX_BYTES, out);
}

/* Its first bytes have come, or more of them. */
static void judge_message(struct grpc_call *call)
{
    static const struct {
        enum grpc_status status;
        const char *text;
    } wrongs[] = {
        [GRPC_WHOLE] = {GRPC_INTERNAL, "more than one request message"},
        [GRPC_COMPRESSED] = {GRPC_UNIMPLEMENTED, "compressed messages are not supported"},
        [GRPC_BAD_FLAG] = {GRPC_INTERNAL, "malformed message prefix"},
        [GRPC_TOO_LARGE] = {GRPC_RESOURCE_EXHAUSTED, "the request message is too large"},
    };
    struct grpc_slice message;
    enum grpc_framing kind = call_message(call, &message);
    bool is_all = kind == GRPC_WHOLE && call->request.len == GRPC_PREFIX_BYTES + message.len;
    if (kind != GRPC_PARTIAL && !is_all) {
        call_end(call, "200", wrongs[kind].status, wrongs[kind].text);
    }
}

static void take_data(struct grpc_call *call, const uint8_t *bytes, size_t len)
{
    if (call->conn->request_bytes + len > GRPC_CONN_REQUESTS_MAX_BYTES ||
        buf_append(&call->request, bytes, len, NULL) != 0) {
        call_end(call, "200", GRPC_RESOURCE_EXHAUSTED, "too many request bytes at a time");
        return;
    }
    call->conn->request_bytes += len;
    judge_message(call);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t len, void *user)
{
    struct grpc_call *call = call_of(session, stream_id);
    if (call && call->phase == CALL_RECEIVING) {
        take_data(call, bytes, len);
    }
    return 0;
}

/* The request is complete: over to its handler. */
static void call_dispatch(struct grpc_call *call)
{
    struct grpc_slice message;
    if (call_message(call, &message) != GRPC_WHOLE) {
        call_end(call, "200", GRPC_INTERNAL, "the request ended within its message");
        return;
    }
    call->phase = CALL_HANDLING;
    call->method->handle(call->conn->server->config.user, call, message.bytes, message.len);
    call_drop_request(call);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) {
        return 0;
    }
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (!call) {
        return 0;
    }
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        judge_headers(call);
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && call->phase == CALL_RECEIVING) {
        call_dispatch(call);
    }
    return 0;
}

/* An answer that is out before its request is in: tell the peer to stop sending (RFC 9113, 8.1). */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    int32_t id = frame->hd.stream_id;
    if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
        nghttp2_session_get_stream_remote_close(session, id) == 0) {
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *user)
{
    struct grpc_call *call = call_of(session, stream_id);
    if (call) {
        call_free(call);
    }
    return 0;
}

/* ---- a connection ---------------------------------------------------------------------------- */

static void drained_if_empty(struct grpc_server *s)
{
    if (s->is_stopping && LIST_EMPTY(&s->conns) && s->config.on_drained) {
        s->config.on_drained(s->config.user);
    }
}

static void conn_free(struct grpc_conn *conn)
{
    struct grpc_server *s = conn->server;
    while (!LIST_EMPTY(&conn->calls)) {
        call_free(LIST_FIRST(&conn->calls));
    }
    ev_io_stop(s->config.loop, &conn->io);
    (void)close(conn->io.fd); /* nothing of ours is left to be written */
    nghttp2_session_del(conn->session);
    LIST_REMOVE(conn, link);
    free(conn);
    drained_if_empty(s);
}

/* Handlers run within. */
static int conn_read(struct grpc_conn *conn, struct err *e)
{
    uint8_t bytes[READ_BYTES];
    ssize_t len = recv(conn->io.fd, bytes, sizeof(bytes), 0);
    if (len < 0 && errno == EAGAIN) {
        return 0;
    }
    if (len <= 0) {
        return err_set(e, ERR_RETRY, "the peer closed it");
    }
    conn->heard = clock_mono_now();
    ssize_t taken = nghttp2_session_mem_recv(conn->session, bytes, (size_t)len);
    return taken == len
               ? 0
               : err_set(e, ERR_PARSE, "the peer broke HTTP/2: %s", nghttp2_strerror((int)taken));
}

static void conn_wait_for(struct grpc_conn *conn, int events)
{
    struct ev_loop *loop = conn->server->config.loop;
    if (conn->io.events != events) {
        ev_io_stop(loop, &conn->io);
        ev_io_set(&conn->io, conn->io.fd, events);
        ev_io_start(loop, &conn->io);
    }
}

/* Writes what there is and the peer takes. False if that is gone. */
static bool conn_write(struct grpc_conn *conn)
{
    for (;;) {
        if (conn->unsent.len == 0) {
            ssize_t len = nghttp2_session_mem_send(conn->session, &conn->unsent.bytes);
            assert(len >= 0); /* else out of memory, which ends the process before */
            conn->unsent.len = (size_t)len;
        }
        if (conn->unsent.len == 0) {
            conn_wait_for(conn, EV_READ);
            return true;
        }
        ssize_t sent = send(conn->io.fd, conn->unsent.bytes, conn->unsent.len, MSG_NOSIGNAL);
        if (sent == -1) {
            conn_wait_for(conn, EV_READ | EV_WRITE);
            return errno == EAGAIN;
        }
        conn->unsent.bytes += sent;
        conn->unsent.len -= (size_t)sent;
    }
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
    struct grpc_conn *conn = io->data;
    nghttp2_session *session = conn->session;
    struct err e = ERR_INIT;
    int rc = (events & EV_READ) != 0 ? conn_read(conn, &e) : 0;
    bool is_gone = !conn_write(conn); /* what is left, after a failure */
    bool is_done = conn->unsent.len == 0 && !nghttp2_session_want_read(session) &&
                   !nghttp2_session_want_write(session);
    if (rc != 0 || is_gone || is_done) {
        log_debug(MOD, "%s: closing a connection: %s", conn->server->config.name,
                  rc != 0 ? e.msg : "nothing more is to be said");
        conn_free(conn);
    }
}

static void session_new(struct grpc_conn *conn)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADER_LIST_MAX_BYTES},
    };
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    nghttp2_mem mem = {NULL, session_alloc, session_free, session_calloc, session_realloc};
    session_must(nghttp2_session_callbacks_new(&callbacks));
    session_must(nghttp2_option_new(&option));
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    /* A raw socket path as :authority is against HTTP's grammar and still a kubelet's. What
     * matters of HTTP's rules is checked in judge_headers. */
    nghttp2_option_set_no_http_messaging(option, true);
    session_must(nghttp2_session_server_new3(&conn->session, callbacks, conn, option, &mem));
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    /* SETTINGS has to be our first frame, before anything is received. */
    session_must(
        nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)));
}

/* Takes `fd`. */
static void conn_new(struct grpc_server *s, int fd)
{
    struct grpc_conn *conn = MEM_NEW(struct grpc_conn);
    conn->server = s;
    conn->heard = clock_mono_now();
    LIST_INSERT_HEAD(&s->conns, conn, link);
    session_new(conn);
    ev_io_init(&conn->io, on_io, fd, EV_READ | EV_WRITE);
    conn->io.data = conn;
    ev_io_start(s->config.loop, &conn->io);
}

/* A request of its own arrived in full, and its answer is not all out. */
static bool is_serving(const struct grpc_conn *conn)
{
    const struct grpc_call *call;
    LIST_FOREACH(call, &conn->calls, link)
    {
        if (call->phase != CALL_RECEIVING) {
            return true;
        }
    }
    return false;
}

/* ---- who may connect ------------------------------------------------------------------------- */

static int check_peer(int fd, struct err *e)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
        return err_set_errno(e, ERR_IO, errno, "asking for the peer's credentials");
    }
    return peer.uid == 0 || peer.uid == geteuid()
               ? 0
               : err_set(e, ERR_AUTH, "user %u is neither root nor the driver's user",
                         (unsigned)peer.uid);
}

static bool is_more_idle(const struct grpc_conn *a, const struct grpc_conn *b)
{
    bool a_works = is_serving(a);
    bool b_works = is_serving(b);
    return a_works == b_works ? mono_before(a->heard, b->heard) : b_works;
}

/* Idle connections, and those whose other end is half gone, must not keep the kubelet out. */
static void make_room(struct grpc_server *s)
{
    struct grpc_conn *idlest = LIST_FIRST(&s->conns);
    struct grpc_conn *conn;
    size_t open = 0;
    LIST_FOREACH(conn, &s->conns, link)
    {
        open++;
        idlest = is_more_idle(conn, idlest) ? conn : idlest;
    }
    if (open < GRPC_CONNECTIONS_MAX) {
        return;
    }
    log_limited(&s->evictions, LOG_AGAIN_NS, LOG_WARN, MOD,
                "%s: all %d connections are in use, closing the one that has been idle longest",
                s->config.name, GRPC_CONNECTIONS_MAX);
    conn_free(idlest);
}

static void on_acceptable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct grpc_server *s = watcher->data;
    struct err e = ERR_INIT;
    int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0 && check_peer(fd, &e) == 0) {
        make_room(s);
        conn_new(s, fd);
        return;
    }
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    } else if (errno == EAGAIN) {
        return;
    } else {                                                    /* no descriptors, no memory */
        (void)err_set_errno(&e, ERR_IO, errno, "accepting it"); /* told below */
        ev_io_stop(loop, &s->acceptable);
        ev_timer_set(&s->accept_again, ACCEPT_PAUSE_S, 0.0);
        ev_timer_start(loop, &s->accept_again);
    }
    log_limited(&s->refusals, LOG_AGAIN_NS, LOG_WARN, MOD, "%s: rejected a connection: %s",
                s->config.name, e.msg);
}

static void on_accept_again(struct ev_loop *loop, ev_timer *watcher, int events)
{
    struct grpc_server *s = watcher->data;
    ev_io_start(loop, &s->acceptable);
}

/* ---- the listening socket -------------------------------------------------------------------- */

/* Binds `fd` to a hidden name in the directory of `path`. The name is shorter than any of ours, so
 * it fits where `path` does; it is made of the time because two containers may share the directory
 * and not their process ids. */
static int bind_hidden(int fd, const char *path, struct sockaddr_un *out_address, struct err *e)
{
    int dir_len = (int)(strrchr(path, '/') - path);
    *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    text_format(out_address->sun_path, sizeof(out_address->sun_path), "%.*s/.%06x", dir_len, path,
                (unsigned)clock_mono_now().ns & 0xffffff); /* taken: an error below */
    return bind(fd, (const struct sockaddr *)out_address, sizeof(*out_address)) == 0
               ? 0
               : err_set_errno(e, ERR_IO, errno, "binding a socket beside '%s'", path);
}

/* From the hidden name to the listening socket under its own. */
static int server_publish(struct grpc_server *s, const char *hidden, struct err *e)
{
    if (lstat(hidden, &s->named) != 0 || listen(s->fd, SOMAXCONN) != 0 ||
        rename(hidden, s->config.path) != 0) {
        int sys_errno = errno;
        (void)unlink(hidden);
        return err_set_errno(e, ERR_IO, sys_errno, "listening on '%s'", s->config.path);
    }
    return 0;
}

static int server_bind(struct grpc_server *s, struct err *e)
{
    struct sockaddr_un hidden;
    struct stat st;
    const char *path = s->config.path;
    assert(strchr(path, '/') && strlen(path) < sizeof(hidden.sun_path));
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        return err_set(e, ERR_CONFLICT, "'%s' exists and is not a socket", path);
    }
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The mode of the socket becomes that of the name, so it is never wider than asked for. */
    if (s->fd < 0 || fchmod(s->fd, SOCKET_MODE) != 0) {
        return err_set_errno(e, ERR_IO, errno, "creating a socket for '%s'", path);
    }
    int rc = bind_hidden(s->fd, path, &hidden, e);
    return rc == 0 ? server_publish(s, hidden.sun_path, e) : rc;
}

bool grpc_server_is_in_place(const struct grpc_server *s)
{
    struct stat st;
    return s->fd >= 0 && lstat(s->config.path, &st) == 0 && st.st_dev == s->named.st_dev &&
           st.st_ino == s->named.st_ino;
}

int grpc_server_start(const struct grpc_server_config *config, struct grpc_server **out,
                      struct err *e)
{
    struct grpc_server *s = MEM_NEW(struct grpc_server);
    s->config = *config;
    s->fd = -1;
    int rc = server_bind(s, e);
    if (rc != 0) {
        cleanup_fd(&s->fd);
        free(s);
        return rc;
    }
    ev_io_init(&s->acceptable, on_acceptable, s->fd, EV_READ);
    ev_init(&s->accept_again, on_accept_again);
    s->acceptable.data = s->accept_again.data = s;
    ev_io_start(config->loop, &s->acceptable);
    *out = s;
    return 0;
}

static void stop_accepting(struct grpc_server *s)
{
    ev_io_stop(s->config.loop, &s->acceptable);
    ev_timer_stop(s->config.loop, &s->accept_again);
    if (grpc_server_is_in_place(s)) {
        (void)unlink(s->config.path); /* gone already: just as well */
    }
    (void)close(take_fd(&s->fd)); /* of a socket that only listens, or of none */
}

void grpc_server_shutdown(struct grpc_server *s)
{
    struct grpc_conn *conn;
    stop_accepting(s);
    s->is_stopping = true;
    LIST_FOREACH(conn, &s->conns, link)
    {
        nghttp2_session *session = conn->session;
        (void)nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE,
                                    nghttp2_session_get_last_proc_stream_id(session),
                                    NGHTTP2_NO_ERROR, NULL, 0);
        conn_wake(conn);
    }
    drained_if_empty(s);
}

void grpc_server_free(struct grpc_server *s)
{
    if (!s) {
        return;
    }
    stop_accepting(s);
    s->config.on_drained = NULL;
    while (!LIST_EMPTY(&s->conns)) {
        conn_free(LIST_FIRST(&s->conns));
    }
    free(s);
}
