/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/slice.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/support/case.h"

static struct dra_device device_of(json_t *attributes)
{
    return (struct dra_device){.driver = "dpu.example.com",
                               .node_name = "node1",
                               .pool = "node1",
                               .name = "dpu0",
                               .attributes = attributes};
}

#define EXPIRED "LeaseExpired"
#define NOW     ",\"timeAdded\":\"2026-01-01T00:00:00Z\""

#define ATTRIBUTES "{\"model\":{\"string\":\"bf3\"},\"dpu.example.com/fw\":{\"string\":\"1.2.3\"}}"
#define DPU(more)                                                                                  \
    "{\"name\":\"dpu0\",\"attributes\":" ATTRIBUTES ",\"allowMultipleAllocations\":true" more "}"
#define OWNER(uid)                                                                                 \
    "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"node1\",\"uid\":"    \
    "\"" uid "\",\"controller\":true}]"
#define SLICE_OF(metadata, generation, more)                                                       \
    "{\"metadata\":{" metadata                                                                     \
    ",\"name\":\"dpu.example.com-node1\"},\"spec\":{\"driver\":\"dpu.example.com\",\"nodeName\":"  \
    "\"node1\",\"pool\":{\"name\":\"node1\",\"generation\":" generation                            \
    ",\"resourceSliceCount\":1}" more "}}"
#define SLICE(devices) SLICE_OF(OWNER("node-uid"), "1", ",\"devices\":[" devices "]")
#define TAINT(value, more)                                                                         \
    ",\"taints\":[{\"key\":\"dpu.example.com/unhealthy\",\"value\":\"" value                       \
    "\",\"effect\":\"NoSchedule\"" more "}]"

static const struct slice_dropped KEPT = {.taints = false};

static json_t *parse(const char *text)
{
    json_t *json = json_text_parse(text, strlen(text), NULL);
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

static const json_t *devices_of(const json_t *slice)
{
    return json_object_get(json_object_get(slice, "spec"), "devices");
}

TEST(what_is_wanted_is_laid_over_what_is_there)
{
    static const struct {
        const char *existing; /* NULL: nothing */
        const char *taint;
        bool drops_taints;  /* the server */
        const char *wanted; /* NULL: what there is, so that nothing is written */
    } rows[] = {
        {NULL, EXPIRED, false, SLICE(DPU(TAINT(EXPIRED, "")))},
        /* What the server and newer versions add stays. */
        {SLICE_OF(OWNER("node-uid") ",\"resourceVersion\":\"7\"", "9",
                  ",\"devices\":[" DPU(",\"future\":1" TAINT(EXPIRED, NOW)) "]"),
         EXPIRED, false, NULL},
        {SLICE(DPU("")), NULL, false, NULL},
        {SLICE(DPU("")), EXPIRED, false, SLICE(DPU(TAINT(EXPIRED, "")))},
        {SLICE(DPU(TAINT(EXPIRED, NOW))), NULL, false, SLICE(DPU(""))},
        {SLICE(DPU(TAINT(EXPIRED, NOW))), "DPUShutdown", false,
         SLICE(DPU(TAINT("DPUShutdown", "")))},
        /* Without taints an unhealthy device is withdrawn; a server leaves out an empty list. */
        {SLICE(DPU("")), EXPIRED, true, SLICE("")},
        {SLICE(""), EXPIRED, true, NULL},
        {SLICE_OF(OWNER("node-uid"), "1", ""), EXPIRED, true, NULL},
        {SLICE_OF(OWNER("node-uid"), "1", ""), NULL, true, SLICE(DPU(""))},
        /* What is another's goes. */
        {SLICE_OF(OWNER("old-node"), "1", ",\"devices\":[{\"name\":\"other\"}," DPU("") "]"), NULL,
         false, SLICE(DPU(""))},
        {"{}", NULL, false, SLICE(DPU(""))},
        {"{\"spec\":3,\"metadata\":[]}", NULL, false, SLICE(DPU(""))},
        {"{\"spec\":{\"devices\":{\"a\":1},\"pool\":\"x\"}}", NULL, false, SLICE(DPU(""))},
        {"{\"spec\":{\"devices\":[1,null,{\"name\":5}],\"pool\":{\"generation\":\"x\"}}}", NULL,
         false, SLICE(DPU(""))},
    };
    CLEANUP(json) json_t *attributes = parse(ATTRIBUTES);
    struct dra_device ours = device_of(attributes);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct slice_dropped dropped = {.taints = rows[i].drops_taints};
        CLEANUP(json) json_t *existing = rows[i].existing ? parse(rows[i].existing) : NULL;
        CLEANUP(json) json_t *got = slice_plan(&ours, "node-uid", rows[i].taint, dropped, existing);
        print_message("row %zu\n", i);
        assert_is(got, rows[i].wanted ? rows[i].wanted : rows[i].existing);
    }
}

