/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/kube_answer.h"
#include "kube/kube_core.h"
#include "tests/support/case.h"

#include <curl/curl.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define WAIT_NS (50 * NS_PER_MS)

enum { NOBODYS_PORT = 1, SENT = KUBE_BUCKET_BURST, WAITING = 4, DONE_MAX = 2 * (SENT + WAITING) };

/* The bucket and the patience, put in place of the real ones when linking. */
static int taken;
static int unreached;

void kube_bucket_init(struct kube_bucket *b, struct mono now)
{
    taken = 0;
    unreached = 0;
}

int64_t kube_bucket_take(struct kube_bucket *b, struct mono now)
{
    taken++;
    return taken > SENT ? (taken - SENT) * WAIT_NS : 0;
}

bool kube_bucket_try(struct kube_bucket *b, struct mono now)
{
    return kube_bucket_take(b, now) == 0;
}

void kube_bucket_take_urgent(struct kube_bucket *b, struct mono now)
{
}

void kube_bucket_return(struct kube_bucket *b)
{
    taken--;
}

void kube_bucket_unreached(struct kube_bucket *b, struct mono now)
{
    unreached++;
}

int64_t kube_bucket_reached(struct kube_bucket *b)
{
    bool was_paused = unreached > 0;
    unreached = 0;
    return was_paused;
}

int64_t kube_bucket_pause_ns(const struct kube_bucket *b, struct mono now)
{
    return unreached > DONE_MAX ? 40 * NS_PER_SEC : 0; /* longer than run_until() waits */
}

uint32_t kube_patience_learn(uint32_t now_ms, bool is_answered, int64_t took_ms, uint32_t least_ms,
                             uint32_t most_ms)
{
    return now_ms;
}

static int errors;       /* that may be a server's own, since the last other answer */
static bool is_no_leave; /* none is left for them */

bool kube_leave_try(struct kube_leave *l, struct mono now)
{
    errors++;
    return !is_no_leave;
}

void kube_leave_settle(struct kube_leave *l)
{
    errors = 0;
}

struct done {
    struct kube_response last;
    int count;
    struct mono at[DONE_MAX];
};

