/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice_plan.h"

#include "base/json_text.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct slice_taint slice_taint_of(const struct readiness *verdict)
{
    struct slice_taint taint = {.is_set = !verdict->admit};
    if (taint.is_set) {
        text_format(taint.value, sizeof(taint.value), "%s", readiness_reason_name(verdict->reason));
    }
    return taint;
}

void slice_make_name(const char *driver, const char *node_name,
                     char out[static NAMES_K8S_NAME_BYTES])
{
    int len = snprintf(out, NAMES_K8S_NAME_BYTES, "%s-%s", driver, node_name);
    if (len < NAMES_K8S_NAME_BYTES) {
        return;
    }
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *s = node_name; *s; s++) {
        hash = (hash ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
    }
    text_format(out + NAMES_K8S_NAME_BYTES - 18, 18, "-%016" PRIx64, hash);
    /* The character before the hash may now be a dot, which may not stand before '-'. */
    if (out[NAMES_K8S_NAME_BYTES - 19] == '.') {
        out[NAMES_K8S_NAME_BYTES - 19] = '0';
    }
}

/* ---- the device ------------------------------------------------------------------------------ */

/* Borrowed from `parent`; made if it is not an object yet. */
static json_t *object_at(json_t *parent, const char *key)
{
    json_t *object = json_object_get(parent, key);
    if (!json_is_object(object)) {
        object = json_object();
        (void)json_object_set_new(parent, key, object);
    }
    return object;
}

/* The taint that is there already, with the server's timeAdded, or a new one. Owned. */
static json_t *plan_taint(const struct slice_spec *spec, const struct slice_taint *taint,
                          const json_t *existing)
{
    static const char *const effects[] = {[SLICE_EFFECT_NO_SCHEDULE] = "NoSchedule",
                                          [SLICE_EFFECT_NO_EXECUTE] = "NoExecute",
                                          [SLICE_EFFECT_NONE] = "None",
                                          [SLICE_EFFECT_OFF] = "None"};
    char key[NAMES_K8S_NAME_BYTES + 16];
    const char *effect = effects[spec->effect];
    size_t index;
    json_t *old;
    text_format(key, sizeof(key), "%s/unhealthy", spec->driver); /* a driver has 63 bytes */
    json_array_foreach(existing, index, old)
    {
        if (text_equal(json_text_get(old, "key"), key) &&
            text_equal(json_text_get(old, "value"), taint->value) &&
            text_equal(json_text_get(old, "effect"), effect)) {
            return json_incref(old);
        }
    }
    return json_pack("{s:s,s:s,s:s}", "key", key, "value", taint->value, "effect", effect);
}

/* Lays our members over the device. */
static void lay_device(json_t *device, const struct slice_spec *spec,
                       const struct slice_taint *taint, struct slice_dropped dropped)
{
    (void)json_object_set_new(device, "name", json_string(spec->device));
    (void)json_object_del(device, "attributes"); /* absent where there are none */
    for (size_t i = 0; i < spec->attributes->count; i++) {
        const struct attribute *a = &spec->attributes->items[i];
        (void)json_object_set_new(object_at(device, "attributes"), a->name,
                                  json_pack("{s:s}", "string", a->text));
    }
    /* Every pod of the node shares the DPU. No capacity is published: without a request for it a
     * share would take all of it and the second pod would not fit. */
    if (!dropped.multiple_allocations) {
        (void)json_object_set_new(device, "allowMultipleAllocations", json_true());
    }
    if (dropped.taints || !taint->is_set || spec->effect == SLICE_EFFECT_OFF) {
        (void)json_object_del(device, "taints");
    } else {
        json_t *value = plan_taint(spec, taint, json_object_get(device, "taints"));
        (void)json_object_set_new(device, "taints", json_pack("[o]", value));
    }
}

static json_t *plan_devices(const struct slice_spec *spec, const struct slice_taint *taint,
                            struct slice_dropped dropped, const json_t *existing)
{
    bool keeps_pods_off =
        spec->effect == SLICE_EFFECT_NO_SCHEDULE || spec->effect == SLICE_EFFECT_NO_EXECUTE;
    size_t index;
    json_t *old;
    json_t *device = NULL;
    if (dropped.taints && taint->is_set && keeps_pods_off) {
        return json_array(); /* withdrawn */
    }
    json_array_foreach(existing, index, old)
    {
        if (!device && text_equal(json_text_get(old, "name"), spec->device)) {
            device = json_deep_copy(old);
        }
    }
    device = device ? device : json_object();
    lay_device(device, spec, taint, dropped);
    return json_pack("[o]", device);
}

