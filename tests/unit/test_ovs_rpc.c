/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, what is expected of OVS and OVN, and questions over a real socket, to servers that
 * answer well, badly, endlessly and never. */
#include "probe/ovs_rpc.c" /* nobody else calls it */

#include "base/err.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "probe/probe_set.h"
#include "tests/support/case.h"
#include "tests/unit/probe_world.h"

#include <ev.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- messages -------------------------------------------------------------------------------- */

static enum rpc_kind read_kind(const char *text, size_t len, bool is_end, size_t *out_len)
{
    CLEANUP(json) json_t *m = NULL;
    return rpc_message_read(text, len, is_end, &m, out_len);
}

TEST(objects_back_to_back_are_cut_apart)
{
    static const char stream[] =
        "{\"id\":0,\"error\":\"}{\"} \n{\"id\":0,\"result\":[{\"c\":\"\\\"}\"}]}{\"method\":\"a\"}";
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

static json_t *read_message(const char *text)
{
    json_t *m;
    size_t len;
    enum rpc_kind kind = rpc_message_read(text, strlen(text), false, &m, &len);
    if (kind <= RPC_INVALID) {
        fail_msg("'%s': kind %d", text, kind);
    }
    return m;
}

static const struct service *service_of(const char *text)
{
    struct probe_spec spec = {.service = NULL};
    return probe_spec_parse(text, 0, &spec, &spec, NULL) == 0 ? spec.service : NULL;
}

#define TEXT(text) (text), sizeof(text) - 1

TEST(kinds_are_told_apart)
{
    static const struct {
        const char *text;
        size_t len;
        enum rpc_kind kind;
    } rows[] = {
        {TEXT("{\"id\":0,\"result\":\"br-int\\n\",\"error\":null}"), RPC_REPLY},
        {TEXT("{\"id\":0,\"result\":null,\"error\":null}"), RPC_REPLY},
        {TEXT("{\"id\":0,\"error\":\"no such command\"}"), RPC_REPLY},
        {TEXT("{\"id\":0,\"error\":{\"error\":\"unknown database\"}}"), RPC_REPLY},
        {TEXT("{\"id\":\"echo\",\"method\":\"echo\",\"params\":[]}"), RPC_NOTICE},
        {TEXT("{\"id\":null,\"method\":\"update\",\"params\":[null,{}]}"), RPC_NOTICE},
        {TEXT("{\"id\":7,\"method\":\"steal\",\"params\":[],\"result\":1}"), RPC_NOTICE},
        {TEXT("{}"), RPC_INVALID},
        {TEXT("{\"id\":0}"), RPC_INVALID},
        {TEXT("{\"result\":1}"), RPC_INVALID},
        {TEXT("{\"id\":0,\"error\":null}"), RPC_INVALID},
        {TEXT("{\"id\":0,\"result\":\"a\\u0000\"}"), RPC_INVALID},
        {TEXT("{\"id\":0,\"result\":1]}"), RPC_INVALID},
        {TEXT("{\"id\":0,\"result\":null\0}"), RPC_INVALID},
        {TEXT("{\"id\":0,\"result\":1}\r\t \n"), RPC_REPLY},
        {TEXT("{\"id\":0,\n"), RPC_MORE},
        {TEXT(" \n"), RPC_MORE},
        /* What begins like no object is refused at once. */
        {TEXT("x"), RPC_INVALID},
        {TEXT("[]"), RPC_INVALID},
        {TEXT("  HTTP/1.1 200"), RPC_INVALID},
        {TEXT("\"a\""), RPC_INVALID},
        {TEXT("1"), RPC_INVALID},
        {TEXT("}"), RPC_INVALID},
        {TEXT("\x80"), RPC_INVALID},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len;
        print_message("row %zu\n", i);
        assert_int_equal(read_kind(rows[i].text, rows[i].len, false, &len), rows[i].kind);
    }
}

/* ---- databases ------------------------------------------------------------------------------- */

#define ROW(map) "{\"id\":0,\"error\":null,\"result\":[{\"rows\":[{\"options\":" map "}]}]}"

static const struct service_question question = {
    .method = "transact", .expected = ANSWER_VALUE, .wanted = "options", .key = "key"};

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
        {ROW("[\"map\",[[\"key\",7]]]"), PROBE_WRONG, "invalid value"},
        {ROW("[\"set\",[]]"), PROBE_WRONG, "the requested row"},
        {ROW("{}"), PROBE_WRONG, "the requested row"},
        {"{\"id\":0,\"result\":[{\"rows\":[]}],\"error\":null}", PROBE_WRONG, "the requested row"},
        {"{\"id\":0,\"result\":[],\"error\":null}", PROBE_WRONG, "the requested row"},
        {"{\"id\":0,\"result\":[{\"error\":\"syntax error\"}],\"error\":null}", PROBE_WRONG,
         "syntax error"},
        {"{\"id\":0,\"error\":{\"error\":\"unknown database\"}}", PROBE_WRONG, "unknown database"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *m = read_message(rows[i].text);
        const struct probe_answer got = service_judge(&question, "", NULL, m);
        bool is_right = got.outcome == PROBE_PASSED ? text_equal(got.words, rows[i].value)
                                                    : strstr(got.words, rows[i].value) != NULL;
        if (got.outcome != rows[i].outcome || !is_right) {
            fail_msg("row %zu: %d '%s'", i, got.outcome, got.words);
        }
    }
}

