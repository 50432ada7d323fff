/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct dra_device device_of(json_t *attributes)
{
    return (struct dra_device){.driver = "dpu.example.com",
                               .node_name = "node1",
                               .pool = "node1",
                               .name = "dpu0",
                               .attributes = attributes};
}

static const char *const CLEAN = NULL;
static const char *const EXPIRED = "LeaseExpired";
static const struct slice_dropped KEPT = {.taints = false};

#define ATTRIBUTES_JSON                                                                            \
    "{\"model\":{\"string\":\"bf3\"},\"dpu.example.com/fw\":{\"string\":\"1.2.3\"}}"
#define ATTRIBUTES "\"attributes\":" ATTRIBUTES_JSON ",\"allowMultipleAllocations\":true"
#define SLICE(version, device)                                                                     \
    "{\"apiVersion\":\"resource.k8s.io/" version "\",\"kind\":\"ResourceSlice\",\"metadata\":{"    \
    "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"node1\",\"uid\":"    \
    "\"node-uid\",\"controller\":true}],\"name\":\"dpu.example.com-node1\"},\"spec\":{\"driver\":" \
    "\"dpu.example.com\",\"nodeName\":\"node1\",\"pool\":{\"name\":\"node1\",\"generation\":1,"    \
    "\"resourceSliceCount\":1},\"devices\":[" device "]}}"
#define TAINT(value, more)                                                                         \
    ",\"taints\":[{\"key\":\"dpu.example.com/unhealthy\",\"value\":\"" value                       \
    "\",\"effect\":\"NoSchedule\"" more "}]"

static json_t *parse(const char *text)
{
    json_t *json = json_text_parse(text, strlen(text), 1 << 16, NULL);
    assert_non_null(json);
    return json;
}

static void assert_is(const json_t *json, const char *want)
{
    CLEANUP(json) json_t *wanted = parse(want);
    if (!json_equal(json, wanted)) {
        CLEANUP(free) char *text = json_text_dump(json);
        fail_msg("%s\nis not\n%s", text, want);
    }
}

TEST(new_slice_is_complete)
{
    CLEANUP(json) json_t *list = parse(ATTRIBUTES_JSON);
    struct dra_device ours = device_of(list);
    CLEANUP(json) json_t *got = slice_plan(&ours, "node-uid", EXPIRED, KEPT, NULL);
    assert_is(got, SLICE("v1", "{\"name\":\"dpu0\"," ATTRIBUTES TAINT("LeaseExpired", "") "}"));
}

TEST(slice_that_is_right_is_not_written)
{
    CLEANUP(json) json_t *list = parse(ATTRIBUTES_JSON);
    struct dra_device ours = device_of(list);
    CLEANUP(json)
    json_t *existing =
        parse(SLICE("v1", "{\"name\":\"dpu0\",\"future\":1," ATTRIBUTES TAINT(
                              "LeaseExpired", ",\"timeAdded\":\"2026-01-01T00:00:00Z\"") "}"));
    (void)json_object_set_new(json_object_get(existing, "metadata"), "resourceVersion",
                              json_string("7"));
    (void)json_object_set_new(json_object_get(json_object_get(existing, "spec"), "pool"),
                              "generation", json_integer(9));
    CLEANUP(json) json_t *got = slice_plan(&ours, "node-uid", EXPIRED, KEPT, existing);
    assert_true(json_equal(got, existing));
}

TEST(taint_follows_the_verdict_in_place)
{
    CLEANUP(json) json_t *list = parse(ATTRIBUTES_JSON);
    struct dra_device ours = device_of(list);
    static const char clean[] = SLICE("v1", "{\"name\":\"dpu0\"," ATTRIBUTES "}");
    static const char tainted[] =
        SLICE("v1", "{\"name\":\"dpu0\"," ATTRIBUTES TAINT("LeaseExpired", "") "}");
    CLEANUP(json) json_t *before = parse(clean);
    CLEANUP(json) json_t *with = slice_plan(&ours, "node-uid", EXPIRED, KEPT, before);
    assert_is(with, tainted);
    CLEANUP(json) json_t *without = slice_plan(&ours, "node-uid", CLEAN, KEPT, with);
    assert_is(without, clean);
}

