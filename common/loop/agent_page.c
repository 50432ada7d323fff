/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd driven by our loop, no threads. GET and HEAD only; a body is not read. */
#include "loop/agent_page.h"

#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <ev.h>
#include <microhttpd.h>

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define RETRY_SECONDS 1.
#define PAUSE_SECONDS .1

enum {
    ADDRESS_BYTES = 280,
    PAGE_MAX_BYTES = 256 << 10,
    MEMORY_BYTES = 16384, /* of one connection: a request's headers with a large token */
    ACCEPTS_AT_ONCE = 16, /* then the loop's other work has its turn */
    /* Who finds no room here is dropped, and asks again after a second: too late for a probe. The
     * kernel makes it less where net.core.somaxconn is. */
    BACKLOG = 4096,
};

struct agent_page {
    struct ev_loop *loop;
    struct agent_page_config config;
    char address[ADDRESS_BYTES];
    struct MHD_Daemon *mhd; /* NULL while the address cannot be had */
    unsigned int places;
    int listener; /* owned */
    ev_io acceptable;
    ev_io readable; /* MHD's own epoll descriptor */
    ev_timer wake;  /* for MHD's idle connections, and to accept again */
    ev_timer retry; /* until the address can be had */
    struct log_repeat no_address;
    struct log_repeat no_descriptor;
};

/* ---- what is answered ------------------------------------------------------------------------ */

struct answer {
    struct buf body;
    const char *content_type;
};

bool agent_page_answer(char words[static AGENT_PAGE_WORDS_BYTES], bool yes, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(words, AGENT_PAGE_WORDS_BYTES, fmt, args);
    va_end(args);
    return yes;
}

static int status_if_written(int rc, unsigned int status)
{
    return rc == 0 ? (int)status : MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static int serve_metrics(const struct agent_page *page, struct answer *out)
{
    struct metrics_page metrics;
    metrics_page_init(&metrics);
    if (page->config.write_metrics) {
        page->config.write_metrics(page->config.user, &metrics);
    }
    metrics_common(&metrics);
    int rc = metrics.failed
                 ? ERR_LIMIT
                 : buf_append(&out->body, buf_text(&metrics.text), metrics.text.len, NULL);
    metrics_page_fini(&metrics);
    out->content_type = "text/plain; version=0.0.4; charset=utf-8";
    return status_if_written(rc, MHD_HTTP_OK);
}

static int serve_question(const struct agent_page *page, agent_page_ask_fn *ask, struct answer *out)
{
    char words[AGENT_PAGE_WORDS_BYTES] = "";
    bool yes = ask(page->config.user, words);
    int rc = buf_appendf(&out->body, NULL, "%s%s%s\n", yes ? "ok" : "failed", words[0] ? ": " : "",
                         words);
    return status_if_written(rc, yes ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE);
}

static int serve_status(const struct agent_page *page, struct answer *out)
{
    CLEANUP(json) json_t *status = page->config.describe(page->config.user);
    CLEANUP(free) char *text = status ? json_text_dump(status) : NULL;
    out->content_type = "application/json";
    int rc = text ? buf_appendf(&out->body, NULL, "%s\n", text) : ERR_BUG;
    return status_if_written(rc, MHD_HTTP_OK);
}

static int serve_index(const struct agent_page *page, const char *path, struct answer *out)
{
    int rc = buf_appendf(&out->body, NULL,
                         "/metrics  for Prometheus\n"
                         "/livez    does this agent work?\n"
                         "/readyz   has it done its first work?\n"
                         "/statusz  what it knows, as JSON\n%s",
                         page->config.is_serving ? "/servingz do the services work that it asks?\n"
                                                 : "");
    return status_if_written(rc, text_equal(path, "/") ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND);
}

/* "/livez", or "/livez/PROGRAM": on a port that somebody else has got hold of, only the latter is
 * surely not answered. */
static bool asks(const struct agent_page *page, const char *path, const char *question)
{
    size_t len = strlen(question);
    return strncmp(path, question, len) == 0 &&
           (path[len] == '\0' ||
            (path[len] == '/' && text_equal(path + len + 1, page->config.program)));
}

static int serve_path(const struct agent_page *page, const char *path, struct answer *out)
{
    const struct agent_page_config *c = &page->config;
    if (text_equal(path, "/metrics")) {
        return serve_metrics(page, out);
    }
    if (text_equal(path, "/statusz")) {
        return serve_status(page, out);
    }
    if (asks(page, path, "/livez")) {
        return serve_question(page, c->is_live, out);
    }
    if (asks(page, path, "/readyz")) {
        return serve_question(page, c->is_ready, out);
    }
    if (text_equal(path, "/servingz") && c->is_serving) {
        return serve_question(page, c->is_serving, out);
    }
    return serve_index(page, path, out);
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
    struct answer answer = {.content_type = "text/plain; charset=utf-8"};
    (void)version;
    (void)upload;
    (void)upload_len;
    if (*request == NULL) {
        *request = (void *)(uintptr_t)&seen;
        if (!has_body(connection)) {
            return MHD_YES;
        } /* an answer as early as this one ends the connection: an endless body is not read */
    }
    buf_init(&answer.body, PAGE_MAX_BYTES);
    int status = text_equal(method, "GET") || text_equal(method, "HEAD")
                     ? serve_path(user, url, &answer)
                     : MHD_HTTP_METHOD_NOT_ALLOWED;
    if (answer.body.len == 0) {
        status = status_if_written(buf_appendf(&answer.body, NULL, "%d\n", status),
                                   (unsigned int)status);
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        answer.body.len, (void *)(uintptr_t)buf_text(&answer.body), MHD_RESPMEM_MUST_COPY);
    buf_fini(&answer.body);
    if (!response) {
        return MHD_NO; /* out of memory: the connection is closed */
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type);
    enum MHD_Result rc = MHD_queue_response(connection, (unsigned int)status, response);
    MHD_destroy_response(response);
    return rc;
}

/* ---- connections ----------------------------------------------------------------------------- */

/* Lets MHD work, then asks when it wants to be woken at the latest. */
static void page_pump(struct agent_page *page)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    (void)MHD_run(page->mhd); /* fails only for a daemon with threads */
    double wait_s = MHD_get_timeout(page->mhd, &wait_ms) == MHD_YES ? (double)wait_ms / 1e3 : 1e9;
    if (!ev_is_active(&page->acceptable) && wait_s > PAUSE_SECONDS) {
        wait_s = PAUSE_SECONDS;
    }
    ev_timer_stop(page->loop, &page->wake);
    if (wait_s < 1e9) {
        ev_timer_set(&page->wake, wait_s + 0.001, 0.);
        ev_timer_start(page->loop, &page->wake);
    }
}

