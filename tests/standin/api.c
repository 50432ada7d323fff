/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/api.h"

#include "base/text.h"
#include "standin/api_meta.h"
#include "standin/merge.h"
#include "standin/need.h"
#include "standin/select.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char MODIFIED[] = "the object has been modified; please apply your changes to the "
                               "latest version and try again";

static void answer(const struct api_call *call, int code, const json_t *stored,
                   struct api_result *r)
{
    api_result_ok(r, code, api_kind_served(call->target.kind, call->target.version, stored));
}

static void run_get(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    const struct store_object *found = store_find(s, t->kind, t->ns, t->name);
    if (!found) {
        (void)api_fail_not_found(r, t->kind, t->name);
    } else {
        answer(call, 200, found->json, r);
    }
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
            json_t *item = api_kind_served(t->kind, t->version, object->json);
            (void)json_object_del(item, "kind"); /* list items carry neither */
            (void)json_object_del(item, "apiVersion");
            (void)json_array_append_new(items, item);
        }
        seen++;
    }
    return seen > end ? seen - end : 0;
}

static void run_list(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    char version[24];
    char api_version[API_NAME_BYTES];
    char list_kind[API_NAME_BYTES];

    json_t *items = need(json_array());
    uint64_t left = list_page(s, call, items);
    (void)snprintf(version, sizeof(version), "%" PRIu64, s->version);
    (void)snprintf(list_kind, sizeof(list_kind), "%sList", t->kind->kind);
    api_kind_version(t->kind, t->version, api_version);
    json_t *meta = need(json_pack("{s:s}", "resourceVersion", version));
    if (left > 0) {
        (void)snprintf(version, sizeof(version), "%" PRIu64, call->skip + call->limit);
        (void)json_object_set_new(meta, "continue", json_string(version));
        if (!call->fields && !call->labels) { /* as the real server, which did not count them */
            (void)json_object_set_new(meta, "remainingItemCount", json_integer((json_int_t)left));
        }
    }
    api_result_ok(r, 200,
                  json_pack("{s:s, s:s, s:o, s:o}", "kind", list_kind, "apiVersion", api_version,
                            "metadata", meta, "items", items));
}

/* Decodes the body of a POST or PUT into an object. Returns owned, or NULL with the
 * refusal in `r`. */
static json_t *decode_body(const struct api_call *call, const json_t *body, struct api_result *r)
{
    const struct api_target *t = &call->target;
    if (!api_meta_check_body(t, body, r)) {
        return NULL;
    }
    json_t *object = api_kind_served(t->kind, t->version, body);
    api_meta_drop_nulls(json_object_get(object, "metadata"));
    api_meta_drop_nulls(json_object_get(object, "spec"));
    return object;
}

/* Takes `object`. */
static void create_object(struct store *s, const struct api_call *call, json_t *object,
                          struct api_result *r)
{
    const struct api_target *t = &call->target;
    const struct api_kind *namespaces = api_kind_find("", "namespaces");
    if (t->kind->namespaced && !store_find(s, namespaces, "", t->ns)) {
        json_decref(object);
        (void)api_fail_not_found(r, namespaces, t->ns);
        return;
    }
    api_meta_stamp_new(object, t->kind->namespaced ? t->ns : NULL);
    const char *name = store_meta(object, "name");
    if (!text_is_dns1123_subdomain(name)) {
        (void)api_fail_invalid(r, t->kind, name, "metadata.name: no lowercase RFC 1123 subdomain");
        json_decref(object);
        return;
    }
    if (store_find(s, t->kind, t->ns, name)) {
        (void)api_fail_exists(r, t->kind, name);
        json_decref(object);
        return;
    }
    answer(call, 201, store_add(s, t->kind, object), r);
}

static void run_create(struct store *s, const struct api_call *call, struct api_result *r)
{
    json_t *object = decode_body(call, call->body, r);
    if (!object) {
        return;
    }
    if (store_meta(object, "resourceVersion")[0]) {
        (void)api_fail(r, 500, "", "resourceVersion should not be set on objects to be created");
        json_decref(object);
        return;
    }
    create_object(s, call, object, r);
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
        return api_fail_conflict(r, t->kind, t->name, why);
    }
    if (!existing || version[0] == '\0') {
        return true;
    }
    if (strcmp(version, store_meta(existing, "resourceVersion")) != 0) {
        return api_fail_conflict(r, t->kind, t->name, MODIFIED);
    }
    return true;
}

