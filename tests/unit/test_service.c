/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/service.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define OK(result) "{\"id\":0,\"result\":" result ",\"error\":null}"
#define AT(n)      ((struct mono){(n)*NS_PER_SEC})

static struct rpc_message read_reply(const char *text)
{
    struct rpc_message m;
    assert_int_equal(rpc_message_read(text, strlen(text), &m, NULL), 0);
    assert_int_equal(m.kind, RPC_REPLY);
    return m;
}

static void answers_follow_the_table(void **state)
{
    static const struct {
        const char *service;
        size_t question;
        const char *reply;
        const char *words; /* NULL: passes */
    } rows[] = {
        {"ovsdb", 0, OK("[\"Open_vSwitch\",\"_Server\"]"), NULL},
        {"ovsdb", 0, OK("[\"OVN_Southbound\"]"), "'Open_vSwitch' is not among"},
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
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rpc_message m = read_reply(rows[i].reply);
        char words[PROBE_WORDS_BYTES] = "";
        const struct service *service = service_find(rows[i].service, strlen(rows[i].service));
        enum probe_outcome outcome = service_judge(service, rows[i].question, "br-int", &m, words);
        if (outcome != (rows[i].words ? PROBE_WRONG : PROBE_PASSED) ||
            (rows[i].words && !strstr(words, rows[i].words))) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(outcome), words);
        }
    }
}

static void a_name_without_end_is_none_of_a_bridge(void **state)
{
    char reply[20000] = "{\"id\":0,\"result\":\"br-int\\n";
    char words[PROBE_WORDS_BYTES] = "";
    size_t used = strlen(reply);
    (void)state;
    memset(reply + used, 'b', sizeof(reply) - used);
    memcpy(reply + sizeof(reply) - 15, "\",\"error\":null}", 15);
    struct rpc_message m;
    assert_int_equal(rpc_message_read(reply, sizeof(reply), &m, NULL), 0);
    const struct service *vswitchd = service_find("vswitchd", 8);
    assert_int_equal(service_judge(vswitchd, 0, "br-int", &m, words), PROBE_PASSED);
    assert_int_equal(service_judge(vswitchd, 0, "br-ex", &m, words), PROBE_WRONG);
}

/* As long a list as one message of ovs-vswitchd may be. */
static void a_bridge_is_found_behind_thousands_of_others(void **state)
{
    static char reply[64 << 10];
    const char end[] = "br-int\\n\",\"error\":null}";
    char words[PROBE_WORDS_BYTES] = "";
    struct rpc_message m;
    (void)state;
    size_t used = (size_t)snprintf(reply, sizeof(reply), "{\"id\":0,\"result\":\"");
    for (unsigned i = 0; used + 32 + sizeof(end) < sizeof(reply); i++) {
        used += (size_t)snprintf(reply + used, sizeof(reply) - used, "br-tenant-%05u\\n", i);
    }
    memcpy(reply + used, end, sizeof(end));
    assert_int_equal(rpc_message_read(reply, strlen(reply), &m, NULL), 0);
    const struct service *vswitchd = service_find("vswitchd", 8);
    assert_int_equal(service_judge(vswitchd, 0, "br-int", &m, words), PROBE_PASSED);
    assert_int_equal(service_judge(vswitchd, 0, "br-tenant-03000", &m, words), PROBE_PASSED);
    assert_int_equal(service_judge(vswitchd, 0, "br-in", &m, words), PROBE_WRONG);
    assert_non_null(strstr(words, "'ofproto/list' answers 'br-tenant-00000"));
}

static void every_service_has_a_name_a_socket_and_patience(void **state)
{
    (void)state;
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
    struct rpc_message m = read_reply(text);
    /* The wall clock began at 1000 s. */
    return service_beat_step(b, &m, AT(at_s), (struct wall){(1000 + at_s) * NS_PER_SEC}, words);
}

static void beat_is_judged_by_its_changes(void **state)
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
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum probe_outcome outcome = beat(&b, rows[i].at_s, rows[i].value, words);
        if (outcome != rows[i].outcome) {
            fail_msg("row %zu: %s '%s'", i, probe_outcome_name(outcome), words);
        }
    }
}

static void only_the_first_value_vouches_by_its_age(void **state)
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
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct service_beat b = {.limit_ns = 120 * NS_PER_SEC};
        assert_int_equal(beat(&b, 0, rows[i].value, words), rows[i].outcome);
        assert_int_equal(beat(&b, 120, rows[i].value, words), PROBE_WRONG);
        assert_non_null(strstr(words, "120s"));
    }
}

static void an_answer_that_is_none_is_no_beat(void **state)
{
    struct service_beat b = {.limit_ns = 120 * NS_PER_SEC};
    struct rpc_message m = read_reply(OK("[]"));
    char words[PROBE_WORDS_BYTES] = "";
    (void)state;
    assert_int_equal(service_beat_step(&b, &m, AT(0), (struct wall){0}, words), PROBE_WRONG);
    assert_false(b.has_begun);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_follow_the_table),
        cmocka_unit_test(a_name_without_end_is_none_of_a_bridge),
        cmocka_unit_test(a_bridge_is_found_behind_thousands_of_others),
        cmocka_unit_test(every_service_has_a_name_a_socket_and_patience),
        cmocka_unit_test(beat_is_judged_by_its_changes),
        cmocka_unit_test(only_the_first_value_vouches_by_its_age),
        cmocka_unit_test(an_answer_that_is_none_is_no_beat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
