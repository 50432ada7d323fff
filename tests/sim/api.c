/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/api.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct api *the_api; /* as the world's */

struct api *api_get(void)
{
    return the_api;
}

void api_set(struct api *api)
{
    the_api = api;
}

void api_init(struct api *api, struct world *w)
{
    memset(api, 0, sizeof(*api));
    api->world = w;
    api->version = 1000;
}

void api_fini(struct api *api)
{
    for (size_t i = 0; i < api->object_count; i++) {
        json_decref(api->objects[i].tree);
    }
    for (size_t i = 0; i < API_HISTORY_MAX; i++) {
        json_decref(api->history[i].tree);
    }
    json_decref(api->shown);
    free(api->shown_text);
}

/* ---- the store ------------------------------------------------------------------------------- */

static struct api_object *find(const struct api *api, const char *key)
{
    for (size_t i = 0; i < api->object_count; i++) {
        if (strcmp(api->objects[i].key, key) == 0) {
            return (struct api_object *)&api->objects[i];
        }
    }
    return NULL;
}

const json_t *api_find(const struct api *api, const char *key)
{
    const struct api_object *object = find(api, key);
    return object ? object->tree : NULL;
}

const char *api_text(struct api *api, json_t *tree)
{
    if (api->shown != tree) {
        json_decref(api->shown);
        free(api->shown_text);
        api->shown = json_incref(tree);
        api->shown_text = json_dumps(tree, JSON_COMPACT);
        assert(api->shown_text);
    }
    return api->shown_text;
}

/* The newest change of `key` before `until`; NULL: the ring does not go that far. */
static const struct api_change *last_change(const struct api *api, const char *key, int64_t until)
{
    uint64_t first = api->changes > API_HISTORY_MAX ? api->changes - API_HISTORY_MAX : 0;
    for (uint64_t n = api->changes; n > first; n--) {
        const struct api_change *change = &api->history[(n - 1) % API_HISTORY_MAX];
        if (change->at <= until && strcmp(change->key, key) == 0) {
            return change;
        }
    }
    return NULL;
}

const json_t *api_find_old(const struct api *api, const char *key, int64_t lag_ns)
{
    if (lag_ns == 0) {
        return api_find(api, key);
    }
    const struct api_change *change = last_change(api, key, api->world->now - lag_ns);
    return !change || strcmp(change->type, "DELETED") == 0 ? NULL : change->tree;
}

static void remember(struct api *api, const char *type, const char *key, json_t *tree)
{
    struct api_change *change = &api->history[api->changes++ % API_HISTORY_MAX];
    json_decref(change->tree);
    *change = (struct api_change){
        .at = api->world->now, .version = api->version, .type = type, .tree = json_incref(tree)};
    (void)snprintf(change->key, sizeof(change->key), "%s", key);
    api_watch_changed(api);
}

static void set_version(struct api *api, json_t *tree)
{
    char text[24];
    json_t *metadata = json_object_get(tree, "metadata");
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)++api->version);
    if (!metadata) {
        metadata = json_object();
        json_object_set_new(tree, "metadata", metadata);
    }
    json_object_set_new(metadata, "resourceVersion", json_string(text));
    if (!json_object_get(metadata, "uid")) {
        (void)snprintf(text, sizeof(text), "uid-%llu", (unsigned long long)++api->next_uid);
        json_object_set_new(metadata, "uid", json_string(text));
    }
}

static void forget_oldest_event(struct api *api)
{
    for (size_t i = 0; i < api->object_count; i++) {
        if (strstr(api->objects[i].key, "/events/")) {
            json_decref(api->objects[i].tree);
            api->objects[i] = api->objects[--api->object_count];
            return;
        }
    }
}

const json_t *api_store(struct api *api, const char *who, const char *key, json_t *tree)
{
    struct api_object *object = find(api, key);
    json_t *before = object ? object->tree : NULL;
    set_version(api, tree);
    if (!object) {
        if (api->object_count == API_OBJECTS_MAX) {
            forget_oldest_event(api);
        }
        assert(api->object_count < API_OBJECTS_MAX);
        object = &api->objects[api->object_count++];
        (void)snprintf(object->key, sizeof(object->key), "%s", key);
    }
    object->tree = tree;
    api->log(api->log_user, who, key, before, tree);
    remember(api, before ? "MODIFIED" : "ADDED", key, tree);
    json_decref(before);
    return tree;
}

void api_remove(struct api *api, const char *who, const char *key)
{
    struct api_object *object = find(api, key);
    if (!object) {
        return;
    }
    json_t *last = json_deep_copy(object->tree);
    json_t *before = object->tree;
    *object = api->objects[--api->object_count];
    set_version(api, last);
    api->log(api->log_user, who, key, before, NULL);
    remember(api, "DELETED", key, last);
    json_decref(last);
    json_decref(before);
}

