/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/condition.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "loop/daemon.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_BASE_NS    NS_PER_SEC
#define RETRY_MAX_NS     (30 * NS_PER_SEC)
#define LASTING_RETRY_NS (300 * NS_PER_SEC)
#define LASTING_LOG_NS   (3600 * NS_PER_SEC)

#define CONDITION_TYPE "DPUReady"

enum { PATH_BYTES = 320, STATUS_BYTES = 16, REASON_BYTES = 64, TYPE_BYTES = 96 };

struct condition {
    struct kube_client *client;
    char node[NAMES_K8S_NAME_BYTES];
    char type[TYPE_BYTES];
    bool has_verdict;
    struct readiness verdict; /* what it has to say */
    struct wall since;        /* since when the verdict has this state */

    bool is_known; /* what the Node says is known, and is: */
    char status[STATUS_BYTES];
    char reason[REASON_BYTES];
    char message[NAMES_MESSAGE_BYTES];
    struct wall transition;

    struct kube_call *call; /* the one request under way, or NULL */
    struct wall sent_transition;
    struct readiness sent;
    struct mono written_at; /* the last write; 0: none */
    struct boot_timer *timer;
    struct backoff backoff;
    struct log_repeat trouble;
    struct log_repeat lasting;
    struct condition_stats stats;
};

static void step(struct condition *c, struct mono now);

static void arm(struct condition *c, struct mono due)
{
    boot_timer_arm(c->timer, due);
}

/* ---- what the Node says ---------------------------------------------------------------------- */

static const char *status_name(enum readiness_state state)
{
    switch (state) {
    case READINESS_READY:
        return "True";
    case READINESS_NOT_READY:
        return "False";
    case READINESS_UNKNOWN:
        break;
    }
    return "Unknown";
}

/* Borrowed from `node`; NULL if it has none. */
static const json_t *find_condition(const struct condition *c, const json_t *node)
{
    size_t i;
    json_t *condition;
    json_array_foreach(json_object_get(json_object_get(node, "status"), "conditions"), i, condition)
    {
        if (text_equal(json_text_get(condition, "type"), c->type)) {
            return condition;
        }
    }
    return NULL;
}

static void remember(struct condition *c, const char *status, const char *reason,
                     const char *message, struct wall transition)
{
    c->is_known = true;
    text_format(c->status, sizeof(c->status), "%s", status ? status : ""); /* cut: differs */
    text_format(c->reason, sizeof(c->reason), "%s", reason ? reason : "");
    text_format(c->message, sizeof(c->message), "%s", message ? message : "");
    c->transition = transition;
}

static void remember_node(struct condition *c, const json_t *node)
{
    const json_t *condition = find_condition(c, node);
    const char *text = json_text_get(condition, "lastTransitionTime");
    struct wall transition = {0};
    if (text && rfc3339_parse(text, strlen(text), &transition, NULL) != 0) {
        transition = (struct wall){0}; /* then it counts from our own knowledge */
    }
    remember(c, json_text_get(condition, "status"), json_text_get(condition, "reason"),
             json_text_get(condition, "message"), transition);
}

static bool says_reason(const struct condition *c)
{
    return text_equal(c->status, status_name(c->verdict.state)) &&
           text_equal(c->reason, readiness_reason_name(c->verdict.reason));
}

static bool says_verdict(const struct condition *c)
{
    return says_reason(c) && text_equal(c->message, c->verdict.message);
}