TEST(a_value_that_does_not_fit_is_wrong)
{
    char text[2 * PROBE_WORDS_BYTES];
    for (int len = PROBE_WORDS_BYTES - 1; len <= PROBE_WORDS_BYTES; len++) {
        (void)snprintf(text, sizeof(text), ROW("[\"map\",[[\"key\",\"%0*d\"]]]"), len, 7);
        CLEANUP(json) json_t *m = read_message(text);
        assert_int_equal(service_judge(&question, "", NULL, m).outcome,
                         len < PROBE_WORDS_BYTES ? PROBE_PASSED : PROBE_WRONG);
    }
}

/* ---- services -------------------------------------------------------------------------------- */

#define OK(result) "{\"id\":0,\"result\":" result ",\"error\":null}"
#define AT(n)      ((struct mono){(n)*NS_PER_SEC})

#define SERVED(row, without_schema) OK("[{\"rows\":[" row "]},{\"rows\":[" without_schema "]}]")
#define DB(connected, model)        "{\"connected\":" connected ",\"model\":\"" model "\"}"
#define NAME                        "{\"name\":\"OVN_Southbound\"}"

TEST(answers_follow_the_table)
{
    static const struct {
        const char *service;
        size_t question;
        const char *reply;
        const char *words; /* NULL: passes */
    } rows[] = {
        {"ovsdb", 0, SERVED(DB("true", "standalone"), ""), NULL},
        {"ovn-nb", 0, SERVED(DB("true", "clustered"), ""), NULL},
        {"ovn-sb", 0, SERVED(DB("true", "relay"), ""), NULL},
        {"ovsdb", 0, SERVED("", ""), "does not serve database 'Open_vSwitch'"},
        {"ovn-nb", 0, SERVED("", ""), "does not serve database 'OVN_Northbound'"},
        {"ovn-sb", 0, SERVED(DB("false", "clustered"), NAME),
         "'OVN_Southbound' has not joined its cluster"},
        {"ovn-sb", 0, SERVED(DB("false", "clustered"), ""), "has lost its quorum"},
        {"ovn-sb", 0, SERVED(DB("false", "relay"), ""), "has lost its source"},
        {"ovn-sb", 0, SERVED(DB("false", "relay"), NAME), "has not reached its source"},
        {"ovn-sb", 0, SERVED(DB("false", "new"), ""), "is not connected"},
        {"ovn-sb", 0, SERVED("{\"connected\":false,\"model\":1}", ""), "is not connected"},
        {"ovn-sb", 0, SERVED(DB("true", "clustered"), NAME), "has no schema"},
        {"ovn-sb", 0, SERVED(DB("\"true\"", "standalone"), ""), "does not tell what it serves"},
        {"ovn-sb", 0, SERVED("{\"model\":\"standalone\"}", ""), "does not tell"},
        {"ovn-sb", 0, OK("[{\"rows\":[" DB("true", "standalone") "]}]"), "does not tell"},
        {"ovsdb", 0, OK("[{\"error\":\"syntax error\"},null]"), "syntax error"},
        {"ovsdb", 0, OK("[\"Open_vSwitch\",\"_Server\"]"), "does not tell"},
        {"ovsdb", 0, OK("null"), "does not tell"},
        {"ovsdb", 0, "{\"id\":0,\"error\":\"unknown method\"}", "unknown method"},
        {"vswitchd", 0, OK("\"br-int\\n\""), NULL},
        {"vswitchd", 0, OK("\"br-ex\\nbr-int\\nbr-z\\n\""), NULL},
        {"vswitchd", 0, OK("\"\""), "'ofproto/list' answers '' instead of 'br-int'"},
        {"vswitchd", 0, OK("\"br-int2\\nxbr-int\\n\""), "instead of 'br-int'"},
        {"vswitchd", 0,
         "{\"id\":0,\"error\":\"\\\"ofproto/list\\\" is not a valid command (use x)\\n\"}",
         "it waits for its database: 'ofproto/list' is not yet a command"},
        {"vswitchd", 0, "{\"id\":0,\"error\":\"\\\"a\\\" takes at most 0 arguments\\n\"}",
         "the answer to 'ofproto/list' is an error: '\"a\" takes at most 0 arguments'"},
        {"ovn-northd", 0, "{\"id\":0,\"error\":\"\\\"status\\\" is not a valid command\"}",
         "is an error: '\"status\" is not a valid command'"},
        {"vswitchd", 0, OK("[\"br-int\"]"), "the answer to"},
        {"vswitchd", 0, OK("null"), "the answer to"},
        {"ovn-northd", 0, OK("\"Status: active\\n\""), NULL},
        {"ovn-northd", 0, OK("\"Status: standby\\n\""), "'Status: standby' instead of"},
        {"ovn-northd", 1, OK("\"connected\\n\""), NULL},
        {"ovn-northd", 1, OK("\"not connected\\n\""), "nb-connection-status' answers 'not conn"},
        {"ovn-northd", 2, OK("\"not connected\\n\""), "sb-connection-status"},
        {"ovn-controller", 0, OK("\"connected\\n\""), NULL},
        {"ovn-controller", 0, OK("\"not connected\\n\""), "'not connected' instead of"},
        {"ovn-controller", 1, OK("\"running\\n\""), NULL},
        {"ovn-controller", 1, OK("\"paused\\n\""), "'paused' instead of 'running'"},
        {"ovn-controller", 2, OK("\"17\\n\""), NULL},
        {"ovn-controller", 2, OK("\"0\\n\""), "computed no flows"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *m = read_message(rows[i].reply);
        const struct service *service = service_of(rows[i].service);
        const struct probe_answer got =
            service_judge(&service->questions[rows[i].question], "br-int", NULL, m);
        if (got.outcome != (rows[i].words ? PROBE_WRONG : PROBE_PASSED) ||
            (rows[i].words && !strstr(got.words, rows[i].words))) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(got.outcome), got.words);
        }
    }
}

