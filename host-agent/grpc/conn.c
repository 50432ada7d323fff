/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/grpc/conn.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "grpc/http2.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { GRPC_PATH_BYTES = 256, STATUS_TEXT_BYTES = 8, STATUS_HEADERS = 2 };

enum call_phase {
    CALL_RECEIVING, /* its request is not complete */
    CALL_HANDLING,  /* the handler has it */
    CALL_ANSWERED,  /* the status is decided; the rest is transport */
};

struct grpc_call {
    struct grpc_conn *conn; /* borrowed */
    struct grpc_call *next; /* in conn->calls */
    int32_t stream_id;
    uint64_t number;
    struct mono begun;
    enum call_phase phase;
    struct mono deadline; /* for its request */

    /* The request. Of the headers only what has to be judged is kept. */
    const struct grpc_method *method; /* borrowed; NULL if not found */
    char path[GRPC_PATH_BYTES];
    bool is_post;
    bool is_grpc;             /* content-type */
    bool request_is_complete; /* END_STREAM was seen */
    bool has_message;
    struct grpc_deframer deframer;
    struct buf request;

    /* The answer: `sending` is in flight, `pending` replaces it when it is out. Both with prefix.
     */
    bool has_headers; /* response headers were submitted */
    struct buf sending;
    size_t sent_bytes;
    struct buf pending;
    bool has_pending;
    enum grpc_status status; /* once CALL_ANSWERED */
    char status_message[GRPC_MESSAGE_MAX_BYTES];

    grpc_cancel_fn *on_cancel;
    void *cancel_user;
};

struct grpc_conn {
    struct grpc_conn_config config;
    nghttp2_session *session;       /* owned */
    struct grpc_call *calls;        /* owned list */
    size_t request_bytes;           /* held in all calls' request buffers */
    struct mono now;                /* of the recv or tick under way */
    struct mono handshake_deadline; /* MONO_NEVER once the peer's SETTINGS came */
    struct grpc_slice unsent;       /* borrowed from the session */
};

/* ---- the methods ----------------------------------------------------------------------------- */

void grpc_router_add(struct grpc_router *router, const struct grpc_method *methods, size_t count)
{
    assert(count <= GRPC_METHODS_MAX - router->count);
    memcpy(&router->methods[router->count], methods, count * sizeof(*methods));
    router->count += count;
}

static const struct grpc_method *router_find(const struct grpc_router *router, const char *path)
{
    for (size_t i = 0; i < router->count; i++) {
        if (text_equal(router->methods[i].path, path)) {
            return &router->methods[i];
        }
    }
    return NULL;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* grpc-status and, unless empty, grpc-message. `number` is scratch. Returns how many. */
static size_t status_headers(const struct grpc_call *call, char number[static STATUS_TEXT_BYTES],
                             nghttp2_nv out[static STATUS_HEADERS])
{
    text_format(number, STATUS_TEXT_BYTES, "%d", (int)call->status);
    out[0] = grpc_header("grpc-status", number);
    if (call->status_message[0] == '\0') {
        return 1;
    }
    out[1] = grpc_header("grpc-message", call->status_message);
    return 2;
}

static void call_wake(const struct grpc_call *call)
{
    call->conn->config.wake(call->conn->config.user);
}

/* Submissions fail for lack of memory only, and that ends the process. */
static void submit_trailers_only(struct grpc_call *call, const char *http_status)
{
    char number[STATUS_TEXT_BYTES];
    nghttp2_nv headers[3 + STATUS_HEADERS] = {
        grpc_header(":status", http_status),
        grpc_header("content-type", "application/grpc"),
        grpc_header("grpc-accept-encoding", "identity"),
    };
    size_t count = 3 + status_headers(call, number, headers + 3);
    call->has_headers = true;
    (void)nghttp2_submit_response(call->conn->session, call->stream_id, headers, count, NULL);
    call_wake(call);
}

/* Trailers are submitted when the last byte is handed out, never earlier: submitted earlier they
 * would overtake a body that waits for the peer's window (nghttp2 issue 269). */
static void submit_trailers(const struct grpc_call *call)
{
    char number[STATUS_TEXT_BYTES];
    nghttp2_nv headers[STATUS_HEADERS];
    size_t count = status_headers(call, number, headers);
    (void)nghttp2_submit_trailer(call->conn->session, call->stream_id, headers, count);
}

/* Moves the waiting message into flight if nothing is in flight. */
static void promote_pending(struct grpc_call *call)
{
    if (call->has_pending && call->sent_bytes == call->sending.len) {
        struct buf empty = call->sending;
        call->sending = call->pending;
        call->pending = empty;
        buf_clear(&call->pending);
        call->has_pending = false;
        call->sent_bytes = 0;
    }
}

static ssize_t read_body(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t length,
                         uint32_t *data_flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)stream_id;
    (void)user;
    struct grpc_call *call = source->ptr;
    promote_pending(call);
    size_t rest = call->sending.len - call->sent_bytes;
    size_t count = rest < length ? rest : length;
    if (count == 0 && call->phase != CALL_ANSWERED) {
        return NGHTTP2_ERR_DEFERRED;
    }
    if (count > 0) {
        memcpy(out, call->sending.data + call->sent_bytes, count);
        call->sent_bytes += count;
    }
    if (call->phase == CALL_ANSWERED && !call->has_pending && count == rest) {
        *data_flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(call);
    }
    return (ssize_t)count;
}

