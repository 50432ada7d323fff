/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/h2_client.h"

#include "base/text.h"

#include <nghttp2/nghttp2.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct h2_stream *h2_client_stream(struct h2_client *c, int32_t id)
{
    assert(id / 2 < H2_STREAMS_MAX);
    return &c->streams[id / 2];
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    (void)session;
    (void)flags;
    (void)name_len; /* nghttp2 terminates names and values */
    struct h2_stream *s = h2_client_stream(user, frame->hd.stream_id);
    const char *key = (const char *)name;
    if (text_equal(key, ":status")) {
        text_copy(s->http_status, sizeof(s->http_status), (const char *)value);
    } else if (text_equal(key, "content-type")) {
        text_copy(s->content_type, sizeof(s->content_type), (const char *)value);
    } else if (text_equal(key, "grpc-status")) {
        int64_t status;
        assert(text_to_i64((const char *)value, value_len, &status, NULL) == 0);
        s->grpc_status = (int)status;
    } else if (text_equal(key, "grpc-message")) {
        text_copy(s->grpc_message, sizeof(s->grpc_message), (const char *)value);
    }
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct h2_client *c = user;
    if (c->first_frame_type < 0) {
        c->first_frame_type = frame->hd.type;
    }
    if (frame->hd.type == NGHTTP2_HEADERS) {
        struct h2_stream *s = h2_client_stream(c, frame->hd.stream_id);
        s->header_frames++;
        if (s->header_frames == 1) {
            s->first_headers_ended_stream = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        }
    } else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        c->ping_acks++;
    } else if (frame->hd.type == NGHTTP2_GOAWAY) {
        c->got_goaway = true;
        c->goaway_error = frame->goaway.error_code;
    } else if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        for (size_t i = 0; i < frame->settings.niv; i++) {
            if (frame->settings.iv[i].settings_id == NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) {
                c->max_concurrent_streams = frame->settings.iv[i].value;
            }
        }
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *user)
{
    (void)session;
    (void)flags;
    struct h2_stream *s = h2_client_stream(user, id);
    if (!s->body) {
        s->body = malloc(H2_BODY_MAX_BYTES);
    }
    assert(s->body && s->body_len + len <= H2_BODY_MAX_BYTES);
    memcpy(s->body + s->body_len, bytes, len);
    s->body_len += len;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *user)
{
    (void)session;
    struct h2_stream *s = h2_client_stream(user, id);
    s->is_closed = true;
    s->error_code = error_code;
    return 0;
}

static ssize_t read_request(nghttp2_session *session, int32_t id, uint8_t *out, size_t length,
                            uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)id;
    (void)user;
    struct h2_stream *s = source->ptr;
    size_t rest = s->request_len - s->request_sent;
    size_t count = rest < length ? rest : length;
    if (count == 0 && !s->request_ends) {
        return NGHTTP2_ERR_DEFERRED;
    }
    if (count > 0) {
        memcpy(out, s->request + s->request_sent, count);
    }
    s->request_sent += count;
    if (count == rest && s->request_ends) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)count;
}

struct h2_client *h2_client_new(struct grpc_conn *server, bool manual_window)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct h2_client *c = calloc(1, sizeof(*c));
    assert(c && nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option_set_no_auto_window_update(option, manual_window);
    nghttp2_option_set_no_http_messaging(option, 1); /* raw authority */
    nghttp2_option_set_peer_max_concurrent_streams(option, 1000);
    assert(nghttp2_session_client_new2(&c->session, callbacks, c, option) == 0);
    assert(nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, NULL, 0) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    c->server = server;
    c->first_frame_type = -1;
    return c;
}

void h2_client_free(struct h2_client *c)
{
    if (!c) {
        return;
    }
    for (size_t i = 0; i < H2_STREAMS_MAX; i++) {
        free(c->streams[i].request);
        free(c->streams[i].body);
    }
    nghttp2_session_del(c->session);
    free(c);
}

static nghttp2_nv nv(const char *name, const char *value)
{
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .value = (uint8_t *)(uintptr_t)value,
        .namelen = strlen(name),
        .valuelen = strlen(value),
    };
}

static const char *or_default(const char *text, const char *fallback)
{
    return text ? text : fallback;
}

