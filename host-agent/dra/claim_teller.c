/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim_teller.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "host-agent/dra/claim_lookup.h"
#include "host-agent/dra/projection.h"
#include "kube/kube_event.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 512 };

/* A claim that is looked up. */
struct question {
    struct claim_teller *teller;
    struct stored_claim claim;
    void *lookup; /* NULL: none under way */
};

struct claim_teller {
    struct claim_teller_config config;
    struct claim_lookup lookup;
    struct plugin_claim_source source;
    struct question check;

    /* The round. */
    bool has_told;
    enum readiness_reason reason; /* of what is told, or was last */
    struct health_report news;
    struct wall at;
    bool is_anew; /* from the first claim on */
    struct question round;
    json_t *pods; /* of its claim; NULL: not known yet */
    size_t next_pod;
    struct kube_call *event;
    struct log_repeat trouble;
};

static void go_on(struct claim_teller *t);

/* ---- claims ---------------------------------------------------------------------------------- */

/* Returns the pods that have the claim, borrowed from it; NULL if none can have it, which drops it,
 * or nobody knows. */
static json_t *pods_of(const struct question *q, const json_t *claim, const struct err *why)
{
    struct err e = ERR_INIT;
    struct claim_allocation allocation;
    const struct claim_ref ref = {.ns = q->claim.ns, .uid = q->claim.uid, .name = q->claim.name};
    const struct claim_teller_config *c = &q->teller->config;
    int rc = claim ? claim_read(claim, &ref, &c->target, &allocation, &e) : why->code;
    if (rc == 0) {
        return json_object_get(json_object_get(claim, "status"), "reservedFor");
    }
    bool is_gone = rc == ERR_NOTFOUND || rc == ERR_GONE || rc == ERR_CONFLICT ||
                   (claim && rc == ERR_RETRY); /* not allocated any more */
    if (is_gone) {
        log_debug("dra", "claim '%s/%s' is prepared no longer: %s", q->claim.ns, q->claim.name,
                  claim ? e.msg : why->msg);
        claim_store_drop(c->store, q->claim.uid);
    }
    return NULL;
}

static void ask(struct question *q, plugin_claim_fn *found)
{
    struct err e = ERR_INIT;
    const struct plugin_claim_source *s = &q->teller->source;
    const struct claim_ref ref = {.ns = q->claim.ns, .uid = q->claim.uid, .name = q->claim.name};
    if (s->start(s->user, &ref, found, q, &q->lookup, &e) != 0) {
        q->lookup = NULL;
        log_debug("dra", "looking up claim '%s/%s': %s", q->claim.ns, q->claim.name, e.msg);
    }
}

static void on_checked(void *user, const json_t *claim, const struct err *why)
{
    struct question *q = user;
    q->lookup = NULL;
    (void)pods_of(q, claim, why); /* only to drop it */
}

