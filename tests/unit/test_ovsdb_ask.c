/* SPDX-License-Identifier: Apache-2.0 */
/* One question over a real socket, to servers that answer well, badly, endlessly and never. */
#include "rpc_server.h"

#include "base/attr.h"
#include "base/text.h"
#include "base/time.h"
#include "probe/ovsdb_ask.h"
#include "probe/rpc_call.h"

#include <ev.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUE                                                                                      \
    "{\"id\":0,\"error\":null,\"result\":[{\"rows\":[{\"external_ids\":[\"map\","                  \
    "[[\"host-k8s-nodename\",\"worker-1\"]]]}]}]}"
#define QUESTION                                                                                   \
    "{\"id\":0,\"method\":\"transact\",\"params\":[\"Open_vSwitch\",{\"op\":\"select\","           \
    "\"table\":\"Open_vSwitch\",\"where\":[],\"columns\":[\"external_ids\"]}]}"
#define ECHO "{\"id\":\"e\",\"method\":\"echo\",\"params\":[5]}"

struct room {
    struct ev_loop *loop;
    char dir[32];
    char path[64];
    int answers;
    enum probe_outcome outcome;
    char text[PROBE_WORDS_BYTES];
};

static void on_answer(void *user, enum probe_outcome outcome, const char *text)
{
    struct room *room = user;
    room->answers++;
    room->outcome = outcome;
    (void)text_copy(room->text, sizeof(room->text), text);
    ev_break(room->loop, EVBREAK_ALL);
}

static int open_room(void **state)
{
    struct room *room = calloc(1, sizeof(*room));
    assert_non_null(room);
    room->loop = ev_loop_new(0);
    assert_non_null(room->loop);
    memcpy(room->dir, "/tmp/dpu-ask-XXXXXX", 20);
    assert_non_null(mkdtemp(room->dir));
    (void)snprintf(room->path, sizeof(room->path), "%s/db.sock", room->dir);
    *state = room;
    return 0;
}

static int close_room(void **state)
{
    struct room *room = *state;
    (void)unlink(room->path);
    (void)rmdir(room->dir);
    ev_loop_destroy(room->loop);
    free(room);
    return 0;
}

static struct ovsdb_ask *new_ask(struct room *room, int64_t timeout_ms)
{
    struct ovsdb_question question = {.socket = room->path,
                                      .database = "Open_vSwitch",
                                      .table = "Open_vSwitch",
                                      .column = "external_ids",
                                      .key = "host-k8s-nodename",
                                      .timeout_ns = timeout_ms * NS_PER_MS};
    struct ovsdb_ask *ask;
    assert_int_equal(ovsdb_ask_new(room->loop, &question, on_answer, room, &ask, NULL), 0);
    return ask;
}

/* Asks twice: what was left over from the first must not spoil the second. */
static void ask_twice(struct room *room, int64_t timeout_ms)
{
    struct ovsdb_ask *ask = new_ask(room, timeout_ms);
    for (int i = 1; i <= 2; i++) {
        ovsdb_ask_start(ask);
        while (room->answers < i) {
            ev_run(room->loop, 0);
        }
        assert_int_equal(room->answers, i);
    }
    ovsdb_ask_free(ask);
}

static void answers_are_told_apart(void **state)
{
    static const struct {
        const char *answer;
        bool hangs_up;
        enum probe_outcome outcome;
        const char *text;
    } rows[] = {
        {VALUE, false, PROBE_PASSED, "worker-1"},
        {"  " VALUE " {", true, PROBE_PASSED, "worker-1"},
        {ECHO VALUE, false, PROBE_PASSED, "worker-1"},
        {"{\"id\":null,\"method\":\"update\",\"params\":[]}" VALUE, false, PROBE_PASSED,
         "worker-1"},
        {NULL, true, PROBE_REFUSED, "closed without an answer to 'transact'"},
        {"{\"id\":", true, PROBE_REFUSED, "closed without an answer"},
        {"SSH-2.0\r\n", false, PROBE_WRONG, "does not speak JSON-RPC"},
        {"{no}", false, PROBE_WRONG, "does not speak JSON-RPC"},
        {"{\"id\":9,\"result\":[]}", false, PROBE_WRONG, "asked by somebody else"},
        {"{\"id\":0,\"error\":\"unknown method\"}", false, PROBE_WRONG, "unknown method"},
    };
    struct room *room = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_server server = {
            .answer = rows[i].answer, .hangs_up = rows[i].hangs_up, .left = 1};
        assert_true(rpc_server_open(room->loop, room->path, &server));
        struct ovsdb_ask *ask = new_ask(room, 10000);
        room->answers = 0;
        ovsdb_ask_start(ask);
        while (room->answers < 1) {
            ev_run(room->loop, 0);
        }
        ovsdb_ask_free(ask);
        assert_true(strncmp(server.heard, QUESTION, strlen(QUESTION)) == 0);
        rpc_server_close(room->loop, &server);
        if (room->outcome != rows[i].outcome || !strstr(room->text, rows[i].text)) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(room->outcome), room->text);
        }
    }
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)timer;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

