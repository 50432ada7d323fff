/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One gRPC connection, server side, without its socket: bytes in, bytes out, and time as an
 * argument. HTTP/2 is nghttp2's; this file's business is what gRPC asks of it. The only module
 * that calls nghttp2's session functions (of 1.52: the ssize_t ones).
 *
 * A request that is wrong costs its own stream, a peer that breaks HTTP/2 costs its connection.
 * :authority is not looked at: kubelets send "localhost", a percent-encoded path, or a raw path,
 * which HTTP/2's own rules would refuse.
 *
 * Not thread-safe. A handler must not free the connection that called it.
 */
#ifndef GRPC_CONN_H
#define GRPC_CONN_H

#include "base/attr.h"
#include "base/err.h"
#include "base/time.h"
#include "host-agent/grpc/call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_STREAMS_MAX = 128,                 /* at a time; fewer would let a watch starve Prepare */
    GRPC_CONN_REQUESTS_MAX_BYTES = 4 << 20, /* request bytes held for all streams together */
    GRPC_HEADER_LIST_MAX_BYTES = 16 << 10,
};
#define GRPC_HANDSHAKE_NS (10 * NS_PER_SEC) /* from the accept to the peer's SETTINGS */
#define GRPC_REQUEST_NS   (60 * NS_PER_SEC) /* for a request to arrive in full */

struct grpc_conn;

/* A call that was answered, or that nobody waits for any more (GRPC_CANCELLED). */
struct grpc_ended {
    uint64_t number;
    const char *path; /* as asked for, made printable; borrowed */
    struct mono begun;
    enum grpc_status status;
};

struct grpc_conn_config {
    const struct grpc_router *router; /* borrowed for the connection's life */
    void (*wake)(void *user);         /* there may be new output; called at any time */
    /* Once for each call, from anywhere within: only to be told. NULL: no matter. */
    void (*on_ended)(void *user, const struct grpc_ended *ended);
    uint64_t *calls; /* so many there were: their numbers, shared by connections; NULL: none */
    void *user;
};

/* Errors: ERR_NOMEM. */
NODISCARD int grpc_conn_new(const struct grpc_conn_config *config, struct mono now,
                            struct grpc_conn **out, struct err *e);
/* Cancels the calls under way. Accepts NULL. */
void grpc_conn_free(struct grpc_conn *conn);

/* Takes all bytes; handlers run within. Errors: ERR_PARSE, ERR_LIMIT, ERR_NOMEM: the connection is
 * to be closed after what output is left. */
NODISCARD int grpc_conn_recv(struct grpc_conn *conn, const uint8_t *bytes, size_t len,
                             struct mono now, struct err *e);

/* The next bytes to write (borrowed until grpc_conn_sent), or 0 in `out_len` if there are none.
 * Errors: ERR_NOMEM: to be closed. */
NODISCARD int grpc_conn_output(struct grpc_conn *conn, const uint8_t **out_bytes, size_t *out_len,
                               struct err *e);
/* So many bytes of them have been written. */
void grpc_conn_sent(struct grpc_conn *conn, size_t count);

/* When grpc_conn_tick has something to do; MONO_NEVER if nothing. */
struct mono grpc_conn_next_deadline(const struct grpc_conn *conn);
/* Ends what is overdue. Errors: ERR_RETRY if the peer never finished its handshake: to be closed.
 */
NODISCARD int grpc_conn_tick(struct grpc_conn *conn, struct mono now, struct err *e);

/* Says GOAWAY; what is under way may finish, nothing new is taken. */
void grpc_conn_shutdown(struct grpc_conn *conn);
/* True when neither side has anything left to say: close the socket. */
bool grpc_conn_is_done(const struct grpc_conn *conn);

/* A request of its own arrived in full, and its answer is not all out. */
bool grpc_conn_is_serving(const struct grpc_conn *conn);

#endif
