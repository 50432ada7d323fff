/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/agent_page.h"

#include "base/log.h"
#include "base/text.h"
#include "tests/support/case.h"

#include <ev.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_BYTES = 4096, ADDRESS_BYTES = 32 };

/* An agent that says what the test wants. */
struct agent {
    bool is_live;
    bool is_ready;
    const char *words;
    bool is_broken;
};

static bool is_live(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct agent *agent = user;
    (void)text_copy(words, AGENT_PAGE_WORDS_BYTES, agent->words);
    return agent->is_live;
}

static bool is_ready(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct agent *agent = user;
    (void)text_copy(words, AGENT_PAGE_WORDS_BYTES, agent->words);
    return agent->is_ready;
}

static void write_metrics(void *user, struct metrics_page *page)
{
    const struct agent *agent = user;
    page->failed = agent->is_broken;
    metrics_sample_u64(page, "x", NULL, 1);
}

static json_t *describe(const void *user)
{
    const struct agent *agent = user;
    return agent->is_broken ? NULL : json_pack("{s:i}", "x", 1);
}

static struct agent_page_config config_for(struct agent *agent, const char *address)
{
    return (struct agent_page_config){.address = address,
                                      .program = "dpu-x",
                                      .is_live = is_live,
                                      .is_ready = is_ready,
                                      .write_metrics = write_metrics,
                                      .describe = describe,
                                      .user = agent};
}

static int bind_loopback(uint16_t port, uint16_t *out_port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *out_port = ntohs(at.sin_port);
    return fd;
}

struct exchange {
    ev_io readable;
    char answer[ANSWER_BYTES];
    size_t len;
};

static void on_answer(struct ev_loop *loop, ev_io *w, int events)
{
    struct exchange *x = w->data;
    (void)events;
    ssize_t got = read(w->fd, x->answer + x->len, sizeof(x->answer) - 1 - x->len);
    if (got <= 0) {
        ev_break(loop, EVBREAK_ALL);
        return;
    }
    x->len += (size_t)got;
    x->answer[x->len] = '\0';
}

static int connect_to(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Sends `request` and takes the whole answer; the server closes. */
static void talk(struct ev_loop *loop, uint16_t port, const char *request, struct exchange *x)
{
    int fd = connect_to(port);
    *x = (struct exchange){.len = 0};
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    ev_io_init(&x->readable, on_answer, fd, EV_READ);
    x->readable.data = x;
    ev_io_start(loop, &x->readable);
    ev_run(loop, 0);
    ev_io_stop(loop, &x->readable);
    assert_int_equal(close(fd), 0);
}

static void get(struct ev_loop *loop, uint16_t port, const char *path, struct exchange *x)
{
    char request[128];
    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);
    talk(loop, port, request, x);
}

/* A page on a port that was free a moment ago. */
static struct agent_page *start_page(struct ev_loop *loop, struct agent *agent, uint16_t *out_port)
{
    char address[ADDRESS_BYTES];
    struct agent_page *page = NULL;
    struct err e = ERR_INIT;
    assert_int_equal(close(bind_loopback(0, out_port)), 0);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", *out_port);
    const struct agent_page_config config = config_for(agent, address);
    assert_int_equal(agent_page_start(loop, &config, &page, &e), 0);
    assert_non_null(page);
    return page;
}

TEST(each_path_answers_by_what_the_agent_says)
{
    static const struct {
        struct agent agent;
        const char *path;
        const char *status;
        const char *content;
    } rows[] = {
        {{true, true, "", false}, "/livez", " 200 ", "\r\n\r\nok\n"},
        {{false, true, "it is stuck", false}, "/livez", " 503 ", "\r\n\r\nfailed: it is stuck\n"},
        {{true, true, "the DPU is NotReady", false},
         "/readyz",
         " 200 ",
         "\r\n\r\nok: the DPU is NotReady\n"},
        {{true, false, "not yet", false}, "/readyz", " 503 ", "\r\n\r\nfailed: not yet\n"},
        {{true, false, "", false}, "/readyz", " 503 ", "\r\n\r\nfailed\n"},
        {{true, true, "", false},
         "/metrics",
         " 200 ",
         "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"},
        {{true, true, "", false}, "/metrics", " 200 ", "\nx 1\n"},
        {{true, true, "", true}, "/metrics", " 500 ", "\r\n\r\n500\n"},
        {{true, true, "", false}, "/statusz", " 200 ", "Content-Type: application/json\r\n"},
        {{true, true, "", false}, "/statusz", " 200 ", "\r\n\r\n{\"x\":1}\n"},
        {{true, true, "", true}, "/statusz", " 500 ", "\r\n\r\n500\n"},
        {{true, true, "", false}, "/", " 200 ", "/readyz"},
        {{true, true, "", false}, "/livez/dpu-x", " 200 ", "\r\n\r\nok\n"},
        {{false, true, "", false}, "/livez/dpu-x", " 503 ", "\r\n\r\nfailed\n"},
        {{true, false, "", false}, "/readyz/dpu-x", " 503 ", "\r\n\r\nfailed\n"},
        {{true, true, "", false}, "/livez/dpu-y", " 404 ", "/readyz"},
        {{true, true, "", false}, "/livez/", " 404 ", "/readyz"},
        {{true, true, "", false}, "/livezdpu-x", " 404 ", "/readyz"},
        {{true, true, "", false}, "/nothing", " 404 ", "/metrics"},
    };
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.words = ""};
    uint16_t port;
    struct agent_page *page = start_page(loop, &agent, &port);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct exchange x;
        agent = rows[i].agent;
        get(loop, port, rows[i].path, &x);
        if (!strstr(x.answer, rows[i].status) || !strstr(x.answer, rows[i].content)) {
            fail_msg("row %zu: %s", i, x.answer);
        }
    }
    agent_page_stop(page);
    ev_loop_destroy(loop);
}