TEST(effect_is_what_was_configured)
{
    static const struct {
        enum slice_effect effect;
        const char *want; /* NULL: no taint */
        size_t untainted; /* devices where the server drops taints */
    } rows[] = {{SLICE_EFFECT_NO_SCHEDULE, "NoSchedule", 0},
                {SLICE_EFFECT_NO_EXECUTE, "NoExecute", 0},
                {SLICE_EFFECT_NONE, "None", 1},
                {SLICE_EFFECT_OFF, NULL, 1}};
    CLEANUP(json) json_t *none = json_object();
    CLEANUP(json) json_t *existing = parse(SLICE(DPU("")));
    struct dra_device ours = device_of(none);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ours.effect = rows[i].effect;
        CLEANUP(json) json_t *got = slice_plan(&ours, "node-uid", EXPIRED, KEPT, existing);
        CLEANUP(json)
        json_t *untainted =
            slice_plan(&ours, "node-uid", EXPIRED, (struct slice_dropped){.taints = true}, NULL);
        const json_t *device = json_array_get(devices_of(got), 0);
        const json_t *taint = json_array_get(json_object_get(device, "taints"), 0);
        assert_true(text_equal(json_text_get(taint, "effect"), rows[i].want));
        assert_null(json_object_get(device, "attributes"));
        assert_int_equal(json_array_size(devices_of(untainted)), rows[i].untainted);
    }
}

TEST(dropped_fields_are_found_and_then_left_out)
{
    struct dra_device ours = device_of(NULL);
    CLEANUP(json)
    json_t *sent = slice_plan(&ours, "node-uid", EXPIRED, KEPT, NULL);
    CLEANUP(json) json_t *withdrawn = parse(SLICE(""));
    const json_t *const pairs[][2] = {{sent, sent}, {withdrawn, withdrawn}, {sent, withdrawn}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct slice_dropped none = slice_find_dropped(pairs[i][0], pairs[i][1]);
        assert_false(none.taints || none.multiple_allocations);
    }

    CLEANUP(json) json_t *answer = json_deep_copy(sent);
    json_t *device = json_array_get(devices_of(answer), 0);
    assert_int_equal(json_object_del(device, "taints"), 0);
    assert_int_equal(json_object_del(device, "allowMultipleAllocations"), 0);
    struct slice_dropped dropped = slice_find_dropped(sent, answer);
    assert_true(dropped.taints && dropped.multiple_allocations);

    CLEANUP(json) json_t *healthy = slice_plan(&ours, "node-uid", NULL, dropped, answer);
    assert_true(json_equal(healthy, answer)); /* no endless rewriting */
}

TEST(long_node_name_gives_a_valid_slice_name)
{
    char node[NAMES_K8S_NAME_BYTES];
    char a[NAMES_K8S_NAME_BYTES];
    char b[NAMES_K8S_NAME_BYTES];
    for (size_t i = 0; i < 253; i++) {
        node[i] = i % 60 == 59 ? '.' : (char)('a' + i % 7);
    }
    node[253] = '\0';
    slice_make_name("dpu.example.com", node, a);
    assert_int_equal(strlen(a), 253);
    assert_memory_equal(a + 16, node, 228); /* up to the hash */
    node[252] = 'm';
    slice_make_name("dpu.example.com", node, b);
    assert_string_not_equal(a, b);
    for (size_t len = 253; len > 0; len--) {
        node[len] = '\0';
        if (text_is_dns1123_subdomain(node)) {
            slice_make_name("dpu.example.com", node, a);
            assert_true(text_is_dns1123_subdomain(a));
            assert_int_equal(strchr(a + 16, '-') != NULL, len > 237); /* if it is too long */
        }
    }
    memset(node, 'n', 253);
    node[227] = '.'; /* where the hash begins */
    slice_make_name("dpu.example.com", node, a);
    assert_true(text_is_dns1123_subdomain(a));
}
