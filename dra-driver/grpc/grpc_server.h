/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server on one unix socket in one libev loop. Several may live in one loop; they share
 * nothing. Loop thread only. HTTP/2 is nghttp2's (1.52: the ssize_t functions).
 *
 * The socket is bound to a hidden name and renamed once it listens, which also replaces a stale
 * socket in one step: the kubelet watches the directory, ignores names with a leading dot, and may
 * connect in the instant of the rename.
 *
 * Peers are root or our own user (SO_PEERCRED); the server rejects all others. When all
 * connections are in use, a new one closes the one that has been idle longest, preferably one
 * without a call under way. The server does not write to a peer that does not read. A wrong request
 * ends its own stream; a peer that breaks HTTP/2 ends its connection. :authority is ignored:
 * kubelets send "localhost", a percent-encoded path, or a raw path, which HTTP/2's own rules would
 * refuse.
 *
 * A unary handler answers once, with grpc_call_reply or grpc_call_end, at once or later. A
 * streaming handler reports with grpc_call_send, as often as it likes, and ends with
 * grpc_call_end. Only the newest unsent report is kept, so a peer that stops reading costs one
 * message in flight and one waiting. A call is the handler's until its answer (reply, end) or
 * until on_cancel was called, whichever comes first.
 */
#ifndef GRPC_GRPC_SERVER_H
#define GRPC_GRPC_SERVER_H

#include "base/err.h"
#include "grpc/grpc_unary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_CONNECTIONS_MAX = 32,              /* a kubelet has two; the rest is dpuctl, and leaks */
    GRPC_REQUEST_MAX_BYTES = 1 << 20,       /* of one request message */
    GRPC_REPLY_MAX_BYTES = 4 << 20,         /* what grpc-go accepts by default */
    GRPC_STREAMS_MAX = 128,                 /* at a time; fewer would let a watch starve Prepare */
    GRPC_CONN_REQUESTS_MAX_BYTES = 4 << 20, /* request bytes held for all streams together */
    GRPC_HEADER_LIST_MAX_BYTES = 16 << 10,
    GRPC_REQUEST_S = 60, /* for a request to arrive in full */
};

struct ev_loop;
struct grpc_call;
struct grpc_server;

/* ---- methods and calls ----------------------------------------------------------------------- */

/* `message` is borrowed until the handler returns. */
typedef void grpc_handler_fn(void *user, struct grpc_call *call, const uint8_t *message,
                             size_t len);

/* The peer gave up, its deadline passed, or the connection is gone: forget the call. */
typedef void grpc_cancel_fn(void *user, struct grpc_call *call);

struct grpc_method {
    const char *path; /* "/package.Service/Method" */
    grpc_handler_fn *handle;
};

/* The function to call when the call ends without us; may be set once, within the handler or later.
 */
void grpc_call_on_cancel(struct grpc_call *call, grpc_cancel_fn *on_cancel, void *user);

/* Unary: OK and this message (copied). One that is too large turns into RESOURCE_EXHAUSTED. */
void grpc_call_reply(struct grpc_call *call, const void *message, size_t len);

/* Streaming: replaces a report that is still waiting. `message` is copied, of at most
 * GRPC_REPLY_MAX_BYTES. */
void grpc_call_send(struct grpc_call *call, const void *message, size_t len);

/* Ends with this status, of a stream once the waiting report is out. OK is a stream's. */
void grpc_call_end(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* ---- the server ------------------------------------------------------------------------------ */

struct grpc_server_config {
    struct ev_loop *loop; /* borrowed, like all of these */
    const char *name;     /* for the log: "dra" */
    const char *path;     /* absolute, of at most 107 bytes */
    const struct grpc_method *methods;
    size_t method_count;

    /* After grpc_server_shutdown, perhaps within: the last connection is gone. Must not free the
     * server. NULL: no matter. */
    void (*on_drained)(void *user);
    void *user; /* of the handlers, too */
};

/* Listens when it returns; replaces a socket of that name, but no other kind of file. The directory
 * has to exist. Errors: ERR_CONFLICT (no socket has the name), ERR_IO. */
NODISCARD int grpc_server_start(const struct grpc_server_config *config, struct grpc_server **out,
                                struct err *e);

/* Takes the name away, takes no new connections, says GOAWAY on the others, and lets what is under
 * way finish: then on_drained. */
void grpc_server_shutdown(struct grpc_server *s);

/* At once: cancels all calls. Not within a handler. Accepts NULL. */
void grpc_server_free(struct grpc_server *s);

/* False if somebody removed or replaced the socket's name. */
bool grpc_server_is_in_place(const struct grpc_server *s);

#endif
