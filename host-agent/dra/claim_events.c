/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim_events.h"

#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "host-agent/dra/dra_health.h"
#include "host-agent/outputs/events.h"

#define ACTION "HealthChanged"

struct claim_events {
    struct claim_events_config config;
    struct stored_claim claim; /* that is looked up; a round goes through all, in their order */
    struct kube_call *call;    /* NULL: no look-up is under way */
    bool is_check;             /* it is of no round */
    bool is_anew;              /* a round starts at the first claim (again) */
    bool has_told;
    enum readiness_reason reason; /* of what is told, or was last */
    struct health_report news;
    struct wall at;
};

/* Returns the pods that have the claim, borrowed from it; NULL if none can have it, which drops it,
 * or nobody knows. */
static const json_t *pods_of(const struct claim_events *t, const struct kube_response *answer)
{
    struct err e = ERR_INIT;
    struct claim_allocation allocation;
    const struct stored_claim *c = &t->claim;
    const struct claim_ref ref = {.ns = c->ns, .uid = c->uid, .name = c->name};
    int rc = claim_read(answer, &ref, &t->config.target, &allocation, &e);
    if (rc == 0) {
        return json_object_get(json_object_get(answer->body, "status"), "reservedFor");
    }
    if (rc == ERR_NOTFOUND || rc == ERR_GONE || rc == ERR_CONFLICT) {
        log_debug("dra", "claim '%s/%s' is prepared no longer: %s", c->ns, c->name, e.msg);
        claim_store_drop(t->config.plugin_dir, c->uid);
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

static void on_claim(void *user, const struct kube_response *answer)
{
    struct claim_events *t = user;
    t->call = NULL;
    const json_t *pods = pods_of(t, answer);
    bool is_told = !t->is_check && !t->is_anew;
    for (size_t i = 0; is_told && i < json_array_size(pods); i++) {
        tell_pod(t, json_array_get(pods, i));
    }
    if (!t->is_check || t->is_anew) {
        round_go_on(t);
    }
}

static void claim_look_up(struct claim_events *t)
{
    struct err e = ERR_INIT;
    const struct claim_ref ref = {.ns = t->claim.ns, .uid = t->claim.uid, .name = t->claim.name};
    if (claim_ask(t->config.client, KUBE_ORDINARY, &ref, on_claim, t, &t->call, &e) != 0) {
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
        if (!claim_store_next(t->config.plugin_dir, t->claim.uid, &t->claim)) {
            return;
        }
        claim_look_up(t);
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
    t->news = dra_health_report(verdict);
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
        claim_look_up(t);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct claim_events *claim_events_new(const struct claim_events_config *config)
{
    struct claim_events *t = MEM_NEW(struct claim_events);
    t->config = *config;
    return t;
}

void claim_events_free(struct claim_events *t)
{
    if (t) {
        kube_call_cancel(t->call);
    }
    free(t);
}
