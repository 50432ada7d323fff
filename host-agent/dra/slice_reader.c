/* SPDX-License-Identifier: Apache-2.0 */
/* The reading half: our Node, the slices there are, and the watch of our own. */
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "host-agent/dra/slice_look.h"
#include "host-agent/dra/slice_publisher_internal.h"

/* ---- our node ---- */

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
        publisher_fail(p, "reading our node", response);
        return;
    } else {
        p->config.spec.node_uid = p->node_uid;
        p->has_node = true;
    }
    slice_pace_worked(&p->pace);
    publisher_step(p, response->received_at);
}

void publisher_ask_node(struct slice_publisher *p, struct mono now)
{
    char path[PUBLISHER_PATH_BYTES];
    text_format(path, sizeof(path), "/api/v1/nodes/%s", p->config.spec.node_name);
    publisher_send(p, KUBE_GET, path, NULL, on_node, now);
}

/* ---- what there is ---- */

/* The server does not serve this version: on to the next older one. */
static void try_older_version(struct slice_publisher *p, const struct kube_response *response)
{
    if (p->version + 1 < SLICE_VERSION_COUNT) {
        p->version++;
        publisher_step(p, response->received_at);
        return;
    }
    p->version = SLICE_V1;
    if (log_repeat_due(&p->warnings, response->received_at, 12 * SLICE_NO_API_NS)) {
        log_warn("dra", "the API server serves no resource.k8s.io (feature gate "
                        "DynamicResourceAllocation and its API group are off): no ResourceSlice");
    }
    p->stats.failures++;
    publisher_set_due(p, mono_add(response->received_at, SLICE_NO_API_NS));
}

/* Ours by name is the one; others of our driver on our node would spoil the pool. */
static void take_list(struct slice_publisher *p, const json_t *list)
{
    struct slice_look look = slice_look(&p->config.spec, p->name, list);
    publisher_keep(p, look.own);
    p->obsolete[0] = '\0';
    if (look.obsolete) {
        text_format(p->obsolete, sizeof(p->obsolete), "%s", look.obsolete);
    } else {
        p->removals = 0;
    }
}

/* Somebody else's change; ours come back through the answers of our own requests. */
static void on_watch_object(void *user, enum kube_watch_event event, const json_t *object,
                            bool listed, struct mono sent_at)
{
    (void)listed;
    (void)sent_at;
    struct slice_publisher *p = user;
    CLEANUP(json)
    json_t *news = slice_copy(event == KUBE_WATCH_PRESENT ? object : NULL, p->version);
    if (news ? json_equal(news, p->existing) : !p->existing) {
        return; /* what we know already, for example from our own write */
    }
    publisher_take(p, TAKE(news));
    if (p->call) {
        p->is_unsure = true; /* the answer may be older than this */
    } else if (mono_is_never(p->due)) {
        publisher_set_due(p, (struct mono){0}); /* at once, from the owner's tick */
    }
}

static void on_watch_contact(void *user)
{
    (void)user;
}

/* Looks at the list again after `wait_ns`, if nothing else is planned. */
static void look_again(struct slice_publisher *p, struct mono now, int64_t wait_ns)
{
    if (!p->call && mono_is_never(p->due)) {
        p->is_list_due = true;
        publisher_set_due(p, mono_add(now, wait_ns));
    }
}

static void on_watch_failure(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    log_debug("dra", "watching our ResourceSlice: %s, will retry", response->message);
    if (response->http_status == 404) { /* is this version still served? */
        look_again(p, response->received_at, SLICE_POLL_NS);
    }
}

static void on_watch_denied(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    bool lasts = p->is_watch_denied; /* once may be an API server that has just started */
    p->is_watch_denied = true;
    p->watch_again = mono_add(response->received_at, SLICE_WATCH_AGAIN_NS);
    if (lasts && log_repeat_due(&p->denied, response->received_at, PUBLISHER_DENIED_WARN_NS)) {
        log_warn("dra",
                 "watching ResourceSlices is forbidden (%s): a slice that the kubelet removed is "
                 "back only after %d s%s",
                 response->message, (int)(SLICE_POLL_NS / NS_PER_SEC), p->denied.more);
    }
    look_again(p, response->received_at, SLICE_POLL_NS);
}

static void start_watch(struct slice_publisher *p, struct mono now)
{
    if (p->watch) {
        if (p->is_watch_denied && mono_reached(now, p->watch_again)) {
            p->is_watch_denied = false;
            kube_watch_restart(p->watch);
        }
        return;
    }
    char path[PUBLISHER_PATH_BYTES];
    struct err e = ERR_INIT;
    struct kube_watch_config config = {
        .collection_path = publisher_collection(p, path),
        .name = p->name,
        .on_object = on_watch_object,
        .on_contact = on_watch_contact,
        .on_failure = on_watch_failure,
        .on_denied = on_watch_denied,
        .user = p,
    };
    p->is_watch_denied = kube_watch_start(p->config.client, &config, &p->watch, &e) != 0;
    if (p->is_watch_denied) { /* then we poll, and try again with each list */
        p->watch = NULL;
        if (log_repeat_due(&p->denied, now, PUBLISHER_DENIED_WARN_NS)) {
            log_warn("dra", "watching our ResourceSlice: %s, polling instead%s", e.msg,
                     p->denied.more);
        }
    }
}

static void on_list(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    p->call = NULL;
    if (response->http_status == 404) {
        if (p->has_version) {
            publisher_find_version(p, response->received_at);
        } else {
            try_older_version(p, response);
        }
        return;
    }
    if (response->code != 0) {
        publisher_fail(p, "listing our ResourceSlices", response);
        return;
    }
    if (!p->has_version) {
        log_info("dra", "publishing the DPU as a device with resource.k8s.io/%s",
                 slice_version_name(p->version));
    }
    p->has_version = true;
    p->is_listed = true;
    take_list(p, response->body);
    start_watch(p, response->received_at);
    publisher_step(p, response->received_at);
}

void publisher_ask_list(struct slice_publisher *p, struct mono now)
{
    char base[PUBLISHER_PATH_BYTES];
    char path[PUBLISHER_PATH_BYTES + 512];
    text_format(path, sizeof(path), "%s?fieldSelector=spec.driver%%3D%s%%2Cspec.nodeName%%3D%s",
                publisher_collection(p, base), p->config.spec.driver, p->config.spec.node_name);
    publisher_send(p, KUBE_GET, path, NULL, on_list, now);
}

/* ---- our slice ---- */

static void on_read(void *user, const struct kube_response *response)
{
    struct slice_publisher *p = user;
    p->call = NULL;
    if (response->code != 0 && response->http_status != 404) {
        p->is_unsure = true;
        publisher_fail(p, "reading our ResourceSlice", response);
        return;
    }
    if (response->code != 0 && !text_equal(response->reason, "NotFound")) {
        publisher_find_version(p, response->received_at);
        return;
    }
    publisher_keep(p, response->code == 0 ? response->body : NULL);
    if (p->is_unsure) { /* it changed again */
        publisher_set_due(p, mono_add(response->received_at, SLICE_REPAIR_MIN_NS));
    } else {
        publisher_step(p, response->received_at);
    }
}

void publisher_ask_slice(struct slice_publisher *p, struct mono now)
{
    char base[PUBLISHER_PATH_BYTES];
    char path[PUBLISHER_PATH_BYTES + 512];
    text_format(path, sizeof(path), "%s/%s", publisher_collection(p, base), p->name);
    publisher_send(p, KUBE_GET, path, NULL, on_read, now);
    p->is_unsure = !p->call; /* what changes from now on is newer than the answer */
}
