/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One gRPC connection, server side, without its socket, and the calls on it: bytes in, bytes out,
 * and time as an argument. HTTP/2 is nghttp2's (1.52: the ssize_t functions).
 *
 * A request that is wrong costs its own stream, a peer that breaks HTTP/2 costs its connection.
 * :authority is not looked at: kubelets send "localhost", a percent-encoded path, or a raw path,
 * which HTTP/2's own rules would refuse.
 *
 * A unary handler answers once, with grpc_call_reply or grpc_call_fail, at once or later. A
 * streaming handler reports with grpc_call_send, as often as it likes, and ends with
 * grpc_call_end. Only the newest unsent report is kept, so a peer that stops reading costs one
 * message in flight and one waiting. A call is the handler's until its answer (reply, fail, end) or
 * until on_cancel was called, whichever comes first. Loop thread only.
 */
#ifndef GRPC_CONN_H
#define GRPC_CONN_H

#include "base/attr.h"
#include "base/err.h"
#include "base/time.h"
#include "grpc/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_METHODS_MAX = 32,
    GRPC_REQUEST_MAX_BYTES = 1 << 20,       /* of one request message */
    GRPC_REPLY_MAX_BYTES = 4 << 20,         /* what grpc-go accepts by default */
    GRPC_MESSAGE_MAX_BYTES = 1024,          /* of an encoded status message */
    GRPC_STREAMS_MAX = 128,                 /* at a time; fewer would let a watch starve Prepare */
    GRPC_CONN_REQUESTS_MAX_BYTES = 4 << 20, /* request bytes held for all streams together */
    GRPC_HEADER_LIST_MAX_BYTES = 16 << 10,
};
#define GRPC_HANDSHAKE_NS (10 * NS_PER_SEC) /* from the accept to the peer's SETTINGS */
#define GRPC_REQUEST_NS   (60 * NS_PER_SEC) /* for a request to arrive in full */

struct grpc_call;
struct grpc_conn;

/* ---- methods and calls ----------------------------------------------------------------------- */

enum grpc_kind { GRPC_UNARY, GRPC_SERVER_STREAM };

/* `message` is borrowed until the handler returns. */
typedef void grpc_handler_fn(void *user, struct grpc_call *call, const uint8_t *message,
                             size_t len);

/* The peer gave up, its deadline passed, or the connection is gone: forget the call. */
typedef void grpc_cancel_fn(void *user, struct grpc_call *call);

struct grpc_method {
    const char *path; /* "/package.Service/Method"; borrowed for the router's life */
    enum grpc_kind kind;
    grpc_handler_fn *handle;
    void *user;
};

/* Zero-initialise, add the methods, keep it while a server uses it. */
struct grpc_router {
    struct grpc_method methods[GRPC_METHODS_MAX];
    size_t count;
};

/* At most GRPC_METHODS_MAX in all. */
void grpc_router_add(struct grpc_router *router, const struct grpc_method *methods, size_t count);

/* Who is told when the call ends without us; may be set once, within the handler or later. */
void grpc_call_on_cancel(struct grpc_call *call, grpc_cancel_fn *on_cancel, void *user);

/* Unary: OK and this message (copied). One that is too large turns into
 * RESOURCE_EXHAUSTED. */
void grpc_call_reply(struct grpc_call *call, const void *message, size_t len);

/* Ends with a status other than OK, without a message. */
void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Streaming: replaces a report that is still waiting. `message` is copied, of at most
 * GRPC_REPLY_MAX_BYTES. */
void grpc_call_send(struct grpc_call *call, const void *message, size_t len);

/* Streaming: ends with `status` once the waiting report is out. */
void grpc_call_end(struct grpc_call *call, enum grpc_status status, const char *text);

/* ---- connections ----------------------------------------------------------------------------- */

struct grpc_conn_config {
    const struct grpc_router *router; /* borrowed for the connection's life */
    const char *name;                 /* for the log: "dra"; borrowed */
    uint64_t *calls;                  /* so many there were; connections share it */
    void (*wake)(void *user);         /* there may be new output; called at any time */
    void *user;
};

struct grpc_conn *grpc_conn_new(const struct grpc_conn_config *config, struct mono now);
/* Cancels the calls under way. Not from a handler. Accepts NULL. */
void grpc_conn_free(struct grpc_conn *conn);

/* Takes all bytes; handlers run within. Errors: ERR_PARSE, ERR_LIMIT: the connection is to be
 * closed after what output is left. */
NODISCARD int grpc_conn_recv(struct grpc_conn *conn, const uint8_t *bytes, size_t len,
                             struct mono now, struct err *e);

/* The next bytes to write, borrowed until grpc_conn_sent says how many have been. */
struct grpc_slice grpc_conn_output(struct grpc_conn *conn);
void grpc_conn_sent(struct grpc_conn *conn, size_t count);

/* When grpc_conn_tick has something to do; MONO_NEVER if nothing. */
struct mono grpc_conn_next_deadline(const struct grpc_conn *conn);
/* Ends what is overdue. False if that is the handshake: to be closed. */
bool grpc_conn_tick(struct grpc_conn *conn, struct mono now);

/* Says GOAWAY; what is under way may finish, nothing new is taken. */
void grpc_conn_shutdown(struct grpc_conn *conn);
/* True when neither side has anything left to say: close the socket. */
bool grpc_conn_is_done(const struct grpc_conn *conn);

/* A request of its own arrived in full, and its answer is not all out. */
bool grpc_conn_is_serving(const struct grpc_conn *conn);

#endif
