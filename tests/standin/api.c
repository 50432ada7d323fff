/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/api.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "standin/managed.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024 };

void api_result_fini(struct api_result *r)
{
    json_decref(r->body);
    *r = (struct api_result)API_RESULT_INIT;
}

void api_result_ok(struct api_result *r, int code, json_t *body)
{
    json_decref(r->body);
    r->code = code;
    r->body = need(body);
}

static json_t *new_status(int code, const char *reason, const char *message)
{
    json_t *status = need(json_pack("{s:s, s:s, s:{}, s:s, s:s}", "kind", "Status", "apiVersion",
                                    "v1", "metadata", "status", "Failure", "message", message));
    if (reason[0]) {
        (void)json_object_set_new(status, "reason", json_string(reason));
    }
    (void)json_object_set_new(status, "code", json_integer(code));
    return status;
}

bool api_fail(struct api_result *r, int code, const char *reason, const char *fmt, ...)
{
    char message[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    api_result_ok(r, code, new_status(code, reason, message));
    return false;
}

static bool fail_not_found(struct api_result *r, const struct api_kind *kind, const char *name)
{
    char resource[API_NAME_BYTES];
    api_kind_resource(kind, resource);
    return api_fail(r, 404, "NotFound", "%s \"%s\" not found", resource, name);
}

static bool fail_exists(struct api_result *r, const struct api_kind *kind, const char *name)
{
    char resource[API_NAME_BYTES];
    api_kind_resource(kind, resource);
    return api_fail(r, 409, "AlreadyExists", "%s \"%s\" already exists", resource, name);
}

static bool fail_conflict(struct api_result *r, const struct api_kind *kind, const char *name,
                          const char *why)
{
    char resource[API_NAME_BYTES];
    api_kind_resource(kind, resource);
    return api_fail(r, 409, "Conflict", "Operation cannot be fulfilled on %s \"%s\": %s", resource,
                    name, why);
}

static bool fail_invalid(struct api_result *r, const struct api_kind *kind, const char *name,
                         const char *what)
{
    return api_fail(r, 422, "Invalid", "%s%s%s \"%s\" is invalid: %s", kind->kind,
                    kind->group[0] ? "." : "", kind->group, name, what);
}

json_t *api_expired_status(uint64_t asked, uint64_t oldest)
{
    char message[MESSAGE_BYTES];
    (void)snprintf(message, sizeof(message), "too old resource version: %" PRIu64 " (%" PRIu64 ")",
                   asked, oldest);
    return new_status(410, "Expired", message);
}

json_t *api_bookmark(const struct api_target *target, uint64_t version)
{
    char text[24];
    char api_version[API_NAME_BYTES];
    (void)snprintf(text, sizeof(text), "%" PRIu64, version);
    api_kind_version(target->kind, api_version);
    return need(json_pack("{s:s, s:s, s:{s:s, s:n}, s:{}}", "kind", target->kind->kind,
                          "apiVersion", api_version, "metadata", "resourceVersion", text,
                          "creationTimestamp", "spec"));
}

/* ---- patches --------------------------------------------------------------------------------- */

/* The one list that a strategic merge patch of ours has: its items are merged by their "type".
 * Returns owned. */
static json_t *merge_by_type(const json_t *own, const json_t *patch)
{
    json_t *merged = own ? need(json_deep_copy(own)) : need(json_array());
    size_t i;
    json_t *change;
    json_array_foreach(patch, i, change)
    {
        json_t *item = NULL;
        for (size_t j = 0; j < json_array_size(own) && !item; j++) {
            json_t *at = json_array_get(merged, j);
            bool fits = json_equal(json_object_get(at, "type"), json_object_get(change, "type"));
            item = fits ? at : NULL;
        }
        if (item) {
            (void)json_object_update(item, change);
        } else {
            (void)json_array_append(merged, change);
        }
    }
    return merged;
}

void merge_patch(json_t *target, const json_t *patch, bool is_strategic)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)patch, key, value)
    {
        json_t *own = json_object_get(target, key);
        if (json_is_null(value)) {
            (void)json_object_del(target, key);
        } else if (json_is_object(value)) {
            if (!json_is_object(own)) {
                own = need(json_object());
                (void)json_object_set_new(target, key, own);
            }
            merge_patch(own, value, is_strategic);
        } else if (is_strategic && strcmp(key, "conditions") == 0) {
            (void)json_object_set_new(target, key, merge_by_type(own, value));
        } else {
            (void)json_object_set_new(target, key, need(json_deep_copy(value)));
        }
    }
}

