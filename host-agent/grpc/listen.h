/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server on one unix socket in one libev loop. Several may live in one loop; they share
 * nothing. Loop thread only.
 *
 * The socket appears under its name only when it listens: it is bound to a hidden name beside it
 * and renamed, which also replaces a stale socket in one step. The kubelet watches the directory:
 * it ignores names with a leading dot, takes a rename for a new socket, and may connect in the same
 * instant.
 *
 * Peers are root or our own user (SO_PEERCRED); everybody else is turned away. A peer costs at
 * most its connection; connections are bounded: where a new one finds no room, the one that has
 * been silent for longest goes, one with a call under way last. One that does not read is not
 * written to.
 */
#ifndef GRPC_LISTEN_H
#define GRPC_LISTEN_H

#include "base/attr.h"
#include "base/err.h"
#include "host-agent/grpc/conn.h"

#include <stdbool.h>
#include <sys/types.h>

struct ev_loop;
struct grpc_listener;

enum { GRPC_CONNECTIONS_MAX = 32 /* a kubelet has two; the rest is dpuctl, and leaks */ };

struct grpc_listener_config {
    struct ev_loop *loop;             /* borrowed */
    const char *name;                 /* for the log: "dra"; borrowed */
    const char *path;                 /* at most 107 bytes; copied */
    mode_t mode;                      /* of the socket */
    const struct grpc_router *router; /* borrowed for the listener's life */

    /* After grpc_listener_shutdown, perhaps within: the last connection is gone. Must not free the
     * listener. NULL: no matter. */
    void (*on_drained)(void *user);
    void *user;
};

/* Listens when it returns; replaces a socket of that name, but no other kind of file. The directory
 * has to exist. Errors: ERR_LIMIT (path too long), ERR_CONFLICT (no socket has the name), ERR_IO.
 */
NODISCARD int grpc_listener_start(const struct grpc_listener_config *config,
                                  struct grpc_listener **out, struct err *e);

/* Takes the name away, takes no new connections, says GOAWAY on the others, and lets what is under
 * way finish: then on_drained. */
void grpc_listener_shutdown(struct grpc_listener *l);

/* At once: cancels all calls. Not within a handler. Accepts NULL. */
void grpc_listener_free(struct grpc_listener *l);

/* False if somebody removed or replaced the socket's name. */
bool grpc_listener_is_in_place(const struct grpc_listener *l);

#endif
