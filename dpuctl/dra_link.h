/* SPDX-License-Identifier: Apache-2.0 */
/* One gRPC call over a unix socket, with blocking waits: for a command, not for a daemon. */
#ifndef DPUCTL_DRA_LINK_H
#define DPUCTL_DRA_LINK_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mono.h"
#include "grpc/grpc_client.h"

#include <stddef.h>
#include <stdint.h>

struct dra_link {
    int fd; /* owned; -1 when closed */
    struct grpc_client *client;
};

/* Errors: ERR_NOTFOUND (no such socket), ERR_RETRY (nobody listens), ERR_LIMIT, ERR_NOMEM, ERR_IO.
 */
NODISCARD int dra_link_open(struct dra_link *l, const char *path, struct grpc_client *client,
                            struct err *e); /* takes `client`, also on failure */
void dra_link_close(struct dra_link *l);

/* Talks until the call is over or `deadline` is reached (then ERR_RETRY with ETIMEDOUT), or
 * `stop_fd` becomes readable (a signalfd; then ERR_GONE). 0 means that the call is over: ask the
 * client how. */
NODISCARD int dra_link_run(struct dra_link *l, struct mono deadline, int stop_fd, struct err *e);

#endif
