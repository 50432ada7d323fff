/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/h2_client.h"

#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct h2_stream *h2_client_stream(struct h2_client *c, int32_t id)
{
    assert(id / 2 < H2_STREAMS_MAX);
    return &c->streams[id / 2];
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
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
    struct h2_client *c = user;
    if (frame->hd.type == NGHTTP2_HEADERS) {
        h2_client_stream(c, frame->hd.stream_id)->header_frames++;
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
    struct h2_stream *s = h2_client_stream(user, id);
    s->is_closed = true;
    s->error_code = error_code;
    return 0;
}

static ssize_t read_request(nghttp2_session *session, int32_t id, uint8_t *out, size_t length,
                            uint32_t *flags, nghttp2_data_source *source, void *user)
{
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

int h2_dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

struct h2_client *h2_client_new(struct ev_loop *loop, const char *path, bool manual_window)
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
    c->loop = loop;
    c->fd = h2_dial(path);
    assert(c->fd >= 0);
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
    (void)close(c->fd);
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
    struct buf body = {.max_bytes = H2_BODY_MAX_BYTES};
    assert(grpc_put_message(&body, message, len, NULL) == 0);
    int32_t id = h2_client_open(
        c, &(struct h2_request){.path = path, .body = body.data, .body_len = body.len});
    buf_fini(&body);
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

static void turn(struct ev_loop *loop)
{
    (void)ev_run(loop, EVRUN_NOWAIT);
}

/* The server reads in between, so that there is room. */
static void feed_server(struct h2_client *c, const uint8_t *bytes, size_t len)
{
    size_t step = c->chunk_bytes ? c->chunk_bytes : len;
    for (size_t at = 0; at < len && !c->is_closed;) {
        ssize_t sent = send(c->fd, bytes + at, len - at < step ? len - at : step, MSG_NOSIGNAL);
        c->is_closed = sent < 0 && errno != EAGAIN;
        at += sent > 0 ? (size_t)sent : 0;
        turn(c->loop);
    }
}

int h2_client_push(struct h2_client *c)
{
    const uint8_t *bytes;
    ssize_t len;
    while (!c->is_closed && (len = nghttp2_session_mem_send(c->session, &bytes)) > 0) {
        feed_server(c, bytes, (size_t)len);
    }
    turn(c->loop);
    return c->is_closed ? -1 : 0;
}

/* Returns whether anything came. */
static bool pull(struct h2_client *c)
{
    uint8_t in[1000];
    ssize_t len = recv(c->fd, in, sizeof(in), 0);
    c->is_closed = c->is_closed || len == 0 || (len < 0 && errno != EAGAIN);
    assert(len <= 0 || nghttp2_session_mem_recv(c->session, in, (size_t)len) == len);
    return len > 0;
}

int h2_client_pump(struct h2_client *c)
{
    enum { SILENT_TURNS = 4 };
    for (int silent = 0; silent < SILENT_TURNS && !c->is_closed; silent++) {
        (void)h2_client_push(c);
        while (pull(c)) {
            silent = 0;
        }
    }
    return c->is_closed ? -1 : 0;
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

/* ---- both ends ------------------------------------------------------------------------------- */

void h2_peer_start(struct h2_peer *p, const struct grpc_method *methods, size_t count, void *user)
{
    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/dpu-grpc-XXXXXX");
    p->loop = ev_loop_new(EVFLAG_AUTO);
    assert(p->loop && mkdtemp(p->dir));
    (void)snprintf(p->path, sizeof(p->path), "%s/test.sock", p->dir);
    const struct grpc_server_config config = {.loop = p->loop,
                                              .name = "test",
                                              .path = p->path,
                                              .methods = methods,
                                              .method_count = count,
                                              .user = user};
    assert(grpc_server_start(&config, &p->server, NULL) == 0);
    p->client = h2_client_new(p->loop, p->path, false);
}

void h2_peer_stop(struct h2_peer *p)
{
    h2_client_free(p->client);
    grpc_server_free(p->server);
    assert(rmdir(p->dir) == 0); /* no hidden name is left behind */
    ev_loop_destroy(p->loop);
}

void h2_peer_turn(const struct h2_peer *p, int times)
{
    for (int i = 0; i < times; i++) {
        turn(p->loop);
    }
}

struct h2_stream *h2_peer_call(struct h2_peer *p, const char *path, const void *message, size_t len)
{
    int32_t id = h2_client_call(p->client, path, message, len);
    assert(h2_client_pump(p->client) == 0);
    return h2_client_stream(p->client, id);
}
