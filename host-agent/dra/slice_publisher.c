/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice_publisher.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "json/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024, WARN_PERIOD_S = 60, DENIED_WARN_PERIOD_S = 3600 };

struct slice_publisher {
    struct slice_publisher_config config;
    char name[NAMES_K8S_NAME_BYTES];
    char node_uid[NAMES_UID_BYTES];
    bool has_node;

    enum slice_version version; /* of the API; valid with has_version, else the next to try */
    bool has_version;
    struct slice_dropped dropped;

    bool is_listed;
    char obsolete[NAMES_K8S_NAME_BYTES]; /* a slice of ours under another name, or "" */
    json_t *existing;                    /* owned; as the server last showed it; NULL: absent */

    bool has_taint;
    struct slice_taint taint;

    struct kube_call *call; /* the one request under way, or NULL */
    json_t *sent;           /* owned; the body of the write under way */
    struct kube_watch *watch;
    bool is_watch_denied;

    struct mono due; /* the next step; MONO_NEVER: nothing to do */
    uint32_t failures_in_a_row;
    bool is_repair; /* the step that is due follows somebody else's change */
    uint32_t repairs_in_a_row;
    struct mono last_repair;
    uint32_t random;
    struct log_repeat warnings;
    struct slice_stats stats;
};

static void step(struct slice_publisher *p, struct mono now);

/* ---- when ---- */

static void set_due(struct slice_publisher *p, struct mono due)
{
    p->due = due;
    p->config.on_rearm(p->config.user);
}

/* xorshift: to spread retries, not to surprise anybody. */
static uint32_t next_random(struct slice_publisher *p)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 17;
    p->random ^= p->random << 5;
    return p->random;
}

/* min * 2^times, at most max. */
static int64_t doubled_ns(int64_t min_ns, uint32_t times, int64_t max_ns)
{
    int64_t ns = mono_ns_mul(min_ns, INT64_C(1) << (times < 20 ? times : 20));
    return ns < max_ns ? ns : max_ns;
}

/* Something failed: later, with full jitter above the minimum. */
static void back_off(struct slice_publisher *p, struct mono now, int64_t at_least_ns)
{
    int64_t cap_ns = doubled_ns(SLICE_RETRY_MIN_NS, p->failures_in_a_row, SLICE_RETRY_MAX_NS);
    int64_t wait_ns = SLICE_RETRY_MIN_NS + cap_ns / 1024 * (next_random(p) % 1024);
    p->failures_in_a_row++;
    p->stats.failures++;
    set_due(p, mono_add(now, wait_ns > at_least_ns ? wait_ns : at_least_ns));
}

static void fail(struct slice_publisher *p, const char *what, const struct kube_response *response)
{
    int64_t retry_after_ns = mono_ns_mul(response->retry_after_ms, NS_PER_MS);
    if (retry_after_ns > SLICE_RETRY_MAX_NS) {
        retry_after_ns = SLICE_RETRY_MAX_NS;
    }
    /* What is forbidden stays so until an admin acts: ask and complain seldom. */
    bool is_denied = response->code == ERR_AUTH;
    back_off(p, response->received_at, is_denied ? SLICE_RETRY_MAX_NS : retry_after_ns);
    if (log_repeat_due(&p->warnings, response->received_at,
                       (is_denied ? DENIED_WARN_PERIOD_S : WARN_PERIOD_S) * NS_PER_SEC)) {
        log_warn("dra", "%s: %s%s, will retry%s", what, response->message,
                 is_denied ? "; rbac/host-agent-dra.yaml gives that right" : "", p->warnings.more);
    }
}

/* ---- requests ---- */

static const char *collection(const struct slice_publisher *p, char out[static PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "/apis/resource.k8s.io/%s/resourceslices",
                   slice_version_name(p->version)); /* fits */
    return out;
}

static void send_request(struct slice_publisher *p, enum kube_method method, const char *path,
                         const json_t *body, kube_done_fn *done, struct mono now)
{
    struct err e = ERR_INIT;
    struct kube_request request = {
        .method = method, .channel = KUBE_CONTROL, .path = path, .body = body};
    set_due(p, MONO_NEVER); /* the answer decides what comes next */
    if (kube_client_start(p->config.client, &request, done, p, &p->call, &e) != 0) {
        p->call = NULL;
        log_warn("dra", "asking for '%s': %s, will retry", path, e.msg);
        back_off(p, now, 0);
    }
}

