/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/plugin.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "dra_proto/plugin.pb-c.h"
#include "host-agent/dra/claim_store.h"
#include "host-agent/dra/message.h"
#include "host-agent/dra/serialize.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One claim of a request. */
struct item {
    struct plugin_prepare *prepare;
    struct claim_ref ref;                /* borrowed from the request */
    void *lookup;                        /* NULL: none under way */
    struct claim_allocation *allocation; /* owned; NULL: see error */
    struct err error;
};

/* One NodePrepareResources call. */
struct plugin_prepare {
    struct plugin *plugin;
    struct plugin_prepare *prev; /* in plugin->under_way */
    struct plugin_prepare *next;
    struct grpc_call *call;      /* NULL: cancelled */
    Dra__ClaimsRequest *request; /* owned */
    size_t item_count;
    size_t pending;
    struct item items[];
};

#define FAILURE_LOG_NS (10 * NS_PER_SEC)

/* The kubelet asks again. */
#define BUSY "another instance of this driver is at work, try again"

static char *mutable(const char *text)
{
    return (char *)(uintptr_t)text; /* protobuf-c packs from non-const pointers, writing nothing */
}

/* ---- requests ---- */

/* Returns owned, or NULL after having failed the call. */
static Dra__ClaimsRequest *unpack_request(struct grpc_call *call, const uint8_t *message,
                                          size_t len)
{
    Dra__ClaimsRequest *request = dra__claims_request__unpack(NULL, len, message);
    if (!request) {
        grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "malformed request");
        return NULL;
    }
    if (request->n_claims > PLUGIN_CLAIMS_MAX) {
        grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "%zu claims in one request, more than %d",
                       request->n_claims, PLUGIN_CLAIMS_MAX);
        dra__claims_request__free_unpacked(request, NULL);
        return NULL;
    }
    return request;
}

/* A UID that came before in the same request has its entry already: the answer is a map. */
static bool is_repeated(const Dra__ClaimsRequest *request, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (text_equal(request->claims[i]->uid, request->claims[index]->uid)) {
            return true;
        }
    }
    return false;
}

/* ---- prepare ---- */

static void prepare_free(struct plugin_prepare *p)
{
    struct plugin *plugin = p->plugin;
    for (size_t i = 0; i < p->item_count; i++) {
        if (p->items[i].lookup) {
            plugin->source.cancel(plugin->source.user, p->items[i].lookup);
        }
        free(p->items[i].allocation);
    }
    if (p->prev) {
        p->prev->next = p->next;
    } else {
        plugin->under_way = p->next;
    }
    if (p->next) {
        p->next->prev = p->prev;
    }
    dra__claims_request__free_unpacked(p->request, NULL);
    free(p);
}

/* The parts of an answer's message; one block of each, borrowed by the message. */
struct answer_parts {
    Dra__PrepareResponse__ClaimsEntry *entries;
    Dra__PrepareResponse__ClaimsEntry **entry_list;
    Dra__Prepared *prepared;
    Dra__Device *devices;
    Dra__Device **device_list;
    char **names; /* request names, one per device */
};

static bool parts_alloc(struct answer_parts *parts, size_t items, size_t devices)
{
    *parts = (struct answer_parts){
        .entries = calloc(items + 1, sizeof(*parts->entries)),
        .entry_list = calloc(items + 1, sizeof(*parts->entry_list)),
        .prepared = calloc(items + 1, sizeof(*parts->prepared)),
        .devices = calloc(devices + 1, sizeof(*parts->devices)),
        .device_list = calloc(devices + 1, sizeof(*parts->device_list)),
        .names = calloc(devices + 1, sizeof(*parts->names)),
    };
    return parts->entries && parts->entry_list && parts->prepared && parts->devices &&
           parts->device_list && parts->names;
}

static void parts_free(struct answer_parts *parts)
{
    free(parts->entries);
    free(parts->entry_list);
    free(parts->prepared);
    free(parts->devices);
    free(parts->device_list);
    free(parts->names);
}

static void fill_device(const struct plugin *plugin, const struct claim_share *share, char **name,
                        Dra__Device *out)
{
    dra__device__init(out);
    out->pool_name = mutable(plugin->target.pool);
    out->device_name = mutable(plugin->target.device);
    out->share_id = mutable(share->share_id);
    if (share->request[0] != '\0') { /* none at all means: every request of the claim */
        *name = mutable(share->request);
        out->request_names = name;
        out->n_request_names = 1;
    }
}

