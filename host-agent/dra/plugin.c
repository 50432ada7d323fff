/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/plugin.h"

#include "base/mem.h"
#include "base/text.h"
#include "dra_proto/plugin.pb-c.h"
#include "dra_proto/registration.pb-c.h"

#include <inttypes.h>
#include <string.h>

#define DRA_V1      "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
#define DRA_V1BETA1 "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/"

static const int64_t REJECTION_LOG_NS = 3600 * NS_PER_SEC;
static const int64_t FAILURE_LOG_NS = 10 * NS_PER_SEC;

/* ---- messages -------------------------------------------------------------------------------- */

static void *proto_alloc(void *user, size_t bytes)
{
    (void)user;
    return mem_alloc(bytes);
}

static void proto_free(void *user, void *p)
{
    (void)user;
    free(p);
}

static ProtobufCAllocator allocator = {.alloc = proto_alloc, .free = proto_free};

/* Takes the message: it and all in it come from mem.h. */
static void reply_with(struct grpc_call *call, ProtobufCMessage *message)
{
    CLEANUP(free) uint8_t *bytes = mem_alloc(protobuf_c_message_get_packed_size(message));
    grpc_call_reply(call, bytes, protobuf_c_message_pack(message, bytes));
    protobuf_c_message_free_unpacked(message, &allocator);
}

/* ---- registration ---------------------------------------------------------------------------- */

static void get_info(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    (void)message; /* InfoRequest has no fields; what a future one adds is not for us */
    (void)len;
    const struct plugin *p = user;
    /* Kubelets up to 1.36 take the first entry of OUR list that they know: newest first. Health
     * is looked up here since 1.37. Unknown words are ignored by all. */
    static const char *const versions[] = {
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    };
    Registration__PluginInfo *info = MEM_NEW(Registration__PluginInfo);
    registration__plugin_info__init(info);
    info->type = mem_strdup("DRAPlugin");
    info->name = mem_strdup(p->target.driver);
    info->endpoint = mem_strdup(p->endpoint);
    info->supported_versions = mem_calloc(ARRAY_LEN(versions), sizeof(char *));
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        info->supported_versions[info->n_supported_versions++] = mem_strdup(versions[i]);
    }
    reply_with(call, &info->base);
}

static void take_status(struct plugin *p, const Registration__Status *status)
{
    p->is_registered = status->plugin_registered;
    if (p->is_registered) {
        p->refusal[0] = '\0';
        p->accepted++;
        log_repeat_reset(&p->rejections);
        log_info("dra", "the kubelet registered driver '%s' (registration %" PRIu64 ")",
                 p->target.driver, p->accepted);
        return;
    }
    text_sanitize(p->refusal, sizeof(p->refusal), status->error, strlen(status->error));
    p->rejected++;
    (void)log_limited(
        &p->rejections, REJECTION_LOG_NS, LOG_WARN, "dra",
        "the kubelet refused driver '%s': '%s' (\"no handler registered\" means that its feature "
        "gate DynamicResourceAllocation is off), continuing",
        p->target.driver, p->refusal);
}

static void notify_status(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    Registration__Status *status = registration__status__unpack(&allocator, len, message);
    if (!status) {
        grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "malformed RegistrationStatus");
        return;
    }
    take_status(user, status);
    registration__status__free_unpacked(status, &allocator);
    grpc_call_reply(call, "", 0); /* RegistrationStatusResponse has no fields */
}

/* ---- requests -------------------------------------------------------------------------------- */

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

/* Without what is repeated. Returns owned, or NULL after having failed the call. */
static Dra__ClaimsRequest *unpack_request(struct grpc_call *call, const uint8_t *message,
                                          size_t len)
{
    size_t count = 0;
    Dra__ClaimsRequest *request = dra__claims_request__unpack(&allocator, len, message);
    if (!request) {
        grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "malformed request");
        return NULL;
    }
    if (request->n_claims > PLUGIN_CLAIMS_MAX) {
        grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "%zu claims in one request, more than %d",
                       request->n_claims, PLUGIN_CLAIMS_MAX);
        dra__claims_request__free_unpacked(request, &allocator);
        return NULL;
    }
    for (size_t i = 0; i < request->n_claims; i++) {
        if (is_repeated(request, i)) {
            dra__claim__free_unpacked(request->claims[i], &allocator);
        } else {
            request->claims[count++] = request->claims[i];
        }
    }
    request->n_claims = count;
    return request;
}

