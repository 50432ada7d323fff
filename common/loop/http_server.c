/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/http_server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "loop/http_listen.h"

#include <ev.h>
#include <microhttpd.h>

#include <assert.h>
#include <sys/socket.h>

#define REQUEST_NS   (HTTP_REQUEST_SECONDS * NS_PER_SEC)
#define LOOK_SECONDS 1.

struct visit {
    struct MHD_Connection *connection; /* NULL: the place is free */
    struct mono since;                 /* when it began to wait for, or to send, a request */
};

struct http_server {
    struct ev_loop *loop;
    struct MHD_Daemon *mhd;
    ev_io readable;   /* MHD's own epoll descriptor */
    ev_timer timeout; /* MHD's idle connections */
    ev_timer look;    /* at those that make progress, but too little; runs while there are any */
    struct visit visits[HTTP_MAX_CONNECTIONS];
    http_handler_fn *handler;
    void *user;
};

static enum MHD_Result answer(struct MHD_Connection *connection, int status, struct http_page *page)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        page->body.len, (void *)(uintptr_t)buf_text(&page->body), MHD_RESPMEM_MUST_COPY);
    if (!response) {
        return MHD_NO; /* out of memory: the connection is closed */
    }
    enum MHD_Result rc =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, page->content_type);
    if (rc == MHD_YES) {
        rc = MHD_queue_response(connection, (unsigned int)status, response);
    }
    MHD_destroy_response(response);
    return rc;
}

static bool has_body(struct MHD_Connection *connection)
{
    const char *len =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (len && !text_equal(len, "0")) ||
           MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                       MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **request)
{
    static const char seen; /* its address marks a request whose headers were reported before */
    struct http_server *server = user;
    struct http_page page = {.content_type = "text/plain; charset=utf-8"};
    (void)version;
    (void)upload;
    (void)upload_len;
    if (*request == NULL) {
        *request = (void *)(uintptr_t)&seen;
        if (!has_body(connection)) {
            return MHD_YES;
        } /* an answer as early as this one ends the connection: an endless body is not read */
    }
    buf_init(&page.body, HTTP_PAGE_MAX_BYTES);
    int status;
    if (!text_equal(method, "GET") && !text_equal(method, "HEAD")) {
        status = MHD_HTTP_METHOD_NOT_ALLOWED;
    } else {
        status = server->handler(server->user, url, &page);
    }
    if (page.body.len == 0 && status >= 400) {
        status = buf_appendf(&page.body, NULL, "%d\n", status) == 0 ? status : 500;
    }
    enum MHD_Result rc = answer(connection, status, &page);
    buf_fini(&page.body);
    return rc;
}

/* ---- slow clients ---------------------------------------------------------------------------- */

static struct visit *find_visit(struct http_server *server, const struct MHD_Connection *connection)
{
    for (size_t i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
        if (server->visits[i].connection == connection) {
            return &server->visits[i];
        }
    }
    return NULL;
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = user;
    bool opened = code == MHD_CONNECTION_NOTIFY_STARTED;
    struct visit *visit = find_visit(server, opened ? NULL : connection);
    (void)context;
    if (!visit) {
        return; /* there are as many as MHD admits */
    }
    *visit = (struct visit){.connection = opened ? connection : NULL, .since = clock_mono_now()};
    if (opened && !ev_is_active(&server->look)) {
        ev_timer_again(server->loop, &server->look);
    }
}

static void on_completed(void *user, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    struct visit *visit = find_visit(user, connection);
    (void)request;
    (void)code;
    if (visit) {
        visit->since = clock_mono_now(); /* the next request has its own time */
    }
}

/* MHD's timeout starts anew with each byte: who sends or takes one now and then would stay. */
static void end_overdue_visits(struct http_server *server, struct mono now)
{
    for (size_t i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
        const struct visit *visit = &server->visits[i];
        if (visit->connection && mono_since(now, visit->since) >= REQUEST_NS) {
            const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(visit->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
            (void)shutdown(info->connect_fd, SHUT_RDWR); /* MHD sees its end, and closes it */
        }
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static unsigned int count_connections(const struct http_server *server)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

/* Lets MHD work, then asks when it wants to be woken at the latest. */
static void pump(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    unsigned int before;
    do { /* after its limit was reached it listens again only in the run that follows a close */
        before = count_connections(server);
        (void)MHD_run(server->mhd); /* fails only for a daemon with threads */
    } while (count_connections(server) < before);
    ev_timer_stop(server->loop, &server->timeout);
    if (MHD_get_timeout(server->mhd, &wait_ms) == MHD_YES) {
        ev_timer_set(&server->timeout, (double)wait_ms / 1e3 + 0.001, 0.);
        ev_timer_start(server->loop, &server->timeout);
    }
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
    (void)loop;
    (void)events;
    pump(w->data);
}

static void on_timeout(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop;
    (void)events;
    pump(w->data);
}

static void on_look(struct ev_loop *loop, ev_timer *w, int events)
{
    struct http_server *server = w->data;
    (void)events;
    end_overdue_visits(server, clock_mono_now());
    pump(server);
    if (count_connections(server) == 0) {
        ev_timer_stop(loop, w);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int http_server_start(struct ev_loop *loop, const char *address, http_handler_fn *handler,
                      void *user, struct http_server **out, struct err *e)
{
    int listener = -1;
    int rc = http_listen(address, &listener, e);
    if (rc != 0) {
        return rc;
    }
    CLEANUP(free) struct http_server *server = calloc(1, sizeof(*server));
    if (!server) {
        (void)close(listener); /* nothing was accepted on it */
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    *server = (struct http_server){.loop = loop, .handler = handler, .user = user};
    ev_timer_init(&server->look, on_look, 0., LOOK_SECONDS);
    server->look.data = server;
    server->mhd = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned int)HTTP_MAX_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)HTTP_IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_END);
    if (!server->mhd) {
        (void)close(listener); /* nothing was accepted on it */
        return err_set(e, ERR_IO, "starting the HTTP server on '%s' failed", address);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    assert(info);
    ev_io_init(&server->readable, on_readable, info->epoll_fd, EV_READ);
    server->readable.data = server;
    ev_io_start(loop, &server->readable);
    ev_timer_init(&server->timeout, on_timeout, 0., 0.);
    server->timeout.data = server;
    *out = TAKE(server);
    return 0;
}

uint16_t http_server_port(const struct http_server *server)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_LISTEN_FD);
    return info ? http_listen_port(info->listen_fd) : 0;
}

void http_server_stop(struct http_server *server)
{
    if (!server) {
        return;
    }
    ev_io_stop(server->loop, &server->readable);
    ev_timer_stop(server->loop, &server->timeout);
    MHD_stop_daemon(server->mhd);
    ev_timer_stop(server->loop, &server->look); /* what it closed has told us until here */
    free(server);
}
