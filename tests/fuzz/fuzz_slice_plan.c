/* SPDX-License-Identifier: Apache-2.0 */
/* Any object as the slice that the server has: what is planned over it says what it must, leaves
 * the rest alone, and over itself changes nothing more. */
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "dra-driver/dra/slice.h"
#include "tests/fuzz/fuzz.h"

static void check_device(const json_t *slice, const char *taint, struct slice_dropped dropped)
{
    const json_t *devices = json_object_get(json_object_get(slice, "spec"), "devices");
    const json_t *device = json_array_get(devices, 0);
    if (taint && dropped.taints) {
        check(json_array_size(devices) == 0); /* or it would be given away */
        return;
    }
    const json_t *taints = json_object_get(device, "taints");
    check(json_array_size(devices) == 1);
    check(text_equal(json_text_get(device, "name"), "dpu0"));
    check(json_array_size(taints) == (taint != NULL) && (taint || !taints));
    check(!taint || text_equal(json_text_get(json_array_get(taints, 0), "value"), taint));
    check(dropped.multiple_allocations ||
          json_is_true(json_object_get(device, "allowMultipleAllocations")));
}

static void check_plan(const struct dra_device *device, const json_t *existing, const char *taint,
                       struct slice_dropped dropped)
{
    CLEANUP(json) json_t *plan = slice_plan(device, "node-uid", taint, dropped, existing);
    CLEANUP(json)
    json_t *again = plan ? slice_plan(device, "node-uid", taint, dropped, plan) : NULL;
    check(plan && again && json_equal(plan, again));
    const json_t *wanted = json_object_get(plan, "spec");
    check(text_equal(json_text_get(wanted, "driver"), device->driver));
    check(text_equal(json_text_get(wanted, "nodeName"), device->node_name));
    check_device(plan, taint, dropped);
    struct slice_dropped lost = slice_find_dropped(plan, plan);
    check(!lost.taints && !lost.multiple_allocations);
    (void)slice_find_dropped(plan, existing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const taints[] = {NULL, "LeaseExpired"};
    CLEANUP(json) json_t *attributes = json_pack("{s:{s:s}}", "model", "string", "bf3");
    const struct dra_device device = {.driver = "dpu.example.com",
                                      .node_name = "node1",
                                      .pool = "node1",
                                      .name = "dpu0",
                                      .attributes = attributes};
    CLEANUP(json)
    json_t *existing = json_text_parse((const char *)data, size, NULL);
    CLEANUP(json) json_t *before = json_deep_copy(existing);
    if (!json_is_object(existing)) {
        return 0;
    }
    fuzz_tell(json_object_get(json_object_get(existing, "spec"), "devices") != NULL);
    for (unsigned i = 0; i < 2 * 2 * 2; i++) {
        const struct slice_dropped dropped = {.taints = i & 1, .multiple_allocations = i & 2};
        check_plan(&device, existing, taints[i / 4], dropped);
    }
    check(json_equal(existing, before));
    return 0;
}