TEST(only_whole_requests_without_a_body_are_served)
{
    static const struct {
        const char *request;
        const char *status;
        const char *content;
    } rows[] = {
        {"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200", "ok"},
        {"GET /livez?verbose HTTP/1.0\r\n\r\n", " 200 ", "text/plain"},
        {"HEAD /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200",
         "Content-Length: 3"},
        {"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 404",
         "/metrics"},
        {"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab",
         "HTTP/1.1 405", "405"},
        /* A body that never comes is not waited for, and one that never ends is not read. */
        {"POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde",
         "HTTP/1.1 405", "405"},
        {"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200", "ok"},
        {"\x16\x03\x01 not http at all\r\n\r\n", "400", ""},
    };
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.is_live = true, .words = ""};
    uint16_t port;
    struct agent_page *page = start_page(loop, &agent, &port);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct exchange x;
        talk(loop, port, rows[i].request, &x);
        if (!strstr(x.answer, rows[i].status) || !strstr(x.answer, rows[i].content)) {
            fail_msg("row %zu: %s", i, x.answer);
        }
    }
    agent_page_stop(page);
    ev_loop_destroy(loop);
}

TEST(no_host_means_all_addresses_of_both_families)
{
    char address[ADDRESS_BYTES];
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.words = ""};
    struct agent_page *page = NULL;
    uint16_t port;
    assert_int_equal(close(bind_loopback(0, &port)), 0);
    (void)snprintf(address, sizeof(address), ":%u", port);
    const struct agent_page_config config = config_for(&agent, address);
    assert_int_equal(agent_page_start(loop, &config, &page, NULL), 0);
    const struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd6 = socket(AF_INET6, SOCK_STREAM, 0);
    assert_int_equal(connect(fd6, (const struct sockaddr *)&v6, sizeof(v6)), 0);
    assert_int_equal(close(fd6), 0);
    assert_int_equal(close(connect_to(port)), 0);
    agent_page_stop(page);
    ev_loop_destroy(loop);
}

TEST(an_empty_address_makes_no_page)
{
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.words = ""};
    static const char *const rows[] = {NULL, ""};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct agent_page_config config = config_for(&agent, rows[i]);
        struct agent_page *page = (struct agent_page *)&agent;
        struct err e = ERR_INIT;
        assert_int_equal(agent_page_start(loop, &config, &page, &e), 0);
        assert_null(page);
        agent_page_stop(page);
    }
    ev_loop_destroy(loop);
}

TEST(an_address_that_can_never_work_names_the_option)
{
    char too_long[400];
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.words = ""};
    const char *const rows[] = {"nonsense",   "example.com:80", "127.0.0.1:65536", "localhost",
                                "127.0.0.1:", "127.0.0.1:http", "not-an-ip:80",    too_long};
    memset(too_long, '1', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct agent_page_config config = config_for(&agent, rows[i]);
        struct agent_page *page = NULL;
        struct err e = ERR_INIT;
        assert_int_equal(agent_page_start(loop, &config, &page, &e), ERR_PARSE);
        assert_non_null(strstr(e.msg, "--http-bind-address"));
        assert_null(page);
    }
    ev_loop_destroy(loop);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)timer;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