int32_t h2_client_open(struct h2_client *c, const struct h2_request *r)
{
    int32_t next_id = (int32_t)nghttp2_session_get_next_stream_id(c->session);
    struct h2_stream *s = h2_client_stream(c, next_id);
    nghttp2_nv headers[] = {
        nv(":method", or_default(r->method, "POST")),
        nv(":scheme", "http"),
        nv(":path", r->path),
        nv(":authority", or_default(r->authority, "localhost")),
        nv("content-type", or_default(r->content_type, "application/grpc")),
        nv("te", "trailers"),
        nv("user-agent", "grpc-go/test"),
    };
    nghttp2_data_provider body = {.source.ptr = s, .read_callback = read_request};
    s->client = c;
    s->grpc_status = -1;
    s->request_ends = !r->stays_open;
    s->request = malloc(r->body_len + 1);
    assert(s->request);
    if (r->body_len > 0) {
        memcpy(s->request, r->body, r->body_len);
    }
    s->request_len = r->body_len;
    int32_t id = nghttp2_submit_request(c->session, NULL, headers, ARRAY_LEN(headers), &body, NULL);
    assert(id == next_id);
    return id;
}

int32_t h2_client_call(struct h2_client *c, const char *path, const void *message, size_t len)
{
    uint8_t *body = malloc(len + GRPC_PREFIX_BYTES);
    assert(body);
    grpc_write_prefix((uint32_t)len, body);
    if (len > 0) {
        memcpy(body + GRPC_PREFIX_BYTES, message, len);
    }
    int32_t id = h2_client_open(
        c, &(struct h2_request){.path = path, .body = body, .body_len = len + GRPC_PREFIX_BYTES});
    free(body);
    return id;
}

void h2_client_send(struct h2_client *c, int32_t id, const void *bytes, size_t len, bool end)
{
    struct h2_stream *s = h2_client_stream(c, id);
    s->request = realloc(s->request, s->request_len + len + 1);
    assert(s->request);
    if (len > 0) {
        memcpy(s->request + s->request_len, bytes, len);
    }
    s->request_len += len;
    s->request_ends = end;
    (void)nghttp2_session_resume_data(c->session, id); /* not deferred: it is read anyway */
}

void h2_client_cancel(struct h2_client *c, int32_t id)
{
    assert(nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL) == 0);
}

void h2_client_ping(struct h2_client *c)
{
    assert(nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, (const uint8_t *)"12345678") == 0);
}

void h2_client_consume(struct h2_client *c, int32_t id, size_t count)
{
    assert(nghttp2_session_consume(c->session, id, count) == 0);
}

static int feed_server(struct h2_client *c, const uint8_t *bytes, size_t len)
{
    size_t step = c->chunk_bytes ? c->chunk_bytes : len;
    for (size_t at = 0; at < len; at += step) {
        size_t count = len - at < step ? len - at : step;
        int rc = grpc_conn_recv(c->server, bytes + at, count, c->now, NULL);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int h2_client_push(struct h2_client *c)
{
    const uint8_t *bytes;
    ssize_t len;
    while ((len = nghttp2_session_mem_send(c->session, &bytes)) > 0) {
        int rc = feed_server(c, bytes, (size_t)len);
        if (rc != 0) {
            return rc;
        }
    }
    assert(len == 0);
    return 0;
}

/* Returns the number of bytes moved. */
static size_t pull(struct h2_client *c)
{
    size_t moved = 0;
    for (struct grpc_slice out; (out = grpc_conn_output(c->server)).len > 0;) {
        size_t count = out.len > 1000 ? 1000 : out.len; /* partial writes */
        assert(nghttp2_session_mem_recv(c->session, out.bytes, count) == (ssize_t)count);
        grpc_conn_sent(c->server, count);
        moved += count;
    }
    return moved;
}

int h2_client_pump(struct h2_client *c)
{
    do {
        int rc = h2_client_push(c);
        if (rc != 0) {
            return rc;
        }
    } while (pull(c) > 0);
    return 0;
}

int h2_client_exchange(struct h2_client *c, int fd)
{
    const uint8_t *bytes;
    ssize_t len;
    int moved = 0;
    while ((len = nghttp2_session_mem_send(c->session, &bytes)) > 0) {
        assert(send(fd, bytes, (size_t)len, MSG_NOSIGNAL) == len); /* tests send little */
        moved += (int)len;
    }
    uint8_t in[16384];
    len = recv(fd, in, sizeof(in), MSG_DONTWAIT);
    if (len == 0 || (len < 0 && errno != EAGAIN)) {
        return -1;
    }
    if (len > 0) {
        assert(nghttp2_session_mem_recv(c->session, in, (size_t)len) == len);
        moved += (int)len;
    }
    return moved;
}

int h2_stream_message(const struct h2_stream *s, int index, const uint8_t **out)
{
    size_t at = 0;
    for (int i = 0; at + GRPC_PREFIX_BYTES <= s->body_len; i++) {
        const uint8_t *p = s->body + at;
        size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | (size_t)p[4];
        assert(p[0] == 0);
        if (at + GRPC_PREFIX_BYTES + len > s->body_len) {
            break;
        }
        if (i == index) {
            *out = p + GRPC_PREFIX_BYTES;
            return (int)len;
        }
        at += GRPC_PREFIX_BYTES + len;
    }
    return -1;
}