/* Takes `wanted`, the complete new state. */
static void replace_object(struct store *s, const struct api_call *call,
                           struct store_object *existing, json_t *wanted, struct api_result *r)
{
    const struct api_target *t = &call->target;
    api_meta_inherit(existing->json, wanted);
    if (!api_meta_check_change(t->kind, existing->json, wanted, r)) {
        json_decref(wanted);
        return;
    }
    (void)json_object_set(
        json_object_get(wanted, "metadata"), "resourceVersion",
        json_object_get(json_object_get(existing->json, "metadata"), "resourceVersion"));
    if (json_equal(existing->json, wanted)) {
        json_decref(wanted); /* the real server writes nothing either */
        answer(call, 200, existing->json, r);
        return;
    }
    answer(call, 200, store_replace(s, existing, wanted), r);
}

static void run_update(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    json_t *wanted = decode_body(call, call->body, r);
    if (!wanted) {
        return;
    }
    struct store_object *existing = store_find(s, t->kind, t->ns, t->name);
    bool proceed = true;
    if (!existing && !t->kind->create_on_update) {
        proceed = api_fail_not_found(r, t->kind, t->name);
    } else if (!existing && !call->may_create) {
        proceed =
            api_fail(r, 403, "Forbidden", "creating \"%s\" by PUT needs the verb create", t->name);
    } else {
        proceed = check_preconditions(call, existing ? existing->json : NULL, wanted, r);
    }
    if (proceed && existing && !t->kind->unconditional_update &&
        store_meta(wanted, "resourceVersion")[0] == '\0') {
        proceed = api_fail_invalid(r, t->kind, t->name,
                                   "metadata.resourceVersion: must be specified for an update");
    }
    if (!proceed) {
        json_decref(wanted);
    } else if (existing) {
        api_meta_limit_to_subresource(t->subresource, existing->json, wanted);
        replace_object(s, call, existing, wanted, r);
    } else {
        create_object(s, call, wanted, r);
    }
}

static void run_patch(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    struct store_object *existing = store_find(s, t->kind, t->ns, t->name);
    if (!existing) {
        (void)api_fail_not_found(r, t->kind, t->name);
        return;
    }
    if (!json_is_object(call->body)) {
        (void)api_fail(r, 400, "BadRequest",
                       "error decoding patch: json: cannot unmarshal array into Go value of type "
                       "map[string]interface {}");
        return;
    }
    json_t *served = api_kind_served(t->kind, t->version, existing->json);
    merge_patch(served, call->body, call->is_strategic);
    json_t *wanted = decode_body(call, served, r);
    json_decref(served);
    if (!wanted) {
        return;
    }
    /* A patched uid is no precondition but a change that is not allowed. */
    bool same = strcmp(store_meta(wanted, "uid"), store_meta(existing->json, "uid")) == 0;
    if ((same && !check_preconditions(call, existing->json, wanted, r)) ||
        !api_meta_check_change(t->kind, existing->json, wanted, r)) {
        json_decref(wanted);
        return;
    }
    api_meta_limit_to_subresource(t->subresource, existing->json, wanted);
    replace_object(s, call, existing, wanted, r);
}

static void run_delete(struct store *s, const struct api_call *call, struct api_result *r)
{
    const struct api_target *t = &call->target;
    struct store_object *existing = store_find(s, t->kind, t->ns, t->name);
    if (!existing) {
        (void)api_fail_not_found(r, t->kind, t->name);
        return;
    }
    json_decref(store_remove(s, existing));
    api_result_ok(r, 200,
                  json_pack("{s:s, s:s, s:{}, s:s}", "kind", "Status", "apiVersion", "v1",
                            "metadata", "status", "Success"));
}

void api_run(struct store *s, const struct api_call *call, struct api_result *r)
{
    switch (call->target.verb) {
    case API_GET:
        run_get(s, call, r);
        return;
    case API_LIST:
        run_list(s, call, r);
        return;
    case API_CREATE:
        run_create(s, call, r);
        return;
    case API_UPDATE:
        run_update(s, call, r);
        return;
    case API_PATCH:
        run_patch(s, call, r);
        return;
    case API_DELETE:
        run_delete(s, call, r);
        return;
    case API_WATCH: /* watch.c */
    case API_NONE:
        break;
    }
    (void)api_fail(r, 405, "MethodNotAllowed",
                   "the server does not allow this method on the requested resource");
}

void api_seed(struct store *s, const char *plural, const char *name)
{
    struct api_result r = API_RESULT_INIT;
    const struct api_kind *kind = api_kind_find("", plural);
    json_t *body = need(json_pack("{s:s, s:s, s:{s:s}}", "kind", kind->kind, "apiVersion", "v1",
                                  "metadata", "name", name));
    struct api_call call = {.target = {.verb = API_CREATE, .kind = kind, .version = "v1"},
                            .body = body};
    api_run(s, &call, &r);
    api_result_fini(&r);
    json_decref(body);
}