TEST(each_bridge_that_a_network_is_mapped_to_must_be_there)
{
    static const struct {
        const char *mappings;
        const char *missing; /* NULL: none */
    } rows[] = {
        {"", NULL},
        {"physnet:br-ex", NULL},
        {"physnet:br-ex,blue:br-blue", NULL},
        {"physnet:br-ex,red:br-red,no:br-no", "no bridge 'br-red'"},
        {"physnet:br-e", "no bridge 'br-e'"},
        {"physnet:", NULL},
        {"physnet,,:br-ex,:", NULL},
        {",a:b", "no bridge 'b'"},
        {"a:1234567890123456789012345678901234567890123456789012345678901234", NULL}, /* no name */
        {"a:123456789012345678901234567890123456789012345678901234567890123", "no bridge '1234"},
        {"a:b\nc", "no bridge 'b c'"},
    };
    const struct service_question *q = &service_of("vswitchd")->questions[2];
    CLEANUP(json) json_t *list = read_message(OK("\"br-int\\nbr-ex\\nbr-blue\\n\""));
    CLEANUP(json) json_t *error = read_message("{\"id\":0,\"error\":\"x\"}");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json)
        json_t *ids = json_pack("[s, [[s, s]]]", "map", "ovn-bridge-mappings", rows[i].mappings);
        const struct probe_answer got = service_judge(q, "br-int", ids, list);
        if (got.outcome != (rows[i].missing ? PROBE_WRONG : PROBE_PASSED) ||
            (rows[i].missing && !strstr(got.words, rows[i].missing))) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(got.outcome), got.words);
        }
    }
    assert_int_equal(service_judge(q, "br-int", NULL, list).outcome, PROBE_PASSED);
    assert_int_equal(service_judge(q, "br-int", NULL, error).outcome, PROBE_WRONG);
}

TEST(what_is_mapped_for_the_chassis_overrides_what_is_mapped_for_all)
{
    static const struct {
        const char *all;
        const char *key;
        const char *own;
        const char *missing; /* NULL: none */
    } rows[] = {
        {"a:no", "ovn-bridge-mappings-dpu-1", "a:br-ex", NULL},
        {"a:no", "ovn-bridge-mappings-dpu-1", "", NULL},
        {"a:br-ex", "ovn-bridge-mappings-dpu-1", "a:own", "no bridge 'own'"},
        {"a:no", "ovn-bridge-mappings-dpu-2", "a:br-ex", "no bridge 'no'"},
        {"a:no", "ovn-bridge-mappings-", "a:br-ex", "no bridge 'no'"},
    };
    const struct service_question *q = &service_of("vswitchd")->questions[2];
    CLEANUP(json) json_t *list = read_message(OK("\"br-int\\nbr-ex\\n\""));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json)
        json_t *ids = json_pack("[s, [[s, s], [s, s], [s, s]]]", "map", "system-id", "dpu-1",
                                "ovn-bridge-mappings", rows[i].all, rows[i].key, rows[i].own);
        const struct probe_answer got = service_judge(q, "br-int", ids, list);
        if (got.outcome != (rows[i].missing ? PROBE_WRONG : PROBE_PASSED) ||
            (rows[i].missing && !strstr(got.words, rows[i].missing))) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(got.outcome), got.words);
        }
    }
}

