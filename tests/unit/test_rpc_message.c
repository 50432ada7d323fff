/* SPDX-License-Identifier: Apache-2.0 */
/* Framing, messages and OVSDB's answers. */
#include "probe/ovsdb_reply.h"
#include "probe/rpc_frame.h"
#include "probe/rpc_message.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- framing --------------------------------------------------------------------------------- */

static void objects_back_to_back_are_cut_apart(void **state)
{
    static const char stream[] = "{\"a\":\"}{\"} \n{\"b\":[{\"c\":\"\\\"}\"}]}{}";
    static const char *const objects[] = {"{\"a\":\"}{\"}", " \n{\"b\":[{\"c\":\"\\\"}\"}]}", "{}"};
    struct rpc_frame f = {.scanned = 0};
    const char *at = stream;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(objects); i++) {
        size_t len = 0;
        for (size_t given = 0; given < strlen(objects[i]); given++) { /* a byte more each time */
            assert_int_equal(rpc_frame_find(&f, at, given, &len), RPC_FRAME_MORE);
        }
        assert_int_equal(rpc_frame_find(&f, at, strlen(at), &len), RPC_FRAME_DONE);
        assert_int_equal(len, strlen(objects[i]));
        assert_memory_equal(at, objects[i], len);
        at += len;
    }
    assert_string_equal(at, "");
}

static void what_begins_like_no_object_is_refused_at_once(void **state)
{
    static const char *const rows[] = {"x", "[]", "  HTTP/1.1 200", "\"a\"", "1", "}", "\x80"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_frame f = {.scanned = 0};
        size_t len;
        assert_int_equal(rpc_frame_find(&f, rows[i], strlen(rows[i]), &len), RPC_FRAME_INVALID);
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct rpc_message read_message(const char *text)
{
    struct rpc_message m;
    struct err e = ERR_INIT;
    if (rpc_message_read(text, strlen(text), &m, &e) != 0) {
        fail_msg("'%s': %s", text, e.msg);
    }
    return m;
}

static void kinds_are_told_apart(void **state)
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
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_message m = read_message(rows[i].text);
        if (m.kind != rows[i].kind || (m.error.at != NULL) != rows[i].has_error) {
            fail_msg("row %zu: kind %d", i, m.kind);
        }
    }
}

static void nonsense_is_no_message(void **state)
{
    static const char *const rows[] = {"",
                                       "{",
                                       "[]",
                                       "{}",
                                       "{\"id\":0}",
                                       "{\"result\":1}",
                                       "{\"id\":0,\"error\":null}",
                                       "{\"id\":0,\"result\":1]"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_message m;
        assert_int_not_equal(rpc_message_read(rows[i], strlen(rows[i]), &m, NULL), 0);
    }
}

static void an_id_is_ours_only_as_the_same_number(void **state)
{
    struct rpc_message m = read_message("{\"id\":12,\"result\":1}");
    (void)state;
    assert_true(rpc_message_has_id(&m, 12));
    assert_false(rpc_message_has_id(&m, 1));
    m = read_message("{\"id\":\"12\",\"result\":1}");
    assert_false(rpc_message_has_id(&m, 12));
    m = read_message("{\"id\":12.0,\"result\":1}");
    assert_false(rpc_message_has_id(&m, 12));
}

static void questions_and_echoes_are_written_whole_or_not_at_all(void **state)
{
    static const char question[] = "{\"id\":3,\"method\":\"ofproto/list\",\"params\":[\"x\"]}";
    static const char answer[] = "{\"id\":\"echo\",\"result\":[1,{\"a\":2}],\"error\":null}";
    struct rpc_message m =
        read_message("{\"id\":\"echo\",\"method\":\"echo\",\"params\":[1,{\"a\":2}]}");
    char out[100];
    (void)state;
    assert_int_equal(rpc_message_ask(3, "ofproto/list", "[\"x\"]", out, sizeof(out)),
                     sizeof(question) - 1);
    assert_memory_equal(out, question, sizeof(question) - 1);
    assert_int_equal(rpc_message_ask(3, "ofproto/list", "[\"x\"]", out, sizeof(question) - 2), 0);
    assert_int_equal(rpc_message_answer_echo(&m, out, sizeof(out)), sizeof(answer) - 1);
    assert_memory_equal(out, answer, sizeof(answer) - 1);
    assert_int_equal(rpc_message_answer_echo(&m, out, sizeof(answer) - 2), 0);
}

/* ---- OVSDB ----------------------------------------------------------------------------------- */

static void a_database_is_found_by_its_whole_name(void **state)
{
    static const struct {
        const char *text;
        enum probe_outcome outcome;
        const char *words;
    } rows[] = {
        {"{\"id\":0,\"result\":[\"Open_vSwitch\",\"_Server\"],\"error\":null}", PROBE_PASSED, ""},
        {"{\"id\":0,\"result\":[\"Open_vSwitch2\"],\"error\":null}", PROBE_WRONG,
         "'Open_vSwitch' is not among"},
        {"{\"id\":0,\"result\":[[\"Open_vSwitch\"]],\"error\":null}", PROBE_WRONG, "not among"},
        {"{\"id\":0,\"result\":{\"a\":\"Open_vSwitch\"},\"error\":null}", PROBE_WRONG, "not among"},
        {"{\"id\":0,\"result\":\"Open_vSwitch\",\"error\":null}", PROBE_WRONG, "not among"},
        {"{\"id\":0,\"error\":\"unknown method\"}", PROBE_WRONG, "unknown method"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_message m = read_message(rows[i].text);
        char words[PROBE_WORDS_BYTES] = "";
        enum probe_outcome outcome = ovsdb_reply_has(&m, "Open_vSwitch", words);
        if (outcome != rows[i].outcome || !strstr(words, rows[i].words)) {
            fail_msg("row %zu: %d '%s'", i, outcome, words);
        }
    }
}

#define ROW(map) "{\"id\":0,\"error\":null,\"result\":[{\"rows\":[{\"options\":" map "}]}]}"

static void a_value_is_read_from_the_map_of_the_only_row(void **state)
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
        {ROW("[\"map\",[[\"key\",\"a\\u0000\"]]]"), PROBE_WRONG, "cannot be used"},
        {ROW("[\"map\",[[\"key\",7]]]"), PROBE_WRONG, "cannot be used"},
        {ROW("[\"set\",[]]"), PROBE_WRONG, "without the row"},
        {ROW("{}"), PROBE_WRONG, "without the row"},
        {"{\"id\":0,\"result\":[{\"rows\":[]}],\"error\":null}", PROBE_WRONG, "without the row"},
        {"{\"id\":0,\"result\":[],\"error\":null}", PROBE_WRONG, "without the row"},
        {"{\"id\":0,\"result\":[{\"error\":\"syntax error\"}],\"error\":null}", PROBE_WRONG,
         "syntax error"},
        {"{\"id\":0,\"error\":{\"error\":\"unknown database\"}}", PROBE_WRONG, "unknown database"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_message m = read_message(rows[i].text);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_back_to_back_are_cut_apart),
        cmocka_unit_test(what_begins_like_no_object_is_refused_at_once),
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(nonsense_is_no_message),
        cmocka_unit_test(an_id_is_ours_only_as_the_same_number),
        cmocka_unit_test(questions_and_echoes_are_written_whole_or_not_at_all),
        cmocka_unit_test(a_database_is_found_by_its_whole_name),
        cmocka_unit_test(a_value_is_read_from_the_map_of_the_only_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