/* ---- the slice ------------------------------------------------------------------------------- */

json_t *slice_plan(const struct slice_spec *spec, const struct slice_taint *taint,
                   struct slice_dropped dropped, const json_t *existing)
{
    char name[NAMES_K8S_NAME_BYTES];
    json_t *slice = existing ? json_deep_copy(existing) : json_object();
    json_t *metadata = object_at(slice, "metadata");
    json_t *body = object_at(slice, "spec");
    json_t *pool = object_at(body, "pool");
    slice_make_name(spec->driver, spec->node_name, name);
    (void)json_object_set_new(slice, "apiVersion", json_string("resource.k8s.io/v1"));
    (void)json_object_set_new(slice, "kind", json_string("ResourceSlice"));
    (void)json_object_set_new(metadata, "name", json_string(name));
    if (spec->node_uid) {
        (void)json_object_set_new(metadata, "ownerReferences",
                                  json_pack("[{s:s,s:s,s:s,s:s,s:b}]", "apiVersion", "v1", "kind",
                                            "Node", "name", spec->node_name, "uid", spec->node_uid,
                                            "controller", 1));
    }
    (void)json_object_set_new(body, "driver", json_string(spec->driver));
    (void)json_object_set_new(body, "nodeName", json_string(spec->node_name));
    (void)json_object_set_new(pool, "name", json_string(spec->pool));
    (void)json_object_set_new(pool, "resourceSliceCount", json_integer(1));
    /* The generation of an existing pool is kept: one slice, always updated as a whole. */
    if (!json_is_integer(json_object_get(pool, "generation"))) {
        (void)json_object_set_new(pool, "generation", json_integer(1));
    }
    const json_t *devices = json_object_get(body, "devices");
    json_t *planned = plan_devices(spec, taint, dropped, devices);
    if (devices || json_array_size(planned) > 0) {
        (void)json_object_set_new(body, "devices", planned);
    } else {
        json_decref(planned); /* the server leaves an empty list out */
    }
    return slice;
}

/* ---- what the server has --------------------------------------------------------------------- */

static const json_t *member(const json_t *slice, const char *half, const char *key)
{
    return json_object_get(json_object_get(slice, half), key);
}

bool slice_says_same(const json_t *a, const json_t *b)
{
    const json_t *owners_a = member(a, "metadata", "ownerReferences");
    const json_t *owners_b = member(b, "metadata", "ownerReferences");
    return json_equal(json_object_get(a, "spec"), json_object_get(b, "spec")) &&
           (owners_a == owners_b || json_equal(owners_a, owners_b));
}

struct slice_dropped slice_find_dropped(const json_t *sent, const json_t *answer)
{
    const json_t *ours = json_array_get(member(sent, "spec", "devices"), 0);
    const json_t *kept = json_array_get(member(answer, "spec", "devices"), 0);
    struct slice_dropped dropped = {.taints = false};
    if (ours && kept) {
        dropped.taints = json_object_get(ours, "taints") && !json_object_get(kept, "taints");
        dropped.multiple_allocations = json_object_get(ours, "allowMultipleAllocations") &&
                                       !json_object_get(kept, "allowMultipleAllocations");
    }
    return dropped;
}

bool slice_is_ours(const struct slice_spec *spec, const json_t *slice)
{
    const json_t *s = json_object_get(slice, "spec");
    return text_equal(json_text_get(s, "driver"), spec->driver) &&
           text_equal(json_text_get(s, "nodeName"), spec->node_name);
}

bool slice_is_ending(const json_t *slice)
{
    return json_is_string(member(slice, "metadata", "deletionTimestamp"));
}

struct slice_snapshot slice_find(const struct slice_spec *spec, const char *own_name,
                                 const json_t *list)
{
    struct slice_snapshot found = {.own = NULL};
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(list, "items"), index, item)
    {
        const char *name = json_text_get(json_object_get(item, "metadata"), "name");
        const char *pool = json_text_get(member(item, "spec", "pool"), "name");
        if (text_equal(name, own_name)) {
            found.own = item;
        } else if (name && text_is_dns1123_subdomain(name) && slice_is_ours(spec, item) &&
                   text_equal(pool, spec->pool) && !slice_is_ending(item)) {
            found.obsolete = name;
        }
    }
    return found;
}