/* ---- the chassis ----------------------------------------------------------------------------- */

#define SEEN(asked, rows, encaps, commit)                                                          \
    OK("[{\"rows\":[{\"nb_cfg\":" asked "}]},{\"rows\":[" rows "]},{\"rows\":[" encaps             \
       "]}," commit "]")
#define CHASSIS(own)     "{\"nb_cfg\":" own ",\"chassis\":[\"uuid\",\"0-1\"]}"
#define ENCAP(name)      "{\"chassis_name\":\"" name "\"}"
#define NOT_ALLOWED      "{\"error\":\"not allowed\",\"details\":\"\"}"
#define WELL(asked, own) SEEN(asked, CHASSIS(own), ENCAP("dpu-1"), "{}")

/* One look after another. */
TEST(a_chassis_is_judged_by_its_rows_and_by_their_changes)
{
    static const struct {
        const char *reply;
        const char *words; /* NULL: passes */
    } rows[] = {
        {WELL("7", "7"), NULL},
        {WELL("8", "7"), NULL}, /* just asked for */
        {WELL("9", "7"), "chassis 'dpu-1' has not followed since nb_cfg 7"},
        {WELL("9", "8"), NULL}, /* behind, and moving */
        {WELL("10", "9"), NULL},
        {WELL("10", "9"), "has not followed since nb_cfg 9"},
        {SEEN("10", CHASSIS("9"), ENCAP("dpu-1"), NOT_ALLOWED), NULL},
        {WELL("10", "10"), NULL},
        {WELL("0", "10"), NULL}, /* made anew */
        {WELL("0", "10"), "has not followed since nb_cfg 10"},
        {WELL("0", "0"), NULL},
        {SEEN("0", "", "", "{}"), "has no chassis 'dpu-1'"},
        {SEEN("0", "{\"nb_cfg\":0,\"chassis\":[\"set\",[]]}", "", "{}"), "has no chassis 'dpu-1'"},
        {SEEN("0", "{\"nb_cfg\":0}", "", "{}"), "has no chassis 'dpu-1'"},
        {SEEN("0", "", "", NOT_ALLOWED), NULL},
        {SEEN("0", "", ENCAP("former"), "{}"),
         "chassis 'former' has the encapsulation address of chassis 'dpu-1'"},
        {SEEN("0", CHASSIS("0"), ENCAP("former"), "{}"), "chassis 'former' has"},
        {SEEN("0", CHASSIS("0"), ENCAP("other") "," ENCAP("dpu-1"), "{}"), NULL}, /* by type */
        {SEEN("0", CHASSIS("0"), "", "{}"), NULL}, /* the address has just changed */
        {SEEN("0", CHASSIS("0"), "{}", "{}"), NULL},
        {SEEN("0", CHASSIS("0"), ENCAP("a\\u0001b"), "{}"), "chassis 'a b' has"},
        {OK("[{\"error\":\"syntax error\"},null,null,null]"), "does not show the chassis"},
        {OK("[]"), "does not show the chassis"},
        {"{\"id\":0,\"error\":{\"error\":\"unknown database\"}}", "does not show the chassis"},
    };
    struct service_chassis memory = {.is_known = false};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *m = read_message(rows[i].reply);
        const struct probe_answer got = service_chassis_step(&memory, "dpu-1", m);
        if (got.outcome != (rows[i].words ? PROBE_WRONG : PROBE_PASSED) ||
            (rows[i].words && !strstr(got.words, rows[i].words))) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(got.outcome), got.words);
        }
    }
}

