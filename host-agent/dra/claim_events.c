/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim_events.h"

#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "host-agent/dra/claim_lookup.h"
#include "host-agent/dra/projection.h"
#include "host-agent/outputs/events.h"

#define ACTION "HealthChanged"

/* A claim that is looked up. */
struct question {
    struct claim_events *teller;
    struct stored_claim claim;
    void *lookup; /* NULL: none under way */
};

struct claim_events {
    struct claim_events_config config;
    struct claim_lookup lookup;
    struct plugin_claim_source source;
    struct question check;
    struct question round; /* through all claims, in their order */
    bool is_anew;          /* it starts at the first claim again */
    bool has_told;
    enum readiness_reason reason; /* of what is told, or was last */
    struct health_report news;
    struct wall at;
};

/* Returns the pods that have the claim, borrowed from it; NULL if none can have it, which drops it,
 * or nobody knows. */
static const json_t *pods_of(const struct question *q, const json_t *claim, const struct err *why)
{
    struct err e = ERR_INIT;
    struct claim_allocation allocation;
    const struct claim_ref ref = {.ns = q->claim.ns, .uid = q->claim.uid, .name = q->claim.name};
    const struct claim_events_config *c = &q->teller->config;
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

static void question_ask(struct question *q, plugin_claim_fn *found)
{
    struct err e = ERR_INIT;
    const struct plugin_claim_source *s = &q->teller->source;
    const struct claim_ref ref = {.ns = q->claim.ns, .uid = q->claim.uid, .name = q->claim.name};
    if (s->start(s->user, &ref, found, q, &q->lookup, &e) != 0) {
        q->lookup = NULL;
        log_debug("dra", "looking up claim '%s/%s': %s", q->claim.ns, q->claim.name, e.msg);
    }
}

/* Nothing for a user of the claim that is no pod. */
static void tell_pod(struct claim_events *t, const json_t *user)
{
    static const char *const reasons[] = {[HEALTH_UNKNOWN] = "DPUHealthUnknown",
                                          [HEALTH_HEALTHY] = "DPUHealthy",
                                          [HEALTH_UNHEALTHY] = "DPUUnhealthy"};
    struct event event = {.at = t->at,
                          .key = (uint64_t)t->at.ns,
                          .action = ACTION,
                          .reason = reasons[t->news.status],
                          .rights = "host-agent-dra.yaml",
                          .is_warning = t->news.status != HEALTH_HEALTHY};
    const char *name = json_text_get(user, "name");
    const char *uid = json_text_get(user, "uid");
    if (text_equal(json_text_get(user, "resource"), "pods") && name && uid) {
        text_format(event.note, sizeof(event.note), "%s", t->news.message);
        text_format(event.ns, sizeof(event.ns), "%s", t->round.claim.ns);
        text_format(event.pod, sizeof(event.pod), "%s", name);
        text_format(event.uid, sizeof(event.uid), "%s", uid);
        events_tell_pod(t->config.events, &event);
    }
}

static void round_go_on(struct claim_events *t);

static void on_claim(void *user, const json_t *claim, const struct err *why)
{
    struct question *q = user;
    q->lookup = NULL;
    const json_t *pods = pods_of(q, claim, why);
    for (size_t i = 0; !q->teller->is_anew && i < json_array_size(pods); i++) {
        tell_pod(q->teller, json_array_get(pods, i));
    }
    round_go_on(q->teller);
}

/* Until a claim is being looked up, or all were. */
static void round_go_on(struct claim_events *t)
{
    while (!t->round.lookup) {
        if (t->is_anew) {
            t->is_anew = false;
            t->round.claim.uid[0] = '\0';
        }
        if (!claim_store_next(t->config.store, t->round.claim.uid, &t->round.claim)) {
            return;
        }
        question_ask(&t->round, on_claim);
    }
}

void claim_events_tell(struct claim_events *t, const struct readiness *verdict)
{
    bool is_hold = verdict->state == READINESS_UNKNOWN && verdict->admit;
    if (!t->config.events || is_hold || (t->has_told && t->reason == verdict->reason)) {
        return;
    }
    t->has_told = true;
    t->reason = verdict->reason;
    t->news = projection_health(verdict);
    t->at = verdict->transition;
    t->is_anew = true;
    events_withdraw(t->config.events, ACTION);
    round_go_on(t);
}

static void on_checked(void *user, const json_t *claim, const struct err *why)
{
    struct question *q = user;
    q->lookup = NULL;
    (void)pods_of(q, claim, why); /* only to drop it */
}

void claim_events_check(struct claim_events *t, const struct stored_claim *claim)
{
    if (!t->check.lookup) {
        t->check.claim = *claim;
        question_ask(&t->check, on_checked);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct claim_events *claim_events_new(const struct claim_events_config *config)
{
    struct claim_events *t = MEM_NEW(struct claim_events);
    t->config = *config;
    t->lookup = (struct claim_lookup){.client = config->client, .priority = KUBE_ORDINARY};
    t->source = claim_lookup_source(&t->lookup);
    t->check.teller = t;
    t->round.teller = t;
    return t;
}

void claim_events_free(struct claim_events *t)
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
    free(t);
}