static void on_node(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    const char *uid = json_text_get(json_object_get(response->body, "metadata"), "uid");
    p->call = NULL;
    if (response->code == ERR_AUTH) {
        log_warn("dra",
                 "reading node '%s' is forbidden (%s): its ResourceSlice gets no owner and "
                 "outlives it, continuing",
                 p->config.spec.node_name, response->message);
        p->has_node = true;
    } else if (response->code != 0 || !uid || !text_copy(p->node_uid, sizeof(p->node_uid), uid)) {
        fail(p, "reading our node", response);
        return;
    } else {
        p->config.spec.node_uid = p->node_uid;
        p->has_node = true;
    }
    p->failures_in_a_row = 0;
    step(p, response->received_at);
}

static void ask_node(struct slice_publisher *p, struct mono now)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", p->config.spec.node_name); /* fits */
    send_request(p, KUBE_GET, path, NULL, on_node, now);
}

/* ---- what there is ---- */

/* A copy with kind and version, which an item of a list lacks. Owned; NULL for NULL. */
static json_t *complete_copy(const struct slice_publisher *p, const json_t *object)
{
    char version[32];
    json_t *copy = object ? json_deep_copy(object) : NULL;
    (void)snprintf(version, sizeof(version), "resource.k8s.io/%s",
                   slice_version_name(p->version)); /* fits */
    if (copy && (json_object_set_new(copy, "kind", json_string("ResourceSlice")) != 0 ||
                 json_object_set_new(copy, "apiVersion", json_string(version)) != 0)) {
        json_decref(copy);
        copy = NULL;
    }
    return copy;
}

static void keep_existing(struct slice_publisher *p, const json_t *object)
{
    json_decref(p->existing);
    p->existing = complete_copy(p, object);
}

/* The server does not serve this version: on to the next older one. */
static void try_older_version(struct slice_publisher *p, const struct kube_response *response)
{
    if (p->version + 1 < SLICE_VERSION_COUNT) {
        p->version++;
        step(p, response->received_at);
        return;
    }
    p->version = SLICE_V1;
    if (log_repeat_due(&p->warnings, response->received_at, 12 * SLICE_NO_API_NS)) {
        log_warn("dra", "the API server serves no resource.k8s.io (feature gate "
                        "DynamicResourceAllocation and its API group are off): no ResourceSlice");
    }
    p->stats.failures++;
    set_due(p, mono_add(response->received_at, SLICE_NO_API_NS));
}

/* Ours by name is the one; others of our driver on our node would spoil the pool. */
static void take_list(struct slice_publisher *p, const json_t *list)
{
    size_t index;
    const json_t *item;
    keep_existing(p, NULL);
    p->obsolete[0] = '\0';
    json_array_foreach(json_object_get(list, "items"), index, item)
    {
        const char *name = json_text_get(json_object_get(item, "metadata"), "name");
        if (text_equal(name, p->name)) {
            keep_existing(p, item);
        } else if (name && text_is_dns1123_subdomain(name)) {
            (void)text_copy(p->obsolete, sizeof(p->obsolete), name); /* bounded by its grammar */
        }
    }
}

/* Somebody else's change; ours come back through the answers of our own requests. */
static void on_watch_object(void *user, enum kube_watch_event event, const json_t *object,
                            bool listed, struct mono sent_at)
{
    (void)listed;
    (void)sent_at;
    struct slice_publisher *p = user;
    struct mono now = clock_mono_now();
    CLEANUP(json) json_t *news = complete_copy(p, event == KUBE_WATCH_PRESENT ? object : NULL);
    if (news ? json_equal(news, p->existing) : !p->existing) {
        return; /* what we know already, for example from our own write */
    }
    json_decref(p->existing);
    p->existing = TAKE(news);
    if (p->call || !mono_is_never(p->due)) {
        return; /* looked at when that is done */
    }
    if (mono_since(now, p->last_repair) > SLICE_QUIET_NS) {
        p->repairs_in_a_row = 0;
    }
    p->is_repair = true;
    set_due(p, mono_add(now,
                        doubled_ns(SLICE_REPAIR_MIN_NS, p->repairs_in_a_row, SLICE_REPAIR_MAX_NS)));
}

static void on_watch_contact(void *user)
{
    (void)user;
}

static void on_watch_failure(void *user, enum kube_watch_failure what,
                             const struct kube_response *response)
{
    (void)user;
    (void)what;
    log_debug("dra", "watching our ResourceSlice: %s, will retry", response->message);
}

