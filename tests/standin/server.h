/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API port: one libmicrohttpd daemon that can be closed (connections refused) and opened again
 * on the same port, as an API server that restarts. Certificates are read at each opening.
 */
#ifndef STANDIN_SERVER_H
#define STANDIN_SERVER_H

#include "base/err.h"
#include "standin/standin.h"

struct MHD_Daemon;

struct server_tls {
    const char *cert_file; /* NULL: plain HTTP; borrowed for good */
    const char *key_file;
    const char *client_ca_file; /* NULL: client certificates are not asked for */
};

struct server {
    struct standin *standin;
    struct server_tls tls;
    struct MHD_Daemon *daemon; /* NULL while closed */
    int reserved_fd;           /* bound and not listening while closed: keeps the port */
    uint16_t port;
};

/* Binds any free port of 127.0.0.1. Errors: ERR_IO. */
NODISCARD int server_init(struct server *server, struct standin *s, const struct server_tls *tls,
                          struct err *e);
void server_fini(struct server *server);

/* Both succeed if it is so already. Not to be called with the lock held. */
NODISCARD int server_open(struct server *server, struct err *e);
NODISCARD int server_close(struct server *server, struct err *e);

#endif
