/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/api.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_NS (INT64_C(1790000000) * SEC) /* the server's wall clock at true time 0 */

static const char namespace[] = "ovn-kubernetes";
static const char node[] = "w1";
static const char lease[] = "ovn-dpu-w1";

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
    store_init(&api->store, 1000);
    api_seed(&api->store, "namespaces", "default");
    api_seed(&api->store, "namespaces", namespace);
    api_make_node(api);
}

void api_fini(struct api *api)
{
    store_fini(&api->store);
    json_decref(api->lease);
    json_decref(api->shown);
    free(api->shown_text);
}

const char *api_text(struct api *api, json_t *tree)
{
    if (api->shown != tree) {
        json_decref(api->shown);
        free(api->shown_text);
        api->shown = json_incref(tree);
        api->shown_text = need(json_dumps(tree, JSON_COMPACT));
    }
    return api->shown_text;
}

/* ---- the store ------------------------------------------------------------------------------- */

static struct wall wall_at(const struct api *api, int64_t lag_ns)
{
    return (struct wall){EPOCH_NS + api->world->now - lag_ns};
}

/* For a write. */
static struct store *open_store(struct api *api)
{
    api->store.now = wall_at(api, 0);
    return &api->store;
}

/* Tells what `who` has changed. */
static void tell(struct api *api, const char *who)
{
    json_t *before = api->lease;
    json_t *after = api_lease(api);
    if (before != after) {
        api->lease = json_incref(after);
        api->log(api->log_user, who, before, after);
        json_decref(before);
    }
    api_watch_changed(api);
}

static struct store_object *find_lease(const struct api *api)
{
    return store_find((struct store *)&api->store, api_kind_find("coordination.k8s.io", "leases"),
                      namespace, lease);
}

json_t *api_lease(const struct api *api)
{
    const struct store_object *found = find_lease(api);
    return found ? found->json : NULL;
}

/* The store as it was. */
static void look_back(const struct api *api, int64_t lag_ns, struct store *out)
{
    uint64_t version = store_version_at(&api->store, wall_at(api, lag_ns));
    store_copy(&api->store, out);
    store_restore(out, version);
}

bool api_lease_was_other(const struct api *api, int64_t lag_ns)
{
    struct api past = {.world = api->world};
    look_back(api, lag_ns, &past.store);
    bool is_other = api_lease(&past) != api_lease(api);
    store_fini(&past.store);
    return is_other;
}

void api_put_lease(struct api *api, const char *who, json_t *tree)
{
    struct store_object *found = find_lease(api);
    (void)store_replace(open_store(api), found, tree);
    tell(api, who);
}

void api_delete_lease(struct api *api, const char *who)
{
    struct store_object *found = find_lease(api);
    if (found) {
        json_decref(store_remove(open_store(api), found));
        tell(api, who);
    }
}

void api_restore(struct api *api, int64_t lag_ns)
{
    store_restore(&api->store, store_version_at(&api->store, wall_at(api, lag_ns)));
    tell(api, "etcd");
}

void api_make_node(struct api *api)
{
    struct store *s = open_store(api);
    struct store_object *found = store_find(s, api_kind_find("", "nodes"), "", node);
    if (found) {
        json_decref(store_remove(s, found));
    }
    api_seed(s, "nodes", node);
    api_watch_changed(api);
}

void api_collect(struct api *api)
{
    if (api_collect_garbage(open_store(api))) {
        tell(api, "gc");
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* What is after `name` in the query, "" if it is not there; "%3D" is the only escape in ours. */
static void read_argument(const struct exchange *x, const char *name, char *out, size_t out_bytes)
{
    const char *at = strstr(x->path, name);
    size_t used = 0;
    for (at = at ? at + strlen(name) : ""; *at != '\0' && *at != '&' && used + 1 < out_bytes;
         at++) {
        bool is_equals = strncmp(at, "%3D", 3) == 0;
        out[used++] = is_equals ? '=' : *at;
        at += is_equals ? 2 : 0;
    }
    out[used] = '\0';
}

uint64_t api_number(const struct exchange *x, const char *name)
{
    char text[24];
    read_argument(x, name, text, sizeof(text));
    return strtoull(text, NULL, 10);
}

void api_take(struct exchange *x)
{
    char path[EXCHANGE_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(x->path, "?"), x->path);
    bool is_served = api_target_parse(path, &x->target);
    assert(is_served);
    x->target.verb = api_verb_for(x->method, &x->target, strstr(x->path, "watch=true") != NULL);
    read_argument(x, "fieldSelector=", x->fields, sizeof(x->fields));
}

void api_perform(struct api *api, const struct exchange *x, int64_t lag_ns, struct api_result *out)
{
    struct store past;
    struct api_call call = {
        .target = x->target,
        .fields = x->fields[0] != '\0' ? x->fields : NULL,
        .limit = api_number(x, "limit="),
        .skip = api_number(x, "continue="),
        .body = x->body ? json_loads(x->body, 0, NULL) : NULL,
        .is_strategic = strstr(x->content_type, "strategic") != NULL,
        .may_create = true,
    };
    uint64_t before = api->store.version;
    if (lag_ns > 0) {
        look_back(api, lag_ns, &past);
        api_run(&past, &call, out);
        store_fini(&past);
    } else {
        api_run(open_store(api), &call, out);
    }
    if (api->store.version != before) {
        tell(api, x->proc->name);
    }
    json_decref(call.body);
}
