/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/plugin.h"

#include "base/mem.h"
#include "base/text.h"
#include "grpc_proto/health.pb-c.h"
#include "grpc_proto/plugin.pb-c.h"
#include "grpc_proto/registration.pb-c.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { BEATS_PER_TIMEOUT = 3 };

/* ---- messages -------------------------------------------------------------------------------- */

static char *mutable(const char *text)
{
    return (char *)(uintptr_t)text; /* protobuf-c packs from non-const pointers, writing nothing */
}

static void reply_with(struct grpc_call *call, const ProtobufCMessage *message)
{
    CLEANUP(free) uint8_t *bytes = mem_alloc(protobuf_c_message_get_packed_size(message));
    grpc_call_reply(call, bytes, protobuf_c_message_pack(message, bytes));
}

/* ---- registration ---------------------------------------------------------------------------- */

static void get_info(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    const struct plugin *p = user;
    /* v1 is served by all kubelets from 1.34 on. Health is looked up here since 1.37. Unknown words
     * are ignored by all. */
    char *versions[] = {
        mutable("v1.DRAPlugin"),
        mutable("v1.DRAResourceHealth"),
        mutable("v1alpha1.DRAResourceHealth"),
    };
    Registration__PluginInfo info = REGISTRATION__PLUGIN_INFO__INIT;
    info.type = mutable("DRAPlugin");
    info.name = mutable(p->device->driver);
    info.endpoint = mutable(p->config->options->names.dra);
    info.supported_versions = versions;
    info.n_supported_versions = ARRAY_LEN(versions);
    reply_with(call, &info.base);
}

static void take_status(struct plugin *p, const Registration__Status *status)
{
    p->stats.is_registered = status->plugin_registered;
    text_sanitize(p->refusal, sizeof(p->refusal), status->error, strlen(status->error));
    if (p->stats.is_registered) {
        p->refusal[0] = '\0';
        p->stats.registrations++;
        log_repeat_reset(&p->rejections);
        log_info("dra", "the kubelet registered driver '%s' (registration %" PRIu64 ")",
                 p->device->driver, p->stats.registrations);
        if (p->on_registered) {
            p->on_registered(p);
        }
        return;
    }
    p->stats.rejections++;
    log_limited(&p->rejections, LOG_SELDOM_NS, LOG_WARN, "dra",
                "the kubelet rejected driver '%s': '%s' (\"no handler registered\": enable "
                "its feature gate DynamicResourceAllocation), continuing",
                p->device->driver, p->refusal);
}

static void notify_status(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    Registration__Status *status = registration__status__unpack(NULL, len, message);
    if (!status) {
        grpc_call_end(call, GRPC_INVALID_ARGUMENT, "malformed RegistrationStatus");
        return;
    }
    take_status(user, status);
    registration__status__free_unpacked(status, NULL);
    grpc_call_reply(call, "", 0); /* RegistrationStatusResponse has no fields */
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Returns owned, or NULL after having failed the call. */
static Dra__ClaimsRequest *unpack_request(struct grpc_call *call, const uint8_t *message,
                                          size_t len)
{
    Dra__ClaimsRequest *request = dra__claims_request__unpack(NULL, len, message);
    if (!request) {
        grpc_call_end(call, GRPC_INVALID_ARGUMENT, "malformed request");
        return NULL;
    }
    if (request->n_claims > PLUGIN_CLAIMS_MAX) {
        grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "%zu claims in one request, more than %d",
                      request->n_claims, PLUGIN_CLAIMS_MAX);
        dra__claims_request__free_unpacked(request, NULL);
        return NULL;
    }
    return request;
}

