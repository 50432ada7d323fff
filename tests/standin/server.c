/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/server.h"

#include "base/mem.h"
#include "standin/handler.h"
#include "standin/need.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { BACKLOG = 256, MAX_PEM_BYTES = 1 << 20 };

/* Remembers the connection, so that it can be dropped and frozen. */
static void on_connection(void *user, struct MHD_Connection *connection, void **conn,
                          enum MHD_ConnectionNotificationCode what)
{
    struct standin *s = user;
    standin_lock(s);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct standin_conn *c = need(calloc(1, sizeof(*c)));
        c->id = ++s->last_conn;
        c->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        c->next = s->conns;
        s->conns = c;
        *conn = c;
    } else {
        struct standin_conn **at = &s->conns;
        while (*at != *conn) {
            at = &(*at)->next;
        }
        *at = (*at)->next;
        free(*conn);
        *conn = NULL;
    }
    standin_unlock(s);
}

/* A socket bound to the port, with nobody listening: connects are refused. */
static int reserve_port(struct server *server, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(server->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        int rc = err_set_errno(e, ERR_IO, errno, "binding 127.0.0.1:%u", server->port);
        cleanup_fd(&fd);
        return rc;
    }
    server->reserved_fd = fd;
    server->port = ntohs(at.sin_port);
    return 0;
}

int server_init(struct server *server, struct standin *s, const struct server_tls *tls,
                struct err *e)
{
    *server = (struct server){.standin = s, .tls = *tls, .reserved_fd = -1};
    return reserve_port(server, e);
}

/* The file's text; owned (free). */
static char *read_pem(const char *path, struct err *e)
{
    CLEANUP(file) FILE *file = fopen(path, "re");
    CLEANUP(free) char *text = need(calloc(1, MAX_PEM_BYTES + 1));
    if (!file || fread(text, 1, MAX_PEM_BYTES, file) == 0) {
        (void)err_set_errno(e, ERR_IO, errno, "reading '%s'", path);
        return NULL;
    }
    return TAKE(text);
}

static struct MHD_Daemon *start_daemon(const struct server *server, struct MHD_OptionItem *tls,
                                       bool use_tls)
{
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_SUPPRESS_DATE_NO_CLOCK | MHD_USE_ITC |
                     (use_tls ? (unsigned)MHD_USE_TLS : 0U);
    struct standin *s = server->standin;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, &handler_request, s, MHD_OPTION_LISTEN_SOCKET, server->reserved_fd,
        MHD_OPTION_NOTIFY_CONNECTION, &on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
        &handler_completed, s, MHD_OPTION_URI_LOG_CALLBACK, &handler_uri, s,
        MHD_OPTION_CONNECTION_LIMIT, 4000U, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

int server_open(struct server *server, struct err *e)
{
    if (server->daemon) {
        return 0;
    }
    const struct server_tls *tls = &server->tls;
    CLEANUP(free) char *cert = NULL;
    CLEANUP(free) char *key = NULL;
    CLEANUP(free) char *ca = NULL;
    struct MHD_OptionItem items[4] = {{MHD_OPTION_END, 0, NULL}};
    size_t count = 0;
    if (tls->cert_file) {
        cert = read_pem(tls->cert_file, e);
        key = cert ? read_pem(tls->key_file, e) : NULL;
        if (!key) {
            return ERR_IO;
        }
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, cert};
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, key};
    }
    if (tls->client_ca_file) {
        ca = read_pem(tls->client_ca_file, e);
        if (!ca) {
            return ERR_IO;
        }
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, ca};
    }
    items[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    if (listen(server->reserved_fd, BACKLOG) != 0) {
        return err_set_errno(e, ERR_IO, errno, "listening on port %u", server->port);
    }
    server->daemon = start_daemon(server, items, tls->cert_file != NULL);
    if (!server->daemon) {
        return err_set(e, ERR_IO, "starting the HTTP server on port %u", server->port);
    }
    server->reserved_fd = -1; /* the daemon's now */
    return 0;
}

int server_close(struct server *server, struct err *e)
{
    if (!server->daemon) {
        return 0;
    }
    int listener = MHD_quiesce_daemon(server->daemon);
    cleanup_fd(&listener);
    standin_lock(server->standin);
    standin_drop_connections(server->standin);
    standin_unlock(server->standin);
    MHD_stop_daemon(server->daemon); /* waits for the threads, which all see the drop */
    server->daemon = NULL;
    return reserve_port(server, e);
}

void server_fini(struct server *server)
{
    if (server_close(server, NULL) != 0) {
        return; /* closed, and the port is not needed any more */
    }
    cleanup_fd(&server->reserved_fd);
}