/* Names are outside data. */
TEST(the_question_for_a_chassis_is_json_whatever_its_name)
{
    static const char *const names[] = {"dpu-1", "", "a\"],[\"b", "\\", "\xc3\xa4\n"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char text[RPC_QUESTION_BYTES];
        write_chassis_params(names[i], "10.0.0.1,10.0.0.2", text, sizeof(text));
        CLEANUP(json) json_t *params = json_loads(text, 0, NULL);
        const json_t *where = json_object_get(json_array_get(params, 2), "where");
        assert_int_equal(json_array_size(params), 5);
        assert_string_equal(json_string_value(json_array_get(json_array_get(where, 0), 2)),
                            names[i]);
        where = json_object_get(json_array_get(params, 3), "where");
        assert_string_equal(json_string_value(json_array_get(json_array_get(where, 0), 2)),
                            "10.0.0.1");
    }
}

/* ---- the beat -------------------------------------------------------------------------------- */

static struct probe_answer beat(struct service_beat *b, int64_t at_s, const char *value)
{
    char text[200];
    (void)snprintf(text, sizeof(text),
                   OK("[{\"rows\":[{\"options\":[\"map\",[[\"%s\",\"%s\"]]]}]}]"),
                   value ? "e2e_timestamp" : "other", value ? value : "1");
    CLEANUP(json) json_t *m = read_message(text);
    /* The wall clock began at 1000 s. */
    return service_beat_step(b, service_of("ovnkube")->questions, m, AT(at_s),
                             (struct wall){(1000 + at_s) * NS_PER_SEC});
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
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct probe_answer got = beat(&b, rows[i].at_s, rows[i].value);
        if (got.outcome != rows[i].outcome) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(got.outcome), got.words);
        }
    }
}

TEST(only_the_first_value_vouches_by_its_age)
{
    static const struct {
        const char *value;
        enum probe_outcome outcome;
    } rows[] = {
        {"1000", PROBE_PASSED},  {"881", PROBE_PASSED},
        {"880", PROBE_UNKNOWN},  {"1001", PROBE_UNKNOWN},
        {"soon", PROBE_UNKNOWN}, {"9223372036854775807", PROBE_UNKNOWN},
        {NULL, PROBE_UNKNOWN},   {"1000000000000000000000000000000000000000", PROBE_UNKNOWN},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct service_beat b = {.limit_ns = 120 * NS_PER_SEC};
        assert_int_equal(beat(&b, 0, rows[i].value).outcome, rows[i].outcome);
        const struct probe_answer late = beat(&b, 120, rows[i].value);
        assert_int_equal(late.outcome, PROBE_WRONG);
        assert_non_null(strstr(late.words, "120s"));
    }
}

TEST(an_answer_that_is_none_is_no_beat)
{
    struct service_beat b = {.limit_ns = 120 * NS_PER_SEC};
    CLEANUP(json) json_t *m = read_message(OK("[]"));
    assert_int_equal(
        service_beat_step(&b, service_of("ovnkube")->questions, m, AT(0), (struct wall){0}).outcome,
        PROBE_WRONG);
    assert_false(b.has_begun);
}

/* ---- connections ----------------------------------------------------------------------------- */

#define VALUE                                                                                      \
    "{\"id\":0,\"error\":null,\"result\":[{\"rows\":[{\"external_ids\":[\"map\","                  \
    "[[\"host-k8s-nodename\",\"worker-1\"]]]}]}]}"
#define QUESTION                                                                                   \
    "{\"id\":0,\"method\":\"transact\",\"params\":[\"Open_vSwitch\",{\"op\":\"select\","           \
    "\"table\":\"Open_vSwitch\",\"where\":[],\"columns\":[\"external_ids\"]}]}"

static void open_peer(struct world *w, struct peer *p, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", w->dir, name);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)unlink(address.sun_path); /* of the former one */
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    peer_open(w, p, fd);
}

/* Asks for the node's name, again and again. */
static void start_asking(struct world *w, int64_t timeout_ms)
{
    scratch_put(w->dir, "ovsdb-server.pid", "12\n");
    struct probe_spec spec = probe_spec_of_node_name(w->dir);
    spec.interval_ns = NS_PER_MS;
    spec.retry_ns = NS_PER_MS;
    spec.timeout_ns = timeout_ms * NS_PER_MS;
    assert_int_equal(probe_world_make(w, &spec, NULL), 0);
    probe_start(w->probe);
}

/* Twice: what was left over from the first answer must not spoil the second. */
static void await_answers(struct world *w, int64_t timeout_ms)
{
    start_asking(w, timeout_ms);
    probe_world_await(w, 2, PROBE_UNKNOWN);
    probe_free(TAKE(w->probe));
}

