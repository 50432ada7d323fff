/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice_publisher.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_sync.h"
#include "kube/kube_watch.h"

#include <stdlib.h>

#define SLICES         "/apis/resource.k8s.io/v1/resourceslices"
#define SELDOM_WARN_NS (3600 * NS_PER_SEC)

struct slice_publisher {
    struct kube_client *client;
    struct slice_spec spec;
    int64_t flip_ns;
    char name[NAMES_K8S_NAME_BYTES];
    struct kube_sync *sync;
    struct kube_watch *watch;
    bool is_polling;    /* watching is forbidden, or not served */
    bool is_name_taken; /* by a slice that is not ours */
    bool is_published;

    bool has_taint;
    struct slice_taint taint;
    json_t *sent; /* owned; what was last to be written, for: */
    struct slice_taint sent_taint;
    json_t *answer; /* owned; what the server made of it where that is not the same; or NULL */
    struct slice_dropped dropped;
    struct mono dropped_again; /* when that is tried anew */

    char obsolete[NAMES_K8S_NAME_BYTES]; /* a slice of ours under another name, or "" */
    struct kube_call *removal;           /* under way; or NULL */
    int64_t removal_wait_ns;
    struct backoff removals;

    struct log_repeat dropped_taints;
    struct log_repeat dropped_sharing;
    struct log_repeat ending;
    struct log_repeat altered;
    struct log_repeat removed;
    struct log_repeat denied;
    struct log_repeat taken;
    struct log_repeat unserved;
};

static bool is_same_taint(const struct slice_taint *a, const struct slice_taint *b)
{
    return a->is_set == b->is_set && text_equal(a->value, b->value);
}

/* Looks at the list again, where something is to be waited for. */
static void slice_set_check(struct slice_publisher *p)
{
    int64_t poll_ns = p->is_polling || p->is_name_taken ? SLICE_POLL_NS : 0;
    kube_sync_set_check(p->sync, p->obsolete[0] != '\0' ? p->removal_wait_ns : poll_ns);
}

/* ---- what there is --------------------------------------------------------------------------- */

static void on_removed(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    bool is_gone = response->code == 0 || response->http_status == 404;
    p->removal = NULL;
    log_limited(&p->removed, LOG_AGAIN_NS, LOG_INFO, "dra",
                "removing the obsolete ResourceSlice '%s': %s", p->obsolete,
                is_gone ? "done" : response->message);
}

/* However it goes, the next removal is later: a slice that a finalizer holds, or that comes back,
 * is no reason to hurry, nor to neglect our own. */
static void remove_obsolete(struct slice_publisher *p)
{
    char path[sizeof(SLICES) + NAMES_K8S_NAME_BYTES];
    struct err e = ERR_INIT;
    text_format(path, sizeof(path), SLICES "/%s", p->obsolete);
    const struct kube_request request = {
        .method = KUBE_DELETE, .channel = KUBE_CONTROL, .path = path};
    p->removal_wait_ns = backoff_next_ns(&p->removals, 0);
    if (!p->removal &&
        kube_client_start(p->client, &request, on_removed, p, &p->removal, &e) != 0) {
        log_limited(&p->removed, LOG_AGAIN_NS, LOG_INFO, "dra", "removing '%s': %s", path, e.msg);
    }
}

static void on_watch_object(void *user, enum kube_watch_event event, const json_t *object,
                            bool listed, struct mono sent_at)
{
    struct slice_publisher *p = user;
    (void)listed;
    (void)sent_at;
    kube_sync_saw(p->sync, event == KUBE_WATCH_PRESENT ? object : NULL);
}

static void slice_set_polling(struct slice_publisher *p, bool is_polling)
{
    if (p->is_polling != is_polling) {
        p->is_polling = is_polling;
        slice_set_check(p);
    }
}

static void on_watch_contact(void *user)
{
    slice_set_polling(user, false);
}

static void on_watch_failure(void *user, const struct kube_response *response)
{
    log_debug("dra", "watching our ResourceSlice: %s, will retry", response->message);
    if (response->http_status == 404) { /* is it still served? */
        slice_set_polling(user, true);
    }
}