/* ---- selectors ------------------------------------------------------------------------------- */

struct term {
    char key[API_NAME_BYTES];
    char value[API_NAME_BYTES];
};

/* Takes the next "key=value" from *text. 1: got one, 0: at the end, -1: another form. */
static int next_term(const char **text, struct term *out)
{
    if (!*text || **text == '\0') {
        return 0;
    }
    size_t len = strcspn(*text, ",");
    const char *equals = memchr(*text, '=', len);
    if (!equals || equals == *text || equals[-1] == '!' || equals[1] == '=') {
        return -1;
    }
    size_t key_len = (size_t)(equals - *text);
    const char *value = equals + 1;
    size_t value_len = (size_t)(*text + len - value);
    if (key_len >= sizeof(out->key) || value_len >= sizeof(out->value)) {
        return -1;
    }
    memcpy(out->key, *text, key_len);
    out->key[key_len] = '\0';
    memcpy(out->value, value, value_len);
    out->value[value_len] = '\0';
    *text += len + ((*text)[len] == ',' ? 1 : 0);
    return 1;
}

/* The text of a selectable field, or NULL if the kind has none of that name. */
static const char *field_text(const struct api_kind *kind, const json_t *object, const char *key)
{
    if (strcmp(key, "metadata.name") == 0) {
        return store_meta(object, "name");
    }
    if (strcmp(key, "metadata.namespace") == 0 && (kind->flags & API_NAMESPACED)) {
        return store_meta(object, "namespace");
    }
    bool is_slice = strcmp(kind->plural, "resourceslices") == 0;
    bool is_bound = is_slice || strcmp(kind->plural, "pods") == 0;
    if ((is_bound && strcmp(key, "spec.nodeName") == 0) ||
        (is_slice && strcmp(key, "spec.driver") == 0)) {
        const json_t *spec = json_object_get(object, "spec");
        const char *text = json_string_value(json_object_get(spec, key + 5));
        return text ? text : "";
    }
    return NULL;
}

bool select_check(const struct api_kind *kind, const char *fields, const char *labels,
                  struct api_result *r)
{
    struct term term;
    int rc;
    while ((rc = next_term(&fields, &term)) > 0) {
        if (!field_text(kind, NULL, term.key)) {
            return api_fail(r, 400, "BadRequest", "\"%s\" is not a known field selector", term.key);
        }
    }
    int labels_rc;
    while ((labels_rc = next_term(&labels, &term)) > 0) {
    }
    return (rc == 0 && labels_rc == 0) || api_fail(r, 400, "BadRequest", "invalid selector");
}

/* Whether an object of the target's kind and namespace meets the checked selectors (NULL: any). */
static bool select_matches(const struct api_target *target, const json_t *object,
                           const char *fields, const char *labels)
{
    struct term term;
    if (target->ns[0] && strcmp(store_meta(object, "namespace"), target->ns) != 0) {
        return false;
    }
    while (next_term(&fields, &term) > 0) {
        const char *text = field_text(target->kind, object, term.key);
        if (!text || strcmp(text, term.value) != 0) {
            return false;
        }
    }
    const json_t *own = json_object_get(json_object_get(object, "metadata"), "labels");
    while (next_term(&labels, &term) > 0) {
        if (!text_equal(json_string_value(json_object_get(own, term.key)), term.value)) {
            return false;
        }
    }
    return true;
}