TEST(other_reason_is_another_taint)
{
    CLEANUP(json) json_t *list = parse(ATTRIBUTES_JSON);
    struct dra_device ours = device_of(list);
    const char *shutdown = "DPUShutdown";
    CLEANUP(json)
    json_t *existing =
        parse(SLICE("v1", "{\"name\":\"dpu0\"," ATTRIBUTES TAINT(
                              "LeaseExpired", ",\"timeAdded\":\"2026-01-01T00:00:00Z\"") "}"));
    CLEANUP(json) json_t *got = slice_plan(&ours, "node-uid", shutdown, KEPT, existing);
    assert_is(got, SLICE("v1", "{\"name\":\"dpu0\"," ATTRIBUTES TAINT("DPUShutdown", "") "}"));
}

TEST(effect_is_what_was_configured)
{
    static const struct {
        enum slice_effect effect;
        const char *want; /* NULL: no taint */
    } rows[] = {{SLICE_EFFECT_NO_SCHEDULE, "NoSchedule"},
                {SLICE_EFFECT_NO_EXECUTE, "NoExecute"},
                {SLICE_EFFECT_NONE, "None"},
                {SLICE_EFFECT_OFF, NULL}};
    struct dra_device ours = device_of(NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ours.effect = rows[i].effect;
        CLEANUP(json) json_t *got = slice_plan(&ours, "node-uid", EXPIRED, KEPT, NULL);
        const json_t *device =
            json_array_get(json_object_get(json_object_get(got, "spec"), "devices"), 0);
        const json_t *taint = json_array_get(json_object_get(device, "taints"), 0);
        assert_true(text_equal(json_text_get(taint, "effect"), rows[i].want));
        assert_null(json_object_get(device, "attributes"));
    }
}

TEST(dropped_fields_are_found_and_then_left_out)
{
    struct dra_device ours = device_of(NULL);
    CLEANUP(json) json_t *sent = slice_plan(&ours, "node-uid", EXPIRED, KEPT, NULL);
    struct slice_dropped none = slice_find_dropped(sent, sent);
    assert_false(none.taints || none.multiple_allocations);

    CLEANUP(json) json_t *answer = json_deep_copy(sent);
    json_t *device = json_array_get(json_object_get(json_object_get(answer, "spec"), "devices"), 0);
    assert_int_equal(json_object_del(device, "taints"), 0);
    assert_int_equal(json_object_del(device, "allowMultipleAllocations"), 0);
    struct slice_dropped dropped = slice_find_dropped(sent, answer);
    assert_true(dropped.taints && dropped.multiple_allocations);

    CLEANUP(json) json_t *healthy = slice_plan(&ours, "node-uid", CLEAN, dropped, answer);
    assert_true(json_equal(healthy, answer)); /* no endless rewriting */
}

TEST(unhealthy_device_is_withdrawn_where_taints_are_dropped)
{
    CLEANUP(json) json_t *list = parse(ATTRIBUTES_JSON);
    struct dra_device ours = device_of(list);
    const struct slice_dropped dropped = {.taints = true};
    CLEANUP(json) json_t *existing = parse(SLICE("v1", "{\"name\":\"dpu0\"," ATTRIBUTES "}"));
    CLEANUP(json) json_t *gone = slice_plan(&ours, "node-uid", EXPIRED, dropped, existing);
    assert_is(gone, SLICE("v1", ""));
    CLEANUP(json) json_t *again = slice_plan(&ours, "node-uid", EXPIRED, dropped, gone);
    assert_true(json_equal(again, gone));
    /* A server leaves an empty list out: that is no difference. */
    (void)json_object_del(json_object_get(gone, "spec"), "devices");
    CLEANUP(json) json_t *still = slice_plan(&ours, "node-uid", EXPIRED, dropped, gone);
    assert_true(json_equal(still, gone));
    CLEANUP(json) json_t *back = slice_plan(&ours, "node-uid", CLEAN, dropped, gone);
    assert_true(json_equal(back, existing));
}

