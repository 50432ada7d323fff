/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice_plan.h"

#include "base/json_text.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const version_names[SLICE_VERSION_COUNT] = {
    [SLICE_V1] = "v1",
    [SLICE_V1BETA2] = "v1beta2",
    [SLICE_V1BETA1] = "v1beta1",
};

const char *slice_version_name(enum slice_version version)
{
    return version_names[version];
}

static const char *effect_name(enum slice_effect effect)
{
    switch (effect) {
    case SLICE_EFFECT_NO_SCHEDULE:
        return "NoSchedule";
    case SLICE_EFFECT_NO_EXECUTE:
        return "NoExecute";
    case SLICE_EFFECT_NONE:
    case SLICE_EFFECT_OFF:
        return "None";
    }
    return "None";
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

/* ---- laying texts and objects over what is there ---- */

/* Borrowed from `parent`; made if it is not an object yet. NULL when out of memory. */
static json_t *object_at(json_t *parent, const char *key)
{
    json_t *object = json_object_get(parent, key);
    if (json_is_object(object)) {
        return object;
    }
    object = json_object();
    return json_object_set_new(parent, key, object) == 0 ? object : NULL;
}

static bool set_text(json_t *object, const char *key, const char *text)
{
    return object && json_object_set_new(object, key, json_string(text)) == 0;
}

/* Sets unless an equal value is there, whose member order and extra members then stay. */
static bool set_json(json_t *object, const char *key, json_t *value)
{
    if (!object || !value) {
        json_decref(value);
        return false;
    }
    if (json_equal(json_object_get(object, key), value)) {
        json_decref(value);
        return true;
    }
    return json_object_set_new(object, key, value) == 0;
}

static json_t *attribute_values(const struct attribute_list *list)
{
    json_t *attributes = json_object();
    for (size_t i = 0; attributes && i < list->count; i++) {
        if (json_object_set_new(attributes, list->items[i].name,
                                json_pack("{s:s}", "string", list->items[i].text)) != 0) {
            json_decref(attributes);
            return NULL;
        }
    }
    return attributes;
}

/* The taint that is there already, with the server's timeAdded, or a new one. Owned. */
static json_t *taint_value(const struct slice_spec *spec, const struct slice_taint *taint,
                           const json_t *existing)
{
    char key[NAMES_K8S_NAME_BYTES + 16];
    const char *effect = effect_name(spec->effect);
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

/* ---- the device ---- */

static bool lay_taints(json_t *body, const struct slice_spec *spec, const struct slice_taint *taint,
                       bool are_dropped)
{
    if (are_dropped || !taint->is_set || spec->effect == SLICE_EFFECT_OFF) {
        (void)json_object_del(body, "taints"); /* absent: just as well */
        return true;
    }
    json_t *value = taint_value(spec, taint, json_object_get(body, "taints"));
    return set_json(body, "taints", value ? json_pack("[o]", value) : NULL);
}

/* Lays our members over the device (v1beta1: over its "basic"). */
static bool lay_device(json_t *device, const struct slice_spec *spec,
                       const struct slice_taint *taint, enum slice_version version,
                       struct slice_dropped dropped)
{
    json_t *body = version == SLICE_V1BETA1 ? object_at(device, "basic") : device;
    if (!set_text(device, "name", spec->device) || !body) {
        return false;
    }
    if (spec->attributes->count == 0) {
        (void)json_object_del(body, "attributes"); /* absent: just as well */
    } else if (!set_json(body, "attributes", attribute_values(spec->attributes))) {
        return false;
    }
    /* Every pod of the node shares the DPU. No capacity is published: without a request for it a
     * share would take all of it and the second pod would not fit. */
    if (!dropped.multiple_allocations && !set_json(body, "allowMultipleAllocations", json_true())) {
        return false;
    }
    return lay_taints(body, spec, taint, dropped.taints);
}

/* Without taints, an unhealthy device can only be kept from the scheduler by not offering it. */
static bool is_withdrawn(const struct slice_spec *spec, const struct slice_taint *taint,
                         struct slice_dropped dropped)
{
    return dropped.taints && taint->is_set &&
           (spec->effect == SLICE_EFFECT_NO_SCHEDULE || spec->effect == SLICE_EFFECT_NO_EXECUTE);
}

static json_t *plan_devices(const struct slice_spec *spec, const struct slice_taint *taint,
                            enum slice_version version, struct slice_dropped dropped,
                            const json_t *existing)
{
    size_t index;
    json_t *old;
    json_t *device = NULL;
    if (is_withdrawn(spec, taint, dropped)) {
        return json_array();
    }
    json_array_foreach(existing, index, old)
    {
        if (!device && text_equal(json_text_get(old, "name"), spec->device)) {
            device = json_deep_copy(old);
        }
    }
    device = device ? device : json_object();
    if (!device || !lay_device(device, spec, taint, version, dropped)) {
        json_decref(device);
        return NULL;
    }
    return json_pack("[o]", device);
}

/* ---- the slice ---- */

static bool lay_metadata(json_t *slice, const struct slice_spec *spec)
{
    char name[NAMES_K8S_NAME_BYTES];
    json_t *metadata = object_at(slice, "metadata");
    slice_make_name(spec->driver, spec->node_name, name);
    if (!set_text(metadata, "name", name)) {
        return false;
    }
    return !spec->node_uid ||
           set_json(metadata, "ownerReferences",
                    json_pack("[{s:s,s:s,s:s,s:s,s:b}]", "apiVersion", "v1", "kind", "Node", "name",
                              spec->node_name, "uid", spec->node_uid, "controller", 1));
}

static bool lay_pool(json_t *spec_json, const struct slice_spec *spec)
{
    json_t *pool = object_at(spec_json, "pool");
    if (!set_text(pool, "name", spec->pool)) {
        return false;
    }
    /* The generation of an existing pool is kept: one slice, always updated as a whole. */
    if (!json_is_integer(json_object_get(pool, "generation")) &&
        json_object_set_new(pool, "generation", json_integer(1)) != 0) {
        return false;
    }
    return json_object_set_new(pool, "resourceSliceCount", json_integer(1)) == 0;
}

static bool lay_slice(json_t *slice, const struct slice_spec *spec, const struct slice_taint *taint,
                      enum slice_version version, struct slice_dropped dropped)
{
    char api_version[32];
    text_format(api_version, sizeof(api_version), "resource.k8s.io/%s",
                slice_version_name(version));
    json_t *spec_json = object_at(slice, "spec");
    if (!spec_json || !set_text(slice, "apiVersion", api_version) ||
        !set_text(slice, "kind", "ResourceSlice") || !lay_metadata(slice, spec) ||
        !set_text(spec_json, "driver", spec->driver) ||
        !set_text(spec_json, "nodeName", spec->node_name) || !lay_pool(spec_json, spec)) {
        return false;
    }
    const json_t *devices = json_object_get(spec_json, "devices");
    json_t *planned = plan_devices(spec, taint, version, dropped, devices);
    if (!devices && planned && json_array_size(planned) == 0) {
        json_decref(planned); /* the server leaves an empty list out */
        return true;
    }
    return set_json(spec_json, "devices", planned);
}

json_t *slice_plan(const struct slice_spec *spec, const struct slice_taint *taint,
                   enum slice_version version, struct slice_dropped dropped, const json_t *existing)
{
    json_t *slice = existing ? json_deep_copy(existing) : json_object();
    if (slice && !lay_slice(slice, spec, taint, version, dropped)) {
        json_decref(slice);
        return NULL;
    }
    return slice;
}

/* ---- what the server kept ---- */

/* The members of the first device, or NULL. */
static const json_t *first_device(const json_t *slice, enum slice_version version)
{
    const json_t *devices = json_object_get(json_object_get(slice, "spec"), "devices");
    const json_t *device = json_array_get(devices, 0);
    return version == SLICE_V1BETA1 ? json_object_get(device, "basic") : device;
}

struct slice_dropped slice_find_dropped(const json_t *sent, const json_t *answer,
                                        enum slice_version version)
{
    const json_t *ours = first_device(sent, version);
    const json_t *kept = first_device(answer, version);
    struct slice_dropped dropped = {.taints = false};
    if (ours && kept) {
        dropped.taints = json_object_get(ours, "taints") && !json_object_get(kept, "taints");
        dropped.multiple_allocations = json_object_get(ours, "allowMultipleAllocations") &&
                                       !json_object_get(kept, "allowMultipleAllocations");
    }
    return dropped;
}