static void on_watch_denied(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    p->is_watch_denied = true;
    log_warn("dra",
             "watching ResourceSlices is forbidden (%s): a slice that the kubelet removed is back "
             "only after %d s",
             response->message, (int)(SLICE_POLL_NS / NS_PER_SEC));
    if (!p->call && mono_is_never(p->due)) {
        p->is_listed = false;
        set_due(p, mono_add(response->received_at, SLICE_POLL_NS));
    }
}

static void start_watch(struct slice_publisher *p)
{
    char path[PATH_BYTES];
    struct err e = ERR_INIT;
    struct kube_watch_config config = {
        .collection_path = collection(p, path),
        .name = p->name,
        .on_object = on_watch_object,
        .on_contact = on_watch_contact,
        .on_failure = on_watch_failure,
        .on_denied = on_watch_denied,
        .user = p,
    };
    if (!p->watch && kube_watch_start(p->config.client, &config, &p->watch, &e) != 0) {
        p->watch = NULL;
        p->is_watch_denied = true; /* then we poll */
        log_warn("dra", "watching our ResourceSlice: %s, polling instead", e.msg);
    }
}

static void on_list(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    p->call = NULL;
    if (response->http_status == 404 && !p->has_version) {
        try_older_version(p, response);
        return;
    }
    if (response->code != 0) {
        fail(p, "listing our ResourceSlices", response);
        return;
    }
    if (!p->has_version) {
        log_info("dra", "publishing the DPU as a device with resource.k8s.io/%s",
                 slice_version_name(p->version));
    }
    p->has_version = true;
    p->is_listed = true;
    p->failures_in_a_row = 0;
    take_list(p, response->body);
    start_watch(p);
    step(p, response->received_at);
}

static void ask_list(struct slice_publisher *p, struct mono now)
{
    char base[PATH_BYTES];
    char path[PATH_BYTES + 512];
    (void)snprintf(path, sizeof(path), "%s?fieldSelector=spec.driver%%3D%s%%2Cspec.nodeName%%3D%s",
                   collection(p, base), p->config.spec.driver, p->config.spec.node_name); /* fits */
    send_request(p, KUBE_GET, path, NULL, on_list, now);
}

/* ---- writing ---- */

static void tell_dropped(struct slice_publisher *p, struct slice_dropped dropped)
{
    if (dropped.taints && !p->dropped.taints) {
        log_warn("dra", "the API server drops device taints: enable its feature gate "
                        "DRADeviceTaints. Until then an unhealthy DPU is taken out of the slice");
    }
    if (dropped.multiple_allocations && !p->dropped.multiple_allocations) {
        log_warn("dra", "the API server drops allowMultipleAllocations: enable its feature gate "
                        "DRAConsumableCapacity. Until then one claim at a time can hold the DPU");
    }
    p->dropped.taints |= dropped.taints;
    p->dropped.multiple_allocations |= dropped.multiple_allocations;
}

static void on_read(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    p->call = NULL;
    if (response->code != 0 && response->http_status != 404) {
        fail(p, "reading our ResourceSlice", response);
        return;
    }
    keep_existing(p, response->code == 0 ? response->body : NULL);
    /* Not at once: whoever we collided with may still be writing. */
    set_due(p, mono_add(response->received_at, SLICE_RETRY_MIN_NS));
}

static void ask_slice(struct slice_publisher *p, struct mono now)
{
    char base[PATH_BYTES];
    char path[PATH_BYTES + 512];
    (void)snprintf(path, sizeof(path), "%s/%s", collection(p, base), p->name); /* fits */
    send_request(p, KUBE_GET, path, NULL, on_read, now);
}

static void on_written(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    CLEANUP(json) json_t *sent = TAKE(p->sent);
    p->call = NULL;
    if (response->http_status == 409) { /* Conflict or AlreadyExists: somebody was faster */
        ask_slice(p, response->received_at);
        return;
    }
    if (response->http_status == 404) { /* removed under our PUT */
        keep_existing(p, NULL);
        back_off(p, response->received_at, 0);
        return;
    }
    if (response->code != 0 || !response->body) {
        fail(p, "writing our ResourceSlice", response);
        return;
    }
    p->stats.writes++;
    p->failures_in_a_row = 0;
    tell_dropped(p, slice_find_dropped(sent, response->body, p->version));
    keep_existing(p, response->body);
    step(p, response->received_at);
}