TEST(foreign_devices_and_owners_are_replaced)
{
    CLEANUP(json) json_t *list = parse(ATTRIBUTES_JSON);
    struct dra_device ours = device_of(list);
    CLEANUP(json)
    json_t *existing =
        parse(SLICE("v1", "{\"name\":\"other\"},{\"name\":\"dpu0\"," ATTRIBUTES "}"));
    json_t *owner = json_array_get(
        json_object_get(json_object_get(existing, "metadata"), "ownerReferences"), 0);
    (void)json_object_set_new(owner, "uid", json_string("old-node"));
    CLEANUP(json) json_t *got = slice_plan(&ours, "node-uid", CLEAN, KEPT, existing);
    assert_is(got, SLICE("v1", "{\"name\":\"dpu0\"," ATTRIBUTES "}"));
}

TEST(garbage_in_place_of_a_slice_is_overlaid)
{
    static const char *const rows[] = {
        "{}", "{\"spec\":3,\"metadata\":[]}", "{\"spec\":{\"devices\":{\"a\":1},\"pool\":\"x\"}}",
        "{\"spec\":{\"devices\":[1,null,{\"name\":5}],\"pool\":{\"generation\":\"x\"}}}"};
    CLEANUP(json) json_t *list = parse(ATTRIBUTES_JSON);
    struct dra_device ours = device_of(list);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *existing = parse(rows[i]);
        CLEANUP(json) json_t *got = slice_plan(&ours, "node-uid", CLEAN, KEPT, existing);
        CLEANUP(json) json_t *want = parse(SLICE("v1", "{\"name\":\"dpu0\"," ATTRIBUTES "}"));
        assert_true(json_equal(got, want));
    }
}

TEST(long_node_name_gives_a_valid_slice_name)
{
    char node[NAMES_K8S_NAME_BYTES];
    char a[NAMES_K8S_NAME_BYTES];
    char b[NAMES_K8S_NAME_BYTES];
    for (size_t i = 0; i < 253; i++) {
        node[i] = i % 60 == 59 ? '.' : 'n';
    }
    node[253] = '\0';
    slice_make_name("dpu.example.com", node, a);
    assert_int_equal(strlen(a), 253);
    assert_true(text_is_dns1123_subdomain(a));
    node[252] = 'm';
    slice_make_name("dpu.example.com", node, b);
    assert_string_not_equal(a, b);
    for (size_t len = 1; len <= 253; len++) {
        node[252] = 'n';
        char saved = node[len];
        node[len] = '\0';
        if (text_is_dns1123_subdomain(node)) {
            slice_make_name("dpu.example.com", node, a);
            assert_true(text_is_dns1123_subdomain(a));
        }
        node[len] = saved;
    }
}

TEST(device_is_tainted_exactly_while_pods_are_refused)
{
    static const struct {
        bool admit;
        enum readiness_reason reason;
        const char *value; /* NULL: no taint */
    } rows[] = {
        {true, REASON_LEASE_RENEWED, NULL},
        {true, REASON_API_SERVER_UNREACHABLE, NULL},
        {true, REASON_HEALTH_CHECK_DISABLED, NULL},
        {false, REASON_LEASE_EXPIRED, "LeaseExpired"},
        {false, REASON_AWAITING_FIRST_RENEWAL, "AwaitingFirstRenewal"},
        {false, REASON_DPU_SHUTDOWN, "DPUShutdown"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct readiness verdict = {.admit = rows[i].admit, .reason = rows[i].reason};
        assert_true(text_equal(slice_taint_of(&verdict), rows[i].value));
    }
}
