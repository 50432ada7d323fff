/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One RPC as its handler sees it, and the table of methods a server offers.
 *
 * A unary handler answers once, with grpc_call_reply or grpc_call_fail, at once or later. A
 * streaming handler reports with grpc_call_send, as often as it likes, and ends with
 * grpc_call_end. Only the newest unsent report is kept, so a peer that stops reading costs one
 * message in flight and one waiting. Loop thread only.
 *
 * Life of a call: it is the handler's from the invocation until its answer (reply, fail, end) or
 * until on_cancel was called, whichever comes first. After that the pointer is not to be used.
 */
#ifndef GRPC_CALL_H
#define GRPC_CALL_H

#include "base/attr.h"
#include "base/err.h"
#include "grpc/frame.h"

#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_METHODS_MAX = 32,
    GRPC_REQUEST_MAX_BYTES = 1 << 20, /* of one request message */
    GRPC_REPLY_MAX_BYTES = 4 << 20,   /* what grpc-go accepts by default */
    GRPC_MESSAGE_MAX_BYTES = 1024,    /* of an encoded status message */
};

struct grpc_call;

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
/* NULL if there is none. */
const struct grpc_method *grpc_router_find(const struct grpc_router *router, const char *path);
/* The text of the UNIMPLEMENTED answer for a path that was not found. */
void grpc_router_explain(const struct grpc_router *router, const char *path, char *out,
                         size_t out_bytes);

/* Who is told when the call ends without us; may be set once, within the handler or later. */
void grpc_call_on_cancel(struct grpc_call *call, grpc_cancel_fn *on_cancel, void *user);

/* Unary: OK and this message (copied). A message that is too large or does not fit in memory turns
 * into RESOURCE_EXHAUSTED. */
void grpc_call_reply(struct grpc_call *call, const void *message, size_t len);

/* Ends with a status other than OK, without a message. */
void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Streaming: replaces a report that is still waiting. `message` is copied. Errors: ERR_LIMIT,
 * ERR_NOMEM; then the report is dropped and the stream goes on. */
NODISCARD int grpc_call_send(struct grpc_call *call, const void *message, size_t len,
                             struct err *e);

/* Streaming: ends with `status` once the waiting report is out. */
void grpc_call_end(struct grpc_call *call, enum grpc_status status, const char *text);

#endif
