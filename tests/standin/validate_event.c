/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/validate_event.h"

#include "base/attr.h"
#include "standin/store.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TEXT_BYTES = 128, MAX_NOTE_BYTES = 1024, MAX_NAME_BYTES = 63 };

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool refuse(const struct api_kind *kind, const json_t *event, const char *field,
                   const char *why, struct api_result *r)
{
    /* The registry validates the internal type, which is core's whatever was asked for. */
    const struct api_kind *core = api_kind_storage(kind);
    return api_fail_invalid(r, core, store_meta(event, "name"), field, "%s", why);
}

/* The part after an optional "prefix/" of a qualified name. */
static bool is_qualified_name(const char *text)
{
    const char *slash = strchr(text, '/');
    const char *name = slash ? slash + 1 : text;
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i])) {
            return false;
        }
    }
    return len > 0 && len <= MAX_NAME_BYTES && isalnum((unsigned char)name[0]) &&
           isalnum((unsigned char)name[len - 1]) && slash != text;
}

static bool is_zero_time(const json_t *object, const char *key)
{
    return text_at(object, key)[0] == '\0';
}

static bool validate_series(const struct api_kind *kind, const json_t *event, struct api_result *r)
{
    const json_t *series = json_object_get(event, "series");
    if (!json_is_object(series)) {
        return true;
    }
    if (json_integer_value(json_object_get(series, "count")) < 2) {
        return refuse(kind, event, "series.count", "Invalid value: \"\": should be at least 2", r);
    }
    if (is_zero_time(series, "lastObservedTime")) {
        return refuse(kind, event, "series.lastObservedTime", "Required value", r);
    }
    return true;
}

static bool validate_texts(const struct api_kind *kind, const json_t *event, struct api_result *r)
{
    static const struct {
        const char *stored;
        const char *said;
        bool is_required;
        size_t max_bytes;
    } TEXTS[] = {
        {"reportingComponent", "reportingController", true, SIZE_MAX},
        {"reportingInstance", "reportingInstance", true, MAX_TEXT_BYTES},
        {"action", "action", true, MAX_TEXT_BYTES},
        {"reason", "reason", true, MAX_TEXT_BYTES},
        {"message", "message", false, MAX_NOTE_BYTES},
    };
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        const char *text = text_at(event, TEXTS[i].stored);
        char why[80];
        if (TEXTS[i].is_required && text[0] == '\0') {
            return refuse(kind, event, TEXTS[i].said, "Required value", r);
        }
        if (strlen(text) > TEXTS[i].max_bytes) {
            (void)snprintf(why, sizeof(why), "Invalid value: \"\": can have at most %zu characters",
                           TEXTS[i].max_bytes);
            return refuse(kind, event, TEXTS[i].said, why, r);
        }
    }
    if (!is_qualified_name(text_at(event, "reportingComponent"))) {
        return refuse(kind, event, "reportingController",
                      "Invalid value: name part must consist "
                      "of alphanumeric characters, '-', '_' or '.'",
                      r);
    }
    return true;
}

bool validate_event(const struct api_kind *kind, const json_t *event, struct api_result *r)
{
    static const char MISMATCH[] = "Invalid value: \"\": does not match event.namespace";
    const char *about = text_at(json_object_get(event, "involvedObject"), "namespace");
    const char *ns = store_meta(event, "namespace");
    bool is_new_style = !is_zero_time(event, "eventTime");
    bool is_default = strcmp(ns, "default") == 0;
    if (is_new_style) {
        if (about[0] == '\0' && !is_default && strcmp(ns, "kube-system") != 0) {
            return refuse(kind, event, "involvedObject.namespace", MISMATCH, r);
        }
        return validate_texts(kind, event, r);
    }
    if (about[0] == '\0' ? !is_default : strcmp(about, ns) != 0) {
        return refuse(kind, event, "involvedObject.namespace", MISMATCH, r);
    }
    return true;
}

bool validate_event_new(const struct api_kind *kind, const json_t *event, struct api_result *r)
{
    static const char *const UNSET[] = {"firstTimestamp", "lastTimestamp", "count"};
    const char *type = text_at(event, "type");
    char why[96];
    if (!kind->stored_as_core_event) {
        return true;
    }
    if (!validate_series(kind, event, r)) {
        return false;
    }
    if (is_zero_time(event, "eventTime")) {
        return refuse(kind, event, "eventTime", "Required value", r);
    }
    if (strcmp(type, "Normal") != 0 && strcmp(type, "Warning") != 0) {
        (void)snprintf(why, sizeof(why), "Invalid value: \"\": has invalid value: %.32s", type);
        return refuse(kind, event, "type", why, r);
    }
    for (size_t i = 0; i < ARRAY_LEN(UNSET); i++) {
        const json_t *value = json_object_get(event, UNSET[i]);
        if (json_is_string(value) || json_integer_value(value) != 0) {
            return refuse(kind, event, UNSET[i], "Invalid value: \"\": needs to be unset", r);
        }
    }
    if (json_object_size(json_object_get(event, "source")) != 0) {
        return refuse(kind, event, "source", "Invalid value: \"\": needs to be unset", r);
    }
    return true;
}

bool validate_event_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                           struct api_result *r)
{
    static const char *const FIXED[][2] = {
        {"involvedObject", "involvedObject"},
        {"reason", "reason"},
        {"message", "message"},
        {"source", "source"},
        {"firstTimestamp", "firstTimestamp"},
        {"lastTimestamp", "lastTimestamp"},
        {"count", "count"},
        {"type", "type"},
        {"eventTime", "eventTime"},
        {"action", "action"},
        {"related", "related"},
        {"reportingComponent", "reportingController"},
        {"reportingInstance", "reportingInstance"},
    };
    if (!kind->stored_as_core_event) {
        return true;
    }
    const json_t *series = json_object_get(after, "series");
    if (!json_equal(json_object_get(before, "series"), series) &&
        !validate_series(kind, after, r)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(FIXED); i++) {
        const json_t *old = json_object_get(before, FIXED[i][0]);
        const json_t *new = json_object_get(after, FIXED[i][0]);
        if (old || new ? !json_equal(old, new) : false) {
            return refuse(kind, after, FIXED[i][1], "Invalid value: field is immutable", r);
        }
    }
    return true;
}