/* Headers now, data when there is some. */
static void submit_response(struct grpc_call *call)
{
    nghttp2_nv headers[] = {grpc_header(":status", "200"),
                            grpc_header("content-type", "application/grpc")};
    nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_body};
    call->has_headers = true;
    (void)nghttp2_submit_response(call->conn->session, call->stream_id, headers, ARRAY_LEN(headers),
                                  &body);
    call_wake(call);
}

/* Data or the end has come for a response under way. */
static void answer_resume(struct grpc_call *call)
{
    /* Fails if the body is not deferred: then it is read on anyway. */
    (void)nghttp2_session_resume_data(call->conn->session, call->stream_id);
    call_wake(call);
}

static void call_log_end(const struct grpc_call *call, enum grpc_status status)
{
    int64_t took_ns = mono_since(clock_mono_now(), call->begun);
    log_debug("grpc", "%s: call %" PRIu64 " of %s: %s after %.3f ms", call->conn->config.name,
              call->number, call->path, grpc_status_name((int)status),
              (double)took_ns / (double)NS_PER_MS);
}

static void call_decide(struct grpc_call *call, enum grpc_status status, const char *text)
{
    assert(call->phase != CALL_ANSWERED);
    call->phase = CALL_ANSWERED;
    call->status = status;
    grpc_percent_encode(text, call->status_message, sizeof(call->status_message));
    call_log_end(call, status);
}

static int answer_put(struct grpc_call *call, const void *message, size_t len, struct err *e)
{
    if (len > GRPC_REPLY_MAX_BYTES) {
        return err_set(e, ERR_LIMIT, "a reply of %zu bytes", len);
    }
    buf_clear(&call->pending);
    call->has_pending = false;
    int rc = grpc_put_message(&call->pending, message, len, e);
    call->has_pending = rc == 0;
    return rc;
}

static void call_refuse(struct grpc_call *call, const char *http_status, enum grpc_status status,
                        const char *text)
{
    call_decide(call, status, text);
    submit_trailers_only(call, http_status);
}

static void call_cancel(struct grpc_call *call)
{
    grpc_cancel_fn *on_cancel = call->on_cancel;
    call->on_cancel = NULL;
    if (on_cancel && call->phase == CALL_HANDLING) {
        on_cancel(call->cancel_user, call);
    }
}

void grpc_call_on_cancel(struct grpc_call *call, grpc_cancel_fn *on_cancel, void *user)
{
    call->on_cancel = on_cancel;
    call->cancel_user = user;
}