/* `token_file`: NULL: none. */
static struct kube_client *new_client_with(uint16_t port, const char *token_file)
{
    struct kube_conf conf = {.origin = strdup("test")};
    struct kube_client *client = NULL;
    assert_true(asprintf(&conf.server, "http://127.0.0.1:%u", (unsigned)port) > 0);
    conf.secrets[KUBE_SECRET_TOKEN].file = token_file ? strdup(token_file) : NULL;
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
    static const char *const ends[] = {"Mn0", "M30", "NH0", "NX0", "Nn0", "N30"};
    (void)fprintf(f, "x.eyJpYXQiOjEsImV4cCI6%s.x\n", ends[number]); /* {"iat":1,"exp":N + 2} */
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

static void on_done(void *user, const struct kube_response *response)
{
    struct done *d = user;
    d->at[d->count++] = response->sent_at;
    d->last = *response;
}

static void start(struct kube_client *client, enum kube_priority priority, struct done *done)
{
    const struct kube_request request = {.method = KUBE_GET, .priority = priority, .path = "/x"};
    (void)kube_client_start(client, &request, on_done, done);
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
    struct done early = {.count = 0};
    struct done late[WAITING] = {{.count = 0}};
    struct done urgent = {.count = 0};
    struct kube_client *client = new_client_of(NOBODYS_PORT);
    struct mono begin = clock_mono_now();
    for (int i = 0; i < SENT; i++) {
        start(client, KUBE_ORDINARY, &early);
    }
    assert_int_equal(kube_client_metrics(client)->delayed, 0);
    for (int i = 0; i < WAITING; i++) {
        start(client, KUBE_ORDINARY, &late[i]);
    }
    start(client, KUBE_URGENT, &urgent);
    assert_int_equal(kube_client_metrics(client)->delayed, WAITING);
    run_until(&early, SENT);
    run_until(&urgent, 1);
    for (int i = 0; i < WAITING; i++) {
        run_until(&late[i], 1);
        assert_true(mono_since(late[i].at[0], begin) >= (i + 1) * WAIT_NS);
        assert_true(i == 0 || !mono_before(late[i].at[0], late[i - 1].at[0]));
        assert_int_equal(late[i].last.transport_error, KUBE_TRANSPORT_CONNECT);
        assert_int_equal(late[i].last.outcome, KUBE_NO_CONTACT);
    }
    assert_int_equal(unreached, SENT + 1 + WAITING);
    kube_client_free(client);
}

TEST(one_that_waits_no_longer_returns_its_token)
{
    struct done done = {.count = 0};
    struct kube_client *client = new_client_of(NOBODYS_PORT);
    const struct kube_request request = {.path = "/x"};
    taken = SENT;
    kube_call_cancel(kube_client_start(client, &request, on_done, &done));
    assert_int_equal(taken, SENT);
    kube_client_free(client);
    assert_int_equal(done.count, 0);
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

static void stop_server(pid_t server)
{
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0); /* the default loop may have been first */
}

TEST(a_request_that_is_refused_with_new_credentials_too_has_failed)
{
    for (int renews = 0; renews <= 1; renews++) {
        struct done done = {.count = 0};
        char told[REFUSALS_MAX];
        char token_file[] = "/tmp/test-token.XXXXXX";
        int told_fd;
        uint16_t port;
        assert_true(close(mkstemp(token_file)) == 0);
        write_token(token_file, 0);
        pid_t server = serve_refusals(token_file, renews, &port, &told_fd);
        struct kube_client *client = new_client_with(port, token_file);
        start(client, KUBE_ORDINARY, &done);
        run_until(&done, 1);
        assert_int_equal(done.last.http_status, 401);
        assert_int_equal(kube_client_metrics(client)->expiry.until.ns, (2 + renews) * NS_PER_SEC);
        stop_server(server);
        assert_int_equal(read(told_fd, told, sizeof(told)), 1 + renews);
        kube_client_free(client);
        (void)close(told_fd);
        (void)unlink(token_file);
    }
}

/* Any answer is one. */
TEST(who_waits_for_an_api_server_goes_when_an_urgent_one_has_found_it)
{
    struct done ordinary = {.count = 0};
    struct done urgent = {.count = 0};
    int told_fd;
    uint16_t port;
    pid_t server = serve_refusals(NULL, false, &port, &told_fd);
    struct kube_client *client = new_client_of(port);
    unreached = DONE_MAX + 1;
    start(client, KUBE_ORDINARY, &ordinary);
    start(client, KUBE_URGENT, &urgent);
    run_until(&urgent, 1);
    assert_int_equal(ordinary.count, 0);
    run_until(&ordinary, 1);
    assert_int_equal(ordinary.last.http_status, 401);
    kube_client_free(client);
    (void)close(told_fd);
    stop_server(server);
}

/* ---- tries beside those that hang ------------------------------------------------------------ */

enum { HANG_MS = 400 };

static void send_answer(int fd, int http_status)
{
    char bytes[4096];
    int len = snprintf(bytes, sizeof(bytes),
                       "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"
                       "Content-Length: 17\r\n\r\n{\"kind\":\"Status\"}",
                       http_status);
    assert_int_equal(send(fd, bytes, (size_t)len, MSG_NOSIGNAL), len);
}

/* How many connections a request makes to a silent server, which turns away a second write. */
static int count_tries(enum kube_method method, enum kube_channel channel, bool is_repeatable)
{
    uint16_t port;
    int fds[4];
    int tries = 0;
    int listener = listen_anywhere(&port);
    struct done done = {.count = 0};
    struct kube_client *client = new_client_of(port);
    const struct kube_request request = {.method = method,
                                         .channel = channel,
                                         .path = "/x",
                                         .is_repeatable = is_repeatable,
                                         .deadline_ms = HANG_MS};
    (void)kube_client_start(client, &request, on_done, &done);
    (void)fcntl(listener, F_SETFL, O_NONBLOCK);
    while (done.count == 0) {
        (void)ev_run(ev_default_loop(0), EVRUN_ONCE);
        fds[tries] = accept(listener, NULL, NULL);
        if (fds[tries] >= 0 && ++tries == 2 && is_repeatable) {
            send_answer(fds[1], 429);
        }
    }
    assert_int_equal(done.last.transport_error, KUBE_TRANSPORT_TIMEOUT);
    assert_true(mono_since(done.last.received_at, done.last.sent_at) >= HANG_MS * NS_PER_MS);
    kube_client_free(client);
    for (int i = 0; i < tries; i++) {
        (void)close(fds[i]);
    }
    (void)close(listener);
    return tries;
}

/* What is written is sent once, unless a condition lets it take effect once, and a fleet that lists
 * at once is as patient as it has to be. */
TEST(only_what_may_be_repeated_is_sent_again_beside)
{
    assert_int_equal(count_tries(KUBE_GET, KUBE_FRESH, false), 2);
    assert_int_equal(count_tries(KUBE_GET, KUBE_CONTROL, false), 2);
    assert_int_equal(count_tries(KUBE_GET, KUBE_LIST, false), 1);
    assert_int_equal(count_tries(KUBE_PUT, KUBE_FRESH, false), 1);
    assert_int_equal(count_tries(KUBE_MERGE_PATCH, KUBE_FRESH, true), 2);
}

/* ---- one that may come late ------------------------------------------------------------------ */

enum { AWAITED_MS = 60, LONG_MS = 1000 };

/* An owner that asks a server whose answers are ours. */
static struct asker {
    int listener;
    struct kube_client *client;
    struct kube_call *late;
    struct kube_response last;
    int told;
    int told_late;
} asker;

static void on_told(void *user, const struct kube_response *response)
{
    struct asker *a = user;
    a->told += !response->is_late;
    a->told_late += response->is_late;
    a->last = *response;
}

/* What is written goes out once: each request has one connection. */
static void asker_ask(uint32_t awaited_ms)
{
    const struct kube_request request = {.method = KUBE_PUT,
                                         .channel = KUBE_FRESH,
                                         .priority = KUBE_URGENT,
                                         .path = "/x",
                                         .deadline_ms = 20000,
                                         .awaited_ms = awaited_ms,
                                         .late = &asker.late};
    (void)kube_client_start(asker.client, &request, on_told, &asker);
}

static void ask_for(uint64_t least_version, enum kube_channel channel)
{
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = channel,
                                         .priority = KUBE_URGENT,
                                         .path = "/x",
                                         .least_version = least_version,
                                         .deadline_ms = 20000};
    (void)kube_client_start(asker.client, &request, on_told, &asker);
}

