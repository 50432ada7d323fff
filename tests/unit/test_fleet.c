/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/fleet.c" /* what makes a row is its own */

#include "base/json_text.h"
#include "base/mem.h"
#include "contract/readiness.h"
#include "dpuctl/print.h"
#include "tests/support/case.h"

#define HOLDER "ovnkube-dpu-node"

static const struct wall now = {INT64_C(1795341600) * NS_PER_SEC}; /* 2026-11-22T10:00:00Z */

static json_t *parse(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    return json;
}

static json_t *take(take_fn *take_it, const char *text)
{
    CLEANUP(json) json_t *json = parse(text);
    json_t *row = row_new("ns", "n");
    take_it(row, json, now);
    return row;
}

/* ---- the judgement --------------------------------------------------------------------------- */

#define RENEWED_THEN(age)                                                                          \
    "\"hasLease\": true, \"holder\": \"" HOLDER                                                    \
    "\", \"durationSeconds\": 40, \"renewTime\": \"2026-11-22T09:58:20Z\", "                       \
    "\"renewalAgeSeconds\": " age

#define SAID(teller, state, reason)                                                                \
    ", \"toldBy\": \"" teller "\", \"state\": \"" state "\", \"reason\": \"" reason                \
    "\", \"since\": \"2026-11-22T09:00:00Z\""