/* Takes `slice`. */
static void write_slice(struct slice_publisher *p, json_t *slice, struct mono now)
{
    char base[PATH_BYTES];
    char path[PATH_BYTES + 512];
    if (p->existing) {
        (void)snprintf(path, sizeof(path), "%s/%s", collection(p, base), p->name); /* fits */
    } else {
        (void)snprintf(path, sizeof(path), "%s", collection(p, base)); /* fits */
    }
    p->sent = slice;
    send_request(p, p->existing ? KUBE_PUT : KUBE_POST, path, slice, on_written, now);
    if (!p->call) {
        json_decref(TAKE(p->sent));
    }
}

static void on_deleted(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    p->call = NULL;
    if (response->code != 0 && response->http_status != 404) {
        fail(p, "removing an obsolete ResourceSlice of ours", response);
        return;
    }
    log_info("dra", "removed the obsolete ResourceSlice '%s'", p->obsolete);
    p->is_listed = false; /* there may be more */
    step(p, response->received_at);
}

static void delete_obsolete(struct slice_publisher *p, struct mono now)
{
    char base[PATH_BYTES];
    char path[PATH_BYTES + 512];
    (void)snprintf(path, sizeof(path), "%s/%s", collection(p, base), p->obsolete); /* fits */
    send_request(p, KUBE_DELETE, path, NULL, on_deleted, now);
}

/* Writes what differs; otherwise rests. */
static void reconcile(struct slice_publisher *p, struct mono now)
{
    json_t *slice = slice_plan(&p->config.spec, &p->taint, p->version, p->dropped, p->existing);
    if (!slice) {
        back_off(p, now, 0);
        return;
    }
    p->stats.is_published = p->existing && json_equal(slice, p->existing);
    if (!p->stats.is_published) {
        if (p->is_repair) {
            p->repairs_in_a_row++;
            p->last_repair = now;
            log_info("dra", "our ResourceSlice was %s by somebody else: writing it again",
                     p->existing ? "changed" : "removed");
        }
        p->is_repair = false;
        write_slice(p, slice, now);
        return;
    }
    p->is_repair = false;
    json_decref(slice);
    if (p->is_watch_denied) {
        p->is_listed = false;
        set_due(p, mono_add(now, SLICE_POLL_NS));
    } else {
        set_due(p, MONO_NEVER);
    }
}

/* The next thing to do, if it is time and nothing is under way. */
static void step(struct slice_publisher *p, struct mono now)
{
    if (p->call || !p->has_taint) {
        return;
    }
    if (!p->has_node) {
        ask_node(p, now);
    } else if (!p->is_listed) {
        ask_list(p, now);
    } else if (p->obsolete[0] != '\0') {
        delete_obsolete(p, now);
    } else {
        reconcile(p, now);
    }
}

/* ---- life ---- */

int slice_publisher_new(const struct slice_publisher_config *config, struct slice_publisher **out,
                        struct err *e)
{
    struct slice_publisher *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_set(e, ERR_NOMEM, "out of memory for the slice publisher");
    }
    p->config = *config;
    p->has_node = config->spec.node_uid != NULL;
    p->due = MONO_NEVER;
    p->last_repair = (struct mono){-SLICE_QUIET_NS};
    p->random = (uint32_t)clock_mono_now().ns | 1;
    slice_make_name(config->spec.driver, config->spec.node_name, p->name);
    *out = p;
    return 0;
}

void slice_publisher_free(struct slice_publisher *p)
{
    if (!p) {
        return;
    }
    kube_call_cancel(p->call);
    kube_watch_stop(p->watch);
    json_decref(p->sent);
    json_decref(p->existing);
    free(p);
}

void slice_publisher_publish(struct slice_publisher *p, const struct slice_taint *taint,
                             struct mono now)
{
    bool is_news = !p->has_taint || p->taint.is_set != taint->is_set ||
                   !text_equal(p->taint.value, taint->value);
    p->has_taint = true;
    p->taint = *taint;
    if (is_news) {
        p->is_repair = false;
        step(p, now); /* also while backing off: a new verdict does not wait */
    }
}

struct mono slice_publisher_next_tick(const struct slice_publisher *p)
{
    return p->due;
}

void slice_publisher_tick(struct slice_publisher *p, struct mono now)
{
    if (!mono_reached(now, p->due)) {
        return;
    }
    p->due = MONO_NEVER;
    step(p, now);
}

bool slice_publisher_version(const struct slice_publisher *p, enum slice_version *out)
{
    *out = p->version;
    return p->has_version;
}

struct slice_stats slice_publisher_stats(const struct slice_publisher *p)
{
    return p->stats;
}
