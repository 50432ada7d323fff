/* SPDX-License-Identifier: Apache-2.0 */
/* Calls against our own server and against servers that misbehave. */
#include "grpc/grpc_unary.h"

#include "base/text.h"
#include "base/time.h"
#include "dra-driver/grpc/grpc_server.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <curl/curl.h>
#include <ev.h>

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { LARGE_BYTES = 3 << 20 };

struct world {
    char dir[SCRATCH_BYTES];
    char path[64];
    struct ev_loop *loop;
    struct grpc_server *server;
    struct grpc_unary *call;
    struct grpc_call *watch;
    int status; /* of "/t.S/Refuse" */
    const char *text;
    int messages;
    int ended;
    struct err why;
    size_t len;
    char answer[64];
};

static void echo(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    grpc_call_reply(call, message, len);
}

/* "/t.S/Refuse": with the world's status and text. */
static void refuse(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    const struct world *w = user;
    grpc_call_end(call, (enum grpc_status)w->status, "%s", w->text);
}

static void hang(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
}

static void large(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    char *bytes = calloc(1, LARGE_BYTES);
    assert_non_null(bytes);
    grpc_call_reply(call, bytes, LARGE_BYTES);
    free(bytes);
}

static void watch(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    ((struct world *)user)->watch = call;
}

static const struct grpc_method methods[] = {
    {"/t.S/Echo", echo},   {"/t.S/Refuse", refuse}, {"/t.S/Hang", hang},
    {"/t.S/Large", large}, {"/t.S/Watch", watch},
};

static void up(struct world *w)
{
    scratch_make(w->dir);
    text_format(w->path, sizeof(w->path), "%s/s", w->dir);
    w->loop = ev_loop_new(EVFLAG_AUTO);
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0); /* is not asked */
    const struct grpc_server_config config = {.loop = w->loop,
                                              .name = "t",
                                              .path = w->path,
                                              .methods = methods,
                                              .method_count = ARRAY_LEN(methods),
                                              .user = w};
    assert_int_equal(grpc_server_start(&config, &w->server, NULL), 0);
}

static void down(struct world *w)
{
    grpc_server_free(w->server);
    ev_loop_destroy(w->loop);
    scratch_remove(w->dir);
}

WORLD(up, down)

static void on_message(void *user, const uint8_t *message, size_t len)
{
    struct world *w = user;
    w->messages++;
    w->len = len;
    text_format(w->answer, sizeof(w->answer), "%.*s", (int)len, (const char *)message);
}

static void on_done(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct world *w = user;
    w->ended++;
    w->call = NULL;
    if (why) {
        w->why = *why;
    } else if (len > 0) {
        on_message(user, message, len);
    }
    ev_break(w->loop, EVBREAK_ALL);
}

static void start(struct world *w, const char *method, int64_t timeout_ns)
{
    const struct grpc_unary_plan plan = {
        .path = w->path,
        .method = method,
        .message = {.bytes = (const uint8_t *)"hello", .len = 5},
        .timeout_ns = timeout_ns,
        .done = on_done,
        .user = w,
    };
    w->call = grpc_unary_start(w->loop, &plan);
}

static void call(struct world *w, const char *method, int64_t timeout_ns)
{
    start(w, method, timeout_ns);
    ev_run(w->loop, 0);
    assert_int_equal(w->ended, 1);
}

