/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One gRPC call over a unix socket in a libev loop: connects, talks, tells the outcome, all within
 * one deadline. For a daemon; a command has unix_call.h. Loop thread only.
 */
#ifndef GRPC_UNIX_FLIGHT_H
#define GRPC_UNIX_FLIGHT_H

#include "base/attr.h"
#include "base/err.h"
#include "grpc/frame.h"

#include <stdint.h>

struct ev_loop;
struct unix_flight;

/* The last thing that a flight does; it is freed afterwards, and must not be cancelled here. `why`
 * is NULL for OK with exactly one message, which is borrowed; else ERR_NOTFOUND (no such socket),
 * ERR_RETRY, ERR_PARSE ... */
typedef void unix_flight_fn(void *user, const uint8_t *message, size_t len, const struct err *why);

struct unix_flight_plan {
    const char *path;          /* of the socket; borrowed as long as it lasts */
    const char *method;        /* "/package.Service/Method"; the same */
    struct grpc_slice message; /* copied */
    int64_t timeout_ns;
    unix_flight_fn *done;
    void *user;
};

/* Always ends by `done`, from the loop, unless it is cancelled. Errors: ERR_NOMEM, ERR_LIMIT, and
 * those of the connection; then `done` is not called. */
NODISCARD int unix_flight_start(struct ev_loop *loop, const struct unix_flight_plan *plan,
                                struct unix_flight **out, struct err *e);
void unix_flight_cancel(struct unix_flight *f); /* without its callback; accepts NULL */

#endif