/* False if there is nobody, or no place for anybody, now. Without a free descriptor the kernel says
 * so even if nobody waits, and the listener stays readable if somebody does. */
static bool accept_one(struct agent_page *page)
{
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof(from);
    const union MHD_DaemonInfo *now =
        MHD_get_daemon_info(page->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    if (now->num_connections >= page->places) {
        ev_io_stop(page->loop, &page->acceptable); /* for a while */
        return false;
    }
    int fd = accept4(page->listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) { /* MHD closes it where it fails, too: out of memory */
        (void)MHD_add_connection(page->mhd, fd, (const struct sockaddr *)&from, len);
        return true;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) {
        return errno != EAGAIN; /* that client's own failure */
    }
    log_limited(&page->no_descriptor, LOG_AGAIN_NS, LOG_WARN, "http",
                "accepting a connection failed: %s; /livez may go unanswered", strerror(errno));
    ev_io_stop(page->loop, &page->acceptable);
    return false;
}

static void on_acceptable(struct ev_loop *loop, ev_io *w, int events)
{
    (void)loop;
    (void)events;
    for (int i = 0; i < ACCEPTS_AT_ONCE && accept_one(w->data); i++) {
    }
    page_pump(w->data);
}

/* Something has ended, perhaps: there may be a place again. */
static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
    struct agent_page *page = w->data;
    (void)events;
    ev_io_start(loop, &page->acceptable);
    page_pump(page);
}

static void on_wake(struct ev_loop *loop, ev_timer *w, int events)
{
    struct agent_page *page = w->data;
    (void)events;
    ev_io_start(loop, &page->acceptable);
    page_pump(page);
}

/* ---- the address ----------------------------------------------------------------------------- */

static int listen_on(const struct addrinfo *info)
{
    CLEANUP(fd) int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    int off = 0;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        (info->ai_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        return -1;
    }
    int taken = fd;
    fd = -1;
    return taken;
}

/* Returns 0, or what getaddrinfo says; `*out_fd` is -1 and errno set where it cannot be bound. */
static int listen_at(const char *host, uint16_t port, int *out_fd)
{
    char service[8];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    text_format(service, sizeof(service), "%u", (unsigned)port);
    int gai = getaddrinfo(host, service, &hints, &found);
    if (gai != 0) {
        return gai;
    }
    *out_fd = listen_on(found);
    int why = errno;
    freeaddrinfo(found);
    errno = why;
    return 0;
}

