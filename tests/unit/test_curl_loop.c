/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/curl_loop.h"
#include "tests/support/case.h"

#include <arpa/inet.h>
#include <ev.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CONNECT_LIMIT_MS = 1000 }; /* each of two addresses gets half */

static int listen_at(const char *address, uint16_t port, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t len = sizeof(at);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

/* A full backlog: the kernel answers no further connection there. */
static void fill(const char *address, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    for (int i = 0; i < 3; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fd, (struct sockaddr *)&at, sizeof(at)); /* EINPROGRESS; stays open */
    }
}

/* A process that answers one request. */
static pid_t serve(int listener)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    char request[1024];
    pid_t pid = fork();
    if (pid == 0) {
        (void)alarm(10);
        int fd = accept(listener, NULL, NULL);
        (void)recv(fd, request, sizeof(request), 0);
        (void)send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
        (void)recv(fd, request, sizeof(request), 0); /* until it is closed */
        _exit(0);
    }
    assert_true(pid > 0);
    return pid;
}

static void on_ended(void *user, CURL *easy, CURLcode code)
{
    *(int *)user = (int)code;
}

static void after(void *user)
{
}

/* Asks a name with these addresses, of which 127.0.0.1 lives; returns curl's word. */
static int ask(int alive, const char *addresses)
{
    char rule[128];
    char url[64];
    int code = -1;
    struct ev_loop *loop = ev_default_loop(0);
    const struct curl_loop_config config = {.ended = on_ended, .after = after, .user = &code};
    pid_t server = serve(alive);
    (void)snprintf(url, sizeof(url), "http://api.test:%d/", (int)port_of(alive));
    (void)snprintf(rule, sizeof(rule), "api.test:%d:%s", (int)port_of(alive), addresses);
    struct curl_slist *rules = curl_slist_append(NULL, rule);
    CURL *easy = curl_easy_init();
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_RESOLVE, rules);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_LIMIT_MS);
    struct curl_loop *c = curl_loop_new(loop, &config);
    curl_loop_add(c, easy);
    while (code < 0) {
        (void)ev_run(loop, EVRUN_ONCE);
    }
    curl_loop_remove(c, easy);
    curl_easy_cleanup(easy);
    curl_loop_free(c);
    curl_slist_free_all(rules);
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0); /* the default loop may have been first */
    return code;
}

TEST(a_living_address_is_reached_behind_dead_ones)
{
    int alive = listen_at("127.0.0.1", 0, 1);
    (void)listen_at("127.0.0.2", port_of(alive), 0);
    fill("127.0.0.2", port_of(alive));
    assert_int_equal(ask(alive, "127.0.0.3,127.0.0.1"), CURLE_OK); /* refuses */
    assert_int_equal(ask(alive, "127.0.0.3,127.0.0.4,127.0.0.1"), CURLE_OK);
    assert_int_equal(ask(alive, "[::1],127.0.0.1"), CURLE_OK);
    assert_int_equal(ask(alive, "255.255.255.255,127.0.0.1"), CURLE_OK); /* no way there */
    assert_int_equal(ask(alive, "127.0.0.2,127.0.0.1"), CURLE_OK);       /* silent */
}
