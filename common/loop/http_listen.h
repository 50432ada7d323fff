/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket of --http-bind-address. */
#ifndef LOOP_HTTP_LISTEN_H
#define LOOP_HTTP_LISTEN_H

#include "base/attr.h"
#include "base/err.h"

#include <stdint.h>

/* Listens at HOST:PORT, [IPV6]:PORT or :PORT (all addresses, IPv4 and IPv6); port 0 takes a free
 * one. `*out_fd` does not block and is the caller's to close. Errors: ERR_PARSE for the address,
 * ERR_IO naming it if it cannot be bound. */
NODISCARD int http_listen(const char *address, int *out_fd, struct err *e);
/* The port that a listening socket has; 0 if it has none. */
uint16_t http_listen_port(int fd);

#endif