/* When the next write may be. */
static struct mono not_before(const struct condition *c)
{
    int64_t gap_ns = says_reason(c) ? CONDITION_WORDS_NS : CONDITION_GAP_NS;
    return c->written_at.ns == 0 ? c->written_at : mono_add(c->written_at, gap_ns);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void try_later(struct condition *c, const char *why, int64_t wait_ns, struct mono now)
{
    c->stats.failed++;
    if (log_repeat_due(&c->trouble, now, LOG_AGAIN_NS)) {
        log_warn("condition", "setting %s on node '%s': %s, will retry%s", c->type, c->node, why,
                 c->trouble.more);
    }
    arm(c, mono_add(now, wait_ns));
}

static void fail(struct condition *c, const struct kube_response *r)
{
    int64_t least_ns = mono_ns_mul(r->retry_after_ms > 0 ? r->retry_after_ms : 0, NS_PER_MS);
    c->is_known = false; /* a write that failed may have arrived */
    bool is_refused = r->http_status == 400 || r->http_status == 422;
    if (r->http_status != 403 && !is_refused) {
        try_later(c, r->message, backoff_next_ns(&c->backoff, least_ns), r->received_at);
        return;
    }
    c->stats.failed++;
    /* That stays so until somebody acts. */
    if (log_repeat_due(&c->lasting, r->received_at, LASTING_LOG_NS)) {
        log_warn("condition",
                 "setting %s on node '%s': %s%s, --node-condition=off does without, will retry "
                 "every %d s%s",
                 c->type, c->node, r->message,
                 is_refused ? "" : "; rbac/host-agent-node-condition.yaml gives that right",
                 (int)(LASTING_RETRY_NS / NS_PER_SEC), c->lasting.more);
    }
    arm(c, mono_add(r->received_at, LASTING_RETRY_NS));
}

static void send(struct condition *c, enum kube_method method, const char *path, const json_t *body,
                 kube_done_fn *then)
{
    struct err e = ERR_INIT;
    const struct kube_request request = {
        .method = method, .channel = KUBE_CONTROL, .path = path, .body = body};
    arm(c, MONO_NEVER); /* the answer decides what comes next */
    if (method != KUBE_GET && !body) {
        (void)err_no_memory(&e); /* its message is all we need */
    } else if (kube_client_start(c->client, &request, then, c, &c->call, &e) == 0) {
        return;
    }
    c->call = NULL;
    try_later(c, e.msg, backoff_next_ns(&c->backoff, 0), clock_mono_now());
}

static void on_node(void *user, const struct kube_response *r)
{
    struct condition *c = user;
    c->call = NULL;
    if (r->code != 0) {
        fail(c, r);
        return;
    }
    remember_node(c, r->body);
    step(c, r->received_at);
}

static void ask_node(struct condition *c)
{
    char path[PATH_BYTES];
    text_format(path, sizeof(path), "/api/v1/nodes/%s", c->node);
    send(c, KUBE_GET, path, NULL, on_node);
}

static void on_patched(void *user, const struct kube_response *r)
{
    struct condition *c = user;
    c->call = NULL;
    if (r->code != 0) {
        fail(c, r);
        return;
    }
    c->stats.written++;
    c->written_at = r->received_at;
    remember(c, status_name(c->sent.state), readiness_reason_name(c->sent.reason), c->sent.message,
             c->sent_transition);
    step(c, r->received_at);
}

/* A strategic merge patch: our condition alone, whatever others there are. Owned; NULL when out of
 * memory. */
static json_t *make_patch(const struct condition *c, struct wall now)
{
    char written[RFC3339_BYTES];
    char changed[RFC3339_BYTES];
    rfc3339_format_seconds(now, written);
    rfc3339_format_seconds(c->sent_transition, changed);
    return json_pack("{s:{s:[{s:s, s:s, s:s, s:s, s:s, s:s}]}}", "status", "conditions", "type",
                     c->type, "status", status_name(c->sent.state), "reason",
                     readiness_reason_name(c->sent.reason), "message", c->sent.message,
                     "lastHeartbeatTime", written, "lastTransitionTime", changed);
}

static void patch_node(struct condition *c)
{
    char path[PATH_BYTES];
    bool same_status = text_equal(c->status, status_name(c->verdict.state));
    c->sent = c->verdict;
    c->sent_transition = same_status && c->transition.ns != 0 ? c->transition : c->since;
    CLEANUP(json)
    json_t *patch = make_patch(c, clock_wall_now());
    text_format(path, sizeof(path), "/api/v1/nodes/%s/status", c->node);
    send(c, KUBE_STRATEGIC_PATCH, path, patch, on_patched);
}

/* The next thing to do, if nothing is under way. */
static void step(struct condition *c, struct mono now)
{
    if (c->call || !c->has_verdict) {
        return;
    }
    if (!c->is_known) {
        ask_node(c);
    } else if (says_verdict(c)) {
        backoff_reset(&c->backoff); /* not by a read alone: writes may go on failing */
        log_repeat_reset(&c->trouble);
        arm(c, mono_add(now, CONDITION_CHECK_NS));
    } else if (mono_before(now, not_before(c))) {
        arm(c, not_before(c));
    } else {
        patch_node(c);
    }
}

static void on_timer(void *user)
{
    struct condition *c = user;
    if (c->is_known && says_verdict(c)) {
        c->is_known = false; /* at rest: time to look whether that still holds */
    }
    step(c, clock_mono_now());
}

/* ---- life ------------------------------------------------------------------------------------ */

int condition_new(const struct condition_config *config, struct condition **out, struct err *e)
{
    bool is_first = text_equal(config->driver, NAMES_DRA_DRIVER);
    CLEANUP(free) struct condition *c = calloc(1, sizeof(*c));
    if (!c) {
        return err_no_memory(e);
    }
    c->client = config->client;
    if (!text_copy(c->node, sizeof(c->node), config->node)) {
        return err_set(e, ERR_LIMIT, "the node's name is too long");
    }
    text_format(c->type, sizeof(c->type), "%s%s" CONDITION_TYPE, is_first ? "" : config->driver,
                is_first ? "" : "/"); /* a driver has 63 bytes */
    backoff_init(&c->backoff, RETRY_BASE_NS, RETRY_MAX_NS, (uint64_t)clock_wall_now().ns);
    c->timer = boot_timer_new(config->loop, on_timer, c);
    *out = TAKE(c);
    return 0;
}

void condition_free(struct condition *c)
{
    if (c) {
        kube_call_cancel(c->call);
        boot_timer_free(c->timer);
        free(c);
    }
}

void condition_publish(struct condition *c, const struct readiness *verdict)
{
    struct mono now = clock_mono_now();
    char message[NAMES_MESSAGE_BYTES];
    bool is_first = !c->has_verdict;
    if (is_first || c->verdict.state != verdict->state) {
        c->since = verdict->transition;
    }
    text_sanitize(message, sizeof(message), verdict->message, strlen(verdict->message));
    c->verdict = *verdict;
    text_format(c->verdict.message, sizeof(c->verdict.message), "%s", message);
    c->has_verdict = true;
    if (is_first) {
        arm(c, mono_add(now, CONDITION_SETTLE_NS));
    } else if (c->is_known) {
        step(c, now); /* not while settling or backing off */
    }
}

struct condition_stats condition_stats(const struct condition *c)
{
    return c->stats;
}