static bool plugin_lock(struct plugin *p, struct grpc_call *call)
{
    struct err e = ERR_INIT;
    if (text_is_empty(p->config->options->rolling_uid) || file_lock_take(&p->lock, &e) == 0) {
        return true;
    }
    grpc_call_end(call, GRPC_UNAVAILABLE,
                  "another instance of this driver is working, try again: %s", e.msg);
    return false;
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* One claim of a request, and its entry in the answer. */
struct item {
    struct prepare *prepare;
    struct claim_ref ref;     /* borrowed from the request */
    struct kube_call *lookup; /* NULL: none under way */
    bool is_allocated;        /* else see `error` */
    struct claim_allocation allocation;
    struct err error;

    Dra__PrepareResponse__ClaimsEntry entry; /* borrows from the rest */
    Dra__Prepared prepared;
    Dra__Device devices[CLAIM_RESULTS_MAX];
    Dra__Device *device_list[CLAIM_RESULTS_MAX];
    char *requests[CLAIM_RESULTS_MAX];
};

/* One NodePrepareResources call. */
struct prepare {
    struct plugin *plugin;
    struct grpc_call *call;
    Dra__ClaimsRequest *request; /* owned */
    size_t pending;
    size_t count;
    struct item items[];
};

static void prepare_free(struct prepare *p)
{
    for (size_t i = 0; i < p->count; i++) {
        kube_call_cancel(p->items[i].lookup);
    }
    dra__claims_request__free_unpacked(p->request, NULL);
    free(p);
}

static Dra__PrepareResponse__ClaimsEntry *item_describe(struct item *item)
{
    const struct dra_device *ours = item->prepare->plugin->device;
    dra__prepare_response__claims_entry__init(&item->entry);
    dra__prepared__init(&item->prepared);
    item->entry.key = mutable(item->ref.uid);
    item->entry.value = &item->prepared;
    item->prepared.devices = item->device_list;
    if (!item->is_allocated) {
        item->prepared.error = item->error.msg;
        return &item->entry;
    }
    for (size_t i = 0; i < item->allocation.count; i++) {
        struct claim_share *share = &item->allocation.shares[i];
        Dra__Device *device = item->device_list[i] = &item->devices[i];
        dra__device__init(device);
        device->pool_name = mutable(ours->pool);
        device->device_name = mutable(ours->name);
        device->share_id = share->share_id;
        item->requests[i] = share->request;
        device->request_names = &item->requests[i];
        device->n_request_names = !text_is_empty(share->request); /* none: all of the claim */
    }
    item->prepared.n_devices = item->allocation.count;
    return &item->entry;
}

/* Once it is remembered it is prepared. */
static void item_keep(struct item *item, struct claim_holders *holders)
{
    struct plugin *p = item->prepare->plugin;
    struct stored_claim claim;
    int rc = claim_store_take(p->config->options->names.plugin_dir, holders, &item->ref,
                              item->allocation.use, &claim, &item->error);
    if (rc == 0) {
        claim_events_prepared(p->claims, &claim);
    } else if (rc == ERR_CONFLICT) {
        item->is_allocated = false;
        claim_events_check(p->claims, &claim);
    } else {
        log_limited(&p->failures, LOG_AGAIN_NS, LOG_WARN, "dra", "%s, continuing without",
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
    Dra__PrepareResponse response = DRA__PREPARE_RESPONSE__INIT;
    CLEANUP(free)
    Dra__PrepareResponse__ClaimsEntry **entries = mem_calloc(p->count, sizeof(*entries));
    struct claim_holders holders = {.is_read = false};
    response.claims = entries;
    for (size_t i = 0; i < p->count; i++) {
        struct item *item = &p->items[i];
        if (item->is_allocated) {
            item_keep(item, &holders);
        }
        if (item->is_allocated) {
            plugin->stats.claims_prepared++;
        } else {
            plugin->stats.claim_failures++;
            log_limited(&plugin->failures, LOG_AGAIN_NS, LOG_WARN, "dra",
                        "preparing claim '%s/%s': %s, the kubelet will ask again", item->ref.ns,
                        item->ref.name, item->error.msg);
        }
        entries[response.n_claims++] = item_describe(item);
    }
    if (holders.is_cut) {
        log_limited(&plugin->crowded, LOG_SELDOM_NS, LOG_WARN, "dra",
                    "'%s/claims' has more than %d entries, and the driver looks at no more: delete "
                    "those whose claims are gone",
                    plugin->config->options->names.plugin_dir, CLAIM_STORE_ENTRIES_MAX);
    }
    reply_with(p->call, &response.base);
    prepare_free(p);
    file_lock_release(&plugin->lock);
}

static void on_claim(void *user, const struct kube_response *answer)
{
    struct item *item = user;
    struct prepare *p = item->prepare;
    item->lookup = NULL;
    item->is_allocated =
        claim_read(answer, &item->ref, p->plugin->device, &item->allocation, &item->error) == 0;
    p->pending--;
    if (p->pending == 0) {
        prepare_answer(p);
    }
}

static void on_prepare_cancelled(void *user, struct grpc_call *call)
{
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
    p->call = call;
    p->request = request;
    p->count = request->n_claims;
    grpc_call_on_cancel(call, on_prepare_cancelled, p);
    for (size_t i = 0; i < p->count; i++) {
        const Dra__Claim *claim = request->claims[i];
        struct item *item = &p->items[i];
        *item = (struct item){
            .prepare = p, .ref = {.ns = claim->namespace_, .uid = claim->uid, .name = claim->name}};
        p->pending += claim_ask(plugin->config->client, KUBE_URGENT, &item->ref, on_claim, item,
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
    Dra__Unprepared nothing_wrong = DRA__UNPREPARED__INIT;
    Dra__UnprepareResponse response = DRA__UNPREPARE_RESPONSE__INIT;
    Dra__ClaimsRequest *request = unpack_request(call, message, len);
    if (!request) {
        return;
    }
    if (plugin_lock(plugin, call)) {
        size_t count = request->n_claims;
        CLEANUP(free)
        Dra__UnprepareResponse__ClaimsEntry *entries = mem_calloc(count, sizeof(*entries));
        CLEANUP(free)
        Dra__UnprepareResponse__ClaimsEntry **list = mem_calloc(count, sizeof(*list));
        for (size_t i = 0; i < count; i++) {
            dra__unprepare_response__claims_entry__init(&entries[i]);
            entries[i].key = request->claims[i]->uid;
            entries[i].value = &nothing_wrong;
            list[i] = &entries[i];
            claim_store_drop(plugin->config->options->names.plugin_dir, entries[i].key);
        }
        response.claims = list;
        response.n_claims = count;
        plugin->stats.claims_unprepared += count;
        reply_with(call, &response.base);
        file_lock_release(&plugin->lock);
    }
    dra__claims_request__free_unpacked(request, NULL);
}

/* ---- health ---------------------------------------------------------------------------------- */

struct health_report health_report_of(const struct readiness *verdict)
{
    struct health_report report = {.status = HEALTH_UNKNOWN};
    if (verdict->state == READINESS_NOT_READY) {
        report.status = HEALTH_UNHEALTHY;
    } else if (verdict->state == READINESS_READY &&
               verdict->reason != REASON_HEALTH_CHECK_DISABLED) {
        report.status = HEALTH_HEALTHY;
    }
    text_format(report.message, sizeof(report.message), "%s: %s", readiness_reason_word(verdict),
                verdict->message);
    return report;
}

/* Sends the present verdict, unless we stop, to one stream, or with NULL to all. */
static void send_report(struct plugin *p, const struct grpc_call *only)
{
    char message[HEALTH_MESSAGE_BYTES];
    Health__DeviceIdentifier id = HEALTH__DEVICE_IDENTIFIER__INIT;
    Health__Device device = HEALTH__DEVICE__INIT;
    Health__Device *devices[] = {&device};
    Health__WatchResponse response = HEALTH__WATCH_RESPONSE__INIT;
    const char *text =
        p->is_stopped ? "the DRA driver on this node is stopping" : p->report.message;
    /* Go refuses a message with invalid UTF-8 and ends the stream, every five seconds anew. */
    text_sanitize(message, sizeof(message), text, strlen(text));
    id.pool_name = mutable(p->device->pool);
    id.device_name = mutable(p->device->name);
    device.device = &id;
    device.health = text == p->report.message ? (Health__Status)p->report.status
                                              : (Health__Status)HEALTH_UNKNOWN;
    device.last_updated_time = p->wall.ns / NS_PER_SEC;
    device.health_check_timeout_seconds = p->config->options->health_timeout_ns / NS_PER_SEC;
    device.message = message;
    response.devices = devices;
    response.n_devices = ARRAY_LEN(devices);
    CLEANUP(free) uint8_t *packed = mem_alloc(health__watch_response__get_packed_size(&response));
    size_t len = health__watch_response__pack(&response, packed);
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        struct grpc_call *call = p->streams[i];
        if (call && (!only || call == only)) {
            grpc_call_send(call, packed, len);
            p->stats.health_reports++;
        }
    }
}

static void set_next_beat(struct plugin *p, struct mono now, struct wall wall)
{
    int64_t beat_ns = mono_before(now, p->quick_until)
                          ? PLUGIN_QUICK_NS
                          : p->config->options->health_timeout_ns / BEATS_PER_TIMEOUT;
    p->wall = wall;
    p->next_beat = mono_add(now, beat_ns);
}

static void forget_stream(void *user, struct grpc_call *call)
{
    struct plugin *p = user;
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        if (p->streams[i] == call) {
            p->streams[i] = NULL;
            p->stats.health_streams--;
        }
    }
}

static void open_stream(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    struct plugin *p = user;
    struct grpc_call **place = NULL;
    if (p->is_stopped) {
        grpc_call_end(call, GRPC_UNAVAILABLE, "stopping");
        return;
    }
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        place = p->streams[i] ? place : &p->streams[i];
    }
    if (!place) {
        grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "%d health streams are open",
                      HEALTH_STREAMS_MAX);
        return;
    }
    *place = call;
    p->stats.health_streams++;
    grpc_call_on_cancel(call, forget_stream, p);
    send_report(p, call);
}

void plugin_publish(struct plugin *p, const struct readiness *verdict, struct mono now,
                    struct wall wall)
{
    p->report = health_report_of(verdict);
    set_next_beat(p, now, wall);
    send_report(p, NULL);
}

void plugin_tick(struct plugin *p, struct mono now, struct wall wall)
{
    if (mono_reached(now, p->next_beat) && p->config->look) {
        p->config->look(p->config->user); /* another verdict is a beat by itself */
    }
    if (mono_reached(now, p->next_beat)) { /* it is never reached once stopped */
        set_next_beat(p, now, wall);
        send_report(p, NULL);
    }
}

void plugin_hurry(struct plugin *p, struct mono now, struct mono until)
{
    if (!p->is_stopped) {
        p->quick_until = until;
        p->next_beat = now;
    }
}

void plugin_hush(struct plugin *p)
{
    p->is_stopped = true;
    p->next_beat = MONO_NEVER;
}

void plugin_stop(struct plugin *p, struct wall wall)
{
    p->wall = wall;
    if (!p->is_stopped) {
        plugin_hush(p);
        send_report(p, NULL);
    }
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        struct grpc_call *call = p->streams[i];
        if (call) {
            forget_stream(p, call);
            grpc_call_end(call, GRPC_OK, "%s", "");
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

const struct grpc_method plugin_methods[PLUGIN_METHODS] = {
    {"/pluginregistration.Registration/GetInfo", get_info},
    {"/pluginregistration.Registration/NotifyRegistrationStatus", notify_status},
    {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", prepare},
    {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", unprepare},
    {"/v1.DRAResourceHealth/NodeWatchResources", open_stream},
    {"/v1alpha1.DRAResourceHealth/NodeWatchResources", open_stream},
};

void plugin_init(struct plugin *p)
{
    assert(p->config->options->health_timeout_ns >= BEATS_PER_TIMEOUT * NS_PER_SEC);
    p->lock.fd = -1;
    p->next_beat = MONO_NEVER;
    p->stats.driver = p->device->driver;
    p->stats.refusal = p->refusal;
    text_format(p->report.message, sizeof(p->report.message), "no verdict yet");
}