const struct store_event *select_next(const struct store *s, const struct api_target *target,
                                      const char *fields, uint64_t *seen)
{
    size_t i = s->event_count;
    while (i > 0 && s->events[i - 1].version > *seen) {
        i--;
    }
    for (; i < s->event_count; i++) {
        const struct store_event *event = &s->events[i];
        if (event->kind == target->kind && select_matches(target, event->json, fields, NULL)) {
            *seen = event->version;
            return event;
        }
    }
    *seen = *seen > s->version ? *seen : s->version;
    return NULL;
}

void select_name(const char *fields, char out[static API_NAME_BYTES])
{
    struct term term;
    out[0] = '\0';
    while (next_term(&fields, &term) > 0) {
        if (strcmp(term.key, "metadata.name") == 0) {
            (void)text_copy(out, API_NAME_BYTES, term.value);
        }
    }
}

/* ---- metadata -------------------------------------------------------------------------------- */

static bool check_body(const struct api_target *target, const json_t *body, struct api_result *r)
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
    api_kind_version(target->kind, version);
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

static void stamp_new(struct store *s, json_t *object, const char *ns)
{
    json_t *metadata = metadata_of(object);
    char text[API_NAME_BYTES];
    uint64_t uid = ++s->last_uid;
    (void)snprintf(text, sizeof(text), "%08" PRIx64 "-0000-4000-8000-%012" PRIx64, uid >> 32,
                   uid & UINT32_MAX);
    set_text(metadata, "uid", text);
    set_text(metadata, "creationTimestamp", rfc3339_text(s->now, false).text);
    if (ns) {
        set_text(metadata, "namespace", ns);
    }
}

static void inherit(const json_t *existing, json_t *wanted)
{
    static const char *const KEYS[] = {"uid", "creationTimestamp", "namespace", "name"};
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

static bool check_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                         struct api_result *r)
{
    static const char *const FIXED[] = {"uid", "name", "namespace"};
    for (size_t i = 0; i < ARRAY_LEN(FIXED); i++) {
        const char *value = store_meta(after, FIXED[i]);
        if (strcmp(store_meta(before, FIXED[i]), value) != 0) {
            char what[64];
            (void)snprintf(what, sizeof(what), "metadata.%s: field is immutable", FIXED[i]);
            return fail_invalid(r, kind, store_meta(before, "name"), what);
        }
    }
    return true;
}

static void limit_to_subresource(const char *subresource, const json_t *existing, json_t *wanted)
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

/* ---- the verbs ------------------------------------------------------------------------------- */

static const char MODIFIED[] = "the object has been modified; please apply your changes to the "
                               "latest version and try again";

/* This, and the verbs below, return false where the request is refused. */
static bool answer(int code, json_t *stored, struct api_result *r)
{
    api_result_ok(r, code, json_incref(stored));
    return true;
}

static bool run_get(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    const struct store_object *found = store_find(s, t->kind, t->ns, t->name);
    return found ? answer(200, found->json, r) : fail_not_found(r, t->kind, t->name);
}

/* One page. Returns how many objects there are behind it. */
static uint64_t list_page(const struct store *s, const struct api_call *call, json_t *items)
{
    const struct api_target *t = &call->target;
    uint64_t seen = 0;
    uint64_t end = call->limit > 0 ? call->skip + call->limit : UINT64_MAX;
    for (size_t i = 0; i < s->object_count; i++) {
        const struct store_object *object = &s->objects[i];
        if (object->kind != t->kind ||
            !select_matches(t, object->json, call->fields, call->labels)) {
            continue;
        }
        if (seen >= call->skip && seen < end) {
            json_t *item = need(json_copy(object->json));
            (void)json_object_del(item, "kind"); /* list items carry neither */
            (void)json_object_del(item, "apiVersion");
            (void)json_array_append_new(items, item);
        }
        seen++;
    }
    return seen > end ? seen - end : 0;
}