/* 0: a read that is waited for as long as it takes. */
static void asker_start(uint32_t awaited_ms)
{
    uint16_t port;
    asker = (struct asker){.listener = listen_anywhere(&port)};
    assert_int_equal(fcntl(asker.listener, F_SETFL, O_NONBLOCK), 0);
    asker.client = new_client_of(port);
    if (awaited_ms > 0) {
        asker_ask(awaited_ms);
    } else {
        ask_for(0, KUBE_CONTROL);
    }
}

static void asker_stop(void)
{
    kube_client_free(asker.client);
    assert_null(asker.late);
    (void)close(asker.listener);
}

static void wait_told(int told, int told_late)
{
    while (asker.told < told || asker.told_late < told_late) {
        (void)ev_run(ev_default_loop(0), EVRUN_ONCE);
    }
    assert_int_equal(asker.told, told);
    assert_int_equal(asker.told_late, told_late);
}

/* One that came over this connection; below 0: over the oldest that is new. Returns which. */
static int read_request(int fd)
{
    char bytes[4096];
    while (fd < 0 || recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0) {
        fd = fd < 0 ? accept(asker.listener, NULL, NULL) : fd;
        (void)ev_run(ev_default_loop(0), EVRUN_NOWAIT);
    }
    return fd;
}

/* Of the oldest connection; 0: it is cut. */
static void answer_next(int http_status)
{
    int fd = read_request(-1);
    if (http_status != 0) {
        send_answer(fd, http_status);
    }
    (void)close(fd);
}

TEST(an_answer_in_time_is_all)
{
    struct mono begin = clock_mono_now();
    asker_start(LONG_MS);
    answer_next(200);
    wait_told(1, 0);
    assert_int_equal(asker.last.http_status, 200);
    while (mono_since(clock_mono_now(), begin) < (LONG_MS + 50) * NS_PER_MS) {
        (void)ev_run(ev_default_loop(0), EVRUN_NOWAIT);
        (void)usleep(1000);
    }
    assert_int_equal(asker.told, 1);
    asker_stop();
}