void grpc_call_reply(struct grpc_call *call, const void *message, size_t len)
{
    struct err e = ERR_INIT;
    assert(call->phase == CALL_HANDLING && call->method->kind == GRPC_UNARY);
    if (answer_put(call, message, len, &e) != 0) {
        grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "%s", e.msg);
        return;
    }
    call_decide(call, GRPC_OK, "");
    submit_response(call);
}

void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
{
    char text[GRPC_MESSAGE_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    text_vformat(text, sizeof(text), fmt, ap); /* may be cut */
    va_end(ap);
    grpc_call_end(call, status, text);
}

void grpc_call_send(struct grpc_call *call, const void *message, size_t len)
{
    assert(call->phase == CALL_HANDLING && call->method->kind == GRPC_SERVER_STREAM);
    int rc = answer_put(call, message, len, NULL);
    assert(rc == 0);
    if (call->has_headers) {
        answer_resume(call);
    }
}

void grpc_call_end(struct grpc_call *call, enum grpc_status status, const char *text)
{
    assert(call->phase == CALL_HANDLING);
    call_decide(call, status, text);
    if (call->has_headers) {
        answer_resume(call);
    } else if (call->has_pending) {
        submit_response(call);
    } else {
        submit_trailers_only(call, "200");
    }
}

/* ---- the request ----------------------------------------------------------------------------- */

static struct grpc_call *call_of(nghttp2_session *session, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(session, stream_id);
}

static struct grpc_call *call_new(struct grpc_conn *conn, int32_t stream_id)
{
    struct grpc_call *call = MEM_NEW(struct grpc_call);
    call->conn = conn;
    call->stream_id = stream_id;
    call->number = ++*conn->config.calls;
    call->begun = conn->now;
    call->deadline = mono_add(conn->now, GRPC_REQUEST_NS);
    call->deframer.max_bytes = GRPC_REQUEST_MAX_BYTES;
    buf_init(&call->request, GRPC_REQUEST_MAX_BYTES);
    buf_init(&call->sending, GRPC_REPLY_MAX_BYTES + GRPC_PREFIX_BYTES);
    buf_init(&call->pending, GRPC_REPLY_MAX_BYTES + GRPC_PREFIX_BYTES);
    call->next = conn->calls;
    conn->calls = call;
    return call;
}

static void call_drop_request(struct grpc_call *call)
{
    call->conn->request_bytes -= call->request.len;
    buf_fini(&call->request);
}

static void call_free(struct grpc_call *call)
{
    struct grpc_conn *conn = call->conn;
    if (call->phase != CALL_ANSWERED) {
        call_log_end(call, GRPC_CANCELLED);
    }
    call_cancel(call);
    call_drop_request(call);
    buf_fini(&call->sending);
    buf_fini(&call->pending);
    struct grpc_call **at = &conn->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    free(call);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
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
    if (call->path[0] != '\0') { /* given twice: none of them counts */
        call->method = NULL;
        return;
    }
    text_sanitize(call->path, sizeof(call->path), (const char *)value, len);
    if (len < sizeof(call->path)) {
        call->method = router_find(call->conn->config.router, call->path);
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    (void)flags;
    (void)user;
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (!call || frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0; /* trailers of a request say nothing to us */
    }
    if (http2_is(name, name_len, ":path")) {
        take_path(call, value, value_len);
    } else if (http2_is(name, name_len, ":method")) {
        call->is_post = http2_is(value, value_len, "POST");
    } else if (http2_is(name, name_len, "content-type")) {
        call->is_grpc = is_grpc_content_type(value, value_len);
    }
    return 0;
}

/* All headers are there: answer at once what need not be read any further. */
static void judge_headers(struct grpc_call *call)
{
    if (!call->is_post) {
        call_refuse(call, "405", GRPC_INTERNAL, "the HTTP method is not POST");
    } else if (!call->is_grpc) {
        call_refuse(call, "415", GRPC_INTERNAL, "the content-type is not application/grpc");
    } else if (!call->method) {
        char text[GRPC_MESSAGE_MAX_BYTES];
        text_format(text, sizeof(text), "unknown method %s", call->path); /* may be cut */
        call_refuse(call, "200", GRPC_UNIMPLEMENTED, text);
    }
}

static void call_fail_receiving(struct grpc_call *call, enum grpc_status status, const char *text)
{
    call_drop_request(call);
    call_refuse(call, "200", status, text);
}

static void take_payload(struct grpc_call *call, struct grpc_slice part)
{
    struct grpc_conn *conn = call->conn;
    struct err e = ERR_INIT;
    if (conn->request_bytes + part.len > GRPC_CONN_REQUESTS_MAX_BYTES) {
        call_fail_receiving(call, GRPC_RESOURCE_EXHAUSTED, "too many request bytes at a time");
    } else if (buf_append(&call->request, part.bytes, part.len, &e) != 0) {
        call_fail_receiving(call, GRPC_RESOURCE_EXHAUSTED, e.msg);
    } else {
        conn->request_bytes += part.len;
    }
}

static void take_deframed(struct grpc_call *call, enum grpc_deframed what, struct grpc_slice part)
{
    static const struct {
        enum grpc_status status;
        const char *text; /* NULL: it is no refusal */
    } refusals[] = {
        [GRPC_COMPRESSED] = {GRPC_UNIMPLEMENTED, "compressed messages are not supported"},
        [GRPC_BAD_FLAG] = {GRPC_INTERNAL, "malformed message prefix"},
        [GRPC_TOO_LARGE] = {GRPC_RESOURCE_EXHAUSTED, "the request message is too large"},
    };
    if (refusals[what].text) {
        call_fail_receiving(call, refusals[what].status, refusals[what].text);
    } else if (what == GRPC_PAYLOAD) {
        take_payload(call, part);
    } else if (what == GRPC_MESSAGE) {
        call->has_message = true;
    }
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t len, void *user)
{
    (void)flags;
    (void)user;
    struct grpc_call *call = call_of(session, stream_id);
    struct grpc_slice in = {.bytes = bytes, .len = len};
    struct grpc_slice part = {.bytes = NULL};
    enum grpc_deframed got = GRPC_MESSAGE;
    while (call && call->phase == CALL_RECEIVING && got != GRPC_NEED_MORE) {
        if (call->has_message && in.len > 0) {
            call_fail_receiving(call, GRPC_INTERNAL, "more than one request message");
            return 0;
        }
        got = grpc_deframe(&call->deframer, &in, &part);
        take_deframed(call, got, part);
    }
    return 0;
}

/* The request is complete: over to its handler. */
static void call_dispatch(struct grpc_call *call)
{
    if (!call->has_message || !grpc_deframer_is_idle(&call->deframer)) {
        call_fail_receiving(call, GRPC_INTERNAL, "the request ended within its message");
        return;
    }
    call->phase = CALL_HANDLING;
    const struct grpc_method *method = call->method;
    method->handle(method->user, call, (const uint8_t *)buf_text(&call->request),
                   call->request.len);
    call_drop_request(call);
    if (method->kind == GRPC_SERVER_STREAM && !call->has_headers) {
        submit_response(call);
    }
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct grpc_conn *conn = user;
    if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        conn->handshake_deadline = MONO_NEVER;
    }
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
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        call->request_is_complete = true;
        if (call->phase == CALL_RECEIVING) {
            call_dispatch(call);
        }
    }
    return 0;
}