static bool run_list(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    char version[24];
    char api_version[API_NAME_BYTES];
    char list_kind[API_NAME_BYTES];

    json_t *items = need(json_array());
    uint64_t left = list_page(s, call, items);
    (void)snprintf(version, sizeof(version), "%" PRIu64, s->version);
    (void)snprintf(list_kind, sizeof(list_kind), "%sList", t->kind->kind);
    api_kind_version(t->kind, api_version);
    json_t *meta = need(json_pack("{s:s}", "resourceVersion", version));
    if (left > 0) {
        (void)snprintf(version, sizeof(version), "%" PRIu64, call->skip + call->limit);
        (void)json_object_set_new(meta, "continue", json_string(version));
        if (!call->fields && !call->labels) { /* with a selector the real server has not counted */
            (void)json_object_set_new(meta, "remainingItemCount", json_integer((json_int_t)left));
        }
    }
    api_result_ok(r, 200,
                  json_pack("{s:s, s:s, s:o, s:o}", "kind", list_kind, "apiVersion", api_version,
                            "metadata", meta, "items", items));
    return true;
}

/* The two fields whose values the real server checks. */
static bool check_lease(const struct api_call *call, const json_t *object, struct api_result *r)
{
    const json_t *spec = json_object_get(object, "spec");
    const json_t *duration = json_object_get(spec, "leaseDurationSeconds");
    const char *stamp = json_string_value(json_object_get(spec, "renewTime"));
    if (strcmp(call->target.kind->plural, "leases") != 0) {
        return true;
    }
    bool is_legal = !stamp || (strlen(stamp) >= 27 && stamp[19] == '.' &&
                               strspn(stamp + 20, "0123456789") == 6);
    if (!is_legal && call->target.verb != API_PATCH) {
        return api_fail(r, 400, "BadRequest", "parsing time \"%s\"", stamp);
    }
    if (!is_legal || (duration && json_integer_value(duration) <= 0)) {
        return fail_invalid(r, call->target.kind, store_meta(object, "name"),
                            is_legal ? "spec.leaseDurationSeconds: must be greater than 0"
                                     : "patch: parsing time");
    }
    return true;
}

/* Decodes the body of a POST or PUT into an object. Returns owned, or NULL with the
 * refusal in `r`. */
static json_t *decode_body(const struct api_call *call, json_t *body, struct api_result *r)
{
    const struct api_target *t = &call->target;
    if (!check_body(t, body, r)) {
        return NULL;
    }
    char version[API_NAME_BYTES];
    CLEANUP(json) json_t *object = need(json_deep_copy(body));
    api_kind_version(t->kind, version);
    (void)json_object_set_new(object, "kind", json_string(t->kind->kind));
    (void)json_object_set_new(object, "apiVersion", json_string(version));
    drop_nulls(json_object_get(object, "metadata"));
    drop_nulls(json_object_get(object, "spec"));
    return check_lease(call, object, r) ? json_incref(object) : NULL;
}

static struct managed_write managed_write_of(const struct store *s, const struct api_call *call)
{
    return (struct managed_write){
        .manager = call->manager, .subresource = call->target.subresource, .at = s->now};
}

static bool create_object(struct store *s, const struct api_call *call, json_t *object,
                          struct api_result *r)
{
    const struct managed_write write = managed_write_of(s, call);
    const struct api_target *t = &call->target;
    const struct api_kind *namespaces = api_kind_find("", "namespaces");
    if ((t->kind->flags & API_NAMESPACED) && !store_find(s, namespaces, "", t->ns)) {
        return fail_not_found(r, namespaces, t->ns);
    }
    stamp_new(s, object, t->kind->flags & API_NAMESPACED ? t->ns : NULL);
    const char *name = store_meta(object, "name");
    if (!text_is_dns1123_subdomain(name)) {
        return fail_invalid(r, t->kind, name, "metadata.name: no lowercase RFC 1123 subdomain");
    }
    if (store_find(s, t->kind, t->ns, name)) {
        return fail_exists(r, t->kind, name);
    }
    managed_create(object, &write);
    return answer(201, store_add(s, t->kind, json_incref(object)), r);
}

static bool run_create(struct store *s, const struct api_call *call, struct api_result *r)
{
    CLEANUP(json) json_t *object = decode_body(call, call->body, r);
    if (object && store_meta(object, "resourceVersion")[0]) {
        return api_fail(r, 500, "", "resourceVersion should not be set on objects to be created");
    }
    return object && create_object(s, call, object, r);
}

