/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, what is expected of OVS and OVN, and questions over a real socket, to servers that
 * answer well, badly, endlessly and never. */
#include "probe/ovs_rpc.h"

#include "base/attr.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "rpc_server.h"
#include "tests/support/case.h"

#include <ev.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- messages -------------------------------------------------------------------------------- */

static enum rpc_kind read_kind(const char *text, size_t len, bool is_end, size_t *out_len)
{
    struct rpc_message m;
    enum rpc_kind kind = rpc_message_read(text, len, is_end, &m, out_len);
    if (kind > RPC_INVALID) {
        json_decref(m.object);
    }
    return kind;
}

TEST(objects_back_to_back_are_cut_apart)
{
    static const char stream[] =
        "{\"id\":0,\"error\":\"}{\"} \n{\"id\":0,\"result\":[{\"c\":\"\\\"}\"}]}"
        "{\"method\":\"a\"}";
    static const char *const objects[] = {"{\"id\":0,\"error\":\"}{\"}",
                                          " \n{\"id\":0,\"result\":[{\"c\":\"\\\"}\"}]}",
                                          "{\"method\":\"a\"}"};
    const char *at = stream;
    for (size_t i = 0; i < ARRAY_LEN(objects); i++) {
        size_t len = 0;
        for (size_t given = 0; given < strlen(objects[i]); given++) { /* a byte more each time */
            assert_int_equal(read_kind(at, given, false, &len), RPC_MORE);
        }
        assert_int_equal(read_kind(at, strlen(at), false, &len), i == 2 ? RPC_NOTICE : RPC_REPLY);
        assert_int_equal(len, strlen(objects[i]));
        at += len;
    }
    assert_string_equal(at, "");
}

TEST(what_begins_like_no_object_is_refused_at_once)
{
    static const char *const rows[] = {"x", "[]", "  HTTP/1.1 200", "\"a\"", "1", "}", "\x80"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len;
        assert_int_equal(read_kind(rows[i], strlen(rows[i]), false, &len), RPC_INVALID);
    }
}

static struct rpc_message read_message(const char *text)
{
    struct rpc_message m;
    size_t len;
    enum rpc_kind kind = rpc_message_read(text, strlen(text), false, &m, &len);
    if (kind <= RPC_INVALID) {
        fail_msg("'%s': kind %d", text, kind);
    }
    return m;
}

TEST(kinds_are_told_apart)
{
    static const struct {
        const char *text;
        enum rpc_kind kind;
        bool has_error;
    } rows[] = {
        {"{\"id\":0,\"result\":\"br-int\\n\",\"error\":null}", RPC_REPLY, false},
        {"{\"id\":0,\"result\":null,\"error\":null}", RPC_REPLY, false},
        {"{\"id\":0,\"error\":\"no such command\"}", RPC_REPLY, true},
        {"{\"id\":0,\"error\":{\"error\":\"unknown database\"}}", RPC_REPLY, true},
        {"{\"id\":\"echo\",\"method\":\"echo\",\"params\":[]}", RPC_ECHO, false},
        {"{\"id\":null,\"method\":\"echo\",\"params\":[]}", RPC_NOTICE, false},
        {"{\"id\":null,\"method\":\"update\",\"params\":[null,{}]}", RPC_NOTICE, false},
        {"{\"id\":7,\"method\":\"steal\",\"params\":[]}", RPC_NOTICE, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_message m;
        size_t len;
        enum rpc_kind kind = rpc_message_read(rows[i].text, strlen(rows[i].text), true, &m, &len);
        if (kind != rows[i].kind || (m.error != NULL) != rows[i].has_error) {
            fail_msg("row %zu: kind %d", i, kind);
        }
        json_decref(m.object);
    }
}

TEST(nonsense_is_no_message)
{
    static const char *const rows[] = {"{}",
                                       "{\"id\":0}",
                                       "{\"result\":1}",
                                       "{\"id\":0,\"error\":null}",
                                       "{\"id\":0,\"result\":\"a\\u0000\"}",
                                       "{\"id\":0,\"result\":1]}"};
    static const char with_nul[] = "{\"id\":0,\"result\":null\0}";
    size_t ignored;
    assert_int_equal(read_kind(with_nul, sizeof(with_nul) - 1, false, &ignored), RPC_INVALID);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len;
        assert_int_equal(read_kind(rows[i], strlen(rows[i]), false, &len), RPC_INVALID);
    }
}

/* ---- databases ------------------------------------------------------------------------------- */

#define ROW(map) "{\"id\":0,\"error\":null,\"result\":[{\"rows\":[{\"options\":" map "}]}]}"

