/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/api.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static json_t *parse(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    return json;
}

static struct fleet_row take(fleet_take_fn *take_it, const char *text)
{
    CLEANUP(json) json_t *json = parse(text);
    struct fleet_row row = {.node = "n"};
    take_it(&row, json);
    return row;
}

TEST(only_a_lease_of_ours_has_a_node)
{
    CLEANUP(json) json_t *ours = parse("{\"metadata\": {\"name\": \"ovn-dpu-a.b\"}}");
    CLEANUP(json) json_t *other = parse("{\"metadata\": {\"name\": \"leader\"}}");
    assert_string_equal(fleet_node_of_lease(ours), "a.b");
    assert_null(fleet_node_of_lease(other));
}

TEST(a_lease_gives_its_boot)
{
    struct fleet_row row = take(
        fleet_take_lease, "{\"metadata\": {\"name\": \"ovn-dpu-n\", \"namespace\": \"o\", \"uid\": "
                          "\"u\", \"resourceVersion\": \"1\", \"annotations\": "
                          "{\"dpu.k8s.ovn.org/boot-id\": \"b1\\u0007\"}}}");
    assert_true(row.has_lease);
    assert_string_equal(row.boot_id, "b1 ");
}

#define NODE(conditions)                                                                           \
    "{\"metadata\": {\"labels\": {\"k8s.ovn.org/dpu-host\": \"\"}}, \"status\": {\"conditions\": " \
    "[" conditions "]}}"
#define REFUSED                                                                                    \
    "{\"type\": \"Ready\", \"status\": \"False\", \"lastTransitionTime\": "                        \
    "\"2026-11-22T06:00:00Z\", \"message\": \"container runtime network not ready: DPU Not "       \
    "Ready: no reason to go on; reason %s, since x, record /r\"}"

TEST_WITH(a_refusal_of_the_gate_is_heard_through_the_node, NULL, NULL)
{
    static const struct {
        const char *reason;
        const char *heard;
        enum readiness_state state;
    } rows[] = {{"LeaseExpired", "LeaseExpired", READINESS_NOT_READY},
                {"RecordStale", "RecordStale", READINESS_UNKNOWN},
                {"OfANewerAgent", "Refused", READINESS_NOT_READY}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[600];
        (void)snprintf(text, sizeof(text), NODE(REFUSED), rows[i].reason);
        struct fleet_row row = take(fleet_take_node, text);
        assert_int_equal(row.word.teller, FLEET_GATE);
        assert_string_equal(row.word.reason, rows[i].heard);
        assert_int_equal(row.word.state, rows[i].state);
        assert_true(row.word.since.ns > 0);
        assert_true(row.is_marked && row.has_node && row.has_gate);
    }
}

TEST_WITH(a_condition_of_ours_is_heard, NULL, NULL)
{
    (void)state;
    struct fleet_row row =
        take(fleet_take_node, NODE("{\"type\": \"Ready\", \"status\": \"True\"}, {\"type\": "
                                   "\"DPUReady\", \"status\": \"Unknown\", \"reason\": \"R\", "
                                   "\"message\": \"m\"}"));
    assert_int_equal(row.word.teller, FLEET_CONDITION);
    assert_int_equal(row.word.state, READINESS_UNKNOWN);
    assert_string_equal(row.word.reason, "R");
    assert_false(row.has_gate);
    row = take(fleet_take_node, NODE("{\"type\": \"Ready\", \"status\": \"False\", \"message\": "
                                     "\"PLEG is not healthy\"}"));
    assert_int_equal(row.word.teller, FLEET_NOBODY);
}

#define TAINTS                                                                                     \
    "\"taints\": [{\"key\": \"other\", \"value\": \"x\"}, {\"key\": "                              \
    "\"dpu.k8s.ovn.org/unhealthy\", \"value\": \"DPUShutdown\", \"timeAdded\": "                   \
    "\"2026-11-22T06:00:00Z\"}]"

TEST_WITH(a_taint_is_heard, NULL, NULL)
{
    (void)state;
    struct fleet_row row = take(fleet_take_slice, "{\"spec\": {\"devices\": [{" TAINTS "}]}}");
    assert_int_equal(row.word.teller, FLEET_TAINT);
    assert_string_equal(row.word.reason, "DPUShutdown");
    assert_int_equal(row.word.state, READINESS_NOT_READY);
}

#define POD(image, ready)                                                                          \
    "{\"metadata\": {\"name\": \"p-" ready "\"}, \"spec\": {\"initContainers\": [{\"args\": "      \
    "[\"install-cni\"]}], \"containers\": [{\"image\": \"" image "\"}]}, \"status\": "             \
    "{\"conditions\": [{\"type\": \"Ready\", \"status\": \"" ready "\"}]}}"

TEST(a_pod_gives_the_version_by_its_tag)
{
    static const char *const rows[][2] = {
        {POD("dpu-heartbeat-host:0.1.0", "True"), "0.1.0"},
        {POD("r.example:5000/x/dpu-heartbeat-host:1.2@sha256:ab", "True"), "1.2"},
        {POD("r.example:5000/x/dpu-heartbeat-host", "True"), ""},
        {POD("x@sha256:ab", "True"), ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fleet_row row = take(fleet_take_pod, rows[i][0]);
        assert_string_equal(row.agent_version, rows[i][1]);
        assert_true(row.is_agent_ready && row.has_gate);
    }
}

TEST(of_two_pods_the_ready_one_counts)
{
    CLEANUP(json) json_t *ready = parse(POD("x:2", "True"));
    CLEANUP(json) json_t *sick = parse(POD("x:1", "False"));
    struct fleet_row row = {.node = "n"};
    fleet_take_pod(&row, sick);
    fleet_take_pod(&row, ready);
    fleet_take_pod(&row, sick);
    assert_string_equal(row.agent_pod, "p-True");
    assert_string_equal(row.agent_version, "2");
}
