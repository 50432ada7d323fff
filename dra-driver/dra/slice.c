/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/slice.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/kube_watch.h"
#include "outputs/kube_sync.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICES "/apis/resource.k8s.io/v1/resourceslices"

enum { DOMAIN_MAX = 63, IDENTIFIER_MAX = 32 };

/* A taint's value: a sentence does not fit. NULL: no taint. Constant. */
static const char *taint_of(const struct readiness *verdict)
{
    return verdict->admit ? NULL : readiness_reason_name(verdict->reason);
}

void slice_make_name(const char *driver, const char *node_name,
                     char out[static NAMES_K8S_NAME_BYTES])
{
    enum { HASH_BYTES = 10 /* "-%08x" and the terminator */ };
    int len = snprintf(out, NAMES_K8S_NAME_BYTES, "%s-%s", driver, node_name);
    if (len >= NAMES_K8S_NAME_BYTES) {
        char *end = out + NAMES_K8S_NAME_BYTES - HASH_BYTES;
        text_format(end, HASH_BYTES, "-%08" PRIx32, crc32c_compute(node_name, strlen(node_name)));
        end[-1] = end[-1] == '.' ? '0' : end[-1]; /* a dot may not stand before '-' */
    }
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool is_identifier(const char *s)
{
    static const char chars[] = "0123456789_"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strlen(s);
    return s[0] > '9' && len <= IDENTIFIER_MAX && strspn(s, chars) == len;
}

static bool is_domain(const char *text, size_t len)
{
    CLEANUP(free) char *domain = mem_format("%.*s", (int)len, text);
    return len <= DOMAIN_MAX && text_is_dns1123_subdomain(domain);
}

/* A C identifier, optionally after a domain and a slash. */
static bool is_name(const char *name)
{
    const char *slash = strchr(name, '/');
    return slash ? is_domain(name, (size_t)(slash - name)) && is_identifier(slash + 1)
                 : is_identifier(name);
}

int attribute_add(json_t *attributes, const char *text, struct err *e)
{
    size_t len = strcspn(text, "=");
    const char *value = text + len + 1;
    CLEANUP(free) char *name = mem_format("%.*s", (int)len, text);
    if (text[len] == '\0' || !is_name(name)) {
        return err_set(e, ERR_PARSE,
                       "attribute '%.63s': must be NAME=VALUE; NAME is an identifier of at most %d "
                       "bytes, optionally after a domain and '/'",
                       text, IDENTIFIER_MAX);
    }
    json_t *attribute = json_pack("{s:s}", "string", value);
    if (!attribute || strlen(value) > ATTRIBUTE_TEXT_MAX) {
        json_decref(attribute);
        return err_set(e, ERR_PARSE,
                       "attribute '%.63s': the value is not UTF-8 of at most %d bytes", text,
                       ATTRIBUTE_TEXT_MAX);
    }
    (void)json_object_set_new(attributes, name, attribute);
    return json_object_size(attributes) <= ATTRIBUTES_MAX
               ? 0
               : err_set(e, ERR_LIMIT, "attribute '%.63s': there are already %d, the limit", text,
                         ATTRIBUTES_MAX);
}

/* ---- the device ------------------------------------------------------------------------------ */

/* The object with our members over its own; what others added stays. Takes ours. Returns owned. */
static json_t *lay_over(const json_t *existing, json_t *ours)
{
    json_t *object = existing ? json_deep_copy(existing) : json_object();
    (void)json_object_update_recursive(object, ours);
    json_decref(ours);
    return object;
}

/* The taint that is there already, with the server's timeAdded, or a new one. Owned. */
static json_t *plan_taint(const struct dra_device *ours, const char *taint, const json_t *existing)
{
    static const char *const effects[] = {[SLICE_EFFECT_NO_SCHEDULE] = "NoSchedule",
                                          [SLICE_EFFECT_NO_EXECUTE] = "NoExecute",
                                          [SLICE_EFFECT_NONE] = "None",
                                          [SLICE_EFFECT_OFF] = "None"};
    char key[NAMES_K8S_NAME_BYTES + 16];
    const char *effect = effects[ours->effect];
    size_t index;
    json_t *old;
    text_format(key, sizeof(key), "%s/unhealthy", ours->driver); /* a driver has 63 bytes */
    json_array_foreach(existing, index, old)
    {
        if (text_equal(json_text_get(old, "key"), key) &&
            text_equal(json_text_get(old, "value"), taint) &&
            text_equal(json_text_get(old, "effect"), effect)) {
            return json_incref(old);
        }
    }
    return json_pack("{s:s,s:s,s:s}", "key", key, "value", taint, "effect", effect);
}

/* Lays our members over the device. */
static void lay_device(json_t *device, const struct dra_device *ours, const char *taint,
                       struct slice_dropped dropped)
{
    (void)json_object_set_new(device, "name", json_string(ours->name));
    (void)json_object_del(device, "attributes"); /* absent where there are none */
    if (json_object_size(ours->attributes) > 0) {
        (void)json_object_set(device, "attributes", ours->attributes);
    }
    /* Every pod of the node shares the DPU. No capacity is published: without a request for it a
     * share would take all of it and the second pod would not fit. */
    if (!dropped.multiple_allocations) {
        (void)json_object_set_new(device, "allowMultipleAllocations", json_true());
    }
    if (dropped.taints || !taint || ours->effect == SLICE_EFFECT_OFF) {
        (void)json_object_del(device, "taints");
    } else {
        json_t *value = plan_taint(ours, taint, json_object_get(device, "taints"));
        (void)json_object_set_new(device, "taints", json_pack("[o]", value));
    }
}

static json_t *plan_devices(const struct dra_device *ours, const char *taint,
                            struct slice_dropped dropped, const json_t *existing)
{
    bool keeps_pods_off =
        ours->effect == SLICE_EFFECT_NO_SCHEDULE || ours->effect == SLICE_EFFECT_NO_EXECUTE;
    if (dropped.taints && taint && keeps_pods_off) {
        return json_array(); /* withdrawn */
    }
    json_t *old = json_text_find(existing, "name", ours->name);
    json_t *device = old ? json_deep_copy(old) : json_object();
    lay_device(device, ours, taint, dropped);
    return json_pack("[o]", device);
}

/* ---- the slice ------------------------------------------------------------------------------- */

json_t *slice_plan(const struct dra_device *device, const char *node_uid, const char *taint,
                   struct slice_dropped dropped, const json_t *existing)
{
    char name[NAMES_K8S_NAME_BYTES];
    slice_make_name(device->driver, device->node_name, name);
    json_t *owners = json_pack("[{s:s,s:s,s:s,s:s,s:b}]", "apiVersion", "v1", "kind", "Node",
                               "name", device->node_name, "uid", node_uid, "controller", true);
    json_t *slice =
        lay_over(existing, json_pack("{s:{s:s, s:o}, s:{s:s, s:s, s:{s:s, s:i}}}", "metadata",
                                     "name", name, "ownerReferences", owners, "spec", "driver",
                                     device->driver, "nodeName", device->node_name, "pool", "name",
                                     device->pool, "resourceSliceCount", 1));
    json_t *body = json_object_get(slice, "spec");
    json_t *pool = json_object_get(body, "pool");
    /* The generation of an existing pool is kept: one slice, always updated as a whole. */
    if (!json_is_integer(json_object_get(pool, "generation"))) {
        (void)json_object_set_new(pool, "generation", json_integer(1));
    }
    const json_t *devices = json_object_get(body, "devices");
    json_t *planned = plan_devices(device, taint, dropped, devices);
    if (devices || json_array_size(planned) > 0) {
        (void)json_object_set_new(body, "devices", planned);
    } else {
        json_decref(planned); /* the server leaves an empty list out */
    }
    return slice;
}

/* ---- what the server has --------------------------------------------------------------------- */

static const json_t *first_device(const json_t *slice)
{
    return json_array_get(json_object_get(json_object_get(slice, "spec"), "devices"), 0);
}

struct slice_dropped slice_find_dropped(const json_t *sent, const json_t *answer)
{
    const json_t *ours = first_device(sent);
    const json_t *kept = first_device(answer);
    struct slice_dropped dropped = {.taints = false};
    if (ours && kept) {
        dropped.taints = json_object_get(ours, "taints") && !json_object_get(kept, "taints");
        dropped.multiple_allocations = json_object_get(ours, "allowMultipleAllocations") &&
                                       !json_object_get(kept, "allowMultipleAllocations");
    }
    return dropped;
}

/* ---- the publisher --------------------------------------------------------------------------- */

struct slice_publisher {
    struct kube_client *client;
    const struct dra_device *device;
    struct dra_stats *stats;
    int64_t flip_ns;
    char name[NAMES_K8S_NAME_BYTES];
    struct kube_sync *sync;
    struct kube_watch *watch;

    const char *taint;  /* constant; NULL: none; "": no verdict yet */
    json_t *attributes; /* owned; of the device, as they were then; NULL: none */
    json_t *sent;       /* owned; what was last to be written */
    struct slice_dropped dropped;
    struct mono dropped_again; /* when that is tried anew */

    struct log_repeat dropped_taints;
    struct log_repeat dropped_sharing;
    struct log_repeat denied;
    struct log_repeat taken;
};

/* ---- what there is --------------------------------------------------------------------------- */

static void on_watch_object(void *user, const json_t *object, struct mono sent_at)
{
    struct slice_publisher *p = user;
    kube_sync_saw(p->sync, object);
}

static void on_watch_contact(void *user)
{
    struct slice_publisher *p = user;
    log_repeat_reset(&p->denied);
}

static void on_watch_failure(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    if (response->http_status != 403) {
        log_debug("dra", "watching our ResourceSlice: %s, will retry", response->message);
        return;
    }
    log_limited(&p->denied, LOG_SELDOM_NS, LOG_WARN, "dra",
                "watching ResourceSlices is forbidden (%s): the driver restores a slice that the "
                "kubelet removed only after up to 10 minutes",
                response->message);
    kube_sync_look(p->sync);
}

static void start_watch(struct slice_publisher *p)
{
    const struct kube_watch_config config = {.collection_path = SLICES,
                                             .name = p->name,
                                             .on_object = on_watch_object,
                                             .on_contact = on_watch_contact,
                                             .on_failure = on_watch_failure,
                                             .user = p};
    if (!p->watch) {
        p->watch = kube_watch_start(p->client, &config);
    }
}

/* ---- what there should be -------------------------------------------------------------------- */

/* Driver and node of a slice cannot be changed, and what is another's is not for us to remove. */
static bool is_anothers(struct slice_publisher *p, const json_t *existing)
{
    const json_t *spec = json_object_get(existing, "spec");
    bool is_ours = !existing || (text_equal(json_text_get(spec, "driver"), p->device->driver) &&
                                 text_equal(json_text_get(spec, "nodeName"), p->device->node_name));
    if (!is_ours) {
        log_limited(
            &p->taken, LOG_SELDOM_NS, LOG_WARN, "dra",
            "ResourceSlice '%s' belongs to another driver or node. dpu-dra-driver publishes no "
            "slice until you delete it",
            p->name);
    }
    return !is_ours;
}

static void desired_slice(void *user, const json_t *existing, const char *uid,
                          struct kube_sync_want *out)
{
    struct slice_publisher *p = user;
    p->stats->is_slice_published = false;
    start_watch(p);
    if (is_anothers(p, existing)) {
        return;
    }
    CLEANUP(json) json_t *slice = slice_plan(p->device, uid, p->taint, p->dropped, existing);
    p->stats->is_slice_published = json_equal(slice, existing);
    if (!p->stats->is_slice_published) {
        json_decref(p->sent);
        p->sent = json_incref(slice);
        *out = (struct kube_sync_want){.body = TAKE(slice), .gap_ns = p->flip_ns};
    }
}

/* Returns true if that is news: then there is something else to write. */
static bool tell_dropped(struct slice_publisher *p, struct slice_dropped dropped, struct mono now)
{
    bool has_taints = dropped.taints && !p->dropped.taints;
    bool has_sharing = dropped.multiple_allocations && !p->dropped.multiple_allocations;
    if (has_taints) {
        log_limited(
            &p->dropped_taints, LOG_SELDOM_NS, LOG_WARN, "dra",
            "the API server drops device taints: enable its feature gate "
            "DRADeviceTaints. Until then the driver removes an unhealthy DPU from the slice");
    }
    if (has_sharing) {
        log_limited(&p->dropped_sharing, LOG_SELDOM_NS, LOG_WARN, "dra",
                    "the API server drops allowMultipleAllocations: enable its feature gate "
                    "DRAConsumableCapacity. Until then only one claim at a time can use the DPU");
    }
    if (has_taints || has_sharing) {
        p->dropped_again = mono_add(now, SLICE_DROPPED_AGAIN_NS);
    }
    p->dropped.taints |= dropped.taints;
    p->dropped.multiple_allocations |= dropped.multiple_allocations;
    return has_taints || has_sharing;
}

static bool on_written(void *user, enum kube_method method, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    return response->code == 0 &&
           tell_dropped(p, slice_find_dropped(p->sent, response->body), response->received_at);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct slice_publisher *slice_publisher_new(const struct dra_config *config,
                                            const struct dra_device *device,
                                            struct dra_stats *stats)
{
    struct slice_publisher *p = MEM_NEW(struct slice_publisher);
    p->taint = "";
    p->client = config->client;
    p->device = device;
    p->stats = stats;
    slice_make_name(device->driver, device->node_name, p->name);
    const struct kube_sync_config sync = {
        .loop = config->loop,
        .client = config->client,
        .mod = "dra",
        .what = mem_format("our ResourceSlice '%s'", p->name),
        .collection = mem_strdup(SLICES),
        .unserved_advice = "; the API server serves no resource.k8s.io/v1: enable the feature gate "
                           "DynamicResourceAllocation and the API group",
        .name = p->name,
        .owner_node = device->node_name,
        .denied_advice = "; apply rbac/dra-driver.yaml",
        .desired = desired_slice,
        .on_written = on_written,
        .user = p,
        .retry_ns = SLICE_RETRY_MIN_NS,
        .retry_max_ns = SLICE_RETRY_MAX_NS,
        .denied_retry_ns = SLICE_RETRY_MAX_NS,
        .repair = {.base_ns = SLICE_REPAIR_MIN_NS,
                   .max_ns = SLICE_REPAIR_MAX_NS,
                   .quiet_ns = SLICE_QUIET_NS},
        .create = {.base_ns = SLICE_REPAIR_MIN_NS,
                   .max_ns = SLICE_CREATE_MAX_NS,
                   .quiet_ns = SLICE_QUIET_NS},
    };
    p->sync = kube_sync_new(&sync);
    p->stats->slice = kube_sync_stats(p->sync);
    return p;
}

void slice_publisher_free(struct slice_publisher *p)
{
    if (p) {
        kube_watch_stop(p->watch);
        kube_sync_free(p->sync);
        json_decref(p->attributes);
        json_decref(p->sent);
        free(p);
    }
}

void slice_publisher_publish(struct slice_publisher *p, const struct readiness *verdict)
{
    const char *taint = taint_of(verdict);
    if (taint && verdict->reason == REASON_RECORD_STALE && !text_is_empty(p->taint)) {
        taint =
            p->taint; /* a dead judge is no news of the DPU: what keeps pods off keeps its date */
    }
    int64_t quarter_ns = verdict->lease.duration_s * NS_PER_SEC / 4;
    p->flip_ns = mono_ns_min(mono_ns_max(quarter_ns, SLICE_FLIP_MIN_NS), SLICE_FLIP_MAX_NS);
    const json_t *attributes = p->device->attributes;
    if (text_equal(p->taint, taint) &&
        (p->attributes == attributes || json_equal(p->attributes, attributes))) {
        return;
    }
    json_decref(p->attributes);
    p->attributes = json_deep_copy(p->device->attributes);
    if (mono_reached(clock_mono_now(), p->dropped_again)) {
        p->dropped = (struct slice_dropped){.taints = false}; /* it may keep them now */
    }
    p->taint = taint;
    kube_sync_changed(p->sync);
}
