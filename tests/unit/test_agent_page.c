/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/agent_page.h"

#include "base/log.h"
#include "base/text.h"
#include "tests/support/case.h"

#include <ev.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { ANSWER_BYTES = 4096, ADDRESS_BYTES = 32 };

/* An agent that says what the test wants; zeroed, all is well. */
struct agent {
    bool is_stuck;
    bool is_early;
    bool is_broken;
    const char *words;
};

static bool is_live(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct agent *agent = user;
    return agent_page_answer(words, !agent->is_stuck, "%s", agent->words ? agent->words : "");
}

static bool is_ready(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct agent *agent = user;
    return agent_page_answer(words, !agent->is_early, "%s", agent->words ? agent->words : "");
}

static void write_metrics(void *user, struct buf *page)
{
    metrics_sample(page, "x", 1, "%s", "");
}

static json_t *describe(const void *user)
{
    const struct agent *agent = user;
    return agent->is_broken ? NULL : json_pack("{s:i}", "x", 1);
}

struct world {
    struct ev_loop *loop;
    struct agent agent;
    struct agent_page *page;
    uint16_t port;
};

/* Stands for all at once, also where a page stood. */
static int start_at(struct world *w, const char *address, struct err *e)
{
    const struct agent_page_config config = {.address = address,
                                             .program = "dpu-x",
                                             .is_live = is_live,
                                             .is_ready = is_ready,
                                             .write_metrics = write_metrics,
                                             .describe = describe,
                                             .user = &w->agent};
    agent_page_stop(w->page);
    w->page = NULL;
    return agent_page_start(w->loop, &config, &w->page, e);
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

static int connect_to(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Sends `request`; the whole answer, until the next one: the server closes. */
static const char *talk(const struct world *w, const char *request)
{
    static char answer[ANSWER_BYTES];
    int fd = connect_to(w->port);
    size_t len = 0;
    ssize_t got;
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    while ((got = recv(fd, answer + len, sizeof(answer) - 1 - len, MSG_DONTWAIT)) > 0 ||
           (got < 0 && errno == EAGAIN)) {
        len += got > 0 ? (size_t)got : 0;
        ev_run(w->loop, EVRUN_NOWAIT);
    }
    answer[len] = '\0';
    assert_int_equal(close(fd), 0);
    return answer;
}

static const char *get(const struct world *w, const char *path)
{
    char request[128];
    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);
    return talk(w, request);
}

/* On a port that was free a moment ago, of this host or of all; the address is borrowed. */
static const char *free_address(struct world *w, const char *host)
{
    static char address[ADDRESS_BYTES];
    assert_int_equal(close(bind_loopback(0, &w->port)), 0);
    (void)snprintf(address, sizeof(address), "%s:%u", host, w->port);
    return address;
}

static void world_make(struct world *w)
{
    w->loop = ev_loop_new(0);
    assert_int_equal(start_at(w, free_address(w, "127.0.0.1"), NULL), 0);
}

static void world_remove(struct world *w)
{
    agent_page_stop(w->page);
    assert_int_equal(ev_run(w->loop, EVRUN_NOWAIT), 0); /* nothing is left in it */
    ev_loop_destroy(w->loop);
}

WORLD(world_make, world_remove)

TEST_IN(each_path_answers_by_what_the_agent_says)
{
    static const struct {
        const char *path;
        const char *status;
        const char *content;
        struct agent agent;
    } rows[] = {
        {"/livez", " 200 ", .content = "\r\n\r\nok\n"},
        {"/livez", " 503 ", "\r\n\r\nfailed: stuck\n", {.is_stuck = true, .words = "stuck"}},
        {"/readyz", " 200 ", "\r\n\r\nok: the DPU is NotReady\n", {.words = "the DPU is NotReady"}},
        {"/readyz", " 503 ", "\r\n\r\nfailed: early\n", {.is_early = true, .words = "early"}},
        {"/readyz", " 503 ", "\r\n\r\nfailed\n", {.is_early = true}},
        {"/metrics", " 200 ",
         .content = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"},
        {"/metrics", " 200 ", .content = "\nx 1\n"},
        {"/statusz", " 200 ", .content = "Content-Type: application/json\r\n"},
        {"/statusz", " 200 ", .content = "\r\n\r\n{\"x\":1}\n"},
        {"/statusz", " 500 ", "\r\n\r\n500\n", {.is_broken = true}},
        {"/", " 200 ", .content = "/readyz"},
        {"/livez/dpu-x", " 200 ", "\r\n\r\nok\n", {.is_early = true}},
        {"/livez/dpu-x", " 503 ", "\r\n\r\nfailed\n", {.is_stuck = true}},
        {"/readyz/dpu-x", " 503 ", "\r\n\r\nfailed\n", {.is_early = true}},
        {"/livez/dpu-y", " 404 ", .content = "/readyz"},
        {"/livez/", " 404 ", .content = "/readyz"},
        {"/livezdpu-x", " 404 ", .content = "/readyz"},
        {"/nothing", " 404 ", .content = "/metrics"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        w->agent = rows[i].agent;
        const char *answer = get(w, rows[i].path);
        if (!strstr(answer, rows[i].status) || !strstr(answer, rows[i].content)) {
            fail_msg("row %zu: %s", i, answer);
        }
    }
}

TEST_IN(only_whole_requests_without_a_body_are_served)
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
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *answer = talk(w, rows[i].request);
        if (!strstr(answer, rows[i].status) || !strstr(answer, rows[i].content)) {
            fail_msg("row %zu: %s", i, answer);
        }
    }
}

TEST_IN(no_host_means_all_addresses_of_both_families)
{
    assert_int_equal(start_at(w, free_address(w, ""), NULL), 0);
    const struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(w->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd6 = socket(AF_INET6, SOCK_STREAM, 0);
    assert_int_equal(connect(fd6, (const struct sockaddr *)&v6, sizeof(v6)), 0);
    assert_int_equal(close(fd6), 0);
    assert_int_equal(close(connect_to(w->port)), 0);
}

TEST_IN(an_empty_address_makes_no_page)
{
    assert_int_equal(start_at(w, NULL, NULL), 0);
    assert_null(w->page);
    assert_int_equal(start_at(w, "", NULL), 0);
    assert_null(w->page);
}

TEST_IN(an_address_that_can_never_work_names_the_option)
{
    static char too_long[400];
    static const char *const rows[] = {
        "nonsense",         "9410",          "127.0.0.1",     "127.0.0.1:", "127.0.0.1:http",
        "127.0.0.1:-1",     "::1",           "::1:9410",      "[::1]",      "[::1]9410",
        "[127.0.0.1]:80",   "[]:80",         "[[::1]]:80",    "[::1",       "127.0.0.1:65536",
        "127.0.0.1:000080", "[fe80::1]]:80", "127.0.0.1:80 ", "[::1:80",    "a]:80",
        "example.com:80",   "localhost",     "not-an-ip:80",  too_long};
    memset(too_long, '1', sizeof(too_long) - 4);
    memcpy(too_long + sizeof(too_long) - 4, ":80", 4);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        assert_int_equal(start_at(w, rows[i], &e), ERR_PARSE);
        assert_non_null(strstr(e.msg, "--http-bind-address"));
        assert_null(w->page);
    }
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    ev_break(loop, EVBREAK_ALL);
}

static void run_for(struct ev_loop *loop, double seconds)
{
    ev_timer timer;
    ev_timer_init(&timer, on_deadline, seconds, 0.);
    ev_now_update(loop);
    ev_timer_start(loop, &timer);
    ev_run(loop, 0);
}

TEST_IN(a_taken_port_is_taken_over_once_it_is_free)
{
    const char *address = free_address(w, "127.0.0.1");
    int holder = bind_loopback(w->port, &w->port);
    assert_int_equal(start_at(w, address, NULL), 0);
    assert_int_equal(start_at(w, address, NULL), 0); /* one that waits can be stopped */
    assert_non_null(w->page);
    assert_int_equal(close(holder), 0);
    run_for(w->loop, 1.5);
    assert_non_null(strstr(get(w, "/livez"), " 200 "));
}

/* No timer runs while nobody asks: an agent with a page sleeps as long as one without. */
TEST_IN(an_idle_page_wakes_nobody)
{
    (void)get(w, "/livez");
    (void)ev_run(w->loop, EVRUN_NOWAIT); /* the server notices the close */
    unsigned int before = ev_iteration(w->loop);
    run_for(w->loop, 0.5);
    assert_true(ev_iteration(w->loop) - before <= 2);
}

/* ---- many clients ---------------------------------------------------------------------------- */

static bool is_answered(int fd)
{
    char answer[512];
    return recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0;
}

static int connect_and_ask(uint16_t port)
{
    int fd = connect_to(port);
    assert_true(write(fd, "GET /livez HTTP/1.0\r\n\r\n", 23) > 0);
    return fd;
}

TEST_IN(a_hundred_silent_clients_keep_no_probe_waiting)
{
    int silent[100];
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        silent[i] = connect_to(w->port);
    }
    int probe = connect_and_ask(w->port);
    run_for(w->loop, 0.3);
    assert_true(is_answered(probe));
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        assert_int_equal(close(silent[i]), 0);
    }
    assert_int_equal(close(probe), 0);
}

TEST_IN(few_descriptors_are_left_to_the_work)
{
    int silent[16];
    struct rlimit had;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    const struct rlimit few = {4 * ARRAY_LEN(silent), had.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(start_at(w, free_address(w, "127.0.0.1"), NULL), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        silent[i] = connect_to(w->port);
    }
    int probe = connect_and_ask(w->port);
    run_for(w->loop, 0.3);
    assert_false(is_answered(probe));
    assert_int_equal(close(silent[0]), 0);
    run_for(w->loop, 0.3);
    assert_true(is_answered(probe));
    for (size_t i = 1; i < ARRAY_LEN(silent); i++) {
        assert_int_equal(close(silent[i]), 0);
    }
    assert_int_equal(close(probe), 0);
}

TEST_IN(without_descriptors_the_loop_rests)
{
    struct rlimit had;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    int probe = connect_and_ask(w->port);
    const struct rlimit none = {(rlim_t)probe + 1, had.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    unsigned int turns = ev_iteration(w->loop);
    run_for(w->loop, 0.3);
    assert_true(ev_iteration(w->loop) - turns < 50);
    assert_false(is_answered(probe));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    run_for(w->loop, 0.3);
    assert_true(is_answered(probe));
    assert_int_equal(close(probe), 0);
}
