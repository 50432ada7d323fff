/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/validate.h"

#include "base/rfc3339.h"
#include "base/text.h"
#include "standin/store.h"
#include "standin/validate_slice.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static const char MICRO_TIME_LAYOUT[] = "2006-01-02T15:04:05.000000Z07:00";

/* True if `text` has the digits and signs of `shape` ('0' stands for any digit) at its front. */
static bool has_shape(const char *text, const char *shape)
{
    for (size_t i = 0; shape[i]; i++) {
        bool same = shape[i] == '0' ? isdigit((unsigned char)text[i]) != 0 : text[i] == shape[i];
        if (!same) {
            return false;
        }
    }
    return true;
}

/* Returns where Go's parser gives up and what it looked for, or NULL if `text` is a MicroTime. */
static const char *micro_time_fault(const char *text, const char **out_wanted)
{
    static const char DATE_TIME[] = "0000-00-00T00:00:00";
    size_t len = strlen(DATE_TIME);
    struct wall parsed;
    struct err e;

    if (!has_shape(text, DATE_TIME)) {
        *out_wanted = "2006";
        return text;
    }
    if ((text[len] != '.' && text[len] != ',') || !has_shape(text + len + 1, "000000") ||
        isdigit((unsigned char)text[len + 7])) {
        *out_wanted = ".000000";
        return text + len;
    }
    const char *zone = text + len + 7;
    bool zone_ok = strcmp(zone, "Z") == 0 ||
                   ((has_shape(zone, "+00:00") || has_shape(zone, "-00:00")) && strlen(zone) == 6);
    if (!zone_ok) {
        *out_wanted = "Z07:00";
        return zone;
    }
    int rc = rfc3339_parse(text, strlen(text), &parsed, &e);
    bool leap_second = strncmp(text + len - 2, "60", 2) == 0; /* Go knows none */
    if (leap_second || (rc == ERR_PARSE && text[len] == '.')) {
        *out_wanted = "";
        return text;
    }
    return NULL;
}

/* Refuses, or rewrites to UTC, spec.<field> of a Lease or the eventTime of an Event. */
static bool decode_micro_time(const struct api_kind *kind, const char *version, json_t *parent,
                              const char *field, struct api_result *r)
{
    const json_t *value = json_object_get(parent, field);
    if (!value || json_is_null(value)) {
        return true;
    }
    if (!json_is_string(value)) {
        return api_fail(r, 400, "BadRequest",
                        "%s in version \"%s\" cannot be handled as a %s: json: cannot unmarshal "
                        "into Go value of type string",
                        kind->kind, version, kind->kind);
    }
    const char *text = json_string_value(value);
    const char *wanted = NULL;
    const char *at = micro_time_fault(text, &wanted);
    if (at) {
        return api_fail(r, 400, "BadRequest",
                        "%s in version \"%s\" cannot be handled as a %s: parsing time \"%s\" as "
                        "\"%s\": cannot parse \"%s\" as \"%s\"",
                        kind->kind, version, kind->kind, text, MICRO_TIME_LAYOUT, at, wanted);
    }
    struct wall when;
    if (rfc3339_parse(text, strlen(text), &when, NULL) == 0) {
        char utc[RFC3339_BYTES];
        rfc3339_format_micro(when, utc);
        (void)json_object_set_new(parent, field, json_string(utc));
    }
    return true;
}

/* Refuses a value of another JSON type; absent and null are fine. */
static bool decode_type(const struct api_kind *kind, const char *version, const json_t *parent,
                        const char *field, json_type type, struct api_result *r)
{
    const json_t *value = json_object_get(parent, field);
    bool fits = !value || json_is_null(value) || json_typeof(value) == type;
    if (fits && type == JSON_INTEGER && json_is_integer(value)) {
        json_int_t number = json_integer_value(value);
        fits = number >= INT32_MIN && number <= INT32_MAX;
    }
    if (!fits) {
        return api_fail(r, 400, "BadRequest",
                        "%s in version \"%s\" cannot be handled as a %s: json: cannot unmarshal "
                        "value into Go struct field %sSpec.spec.%s of type %s",
                        kind->kind, version, kind->kind, kind->kind, field,
                        type == JSON_INTEGER ? "int32" : "string");
    }
    return true;
}