TEST(the_oldest_request_goes_on_after_its_time)
{
    asker_start(AWAITED_MS);
    for (int told = 1; told <= 3; told++) {
        wait_told(told, 0);
        assert_int_equal(asker.last.transport_error, KUBE_TRANSPORT_TIMEOUT);
        assert_int_equal(asker.last.outcome, KUBE_NO_CONTACT);
        assert_int_equal(asker.last.code, ERR_RETRY);
        assert_string_equal(asker.last.message, "no answer within 60ms");
        assert_true(mono_since(asker.last.received_at, asker.last.sent_at) >=
                    (AWAITED_MS - 1) * NS_PER_MS);
        assert_non_null(asker.late);
        asker_ask(AWAITED_MS);
    }
    answer_next(200);
    wait_told(3, 1);
    assert_int_equal(asker.last.http_status, 200);
    assert_null(asker.late);
    wait_told(4, 1); /* the newest was waited for still, and there is room for a late one */
    assert_non_null(asker.late);
    kube_call_cancel(asker.late);
    asker_stop();
}

TEST(an_answer_ends_the_late_one_and_a_failure_does_not)
{
    static const struct {
        int http_status;
        bool is_left;
    } rows[] = {{200, false}, {409, false}, {404, false}, {503, true}, {0, true}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        asker_start(AWAITED_MS);
        wait_told(1, 0);
        int first = accept(asker.listener, NULL, NULL);
        asker_ask(20 * LONG_MS);
        answer_next(rows[i].http_status);
        wait_told(2, 0);
        assert_int_equal(asker.last.http_status, rows[i].http_status);
        assert_true((asker.late != NULL) == rows[i].is_left);
        asker_stop();
        (void)close(first);
    }
}

TEST(a_late_failure_is_no_news)
{
    asker_start(AWAITED_MS);
    wait_told(1, 0);
    answer_next(0);
    while (asker.late) {
        (void)ev_run(ev_default_loop(0), EVRUN_ONCE);
    }
    wait_told(1, 0);
    asker_stop();
}

/* But not for long. */
TEST(what_does_not_hurry_waits_for_a_connection)
{
    struct done done = {.count = 0};
    struct mono begin = clock_mono_now();
    asker_start(20 * LONG_MS);
    int first = read_request(-1);
    start(asker.client, KUBE_ORDINARY, &done);
    start(asker.client, KUBE_ORDINARY, &done);
    send_answer(first, 200);
    wait_told(1, 0);
    assert_int_equal(read_request(first), first);
    asker_ask(20 * LONG_MS);
    int urgent = read_request(-1);
    assert_true(mono_since(clock_mono_now(), begin) < NS_PER_SEC);
    (void)close(read_request(-1));
    assert_true(mono_since(clock_mono_now(), begin) >= 2 * NS_PER_SEC);
    asker_stop();
    (void)close(first);
    (void)close(urgent);
}

/* ---- one that curl repeats ------------------------------------------------------------------- */

/* Longer than the second after which the kernel asks anew for a connection without an answer. */
enum { REPEATED_MS = 1600, FILLERS = 3 };

/* Fills the listener's queue: the kernel answers no further connection. */
static void fill_queue(int listener, int fillers[static FILLERS])
{
    struct sockaddr_in address;
    socklen_t len = sizeof(address);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    for (int i = 0; i < FILLERS; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, len); /* EINPROGRESS */
    }
}

static void run_for(int64_t ns)
{
    struct mono begin = clock_mono_now();
    while (mono_since(clock_mono_now(), begin) < ns) {
        (void)ev_run(ev_default_loop(0), EVRUN_NOWAIT);
        (void)usleep(1000);
    }
}

static int accept_all(int listener)
{
    int count = 0;
    while (accept(listener, NULL, NULL) >= 0) { /* they stay open */
        count++;
    }
    return count;
}

/* The server has closed the idle connection, which shows only once the request went out on it: curl
 * repeats it, and the new connection hangs. So there was no request, and there may be another try.
 */