TEST_IN(answers_are_told_apart)
{
    static const struct {
        const char *answer;
        bool hangs_up;
        enum probe_outcome outcome;
        const char *text;
    } rows[] = {
        {VALUE, false, PROBE_PASSED, "worker-1"},
        {"  " VALUE " {", true, PROBE_PASSED, "worker-1"},
        {"{\"id\":\"e\",\"method\":\"echo\",\"params\":[5]}" VALUE, false, PROBE_PASSED,
         "worker-1"},
        {"{\"id\":null,\"method\":\"update\",\"params\":[]}" VALUE, false, PROBE_PASSED,
         "worker-1"},
        {NULL, true, PROBE_REFUSED, "closed without an answer to 'transact'"},
        {"{\"id\":", true, PROBE_REFUSED, "closed without an answer"},
        {"SSH-2.0\r\n", false, PROBE_WRONG, "does not speak JSON-RPC"},
        {"{no}", false, PROBE_WRONG, "does not speak JSON-RPC"},
        {"{\"id\":9,\"result\":[]}", false, PROBE_WRONG, "answers another request"},
        {"{\"id\":\"0\",\"result\":[]}", false, PROBE_WRONG, "answers another request"},
        {"{\"id\":0.0,\"result\":[]}", false, PROBE_WRONG, "answers another request"},
        {"{\"id\":0,\"error\":\"unknown method\"}", false, PROBE_WRONG, "unknown method"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct peer peer = {.answer = rows[i].answer, .hangs_up = rows[i].hangs_up, .left = 1};
        open_peer(w, &peer, "db.sock");
        start_asking(w, 10000);
        probe_world_await(w, 1, PROBE_UNKNOWN);
        probe_free(TAKE(w->probe));
        assert_true(strncmp(peer.heard, QUESTION, strlen(QUESTION)) == 0);
        peer_close(w, &peer);
        if (w->outcome != rows[i].outcome || !strstr(w->words, rows[i].text)) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(w->outcome), w->words);
        }
    }
}

/* One that no answer could meet would fail each time; a busy machine may miss it often. */
TEST_IN(the_shortest_timeout_can_be_met)
{
    struct peer peer = {.answer = VALUE, .left = 1};
    open_peer(w, &peer, "db.sock");
    start_asking(w, 10);
    for (int runs = 1; runs <= 200 && w->outcome != PROBE_PASSED; runs++) {
        peer.left = 1;
        probe_world_await(w, runs, PROBE_UNKNOWN);
    }
    probe_free(TAKE(w->probe));
    peer_close(w, &peer);
    assert_int_equal(w->outcome, PROBE_PASSED);
}

TEST_IN(a_server_that_says_nothing_is_silent_at_the_deadline)
{
    struct peer peer = {.left = 1};
    open_peer(w, &peer, "db.sock");
    await_answers(w, 50);
    assert_int_equal(w->outcome, PROBE_SILENT);
    assert_non_null(strstr(w->words, "no answer to 'transact' within 50ms"));
    peer_close(w, &peer);
}

/* Without a bound on what is read these would go on until the deadline of an hour. */
TEST_IN(a_server_that_never_ends_is_left)
{
    static const char *const endless[] = {"{\"a\":[", "                ",
                                          "{\"id\":null,\"method\":\"update\",\"params\":[]}"};
    for (size_t i = 0; i < ARRAY_LEN(endless); i++) {
        struct peer peer = {.answer = endless[i], .left = SIZE_MAX};
        open_peer(w, &peer, "db.sock");
        await_answers(w, 3600 * 1000);
        assert_int_equal(w->outcome, PROBE_WRONG);
        assert_non_null(strstr(w->words, "sends more than the probe asked for"));
        peer_close(w, &peer);
    }
}

TEST_IN(without_a_server_the_reason_is_named)
{
    await_answers(w, 1000);
    assert_int_equal(w->outcome, PROBE_MISSING);
    struct peer peer = {.left = 1};
    open_peer(w, &peer, "db.sock");
    ev_io_stop(w->loop, &peer.acceptable);
    (void)close(peer.listener); /* a stale socket */
    await_answers(w, 1000);
    assert_int_equal(w->outcome, PROBE_REFUSED);
    assert_non_null(strstr(w->words, w->dir));
}

TEST_IN(nobody_connects_to_the_place_of_a_database_that_does_not_run)
{
    struct peer peer = {.answer = VALUE};
    struct pollfd waiting = {.events = POLLIN};
    open_peer(w, &peer, "db.sock"); /* systemd's */
    ev_io_stop(w->loop, &peer.acceptable);
    struct probe_spec spec = probe_spec_of_node_name(w->dir);
    spec.retry_ns = NS_PER_MS;
    assert_int_equal(probe_world_make(w, &spec, NULL), 0);
    probe_start(w->probe);
    probe_world_await(w, 2, PROBE_MISSING);
    assert_int_equal(w->outcome, PROBE_MISSING);
    assert_non_null(strstr(w->words, "ovsdb-server.pid"));
    waiting.fd = peer.listener;
    assert_int_equal(poll(&waiting, 1, 0), 0);
    scratch_put(w->dir, "ovsdb-server.pid", "12\n");
    ev_io_start(w->loop, &peer.acceptable);
    probe_world_await(w, 3, PROBE_PASSED);
    assert_string_equal(w->words, "worker-1");
    peer_close(w, &peer);
}

