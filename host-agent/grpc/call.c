/* SPDX-License-Identifier: Apache-2.0 */
/* The answering half of a connection. */
#include "host-agent/grpc/call.h"

#include "base/text.h"
#include "grpc/http2.h"
#include "host-agent/grpc/conn_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void grpc_router_add(struct grpc_router *router, const struct grpc_method *methods, size_t count)
{
    assert(count <= GRPC_METHODS_MAX - router->count);
    memcpy(&router->methods[router->count], methods, count * sizeof(*methods));
    router->count += count;
}

const struct grpc_method *grpc_router_find(const struct grpc_router *router, const char *path)
{
    for (size_t i = 0; i < router->count; i++) {
        if (text_equal(router->methods[i].path, path)) {
            return &router->methods[i];
        }
    }
    return NULL;
}

void grpc_router_explain(const struct grpc_router *router, const char *path, char *out,
                         size_t out_bytes)
{
    const char *slash = path[0] == '/' ? strrchr(path, '/') : NULL;
    if (!slash || slash == path) {
        text_format(out, out_bytes, "malformed method name: %s", path); /* cut: for people */
        return;
    }
    size_t prefix = (size_t)(slash - path) + 1;
    for (size_t i = 0; i < router->count; i++) {
        if (strncmp(router->methods[i].path, path, prefix) == 0) {
            text_format(out, out_bytes, "unknown method %s for service %.*s", slash + 1,
                        (int)(prefix - 2), path + 1); /* cut: for people */
            return;
        }
    }
    text_format(out, out_bytes, "unknown service %.*s", (int)(prefix - 2),
                path + 1); /* cut: for people */
}

enum { STATUS_TEXT_BYTES = 8, STATUS_HEADERS = 2 };

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

/* A submission that fails (out of memory, or the stream is gone) must not leave the peer waiting.
 */
static void check_submitted(struct grpc_call *call, int rc)
{
    if (rc != 0) {
        (void)nghttp2_submit_rst_stream(call->conn->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                        NGHTTP2_INTERNAL_ERROR); /* or out of memory here too */
    }
    call->conn->config.wake(call->conn->config.user);
}

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
    check_submitted(
        call, nghttp2_submit_response(call->conn->session, call->stream_id, headers, count, NULL));
}

/* Trailers are submitted when the last byte is handed out, never earlier: submitted earlier they
 * would overtake a body that waits for the peer's window (nghttp2 issue 269). */
static int submit_trailers(struct grpc_call *call)
{
    char number[STATUS_TEXT_BYTES];
    nghttp2_nv headers[STATUS_HEADERS];
    size_t count = status_headers(call, number, headers);
    return nghttp2_submit_trailer(call->conn->session, call->stream_id, headers, count);
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
        if (submit_trailers(call) != 0) {
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
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
    check_submitted(call, nghttp2_submit_response(call->conn->session, call->stream_id, headers,
                                                  ARRAY_LEN(headers), &body));
}

/* Data or the end has come for a response under way. */
static void resume(struct grpc_call *call)
{
    /* Fails if the body is not deferred: then it is read on anyway. */
    (void)nghttp2_session_resume_data(call->conn->session, call->stream_id);
    call->conn->config.wake(call->conn->config.user);
}

void call_tell_end(const struct grpc_call *call, enum grpc_status status)
{
    const struct grpc_conn_config *config = &call->conn->config;
    if (config->on_ended) {
        config->on_ended(config->user, &(struct grpc_ended){.number = call->number,
                                                            .path = call->path,
                                                            .begun = call->begun,
                                                            .status = status});
    }
}

static void decide(struct grpc_call *call, enum grpc_status status, const char *text)
{
    assert(call->phase != CALL_ANSWERED);
    call->phase = CALL_ANSWERED;
    call->status = status;
    grpc_percent_encode(text, call->status_message, sizeof(call->status_message));
    call_tell_end(call, status);
}

static int fill_pending(struct grpc_call *call, const void *message, size_t len, struct err *e)
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

void call_refuse(struct grpc_call *call, const char *http_status, enum grpc_status status,
                 const char *text)
{
    decide(call, status, text);
    submit_trailers_only(call, http_status);
}

void call_open_stream(struct grpc_call *call)
{
    submit_response(call);
}

void call_cancel(struct grpc_call *call)
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
    if (fill_pending(call, message, len, &e) != 0) {
        grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "%s", e.msg);
        return;
    }
    decide(call, GRPC_OK, "");
    submit_response(call);
}

void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
{
    char text[GRPC_MESSAGE_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* truncation is the bound */
    va_end(ap);
    grpc_call_end(call, status, text);
}

int grpc_call_send(struct grpc_call *call, const void *message, size_t len, struct err *e)
{
    assert(call->phase == CALL_HANDLING && call->method->kind == GRPC_SERVER_STREAM);
    int rc = fill_pending(call, message, len, e);
    if (rc == 0 && call->has_headers) {
        resume(call);
    }
    return rc;
}

void grpc_call_end(struct grpc_call *call, enum grpc_status status, const char *text)
{
    assert(call->phase == CALL_HANDLING);
    decide(call, status, text);
    if (call->has_headers) {
        resume(call);
    } else if (call->has_pending) {
        submit_response(call);
    } else {
        submit_trailers_only(call, "200");
    }
}
