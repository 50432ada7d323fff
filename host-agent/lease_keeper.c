/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/lease_keeper.h"

#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>

#define RETRY_BASE_NS (500 * NS_PER_MS)
#define RETRY_MAX_NS  (15 * NS_PER_SEC)

enum {
    /* How rarely it repairs what is undone each time: rare enough to harm nobody, and soon enough
     * after the other one has gone (the old pod of an update). */
    PAUSE_MAX_DURATIONS = 5,
    FREE_REPAIRS = 2, /* in a row, without a pause: people edit a few things at a time */
};

struct lease_keeper {
    struct kube_sync *sync;
    struct lease_keeper_config config;
    bool has_begun; /* the lease, or that there is none, was seen */
    bool is_denied; /* the last try to create it was forbidden */
    struct log_repeat foreign;
    struct log_repeat other_duration;
    uint32_t told_duration_s; /* the last of the lease's that was told of */
};

/* Once for each duration: whoever sets it otherwise goes on. */
static void report_duration(struct lease_keeper *k, const struct lease_view *view)
{
    if (view->duration_s == k->told_duration_s || view->duration_s == 0) {
        return;
    }
    if (log_limited(&k->other_duration, LOG_AGAIN_NS, LOG_WARN, "keeper",
                    "the duration on lease %s/%s is %u s, but this agent's is %u s: set "
                    "dpu-node-lease-duration alike on both sides",
                    k->config.ns, k->config.name, (unsigned)view->duration_s,
                    (unsigned)k->config.duration_s)) {
        k->told_duration_s = view->duration_s;
    }
}

static void desired_lease(void *user, const json_t *existing, const char *uid,
                          struct kube_sync_want *out)
{
    struct lease_keeper *k = user;
    const struct lease_keeper_config *c = &k->config;
    const struct lease_owner owner = {.node_name = c->node, .node_uid = uid};
    struct lease_view view;
    if (!existing) {
        out->body = lease_new(c->ns, c->name, c->holder, c->duration_s, owner);
        return;
    }
    struct lease_drift drift = lease_check(existing, c->holder, c->duration_s, owner);
    bool is_lease = lease_read(existing, &view, NULL) == 0;
    if (is_lease && drift.holder_foreign) {
        log_limited(
            &k->foreign, LOG_AGAIN_NS, LOG_ERROR, "keeper",
            "lease %s/%s is held by '%s', not by '%s': its renewals do not count. Check whether "
            "two clusters or DPUs share this lease name; delete the lease if it is a leftover",
            c->ns, c->name, view.holder, c->holder);
    } else if (is_lease && drift.duration) {
        report_duration(k, &view);
    }
    if (drift.holder_foreign || (!drift.duration && !drift.owner && !drift.holder_empty)) {
        return; /* a foreign one is left alone as a whole */
    }
    out->body = is_lease ? lease_repair(existing, c->holder, c->duration_s, owner) : NULL;
    out->is_patch = true;
    out->trouble = is_lease ? NULL : "it is no lease";
}

/* For good, as far as one can tell: not a conflict, not a server that is busy or gone. */
static bool is_forbidden(const struct kube_response *r)
{
    return r->http_status >= 400 && r->http_status < 500 && r->http_status != 401 &&
           r->http_status != 409 && r->http_status != 429;
}

static bool on_written(void *user, enum kube_method method, const struct kube_response *r)
{
    struct lease_keeper *k = user;
    if (method == KUBE_POST && r->http_status != 0) {
        k->is_denied = is_forbidden(r);
    }
    if (r->code == 0) {
        k->config.on_written(k->config.user, r->body, r->sent_at, method == KUBE_MERGE_PATCH);
    }
    return false;
}

struct lease_keeper *lease_keeper_start(struct ev_loop *loop, struct kube_client *client,
                                        const struct lease_keeper_config *config)
{
    struct lease_keeper *k = MEM_NEW(struct lease_keeper);
    int64_t duration_ns = mono_ns_mul(NS_PER_SEC, config->duration_s);
    int64_t quarter_ms = duration_ns / 4 / NS_PER_MS;
    k->config = *config;
    k->sync = kube_sync_new(&(struct kube_sync_config){
        .loop = loop,
        .client = client,
        .mod = "keeper",
        .what = mem_format("lease %s/%s", config->ns, config->name),
        .collection = mem_format("/apis/coordination.k8s.io/v1/namespaces/%s/leases", config->ns),
        .name = config->name,
        .owner_node = config->node,
        .is_urgent = true,
        /* A lease that is short has no time for a request that hangs. */
        .deadline_ms = (uint32_t)mono_ns_min(mono_ns_max(quarter_ms, 1000), 5000),
        /* A lease that is gone is missed by a DPU that lives, and hides one that is dead. */
        .retry_ns = RETRY_BASE_NS,
        .retry_max_ns = mono_ns_min(duration_ns / 2, RETRY_MAX_NS),
        .repair = {.base_ns = duration_ns,
                   .max_ns = mono_ns_mul(duration_ns, PAUSE_MAX_DURATIONS),
                   .quiet_ns = mono_ns_mul(duration_ns, 2),
                   .free = FREE_REPAIRS},
        .create = {.base_ns = RETRY_BASE_NS, .max_ns = RETRY_MAX_NS, .quiet_ns = duration_ns},
        .desired = desired_lease,
        .on_written = on_written,
        .user = k,
    });
    return k;
}

void lease_keeper_stop(struct lease_keeper *k)
{
    if (k) {
        kube_sync_free(k->sync);
        free(k);
    }
}

void lease_keeper_saw(struct lease_keeper *k, const json_t *lease)
{
    kube_sync_saw(k->sync, lease);
    if (!k->has_begun) {
        k->has_begun = true;
        kube_sync_changed(k->sync);
    }
}

bool lease_keeper_is_denied(const struct lease_keeper *k)
{
    return k->is_denied;
}

const struct kube_sync_stats *lease_keeper_stats(const struct lease_keeper *k)
{
    return kube_sync_stats(k->sync);
}