static void fill_answer(const struct plugin_prepare *p, struct answer_parts *parts,
                        Dra__PrepareResponse *response)
{
    size_t used = 0; /* devices */
    for (size_t i = 0; i < p->item_count; i++) {
        const struct item *item = &p->items[i];
        Dra__Prepared *prepared = &parts->prepared[i];
        dra__prepared__init(prepared);
        dra__prepare_response__claims_entry__init(&parts->entries[i]);
        parts->entries[i].key = mutable(item->ref.uid);
        parts->entries[i].value = prepared;
        parts->entry_list[i] = &parts->entries[i];
        if (!item->allocation) {
            prepared->error = mutable(item->error.msg);
            continue;
        }
        prepared->devices = &parts->device_list[used];
        prepared->n_devices = item->allocation->count;
        for (size_t k = 0; k < item->allocation->count; k++, used++) {
            fill_device(p->plugin, &item->allocation->shares[k], &parts->names[used],
                        &parts->devices[used]);
            parts->device_list[used] = &parts->devices[used];
        }
    }
    response->claims = parts->entry_list;
    response->n_claims = p->item_count;
}

/* Go refuses a message with invalid UTF-8, and a truncated error may end within a character. */
static void make_sendable(struct err *e)
{
    char clean[ERR_MSG_BYTES];
    text_sanitize(clean, sizeof(clean), e->msg, strlen(e->msg));
    memcpy(e->msg, clean, sizeof(clean));
}

static void complain(struct plugin *p, const struct item *item)
{
    log_limited(&p->failures, FAILURE_LOG_NS, LOG_WARN, "dra",
                "preparing claim '%s/%s': %s, the kubelet will ask again", item->ref.ns,
                item->ref.name, item->error.msg);
}

/* Once it is remembered it is prepared. */
static void item_keep(struct item *item)
{
    struct plugin *p = item->prepare->plugin;
    struct stored_claim other;
    int rc = claim_store_take(p->store, &item->ref, item->allocation->use, &other, &item->error);
    if (rc == ERR_CONFLICT) {
        free(TAKE(item->allocation));
        p->on_odds(p->user, &other);
    } else if (rc != 0) {
        log_limited(&p->failures, FAILURE_LOG_NS, LOG_WARN, "dra", "%s, continuing without",
                    item->error.msg);
    }
}

