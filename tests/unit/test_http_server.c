/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/http_server.h"

#include "base/clock.h"
#include "base/text.h"

#include <ev.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int handle(void *user, const char *path, struct http_page *page)
{
    (void)user;
    if (!text_equal(path, "/livez")) {
        return 404;
    }
    page->content_type = "text/x-test";
    assert_int_equal(buf_append_text(&page->body, "alive", NULL), 0);
    return 200;
}

struct exchange {
    struct ev_loop *loop;
    ev_io readable;
    char answer[2048];
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

/* Sends `request` to the server and returns its whole answer; the server closes. */
static void talk(struct ev_loop *loop, uint16_t port, const char *request, struct exchange *x)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *x = (struct exchange){.loop = loop};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    ev_io_init(&x->readable, on_answer, fd, EV_READ);
    x->readable.data = x;
    ev_io_start(loop, &x->readable);
    ev_run(loop, 0);
    ev_io_stop(loop, &x->readable);
    assert_int_equal(close(fd), 0);
}

static void pages_are_served_by_the_loop(void **state)
{
    static const struct {
        const char *request;
        const char *status;
        const char *content;
    } rows[] = {
        {"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200", "alive"},
        {"GET /livez?verbose HTTP/1.0\r\n\r\n", " 200 ", "text/x-test"},
        {"HEAD /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200",
         "Content-Length: 5"},
        {"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 404", "404"},
        {"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab",
         "HTTP/1.1 405", "405"},
        /* A body that never comes is not waited for, and one that never ends is not read. */
        {"POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde",
         "HTTP/1.1 405", "405"},
        {"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200", "alive"},
        {"\x16\x03\x01 not http at all\r\n\r\n", "400", ""},
    };
    struct err e = ERR_INIT;
    struct http_server *server = NULL;
    struct ev_loop *loop = ev_loop_new(0);
    (void)state;
    assert_int_equal(http_server_start(loop, "127.0.0.1:0", handle, NULL, &server, &e), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct exchange x;
        talk(loop, http_server_port(server), rows[i].request, &x);
        assert_non_null(strstr(x.answer, rows[i].status));
        assert_non_null(strstr(x.answer, rows[i].content));
    }
    http_server_stop(server);
    http_server_stop(NULL);
    ev_loop_destroy(loop);
}

static void address_that_cannot_be_used_is_an_error_that_names_it(void **state)
{
    static const char *const bad[] = {"",
                                      "localhost",
                                      "127.0.0.1:",
                                      "127.0.0.1:http",
                                      "127.0.0.1:65536",
                                      "not-an-ip:80",
                                      "192.0.2.1:80"};
    struct ev_loop *loop = ev_loop_new(0);
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        struct http_server *server = NULL;
        assert_int_not_equal(http_server_start(loop, bad[i], handle, NULL, &server, &e), 0);
        assert_null(server);
        assert_non_null(strstr(e.msg, bad[i]));
    }
    ev_loop_destroy(loop);
}

static void second_server_on_the_same_port_is_refused(void **state)
{
    struct err e = ERR_INIT;
    struct http_server *first = NULL;
    struct http_server *second = NULL;
    char address[32];
    struct ev_loop *loop = ev_loop_new(0);
    (void)state;
    assert_int_equal(http_server_start(loop, "[::1]:0", handle, NULL, &first, &e), 0);
    (void)snprintf(address, sizeof(address), "[::1]:%u", http_server_port(first));
    assert_int_equal(http_server_start(loop, address, handle, NULL, &second, &e), ERR_IO);
    assert_non_null(strstr(e.msg, address));
    http_server_stop(first);
    ev_loop_destroy(loop);
}

static void no_host_means_all_addresses_of_both_families(void **state)
{
    struct err e = ERR_INIT;
    struct http_server *server = NULL;
    struct ev_loop *loop = ev_loop_new(0);
    (void)state;
    assert_int_equal(http_server_start(loop, ":0", handle, NULL, &server, &e), 0);
    const uint16_t port = htons(http_server_port(server));
    const struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd4 = socket(AF_INET, SOCK_STREAM, 0);
    int fd6 = socket(AF_INET6, SOCK_STREAM, 0);
    assert_int_equal(connect(fd4, (const struct sockaddr *)&v4, sizeof(v4)), 0);
    assert_int_equal(connect(fd6, (const struct sockaddr *)&v6, sizeof(v6)), 0);
    assert_int_equal(close(fd4), 0);
    assert_int_equal(close(fd6), 0);
    http_server_stop(server);
    ev_loop_destroy(loop);
}

/* ---- many clients ---------------------------------------------------------------------------- */

static int connect_to(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void on_time(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)w;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

static void run_for(struct ev_loop *loop, double seconds)
{
    ev_timer timer;
    ev_timer_init(&timer, on_time, seconds, 0.);
    ev_now_update(loop);
    ev_timer_start(loop, &timer);
    ev_run(loop, 0);
}

static bool is_closed(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static const char probe[] = "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

static const char stays[] = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";

static void when_all_places_are_taken_the_longest_idle_client_goes(void **state)
{
    int idle[HTTP_MAX_CONNECTIONS];
    struct err e = ERR_INIT;
    struct http_server *server = NULL;
    struct ev_loop *loop = ev_loop_new(0);
    struct exchange x;
    (void)state;
    assert_int_equal(http_server_start(loop, "127.0.0.1:0", handle, NULL, &server, &e), 0);
    for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
        idle[i] = connect_to(http_server_port(server));
        run_for(loop, 0.001);
    }
    /* The first one asks something and stays: it is not the longest idle one any more. */
    char answer[512];
    assert_int_equal(write(idle[0], stays, sizeof(stays) - 1), sizeof(stays) - 1);
    run_for(loop, 0.05);
    assert_true(recv(idle[0], answer, sizeof(answer), MSG_DONTWAIT) > 0);
    for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
        assert_false(is_closed(idle[i]));
    }
    talk(loop, http_server_port(server), probe, &x);
    assert_non_null(strstr(x.answer, "HTTP/1.1 200"));
    for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
        assert_int_equal(is_closed(idle[i]), i == 1);
        (void)close(idle[i]);
    }
    http_server_stop(server);
    ev_loop_destroy(loop);
}

