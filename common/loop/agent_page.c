/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd driven by our loop, no threads. GET and HEAD only; a body is not read. */
#include "loop/agent_page.h"

#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <ev.h>
#include <microhttpd.h>

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define RETRY_SECONDS 1.
#define PAUSE_SECONDS .1

enum {
    ADDRESS_BYTES = 256,
    MEMORY_BYTES = 16384, /* of one connection: a request's headers with a large token */
    /* A client that finds no room here is dropped, and asks again after a second: too late for a
     * probe. The kernel makes it less where net.core.somaxconn is. */
    BACKLOG = 4096,
};

struct agent_page {
    struct ev_loop *loop;
    struct agent_page_config config;
    struct MHD_Daemon *mhd; /* NULL while the address cannot be had */
    ev_io readable;         /* MHD's own epoll descriptor */
    ev_timer wake;          /* for MHD's idle connections, and after a pause */
    ev_timer retry;         /* until the address can be had */
    struct log_repeat no_address;
};

/* ---- what is answered ------------------------------------------------------------------------ */

struct answer {
    unsigned int status;
    const char *content_type;
    char *body; /* owned; NULL: the status is all */
};

bool agent_page_answer(char words[static AGENT_PAGE_WORDS_BYTES], bool yes, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    text_vformat(words, AGENT_PAGE_WORDS_BYTES, fmt, args);
    va_end(args);
    return yes;
}

static void serve_metrics(const struct agent_page *page, struct answer *out)
{
    struct buf metrics = {.max_bytes = METRICS_PAGE_MAX_BYTES};
    page->config.write_metrics(page->config.user, &metrics);
    metrics_common(&metrics);
    out->content_type = "text/plain; version=0.0.4; charset=utf-8";
    out->body = metrics.data;
}

static void serve_question(const struct agent_page *page, agent_page_ask_fn *ask,
                           struct answer *out)
{
    char words[AGENT_PAGE_WORDS_BYTES] = "";
    bool yes = ask(page->config.user, words);
    out->status = yes ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    out->body = mem_format("%s%s%s\n", yes ? "ok" : "failed", words[0] ? ": " : "", words);
}

static void serve_status(const struct agent_page *page, struct answer *out)
{
    CLEANUP(json) json_t *status = page->config.describe(page->config.user);
    CLEANUP(free) char *text = status ? json_text_dump(status) : NULL;
    if (!text) {
        out->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
        return;
    }
    out->content_type = "application/json";
    out->body = mem_format("%s\n", text);
}

static void serve_index(const struct agent_page *page, const char *path, struct answer *out)
{
    out->status = text_equal(path, "/") ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND;
    out->body = mem_format("/metrics  for Prometheus\n"
                           "/livez    whether this agent works\n/readyz   whether it does its "
                           "task\n/statusz  its state, as JSON\n%s",
                           page->config.is_serving ? "/servingz whether the probes pass\n" : "");
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

static void serve_path(const struct agent_page *page, const char *path, struct answer *out)
{
    const struct agent_page_config *c = &page->config;
    if (text_equal(path, "/metrics")) {
        serve_metrics(page, out);
    } else if (text_equal(path, "/statusz")) {
        serve_status(page, out);
    } else if (asks(page, path, "/livez")) {
        serve_question(page, c->is_live, out);
    } else if (asks(page, path, "/readyz")) {
        serve_question(page, c->is_ready, out);
    } else if (text_equal(path, "/servingz") && c->is_serving) {
        serve_question(page, c->is_serving, out);
    } else {
        serve_index(page, path, out);
    }
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
    struct answer answer = {.status = MHD_HTTP_METHOD_NOT_ALLOWED,
                            .content_type = "text/plain; charset=utf-8"};
    if (*request == NULL) {
        *request = (void *)(uintptr_t)&seen;
        if (!has_body(connection)) {
            return MHD_YES;
        } /* an answer as early as this one ends the connection: an endless body is not read */
    }
    if (text_equal(method, "GET") || text_equal(method, "HEAD")) {
        answer.status = MHD_HTTP_OK;
        serve_path(user, url, &answer);
    }
    if (!answer.body) {
        answer.body = mem_format("%u\n", answer.status);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(answer.body), answer.body, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(answer.body);
        return MHD_NO; /* out of memory: the connection is closed */
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type);
    enum MHD_Result rc = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return rc;
}

/* ---- connections ----------------------------------------------------------------------------- */

static unsigned int count_connections(const struct agent_page *page)
{
    return MHD_get_daemon_info(page->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections;
}

/* Lets MHD work, then asks when it wants to be woken at the latest. */
static void page_pump(struct agent_page *page)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    unsigned int had = count_connections(page);
    bool was_idle = had == 0;
    (void)MHD_run(page->mhd); /* fails only for a daemon with threads */
    if (count_connections(page) < had) {
        (void)MHD_run(page->mhd); /* which accepts again where all places were taken */
    }
    bool has_limit = MHD_get_timeout(page->mhd, &wait_ms) == MHD_YES;
    double wait_s = (double)wait_ms / 1e3 + 0.001;
    if (was_idle && count_connections(page) == 0) {
        /* The first client waits, and no descriptor is left: MHD would try at once, for ever. */
        ev_io_stop(page->loop, &page->readable);
        wait_s = PAUSE_SECONDS;
        has_limit = true;
    }
    ev_timer_stop(page->loop, &page->wake);
    if (has_limit) {
        ev_timer_set(&page->wake, wait_s, 0.);
        ev_timer_start(page->loop, &page->wake);
    }
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
    page_pump(w->data);
}

static void on_wake(struct ev_loop *loop, ev_timer *w, int events)
{
    struct agent_page *page = w->data;
    if (ev_is_active(&page->readable)) {
        page_pump(page);
    }
    ev_io_start(loop, &page->readable);
}

/* ---- the address ----------------------------------------------------------------------------- */

/* Most of the descriptors that this process may have are for its work. */
static unsigned int count_places(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 >= AGENT_PAGE_MAX_CONNECTIONS) {
        return AGENT_PAGE_MAX_CONNECTIONS;
    }
    return limit.rlim_cur < 8 ? 1 : (unsigned int)limit.rlim_cur / 4;
}

