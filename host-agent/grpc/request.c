/* SPDX-License-Identifier: Apache-2.0 */
/* The asking half of a connection: from nghttp2's callbacks to the handler. */
#include "host-agent/grpc/conn_internal.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static struct grpc_call *call_of(nghttp2_session *session, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(session, stream_id);
}

/* ---- life of a call ---- */

static struct grpc_call *call_new(struct grpc_conn *conn, int32_t stream_id)
{
    struct grpc_call *call = calloc(1, sizeof(*call));
    if (!call) {
        return NULL;
    }
    call->conn = conn;
    call->stream_id = stream_id;
    call->number = conn->config.calls ? ++*conn->config.calls : 0;
    call->begun = conn->now;
    call->timeout_ns = -1;
    call->deadline = mono_add(conn->now, GRPC_REQUEST_NS);
    call->deframer.max_bytes = GRPC_REQUEST_MAX_BYTES;
    buf_init(&call->request, GRPC_REQUEST_MAX_BYTES);
    buf_init(&call->sending, GRPC_REPLY_MAX_BYTES + GRPC_PREFIX_BYTES);
    buf_init(&call->pending, GRPC_REPLY_MAX_BYTES + GRPC_PREFIX_BYTES);
    call->next = conn->calls;
    if (conn->calls) {
        conn->calls->prev = call;
    }
    conn->calls = call;
    return call;
}

static void call_drop_request(struct grpc_call *call)
{
    call->conn->request_bytes -= call->request.len;
    buf_fini(&call->request);
}

void call_free(struct grpc_call *call)
{
    struct grpc_conn *conn = call->conn;
    if (call->phase != CALL_ANSWERED) {
        call_tell_end(call, GRPC_CANCELLED);
    }
    call_cancel(call);
    call_drop_request(call);
    buf_fini(&call->sending);
    buf_fini(&call->pending);
    if (call->prev) {
        call->prev->next = call->next;
    } else {
        conn->calls = call->next;
    }
    if (call->next) {
        call->next->prev = call->prev;
    }
    free(call);
}

/* ---- request headers ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct grpc_conn *conn = user;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    struct grpc_call *call = call_new(conn, frame->hd.stream_id);
    if (!call) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call) != 0) {
        call_free(call);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return 0;
}

static bool span_is(const uint8_t *bytes, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(bytes, word, len) == 0;
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
        call->method = grpc_router_find(call->conn->config.router, call->path);
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
    if (span_is(name, name_len, ":path")) {
        take_path(call, value, value_len);
    } else if (span_is(name, name_len, ":method")) {
        call->is_post = span_is(value, value_len, "POST");
    } else if (span_is(name, name_len, "content-type")) {
        call->is_grpc = is_grpc_content_type(value, value_len);
    } else if (span_is(name, name_len, "grpc-timeout")) {
        call->has_bad_timeout =
            grpc_parse_timeout((const char *)value, value_len, &call->timeout_ns, NULL) != 0;
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
    } else if (call->has_bad_timeout) {
        call_refuse(call, "200", GRPC_INTERNAL, "malformed grpc-timeout");
    } else if (!call->method) {
        char text[GRPC_MESSAGE_MAX_BYTES];
        grpc_router_explain(call->conn->config.router, call->path, text, sizeof(text));
        call_refuse(call, "200", GRPC_UNIMPLEMENTED, text);
    } else if (call->timeout_ns >= 0) {
        call->deadline = mono_add(call->conn->now, call->timeout_ns);
    }
}

/* ---- request body ---- */

void call_fail_receiving(struct grpc_call *call, enum grpc_status status, const char *text)
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
        return;
    }
    if (buf_append(&call->request, part.bytes, part.len, &e) != 0) {
        call_fail_receiving(call, GRPC_RESOURCE_EXHAUSTED, e.msg);
        return;
    }
    conn->request_bytes += part.len;
}

static void take_deframed(struct grpc_call *call, enum grpc_deframed what, struct grpc_slice part)
{
    switch (what) {
    case GRPC_NEED_MORE:
        return;
    case GRPC_PAYLOAD:
        take_payload(call, part);
        return;
    case GRPC_MESSAGE:
        call->has_message = true;
        return;
    case GRPC_COMPRESSED:
        call_fail_receiving(call, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
        return;
    case GRPC_BAD_FLAG:
        call_fail_receiving(call, GRPC_INTERNAL, "malformed message prefix");
        return;
    case GRPC_TOO_LARGE:
        call_fail_receiving(call, GRPC_RESOURCE_EXHAUSTED, "the request message is too large");
        return;
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
static void dispatch(struct grpc_call *call)
{
    if (!call->has_message || !grpc_deframer_is_idle(&call->deframer)) {
        call_fail_receiving(call, GRPC_INTERNAL, "the request ended within its message");
        return;
    }
    call->phase = CALL_HANDLING;
    if (call->timeout_ns < 0) {
        call->deadline = MONO_NEVER;
    }
    const struct grpc_method *method = call->method;
    method->handle(method->user, call, (const uint8_t *)buf_text(&call->request),
                   call->request.len);
    call_drop_request(call);
    if (method->kind == GRPC_SERVER_STREAM && !call->has_headers) {
        call_open_stream(call);
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
            dispatch(call);
        }
    }
    return 0;
}

/* ---- the end of a stream ---- */

/* An answer that is out before its request is in: tell the peer to stop sending (RFC 9113, 8.1). */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)user;
    if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        const struct grpc_call *call = call_of(session, frame->hd.stream_id);
        if (call && !call->request_is_complete) {
            return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                             NGHTTP2_NO_ERROR) == 0
                       ? 0
                       : NGHTTP2_ERR_CALLBACK_FAILURE;
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

void request_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