/* uid and resourceVersion of the new object against the existing one (NULL: missing). */
static bool check_preconditions(const struct api_call *call, const json_t *existing,
                                const json_t *wanted, struct api_result *r)
{
    const struct api_target *t = &call->target;
    const char *uid = store_meta(wanted, "uid");
    const char *version = store_meta(wanted, "resourceVersion");
    const char *own_uid = store_meta(existing, "uid");

    if (uid[0] && strcmp(uid, own_uid) != 0) {
        char why[2 * API_NAME_BYTES];
        (void)snprintf(why, sizeof(why),
                       "Precondition failed: UID in precondition: %.64s, UID in object meta: %.64s",
                       uid, own_uid);
        return fail_conflict(r, t->kind, t->name, why);
    }
    bool is_old =
        existing && version[0] && strcmp(version, store_meta(existing, "resourceVersion")) != 0;
    return !is_old || fail_conflict(r, t->kind, t->name, MODIFIED);
}

/* `wanted` is the complete new state. */
static bool replace_object(struct store *s, const struct api_call *call,
                           struct store_object *existing, json_t *wanted, struct api_result *r)
{
    const struct api_target *t = &call->target;
    const struct managed_write write = managed_write_of(s, call);
    limit_to_subresource(t->subresource, existing->json, wanted);
    inherit(existing->json, wanted);
    managed_inherit(existing->json, wanted);
    if (!check_change(t->kind, existing->json, wanted, r)) {
        return false;
    }
    (void)json_object_set(
        json_object_get(wanted, "metadata"), "resourceVersion",
        json_object_get(json_object_get(existing->json, "metadata"), "resourceVersion"));
    if (json_equal(existing->json, wanted)) { /* the real server writes nothing either */
        return answer(200, existing->json, r);
    }
    managed_update(existing->json, wanted, &write);
    if (call->is_dry) {
        return answer(200, wanted, r);
    }
    return answer(200, store_replace(s, existing, json_incref(wanted)), r);
}

static bool run_update(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    CLEANUP(json) json_t *wanted = decode_body(call, call->body, r);
    if (!wanted) {
        return false;
    }
    struct store_object *existing = store_find(s, t->kind, t->ns, t->name);
    if (!existing && !(t->kind->flags & API_CREATE_ON_UPDATE)) {
        return fail_not_found(r, t->kind, t->name);
    }
    if (!existing && !call->may_create) {
        return api_fail(r, 403, "Forbidden", "creating \"%s\" by PUT needs the verb create",
                        t->name);
    }
    if (!check_preconditions(call, existing ? existing->json : NULL, wanted, r)) {
        return false;
    }
    if (!existing) {
        return create_object(s, call, wanted, r);
    }
    if (!(t->kind->flags & API_UNCONDITIONAL_UPDATE) && !store_meta(wanted, "resourceVersion")[0]) {
        return fail_invalid(r, t->kind, t->name,
                            "metadata.resourceVersion: must be specified for an update");
    }
    return replace_object(s, call, existing, wanted, r);
}

static bool run_patch(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    struct store_object *existing = store_find(s, t->kind, t->ns, t->name);
    if (!existing) {
        return fail_not_found(r, t->kind, t->name);
    }
    if (!json_is_object(call->body)) {
        return api_fail(r, 400, "BadRequest",
                        "error decoding patch: json: cannot unmarshal array into Go value of type "
                        "map[string]interface {}");
    }
    CLEANUP(json) json_t *merged = need(json_deep_copy(existing->json));
    merge_patch(merged, call->body, call->is_strategic);
    CLEANUP(json) json_t *wanted = decode_body(call, merged, r);
    if (!wanted) {
        return false;
    }
    /* A patched uid is no precondition but a change that is not allowed. */
    bool same = strcmp(store_meta(wanted, "uid"), store_meta(existing->json, "uid")) == 0;
    return (!same || check_preconditions(call, existing->json, wanted, r)) &&
           check_change(t->kind, existing->json, wanted, r) &&
           replace_object(s, call, existing, wanted, r);
}

