/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/grpc_client.h"

#include "base/text.h"
#include "grpc/send.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct grpc_client {
    nghttp2_session *session; /* owned */
    int32_t stream_id;
    struct buf request; /* with prefix */
    size_t request_sent;
    struct grpc_deframer deframer;
    struct buf reply; /* the message under way */
    grpc_client_message_fn *on_message;
    void *user;
    bool is_http_ok;
    bool has_status;
    bool is_over;
    int status;
    char text[GRPC_CLIENT_TEXT_BYTES];
    const uint8_t *out_bytes; /* borrowed from the session */
    size_t out_len;
};

static bool is_word(const uint8_t *bytes, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(bytes, word, len) == 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    (void)session;
    (void)frame;
    (void)flags;
    struct grpc_client *c = user;
    int64_t status;
    if (is_word(name, name_len, ":status")) {
        c->is_http_ok = is_word(value, value_len, "200");
    } else if (is_word(name, name_len, "grpc-status") &&
               text_to_i64((const char *)value, value_len, &status, NULL) == 0 && status >= 0 &&
               status < 100) {
        c->has_status = true;
        c->status = (int)status;
    } else if (is_word(name, name_len, "grpc-message")) {
        char decoded[GRPC_CLIENT_TEXT_BYTES];
        grpc_percent_decode((const char *)value, value_len, decoded, sizeof(decoded));
        text_sanitize(c->text, sizeof(c->text), decoded, strlen(decoded));
    }
    return 0;
}

static void end_with(struct grpc_client *c, int status, const char *text)
{
    c->is_over = true;
    c->status = status;
    text_format(c->text, sizeof(c->text), "%s", text);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t len, void *user)
{
    (void)session;
    (void)flags;
    (void)stream_id;
    struct grpc_client *c = user;
    struct grpc_slice in = {.bytes = bytes, .len = len};
    while (!c->is_over) {
        struct grpc_slice part;
        switch (grpc_deframe(&c->deframer, &in, &part)) {
        case GRPC_NEED_MORE:
            return 0;
        case GRPC_PAYLOAD:
            if (buf_append(&c->reply, part.bytes, part.len, NULL) != 0) {
                end_with(c, GRPC_RESOURCE_EXHAUSTED, "out of memory for the answer");
            }
            break;
        case GRPC_MESSAGE:
            c->on_message(c->user, (const uint8_t *)buf_text(&c->reply), c->reply.len);
            buf_clear(&c->reply);
            break;
        case GRPC_COMPRESSED:
        case GRPC_BAD_FLAG:
            end_with(c, GRPC_INTERNAL, "the answer is compressed or malformed");
            break;
        case GRPC_TOO_LARGE:
            end_with(c, GRPC_RESOURCE_EXHAUSTED, "the answer is too large");
            break;
        }
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code, void *user)
{
    (void)session;
    (void)stream_id;
    struct grpc_client *c = user;
    if (c->is_over) {
        return 0;
    }
    c->is_over = true;
    if (error_code != NGHTTP2_NO_ERROR && !c->has_status) {
        end_with(c, GRPC_UNAVAILABLE, nghttp2_http2_strerror(error_code));
    } else if (!c->has_status) {
        end_with(c, GRPC_INTERNAL,
                 c->is_http_ok ? "the stream ended without a status"
                               : "the HTTP status is not 200");
    }
    return 0;
}

static ssize_t read_request(nghttp2_session *session, int32_t stream_id, uint8_t *out,
                            size_t length, uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)stream_id;
    (void)user;
    struct grpc_client *c = source->ptr;
    size_t rest = c->request.len - c->request_sent;
    size_t count = rest < length ? rest : length;
    memcpy(out, c->request.data + c->request_sent, count);
    c->request_sent += count;
    if (count == rest) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)count;
}

static int session_new(struct grpc_client *c)
{
    nghttp2_session_callbacks *callbacks = NULL;
    int rc = nghttp2_session_callbacks_new(&callbacks);
    if (rc == 0) {
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        rc = nghttp2_session_client_new(&c->session, callbacks, c);
    }
    nghttp2_session_callbacks_del(callbacks);
    return rc == 0 ? nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, NULL, 0) : rc;
}

static int submit(struct grpc_client *c, const char *method)
{
    nghttp2_nv headers[] = {
        grpc_header(":method", "POST"),
        grpc_header(":scheme", "http"),
        grpc_header(":path", method),
        grpc_header(":authority", "localhost"),
        grpc_header("te", "trailers"),
        grpc_header("content-type", "application/grpc"),
        grpc_header("user-agent", "dpu-heartbeat/" DPU_VERSION),
    };
    nghttp2_data_provider body = {.source.ptr = c, .read_callback = read_request};
    c->stream_id =
        nghttp2_submit_request(c->session, NULL, headers, ARRAY_LEN(headers), &body, NULL);
    return c->stream_id < 0 ? c->stream_id : 0;
}

int grpc_client_new(const char *method, const void *message, size_t len,
                    grpc_client_message_fn *on_message, void *user, struct grpc_client **out,
                    struct err *e)
{
    struct grpc_client *c = calloc(1, sizeof(*c));
    if (!c) {
        return err_no_memory(e);
    }
    c->on_message = on_message;
    c->user = user;
    c->deframer.max_bytes = GRPC_CLIENT_REPLY_MAX_BYTES;
    buf_init(&c->request, GRPC_CLIENT_REQUEST_MAX_BYTES);
    buf_init(&c->reply, GRPC_CLIENT_REPLY_MAX_BYTES);
    int rc = grpc_put_message(&c->request, message, len, e);
    if (rc == 0 && (session_new(c) != 0 || submit(c, method) != 0)) {
        rc = err_no_memory(e);
    }
    if (rc != 0) {
        grpc_client_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void grpc_client_free(struct grpc_client *c)
{
    if (c) {
        nghttp2_session_del(c->session);
        buf_fini(&c->request);
        buf_fini(&c->reply);
        free(c);
    }
}

int grpc_client_recv(struct grpc_client *c, const uint8_t *bytes, size_t len, struct err *e)
{
    ssize_t taken = nghttp2_session_mem_recv(c->session, bytes, len);
    if (taken < 0) {
        return err_set(e, taken == NGHTTP2_ERR_NOMEM ? ERR_NOMEM : ERR_PARSE,
                       "the server broke HTTP/2: %s", nghttp2_strerror((int)taken));
    }
    return 0;
}

int grpc_client_output(struct grpc_client *c, const uint8_t **out_bytes, size_t *out_len,
                       struct err *e)
{
    if (c->out_len == 0) {
        ssize_t len = nghttp2_session_mem_send(c->session, &c->out_bytes);
        if (len < 0) {
            return err_set(e, ERR_NOMEM, "making HTTP/2 frames: %s", nghttp2_strerror((int)len));
        }
        c->out_len = (size_t)len;
    }
    *out_bytes = c->out_bytes;
    *out_len = c->out_len;
    return 0;
}

void grpc_client_sent(struct grpc_client *c, size_t count)
{
    assert(count <= c->out_len);
    c->out_bytes += count;
    c->out_len -= count;
}

bool grpc_client_is_over(const struct grpc_client *c)
{
    return c->is_over;
}

int grpc_client_status(const struct grpc_client *c)
{
    return c->status;
}

const char *grpc_client_text(const struct grpc_client *c)
{
    return c->text;
}
