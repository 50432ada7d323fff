/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HOST:PORT of --http-bind-address, taken apart. CORE: whether the host is one to listen on is the
 * server's business.
 */
#ifndef LOOP_HTTP_ADDRESS_H
#define LOOP_HTTP_ADDRESS_H

#include "base/attr.h"
#include "base/err.h"

#include <stdint.h>

enum { HTTP_HOST_BYTES = 256 };

struct http_address {
    char host[HTTP_HOST_BYTES]; /* without brackets; "": all addresses */
    uint16_t port;              /* 0: any free one */
};

/* Reads HOST:PORT, [IPV6]:PORT or :PORT. An IPv6 address needs its brackets: without them nobody
 * knows where the port begins. Errors: ERR_PARSE. */
NODISCARD int http_address_parse(const char *text, struct http_address *out, struct err *e);

#endif
