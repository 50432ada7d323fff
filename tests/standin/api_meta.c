/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/api_meta.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/time.h"
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
    json_t *metadata = metadata_of(object);
    char text[API_NAME_BYTES];
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
                                       "managedFields"};
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

void api_meta_drop_nulls(json_t *object)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, key, value)
    {
        if (json_is_null(value)) {
            (void)json_object_del(object, key);
        }
    }
}

bool api_meta_check_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                           struct api_result *r)
{
    static const char *const FIXED[] = {"uid", "name", "namespace"};
    for (size_t i = 0; i < ARRAY_LEN(FIXED); i++) {
        const char *value = store_meta(after, FIXED[i]);
        if (strcmp(store_meta(before, FIXED[i]), value) != 0) {
            char what[64];
            (void)snprintf(what, sizeof(what), "metadata.%s: field is immutable", FIXED[i]);
            return api_fail_invalid(r, kind, store_meta(before, "name"), what);
        }
    }
    return true;
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
