/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC above HTTP/2 (PROTOCOL-HTTP2.md): its messages and status codes, and a call over a unix
 * socket, which is a transfer of libcurl's on a connection of its own. A daemon starts calls in its
 * loop, a command may wait for one.
 *
 * A message is one flag byte (0 plain, 1 compressed), its length as 32 bit big endian, and its
 * bytes. HTTP/2 may cut that anywhere, so client and server collect in a buffer what comes.
 */
#ifndef GRPC_GRPC_UNARY_H
#define GRPC_GRPC_UNARY_H

#include "base/err.h"
#include "base/mem.h"

#include <stddef.h>
#include <stdint.h>

/* ---- messages -------------------------------------------------------------------------------- */

enum { GRPC_PREFIX_BYTES = 5 };

/* Status codes of gRPC; only those we send or have to tell apart. */
enum grpc_status {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
};

/* "OK", "UNIMPLEMENTED" ...; "CODE" for one that is not in the list. */
const char *grpc_status_name(int status);

struct grpc_slice {
    const uint8_t *bytes; /* borrowed */
    size_t len;
};

enum grpc_framing {
    GRPC_PARTIAL,    /* the message is not complete */
    GRPC_WHOLE,      /* `out` is the message, perhaps an empty one */
    GRPC_COMPRESSED, /* the compressed flag is set */
    GRPC_BAD_FLAG,   /* the flag is neither 0 nor 1 */
    GRPC_TOO_LARGE,  /* more than `max_bytes` are announced */
};

/* The kind of the first message in `in`. */
enum grpc_framing grpc_first_message(const struct buf *in, size_t max_bytes,
                                     struct grpc_slice *out);

/* Appends the message with its prefix. Errors: ERR_LIMIT (of `out`, below 4 GiB). */
NODISCARD int grpc_put_message(struct buf *out, const void *message, size_t len, struct err *e);

/* ---- a call ---------------------------------------------------------------------------------- */

enum {
    GRPC_UNARY_REPLY_MAX_BYTES = 4 << 20,
    GRPC_UNARY_TEXT_BYTES = 1024, /* of the server's status message */
};

struct ev_loop;
struct grpc_unary;

/* The last thing that a call does; it is freed afterwards, and must not be cancelled here. `why` is
 * NULL for OK with exactly one message, which is borrowed. Otherwise ERR_GONE is the status
 * NOT_FOUND, ERR_RETRY any other, ERR_PARSE an answer of no or several messages. With an errno the
 * server itself is the trouble: ERR_NOTFOUND (no such socket), else ERR_RETRY (ECONNREFUSED: nobody
 * listens; ETIMEDOUT: it was too slow; ECONNRESET: it ended, or does not speak HTTP/2). */
typedef void grpc_unary_fn(void *user, const uint8_t *message, size_t len, const struct err *why);

struct grpc_unary_plan {
    const char *path;          /* of the socket; borrowed as long as the call lasts */
    const char *method;        /* "/package.Service/Method"; the same */
    struct grpc_slice message; /* copied */
    int64_t timeout_ns;        /* INT64_MAX: none */
    grpc_unary_fn *done;       /* not for grpc_unary_ask */
    /* Of a server that streams: each message, borrowed; `done` has none then. Must not cancel the
     * call. NULL: unary. */
    void (*on_message)(void *user, const uint8_t *message, size_t len);
    void *user;
};

/* Always ends by `done`, from the loop, unless it is cancelled. */
struct grpc_unary *grpc_unary_start(struct ev_loop *loop, const struct grpc_unary_plan *plan);
void grpc_unary_cancel(struct grpc_unary *u); /* without its callback; accepts NULL */

/* Runs a loop that is not running until the call is over; `answer` gets its message. ERR_GONE, too,
 * if something else breaks the loop off. Errors: as `done`. */
NODISCARD int grpc_unary_ask(struct ev_loop *loop, const struct grpc_unary_plan *plan,
                             struct buf *answer, struct err *e);

#endif
