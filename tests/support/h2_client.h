/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC client without a socket, for tests of the server: an nghttp2 client session whose every
 * freedom (authority, split bodies, closed windows, resets) is in the test's hand.
 */
#ifndef SUPPORT_H2_CLIENT_H
#define SUPPORT_H2_CLIENT_H

#include "host-agent/grpc/conn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { H2_STREAMS_MAX = 300, H2_BODY_MAX_BYTES = 1 << 20 };

struct h2_stream {
    struct h2_client *client;
    /* what is sent */
    uint8_t *request;
    size_t request_len;
    size_t request_sent;
    bool request_ends;
    /* what came */
    int header_frames; /* 1 with END_STREAM: trailers-only */
    bool first_headers_ended_stream;
    char http_status[8];
    char content_type[64];
    int grpc_status; /* -1: none came */
    char grpc_message[2048];
    uint8_t *body;
    size_t body_len;
    bool is_closed;
    uint32_t error_code;
};

struct h2_request {
    const char *path;
    const char *authority;    /* NULL: "localhost" */
    const char *content_type; /* NULL: "application/grpc" */
    const char *method;       /* NULL: "POST" */
    const void *body;         /* raw, with prefix */
    size_t body_len;
    bool stays_open; /* no END_STREAM after the body */
};

struct nghttp2_session;
struct h2_client {
    struct nghttp2_session *session;
    struct grpc_conn *server;
    struct mono now;
    size_t chunk_bytes; /* how many bytes reach the server at a time; 0: as they come */
    struct h2_stream streams[H2_STREAMS_MAX]; /* by id / 2 */
    int ping_acks;
    bool got_goaway;
    uint32_t goaway_error;
    int first_frame_type; /* -1 before any */
    uint32_t max_concurrent_streams;
};

/* Talks to `server` (borrowed; NULL: by h2_client_exchange). `manual_window`: bytes are
 * acknowledged only by h2_client_consume.
 */
struct h2_client *h2_client_new(struct grpc_conn *server, bool manual_window);
void h2_client_free(struct h2_client *c);

int32_t h2_client_open(struct h2_client *c, const struct h2_request *request);
/* A unary request with `message` in its frame. */
int32_t h2_client_call(struct h2_client *c, const char *path, const void *message, size_t len);
/* More body for a stream that stays open. */
void h2_client_send(struct h2_client *c, int32_t id, const void *bytes, size_t len, bool end);
void h2_client_cancel(struct h2_client *c, int32_t id);
void h2_client_ping(struct h2_client *c);
/* Gives `count` bytes of window back, for stream and connection. */
void h2_client_consume(struct h2_client *c, int32_t id, size_t count);
struct h2_stream *h2_client_stream(struct h2_client *c, int32_t id);

/* Moves bytes both ways until both are silent. Returns 0, or what grpc_conn_recv returned. */
int h2_client_pump(struct h2_client *c);
/* Client to server only. */
int h2_client_push(struct h2_client *c);

/* One turn over a connected, non-blocking socket instead of `server`: writes what there is, reads
 * what there is. Returns the bytes moved, or -1 when the peer closed. */
int h2_client_exchange(struct h2_client *c, int fd);

/* The `index`-th message of the body; its length, or -1 if there is none. */
int h2_stream_message(const struct h2_stream *s, int index, const uint8_t **out);

#endif
