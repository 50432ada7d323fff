/* SPDX-License-Identifier: Apache-2.0 */
/* One gRPC call over a unix socket, with blocking waits: for a command, not for a daemon. */
#ifndef GRPC_UNIX_CALL_H
#define GRPC_UNIX_CALL_H

#include "base/attr.h"
#include "base/err.h"
#include "base/time.h"
#include "grpc/grpc_client.h"

#include <stdint.h>

struct unix_call {
    const char *path;   /* of the socket */
    const char *method; /* "/package.Service/Method" */
    struct grpc_slice message;
    grpc_client_message_fn *on_message;
    void *user;
    int stop_fd; /* readable: give up */
    /* Its own. */
    int fd;
    struct grpc_client *client;
};

/* A socket connected to `path`; `flags` are further ones of socket(2). Errors: as unix_call_open.
 */
NODISCARD int unix_call_connect(const char *path, int flags, int *out_fd, struct err *e);

/* Connects. Errors: ERR_NOTFOUND (no such socket), ERR_RETRY (nobody listens), ERR_LIMIT,
 * ERR_NOMEM, ERR_IO. */
NODISCARD int unix_call_open(struct unix_call *c, struct err *e);
void unix_call_close(struct unix_call *c);

/* Talks until the call is over: then 0, ask the client how. Errors: ERR_RETRY (with ETIMEDOUT at
 * the deadline), ERR_GONE (stopped). */
NODISCARD int unix_call_wait(struct unix_call *c, struct mono deadline, struct err *e);

/* A whole call. Errors: the same; ERR_GONE (without an errno) for the status NOT_FOUND, ERR_RETRY
 * for another one than OK. */
NODISCARD int unix_call_make(struct unix_call *c, int64_t timeout_ns, struct err *e);

#endif