/* An answer that is out before its request is in: tell the peer to stop sending (RFC 9113, 8.1). */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)user;
    if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        const struct grpc_call *call = call_of(session, frame->hd.stream_id);
        if (call && !call->request_is_complete) {
            (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                            NGHTTP2_NO_ERROR);
        }
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *user)
{
    (void)error_code;
    (void)user;
    struct grpc_call *call = call_of(session, stream_id);
    if (call) {
        call_free(call);
    }
    return 0;
}

/* ---- the connection -------------------------------------------------------------------------- */

static void session_new(struct grpc_conn *conn)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADER_LIST_MAX_BYTES},
    };
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    nghttp2_mem mem = http2_mem();
    http2_must(nghttp2_session_callbacks_new(&callbacks));
    http2_must(nghttp2_option_new(&option));
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    /* A raw socket path as :authority is against HTTP's grammar and still a kubelet's. What
     * matters of HTTP's rules is checked in judge_headers. */
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1); /* bounds memory */
    http2_must(nghttp2_session_server_new3(&conn->session, callbacks, conn, option, &mem));
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    /* SETTINGS has to be our first frame, before anything is received. */
    http2_must(
        nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)));
}

struct grpc_conn *grpc_conn_new(const struct grpc_conn_config *config, struct mono now)
{
    struct grpc_conn *conn = MEM_NEW(struct grpc_conn);
    conn->config = *config;
    conn->now = now;
    conn->handshake_deadline = mono_add(now, GRPC_HANDSHAKE_NS);
    session_new(conn);
    return conn;
}