static void on_watch_denied(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    if (p->is_polling) { /* once may be an API server that has just started */
        log_limited(&p->denied, SELDOM_WARN_NS, LOG_WARN, "dra",
                    "watching ResourceSlices is forbidden (%s): a slice that the kubelet removed "
                    "is back only after %d s",
                    response->message, (int)(SLICE_POLL_NS / NS_PER_SEC));
    }
    slice_set_polling(p, true);
}

static void start_watch(struct slice_publisher *p)
{
    struct err e = ERR_INIT;
    const struct kube_watch_config config = {.collection_path = SLICES,
                                             .name = p->name,
                                             .on_object = on_watch_object,
                                             .on_contact = on_watch_contact,
                                             .on_failure = on_watch_failure,
                                             .on_denied = on_watch_denied,
                                             .user = p};
    if (!p->watch && kube_watch_start(p->client, &config, &p->watch, &e) != 0) {
        p->watch = NULL;
        p->is_polling = true; /* and tries again with each list */
        log_limited(&p->denied, SELDOM_WARN_NS, LOG_WARN, "dra",
                    "watching our ResourceSlice: %s, polling instead", e.msg);
    }
}

/* Of a list: ours by name is the one; others of our driver on our node would spoil the pool. */
static json_t *pick_slice(void *user, json_t *answer)
{
    struct slice_publisher *p = user;
    if (!answer) {
        log_limited(&p->unserved, SELDOM_WARN_NS, LOG_WARN, "dra",
                    "the API server serves no resource.k8s.io/v1 (feature gate "
                    "DynamicResourceAllocation and its API group are off): no ResourceSlice");
        return NULL;
    }
    if (!json_object_get(answer, "items")) {
        return answer;
    }
    struct slice_snapshot found = slice_find(&p->spec, p->name, answer);
    text_format(p->obsolete, sizeof(p->obsolete), "%s", found.obsolete ? found.obsolete : "");
    if (found.obsolete) {
        remove_obsolete(p);
    } else {
        backoff_reset(&p->removals);
    }
    start_watch(p);
    return found.own;
}

/* ---- what there should be -------------------------------------------------------------------- */

/* Driver and node of a slice cannot be changed, and what is another's is not for us to remove. */
static bool is_anothers(struct slice_publisher *p, const json_t *existing)
{
    p->is_name_taken = existing && !slice_is_ours(&p->spec, existing);
    slice_set_check(p);
    if (p->is_name_taken) {
        log_limited(&p->taken, SELDOM_WARN_NS, LOG_WARN, "dra",
                    "ResourceSlice '%s' is of another driver or node, leaving it: there is no "
                    "slice of ours until it is gone",
                    p->name);
    } else if (slice_is_ending(existing)) {
        log_limited(&p->ending, LOG_AGAIN_NS, LOG_INFO, "dra",
                    "our ResourceSlice '%s' is being removed by somebody else and a finalizer "
                    "holds it: it is written anew when it is gone",
                    p->name);
    }
    return p->is_name_taken;
}

static int desired_slice(void *user, const json_t *existing, const char *uid,
                         struct kube_sync_want *out, struct err *e)
{
    struct slice_publisher *p = user;
    (void)e;
    p->spec.node_uid = uid;
    p->is_published = false;
    if (is_anothers(p, existing)) {
        return 0;
    }
    CLEANUP(json) json_t *slice = slice_plan(&p->spec, &p->taint, p->dropped, existing);
    p->is_published = existing && slice_says_same(slice, existing);
    bool is_its_last_word = p->answer && is_same_taint(&p->sent_taint, &p->taint) &&
                            slice_says_same(p->answer, existing);
    if (p->is_published || is_its_last_word) {
        return 0;
    }
    json_decref(TAKE(p->answer));
    json_decref(p->sent);
    p->sent = json_incref(slice);
    p->sent_taint = p->taint;
    *out = (struct kube_sync_want){.body = TAKE(slice), .gap_ns = p->flip_ns};
    return 0;
}