/* All lookups are done. */
static void prepare_answer(struct plugin_prepare *p)
{
    struct answer_parts parts;
    Dra__PrepareResponse response = DRA__PREPARE_RESPONSE__INIT;
    size_t devices = 0;
    struct serialize *lock = p->plugin->lock;
    if (!serialize_begin(lock)) {
        grpc_call_fail(p->call, GRPC_UNAVAILABLE, BUSY);
        prepare_free(p);
        return;
    }
    for (size_t i = 0; i < p->item_count; i++) {
        struct item *item = &p->items[i];
        if (item->allocation && p->plugin->store) {
            item_keep(item);
        }
        if (item->allocation) {
            devices += item->allocation->count;
            p->plugin->prepared++;
        } else {
            p->plugin->prepare_failures++;
            make_sendable(&item->error);
            complain(p->plugin, item);
        }
    }
    if (parts_alloc(&parts, p->item_count, devices)) {
        fill_answer(p, &parts, &response);
        message_reply(p->call, &response.base);
    } else {
        grpc_call_fail(p->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    }
    parts_free(&parts);
    prepare_free(p);
    serialize_end(lock);
}

static void item_done(struct item *item)
{
    item->prepare->pending--;
    if (item->prepare->pending == 0) {
        prepare_answer(item->prepare);
    }
}

static void on_claim(void *user, const json_t *claim, const struct err *why)
{
    struct item *item = user;
    item->lookup = NULL;
    if (!claim) {
        item->error = *why;
        (void)err_wrap(&item->error, "looking up claim '%s/%s'", item->ref.ns, item->ref.name);
        item_done(item);
        return;
    }
    struct claim_allocation *a = malloc(sizeof(*a));
    if (!a) {
        (void)err_no_memory(&item->error);
    } else if (claim_read(claim, &item->ref, &item->prepare->plugin->target, a, &item->error) ==
               0) {
        item->allocation = a;
        a = NULL;
    }
    free(a);
    item_done(item);
}

/* Starts the lookup. Returns false if the item is done already, with its error. */
static bool item_start(struct item *item)
{
    const struct plugin_claim_source *source = &item->prepare->plugin->source;
    return claim_ref_check(&item->ref, &item->error) == 0 &&
           source->start(source->user, &item->ref, on_claim, item, &item->lookup, &item->error) ==
               0;
}

static void on_prepare_cancelled(void *user, struct grpc_call *call)
{
    (void)call;
    prepare_free(user); /* nobody waits any more; a retry starts anew */
}

static struct plugin_prepare *prepare_new(struct plugin *plugin, struct grpc_call *call,
                                          Dra__ClaimsRequest *request)
{
    struct plugin_prepare *p =
        calloc(1, sizeof(*p) + (request->n_claims + 1) * sizeof(struct item));
    if (!p) {
        return NULL;
    }
    p->plugin = plugin;
    p->call = call;
    p->request = request;
    for (size_t i = 0; i < request->n_claims; i++) {
        const Dra__Claim *claim = request->claims[i];
        if (!is_repeated(request, i)) {
            p->items[p->item_count++] = (struct item){
                .prepare = p,
                .ref = {.ns = claim->namespace_, .uid = claim->uid, .name = claim->name},
            };
        }
    }
    p->next = plugin->under_way;
    if (p->next) {
        p->next->prev = p;
    }
    plugin->under_way = p;
    return p;
}

static void prepare(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    Dra__ClaimsRequest *request = unpack_request(call, message, len);
    if (!request) {
        return;
    }
    struct plugin_prepare *p = prepare_new(user, call, request);
    if (!p) {
        dra__claims_request__free_unpacked(request, NULL);
        grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    grpc_call_on_cancel(call, on_prepare_cancelled, p);
    for (size_t i = 0; i < p->item_count; i++) {
        p->pending += item_start(&p->items[i]);
    }
    if (p->pending == 0) {
        prepare_answer(p);
    }
}

/* ---- unprepare ---- */

static void unprepare(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    struct plugin *plugin = user;
    Dra__ClaimsRequest *request = unpack_request(call, message, len);
    if (!request) {
        return;
    }
    if (!serialize_begin(plugin->lock)) {
        grpc_call_fail(call, GRPC_UNAVAILABLE, BUSY);
        dra__claims_request__free_unpacked(request, NULL);
        return;
    }
    size_t count = request->n_claims;
    Dra__Unprepared success = DRA__UNPREPARED__INIT;
    Dra__UnprepareResponse response = DRA__UNPREPARE_RESPONSE__INIT;
    Dra__UnprepareResponse__ClaimsEntry *entries = calloc(count + 1, sizeof(*entries));
    response.claims = calloc(count + 1, sizeof(*response.claims));
    if (entries && response.claims) {
        for (size_t i = 0; i < count; i++) {
            if (!is_repeated(request, i)) {
                Dra__UnprepareResponse__ClaimsEntry *entry = &entries[response.n_claims];
                dra__unprepare_response__claims_entry__init(entry);
                entry->key = request->claims[i]->uid;
                entry->value = &success;
                response.claims[response.n_claims++] = entry;
                claim_store_drop(plugin->store, entry->key);
            }
        }
        plugin->unprepared += response.n_claims;
        message_reply(call, &response.base);
    } else {
        grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    }
    free(entries);
    free(response.claims);
    dra__claims_request__free_unpacked(request, NULL);
    serialize_end(plugin->lock);
}

void plugin_fini(struct plugin *p)
{
    while (p->under_way) {
        struct plugin_prepare *first = p->under_way;
        grpc_call_on_cancel(first->call, NULL, NULL);
        grpc_call_fail(first->call, GRPC_UNAVAILABLE, "stopping");
        prepare_free(first);
    }
}

void plugin_serve(struct plugin *p, struct grpc_router *router)
{
    const struct grpc_method methods[] = {
        {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", GRPC_UNARY, prepare, p},
        {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", GRPC_UNARY, unprepare,
         p},
        {"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources", GRPC_UNARY, prepare,
         p},
        {"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources", GRPC_UNARY,
         unprepare, p},
    };
    grpc_router_add(router, methods, ARRAY_LEN(methods));
}
