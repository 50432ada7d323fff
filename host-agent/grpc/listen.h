/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server on one unix socket in one libev loop. Several may live in one loop; they share
 * nothing. Loop thread only.
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
#include "host-agent/grpc/call.h"

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

    /* The socket can take no more connections (closed or shut down under us). May be NULL. */
    void (*on_broken)(void *user, const struct err *e);
    /* After grpc_listener_shutdown: the last connection is gone. May free the listener. NULL: no
     * matter. */
    void (*on_drained)(void *user);
    void *user;
};

/* Listens when it returns. Errors: as unix_socket_listen, ERR_NOMEM. */
NODISCARD int grpc_listener_start(const struct grpc_listener_config *config,
                                  struct grpc_listener **out, struct err *e);

/* Takes the name away, takes no new connections, says GOAWAY on the others, and lets what is under
 * way finish: then on_drained, always from the loop. */
void grpc_listener_shutdown(struct grpc_listener *l);

/* At once: cancels all calls. Not within a handler. Accepts NULL. */
void grpc_listener_free(struct grpc_listener *l);

/* False if somebody removed or replaced the socket's name. */
bool grpc_listener_is_in_place(const struct grpc_listener *l);

#endif