void api_restore(struct api *api, int64_t lag_ns)
{
    int64_t until = api->world->now - lag_ns;
    uint64_t version = api->compacted;
    for (uint64_t n = api->changes; n > 0 && api->changes - n < API_HISTORY_MAX; n--) {
        const struct api_change *change = &api->history[(n - 1) % API_HISTORY_MAX];
        if (change->at <= until) {
            version = change->version;
            break;
        }
    }
    for (size_t i = 0; i < api->object_count; i++) {
        struct api_object *object = &api->objects[i];
        const struct api_change *change = last_change(api, object->key, until);
        if (change && strcmp(change->type, "DELETED") != 0 && change->tree != object->tree) {
            json_t *before = object->tree;
            object->tree = json_incref(change->tree);
            api->log(api->log_user, "etcd", object->key, before, object->tree);
            json_decref(before);
        }
    }
    api->version = version;
    api->base = api->changes;
}

void api_compact(struct api *api)
{
    api->compacted = api->version;
    api->base = api->changes;
}

void api_make_node(struct api *api)
{
    api_remove(api, "admin", API_NODE);
    (void)api_store(api, "kubelet", API_NODE,
                    json_pack("{s:s,s:s,s:{s:s},s:{s:[]}}", "apiVersion", "v1", "kind", "Node",
                              "metadata", "name", "w1", "status", "conditions"));
}

/* ---- requests -------------------------------------------------------------------------------- */

json_t *api_status(int code, const char *reason, const char *message)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:i}", "kind", "Status", "apiVersion", "v1", "status",
                     "Failure", "reason", reason, "message", message, "code", code);
}

static void refuse(struct api_answer *out, int code, const char *reason, const char *message)
{
    out->status = code;
    out->body = api_status(code, reason, message);
}

static const char *text_at(const json_t *tree, const char *outer, const char *inner)
{
    const char *text = json_string_value(json_object_get(json_object_get(tree, outer), inner));
    return text ? text : "";
}

bool api_is_collection(const char *path, size_t len)
{
    static const char *const names[] = {"/leases", "/nodes", "/events", "/resourceslices"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t name_len = strlen(names[i]);
        if (len >= name_len && memcmp(path + len - name_len, names[i], name_len) == 0) {
            return true;
        }
    }
    return false;
}

/* "metadata.name%3D<name>" of the query; "": none. */
static void selected_name(const char *query, char *out, size_t out_bytes)
{
    const char *at = query ? strstr(query, "metadata.name%3D") : NULL;
    at = at ? at + strlen("metadata.name%3D") : "";
    (void)snprintf(out, out_bytes, "%.*s", (int)strcspn(at, "&%"), at);
}

static void list(struct api *api, const char *prefix, const char *query, int64_t lag_ns,
                 struct api_answer *out)
{
    char name[256];
    char version[24];
    json_t *items = json_array();
    size_t len = strlen(prefix);
    uint64_t seen = 0;
    selected_name(query, name, sizeof(name));
    for (size_t i = 0; i < api->object_count; i++) {
        const char *key = api->objects[i].key;
        const json_t *tree = api_find_old(api, key, lag_ns);
        if (tree && strncmp(key, prefix, len) == 0 && key[len] == '/' &&
            (name[0] == '\0' || strcmp(key + len + 1, name) == 0)) {
            json_array_append(items, (json_t *)tree);
        }
    }
    for (uint64_t n = 0; lag_ns != 0 && n < API_HISTORY_MAX && n < api->changes; n++) {
        const struct api_change *change = &api->history[(api->changes - 1 - n) % API_HISTORY_MAX];
        if (change->at <= api->world->now - lag_ns) {
            seen = change->version;
            break;
        }
    }
    (void)snprintf(version, sizeof(version), "%llu",
                   (unsigned long long)(seen != 0 ? seen : api->version));
    out->status = 200;
    out->body = json_pack("{s:s,s:s,s:{s:s},s:o}", "kind", "List", "apiVersion", "v1", "metadata",
                          "resourceVersion", version, "items", items);
}

/* The one field whose grammar the API server checks: six digits, and in UTC as it writes it. */
static bool has_bad_time(const json_t *tree)
{
    const char *time = text_at(tree, "spec", "renewTime");
    return time[0] != '\0' && (strlen(time) != 27 || time[19] != '.' || time[26] != 'Z');
}

static bool is_invalid(const char *key, const json_t *tree)
{
    const json_t *duration = json_object_get(json_object_get(tree, "spec"), "leaseDurationSeconds");
    return !json_is_object(tree) ||
           (strstr(key, "/leases/") &&
            (has_bad_time(tree) || (duration && json_integer_value(duration) <= 0)));
}

static void create(struct api *api, const char *who, const char *key, json_t *tree,
                   struct api_answer *out)
{
    if (api_find(api, key)) {
        refuse(out, 409, "AlreadyExists", "it already exists");
    } else if (is_invalid(key, tree)) {
        refuse(out, 422, "Invalid", "it is invalid");
    } else {
        out->body = json_incref((json_t *)api_store(api, who, key, json_incref(tree)));
        out->status = 201;
    }
}