TEST(what_went_out_on_a_dead_connection_may_be_tried_again)
{
    int fillers[FILLERS];
    struct done done = {.count = 0};
    const struct kube_request request = {.method = KUBE_PUT,
                                         .channel = KUBE_FRESH,
                                         .priority = KUBE_URGENT,
                                         .path = "/x",
                                         .deadline_ms = REPEATED_MS};
    asker_start(20 * LONG_MS);
    int first = read_request(-1);
    send_answer(first, 200);
    wait_told(1, 0);
    (void)kube_client_start(asker.client, &request, on_done, &done);
    assert_int_equal(read_request(first), first);
    fill_queue(asker.listener, fillers);
    (void)close(first);
    run_for(REPEATED_MS * NS_PER_MS / 4);
    assert_int_equal(done.count, 0);
    for (int i = 0; i < FILLERS; i++) {
        (void)close(fillers[i]);
    }
    (void)accept_all(asker.listener); /* there is room again */
    assert_int_equal(listen(asker.listener, FILLERS), 0);
    for (int tries = 0; tries < 2; tries += accept_all(asker.listener)) {
        (void)ev_run(ev_default_loop(0), EVRUN_NOWAIT);
        assert_int_equal(done.count, 0); /* its deadline */
        (void)usleep(1000);
    }
    asker_stop();
}

/* ---- an answer that is known ------------------------------------------------------------------
 */

#define KNOWN "{\"kind\":\"Status\"}" /* what send_answer() says */

static bool knows_it(const void *user, const char *text, size_t len)
{
    return len == strlen(KNOWN) && memcmp(text, KNOWN, len) == 0;
}

static bool knows_nothing(const void *user, const char *text, size_t len)
{
    return false;
}

