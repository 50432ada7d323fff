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

struct claim_events {
    struct claim_events_config config;
    struct claim_lookup lookup;
    struct plugin_claim_source source;
    struct stored_claim claim; /* that is looked up; a round goes through all, in their order */
    void *call;                /* NULL: no look-up is under way */
    bool is_check;             /* it is of no round */
    bool is_anew;              /* a round starts at the first claim (again) */
    bool has_told;
    enum readiness_reason reason; /* of what is told, or was last */
    struct health_report news;
    struct wall at;
};

/* Returns the pods that have the claim, borrowed from it; NULL if none can have it, which drops it,
 * or nobody knows. */
static const json_t *pods_of(const struct claim_events *t, const json_t *claim,
                             const struct err *why)
{
    struct err e = ERR_INIT;
    struct claim_allocation allocation;
    const struct stored_claim *c = &t->claim;
    const struct claim_ref ref = {.ns = c->ns, .uid = c->uid, .name = c->name};
    int rc = claim ? claim_read(claim, &ref, &t->config.target, &allocation, &e) : why->code;
    if (rc == 0) {
        return json_object_get(json_object_get(claim, "status"), "reservedFor");
    }
    bool is_gone = rc == ERR_NOTFOUND || rc == ERR_GONE || rc == ERR_CONFLICT ||
                   (claim && rc == ERR_RETRY); /* not allocated any more */
    if (is_gone) {
        log_debug("dra", "claim '%s/%s' is prepared no longer: %s", c->ns, c->name,
                  claim ? e.msg : why->msg);
        claim_store_drop(t->config.store, c->uid);
    }
    return NULL;
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
        text_format(event.ns, sizeof(event.ns), "%s", t->claim.ns);
        text_format(event.pod, sizeof(event.pod), "%s", name);
        text_format(event.uid, sizeof(event.uid), "%s", uid);
        events_tell_pod(t->config.events, &event);
    }
}

static void round_go_on(struct claim_events *t);

static void on_claim(void *user, const json_t *claim, const struct err *why)
{
    struct claim_events *t = user;
    t->call = NULL;
    const json_t *pods = pods_of(t, claim, why);
    bool is_told = !t->is_check && !t->is_anew;
    for (size_t i = 0; is_told && i < json_array_size(pods); i++) {
        tell_pod(t, json_array_get(pods, i));
    }
    if (!t->is_check || t->is_anew) {
        round_go_on(t);
    }
}

static void claim_ask(struct claim_events *t)
{
    struct err e = ERR_INIT;
    const struct claim_ref ref = {.ns = t->claim.ns, .uid = t->claim.uid, .name = t->claim.name};
    if (t->source.start(t->source.user, &ref, on_claim, t, &t->call, &e) != 0) {
        t->call = NULL;
        log_debug("dra", "looking up claim '%s/%s': %s", ref.ns, ref.name, e.msg);
    }
}

/* Until a claim is being looked up, or all were. */
static void round_go_on(struct claim_events *t)
{
    while (!t->call) {
        if (t->is_anew) {
            t->claim.uid[0] = '\0';
        }
        t->is_anew = false;
        t->is_check = false;
        if (!claim_store_next(t->config.store, t->claim.uid, &t->claim)) {
            return;
        }
        claim_ask(t);
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

void claim_events_check(struct claim_events *t, const struct stored_claim *claim)
{
    if (!t->call) {
        t->claim = *claim;
        t->is_check = true;
        claim_ask(t);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct claim_events *claim_events_new(const struct claim_events_config *config)
{
    struct claim_events *t = MEM_NEW(struct claim_events);
    t->config = *config;
    t->lookup = (struct claim_lookup){.client = config->client, .priority = KUBE_ORDINARY};
    t->source = claim_lookup_source(&t->lookup);
    return t;
}

void claim_events_free(struct claim_events *t)
{
    if (t && t->call) {
        t->source.cancel(t->source.user, t->call);
    }
    free(t);
}