static bool run_delete(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    struct store_object *existing = store_find(s, t->kind, t->ns, t->name);
    if (!existing) {
        return fail_not_found(r, t->kind, t->name);
    }
    json_decref(store_remove(s, existing));
    api_result_ok(r, 200,
                  json_pack("{s:s, s:s, s:{}, s:s}", "kind", "Status", "apiVersion", "v1",
                            "metadata", "status", "Success"));
    return true;
}

void api_run(struct store *s, const struct api_call *call, struct api_result *r)
{
    static bool (*const RUN[])(struct store *, const struct api_call *, struct api_result *) = {
        [API_GET] = run_get,       [API_LIST] = run_list,   [API_CREATE] = run_create,
        [API_UPDATE] = run_update, [API_PATCH] = run_patch, [API_DELETE] = run_delete,
    };
    if (RUN[call->target.verb]) {
        (void)RUN[call->target.verb](s, call, r); /* `r` tells what came of it */
    } else {
        (void)api_fail(r, 405, "MethodNotAllowed",
                       "the server does not allow this method on the requested resource");
    }
}

void api_seed(struct store *s, const char *plural, const char *name)
{
    struct api_result r = API_RESULT_INIT;
    const struct api_kind *kind = api_kind_find("", plural);
    json_t *body = need(json_pack("{s:s, s:s, s:{s:s}}", "kind", kind->kind, "apiVersion", "v1",
                                  "metadata", "name", name));
    struct api_call call = {
        .target = {.verb = API_CREATE, .kind = kind}, .body = body, .manager = "unknown"};
    api_run(s, &call, &r);
    api_result_fini(&r);
    json_decref(body);
}

/* ---- garbage --------------------------------------------------------------------------------- */

/* kube-controller-manager's garbage collector, reduced to owners that are Nodes: it looks the
 * Node up by name; absent or of another UID means that the reference dangles. */
static bool dangles(struct store *s, const json_t *owner)
{
    const char *kind = json_string_value(json_object_get(owner, "kind"));
    const char *name = json_string_value(json_object_get(owner, "name"));
    const char *uid = json_string_value(json_object_get(owner, "uid"));
    if (!kind || !name || !uid || strcmp(kind, "Node") != 0) {
        return false;
    }
    const struct store_object *node = store_find(s, api_kind_find("", "nodes"), "", name);
    return !node || strcmp(store_meta(node->json, "uid"), uid) != 0;
}

/* Returns the owners that still exist; owned. */
static json_t *solid_owners(struct store *s, const json_t *owners)
{
    json_t *solid = need(json_array());
    size_t i;
    json_t *owner;
    json_array_foreach(owners, i, owner)
    {
        if (!dangles(s, owner)) {
            (void)json_array_append(solid, owner);
        }
    }
    return solid;
}

static bool collect_one(struct store *s, struct store_object *object)
{
    json_t *metadata = json_object_get(object->json, "metadata");
    const json_t *owners = json_object_get(metadata, "ownerReferences");
    if (json_array_size(owners) == 0) {
        return false;
    }
    const struct managed_write write = {
        .manager = "kube-controller-manager", .subresource = "", .at = s->now};
    json_t *solid = solid_owners(s, owners);
    bool changed = json_array_size(solid) < json_array_size(owners);
    if (changed && json_array_size(solid) == 0) {
        json_decref(store_remove(s, object));
    } else if (changed) {
        json_t *wanted = need(json_deep_copy(object->json));
        (void)json_object_set(json_object_get(wanted, "metadata"), "ownerReferences", solid);
        managed_update(object->json, wanted, &write);
        (void)store_replace(s, object, wanted);
    }
    json_decref(solid);
    return changed;
}

bool api_collect_garbage(struct store *s)
{
    bool changed = false;
    for (size_t i = s->object_count; i-- > 0;) {
        changed = collect_one(s, &s->objects[i]) || changed;
    }
    return changed;
}