static void the_servers_own_echo_is_answered(void **state)
{
    struct room *room = *state;
    struct rpc_server server = {.answer = ECHO, .left = 1};
    ev_timer tick;
    assert_true(rpc_server_open(room->loop, room->path, &server));
    struct ovsdb_ask *ask = new_ask(room, 10000);
    ovsdb_ask_start(ask);
    ev_timer_init(&tick, on_tick, 0., 0.01);
    ev_timer_start(room->loop, &tick);
    for (int i = 0; i < 1000 && !strstr(server.heard, "\"result\""); i++) {
        ev_run(room->loop, 0);
    }
    ev_timer_stop(room->loop, &tick);
    assert_string_equal(server.heard, QUESTION "{\"id\":\"e\",\"result\":[5],\"error\":null}");
    assert_int_equal(room->answers, 0); /* it is no answer to what we asked */
    ovsdb_ask_free(ask);                /* under way */
    rpc_server_close(room->loop, &server);
}

static void a_server_that_says_nothing_is_silent_at_the_deadline(void **state)
{
    struct room *room = *state;
    struct rpc_server server = {.left = 1};
    assert_true(rpc_server_open(room->loop, room->path, &server));
    ask_twice(room, 50);
    assert_int_equal(room->outcome, PROBE_SILENT);
    assert_non_null(strstr(room->text, "gives no answer within 50ms"));
    rpc_server_close(room->loop, &server);
}

/* Without a bound on what is read these would go on until the deadline of an hour. */
static void a_server_that_never_ends_is_left(void **state)
{
    static const char *const endless[] = {"{\"a\":[", "                ",
                                          "{\"id\":null,\"method\":\"update\",\"params\":[]}"};
    struct room *room = *state;
    for (size_t i = 0; i < ARRAY_LEN(endless); i++) {
        struct rpc_server server = {.answer = endless[i], .left = SIZE_MAX};
        assert_true(rpc_server_open(room->loop, room->path, &server));
        room->answers = 0;
        ask_twice(room, 3600 * 1000);
        assert_int_equal(room->outcome, PROBE_WRONG);
        assert_non_null(strstr(room->text, "sends more than is asked for"));
        rpc_server_close(room->loop, &server);
    }
}

static void echo_requests_without_end_are_left_too(void **state)
{
    struct room *room = *state;
    struct rpc_server server = {.answer = ECHO, .left = SIZE_MAX};
    assert_true(rpc_server_open(room->loop, room->path, &server));
    ask_twice(room, 3600 * 1000);
    assert_int_equal(room->outcome, PROBE_WRONG);
    rpc_server_close(room->loop, &server);
}

static void without_a_server_the_reason_is_named(void **state)
{
    struct room *room = *state;
    ask_twice(room, 1000);
    assert_int_equal(room->outcome, PROBE_MISSING);
    struct rpc_server server = {.left = 1};
    assert_true(rpc_server_open(room->loop, room->path, &server));
    ev_io_stop(room->loop, &server.acceptable);
    (void)close(server.listener); /* a stale socket */
    room->answers = 0;
    ask_twice(room, 1000);
    assert_int_equal(room->outcome, PROBE_REFUSED);
    assert_non_null(strstr(room->text, room->path));
}

static void a_stopped_server_is_silent_even_when_its_backlog_is_full(void **state)
{
    struct room *room = *state;
    struct rpc_server server = {.left = 1};
    struct ovsdb_ask *asks[16];
    assert_true(rpc_server_open(room->loop, room->path, &server));
    ev_io_stop(room->loop, &server.acceptable); /* as SIGSTOP does */
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        asks[i] = new_ask(room, 3600 * 1000);
        ovsdb_ask_start(asks[i]);
    }
    assert_int_equal(room->outcome, PROBE_SILENT); /* of those that found no place */
    assert_non_null(strstr(room->text, "backlog is full"));
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        ovsdb_ask_free(asks[i]);
    }
    rpc_server_close(room->loop, &server);
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    struct room *room = *state;
    char path[200];
    memset(path, 'p', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    struct ovsdb_question question = {
        .socket = path, .database = "D", .table = "T", .column = "c", .key = "k", .timeout_ns = 1};
    struct ovsdb_ask *ask;
    assert_int_equal(ovsdb_ask_new(room->loop, &question, on_answer, room, &ask, NULL), ERR_LIMIT);
    ovsdb_ask_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_are_told_apart, open_room, close_room),
        cmocka_unit_test_setup_teardown(the_servers_own_echo_is_answered, open_room, close_room),
        cmocka_unit_test_setup_teardown(a_server_that_says_nothing_is_silent_at_the_deadline,
                                        open_room, close_room),
        cmocka_unit_test_setup_teardown(a_server_that_never_ends_is_left, open_room, close_room),
        cmocka_unit_test_setup_teardown(echo_requests_without_end_are_left_too, open_room,
                                        close_room),
        cmocka_unit_test_setup_teardown(without_a_server_the_reason_is_named, open_room,
                                        close_room),
        cmocka_unit_test_setup_teardown(a_stopped_server_is_silent_even_when_its_backlog_is_full,
                                        open_room, close_room),
        cmocka_unit_test_setup_teardown(a_path_that_is_too_long_is_refused, open_room, close_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
