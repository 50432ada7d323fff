/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/http_server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/http_listen.h"

#include <ev.h>
#include <microhttpd.h>

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_NS    (HTTP_REQUEST_SECONDS * NS_PER_SEC)
#define YOUNG_NS      (HTTP_YOUNG_MS * NS_PER_MS)
#define PAUSE_SECONDS (1e-3 * HTTP_YOUNG_MS / 5)
#define LOOK_SECONDS  1.

enum {
    ACCEPTS_AT_ONCE = 16, /* then the loop's other work has its turn */
    /* What was shown out keeps its place until MHD closes it, in the same turn of the loop. */
    VISITS_MAX = HTTP_MAX_CONNECTIONS + ACCEPTS_AT_ONCE,
    MEMORY_BYTES = 16384, /* of one connection: a request's headers with a large token */
};

struct visit {
    struct MHD_Connection *connection; /* NULL: the place is free */
    struct mono came;
    struct mono since; /* when it began to wait for, or to send, a request */
    bool is_shown_out;
};

struct http_server {
    struct ev_loop *loop;
    struct MHD_Daemon *mhd;
    int listener;
    ev_io acceptable;
    ev_timer pause;   /* runs while nothing is accepted */
    ev_io readable;   /* MHD's own epoll descriptor */
    ev_timer timeout; /* MHD's idle connections */
    ev_timer look;    /* at those that make progress, but too little; runs while there are any */
    struct visit visits[VISITS_MAX];
    size_t places;
    struct log_repeat complaint;
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
    for (size_t i = 0; i < VISITS_MAX; i++) {
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
    struct mono now = clock_mono_now();
    *visit = (struct visit){.connection = opened ? connection : NULL, .came = now, .since = now};
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

static void show_out(struct visit *visit)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(visit->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    visit->is_shown_out = true;
    (void)shutdown(info->connect_fd, SHUT_RDWR); /* MHD sees its end, and closes it */
}

/* MHD's timeout starts anew with each byte: who sends or takes one now and then would stay. */
static void end_overdue_visits(struct http_server *server, struct mono now)
{
    for (size_t i = 0; i < VISITS_MAX; i++) {
        struct visit *visit = &server->visits[i];
        if (visit->connection && mono_since(now, visit->since) >= REQUEST_NS) {
            show_out(visit);
        }
    }
}

static size_t count_visits(const struct http_server *server)
{
    size_t count = 0;
    for (size_t i = 0; i < VISITS_MAX; i++) {
        count += server->visits[i].connection && !server->visits[i].is_shown_out;
    }
    return count;
}

/* The one that waits longest of those that may be shown out by now; NULL if there is none. */
static struct visit *find_longest(struct http_server *server, struct mono now)
{
    struct visit *longest = NULL;
    for (size_t i = 0; i < VISITS_MAX; i++) {
        struct visit *visit = &server->visits[i];
        if (visit->connection && !visit->is_shown_out && mono_since(now, visit->came) >= YOUNG_NS &&
            (!longest || visit->since.ns < longest->since.ns)) {
            longest = visit;
        }
    }
    return longest;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Lets MHD work, then asks when it wants to be woken at the latest. */
static void pump(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    (void)MHD_run(server->mhd); /* fails only for a daemon with threads */
    ev_timer_stop(server->loop, &server->timeout);
    if (MHD_get_timeout(server->mhd, &wait_ms) == MHD_YES) {
        ev_timer_set(&server->timeout, (double)wait_ms / 1e3 + 0.001, 0.);
        ev_timer_start(server->loop, &server->timeout);
    }
}

static void pause_accepting(struct http_server *server)
{
    ev_io_stop(server->loop, &server->acceptable);
    ev_timer_set(&server->pause, PAUSE_SECONDS, 0.);
    ev_timer_start(server->loop, &server->pause);
}

/* Returns whether to try again. Without a free descriptor the kernel says so even if nobody waits,
 * and the listener stays readable if somebody does. */
static bool on_no_client(struct http_server *server, int why)
{
    if (why != EMFILE && why != ENFILE && why != ENOBUFS && why != ENOMEM) {
        return why != EAGAIN; /* that client's own failure */
    }
    if (log_repeat_due(&server->complaint, clock_mono_now(), LOG_AGAIN_NS)) {
        log_warn("http", "accepting a connection failed: %s; /livez may go unanswered%s",
                 strerror(why), server->complaint.more);
    }
    struct visit *longest = find_longest(server, clock_mono_now());
    if (longest) {
        show_out(longest); /* gives a descriptor and memory back */
    }
    pause_accepting(server);
    return false;
}

/* False if there is nobody, or nobody else, to let in now. */
static bool let_one_in(struct http_server *server)
{
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof(from);
    bool is_full = count_visits(server) >= server->places;
    struct visit *longest = is_full ? find_longest(server, clock_mono_now()) : NULL;
    if ((is_full && !longest) || !find_visit(server, NULL)) {
        pause_accepting(server);
        return false;
    }
    int fd =
        accept4(server->listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return on_no_client(server, errno);
    }
    if (longest) {
        show_out(longest);
    }
    /* MHD closes it where it fails, too: out of memory. */
    (void)MHD_add_connection(server->mhd, fd, (const struct sockaddr *)&from, len);
    return true;
}

static void on_acceptable(struct ev_loop *loop, ev_io *w, int events)
{
    struct http_server *server = w->data;
    (void)loop;
    (void)events;
    for (int i = 0; i < ACCEPTS_AT_ONCE && let_one_in(server); i++) {
    }
    pump(server);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *w, int events)
{
    struct http_server *server = w->data;
    (void)events;
    ev_io_start(loop, &server->acceptable);
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
    if (count_visits(server) == 0) {
        ev_timer_stop(loop, w);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Most of the descriptors that this process may have are for its work. */
static size_t count_places(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 >= HTTP_MAX_CONNECTIONS) {
        return HTTP_MAX_CONNECTIONS;
    }
    return limit.rlim_cur < 8 ? 1 : (size_t)limit.rlim_cur / 4;
}

static void start_watchers(struct http_server *server)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    assert(info);
    ev_io_init(&server->acceptable, on_acceptable, server->listener, EV_READ);
    ev_io_init(&server->readable, on_readable, info->epoll_fd, EV_READ);
    ev_timer_init(&server->pause, on_pause_over, 0., 0.);
    ev_timer_init(&server->timeout, on_timeout, 0., 0.);
    ev_timer_init(&server->look, on_look, 0., LOOK_SECONDS);
    server->acceptable.data = server;
    server->readable.data = server;
    server->pause.data = server;
    server->timeout.data = server;
    server->look.data = server;
    ev_io_start(server->loop, &server->acceptable);
    ev_io_start(server->loop, &server->readable);
}

int http_server_start(struct ev_loop *loop, const char *address, http_handler_fn *handler,
                      void *user, struct http_server **out, struct err *e)
{
    CLEANUP(fd) int listener = -1;
    int rc = http_listen(address, &listener, e);
    if (rc != 0) {
        return rc;
    }
    CLEANUP(free) struct http_server *server = calloc(1, sizeof(*server));
    if (!server) {
        return err_no_memory(e);
    }
    *server = (struct http_server){
        .loop = loop, .places = count_places(), .handler = handler, .user = user};
    server->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, on_request, server,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned int)VISITS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned int)HTTP_IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, server, MHD_OPTION_END);
    if (!server->mhd) {
        return err_set(e, ERR_IO, "starting the HTTP server on '%s' failed", address);
    }
    server->listener = listener;
    listener = -1;
    start_watchers(server);
    *out = TAKE(server);
    return 0;
}

uint16_t http_server_port(const struct http_server *server)
{
    return http_listen_port(server->listener);
}

void http_server_stop(struct http_server *server)
{
    if (!server) {
        return;
    }
    ev_io_stop(server->loop, &server->acceptable);
    ev_io_stop(server->loop, &server->readable);
    ev_timer_stop(server->loop, &server->pause);
    ev_timer_stop(server->loop, &server->timeout);
    MHD_stop_daemon(server->mhd);
    ev_timer_stop(server->loop, &server->look); /* what it closed has told us until here */
    (void)close(server->listener);              /* nothing was accepted that MHD does not have */
    free(server);
}