TEST(no_tree_is_made_of_an_answer_that_its_owner_knows)
{
    static const struct {
        bool (*knows)(const void *user, const char *text, size_t len);
        int http_status;
        bool has_body;
        bool has_raw;
    } rows[] = {{knows_it, 200, false, true},
                {knows_nothing, 200, true, true},
                {knows_it, 409, true, false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct done done = {.count = 0};
        asker_start(20 * LONG_MS);
        answer_next(200);
        wait_told(1, 0);
        const struct kube_request request = {.method = KUBE_PUT,
                                             .priority = KUBE_URGENT,
                                             .path = "/x",
                                             .text = "{}",
                                             .knows = rows[i].knows};
        (void)kube_client_start(asker.client, &request, on_done, &done);
        answer_next(rows[i].http_status);
        run_until(&done, 1);
        assert_int_equal(done.last.outcome, KUBE_ANSWERED);
        assert_int_equal(done.last.body != NULL, rows[i].has_body);
        assert_int_equal(done.last.raw != NULL, rows[i].has_raw);
        asker_stop();
    }
}

/* ---- a server that fails ----------------------------------------------------------------------
 */

#define STATUS        "{\"kind\":\"Status\"}"
#define VERSION(text) "{\"metadata\":{\"resourceVersion\":\"" text "\"}}"

static void send_text(int fd, const char *status, const char *body)
{
    char bytes[4096];
    int len = snprintf(bytes, sizeof(bytes),
                       "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       status, strlen(body), body);
    assert_int_equal(send(fd, bytes, (size_t)len, MSG_NOSIGNAL), len);
}

/* Whether the request comes over a connection that is new; that is `*fd` then. */
static bool comes_anew(int *fd)
{
    char bytes[4096];
    while (recv(*fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0) {
        (void)ev_run(ev_default_loop(0), EVRUN_NOWAIT);
        int other = accept(asker.listener, NULL, NULL);
        if (other >= 0) {
            (void)close(*fd);
            *fd = read_request(other);
            return true;
        }
    }
    return false;
}

TEST(a_connection_whose_server_fails_or_lags_is_used_no_more)
{
    static const struct {
        const char *status;
        const char *body;
        uint64_t least_version;
        bool is_left;
    } rows[] = {
        {"200 X", "{}", 0, false},
        {"200 X", "no object", 0, true},
        {"200 X", "", 0, true},
        {"401 X", STATUS, 0, true},
        {"403 X", STATUS, 0, true},
        {"404 X", STATUS, 0, false},
        {"404 X", "of a proxy", 0, true},
        {"409 X", STATUS, 0, false},
        {"410 X", STATUS, 0, false},
        {"422 X", STATUS, 0, false},
        {"429 X", STATUS, 0, true},
        {"429 X\r\nRetry-After: 1", STATUS, 0, false},
        {"500 X", STATUS, 0, true},
        {"503 X\r\nRetry-After: 1", STATUS, 0, true},
        {"504 X", "", 0, true},
        {"200 X", VERSION("7"), 7, false},
        {"200 X", VERSION("7"), 8, true},
        {"200 X", VERSION("x7"), 8, false},
        {"200 X", "{\"metadata\":{}}", 8, false},
    };
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        size_t row = i / 2;
        is_no_leave = i % 2 == 1;
        asker_start(0);
        int fd = read_request(-1);
        send_answer(fd, 200);
        wait_told(1, 0);
        ask_for(rows[row].least_version, KUBE_CONTROL);
        assert_false(comes_anew(&fd));
        send_text(fd, rows[row].status, rows[row].body);
        wait_told(2, 0);
        assert_int_equal(errors, rows[row].is_left);
        assert_int_equal(kube_client_metrics(asker.client)->left,
                         rows[row].is_left && !is_no_leave);
        ask_for(0, KUBE_CONTROL);
        assert_int_equal(comes_anew(&fd), rows[row].is_left && !is_no_leave);
        asker_stop();
        (void)close(fd);
    }
    is_no_leave = false;
}

/* Not the oldest, which curl would take. */
TEST(of_two_connections_the_one_whose_server_is_well_is_kept)
{
    for (int bad = 0; bad <= 1; bad++) {
        int fds[2];
        asker_start(0);
        ask_for(0, KUBE_FRESH);
        fds[0] = read_request(-1);
        fds[1] = read_request(-1);
        send_answer(fds[bad], 500);
        send_answer(fds[!bad], 200);
        wait_told(2, 0);
        for (int told = 3; told <= 4; told++) {
            ask_for(0, KUBE_CONTROL);
            assert_int_equal(read_request(fds[!bad]), fds[!bad]);
            send_answer(fds[!bad], 200);
            wait_told(told, 0);
        }
        asker_stop();
        (void)close(fds[0]);
        (void)close(fds[1]);
    }
}

/* A first try that is slow, and fails in the end, does not end the one beside it. */
TEST(a_try_beside_one_that_fails_goes_on)
{
    struct done done = {.count = 0};
    const struct kube_request request = {
        .method = KUBE_GET, .channel = KUBE_FRESH, .path = "/x", .deadline_ms = 2 * LONG_MS};
    asker_start(0);
    int fd = read_request(-1);
    send_answer(fd, 200);
    wait_told(1, 0);
    (void)kube_client_start(asker.client, &request, on_done, &done);
    assert_false(comes_anew(&fd));
    int beside = read_request(-1);
    send_answer(fd, 500);
    while (recv(fd, &(char){0}, 1, MSG_DONTWAIT) != 0) { /* it is left */
        (void)ev_run(ev_default_loop(0), EVRUN_NOWAIT);
    }
    assert_int_equal(done.count, 0);
    send_answer(beside, 200);
    run_until(&done, 1);
    assert_int_equal(done.last.http_status, 200);
    asker_stop();
    (void)close(fd);
    (void)close(beside);
}

static void take_all(void *user, struct buf *inbox)
{
    buf_consume(inbox, SIZE_MAX);
}

/* Once may be the restart of a server. */
TEST(a_server_that_ends_a_stream_at_once_is_left)
{
    for (int must_last = 0; must_last <= 1; must_last++) {
        const struct kube_request request = {.method = KUBE_GET,
                                             .channel = KUBE_STREAM,
                                             .priority = KUBE_URGENT,
                                             .path = "/x",
                                             .deadline_ms = 20000,
                                             .on_bytes = take_all,
                                             .max_bytes = 4096,
                                             .must_last = must_last};
        asker_start(0);
        int fd = read_request(-1);
        send_answer(fd, 200);
        wait_told(1, 0);
        (void)kube_client_start(asker.client, &request, on_told, &asker);
        assert_false(comes_anew(&fd));
        send_text(fd, "200 X", "{}");
        wait_told(2, 0);
        ask_for(0, KUBE_LIST);
        assert_int_equal(comes_anew(&fd), must_last);
        asker_stop();
        (void)close(fd);
    }
}

/* ---- a stream -------------------------------------------------------------------------------- */

enum { STREAM_BYTES = 1 << 20, STREAM_MAX_BYTES = 2 * CURL_MAX_WRITE_SIZE, HEAD_MS = 400 };

struct stream {
    size_t taken;
    bool takes_all; /* else nothing */
    struct done done;
};

/* A process that answers one request with this and STREAM_BYTES; without a head it says nothing. */
static pid_t serve_stream(const char *head, uint16_t *out_port)
{
    static char bytes[STREAM_BYTES];
    int listener = listen_anywhere(out_port);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = accept(listener, NULL, NULL);
        (void)recv(fd, bytes, sizeof(bytes), 0); /* the request */
        if (head[0] == '\0') {
            (void)recv(fd, bytes, sizeof(bytes), 0); /* until it is given up */
            _exit(0);
        }
        (void)send(fd, head, strlen(head), MSG_NOSIGNAL);
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
        buf_consume(inbox, SIZE_MAX);
    }
    (void)usleep(20000); /* more is there than is taken at a time */
}

static void on_stream_done(void *user, const struct kube_response *response)
{
    struct stream *s = user;
    on_done(&s->done, response);
}

static uint64_t watches_counted(const struct kube_client *client)
{
    const struct kube_metrics *m = kube_client_metrics(client);
    uint64_t sum = 0;
    for (size_t c = 0; c < KUBE_METRICS_CODES; c++) {
        sum += m->requests[KUBE_METRICS_VERBS - 1][c];
    }
    return sum;
}

static void read_stream(struct stream *s, const char *head)
{
    uint16_t port;
    pid_t server = serve_stream(head, &port);
    struct kube_client *client = new_client_of(port);
    struct mono begin = clock_mono_now();
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = KUBE_FRESH,
                                         .path = "/x",
                                         .deadline_ms = HEAD_MS,
                                         .on_bytes = on_stream_bytes,
                                         .max_bytes = STREAM_MAX_BYTES};
    (void)kube_client_start(client, &request, on_stream_done, s);
    while (s->done.count == 0) {
        (void)ev_run(ev_default_loop(0), EVRUN_ONCE);
        assert_true(mono_since(clock_mono_now(), begin) < 30 * NS_PER_SEC);
    }
    assert_int_equal(watches_counted(client), 1); /* whatever became of it */
    kube_client_free(client);
    (void)waitpid(server, NULL, 0); /* the default loop may have been first */
}

