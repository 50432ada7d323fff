/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/kube_core.h"
#include "tests/support/case.h"

#include <curl/curl.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SENT = KUBE_BUCKET_BURST, ALL = KUBE_BUCKET_BURST + KUBE_WAITING_MAX };

/* The bucket and the patience, put in place of the real ones when linking. */
static int tokens;

void kube_bucket_init(struct kube_bucket *b, struct mono now)
{
    (void)b;
    (void)now;
    tokens = SENT;
}

bool kube_bucket_take(struct kube_bucket *b, struct mono now)
{
    (void)b;
    (void)now;
    return tokens > 0 && tokens-- > 0;
}

void kube_bucket_take_urgent(struct kube_bucket *b, struct mono now)
{
    (void)b;
    (void)now;
}

int64_t kube_bucket_wait_ns(struct kube_bucket *b, struct mono now)
{
    (void)b;
    (void)now;
    return tokens > 0 ? 0 : 5 * NS_PER_MS;
}

uint32_t kube_patience_ms(const struct kube_patience *p, bool is_write)
{
    (void)p;
    (void)is_write;
    return KUBE_PATIENCE_MS;
}

void kube_patience_learn(struct kube_patience *p, bool is_write, bool is_answered, int64_t took_ms)
{
    (void)p;
    (void)is_write;
    (void)is_answered;
    (void)took_ms;
}

struct done {
    struct kube_response last;
    int count;
    struct mono at[2 * ALL];
};

/* `token_file`: NULL: none. */
static struct kube_client *new_client_with(uint16_t port, const char *token_file)
{
    struct kube_conf conf = {.server = NULL};
    struct kube_client *client = NULL;
    assert_true(asprintf(&conf.server, "http://127.0.0.1:%u", (unsigned)port) > 0);
    conf.token_file = token_file ? strdup(token_file) : NULL;
    assert_int_equal(kube_client_new(ev_default_loop(0), &conf, &client, NULL), 0);
    return client;
}

static struct kube_client *new_client_of(uint16_t port)
{
    return new_client_with(port, NULL);
}

static void write_token(const char *path, int number)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f, "token-%d\n", number);
    assert_int_equal(fclose(f), 0);
}

static int listen_anywhere(uint16_t *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    *out_port = ntohs(address.sin_port);
    return listener;
}

/* Nobody listens there. */
static struct kube_client *new_client(void)
{
    return new_client_of(1);
}

static void on_done(void *user, const struct kube_response *response)
{
    struct done *d = user;
    d->at[d->count++] = response->sent_at;
    d->last = *response;
}

static struct kube_call *start(struct kube_client *client, enum kube_priority priority,
                               struct done *done, struct err *e)
{
    struct kube_call *call = NULL;
    const struct kube_request request = {.method = KUBE_GET, .priority = priority, .path = "/x"};
    return kube_client_start(client, &request, on_done, done, &call, e) == 0 ? call : NULL;
}