static int open_listener(const char *address, int *out_fd, struct err *e)
{
    struct text_address where;
    int fd = -1;
    int rc = text_to_address(address, &where, e);
    if (rc != 0) {
        return rc;
    }
    bool all = where.host[0] == '\0'; /* IPv4 and IPv6 */
    int gai = listen_at(all ? "::" : where.host, where.port, &fd);
    if (all && fd < 0 && (gai != 0 || errno != EADDRINUSE)) {
        gai = listen_at("0.0.0.0", where.port, &fd); /* a machine without IPv6 */
    }
    if (gai != 0) {
        return err_set(e, ERR_PARSE, "'%s' is not an address to listen on: %s", address,
                       gai_strerror(gai));
    }
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "listening on '%s'", address);
    }
    *out_fd = fd;
    return 0;
}

static unsigned int port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound = {.v6 = {.sin6_family = AF_UNSPEC}};
    socklen_t len = sizeof(bound);
    (void)getsockname(fd, &bound.any, &len); /* cannot fail for a socket of ours */
    return ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
}

/* Most of the descriptors that this process may have are for its work. */
static unsigned int count_places(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 >= AGENT_PAGE_MAX_CONNECTIONS) {
        return AGENT_PAGE_MAX_CONNECTIONS;
    }
    return limit.rlim_cur < 8 ? 1 : (unsigned int)limit.rlim_cur / 4;
}

static int page_listen(struct agent_page *page, struct err *e)
{
    int rc = open_listener(page->address, &page->listener, e);
    if (rc != 0) {
        return rc;
    }
    page->places = count_places();
    page->mhd =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, on_request, page,
                         MHD_OPTION_CONNECTION_LIMIT, page->places, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned int)AGENT_PAGE_IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)MEMORY_BYTES, MHD_OPTION_END);
    if (!page->mhd) {
        (void)close(page->listener); /* nothing was accepted */
        return err_set(e, ERR_IO, "starting the HTTP server on '%s' failed", page->address);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(page->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    assert(info);
    ev_io_set(&page->acceptable, page->listener, EV_READ);
    ev_io_set(&page->readable, info->epoll_fd, EV_READ);
    ev_io_start(page->loop, &page->acceptable);
    ev_io_start(page->loop, &page->readable);
    return 0;
}

/* Returns an error only if trying again cannot help. */
static int try_to_serve(struct agent_page *page, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = page_listen(page, &why);
    if (rc == ERR_IO) {
        log_limited(&page->no_address, LOG_AGAIN_NS, LOG_WARN, "http",
                    "%s: no /metrics and /livez until then, will retry each second; see "
                    "--http-bind-address",
                    why.msg);
        ev_timer_again(page->loop, &page->retry);
        return 0;
    }
    if (rc != 0) {
        return err_set(e, rc, "--http-bind-address: %s", why.msg);
    }
    ev_timer_stop(page->loop, &page->retry);
    log_info("http", "serving /metrics, /livez, /readyz and /statusz on '%s', port %u",
             page->address, port_of(page->listener));
    return 0;
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    (void)try_to_serve(timer->data, NULL); /* the address is one: it was tried before */
}

int agent_page_start(struct ev_loop *loop, const struct agent_page_config *config,
                     struct agent_page **out, struct err *e)
{
    *out = NULL;
    if (text_is_empty(config->address)) {
        return 0;
    }
    struct agent_page *page = MEM_NEW(struct agent_page);
    page->loop = loop;
    page->config = *config;
    ev_init(&page->acceptable, on_acceptable);
    ev_init(&page->readable, on_readable);
    ev_init(&page->wake, on_wake);
    ev_timer_init(&page->retry, on_retry, 0., RETRY_SECONDS);
    page->acceptable.data = page;
    page->readable.data = page;
    page->wake.data = page;
    page->retry.data = page;
    int rc = text_copy(page->address, sizeof(page->address), config->address)
                 ? try_to_serve(page, e)
                 : err_set(e, ERR_PARSE, "--http-bind-address: longer than %d bytes",
                           (int)ADDRESS_BYTES - 1);
    if (rc != 0) {
        free(page);
        return rc;
    }
    *out = page;
    return 0;
}

void agent_page_stop(struct agent_page *page)
{
    if (!page) {
        return;
    }
    ev_timer_stop(page->loop, &page->retry);
    if (page->mhd) {
        ev_io_stop(page->loop, &page->acceptable);
        ev_io_stop(page->loop, &page->readable);
        ev_timer_stop(page->loop, &page->wake);
        MHD_stop_daemon(page->mhd);
        (void)close(page->listener); /* nothing was accepted that MHD does not have */
    }
    free(page);
}