#define JSON_HEAD(status) "HTTP/1.1 " status " X\r\nContent-Type: application/json\r\n\r\n"

/* As many events are after an outage: it is its owner's look that makes room. */
TEST(a_stream_may_be_far_ahead_of_its_owner)
{
    struct stream s = {.takes_all = true};
    read_stream(&s, JSON_HEAD("200"));
    assert_int_equal(s.taken, STREAM_BYTES);
    assert_string_equal(s.done.last.message, "");
}

TEST(a_stream_whose_owner_takes_nothing_ends_at_its_bound)
{
    struct stream s = {.takes_all = false};
    read_stream(&s, JSON_HEAD("200"));
    assert_string_equal(s.done.last.message, "the answer is larger than allowed");
}

TEST(what_is_no_stream_is_an_answer)
{
    static const struct {
        const char *head;
        int http_status;
        int code;
        const char *words;
    } rows[] = {
        {"HTTP/1.1 200 X\r\nContent-Type: text/html\r\n\r\n", 200, ERR_PARSE, "GET /x: "},
        {JSON_HEAD("500"), 500, ERR_RETRY, "GET /x: the answer is larger than allowed"},
        {"HTTP/1.1 410 X\r\nContent-Length: 0\r\n\r\n", 410, ERR_GONE, "GET /x: HTTP 410"},
        {"", 0, ERR_RETRY, "GET /x: Timeout was reached"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct stream s = {.takes_all = true};
        struct mono begin = clock_mono_now();
        read_stream(&s, rows[i].head);
        assert_int_equal(s.taken, 0);
        assert_int_equal(s.done.last.http_status, rows[i].http_status);
        assert_int_equal(s.done.last.code, rows[i].code);
        assert_memory_equal(s.done.last.message, rows[i].words, strlen(rows[i].words));
        bool has_waited = mono_since(clock_mono_now(), begin) >= HEAD_MS * NS_PER_MS;
        assert_true(has_waited == (rows[i].http_status == 0));
    }
}
