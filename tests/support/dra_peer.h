/* SPDX-License-Identifier: Apache-2.0 */
/* A kubelet's end for tests of the plugin's services: a server without a socket and its client. */
#ifndef SUPPORT_DRA_PEER_H
#define SUPPORT_DRA_PEER_H

#include "tests/support/h2_client.h"

struct dra_peer {
    struct grpc_router router;
    struct grpc_conn *server;
    uint64_t calls;
    struct h2_client *client;
};

/* Add methods to `router` (zeroed) first, then start. */
void dra_peer_start(struct dra_peer *p);
void dra_peer_stop(struct dra_peer *p);
/* A call with `message`, pumped. */
struct h2_stream *dra_peer_call(struct dra_peer *p, const char *path, const void *message,
                                size_t len);

#endif