TEST(a_taken_port_is_taken_over_once_it_is_free)
{
    char address[ADDRESS_BYTES];
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.is_live = true, .words = ""};
    struct agent_page *page = NULL;
    struct err e = ERR_INIT;
    struct exchange x;
    ev_timer deadline;
    uint16_t port;
    int holder = bind_loopback(0, &port);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    const struct agent_page_config config = config_for(&agent, address);
    assert_int_equal(agent_page_start(loop, &config, &page, &e), 0);
    assert_non_null(page); /* it waits */
    assert_int_equal(close(holder), 0);
    ev_timer_init(&deadline, on_deadline, 1.5, 0.);
    ev_timer_start(loop, &deadline);
    ev_run(loop, 0);
    get(loop, port, "/livez", &x);
    assert_non_null(strstr(x.answer, " 200 "));
    agent_page_stop(page);
    ev_loop_destroy(loop);
}

TEST(a_page_that_waits_for_its_port_can_be_stopped)
{
    char address[ADDRESS_BYTES];
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.words = ""};
    struct agent_page *page = NULL;
    struct err e = ERR_INIT;
    uint16_t port;
    int holder = bind_loopback(0, &port);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    const struct agent_page_config config = config_for(&agent, address);
    assert_int_equal(agent_page_start(loop, &config, &page, &e), 0);
    agent_page_stop(page);
    assert_int_equal(ev_run(loop, EVRUN_NOWAIT), 0); /* nothing is left in the loop */
    assert_int_equal(close(holder), 0);
    ev_loop_destroy(loop);
}

/* No timer runs while nobody asks: an agent with a page sleeps as long as one without. */
TEST(an_idle_page_wakes_nobody)
{
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.is_live = true, .words = ""};
    ev_timer deadline;
    struct exchange x;
    uint16_t port;
    struct agent_page *page = start_page(loop, &agent, &port);
    get(loop, port, "/livez", &x);
    (void)ev_run(loop, EVRUN_NOWAIT); /* the server notices the close */
    unsigned int before = ev_iteration(loop);
    ev_timer_init(&deadline, on_deadline, 0.5, 0.);
    ev_timer_start(loop, &deadline);
    ev_run(loop, 0);
    assert_true(ev_iteration(loop) - before <= 2);
    agent_page_stop(page);
    ev_loop_destroy(loop);
}

/* ---- many clients ---------------------------------------------------------------------------- */

static void run_for(struct ev_loop *loop, double seconds)
{
    ev_timer timer;
    ev_timer_init(&timer, on_deadline, seconds, 0.);
    ev_now_update(loop);
    ev_timer_start(loop, &timer);
    ev_run(loop, 0);
}

static bool is_answered(int fd)
{
    char answer[512];
    return recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0;
}

TEST(a_hundred_silent_clients_keep_no_probe_waiting)
{
    int silent[100];
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.is_live = true, .words = ""};
    uint16_t port;
    struct agent_page *page = start_page(loop, &agent, &port);
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        silent[i] = connect_to(port);
    }
    int probe = connect_to(port);
    assert_true(write(probe, "GET /livez HTTP/1.0\r\n\r\n", 23) > 0);
    run_for(loop, 0.3);
    assert_true(is_answered(probe));
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        assert_int_equal(close(silent[i]), 0);
    }
    assert_int_equal(close(probe), 0);
    agent_page_stop(page);
    ev_loop_destroy(loop);
}

TEST(few_descriptors_are_left_to_the_work)
{
    int silent[16];
    struct rlimit had;
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.is_live = true, .words = ""};
    uint16_t port;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    const struct rlimit few = {4 * ARRAY_LEN(silent), had.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct agent_page *page = start_page(loop, &agent, &port);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        silent[i] = connect_to(port);
    }
    int probe = connect_to(port);
    assert_true(write(probe, "GET /livez HTTP/1.0\r\n\r\n", 23) > 0);
    run_for(loop, 0.3);
    assert_false(is_answered(probe));
    assert_int_equal(close(silent[7]), 0);
    run_for(loop, 0.3);
    assert_true(is_answered(probe));
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        if (i != 7) {
            assert_int_equal(close(silent[i]), 0);
        }
    }
    assert_int_equal(close(probe), 0);
    agent_page_stop(page);
    ev_loop_destroy(loop);
}

TEST(without_descriptors_the_loop_rests)
{
    struct rlimit had;
    struct ev_loop *loop = ev_loop_new(0);
    struct agent agent = {.is_live = true, .words = ""};
    uint16_t port;
    struct agent_page *page = start_page(loop, &agent, &port);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    int probe = connect_to(port);
    assert_true(write(probe, "GET /livez HTTP/1.0\r\n\r\n", 23) > 0);
    const struct rlimit none = {(rlim_t)probe + 1, had.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    unsigned int turns = ev_iteration(loop);
    run_for(loop, 0.3);
    assert_true(ev_iteration(loop) - turns < 50);
    assert_false(is_answered(probe));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    run_for(loop, 0.3);
    assert_true(is_answered(probe));
    assert_int_equal(close(probe), 0);
    agent_page_stop(page);
    ev_loop_destroy(loop);
}
