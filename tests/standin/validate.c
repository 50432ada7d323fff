/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/validate.h"

#include "base/text.h"
#include "standin/micro_time.h"
#include "standin/need.h"
#include "standin/store.h"
#include "standin/validate_event.h"
#include "standin/validate_slice.h"

#include <inttypes.h>
#include <string.h>

/* What all decoders need. */
struct decoding {
    const struct api_kind *kind;
    const char *version;
    struct api_result *r;
};

/* How Go's JSON decoder names what it found. */
static const char *go_value(const json_t *value, char out[static 64])
{
    if (json_is_integer(value)) {
        (void)snprintf(out, 64, "number %" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        (void)snprintf(out, 64, "number %.17g", json_real_value(value));
    } else {
        (void)snprintf(out, 64, "%s",
                       json_is_string(value)    ? "string"
                       : json_is_array(value)   ? "array"
                       : json_is_boolean(value) ? "bool"
                                                : "object");
    }
    return out;
}

/* Refuses a value of another JSON type; absent and null are fine. `parent_name` is Go's, e.g.
 * "LeaseSpec.spec". */
static bool decode_type(const struct decoding *d, const json_t *parent, const char *parent_name,
                        const char *field, json_type type)
{
    const json_t *value = json_object_get(parent, field);
    bool fits = !value || json_is_null(value) || json_typeof(value) == type;
    char found[64];
    if (fits && type == JSON_INTEGER && json_is_integer(value)) {
        json_int_t number = json_integer_value(value);
        fits = number >= INT32_MIN && number <= INT32_MAX;
    }
    if (fits) {
        return true;
    }
    (void)go_value(value, found);
    if (type == JSON_STRING && json_is_number(value)) {
        found[strlen("number")] = '\0';
    }
    return api_fail(d->r, 400, "BadRequest",
                    "%s in version \"%s\" cannot be handled as a %s: json: cannot unmarshal %s "
                    "into Go struct field %s.%s of type %s",
                    d->kind->kind, d->version, d->kind->kind, found, parent_name, field,
                    type == JSON_INTEGER ? "int32" : "string");
}

/* Refuses, or rewrites to UTC. */
static bool decode_micro_time(const struct decoding *d, json_t *parent, const char *parent_name,
                              const char *field)
{
    char utc[MICRO_TIME_BYTES];
    char fault[MICRO_TIME_FAULT_BYTES];
    if (!decode_type(d, parent, parent_name, field, JSON_STRING)) {
        return false;
    }
    const char *text = json_string_value(json_object_get(parent, field));
    if (!text) {
        return true;
    }
    if (micro_time_decode(text, utc, fault) != 0) {
        return api_fail(d->r, 400, "BadRequest",
                        "%s in version \"%s\" cannot be handled as a %s: %s", d->kind->kind,
                        d->version, d->kind->kind, fault);
    }
    (void)json_object_set_new(parent, field, utc[0] ? json_string(utc) : json_null());
    return true;
}

static bool decode_lease(const struct decoding *d, json_t *object)
{
    static const char *const TEXTS[] = {"holderIdentity", "strategy", "preferredHolder"};
    json_t *spec = json_object_get(object, "spec");
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        if (!decode_type(d, spec, "LeaseSpec.spec", TEXTS[i], JSON_STRING)) {
            return false;
        }
    }
    return decode_type(d, spec, "LeaseSpec.spec", "leaseDurationSeconds", JSON_INTEGER) &&
           decode_type(d, spec, "LeaseSpec.spec", "leaseTransitions", JSON_INTEGER) &&
           decode_micro_time(d, spec, "LeaseSpec.spec", "acquireTime") &&
           decode_micro_time(d, spec, "LeaseSpec.spec", "renewTime");
}

/* metadata.labels and annotations hold texts only. */
static bool decode_string_map(const struct decoding *d, const json_t *metadata, const char *field)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(metadata, field), key, value)
    {
        if (!json_is_string(value)) {
            char name[64];
            (void)snprintf(name, sizeof(name), "%s", field);
            json_t *holder = need(json_pack("{s:O}", name, value));
            bool ok = decode_type(d, holder, "ObjectMeta.metadata", name, JSON_STRING);
            json_decref(holder);
            return ok;
        }
    }
    return true;
}

/* An optional field that is null is as good as absent, and the real server leaves it out. */
static void drop_nulls(json_t *object)
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

bool validate_decode(const struct api_kind *kind, const char *version, json_t *object,
                     struct api_result *r)
{
    const struct decoding d = {.kind = kind, .version = version, .r = r};
    json_t *metadata = json_object_get(object, "metadata");
    drop_nulls(metadata);
    drop_nulls(json_object_get(object, "spec"));
    if (!decode_string_map(&d, metadata, "annotations") ||
        !decode_string_map(&d, metadata, "labels")) {
        return false;
    }
    if (strcmp(kind->plural, "leases") == 0) {
        return decode_lease(&d, object);
    }
    if (strcmp(kind->plural, "events") == 0) {
        json_t *series = json_object_get(object, "series");
        return decode_micro_time(&d, object, "Event", "eventTime") &&
               decode_type(&d, series, "EventSeries.series", "count", JSON_INTEGER) &&
               decode_micro_time(&d, series, "EventSeries.series", "lastObservedTime");
    }
    return true;
}