void grpc_conn_free(struct grpc_conn *conn)
{
    if (!conn) {
        return;
    }
    while (conn->calls) {
        call_free(conn->calls);
    }
    nghttp2_session_del(conn->session);
    free(conn);
}

int grpc_conn_recv(struct grpc_conn *conn, const uint8_t *bytes, size_t len, struct mono now,
                   struct err *e)
{
    conn->now = now;
    ssize_t taken = nghttp2_session_mem_recv(conn->session, bytes, len);
    if (taken < 0) {
        int code = taken == NGHTTP2_ERR_FLOODED ? ERR_LIMIT : ERR_PARSE;
        return err_set(e, code, "the peer broke HTTP/2: %s", nghttp2_strerror((int)taken));
    }
    conn->config.wake(conn->config.user);
    return 0;
}

struct grpc_slice grpc_conn_output(struct grpc_conn *conn)
{
    if (conn->unsent.len == 0) {
        ssize_t len = nghttp2_session_mem_send(conn->session, &conn->unsent.bytes);
        assert(len >= 0); /* else out of memory, which ends the process before */
        conn->unsent.len = (size_t)len;
    }
    return conn->unsent;
}

void grpc_conn_sent(struct grpc_conn *conn, size_t count)
{
    assert(count <= conn->unsent.len);
    conn->unsent.bytes += count;
    conn->unsent.len -= count;
}

struct mono grpc_conn_next_deadline(const struct grpc_conn *conn)
{
    struct mono next = conn->handshake_deadline;
    for (const struct grpc_call *call = conn->calls; call; call = call->next) {
        if (call->phase == CALL_RECEIVING) {
            next = mono_min(next, call->deadline);
        }
    }
    return next;
}

bool grpc_conn_tick(struct grpc_conn *conn, struct mono now)
{
    conn->now = now;
    for (struct grpc_call *call = conn->calls; call; call = call->next) {
        if (call->phase == CALL_RECEIVING && mono_reached(now, call->deadline)) {
            call_fail_receiving(call, GRPC_DEADLINE_EXCEEDED, "the request took too long");
        }
    }
    return mono_before(now, conn->handshake_deadline);
}

void grpc_conn_shutdown(struct grpc_conn *conn)
{
    (void)nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(conn->session),
                                NGHTTP2_NO_ERROR, NULL, 0);
    conn->config.wake(conn->config.user);
}

bool grpc_conn_is_done(const struct grpc_conn *conn)
{
    return conn->unsent.len == 0 && !nghttp2_session_want_read(conn->session) &&
           !nghttp2_session_want_write(conn->session);
}

bool grpc_conn_is_serving(const struct grpc_conn *conn)
{
    const struct grpc_call *call = conn->calls;
    while (call && call->phase == CALL_RECEIVING) {
        call = call->next;
    }
    return call != NULL;
}