TEST_IN(call_brings_its_message_or_why_not)
{
    static const struct {
        const char *method;
        int64_t timeout_ns;
        int status; /* and its text: of a refusal */
        const char *text;
        int code;
        int sys_errno;
        const char *words; /* the answer, or why */
    } rows[] = {
        {"/t.S/Echo", 10 * NS_PER_SEC, .words = "hello"},
        {"/t.S/Large", 10 * NS_PER_SEC, .words = ""}, /* of many reads */
        {"/t.S/Refuse", 10 * NS_PER_SEC, GRPC_UNAVAILABLE, "not today: caf\xc3\xa9, 100%",
         ERR_RETRY, 0, "/t.S/Refuse: UNAVAILABLE: not today: caf\xc3\xa9, 100%"},
        {"/t.S/Refuse", 10 * NS_PER_SEC, GRPC_NOT_FOUND, "no such thing", ERR_GONE, 0,
         "/t.S/Refuse: NOT_FOUND: no such thing"},
        {"/t.S/Refuse", 10 * NS_PER_SEC, 99, "odd", ERR_RETRY, 0, "/t.S/Refuse: CODE: odd"},
        {"/t.S/Refuse", 10 * NS_PER_SEC, 100, "odd", ERR_RETRY, 0, "the stream ended without"},
        {"/t.S/Refuse", 10 * NS_PER_SEC, -1, "odd", ERR_RETRY, 0, "the stream ended without"},
        {"/t.S/Refuse", 10 * NS_PER_SEC, GRPC_OK, "", ERR_PARSE, 0, "is not one message"},
        {"/t.S/Nothing", 10 * NS_PER_SEC, .code = ERR_RETRY,
         .words = "/t.S/Nothing: UNIMPLEMENTED: unknown method /t.S/Nothing"},
        {"/t.S/Hang", 50 * NS_PER_MS, .code = ERR_RETRY, .sys_errno = ETIMEDOUT,
         .words = "/t.S/Hang: waiting for"},
        {"/t.S/Hang", 1, .code = ERR_RETRY, .sys_errno = ETIMEDOUT, .words = "waiting for"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        w->ended = 0;
        w->why = (struct err)ERR_INIT;
        w->status = rows[i].status;
        w->text = rows[i].text;
        call(w, rows[i].method, rows[i].timeout_ns);
        assert_int_equal(w->why.code, rows[i].code);
        assert_int_equal(w->why.sys_errno, rows[i].sys_errno);
        if (!strstr(rows[i].code == 0 ? w->answer : w->why.msg, rows[i].words)) {
            fail_msg("row %zu: %s%s", i, w->answer, w->why.msg);
        }
        assert_true(rows[i].words[0] || w->len == LARGE_BYTES);
    }
}

TEST_IN(stream_brings_messages_until_its_end)
{
    static const char *const reports[] = {"one", "", "three"};
    const struct grpc_unary_plan plan = {.path = w->path,
                                         .method = "/t.S/Watch",
                                         .timeout_ns = INT64_MAX,
                                         .done = on_done,
                                         .on_message = on_message,
                                         .user = w};
    w->call = grpc_unary_start(w->loop, &plan);
    while (!w->watch) {
        ev_run(w->loop, EVRUN_ONCE);
    }
    for (int i = 0; i < (int)ARRAY_LEN(reports); i++) {
        grpc_call_send(w->watch, reports[i], strlen(reports[i]));
        while (w->messages == i) {
            ev_run(w->loop, EVRUN_ONCE);
        }
        assert_string_equal(w->answer, reports[i]);
    }
    assert_int_equal(w->ended, 0);
    grpc_call_end(w->watch, GRPC_OK, "%s", "");
    ev_run(w->loop, 0);
    assert_int_equal(w->ended, 1);
    assert_int_equal(w->why.code, 0);
    assert_int_equal(w->messages, ARRAY_LEN(reports));
}

TEST(a_message_has_its_length_before_it)
{
    static const uint8_t expected[GRPC_PREFIX_BYTES] = {0, 1, 2, 3, 4};
    size_t len = 0x01020304;
    struct buf out = {.max_bytes = GRPC_PREFIX_BYTES + len};
    struct grpc_slice message;
    char *bytes = calloc(1, len);
    assert_non_null(bytes);
    assert_int_equal(grpc_put_message(&out, bytes, len, NULL), 0);
    assert_memory_equal(out.data, expected, sizeof(expected));
    assert_int_equal(grpc_first_message(&out, len, &message), GRPC_WHOLE);
    assert_int_equal(message.len, len);
    assert_int_equal(grpc_first_message(&out, len - 1, &message), GRPC_TOO_LARGE);
    out.len--;
    assert_int_equal(grpc_first_message(&out, len, &message), GRPC_PARTIAL);
    free(bytes);
    buf_fini(&out);
}

TEST(a_status_has_its_name)
{
    assert_string_equal(grpc_status_name(GRPC_OK), "OK");
    assert_string_equal(grpc_status_name(GRPC_UNAVAILABLE), "UNAVAILABLE");
    assert_string_equal(grpc_status_name(GRPC_UNAVAILABLE + 1), "CODE");
    assert_string_equal(grpc_status_name(-1), "CODE");
}

/* A socket of another kind of server, with nobody who accepts. */
static int listen_instead(struct world *w, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    grpc_server_free(TAKE(w->server));
    (void)text_copy(address.sun_path, sizeof(address.sun_path), w->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

#define BYTES(text) (text), sizeof(text) - 1
/* Frames of HTTP/2: settings, the header ":status: 200", five bytes of data. */
#define FRAMES                                                                                     \
    "\0\0\0\4\0\0\0\0\0"                                                                           \
    "\0\0\1\1\4\0\0\0\1\x88"                                                                       \
    "\0\0\5\0\0\0\0\0\1"

TEST_IN(server_that_speaks_something_else_is_an_error)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *words;
    } rows[] = {
        {BYTES("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nxxxxxxxxxxxxx"), "/s"},
        {BYTES(FRAMES "\1\0\0\0\0"), "INTERNAL: the answer is compressed, malformed or too large"},
        {BYTES(FRAMES "\2\0\0\0\0"), "INTERNAL: the answer is compressed, malformed or too large"},
    };
    int fd = listen_instead(w, 1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        w->ended = 0;
        start(w, "/t.S/Echo", 10 * NS_PER_SEC);
        ev_run(w->loop, EVRUN_ONCE);
        int peer = accept(fd, NULL, NULL);
        assert_true(peer >= 0);
        assert_int_equal(send(peer, rows[i].bytes, rows[i].len, 0), rows[i].len);
        ev_run(w->loop, 0);
        (void)close(peer);
        assert_int_equal(w->ended, 1);
        assert_int_equal(w->why.code, ERR_RETRY);
        if (!strstr(w->why.msg, rows[i].words)) {
            fail_msg("row %zu: %s", i, w->why.msg);
        }
    }
    (void)close(fd);
}

static void on_stop(struct ev_loop *loop, ev_timer *timer, int events)
{
    ev_break(loop, EVBREAK_ALL);
}

/* For a command: in the loop that has the server, too. */
TEST_IN(asking_waits_for_the_answer_or_for_who_breaks_it_off)
{
    struct buf answer = {.max_bytes = GRPC_UNARY_REPLY_MAX_BYTES};
    struct err e = ERR_INIT;
    ev_timer stop;
    struct grpc_unary_plan plan = {.path = w->path,
                                   .method = "/t.S/Echo",
                                   .message = {.bytes = (const uint8_t *)"hello", .len = 5},
                                   .timeout_ns = 10 * NS_PER_SEC};
    assert_int_equal(grpc_unary_ask(w->loop, &plan, &answer, &e), 0);
    assert_string_equal(buf_text(&answer), "hello");
    plan.method = "/t.S/Hang";
    plan.timeout_ns = 50 * NS_PER_MS;
    assert_int_equal(grpc_unary_ask(w->loop, &plan, &answer, &e), ERR_RETRY);
    assert_int_equal(e.sys_errno, ETIMEDOUT);
    plan.timeout_ns = INT64_MAX;
    ev_timer_init(&stop, on_stop, 0.05, 0.);
    ev_timer_start(w->loop, &stop);
    assert_int_equal(grpc_unary_ask(w->loop, &plan, &answer, &e), ERR_GONE);
    buf_fini(&answer);
}

TEST_IN(missing_socket_is_told_at_once)
{
    grpc_server_free(TAKE(w->server));
    call(w, "/t.S/Echo", NS_PER_SEC);
    assert_int_equal(w->why.code, ERR_NOTFOUND);
    assert_int_equal(w->why.sys_errno, ENOENT);
}

TEST_IN(server_that_ends_in_between_is_told)
{
    start(w, "/t.S/Hang", 10 * NS_PER_SEC);
    for (int i = 0; i < 20; i++) {
        ev_run(w->loop, EVRUN_NOWAIT);
    }
    grpc_server_free(TAKE(w->server));
    ev_run(w->loop, 0);
    assert_int_equal(w->ended, 1);
    assert_int_equal(w->why.code, ERR_RETRY);
}

TEST_IN(call_that_is_cancelled_after_any_step_says_nothing)
{
    for (int steps = 0; w->ended == 0; steps++) {
        start(w, "/t.S/Echo", 10 * NS_PER_SEC);
        for (int i = 0; i < steps && w->ended == 0; i++) {
            ev_run(w->loop, EVRUN_ONCE);
        }
        bool is_over = w->ended > 0;
        grpc_unary_cancel(w->call); /* NULL then */
        for (int i = 0; i < 20; i++) {
            ev_run(w->loop, EVRUN_NOWAIT);
        }
        assert_int_equal(w->ended, is_over);
        assert_true(steps < 1000);
    }
}

/* A listener with no room left for another connection must not hold up the loop. */
TEST_IN(full_backlog_is_told_at_once)
{
    int fd = listen_instead(w, 0);
    start(w, "/t.S/Echo", 100 * NS_PER_SEC);
    ev_run(w->loop, EVRUN_NOWAIT);
    struct grpc_unary *first = w->call;
    call(w, "/t.S/Echo", 5 * NS_PER_SEC);
    assert_int_equal(w->why.code, ERR_RETRY);
    /* libcurl 7.81 takes it for a connection under way, and waits for the time limit. */
    bool is_told = curl_version_info(CURLVERSION_NOW)->version_num >= 0x075500;
    assert_true(!is_told || w->why.sys_errno != ETIMEDOUT);
    grpc_unary_cancel(first);
    (void)close(fd);
}