static bool validate_owners(const struct api_kind *kind, const json_t *object, struct api_result *r)
{
    static const char *const FIELDS[] = {"apiVersion", "kind", "name", "uid"};
    const json_t *owners = json_object_get(json_object_get(object, "metadata"), "ownerReferences");
    const char *name = store_meta(object, "name");
    const json_t *controller = NULL;
    size_t i;
    json_t *owner;
    json_array_foreach(owners, i, owner)
    {
        for (size_t f = 0; f < ARRAY_LEN(FIELDS); f++) {
            if (text_is_empty(json_string_value(json_object_get(owner, FIELDS[f])))) {
                char field[64];
                (void)snprintf(field, sizeof(field), "metadata.ownerReferences.%s", FIELDS[f]);
                return api_fail_invalid(r, kind, name, field,
                                        "Invalid value: \"\": must not be empty");
            }
        }
        if (!json_is_true(json_object_get(owner, "controller"))) {
            continue;
        }
        if (controller) {
            return api_fail_invalid(
                r, kind, name, "metadata.ownerReferences",
                "Invalid value: Only one reference can have Controller set to true. Found \"true\" "
                "in references for %s/%s and %s/%s",
                json_string_value(json_object_get(controller, "kind")),
                json_string_value(json_object_get(controller, "name")),
                json_string_value(json_object_get(owner, "kind")),
                json_string_value(json_object_get(owner, "name")));
        }
        controller = owner;
    }
    return true;
}

static bool validate_lease(const struct api_kind *kind, const json_t *object, struct api_result *r)
{
    const json_t *spec = json_object_get(object, "spec");
    const json_t *duration = json_object_get(spec, "leaseDurationSeconds");
    const json_t *transitions = json_object_get(spec, "leaseTransitions");
    const char *name = store_meta(object, "name");

    if (json_is_integer(duration) && json_integer_value(duration) <= 0) {
        return api_fail_invalid(r, kind, name, "spec.leaseDurationSeconds",
                                "Invalid value: %" JSON_INTEGER_FORMAT ": must be greater than 0",
                                json_integer_value(duration));
    }
    if (json_is_integer(transitions) && json_integer_value(transitions) < 0) {
        return api_fail_invalid(r, kind, name, "spec.leaseTransitions",
                                "Invalid value: %" JSON_INTEGER_FORMAT
                                ": must be greater than or equal to 0",
                                json_integer_value(transitions));
    }
    if (!text_is_empty(json_string_value(json_object_get(spec, "preferredHolder"))) &&
        text_is_empty(json_string_value(json_object_get(spec, "strategy")))) {
        return api_fail_invalid(r, kind, name, "spec.preferredHolder",
                                "Forbidden: may only be specified if `strategy` is defined");
    }
    return true;
}

bool validate_object(const struct api_kind *kind, const json_t *object, struct api_result *r)
{
    const char *name = store_meta(object, "name");
    if (name[0] == '\0') {
        return api_fail_invalid(r, kind, name, "metadata.name",
                                "Required value: name or generateName is required");
    }
    if (!text_is_dns1123_subdomain(name)) {
        return api_fail_invalid(
            r, kind, name, "metadata.name",
            "Invalid value: \"%s\": a lowercase RFC 1123 subdomain must consist of lower case "
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            name);
    }
    if (!validate_owners(kind, object, r)) {
        return false;
    }
    if (strcmp(kind->plural, "leases") == 0) {
        return validate_lease(kind, object, r);
    }
    if (strcmp(kind->plural, "events") == 0) {
        return validate_event(kind, object, r);
    }
    if (strcmp(kind->plural, "resourceslices") == 0) {
        return validate_slice(kind, object, r);
    }
    return true;
}

bool validate_new(const struct api_kind *kind, const json_t *object, struct api_result *r)
{
    return validate_object(kind, object, r) &&
           (strcmp(kind->plural, "events") != 0 || validate_event_new(kind, object, r));
}

bool validate_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                     struct api_result *r)
{
    static const char *const FIXED[] = {"uid", "name", "namespace"};
    for (size_t i = 0; i < ARRAY_LEN(FIXED); i++) {
        if (strcmp(store_meta(before, FIXED[i]), store_meta(after, FIXED[i])) != 0) {
            char field[64];
            (void)snprintf(field, sizeof(field), "metadata.%s", FIXED[i]);
            return api_fail_invalid(r, kind, store_meta(before, "name"), field,
                                    "Invalid value: \"%s\": field is immutable",
                                    store_meta(after, FIXED[i]));
        }
    }
    if (strcmp(kind->plural, "resourceslices") == 0) {
        return validate_slice_change(kind, before, after, r);
    }
    if (strcmp(kind->plural, "events") == 0) {
        return validate_event_change(kind, before, after, r);
    }
    return true;
}