static bool decode_lease(const struct api_kind *kind, const char *version, json_t *object,
                         struct api_result *r)
{
    static const char *const TEXTS[] = {"holderIdentity", "strategy", "preferredHolder"};
    json_t *spec = json_object_get(object, "spec");
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        if (!decode_type(kind, version, spec, TEXTS[i], JSON_STRING, r)) {
            return false;
        }
    }
    return decode_type(kind, version, spec, "leaseDurationSeconds", JSON_INTEGER, r) &&
           decode_type(kind, version, spec, "leaseTransitions", JSON_INTEGER, r) &&
           decode_micro_time(kind, version, spec, "acquireTime", r) &&
           decode_micro_time(kind, version, spec, "renewTime", r);
}

static bool string_map(const json_t *map)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value)
    {
        if (!json_is_string(value)) {
            return false;
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
    json_t *metadata = json_object_get(object, "metadata");
    drop_nulls(metadata);
    drop_nulls(json_object_get(object, "spec"));
    if ((metadata && !json_is_object(metadata)) ||
        !string_map(json_object_get(metadata, "annotations")) ||
        !string_map(json_object_get(metadata, "labels"))) {
        return api_fail(r, 400, "BadRequest",
                        "%s in version \"%s\" cannot be handled as a %s: json: cannot unmarshal "
                        "value into Go struct field ObjectMeta.metadata of type string",
                        kind->kind, version, kind->kind);
    }
    if (strcmp(kind->plural, "leases") == 0) {
        return decode_lease(kind, version, object, r);
    }
    if (strcmp(kind->plural, "events") == 0) {
        return decode_micro_time(kind, version, object, "eventTime", r);
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
                return api_fail_invalid(r, kind, name, "metadata.ownerReferences",
                                        "Invalid value: \"\": %s must not be empty", FIELDS[f]);
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

/* New-style events only (eventTime set); legacy ones need just the namespace of their object. */
static bool validate_event(const struct api_kind *kind, const json_t *object, struct api_result *r)
{
    static const char *const REQUIRED[] = {"reportingComponent", "reportingInstance", "action",
                                           "reason"};
    const char *name = store_meta(object, "name");
    const json_t *regarding = json_object_get(object, "involvedObject");
    const char *regarding_ns = json_string_value(json_object_get(regarding, "namespace"));
    const char *ns = store_meta(object, "namespace");
    bool cluster_wide = text_is_empty(regarding_ns);

    if (strcmp(cluster_wide ? "default" : regarding_ns, ns) != 0 &&
        !(cluster_wide && strcmp(ns, "kube-system") == 0)) {
        return api_fail_invalid(r, kind, name, "involvedObject.namespace",
                                "Invalid value: \"%s\": does not match event.namespace",
                                cluster_wide ? "" : regarding_ns);
    }
    if (!json_is_string(json_object_get(object, "eventTime"))) {
        return !kind->stored_as_core_event
                   ? true
                   : api_fail_invalid(r, kind, name, "eventTime", "Required value");
    }
    for (size_t i = 0; i < ARRAY_LEN(REQUIRED); i++) {
        if (text_is_empty(json_string_value(json_object_get(object, REQUIRED[i])))) {
            return api_fail_invalid(r, kind, name, REQUIRED[i], "Required value");
        }
    }
    const char *type = json_string_value(json_object_get(object, "type"));
    if (!type || (strcmp(type, "Normal") != 0 && strcmp(type, "Warning") != 0)) {
        return api_fail_invalid(r, kind, name, "type", "Invalid value: \"%s\": has invalid value",
                                type ? type : "");
    }
    const char *message = json_string_value(json_object_get(object, "message"));
    if (message && strlen(message) > 1024) {
        return api_fail_invalid(r, kind, name, "message", "can have at most 1024 characters");
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
            "character",
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

bool validate_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                     struct api_result *r)
{
    static const char *const FIXED[] = {"creationTimestamp", "name", "namespace"};
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
    return true;
}
