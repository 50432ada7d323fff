/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small HTTP page of an agent (/metrics, /livez, /readyz, /statusz): libmicrohttpd driven by
 * our loop, no threads. GET and HEAD only; a body is not read. Bounded: HTTP_MAX_CONNECTIONS
 * connections, each closed after HTTP_IDLE_SECONDS without progress, or where a request and its
 * answer take longer than HTTP_REQUEST_SECONDS. Who comes when all places are taken gets the place
 * of the one that waits longest, so that a kubelet's probe is answered among clients that are idle,
 * slow or come again at once. Loop thread only.
 */
#ifndef LOOP_HTTP_SERVER_H
#define LOOP_HTTP_SERVER_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>

struct ev_loop;
struct http_server;

enum {
    HTTP_MAX_CONNECTIONS = 64, /* 16 KiB each; less where a quarter of RLIMIT_NOFILE is */
    /* So long nobody takes a connection's place: its request may be on its way. Together with the
     * places it paces a flood: 64 each 25 ms, so that the last of 1,000 waits for 0.4 s. */
    HTTP_YOUNG_MS = 25,
    HTTP_IDLE_SECONDS = 10,
    HTTP_REQUEST_SECONDS = 15,
    HTTP_PAGE_MAX_BYTES = 256 << 10
};

struct http_page {
    struct buf body;          /* initialised by the server, bounded by HTTP_PAGE_MAX_BYTES */
    const char *content_type; /* static text; preset to "text/plain; charset=utf-8" */
};

/* Fills the page for a path (query removed) and returns the HTTP status; 404 for an unknown one. */
typedef int http_handler_fn(void *user, const char *path, struct http_page *page);

/* `address` is HOST:PORT, [IPV6]:PORT or :PORT (all addresses, IPv4 and IPv6). Port 0 takes a free
 * one. Errors: ERR_PARSE for the address, ERR_IO naming it if it cannot be bound. */
NODISCARD int http_server_start(struct ev_loop *loop, const char *address, http_handler_fn *handler,
                                void *user, struct http_server **out, struct err *e);
uint16_t http_server_port(const struct http_server *server);
void http_server_stop(struct http_server *server); /* accepts NULL; not within the handler */

#endif