static bool plugin_lock(const struct plugin *p, struct grpc_call *call)
{
    struct err e = ERR_INIT;
    if (!p->lock || file_lock_take(p->lock, &e) == 0) {
        return true;
    }
    grpc_call_fail(call, GRPC_UNAVAILABLE,
                   "another instance of this driver is at work, try again: %s", e.msg);
    return false;
}

static void plugin_unlock(const struct plugin *p)
{
    if (p->lock) {
        file_lock_release(p->lock);
    }
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* One claim of a request. */
struct item {
    struct prepare *prepare;
    struct claim_ref ref;                /* borrowed from the request */
    struct kube_call *lookup;            /* NULL: none under way */
    struct claim_allocation *allocation; /* owned; NULL: see error */
    struct err error;
};

/* One NodePrepareResources call. */
struct prepare {
    struct plugin *plugin;
    struct prepare *next; /* in plugin->under_way */
    struct grpc_call *call;
    Dra__ClaimsRequest *request; /* owned */
    size_t pending;
    size_t count;
    struct item items[];
};

static void prepare_free(struct prepare *p)
{
    struct prepare **at = &p->plugin->under_way;
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    for (size_t i = 0; i < p->count; i++) {
        kube_call_cancel(p->items[i].lookup);
        free(p->items[i].allocation);
    }
    dra__claims_request__free_unpacked(p->request, &allocator);
    free(p);
}

static Dra__Device *device_of(const struct plugin *plugin, const struct claim_share *share)
{
    Dra__Device *device = MEM_NEW(Dra__Device);
    dra__device__init(device);
    device->pool_name = mem_strdup(plugin->target.pool);
    device->device_name = mem_strdup(plugin->target.device);
    device->share_id = mem_strdup(share->share_id);
    if (share->request[0] != '\0') { /* none at all means: every request of the claim */
        device->request_names = mem_calloc(1, sizeof(char *));
        device->request_names[device->n_request_names++] = mem_strdup(share->request);
    }
    return device;
}

static Dra__PrepareResponse__ClaimsEntry *entry_of(const struct item *item)
{
    Dra__PrepareResponse__ClaimsEntry *entry = MEM_NEW(Dra__PrepareResponse__ClaimsEntry);
    Dra__Prepared *prepared = MEM_NEW(Dra__Prepared);
    const struct claim_allocation *a = item->allocation;
    dra__prepare_response__claims_entry__init(entry);
    dra__prepared__init(prepared);
    entry->key = mem_strdup(item->ref.uid);
    entry->value = prepared;
    if (!a) {
        /* Go refuses a message with invalid UTF-8, and a cut error may end within a character. */
        prepared->error = mem_alloc(ERR_MSG_BYTES);
        text_sanitize(prepared->error, ERR_MSG_BYTES, item->error.msg, strlen(item->error.msg));
        return entry;
    }
    prepared->devices = mem_calloc(a->count, sizeof(Dra__Device *));
    for (size_t i = 0; i < a->count; i++) {
        prepared->devices[prepared->n_devices++] = device_of(item->prepare->plugin, &a->shares[i]);
    }
    return entry;
}

/* Once it is remembered it is prepared. */
static void item_keep(struct item *item)
{
    struct plugin *p = item->prepare->plugin;
    struct stored_claim other;
    int rc =
        claim_store_take(p->plugin_dir, &item->ref, item->allocation->use, &other, &item->error);
    if (rc == ERR_CONFLICT) {
        free(TAKE(item->allocation));
        p->on_conflict(p->user, &other);
    } else if (rc != 0) {
        (void)log_limited(&p->failures, FAILURE_LOG_NS, LOG_WARN, "dra", "%s, continuing without",
                          item->error.msg);
    }
}

/* All lookups are done. */
static void prepare_answer(struct prepare *p)
{
    struct plugin *plugin = p->plugin;
    if (!plugin_lock(plugin, p->call)) {
        prepare_free(p);
        return;
    }
    Dra__PrepareResponse *response = MEM_NEW(Dra__PrepareResponse);
    dra__prepare_response__init(response);
    response->claims = mem_calloc(p->count, sizeof(*response->claims));
    for (size_t i = 0; i < p->count; i++) {
        struct item *item = &p->items[i];
        if (item->allocation) {
            item_keep(item);
        }
        plugin->prepared += item->allocation != NULL;
        plugin->prepare_failures += item->allocation == NULL;
        if (!item->allocation) {
            (void)log_limited(&plugin->failures, FAILURE_LOG_NS, LOG_WARN, "dra",
                              "preparing claim '%s/%s': %s, the kubelet will ask again",
                              item->ref.ns, item->ref.name, item->error.msg);
        }
        response->claims[response->n_claims++] = entry_of(item);
    }
    reply_with(p->call, &response->base);
    prepare_free(p);
    plugin_unlock(plugin);
}

static void on_claim(void *user, const struct kube_response *answer)
{
    struct item *item = user;
    struct prepare *p = item->prepare;
    struct claim_allocation *a = MEM_NEW(struct claim_allocation);
    item->lookup = NULL;
    item->allocation = a;
    if (claim_read(answer, &item->ref, &p->plugin->target, a, &item->error) != 0) {
        free(TAKE(item->allocation));
    }
    p->pending--;
    if (p->pending == 0) {
        prepare_answer(p);
    }
}

static void on_prepare_cancelled(void *user, struct grpc_call *call)
{
    (void)call;
    prepare_free(user); /* nobody waits any more; a retry starts anew */
}

static void prepare(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    struct plugin *plugin = user;
    Dra__ClaimsRequest *request = unpack_request(call, message, len);
    if (!request) {
        return;
    }
    struct prepare *p = mem_calloc(1, sizeof(*p) + request->n_claims * sizeof(struct item));
    p->plugin = plugin;
    p->next = plugin->under_way;
    p->call = call;
    p->request = request;
    p->count = request->n_claims;
    plugin->under_way = p;
    grpc_call_on_cancel(call, on_prepare_cancelled, p);
    for (size_t i = 0; i < p->count; i++) {
        const Dra__Claim *claim = request->claims[i];
        struct item *item = &p->items[i];
        *item = (struct item){
            .prepare = p, .ref = {.ns = claim->namespace_, .uid = claim->uid, .name = claim->name}};
        p->pending += claim_ask(plugin->client, KUBE_URGENT, &item->ref, on_claim, item,
                                &item->lookup, &item->error) == 0;
    }
    if (p->pending == 0) {
        prepare_answer(p);
    }
}

/* ---- unprepare ------------------------------------------------------------------------------- */

static void unprepare(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    struct plugin *plugin = user;
    Dra__ClaimsRequest *request = unpack_request(call, message, len);
    if (!request) {
        return;
    }
    if (plugin_lock(plugin, call)) {
        Dra__UnprepareResponse *response = MEM_NEW(Dra__UnprepareResponse);
        dra__unprepare_response__init(response);
        response->claims = mem_calloc(request->n_claims, sizeof(*response->claims));
        for (size_t i = 0; i < request->n_claims; i++) {
            Dra__UnprepareResponse__ClaimsEntry *entry =
                MEM_NEW(Dra__UnprepareResponse__ClaimsEntry);
            dra__unprepare_response__claims_entry__init(entry);
            entry->key = mem_strdup(request->claims[i]->uid);
            entry->value = MEM_NEW(Dra__Unprepared);
            dra__unprepared__init(entry->value);
            response->claims[response->n_claims++] = entry;
            claim_store_drop(plugin->plugin_dir, entry->key);
        }
        plugin->unprepared += response->n_claims;
        reply_with(call, &response->base);
        plugin_unlock(plugin);
    }
    dra__claims_request__free_unpacked(request, &allocator);
}

/* ---- life ------------------------------------------------------------------------------------ */

void plugin_fini(struct plugin *p)
{
    while (p->under_way) {
        struct grpc_call *call = p->under_way->call;
        grpc_call_on_cancel(call, NULL, NULL);
        grpc_call_fail(call, GRPC_UNAVAILABLE, "stopping");
        prepare_free(p->under_way);
    }
}

void plugin_serve(struct plugin *p, struct grpc_router *registration, struct grpc_router *dra)
{
    const struct grpc_method methods[] = {
        {"/pluginregistration.Registration/GetInfo", GRPC_UNARY, get_info, p},
        {"/pluginregistration.Registration/NotifyRegistrationStatus", GRPC_UNARY, notify_status, p},
        {DRA_V1 "NodePrepareResources", GRPC_UNARY, prepare, p},
        {DRA_V1 "NodeUnprepareResources", GRPC_UNARY, unprepare, p},
        {DRA_V1BETA1 "NodePrepareResources", GRPC_UNARY, prepare, p},
        {DRA_V1BETA1 "NodeUnprepareResources", GRPC_UNARY, unprepare, p},
    };
    grpc_router_add(registration, methods, 2);
    grpc_router_add(dra, methods + 2, ARRAY_LEN(methods) - 2);
}
