/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/validate_slice.h"

#include "base/text.h"
#include "standin/store.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 128, MAX_TAINTS = 16, MAX_LABEL_BYTES = 63, MAX_VALUES = 32 };

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_label(const char *text)
{
    return strlen(text) <= MAX_LABEL_BYTES && !strchr(text, '.') && text_is_dns1123_subdomain(text);
}

/* A Kubernetes label value: 63 of [A-Za-z0-9_.-], alphanumeric at both ends; "" is fine. */
static bool is_label_value(const char *text)
{
    size_t len = strlen(text);
    if (len == 0) {
        return true;
    }
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)text[i]) && !strchr("_.-", text[i])) {
            return false;
        }
    }
    return len <= MAX_LABEL_BYTES && isalnum((unsigned char)text[0]) &&
           isalnum((unsigned char)text[len - 1]);
}

static bool validate_taints(const struct api_kind *kind, const char *name, const json_t *taints,
                            struct api_result *r)
{
    size_t i;
    json_t *taint;
    if (json_array_size(taints) > MAX_TAINTS) {
        return api_fail_invalid(r, kind, name, "spec.devices.taints",
                                "Too many: %zu: must have at most %d items",
                                json_array_size(taints), MAX_TAINTS);
    }
    json_array_foreach(taints, i, taint)
    {
        const char *effect = text_at(taint, "effect");
        if (text_at(taint, "key")[0] == '\0') {
            return api_fail_invalid(r, kind, name, "spec.devices.taints.key", "Required value");
        }
        if (!is_label_value(text_at(taint, "value"))) {
            return api_fail_invalid(r, kind, name, "spec.devices.taints.value",
                                    "Invalid value: \"%s\": a valid label must be an empty string "
                                    "or consist of alphanumeric characters, '-', '_' or '.'",
                                    text_at(taint, "value"));
        }
        if (strcmp(effect, "NoSchedule") != 0 && strcmp(effect, "NoExecute") != 0 &&
            strcmp(effect, "None") != 0) {
            return api_fail_invalid(r, kind, name, "spec.devices.taints.effect",
                                    "Unsupported value: \"%s\": supported values: \"NoExecute\", "
                                    "\"NoSchedule\", \"None\"",
                                    effect);
        }
    }
    return true;
}

static bool validate_devices(const struct api_kind *kind, const char *name, const json_t *devices,
                             struct api_result *r)
{
    size_t i;
    json_t *device;
    if (json_array_size(devices) > MAX_DEVICES) {
        return api_fail_invalid(r, kind, name, "spec.devices",
                                "Too many: %zu: must have at most %d items",
                                json_array_size(devices), MAX_DEVICES);
    }
    json_array_foreach(devices, i, device)
    {
        const char *device_name = text_at(device, "name");
        if (!is_label(device_name)) {
            return api_fail_invalid(r, kind, name, "spec.devices.name",
                                    "Invalid value: \"%s\": a lowercase RFC 1123 label",
                                    device_name);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(text_at(json_array_get(devices, j), "name"), device_name) == 0) {
                return api_fail_invalid(r, kind, name, "spec.devices.name",
                                        "Duplicate value: \"%s\"", device_name);
            }
        }
        if (json_object_size(json_object_get(device, "attributes")) +
                json_object_size(json_object_get(device, "capacity")) >
            MAX_VALUES) {
            return api_fail_invalid(r, kind, name, "spec.devices",
                                    "the total number of attributes and capacities must not "
                                    "exceed %d",
                                    MAX_VALUES);
        }
        if (!validate_taints(kind, name, json_object_get(device, "taints"), r)) {
            return false;
        }
    }
    return true;
}

bool validate_slice(const struct api_kind *kind, const json_t *slice, struct api_result *r)
{
    static const char *const PLACES[] = {"nodeName", "nodeSelector", "allNodes",
                                         "perDeviceNodeSelection"};
    const json_t *spec = json_object_get(slice, "spec");
    const json_t *pool = json_object_get(spec, "pool");
    const char *name = store_meta(slice, "name");
    const char *driver = text_at(spec, "driver");
    size_t places = 0;

    if (!text_is_dns1123_subdomain(driver) || strlen(driver) > MAX_LABEL_BYTES) {
        return api_fail_invalid(r, kind, name, "spec.driver", "Invalid value: \"%s\"", driver);
    }
    if (text_at(pool, "name")[0] == '\0') {
        return api_fail_invalid(r, kind, name, "spec.pool.name", "Required value");
    }
    if (json_integer_value(json_object_get(pool, "generation")) < 0) {
        return api_fail_invalid(r, kind, name, "spec.pool.generation",
                                "Invalid value: must be greater than or equal to zero");
    }
    if (json_integer_value(json_object_get(pool, "resourceSliceCount")) <= 0) {
        return api_fail_invalid(r, kind, name, "spec.pool.resourceSliceCount",
                                "Invalid value: must be greater than zero");
    }
    for (size_t i = 0; i < ARRAY_LEN(PLACES); i++) {
        const json_t *place = json_object_get(spec, PLACES[i]);
        places += place && !json_is_false(place) && !json_is_null(place);
    }
    if (places != 1) {
        return api_fail_invalid(r, kind, name, "spec",
                                "exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
                                "`perDeviceNodeSelection` is required");
    }
    return validate_devices(kind, name, json_object_get(spec, "devices"), r);
}

bool validate_slice_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                           struct api_result *r)
{
    const json_t *old_spec = json_object_get(before, "spec");
    const json_t *new_spec = json_object_get(after, "spec");
    const json_t *old_pool = json_object_get(old_spec, "pool");
    const json_t *new_pool = json_object_get(new_spec, "pool");
    const char *field = NULL;
    const char *value = NULL;

    if (strcmp(text_at(old_spec, "driver"), text_at(new_spec, "driver")) != 0) {
        field = "spec.driver";
        value = text_at(new_spec, "driver");
    } else if (strcmp(text_at(old_spec, "nodeName"), text_at(new_spec, "nodeName")) != 0) {
        field = "spec.nodeName";
        value = text_at(new_spec, "nodeName");
    } else if (strcmp(text_at(old_pool, "name"), text_at(new_pool, "name")) != 0) {
        field = "spec.pool.name";
        value = text_at(new_pool, "name");
    }
    if (field) {
        return api_fail_invalid(r, kind, store_meta(before, "name"), field,
                                "Invalid value: \"%s\": field is immutable", value);
    }
    return true;
}