TEST(what_is_too_much_waits_and_the_queue_is_bounded)
{
    struct kube_call *call = NULL;
    struct err e = ERR_INIT;
    struct done done = {.count = 0};
    struct kube_client *client = new_client();
    for (int i = 0; i < SENT; i++) {
        assert_non_null(start(client, KUBE_ORDINARY, &done, &e));
    }
    assert_int_equal(kube_client_delayed(client), 0);
    for (int i = SENT; i < ALL; i++) {
        call = start(client, KUBE_ORDINARY, &done, &e);
        assert_non_null(call);
    }
    assert_int_equal(kube_client_delayed(client), KUBE_WAITING_MAX);
    assert_null(start(client, KUBE_ORDINARY, &done, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    assert_string_equal(e.msg, "32 requests wait for their turn already");
    assert_non_null(start(client, KUBE_URGENT, &done, &e));
    assert_int_equal(kube_client_delayed(client), KUBE_WAITING_MAX);
    kube_call_cancel(call); /* makes room */
    assert_non_null(start(client, KUBE_ORDINARY, &done, &e));
    kube_client_free(client);
    assert_int_equal(done.count, 0);
}

static void run_until(const struct done *done, int count)
{
    struct mono begin = clock_mono_now();
    while (done->count < count) {
        (void)ev_run(ev_default_loop(0), EVRUN_ONCE);
        assert_true(mono_since(clock_mono_now(), begin) < 30 * NS_PER_SEC);
    }
}

/* The deadline and the evidence count from when a request is really sent. */
TEST(who_waits_is_sent_in_its_turn)
{
    struct err e = ERR_INIT;
    struct done early = {.count = 0};
    struct done late = {.count = 0};
    struct done urgent = {.count = 0};
    struct kube_client *client = new_client();
    for (int i = 0; i < SENT; i++) {
        assert_non_null(start(client, KUBE_ORDINARY, &early, &e));
    }
    assert_non_null(start(client, KUBE_ORDINARY, &late, &e));
    assert_non_null(start(client, KUBE_URGENT, &urgent, &e));
    run_until(&early, SENT);
    run_until(&urgent, 1);
    assert_int_equal(late.count, 0);
    struct mono given_at = clock_mono_now();
    tokens = 1;
    run_until(&late, 1);
    assert_true(mono_since(late.at[0], given_at) >= 0);
    assert_int_equal(late.last.transport_error, KUBE_TRANSPORT_CONNECT);
    assert_int_equal(late.last.outcome, KUBE_NO_CONTACT);
    kube_client_free(client);
}

TEST(those_that_wait_are_sent_in_the_order_in_which_they_came)
{
    enum { WAITING = 4 };
    struct err e = ERR_INIT;
    struct done done[WAITING] = {{.count = 0}};
    struct kube_client *client = new_client();
    tokens = 0;
    for (int i = 0; i < WAITING - 1; i++) {
        assert_non_null(start(client, KUBE_ORDINARY, &done[i], &e));
    }
    for (int i = 0; i < WAITING; i++) {
        tokens = 1;
        if (i == 0) { /* who comes when there is a token, and others wait for it, waits, too */
            assert_non_null(start(client, KUBE_ORDINARY, &done[WAITING - 1], &e));
        }
        run_until(&done[i], 1);
        for (int later = i + 1; later < WAITING; later++) {
            assert_int_equal(done[later].count, 0);
        }
    }
    kube_client_free(client);
}

/* ---- an answer 401 --------------------------------------------------------------------------- */

enum { REFUSALS_MAX = 5 };

/* A process that refuses each request, and writes another token first, if it is to. It tells of
 * each by a byte, and ends after many. */
static pid_t serve_refusals(const char *token_file, bool renews, uint16_t *out_port, int *out_told)
{
    static const char answer[] = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n"
                                 "Connection: close\r\n\r\n";
    char bytes[4096];
    int pipes[2];
    int listener = listen_anywhere(out_port);
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    for (int i = 0; pid == 0 && i < REFUSALS_MAX; i++) {
        int fd = accept(listener, NULL, NULL);
        (void)recv(fd, bytes, sizeof(bytes), 0); /* the request */
        if (renews) {
            write_token(token_file, i + 1);
        }
        (void)!write(pipes[1], "x", 1);
        (void)send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
        (void)close(fd);
    }
    if (pid == 0) {
        _exit(0);
    }
    assert_true(pid > 0);
    (void)close(listener);
    (void)close(pipes[1]);
    *out_told = pipes[0];
    return pid;
}

TEST(a_request_that_is_refused_with_new_credentials_too_has_failed)
{
    for (int renews = 0; renews <= 1; renews++) {
        struct err e = ERR_INIT;
        struct done done = {.count = 0};
        char told[REFUSALS_MAX];
        char token_file[] = "/tmp/test-token.XXXXXX";
        int told_fd;
        uint16_t port;
        assert_true(close(mkstemp(token_file)) == 0);
        write_token(token_file, 0);
        pid_t server = serve_refusals(token_file, renews, &port, &told_fd);
        struct kube_client *client = new_client_with(port, token_file);
        assert_non_null(start(client, KUBE_ORDINARY, &done, &e));
        run_until(&done, 1);
        assert_int_equal(done.last.http_status, 401);
        (void)kill(server, SIGKILL);
        assert_int_equal(read(told_fd, told, sizeof(told)), 1 + renews);
        kube_client_free(client);
        (void)close(told_fd);
        (void)unlink(token_file);
        (void)waitpid(server, NULL, 0); /* the default loop may have been first */
    }
}

/* ---- tries beside those that hang ------------------------------------------------------------ */

enum { HANG_MS = 400 };

/* How many connections a request makes to a server that accepts and says nothing. */
static int count_tries(enum kube_method method, enum kube_channel channel, bool is_repeatable)
{
    uint16_t port;
    int tries = 0;
    int listener = listen_anywhere(&port);
    struct done done = {.count = 0};
    struct kube_call *call = NULL;
    struct kube_client *client = new_client_of(port);
    const struct kube_request request = {.method = method,
                                         .channel = channel,
                                         .path = "/x",
                                         .is_repeatable = is_repeatable,
                                         .deadline_ms = HANG_MS};
    assert_int_equal(kube_client_start(client, &request, on_done, &done, &call, NULL), 0);
    while (done.count == 0) {
        (void)ev_run(ev_default_loop(0), EVRUN_ONCE);
    }
    assert_int_equal(done.last.transport_error, KUBE_TRANSPORT_TIMEOUT);
    assert_true(mono_since(done.last.received_at, done.last.sent_at) >= HANG_MS * NS_PER_MS);
    kube_client_free(client);
    (void)fcntl(listener, F_SETFL, O_NONBLOCK);
    for (int fd = accept(listener, NULL, NULL); fd >= 0; fd = accept(listener, NULL, NULL)) {
        (void)close(fd);
        tries++;
    }
    (void)close(listener);
    return tries;
}

/* What is written is sent once, unless a condition lets it take effect once, and a fleet that lists
 * at once is as patient as it has to be. */
TEST(only_what_may_be_repeated_is_sent_again_beside)
{
    assert_int_equal(count_tries(KUBE_GET, KUBE_FRESH, false), 3);
    assert_int_equal(count_tries(KUBE_GET, KUBE_CONTROL, false), 3);
    assert_int_equal(count_tries(KUBE_GET, KUBE_LIST, false), 1);
    assert_int_equal(count_tries(KUBE_PUT, KUBE_FRESH, false), 1);
    assert_int_equal(count_tries(KUBE_MERGE_PATCH, KUBE_FRESH, true), 3);
}

/* ---- a stream -------------------------------------------------------------------------------- */

enum { STREAM_BYTES = 1 << 20, STREAM_MAX_BYTES = 2 * CURL_MAX_WRITE_SIZE };

struct stream {
    size_t taken;
    bool takes_all; /* else nothing */
    struct done done;
};

/* A process that answers one request with STREAM_BYTES. */
static pid_t serve_stream(uint16_t *out_port)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    static char bytes[STREAM_BYTES];
    int listener = listen_anywhere(out_port);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = accept(listener, NULL, NULL);
        (void)recv(fd, bytes, sizeof(bytes), 0); /* the request */
        (void)send(fd, head, sizeof(head) - 1, MSG_NOSIGNAL);
        (void)send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
        _exit(0);
    }
    assert_true(pid > 0);
    (void)close(listener);
    return pid;
}

