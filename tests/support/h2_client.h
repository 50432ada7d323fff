/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC client for tests of the server, in the server's loop: an nghttp2 client session whose
 * every freedom (authority, split bodies, closed windows, resets) is in the test's hand.
 */
#ifndef SUPPORT_H2_CLIENT_H
#define SUPPORT_H2_CLIENT_H

#include "dra-driver/grpc/grpc_server.h"

#include <ev.h>
#include <nghttp2/nghttp2.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { H2_STREAMS_MAX = 300, H2_BODY_MAX_BYTES = 5 << 20 };

struct h2_stream {
    struct h2_client *client;
    /* what is sent */
    uint8_t *request;
    size_t request_len;
    size_t request_sent;
    bool request_ends;
    /* what came */
    int header_frames;
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

struct h2_client {
    nghttp2_session *session;
    struct ev_loop *loop;
    int fd;
    size_t chunk_bytes; /* how many bytes reach the server at a time; 0: as they come */
    bool is_closed;     /* by the server */
    struct h2_stream streams[H2_STREAMS_MAX]; /* by id / 2 */
    bool got_goaway;
    uint32_t goaway_error;
    uint32_t max_concurrent_streams;
};

/* Connects to the server at `path`, which runs in `loop`. `manual_window`: bytes are acknowledged
 * only by h2_client_consume. */
struct h2_client *h2_client_new(struct ev_loop *loop, const char *path, bool manual_window);
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

/* Moves bytes both ways until both are silent. Returns 0, or -1 if the server closed. */
int h2_client_pump(struct h2_client *c);
/* Client to server only. */
int h2_client_push(struct h2_client *c);

/* The `index`-th message of the body; its length, or -1 if there is none. */
int h2_stream_message(const struct h2_stream *s, int index, const uint8_t **out);

/* ---- both ends ------------------------------------------------------------------------------- */

/* A server at a socket in a directory of its own, and a client. */
struct h2_peer {
    struct ev_loop *loop;
    char dir[32];
    char path[48];
    struct grpc_server *server;
    struct h2_client *client;
};

void h2_peer_start(struct h2_peer *p, const struct grpc_method *methods, size_t count, void *user);
void h2_peer_stop(struct h2_peer *p);
void h2_peer_turn(const struct h2_peer *p, int times);
/* A call with `message`, pumped. */
struct h2_stream *h2_peer_call(struct h2_peer *p, const char *path, const void *message,
                               size_t len);
/* A connected socket; -1: nobody listens. */
int h2_dial(const char *path);

#endif