TEST(a_value_is_read_from_the_map_of_the_only_row)
{
    static const struct {
        const char *text;
        enum probe_outcome outcome;
        const char *value; /* or what the words hold */
    } rows[] = {
        {ROW("[\"map\",[[\"a\",\"1\"],[\"key\",\"v\\\"\"]]]"), PROBE_PASSED, "v\""},
        {ROW("[\"map\",[]]"), PROBE_PASSED, ""},
        {ROW("[\"map\",[[\"keys\",\"v\"]]]"), PROBE_PASSED, ""},
        {ROW("[\"map\",[[\"key\",\"123456789\"]]]"), PROBE_WRONG, "cannot be used"},
        {ROW("[\"map\",[[\"key\",7]]]"), PROBE_WRONG, "cannot be used"},
        {ROW("[\"set\",[]]"), PROBE_WRONG, "without the row"},
        {ROW("{}"), PROBE_WRONG, "without the row"},
        {"{\"id\":0,\"result\":[{\"rows\":[]}],\"error\":null}", PROBE_WRONG, "without the row"},
        {"{\"id\":0,\"result\":[],\"error\":null}", PROBE_WRONG, "without the row"},
        {"{\"id\":0,\"result\":[{\"error\":\"syntax error\"}],\"error\":null}", PROBE_WRONG,
         "syntax error"},
        {"{\"id\":0,\"error\":{\"error\":\"unknown database\"}}", PROBE_WRONG, "unknown database"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(rpc_message) struct rpc_message m = read_message(rows[i].text);
        char words[PROBE_WORDS_BYTES] = "";
        char value[8] = "?";
        enum probe_outcome outcome =
            ovsdb_reply_value(&m, "options", "key", value, sizeof(value), words);
        const char *seen = outcome == PROBE_PASSED ? value : strstr(words, rows[i].value);
        if (outcome != rows[i].outcome || !seen ||
            (outcome == PROBE_PASSED && strcmp(seen, rows[i].value) != 0)) {
            fail_msg("row %zu: %d '%s' '%s'", i, outcome, value, words);
        }
    }
}

/* ---- services -------------------------------------------------------------------------------- */

#define OK(result) "{\"id\":0,\"result\":" result ",\"error\":null}"
#define AT(n)      ((struct mono){(n)*NS_PER_SEC})

TEST(answers_follow_the_table)
{
    static const struct {
        const char *service;
        size_t question;
        const char *reply;
        const char *words; /* NULL: passes */
    } rows[] = {
        {"ovsdb", 0, OK("[\"Open_vSwitch\",\"_Server\"]"), NULL},
        {"ovsdb", 0, OK("[\"OVN_Southbound\"]"), "'Open_vSwitch' is not among"},
        {"ovsdb", 0, OK("[\"Open_vSwitch2\"]"), "'Open_vSwitch' is not among"},
        {"ovsdb", 0, OK("[[\"Open_vSwitch\"]]"), "not among"},
        {"ovsdb", 0, OK("{\"a\":\"Open_vSwitch\"}"), "not among"},
        {"ovsdb", 0, OK("\"Open_vSwitch\""), "not among"},
        {"ovsdb", 0, "{\"id\":0,\"error\":\"unknown method\"}", "unknown method"},
        {"ovn-nb", 0, OK("[\"OVN_Northbound\"]"), NULL},
        {"ovn-nb", 0, OK("[\"OVN_Southbound\"]"), "not among"},
        {"ovn-sb", 0, OK("[\"OVN_Southbound\"]"), NULL},
        {"vswitchd", 0, OK("\"br-int\\n\""), NULL},
        {"vswitchd", 0, OK("\"br-ex\\nbr-int\\nbr-z\\n\""), NULL},
        {"vswitchd", 0, OK("\"\""), "'ofproto/list' answers '' instead of 'br-int'"},
        {"vswitchd", 0, OK("\"br-int2\\nxbr-int\\n\""), "instead of 'br-int'"},
        {"vswitchd", 0, "{\"id\":0,\"error\":\"\\\"x\\\" is not a valid command\"}",
         "not a valid command"},
        {"vswitchd", 0, OK("[\"br-int\"]"), "is answered with"},
        {"vswitchd", 0, OK("null"), "is answered with"},
        {"ovn-northd", 0, OK("\"Status: active\\n\""), NULL},
        {"ovn-northd", 0, OK("\"Status: standby\\n\""), "'Status: standby' instead of"},
        {"ovn-northd", 1, OK("\"connected\\n\""), NULL},
        {"ovn-northd", 1, OK("\"not connected\\n\""), "nb-connection-status' answers 'not conn"},
        {"ovn-northd", 2, OK("\"not connected\\n\""), "sb-connection-status"},
        {"ovn-controller", 0, OK("\"connected\\n\""), NULL},
        {"ovn-controller", 0, OK("\"not connected\\n\""), "'not connected' instead of"},
        {"ovn-controller", 1, OK("\"17\\n\""), NULL},
        {"ovn-controller", 1, OK("\"0\\n\""), "computed no flows"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(rpc_message) struct rpc_message m = read_message(rows[i].reply);
        char words[PROBE_WORDS_BYTES] = "";
        const struct service *service = service_find(rows[i].service, strlen(rows[i].service));
        enum probe_outcome outcome = service_judge(service, rows[i].question, "br-int", &m, words);
        if (outcome != (rows[i].words ? PROBE_WRONG : PROBE_PASSED) ||
            (rows[i].words && !strstr(words, rows[i].words))) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(outcome), words);
        }
    }
}