static void on_stream_bytes(void *user, struct buf *inbox)
{
    struct stream *s = user;
    if (s->takes_all) {
        s->taken += inbox->len;
        buf_clear(inbox);
    }
    (void)usleep(20000); /* more is there than is taken at a time */
}

static void on_stream_done(void *user, const struct kube_response *response)
{
    struct stream *s = user;
    on_done(&s->done, response);
    assert_string_equal(response->message, s->takes_all ? "" : "the answer is larger than allowed");
}

static void read_stream(struct stream *s)
{
    uint16_t port;
    struct kube_call *call = NULL;
    pid_t server = serve_stream(&port);
    struct kube_client *client = new_client_of(port);
    struct mono begin = clock_mono_now();
    const struct kube_call_config config = {
        .request = {.method = KUBE_GET, .channel = KUBE_FRESH, .path = "/x"},
        .max_bytes = STREAM_MAX_BYTES,
        .on_bytes = on_stream_bytes,
        .on_done = on_stream_done,
        .user = s,
    };
    assert_int_equal(kube_call_start(client, &config, &call, NULL), 0);
    while (s->done.count == 0) {
        (void)ev_run(ev_default_loop(0), EVRUN_ONCE);
        assert_true(mono_since(clock_mono_now(), begin) < 30 * NS_PER_SEC);
    }
    kube_client_free(client);
    (void)waitpid(server, NULL, 0); /* the default loop may have been first */
}

/* As many events are after an outage: it is its owner's look that makes room. */
TEST(a_stream_may_be_far_ahead_of_its_owner)
{
    struct stream s = {.takes_all = true};
    read_stream(&s);
    assert_int_equal(s.taken, STREAM_BYTES);
}

TEST(a_stream_whose_owner_takes_nothing_ends_at_its_bound)
{
    struct stream s = {.takes_all = false};
    read_stream(&s);
}
