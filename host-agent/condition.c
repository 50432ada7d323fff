/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/condition.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct condition {
    struct kube_sync *sync;
    char *type;
    bool is_firm;
    struct readiness verdict; /* what it has to say */
};

static const char *condition_status(const struct condition *c)
{
    static const char *const names[] = {[READINESS_READY] = "True",
                                        [READINESS_NOT_READY] = "False",
                                        [READINESS_UNKNOWN] = "Unknown"};
    enum readiness_state admitted = c->verdict.admit ? READINESS_READY : READINESS_NOT_READY;
    return names[c->is_firm ? admitted : c->verdict.state];
}

static json_t *pick_condition(void *user, json_t *node)
{
    const struct condition *c = user;
    const json_t *status = json_object_get(node, "status");
    return json_text_find(json_object_get(status, "conditions"), "type", c->type);
}

/* Since when it has this status: what the Node says where that is the same. */
static struct wall condition_since(const struct condition *c, const json_t *existing)
{
    struct wall since;
    const char *text = json_text_get(existing, "lastTransitionTime");
    bool is_same = text_equal(json_text_get(existing, "status"), condition_status(c));
    if (is_same && text && rfc3339_parse(text, strlen(text), &since, NULL) == 0) {
        return since;
    }
    return c->verdict.transition;
}

/* A strategic merge patch: our condition alone, whatever others there are. */
static void desired_condition(void *user, const json_t *existing, const char *uid,
                              struct kube_sync_want *out)
{
    const struct condition *c = user;
    const char *status = condition_status(c);
    const char *reason = readiness_reason_name(c->verdict.reason);
    bool says_reason = text_equal(json_text_get(existing, "status"), status) &&
                       text_equal(json_text_get(existing, "reason"), reason);
    if (says_reason && text_equal(json_text_get(existing, "message"), c->verdict.message)) {
        return;
    }
    out->gap_ns = says_reason ? CONDITION_WORDS_NS : CONDITION_GAP_NS;
    out->body =
        json_pack("{s:{s:[{s:s, s:s, s:s, s:s, s:s, s:s}]}}", "status", "conditions", "type",
                  c->type, "status", status, "reason", reason, "message", c->verdict.message,
                  "lastHeartbeatTime", rfc3339_text(clock_wall_now(), false).text,
                  "lastTransitionTime", rfc3339_text(condition_since(c, existing), false).text);
}

struct condition *condition_new(struct ev_loop *loop, struct kube_client *client, const char *node,
                                const char *dpu, bool is_firm)
{
    struct condition *c = MEM_NEW(struct condition);
    c->is_firm = is_firm;
    c->type = text_is_empty(dpu) ? mem_strdup("DPUReady")
                                 : mem_format("%s." NAMES_DRA_DRIVER "/DPUReady", dpu);
    const struct kube_sync_pace rarely = {.base_ns = CONDITION_CHECK_NS,
                                          .max_ns = CONDITION_CHECK_NS};
    c->sync = kube_sync_new(&(struct kube_sync_config){
        .loop = loop,
        .client = client,
        .mod = "condition",
        .what = mem_format("%s on Node '%s'", c->type, node),
        .collection = mem_strdup(KUBE_NODES),
        .name = node,
        .part = "status",
        .settle_ns = CONDITION_SETTLE_NS,
        .check_ns = CONDITION_CHECK_NS,
        .retry_ns = NS_PER_SEC,
        .retry_max_ns = 30 * NS_PER_SEC,
        .denied_retry_ns = 300 * NS_PER_SEC,
        .denied_advice = "; apply rbac/host-agent-node-condition.yaml, or set --node-condition=off",
        .repair = rarely,
        .create = rarely,
        .desired = desired_condition,
        .pick = pick_condition,
        .user = c,
    });
    return c;
}

void condition_free(struct condition *c)
{
    if (c) {
        kube_sync_free(c->sync);
        free(c->type);
        free(c);
    }
}

void condition_publish(struct condition *c, const struct readiness *verdict)
{
    c->verdict = *verdict;
    text_sanitize(c->verdict.message, sizeof(c->verdict.message), verdict->message,
                  strlen(verdict->message));
    kube_sync_changed(c->sync);
}

const struct kube_sync_stats *condition_stats(const struct condition *c)
{
    return kube_sync_stats(c->sync);
}