static void on_claim(void *user, const json_t *claim, const struct err *why)
{
    struct question *q = user;
    q->lookup = NULL;
    q->teller->next_pod = 0;
    q->teller->pods = json_incref(pods_of(q, claim, why));
    go_on(q->teller);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static const char *event_reason(enum health_status status)
{
    switch (status) {
    case HEALTH_HEALTHY:
        return "DPUHealthy";
    case HEALTH_UNHEALTHY:
        return "DPUUnhealthy";
    case HEALTH_UNKNOWN:
        return "DPUHealthUnknown";
    }
    return "DPUHealthUnknown";
}

/* Named by when it happened. */
static json_t *event_of(const struct claim_teller *t, const char *pod, const char *uid)
{
    char suffix[KUBE_EVENT_SUFFIX_BYTES];
    text_format(suffix, sizeof(suffix), "%016" PRIx64, (uint64_t)t->at.ns);
    const struct kube_pod_event event = {
        .node = t->config.node,
        .ns = t->round.claim.ns,
        .pod = pod,
        .uid = uid,
        .suffix = suffix,
        .at = t->at,
        .action = "HealthChanged",
        .reason = event_reason(t->news.status),
        .note = t->news.message,
        .is_warning = t->news.status != HEALTH_HEALTHY,
    };
    return kube_pod_event(&event);
}

static void on_event(void *user, const struct kube_response *r)
{
    struct claim_teller *t = user;
    t->event = NULL;
    if (r->code != 0 && !text_equal(r->reason, "AlreadyExists") &&
        log_repeat_due(&t->trouble, r->received_at, LOG_AGAIN_NS)) {
        log_warn("dra", "telling a pod that claims the DPU by an Event: %s%s%s", r->message,
                 r->http_status == 403 ? "; rbac/host-agent-dra.yaml gives that right" : "",
                 t->trouble.more);
    }
    go_on(t);
}

/* Nothing for a user of the claim that is no pod. */
static void tell_pod(struct claim_teller *t, const json_t *user)
{
    char path[PATH_BYTES];
    struct err e = ERR_INIT;
    const char *name = json_text_get(user, "name");
    const char *uid = json_text_get(user, "uid");
    if (!text_equal(json_text_get(user, "resource"), "pods") || !name || !uid) {
        return;
    }
    CLEANUP(json) json_t *body = event_of(t, name, uid);
    text_format(path, sizeof(path), "/apis/events.k8s.io/v1/namespaces/%s/events",
                t->round.claim.ns);
    const struct kube_request request = {
        .method = KUBE_POST, .channel = KUBE_CONTROL, .path = path, .body = body};
    if (!body || kube_client_start(t->config.client, &request, on_event, t, &t->event, &e) != 0) {
        t->event = NULL;
        log_debug("dra", "telling pod '%s/%s': %s", t->round.claim.ns, name,
                  body ? e.msg : "out of memory");
    }
}

/* ---- the round ------------------------------------------------------------------------------- */

static void forget_pods(struct claim_teller *t)
{
    json_decref(t->pods);
    t->pods = NULL;
}

/* Until something is under way, or all have been told. */
static void go_on(struct claim_teller *t)
{
    while (!t->event && !t->round.lookup) {
        if (t->is_anew) {
            t->is_anew = false;
            t->round.claim.uid[0] = '\0';
            forget_pods(t);
        }
        if (t->next_pod < json_array_size(t->pods)) {
            tell_pod(t, json_array_get(t->pods, t->next_pod++));
            continue;
        }
        forget_pods(t);
        if (!claim_store_next(t->config.store, t->round.claim.uid, &t->round.claim)) {
            return;
        }
        ask(&t->round, on_claim);
    }
}

void claim_teller_tell(struct claim_teller *t, const struct readiness *verdict, struct wall at)
{
    bool is_hold = verdict->state == READINESS_UNKNOWN && verdict->admit;
    if (is_hold || (t->has_told && t->reason == verdict->reason)) {
        return;
    }
    t->has_told = true;
    t->reason = verdict->reason;
    t->news = projection_health(verdict);
    t->at = at;
    t->is_anew = true;
    go_on(t);
}

void claim_teller_check(struct claim_teller *t, const struct stored_claim *claim)
{
    if (!t->check.lookup) {
        t->check.claim = *claim;
        ask(&t->check, on_checked);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int claim_teller_new(const struct claim_teller_config *config, struct claim_teller **out,
                     struct err *e)
{
    struct claim_teller *t = calloc(1, sizeof(*t));
    if (!t) {
        return err_no_memory(e);
    }
    t->config = *config;
    t->lookup = (struct claim_lookup){.client = config->client, .priority = KUBE_ORDINARY};
    t->source = claim_lookup_source(&t->lookup);
    t->check.teller = t;
    t->round.teller = t;
    *out = t;
    return 0;
}

void claim_teller_free(struct claim_teller *t)
{
    if (!t) {
        return;
    }
    if (t->check.lookup) {
        t->source.cancel(t->source.user, t->check.lookup);
    }
    if (t->round.lookup) {
        t->source.cancel(t->source.user, t->round.lookup);
    }
    kube_call_cancel(t->event);
    forget_pods(t);
    free(t);
}