/* Returns true if that is news: then there is something else to write. */
static bool tell_dropped(struct slice_publisher *p, struct slice_dropped dropped, struct mono now)
{
    bool has_taints = dropped.taints && !p->dropped.taints;
    bool has_sharing = dropped.multiple_allocations && !p->dropped.multiple_allocations;
    if (has_taints) {
        log_limited(&p->dropped_taints, SELDOM_WARN_NS, LOG_WARN, "dra",
                    "the API server drops device taints: enable its feature gate "
                    "DRADeviceTaints. Until then an unhealthy DPU is taken out of the slice");
    }
    if (has_sharing) {
        log_limited(&p->dropped_sharing, SELDOM_WARN_NS, LOG_WARN, "dra",
                    "the API server drops allowMultipleAllocations: enable its feature gate "
                    "DRAConsumableCapacity. Until then one claim at a time can hold the DPU");
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
    (void)method;
    if (response->code != 0) {
        return false;
    }
    struct slice_dropped dropped = slice_find_dropped(p->sent, response->body);
    if (tell_dropped(p, dropped, response->received_at)) {
        return true;
    }
    CLEANUP(json)
    json_t *wanted = slice_plan(&p->spec, &p->sent_taint, p->dropped, response->body);
    if (!slice_says_same(wanted, response->body)) {
        p->answer = json_incref(response->body);
        log_limited(&p->altered, LOG_AGAIN_NS, LOG_WARN, "dra",
                    "the API server (or a webhook) makes something else of our ResourceSlice "
                    "'%s', leaving it so",
                    p->name);
    }
    return false;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct slice_publisher *slice_publisher_new(const struct slice_publisher_config *config)
{
    struct slice_publisher *p = MEM_NEW(struct slice_publisher);
    const struct slice_spec *spec = &config->spec;
    int64_t flip_ns = config->renew_interval_ns;
    flip_ns = flip_ns < SLICE_FLIP_MIN_NS ? SLICE_FLIP_MIN_NS : flip_ns;
    p->flip_ns = flip_ns > SLICE_FLIP_MAX_NS ? SLICE_FLIP_MAX_NS : flip_ns;
    p->client = config->client;
    p->spec = *spec;
    slice_make_name(spec->driver, spec->node_name, p->name);
    backoff_init(&p->removals, SLICE_REPAIR_MIN_NS, SLICE_REPAIR_MAX_NS,
                 (uint64_t)clock_mono_now().ns);
    const struct kube_sync_pace pace = {
        .base_ns = SLICE_REPAIR_MIN_NS, .max_ns = SLICE_REPAIR_MAX_NS, .quiet_ns = SLICE_QUIET_NS};
    char *what = mem_format("our ResourceSlice '%s'", p->name);
    char *query = mem_format("fieldSelector=spec.driver%%3D%s%%2Cspec.nodeName%%3D%s", spec->driver,
                             spec->node_name);
    p->sync = kube_sync_new(&(struct kube_sync_config){
        .loop = config->loop,
        .client = config->client,
        .mod = "dra",
        .what = what,
        .collection = SLICES,
        .name = p->name,
        .list_query = query,
        .owner_node = spec->node_name,
        .is_owner_optional = true,
        .is_watched = true,
        .retry_ns = SLICE_RETRY_MIN_NS,
        .retry_max_ns = SLICE_RETRY_MAX_NS,
        .denied_retry_ns = SLICE_RETRY_MAX_NS,
        .denied_advice = "; rbac/host-agent-dra.yaml gives that right",
        .advice = "",
        .repair = pace,
        .create = pace,
        .desired = desired_slice,
        .pick = pick_slice,
        .on_written = on_written,
        .user = p,
    });
    free(what);
    free(query);
    return p;
}

void slice_publisher_free(struct slice_publisher *p)
{
    if (p) {
        kube_call_cancel(p->removal);
        kube_watch_stop(p->watch);
        kube_sync_free(p->sync);
        json_decref(p->sent);
        json_decref(p->answer);
        free(p);
    }
}

void slice_publisher_publish(struct slice_publisher *p, const struct slice_taint *taint)
{
    bool is_first = !p->has_taint;
    bool is_news = !is_first && !is_same_taint(&p->taint, taint);
    p->has_taint = true;
    p->taint = *taint;
    if (is_first) {
        kube_sync_start(p->sync, 0);
    } else if (is_news) {
        if (mono_reached(clock_mono_now(), p->dropped_again)) {
            p->dropped = (struct slice_dropped){.taints = false}; /* it may keep them now */
        }
        kube_sync_changed(p->sync);
    }
}

struct slice_stats slice_publisher_stats(const struct slice_publisher *p)
{
    struct kube_sync_stats sync = kube_sync_stats(p->sync);
    return (struct slice_stats){
        .writes = sync.written, .failures = sync.failed, .is_published = p->is_published};
}