static void update(struct api *api, const char *who, const char *key, json_t *tree,
                   struct api_answer *out)
{
    const json_t *stored = api_find(api, key);
    const char *uid = text_at(tree, "metadata", "uid");
    if (is_invalid(key, tree)) {
        refuse(out, 422, "Invalid", "it is invalid");
    } else if (!stored && uid[0] != '\0') {
        refuse(out, 409, "Conflict", "precondition failed: UID");
    } else if (!stored) {
        create(api, who, key, tree, out);
    } else if (strcmp(uid, text_at(stored, "metadata", "uid")) != 0 ||
               strcmp(text_at(tree, "metadata", "resourceVersion"),
                      text_at(stored, "metadata", "resourceVersion")) != 0) {
        refuse(out, 409, "Conflict", "the object has been modified");
    } else if (json_equal(tree, (json_t *)stored)) {
        out->status = 200; /* nothing changes: no new version */
        out->body = json_incref((json_t *)stored);
    } else {
        out->body = json_incref((json_t *)api_store(api, who, key, json_incref(tree)));
        out->status = 200;
    }
}

/* RFC 7386; a strategic patch differs for the Node's conditions, which are merged by their type. */
static void merge(json_t *target, const json_t *patch)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)patch, key, value)
    {
        json_t *there = json_object_get(target, key);
        if (json_is_null(value)) {
            json_object_del(target, key);
        } else if (json_is_object(value) && json_is_object(there)) {
            merge(there, value);
        } else if (strcmp(key, "conditions") == 0 && json_is_array(there)) {
            json_array_clear(there);
            json_array_extend(there, value);
        } else {
            json_object_set_new(target, key, json_deep_copy(value));
        }
    }
}

static void patch(struct api *api, const char *who, const char *key, const json_t *tree,
                  struct api_answer *out)
{
    const json_t *stored = api_find(api, key);
    if (!stored) {
        refuse(out, 404, "NotFound", "it does not exist");
        return;
    }
    const char *condition = text_at(tree, "metadata", "resourceVersion");
    if (condition[0] != '\0' &&
        strcmp(condition, text_at(stored, "metadata", "resourceVersion")) != 0) {
        refuse(out, 409, "Conflict", "the object has been modified");
        return;
    }
    json_t *merged = json_deep_copy(stored);
    merge(merged, tree);
    if (json_equal(merged, (json_t *)stored)) {
        json_decref(merged);
        out->status = 200; /* nothing changes: no new version */
        out->body = json_incref((json_t *)stored);
        return;
    }
    out->body = json_incref((json_t *)api_store(api, who, key, merged));
    out->status = 200;
}

/* The key of an object by a path to it, or of a new one by its collection and name. */
static void key_of(const char *path, size_t len, const json_t *tree, char *out, size_t out_bytes)
{
    if (len > strlen("/status") && memcmp(path + len - 7, "/status", 7) == 0) {
        len -= 7;
    }
    if (api_is_collection(path, len)) {
        (void)snprintf(out, out_bytes, "%.*s/%s", (int)len, path,
                       text_at(tree, "metadata", "name"));
    } else {
        (void)snprintf(out, out_bytes, "%.*s", (int)len, path);
    }
}

static void read_one(const struct api *api, const char *key, int64_t lag_ns, struct api_answer *out)
{
    const json_t *tree = api_find_old(api, key, lag_ns);
    if (!tree) {
        refuse(out, 404, "NotFound", "it does not exist");
        return;
    }
    out->status = 200;
    out->body = json_incref((json_t *)tree);
}

void api_perform(struct api *api, const char *who, const struct exchange *x, int64_t lag_ns,
                 struct api_answer *out)
{
    char key[API_KEY_BYTES];
    size_t len = strcspn(x->path, "?");
    const char *query = x->path[len] == '?' ? x->path + len + 1 : NULL;
    json_t *tree = x->body ? json_loads(x->body, 0, NULL) : NULL;
    key_of(x->path, len, tree, key, sizeof(key));
    if (strcmp(x->method, "GET") == 0 && api_is_collection(x->path, len)) {
        key[len] = '\0';
        list(api, key, query, lag_ns, out);
    } else if (strcmp(x->method, "GET") == 0) {
        read_one(api, key, lag_ns, out);
    } else if (strcmp(x->method, "DELETE") == 0) {
        api_remove(api, who, key);
        out->status = 200;
        out->body = api_status(200, "", "");
    } else if (!tree) {
        refuse(out, 400, "BadRequest", "the body is no JSON");
    } else if (strcmp(x->method, "POST") == 0) {
        create(api, who, key, tree, out);
    } else if (strcmp(x->method, "PUT") == 0) {
        update(api, who, key, tree, out);
    } else {
        patch(api, who, key, tree, out);
    }
    json_decref(tree);
}
