/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/dra_peer.h"

#include <assert.h>

static void wake(void *user)
{
    (void)user; /* tests pump by hand */
}

void dra_peer_start(struct dra_peer *p)
{
    struct grpc_conn_config config = {
        .router = &p->router, .name = "test", .calls = &p->calls, .wake = wake, .user = p};
    p->server = grpc_conn_new(&config, (struct mono){0});
    p->client = h2_client_new(p->server, false);
}

void dra_peer_stop(struct dra_peer *p)
{
    h2_client_free(p->client);
    grpc_conn_free(p->server);
}

struct h2_stream *dra_peer_call(struct dra_peer *p, const char *path, const void *message,
                                size_t len)
{
    struct h2_stream *s =
        h2_client_stream(p->client, h2_client_call(p->client, path, message, len));
    assert(h2_client_pump(p->client) == 0);
    return s;
}
