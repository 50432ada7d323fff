/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/api_meta.h"

#include "base/clock.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "standin/need.h"
#include "standin/store.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

bool api_meta_check_body(const struct api_target *target, const json_t *body, struct api_result *r)
{
    char version[API_NAME_BYTES];
    const char *kind = json_string_value(json_object_get(body, "kind"));
    const char *own_version = json_string_value(json_object_get(body, "apiVersion"));
    const char *name = store_meta(body, "name");
    const char *ns = store_meta(body, "namespace");

    if (!json_is_object(body)) {
        return api_fail(r, 400, "BadRequest",
                        "the object provided is unrecognized (must be of type %s)",
                        target->kind->kind);
    }
    api_kind_version(target->kind, target->version, version);
    if ((own_version && strcmp(own_version, version) != 0) ||
        (kind && strcmp(kind, target->kind->kind) != 0)) {
        return api_fail(r, 400, "BadRequest",
                        "%s in version \"%s\" cannot be handled as a %s: the API version in the "
                        "data (%s) does not match the expected API version (%s)",
                        kind ? kind : "", own_version ? own_version : "", target->kind->kind,
                        own_version ? own_version : "", version);
    }
    if (ns[0] && strcmp(ns, target->ns) != 0) {
        return api_fail(r, 400, "BadRequest",
                        "the namespace of the provided object does not match the namespace sent "
                        "on the request");
    }
    if (target->name[0] && name[0] == '\0') {
        return api_fail(r, 400, "BadRequest",
                        "the name of the object (%s based on URL) was undeterminable: name must "
                        "be provided",
                        target->name);
    }
    if (target->name[0] && strcmp(name, target->name) != 0) {
        return api_fail(r, 400, "BadRequest",
                        "the name of the object (%s) does not match the name on the URL (%s)", name,
                        target->name);
    }
    return true;
}

static void random_bytes(uint8_t *out, size_t count)
{
    if (getrandom(out, count, 0) != (ssize_t)count) {
        abort(); /* never for so few bytes */
    }
}

void api_meta_new_uid(char out[static 37])
{
    uint8_t b[16];
    random_bytes(b, sizeof(b));
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* RFC 4122, version 4 */
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    (void)snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
                   b[13], b[14], b[15]);
}

static json_t *metadata_of(json_t *object)
{
    json_t *metadata = json_object_get(object, "metadata");
    if (!json_is_object(metadata)) {
        metadata = need(json_object());
        (void)json_object_set_new(object, "metadata", metadata);
    }
    return metadata;
}

static void set_text(json_t *metadata, const char *key, const char *text)
{
    (void)json_object_set_new(metadata, key, need(json_string(text)));
}

void api_meta_stamp_new(json_t *object, const char *ns)
{
    static const char ALPHABET[] = "bcdfghjklmnpqrstvwxz2456789";
    json_t *metadata = metadata_of(object);
    const char *prefix = store_meta(object, "generateName");
    char text[API_NAME_BYTES];

    if (store_meta(object, "name")[0] == '\0' && prefix[0]) {
        uint8_t b[5];
        random_bytes(b, sizeof(b));
        int len = snprintf(text, sizeof(text) - sizeof(b), "%s", prefix);
        size_t end = (size_t)len < sizeof(text) - sizeof(b) ? (size_t)len : 0;
        for (size_t i = 0; i < sizeof(b); i++) {
            text[end + i] = ALPHABET[b[i] % (sizeof(ALPHABET) - 1)];
        }
        text[end + sizeof(b)] = '\0';
        set_text(metadata, "name", text);
    }
    api_meta_new_uid(text);
    set_text(metadata, "uid", text);
    rfc3339_format_seconds(clock_wall_now(), text);
    set_text(metadata, "creationTimestamp", text);
    if (ns) {
        set_text(metadata, "namespace", ns);
    }
}

void api_meta_inherit(const json_t *existing, json_t *wanted)
{
    static const char *const KEYS[] = {"uid", "creationTimestamp", "namespace", "name",
                                       "generateName"};
    json_t *metadata = metadata_of(wanted);
    const json_t *old = json_object_get(existing, "metadata");
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        json_t *value = json_object_get(old, KEYS[i]);
        const json_t *own = json_object_get(metadata, KEYS[i]);
        bool fixed = strcmp(KEYS[i], "creationTimestamp") == 0; /* whatever was sent */
        if (value && (fixed || !own || json_is_null(own))) {
            (void)json_object_set(metadata, KEYS[i], value);
        }
    }
}

void api_meta_stamp_slice(const struct api_kind *kind, const json_t *existing, json_t *wanted)
{
    char now[RFC3339_BYTES];
    size_t i;
    size_t j;
    json_t *device;
    json_t *taint;
    if (strcmp(kind->plural, "resourceslices") != 0) {
        return;
    }
    json_t *spec = json_object_get(wanted, "spec");
    rfc3339_format_seconds(clock_wall_now(), now);
    json_array_foreach(json_object_get(spec, "devices"), i, device)
    {
        json_array_foreach(json_object_get(device, "taints"), j, taint)
        {
            if (!json_object_get(taint, "timeAdded")) {
                set_text(taint, "timeAdded", now);
            }
        }
    }
    json_int_t generation =
        json_integer_value(json_object_get(json_object_get(existing, "metadata"), "generation"));
    if (!existing || !json_equal(json_object_get(existing, "spec"), spec)) {
        generation++;
    }
    (void)json_object_set_new(metadata_of(wanted), "generation", json_integer(generation));
}

void api_meta_limit_to_subresource(const char *subresource, const json_t *existing, json_t *wanted)
{
    if (strcmp(subresource, "status") != 0) {
        return;
    }
    json_t *status = json_incref(json_object_get(wanted, "status"));
    (void)json_object_clear(wanted);
    (void)json_object_update(wanted, (json_t *)existing);
    json_t *metadata = need(json_deep_copy(json_object_get(existing, "metadata")));
    (void)json_object_set_new(wanted, "metadata", metadata);
    if (status) {
        (void)json_object_set_new(wanted, "status", status);
    }
}