TEST(a_name_without_end_is_none_of_a_bridge)
{
    char reply[20000] = "{\"id\":0,\"result\":\"br-int\\n";
    char words[PROBE_WORDS_BYTES] = "";
    size_t used = strlen(reply);
    memset(reply + used, 'b', sizeof(reply) - used);
    memcpy(reply + sizeof(reply) - 15, "\",\"error\":null}", 15);
    CLEANUP(rpc_message) struct rpc_message m;
    size_t len;
    assert_int_equal(rpc_message_read(reply, sizeof(reply), false, &m, &len), RPC_REPLY);
    const struct service *vswitchd = service_find("vswitchd", 8);
    assert_int_equal(service_judge(vswitchd, 0, "br-int", &m, words), PROBE_PASSED);
    assert_int_equal(service_judge(vswitchd, 0, "br-ex", &m, words), PROBE_WRONG);
}

/* As long a list as one message of ovs-vswitchd may be. */
TEST(a_bridge_is_found_behind_thousands_of_others)
{
    static char reply[64 << 10];
    const char end[] = "br-int\\n\",\"error\":null}";
    char words[PROBE_WORDS_BYTES] = "";
    size_t used = (size_t)snprintf(reply, sizeof(reply), "{\"id\":0,\"result\":\"");
    for (unsigned i = 0; used + 32 + sizeof(end) < sizeof(reply); i++) {
        used += (size_t)snprintf(reply + used, sizeof(reply) - used, "br-tenant-%05u\\n", i);
    }
    memcpy(reply + used, end, sizeof(end));
    CLEANUP(rpc_message) struct rpc_message m = read_message(reply);
    const struct service *vswitchd = service_find("vswitchd", 8);
    assert_int_equal(service_judge(vswitchd, 0, "br-int", &m, words), PROBE_PASSED);
    assert_int_equal(service_judge(vswitchd, 0, "br-tenant-03000", &m, words), PROBE_PASSED);
    assert_int_equal(service_judge(vswitchd, 0, "br-in", &m, words), PROBE_WRONG);
    assert_non_null(strstr(words, "'ofproto/list' answers 'br-tenant-00000"));
}

TEST(every_service_has_a_name_a_socket_and_patience)
{
    for (size_t i = 0; i < SERVICE_COUNT; i++) {
        const struct service *s = service_at(i);
        assert_ptr_equal(service_find(s->name, strlen(s->name)), s);
        assert_true((s->socket != NULL) != (s->daemon != NULL));
        assert_non_null(s->questions[0].method);
        assert_true(s->timeout_ns > 0 && s->interval_ns > 0);
        assert_true(s->patience_ns[PROBE_SILENT] >= s->timeout_ns);
        assert_true(s->patience_ns[PROBE_MISSING] >= s->patience_ns[PROBE_REFUSED]);
    }
    assert_null(service_find("ovs", 3));
    assert_null(service_find("", 0));
}

/* ---- the beat -------------------------------------------------------------------------------- */

static enum probe_outcome beat(struct service_beat *b, int64_t at_s, const char *value, char *words)
{
    char text[200];
    (void)snprintf(text, sizeof(text),
                   OK("[{\"rows\":[{\"options\":[\"map\",[[\"%s\",\"%s\"]]]}]}]"),
                   value ? "e2e_timestamp" : "other", value ? value : "1");
    CLEANUP(rpc_message) struct rpc_message m = read_message(text);
    /* The wall clock began at 1000 s. */
    return service_beat_step(b, &m, AT(at_s), (struct wall){(1000 + at_s) * NS_PER_SEC}, words);
}