enum { CROWD = 1000 };

struct client {
    ev_io readable;
    uint16_t port;
    const char *says; /* on each connection, and after each answer */
};

static void come(struct ev_loop *loop, struct client *c);

static void on_shown_out(struct ev_loop *loop, ev_io *w, int events)
{
    char some[512];
    (void)events;
    const struct client *c = w->data;
    if (recv(w->fd, some, sizeof(some), MSG_DONTWAIT) > 0) {
        (void)send(w->fd, c->says, strlen(c->says), MSG_NOSIGNAL);
        return;
    }
    ev_io_stop(loop, w);
    (void)close(w->fd);
    come(loop, w->data); /* again, at once */
}

static void come(struct ev_loop *loop, struct client *c)
{
    int fd = connect_to(c->port);
    (void)send(fd, c->says, strlen(c->says), MSG_NOSIGNAL);
    ev_io_init(&c->readable, on_shown_out, fd, EV_READ);
    c->readable.data = c;
    ev_io_start(loop, &c->readable);
}

static void a_thousand_clients_keep_no_probe_waiting(void **state)
{
    static const char *const says[] = {"", "GET /livez HTTP/1.1\r\nX: ", "G", probe, stays};
    static struct client crowd[CROWD];
    const rlim_t many = 4096; /* both ends are ours; the default is 1024 */
    struct err e = ERR_INIT;
    struct http_server *server = NULL;
    struct ev_loop *loop = ev_loop_new(0);
    (void)state;
    struct rlimit had;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    if (had.rlim_max < many) {
        skip();
    }
    had.rlim_cur = many;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    assert_int_equal(http_server_start(loop, "127.0.0.1:0", handle, NULL, &server, &e), 0);
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] =
            (struct client){.port = http_server_port(server), .says = says[i % ARRAY_LEN(says)]};
        come(loop, &crowd[i]);
    }
    for (int i = 0; i < 5; i++) {
        struct exchange x;
        struct mono began = clock_mono_now();
        talk(loop, http_server_port(server), probe, &x);
        assert_non_null(strstr(x.answer, "HTTP/1.1 200"));
        /* Not for ever; how soon is the integration tests' to judge, on the real programs. */
        assert_true(mono_since(clock_mono_now(), began) < 10 * NS_PER_SEC);
    }
    for (size_t i = 0; i < CROWD; i++) {
        ev_io_stop(loop, &crowd[i].readable);
        (void)close(crowd[i].readable.fd);
    }
    http_server_stop(server);
    ev_loop_destroy(loop);
}

static void few_descriptors_are_left_to_the_work(void **state)
{
    int idle[20];
    struct rlimit had;
    struct err e = ERR_INIT;
    struct http_server *server = NULL;
    struct ev_loop *loop = ev_loop_new(0);
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    const struct rlimit few = {64, had.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(http_server_start(loop, "127.0.0.1:0", handle, NULL, &server, &e), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
        idle[i] = connect_to(http_server_port(server));
        run_for(loop, i < 15 ? 1e-3 : 2e-3 * HTTP_YOUNG_MS);
    }
    for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
        assert_int_equal(is_closed(idle[i]), i < ARRAY_LEN(idle) - 16);
        (void)close(idle[i]);
    }
    http_server_stop(server);
    ev_loop_destroy(loop);
}

static void without_descriptors_the_loop_rests_and_a_place_is_made(void **state)
{
    struct err e = ERR_INIT;
    struct http_server *server = NULL;
    struct ev_loop *loop = ev_loop_new(0);
    struct rlimit had;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    assert_int_equal(http_server_start(loop, "127.0.0.1:0", handle, NULL, &server, &e), 0);
    int idle = connect_to(http_server_port(server));
    run_for(loop, 2e-3 * HTTP_YOUNG_MS);
    int waiting = connect_to(http_server_port(server));
    assert_int_equal(write(waiting, probe, sizeof(probe) - 1), sizeof(probe) - 1);
    const struct rlimit none = {(rlim_t)waiting + 1, had.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    unsigned int turns = ev_iteration(loop);
    run_for(loop, 0.2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    assert_true(ev_iteration(loop) - turns < 50);
    assert_true(is_closed(idle));
    char answer[512];
    assert_true(recv(waiting, answer, sizeof(answer), MSG_DONTWAIT) > 0);
    (void)close(idle);
    (void)close(waiting);
    http_server_stop(server);
    ev_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_served_by_the_loop),
        cmocka_unit_test(address_that_cannot_be_used_is_an_error_that_names_it),
        cmocka_unit_test(no_host_means_all_addresses_of_both_families),
        cmocka_unit_test(second_server_on_the_same_port_is_refused),
        cmocka_unit_test(when_all_places_are_taken_the_longest_idle_client_goes),
        cmocka_unit_test(a_thousand_clients_keep_no_probe_waiting),
        cmocka_unit_test(few_descriptors_are_left_to_the_work),
        cmocka_unit_test(without_descriptors_the_loop_rests_and_a_place_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