TEST(a_row_is_judged_by_the_host_then_the_lease_then_its_age)
{
    static const struct {
        const char *known;
        const char *judged;
    } rows[] = {
        {RENEWED_THEN("3.0"), "state=Ready reason=LeaseRenewed !since !advice"},
        {RENEWED_THEN("40.0"), "state=Ready"},
        {RENEWED_THEN("100.0"), "state=NotReady reason=LeaseExpired since=2026-11-22T09:59:00Z "
                                "sinceSeconds>59 sinceSeconds<61 advice"},
        {RENEWED_THEN("40.1"), "state=NotReady reason=LeaseExpired"},
        {RENEWED_THEN("-3600.0"), "state=Ready"}, /* the DPU's clock is ahead */
        /* What the lease says counts before its age. */
        {RENEWED_THEN("3.0") ", \"health\": \"unhealthy\"", "reason=DPUReportedUnhealthy !since"},
        {RENEWED_THEN("3.0") ", \"health\": \"shutdown\"", "state=NotReady reason=DPUShutdown"},
        {RENEWED_THEN("3.0") ", \"holder\": \"somebody\"", "state=NotReady reason=LeaseInvalid"},
        {RENEWED_THEN("3.0") ", \"holder\": null", "state=Ready reason=LeaseRenewed"},
        /* Nothing is claimed of what cannot be known. */
        {RENEWED_THEN("null"), "state=Unknown reason=AwaitingFirstRenewal advice"},
        {RENEWED_THEN("null") ", \"renewTime\": null", "state=Unknown reason=AwaitingFirstRenewal"},
        {"\"hasNode\": true, \"hasLabel\": true", "state=Unknown reason=LeaseNotFound"},
        {"\"hasNode\": true" SAID("condition", "Ready", "LeaseRenewed"),
         "state=Unknown reason=LeaseNotFound !since"},
        /* The host's word counts, but makes no silent DPU Ready. */
        {RENEWED_THEN("3.0") SAID("taint", "NotReady", "LeaseExpired"),
         "state=NotReady reason=LeaseExpired since=2026-11-22T09:00:00Z"},
        {RENEWED_THEN("3.0") SAID("condition", "Unknown", "ApiServerUnreachable"),
         "state=Unknown reason=ApiServerUnreachable since"},
        {RENEWED_THEN("3.0") SAID("condition", "Ready", "LeaseRenewed"),
         "state=Ready reason=LeaseRenewed since=2026-11-22T09:00:00Z sinceSeconds>3599"},
        {RENEWED_THEN("100.0") SAID("condition", "Ready", "LeaseRenewed"),
         "state=Unknown reason=LeaseExpired !since"},
        {RENEWED_THEN("100.0") SAID("condition", "Ready", "HealthCheckDisabled"), "state=Ready"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(free) char *text = mem_format("{%s}", rows[i].known);
        CLEANUP(json) json_t *known = parse(text);
        CLEANUP(json) json_t *row = row_new("ns", "n");
        assert_int_equal(json_object_update(row, known), 0);
        judge_row(row, HOLDER, now);
        if (!print_holds(row, rows[i].judged)) {
            fail_msg("row %zu: %s", i, json_text_dump(row));
        }
    }
}

/* ---- what objects tell ----------------------------------------------------------------------- */

TEST(only_a_lease_of_ours_has_a_node_and_an_unknown_reason_a_page)
{
    CLEANUP(json) json_t *ours = parse("{\"metadata\": {\"name\": \"ovn-dpu-a.b\"}}");
    CLEANUP(json) json_t *other = parse("{\"metadata\": {\"name\": \"leader\"}}");
    assert_non_null(strstr(readiness_reason_fix("of a newer agent"), "docs/reasons.md"));
    assert_string_equal(node_of_lease(ours), "a.b");
    assert_null(node_of_lease(other));
}

#define NODE(conditions)                                                                           \
    "{\"metadata\": {\"labels\": {\"k8s.ovn.org/dpu-host\": \"\"}}, \"status\": {\"conditions\": " \
    "[" conditions "]}}"
#define REFUSED(reason)                                                                            \
    "{\"type\": \"Ready\", \"status\": \"False\", \"lastTransitionTime\": "                        \
    "\"2026-11-22T06:00:00Z\", \"message\": \"container runtime network not ready: DPU Not "       \
    "Ready: no reason to go on; reason " reason ", since x, record /r\"}"

#define TAINTS                                                                                     \
    "\"taints\": [{\"key\": \"other\", \"value\": \"x\"}, {\"key\": "                              \
    "\"dpu.k8s.ovn.org/unhealthy\", \"value\": \"DPUShutdown\", \"timeAdded\": "                   \
    "\"2026-11-22T06:00:00Z\"}]"

#define POD(image, ready)                                                                          \
    "{\"metadata\": {\"name\": \"p-" ready "\"}, \"spec\": {\"initContainers\": [{\"args\": "      \
    "[\"install-cni\"]}], \"containers\": [{\"image\": \"" image "\"}]}, \"status\": "             \
    "{\"conditions\": [{\"type\": \"Ready\", \"status\": \"" ready "\"}]}}"

TEST(objects_tell_of_a_dpu)
{
    static const struct {
        take_fn *take;
        const char *object;
        const char *told;
    } rows[] = {
        {take_lease,
         "{\"metadata\": {\"name\": \"ovn-dpu-n\", \"namespace\": \"o\", \"uid\": \"u\", "
         "\"resourceVersion\": \"1\", \"annotations\": {\"dpu.k8s.ovn.org/boot-id\": "
         "\"b1\\u0007\"}}, \"spec\": {\"renewTime\": \"2026-11-22T09:59:00.000000Z\"}}",
         "hasLease dpuBootId renewalAgeSeconds>59 renewalAgeSeconds<61"},
        {take_lease, "{\"metadata\": {\"name\": \"ovn-dpu-n\"}}", "!hasLease"},
        /* A refusal of the gate is heard through the Node. */
        {take_node, NODE(REFUSED("LeaseExpired")),
         "toldBy=gate reason=LeaseExpired state=NotReady since hasLabel hasNode gateIn"},
        {take_node, NODE(REFUSED("RecordStale")), "reason=RecordStale state=Unknown"},
        {take_node, NODE(REFUSED("OfANewerAgent")), "reason=Refused state=NotReady"},
        /* So is a condition of ours, and no other. */
        {take_node,
         NODE("{\"type\": \"Ready\", \"status\": \"True\"}, {\"type\": \"DPUReady\", \"status\": "
              "\"Unknown\", \"reason\": \"R\", \"message\": \"m\"}"),
         "toldBy=condition state=Unknown reason=R message=m !gateIn"},
        {take_node,
         NODE("{\"type\": \"Ready\", \"status\": \"False\", \"message\": \"PLEG is not healthy\"}"),
         "toldBy=lease !gateIn"},
        {take_slice, "{\"spec\": {\"devices\": [{" TAINTS "}]}}",
         "toldBy=taint reason=DPUShutdown state=NotReady since"},
        /* The version is the tag of the image. */
        {take_pod, POD("dpu-heartbeat-host:0.1.0", "True"),
         "hostAgentVersion=0.1.0 hostAgentReady gateIn hostAgentPod=p-True"},
        {take_pod, POD("r.example:5000/x/dpu-heartbeat-host:1.2@sha256:ab", "True"),
         "hostAgentVersion=1.2"},
        {take_pod, POD("r.example:5000/x/dpu-heartbeat-host", "True"), "!hostAgentVersion"},
        {take_pod, POD("x@sha256:ab", "False"), "!hostAgentVersion !hostAgentReady"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *row = take(rows[i].take, rows[i].object);
        if (!print_holds(row, rows[i].told)) {
            fail_msg("row %zu: %s", i, json_text_dump(row));
        }
    }
}

TEST(the_more_telling_word_and_the_ready_pod_count)
{
    static const char slice[] = "{\"spec\": {\"devices\": [{" TAINTS "}]}}";
    CLEANUP(json) json_t *row = take(take_slice, slice);
    CLEANUP(json) json_t *node = parse(NODE(REFUSED("RecordStale")));
    CLEANUP(json) json_t *taint = parse(slice);
    take_node(row, node, now);
    take_slice(row, taint, now);
    assert_true(print_holds(row, "toldBy=gate reason=RecordStale"));
    CLEANUP(json) json_t *ready = parse(POD("x:2", "True"));
    CLEANUP(json) json_t *sick = parse(POD("x:1", "False"));
    take_pod(row, sick, now);
    take_pod(row, ready, now);
    take_pod(row, sick, now);
    assert_true(print_holds(row, "hostAgentPod=p-True hostAgentVersion=2"));
}

TEST(what_is_broken_comes_first)
{
    static const char *const rows[][3] = {{"a", "Ready", "LeaseRenewed"},
                                          {"d", "Unknown", "LeaseNotFound"},
                                          {"c", "NotReady", "LeaseExpired"},
                                          {"b", "NotReady", "LeaseExpired"},
                                          {"z", "NotReady", "DPUShutdown"}};
    json_t *order[ARRAY_LEN(rows)];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        order[i] = json_pack("{s:s, s:s, s:s}", "node", rows[i][0], "state", rows[i][1], "reason",
                             rows[i][2]);
    }
    qsort(order, ARRAY_LEN(rows), sizeof(order[0]), compare_rows);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(json_string_value(json_object_get(order[i], "node"))[0], "zbcda"[i]);
        json_decref(order[i]);
    }
}
