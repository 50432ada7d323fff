/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One gRPC call over a unix socket: connects, talks, tells the outcome. It has a connection of its
 * own; HTTP/2 is nghttp2's. A daemon starts calls in its loop, a command may wait for one.
 */
#ifndef GRPC_GRPC_UNARY_H
#define GRPC_GRPC_UNARY_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mem.h"
#include "grpc/frame.h"

#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_UNARY_REQUEST_MAX_BYTES = 64 << 10,
    GRPC_UNARY_REPLY_MAX_BYTES = 4 << 20,
    GRPC_UNARY_TEXT_BYTES = 1024, /* of the server's status message */
};

struct ev_loop;
struct grpc_unary;

/* The last thing that a call does; it is freed afterwards, and must not be cancelled here. `why` is
 * NULL for OK with exactly one message, which is borrowed. Otherwise ERR_GONE is the status
 * NOT_FOUND, ERR_RETRY any other, ERR_PARSE an answer of no or several messages, or not HTTP/2;
 * with an errno the server itself is the trouble (ETIMEDOUT: it was too slow). */
typedef void grpc_unary_fn(void *user, const uint8_t *message, size_t len, const struct err *why);

struct grpc_unary_plan {
    const char *path;          /* of the socket; borrowed as long as the call lasts */
    const char *method;        /* "/package.Service/Method"; the same */
    struct grpc_slice message; /* copied */
    int64_t timeout_ns;        /* INT64_MAX: none */
    grpc_unary_fn *done;       /* not for grpc_unary_ask */
    /* Of a server that streams: each message, borrowed; `done` has none then. NULL: unary. */
    void (*on_message)(void *user, const uint8_t *message, size_t len);
    void *user;
};

/* Always ends by `done`, from the loop, unless it is cancelled. Errors: ERR_NOTFOUND (no such
 * socket), ERR_RETRY (nobody listens), ERR_LIMIT, ERR_IO; then `done` is not called. */
NODISCARD int grpc_unary_start(struct ev_loop *loop, const struct grpc_unary_plan *plan,
                               struct grpc_unary **out, struct err *e);
void grpc_unary_cancel(struct grpc_unary *u); /* without its callback; accepts NULL */

/* Runs a loop that is not running until the call is over; `answer` gets its message. ERR_GONE, too,
 * if something else breaks the loop off. Errors: as start and `done`. */
NODISCARD int grpc_unary_ask(struct ev_loop *loop, const struct grpc_unary_plan *plan,
                             struct buf *answer, struct err *e);

#endif
