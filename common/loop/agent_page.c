/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/agent_page.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/http_server.h"

#include <ev.h>

#include <stdlib.h>
#include <string.h>

enum { ADDRESS_BYTES = 280, OK = 200, NOT_FOUND = 404, FAILED = 500, UNAVAILABLE = 503 };

#define RETRY_SECONDS 1.

struct agent_page {
    struct ev_loop *loop;
    struct agent_page_config config;
    char address[ADDRESS_BYTES];
    struct http_server *server; /* NULL while the address cannot be had */
    ev_timer retry;
    struct log_repeat complaint;
};

static int serve_metrics(struct agent_page *page, struct http_page *out)
{
    struct metrics_page metrics;
    metrics_page_init(&metrics);
    page->config.write_metrics(page->config.user, &metrics);
    int rc = metrics.failed
                 ? ERR_LIMIT
                 : buf_append(&out->body, buf_text(&metrics.text), metrics.text.len, NULL);
    metrics_page_fini(&metrics);
    out->content_type = "text/plain; version=0.0.4; charset=utf-8";
    return rc == 0 ? OK : FAILED;
}

static int serve_answer(struct agent_page *page, agent_page_ask_fn *ask, struct http_page *out)
{
    char words[AGENT_PAGE_WORDS_BYTES] = "";
    bool yes = ask(page->config.user, words);
    int rc = buf_appendf(&out->body, NULL, "%s%s%s\n", yes ? "ok" : "failed", words[0] ? ": " : "",
                         words);
    return rc != 0 ? FAILED : yes ? OK : UNAVAILABLE;
}

static int serve_status(struct agent_page *page, struct http_page *out)
{
    out->content_type = "application/json";
    return page->config.write_status(page->config.user, &out->body) == 0 ? OK : FAILED;
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

static int serve(void *user, const char *path, struct http_page *out)
{
    static const char serving[] = "/servingz do the services work that it asks?\n";
    static const char index[] = "/metrics  for Prometheus\n"
                                "/livez    does this agent work?\n"
                                "/readyz   has it done its first work?\n"
                                "/statusz  what it knows, as JSON\n";
    struct agent_page *page = user;
    if (text_equal(path, "/metrics")) {
        return serve_metrics(page, out);
    }
    if (asks(page, path, "/livez")) {
        return serve_answer(page, page->config.is_live, out);
    }
    if (asks(page, path, "/readyz")) {
        return serve_answer(page, page->config.is_ready, out);
    }
    if (text_equal(path, "/servingz") && page->config.is_serving) {
        return serve_answer(page, page->config.is_serving, out);
    }
    if (text_equal(path, "/statusz")) {
        return serve_status(page, out);
    }
    int rc = buf_appendf(&out->body, NULL, "%s%s", index, page->config.is_serving ? serving : "");
    return rc != 0 ? FAILED : text_equal(path, "/") ? OK : NOT_FOUND;
}

/* Returns an error only if trying again cannot help. */
static int try_to_serve(struct agent_page *page, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = http_server_start(page->loop, page->address, serve, page, &page->server, &why);
    if (rc == ERR_IO) {
        if (log_repeat_due(&page->complaint, clock_mono_now(), LOG_AGAIN_NS)) {
            log_warn("http",
                     "%s: no /metrics and /livez until then, will retry each second; see "
                     "--http-bind-address%s",
                     why.msg, page->complaint.more);
        }
        ev_timer_again(page->loop, &page->retry);
        return 0;
    }
    if (rc != 0) {
        return err_set(e, rc, "--http-bind-address: %s", why.msg);
    }
    ev_timer_stop(page->loop, &page->retry);
    log_info("http", "serving /metrics, /livez, /readyz and /statusz on '%s', port %u",
             page->address, (unsigned)http_server_port(page->server));
    return 0;
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    struct err e = ERR_INIT;
    if (try_to_serve(timer->data, &e) != 0) { /* out of memory: the next second may have more */
        log_debug("http", "%s", e.msg);
    }
}

int agent_page_start(struct ev_loop *loop, const struct agent_page_config *config,
                     struct agent_page **out, struct err *e)
{
    *out = NULL;
    if (text_is_empty(config->address)) {
        return 0;
    }
    CLEANUP(free) struct agent_page *page = calloc(1, sizeof(*page));
    if (!page) {
        return err_no_memory(e);
    }
    page->loop = loop;
    page->config = *config;
    if (!text_copy(page->address, sizeof(page->address), config->address)) {
        return err_set(e, ERR_PARSE, "--http-bind-address: the address is longer than %d bytes",
                       (int)ADDRESS_BYTES - 1);
    }
    ev_timer_init(&page->retry, on_retry, 0., RETRY_SECONDS);
    page->retry.data = page;
    int rc = try_to_serve(page, e);
    if (rc != 0) {
        return rc;
    }
    *out = TAKE(page);
    return 0;
}

void agent_page_stop(struct agent_page *page)
{
    if (page) {
        ev_timer_stop(page->loop, &page->retry);
        http_server_stop(page->server);
        free(page);
    }
}