/* HOST:PORT, [IPV6]:PORT or :PORT. An IPv6 address needs its brackets: without them nobody knows
 * where the port begins. */
static int split_address(const char *text, char host[static ADDRESS_BYTES], const char **out_port,
                         struct err *e)
{
    const char *colon = strrchr(text, ':');
    bool has_brackets = text[0] == '[' && colon > text && colon[-1] == ']';
    int len = colon ? (int)(colon - text) - 2 * has_brackets : 0;
    uint64_t port;
    text_format(host, ADDRESS_BYTES, "%.*s", len, text + has_brackets);
    if (!colon || len >= ADDRESS_BYTES || strpbrk(host, "[]") ||
        (strchr(host, ':') != NULL) != has_brackets || strlen(colon + 1) > 5 ||
        text_to_u64(colon + 1, strlen(colon + 1), &port, NULL) != 0 || port > UINT16_MAX) {
        return err_set(e, ERR_PARSE,
                       "'%.200s' is not an address (expected HOST:PORT, like 127.0.0.1:9412 or "
                       "[::1]:9412)",
                       text);
    }
    *out_port = colon + 1;
    return 0;
}

/* Returns 0, or what getaddrinfo says; leaves page->mhd NULL and errno set where it cannot be
 * bound.
 */
static int listen_at(struct agent_page *page, const char *host, const char *port)
{
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    int gai = getaddrinfo(host, port, &hints, &found);
    if (gai != 0) {
        return gai;
    }
    unsigned int family = found->ai_family == AF_INET6 ? MHD_USE_DUAL_STACK : 0;
    page->mhd =
        MHD_start_daemon(MHD_USE_EPOLL | family, 0, NULL, NULL, on_request, page,
                         MHD_OPTION_SOCK_ADDR, found->ai_addr, MHD_OPTION_LISTEN_BACKLOG_SIZE,
                         (unsigned int)BACKLOG, MHD_OPTION_CONNECTION_LIMIT, count_places(),
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)AGENT_PAGE_IDLE_SECONDS,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_END);
    int why = errno;
    freeaddrinfo(found);
    errno = why;
    return 0;
}

static int page_listen(struct agent_page *page, struct err *e)
{
    char host[ADDRESS_BYTES];
    const char *port = NULL;
    int rc = split_address(page->config.address, host, &port, e);
    if (rc != 0) {
        return rc;
    }
    bool all = host[0] == '\0'; /* IPv4 and IPv6 */
    int gai = listen_at(page, all ? "::" : host, port);
    if (all && !page->mhd && (gai != 0 || errno != EADDRINUSE)) {
        gai = listen_at(page, "0.0.0.0", port); /* a machine without IPv6 */
    }
    if (gai != 0) {
        return err_set(e, ERR_PARSE, "'%s' is not an address to listen on: %s",
                       page->config.address, gai_strerror(gai));
    }
    if (!page->mhd) {
        return err_set_errno(e, ERR_IO, errno, "listening on '%s'", page->config.address);
    }
    ev_io_set(&page->readable, MHD_get_daemon_info(page->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
              EV_READ);
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
                    "%s: no /metrics and /livez until then, will retry every second; see "
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
             page->config.address, MHD_get_daemon_info(page->mhd, MHD_DAEMON_INFO_BIND_PORT)->port);
    return 0;
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
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
    ev_init(&page->readable, on_readable);
    ev_init(&page->wake, on_wake);
    ev_timer_init(&page->retry, on_retry, 0., RETRY_SECONDS);
    page->readable.data = page;
    page->wake.data = page;
    page->retry.data = page;
    int rc = try_to_serve(page, e);
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
        ev_io_stop(page->loop, &page->readable);
        ev_timer_stop(page->loop, &page->wake);
        MHD_stop_daemon(page->mhd);
    }
    free(page);
}