TEST_IN(a_stopped_server_is_silent_even_when_its_backlog_is_full)
{
    struct peer peer = {.left = 1};
    struct probe *asks[16];
    open_peer(w, &peer, "db.sock");
    ev_io_stop(w->loop, &peer.acceptable); /* as SIGSTOP does */
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        start_asking(w, 3600 * 1000);
        asks[i] = TAKE(w->probe);
    }
    assert_int_equal(w->outcome, PROBE_SILENT); /* of those that found no place */
    assert_non_null(strstr(w->words, "backlog is full"));
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        probe_free(asks[i]);
    }
    peer_close(w, &peer);
}

TEST_IN(the_socket_of_a_daemon_is_found_by_its_pid_file)
{
    static const struct {
        const char *file; /* NULL: there is none */
        enum probe_outcome outcome;
        const char *words; /* or the end of its path */
    } rows[] = {
        {NULL, PROBE_MISSING, "d.pid': No such file"},
        {"", PROBE_MISSING, "d.pid' is empty"},
        {"12x\n", PROBE_WRONG, "does not contain a process ID"},
        {"123456789012345678901234567890123\n", PROBE_WRONG, "d.pid'"},
        {"12\n", PROBE_PASSED, "/d.12.ctl"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char path[UNIX_PATH_BYTES] = "";
        if (rows[i].file) {
            scratch_put(w->dir, "d.pid", rows[i].file);
        }
        const struct probe_answer got = find_unixctl(w->dir, "d", path);
        if (got.outcome != rows[i].outcome ||
            !strstr(got.outcome == PROBE_PASSED ? path : got.words, rows[i].words)) {
            fail_msg("row %zu: %d '%s' '%s'", i, got.outcome, got.words, path);
        }
    }
}

#define REPLY(id, text) "{\"id\":" id ",\"result\":\"" text "\\n\",\"error\":null}"
#define ACTIVE          REPLY("0", "Status: active") REPLY("1", "connected")

TEST_IN(a_daemon_is_asked_all_questions_and_judged_by_each)
{
    static const struct {
        const char *answer;
        bool hangs_up;
        enum probe_outcome outcome;
        const char *words;
    } rows[] = {
        {ACTIVE REPLY("2", "connected"), false, PROBE_PASSED, ""},
        {ACTIVE REPLY("2", "not connected"), false, PROBE_WRONG, "'sb-connection-status' answers"},
        {REPLY("0", "Status: standby"), false, PROBE_WRONG, "'Status: standby' instead of"},
        {ACTIVE, true, PROBE_REFUSED, "closed without an answer to 'sb-connection-status'"},
    };
    scratch_put(w->dir, "ovn-northd.pid", "12\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct peer peer = {.answer = rows[i].answer, .hangs_up = rows[i].hangs_up};
        struct probe_spec spec = {.ovn_run_dir = w->dir};
        assert_int_equal(probe_spec_parse("interval=100ms;ovn-northd", 0, &spec, &spec, NULL), 0);
        open_peer(w, &peer, "ovn-northd.12.ctl");
        assert_int_equal(probe_world_make(w, &spec, NULL), 0);
        probe_start(w->probe);
        for (int runs = 1; runs <= 2; runs++) {
            peer.left = 1;
            probe_world_await(w, runs, PROBE_UNKNOWN);
            if (w->outcome != rows[i].outcome || !strstr(w->words, rows[i].words)) {
                fail_msg("row %zu: %s '%s'", i, probe_outcome_name(w->outcome), w->words);
            }
        }
        peer_close(w, &peer);
    }
}

#define IDS(more)                                                                                  \
    "{\"id\":3,\"error\":null,\"result\":[{\"rows\":[{\"external_ids\":[\"map\",["                 \
    "[\"ovn-encap-ip\",\"10.0.0.1\"]" more "]]}]}]}"
#define CONTROLLER REPLY("0", "connected") REPLY("1", "running") REPLY("2", "5")

/* The daemon first, then both databases, each of which may be away. */
TEST_IN(the_rows_of_a_chassis_are_looked_for_where_ovs_says)
{
    static const char served[] = "{\"id\":4,\"error\":null,\"result\":[{\"rows\":[{\"connected\":"
                                 "true,\"model\":\"standalone\"}]},{\"rows\":[]}]}";
    static const char unserved[] =
        "{\"id\":4,\"error\":null,\"result\":[{\"rows\":[]},{\"rows\":[]}]}";
    static const char gone[] = "{\"id\":5,\"error\":null,\"result\":[{\"rows\":[{\"nb_cfg\":0}]},"
                               "{\"rows\":[]},{\"rows\":[]},{}]}";
    static const char named[] = IDS(",[\"system-id\",\"dpu-1\"]");
    static const struct {
        const char *probe;
        const char *ovs; /* NULL: silence; "": it is away */
        const char *southbound[2];
        const char *words; /* NULL: passes */
    } rows[] = {
        {"ovn-controller", named, {served, gone}, "no chassis 'dpu-1'"},
        {"ovn-controller:x", named, {served, gone}, "no chassis 'x'"},
        {"ovn-controller", named, {"", NULL}, NULL},
        {"ovn-controller", named, {NULL, NULL}, NULL},
        {"ovn-controller", named, {unserved, gone}, NULL},
        {"ovn-controller", "", {served, gone}, NULL},
        {"ovn-controller", NULL, {served, gone}, NULL},
        {"ovn-controller", "nonsense", {served, gone}, NULL},
        {"ovn-controller", IDS(""), {served, gone}, NULL},
        {"ovn-controller:x", IDS(""), {served, gone}, "no chassis 'x'"},
        {"ovn-controller",
         IDS(",[\"system-id\",\"dpu-1\"],[\"ovn-remote\",\"ssl:1.2.3.4:6642\"]"),
         {served, gone},
         NULL},
        {"ovn-controller",
         IDS(",[\"system-id\",\"dpu-1\"],[\"ovn-remote\",\"unix:/x\"]"),
         {served, gone},
         "no chassis"},
        {"ovn-controller",
         IDS(",[\"system-id\",\"dpu-1\"],[\"ovn-remote\",\"unix:/x\"],"
             "[\"ovn-remote-dpu-1\",\"ssl:1.2.3.4:6642\"]"),
         {served, gone},
         NULL},
        {"ovn-controller:x",
         IDS(",[\"system-id\",\"dpu-1\"],[\"ovn-remote-dpu-1\",\"ssl:1.2.3.4:6642\"]"),
         {served, gone},
         "no chassis 'x'"},
    };
    scratch_put(w->dir, "ovn-controller.pid", "12\n");
    scratch_put(w->dir, "ovsdb-server.pid", "12\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char both[1024] = "";
        struct peer peers[3] = {{.answer = CONTROLLER}, {.answer = rows[i].ovs}, {.answer = NULL}};
        static const char *const names[] = {"ovn-controller.12.ctl", "db.sock", "ovnsb_db.sock"};
        struct probe_spec spec = {.ovn_run_dir = w->dir, .ovs_run_dir = w->dir};
        bool is_open[3];
        if (rows[i].southbound[0]) {
            (void)snprintf(both, sizeof(both), "%s%s", rows[i].southbound[0],
                           rows[i].southbound[1] ? rows[i].southbound[1] : "");
            peers[2].answer = both;
        }
        for (size_t j = 0; j < ARRAY_LEN(peers); j++) {
            is_open[j] = !peers[j].answer || peers[j].answer[0];
            scratch_run("rm -f %s/%s", w->dir, names[j]);
            if (is_open[j]) {
                open_peer(w, &peers[j], names[j]);
            }
        }
        assert_int_equal(probe_spec_parse(rows[i].probe, 0, &spec, &spec, NULL), 0);
        spec.timeout_ns = 300 * NS_PER_MS;
        assert_int_equal(probe_world_make(w, &spec, NULL), 0);
        probe_start(w->probe);
        probe_world_await(w, 1, PROBE_UNKNOWN);
        if (w->outcome != (rows[i].words ? PROBE_WRONG : PROBE_PASSED) ||
            (rows[i].words && !strstr(w->words, rows[i].words))) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(w->outcome), w->words);
        }
        probe_free(TAKE(w->probe));
        for (size_t j = 0; j < ARRAY_LEN(peers); j++) {
            if (is_open[j]) {
                peer_close(w, &peers[j]);
            }
        }
    }
}

TEST_IN(a_path_that_is_too_long_is_refused)
{
    char dir[77] = "";
    memset(dir, 'p', sizeof(dir) - 1);
    const struct probe_spec spec = probe_spec_of_node_name(dir);
    assert_int_equal(probe_world_make(w, &spec, NULL), ERR_LIMIT);
    dir[75] = '\0';
    assert_int_equal(probe_world_make(w, &spec, NULL), 0);
}