TEST(beat_is_judged_by_its_changes)
{
    static const struct {
        int64_t at_s;
        const char *value;
        enum probe_outcome outcome;
    } rows[] = {
        {5, "100", PROBE_UNKNOWN}, /* old: it may be of a former life */
        {20, "100", PROBE_UNKNOWN}, {35, "130", PROBE_PASSED},  {154, "130", PROBE_PASSED},
        {155, "130", PROBE_WRONG},                              /* 120 s without a change */
        {170, "130", PROBE_WRONG},  {185, "100", PROBE_PASSED}, /* a change is a change: the wall
                                                                   clock may go back */
        {200, NULL, PROBE_PASSED}, /* a database made anew has none for a while */
        {215, "160", PROBE_PASSED}, {230, NULL, PROBE_PASSED},  {335, NULL, PROBE_WRONG},
        {350, "190", PROBE_PASSED},
    };
    struct service_beat b = {.limit_ns = 120 * NS_PER_SEC};
    char words[PROBE_WORDS_BYTES] = "";
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum probe_outcome outcome = beat(&b, rows[i].at_s, rows[i].value, words);
        if (outcome != rows[i].outcome) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(outcome), words);
        }
    }
}

TEST(only_the_first_value_vouches_by_its_age)
{
    static const struct {
        const char *value;
        enum probe_outcome outcome;
    } rows[] = {
        {"1000", PROBE_PASSED},  {"881", PROBE_PASSED},   {"880", PROBE_UNKNOWN},
        {"1001", PROBE_UNKNOWN}, {"soon", PROBE_UNKNOWN}, {"9223372036854775807", PROBE_UNKNOWN},
        {NULL, PROBE_UNKNOWN},
    };
    char words[PROBE_WORDS_BYTES] = "";
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct service_beat b = {.limit_ns = 120 * NS_PER_SEC};
        assert_int_equal(beat(&b, 0, rows[i].value, words), rows[i].outcome);
        assert_int_equal(beat(&b, 120, rows[i].value, words), PROBE_WRONG);
        assert_non_null(strstr(words, "120s"));
    }
}

TEST(an_answer_that_is_none_is_no_beat)
{
    struct service_beat b = {.limit_ns = 120 * NS_PER_SEC};
    CLEANUP(rpc_message) struct rpc_message m = read_message(OK("[]"));
    char words[PROBE_WORDS_BYTES] = "";
    assert_int_equal(service_beat_step(&b, &m, AT(0), (struct wall){0}, words), PROBE_WRONG);
    assert_false(b.has_begun);
}

/* ---- connections ----------------------------------------------------------------------------- */

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
    struct ovsdb_ask *ask;
    assert_int_equal(
        ovsdb_ask_new(room->loop, room->path, timeout_ms * NS_PER_MS, on_answer, room, &ask, NULL),
        0);
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

TEST_WITH(answers_are_told_apart, open_room, close_room)
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
        {"{\"id\":\"0\",\"result\":[]}", false, PROBE_WRONG, "asked by somebody else"},
        {"{\"id\":0.0,\"result\":[]}", false, PROBE_WRONG, "asked by somebody else"},
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

TEST_WITH(the_servers_own_echo_is_answered, open_room, close_room)
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

TEST_WITH(a_server_that_says_nothing_is_silent_at_the_deadline, open_room, close_room)
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
TEST_WITH(a_server_that_never_ends_is_left, open_room, close_room)
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

TEST_WITH(echo_requests_without_end_are_left_too, open_room, close_room)
{
    struct room *room = *state;
    struct rpc_server server = {.answer = ECHO, .left = SIZE_MAX};
    assert_true(rpc_server_open(room->loop, room->path, &server));
    ask_twice(room, 3600 * 1000);
    assert_int_equal(room->outcome, PROBE_WRONG);
    rpc_server_close(room->loop, &server);
}

TEST_WITH(without_a_server_the_reason_is_named, open_room, close_room)
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

TEST_WITH(a_stopped_server_is_silent_even_when_its_backlog_is_full, open_room, close_room)
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

TEST_WITH(a_path_that_is_too_long_is_refused, open_room, close_room)
{
    struct room *room = *state;
    char path[200];
    memset(path, 'p', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    struct ovsdb_ask *ask;
    assert_int_equal(ovsdb_ask_new(room->loop, path, 1, on_answer, room, &ask, NULL), ERR_LIMIT);
    ovsdb_ask_free(NULL);
}
