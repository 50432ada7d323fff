/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/event_body.h"

#include "base/attr.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define WALL(s) ((struct wall){(INT64_C(1700000000) + (s)) * NS_PER_SEC})

static const struct readiness_lease LEASE = {
    .ns = "ovn-kubernetes", .name = "ovn-dpu-w1", .uid = "lease-uid"};

static void expect_json(json_t *owned, const char *wanted)
{
    CLEANUP(json) json_t *json = owned;
    assert_non_null(json);
    CLEANUP(free) char *text = json_dumps(json, JSON_COMPACT);
    assert_string_equal(text, wanted);
}

static void an_event_says_what_happened_to_which_node(void **state)
{
    (void)state;
    const struct event_change change = {.state = READINESS_NOT_READY,
                                        .reason = REASON_LEASE_EXPIRED,
                                        .message = "silent",
                                        .at = WALL(0)};
    expect_json(event_body("w1", &LEASE, &change),
                "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\",\"metadata\":{\"name\":"
                "\"w1.17979cfe362a0000\",\"namespace\":\"default\"},\"eventTime\":"
                "\"2023-11-14T22:13:20.000000Z\",\"reportingController\":\"dpu-host-agent\","
                "\"reportingInstance\":\"w1\",\"action\":\"ReadinessChanged\",\"reason\":"
                "\"LeaseExpired\",\"type\":\"Warning\",\"note\":\"silent\",\"regarding\":{"
                "\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"w1\",\"uid\":\"w1\"},"
                "\"related\":{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
                "\"namespace\":\"ovn-kubernetes\",\"name\":\"ovn-dpu-w1\",\"uid\":\"lease-uid\"}}");
}

static void without_a_lease_none_is_related(void **state)
{
    (void)state;
    static const struct readiness_lease none = {.name = ""};
    const struct event_change change = {.state = READINESS_READY, .reason = REASON_LEASE_RENEWED};
    CLEANUP(json) json_t *body = event_body("w1", &none, &change);
    assert_null(json_object_get(body, "related"));
    assert_string_equal(json_text_get(body, "type"), "Normal");
}

static void the_note_says_which_way_and_what_has_no_event(void **state)
{
    (void)state;
    static const struct {
        enum readiness_state state;
        bool admit;
        uint64_t left_out;
        const char *note;
    } rows[] = {
        {READINESS_READY, true, 0, "because"},
        {READINESS_UNKNOWN, true, 0, "because; new pods are let in"},
        {READINESS_UNKNOWN, false, 0, "because; new pods are held back"},
        {READINESS_NOT_READY, false, 3, "because; changes before this one without an Event: 3"},
        {READINESS_UNKNOWN, true, UINT64_MAX,
         "because; new pods are let in; changes before this one without an Event: "
         "18446744073709551615"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct event_change change = {.state = rows[i].state,
                                            .admit = rows[i].admit,
                                            .left_out = rows[i].left_out,
                                            .message = "because"};
        CLEANUP(json) json_t *body = event_body("w1", &LEASE, &change);
        assert_string_equal(json_text_get(body, "note"), rows[i].note);
    }
}

static void every_name_is_one_that_the_server_takes(void **state)
{
    (void)state;
    char longest[NAMES_K8S_NAME_BYTES];
    char name[NAMES_K8S_NAME_BYTES];
    char other[NAMES_K8S_NAME_BYTES];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t dot = 200; dot < sizeof(longest) - 2; dot++) {
        longest[dot] = dot % 2 == 0 ? '.' : '-';
        if (text_is_dns1123_subdomain(longest)) {
            event_name(longest, WALL(0), name);
            assert_true(text_is_dns1123_subdomain(name));
        }
        longest[dot] = 'a';
    }
    event_name(longest, (struct wall){INT64_MAX}, name);
    assert_true(text_is_dns1123_subdomain(name));
    event_name(longest, (struct wall){INT64_MAX - 1}, other);
    assert_string_not_equal(name, other);
}

static void a_long_node_name_is_cut_as_reporting_instance(void **state)
{
    (void)state;
    char longest[NAMES_K8S_NAME_BYTES];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    const struct event_change change = {.message = ""};
    CLEANUP(json) json_t *body = event_body(longest, &LEASE, &change);
    assert_int_equal(strlen(json_text_get(body, "reportingInstance")), 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_says_what_happened_to_which_node),
        cmocka_unit_test(without_a_lease_none_is_related),
        cmocka_unit_test(the_note_says_which_way_and_what_has_no_event),
        cmocka_unit_test(every_name_is_one_that_the_server_takes),
        cmocka_unit_test(a_long_node_name_is_cut_as_reporting_instance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
