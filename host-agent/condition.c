/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/condition.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "host-agent/event_body.h"
#include "kube/kube_backoff.h"
#include "loop/daemon.h"
#include "json/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_BASE_NS    NS_PER_SEC
#define RETRY_MAX_NS     (30 * NS_PER_SEC)
#define LASTING_RETRY_NS (300 * NS_PER_SEC)
#define LOG_AGAIN_NS     (60 * NS_PER_SEC)
#define LASTING_LOG_NS   (3600 * NS_PER_SEC)

enum { PATH_BYTES = 320, STATUS_BYTES = 16, REASON_BYTES = 64 };

struct condition {
    struct kube_client *client;
    char node[NAMES_K8S_NAME_BYTES];
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
    struct kube_backoff backoff;
    struct log_repeat trouble;
    struct log_repeat lasting;
    struct condition_stats stats;
};

static void step(struct condition *s, struct mono now);

static void arm(struct condition *s, struct mono due)
{
    boot_timer_arm(s->timer, due);
}

/* ---- what the Node says ---------------------------------------------------------------------- */

static void remember(struct condition *s, const char *status, const char *reason,
                     const char *message, struct wall transition)
{
    s->is_known = true;
    (void)text_copy(s->status, sizeof(s->status), status ? status : "");     /* cut: differs */
    (void)text_copy(s->reason, sizeof(s->reason), reason ? reason : "");     /* same */
    (void)text_copy(s->message, sizeof(s->message), message ? message : ""); /* same */
    s->transition = transition;
}

static void remember_node(struct condition *s, const json_t *node)
{
    const json_t *condition = event_find_condition(node);
    const char *text = json_text_get(condition, "lastTransitionTime");
    struct wall transition = {0};
    if (text && rfc3339_parse(text, strlen(text), &transition, NULL) != 0) {
        transition = (struct wall){0}; /* then it counts from our own knowledge */
    }
    remember(s, json_text_get(condition, "status"), json_text_get(condition, "reason"),
             json_text_get(condition, "message"), transition);
}

static bool says_reason(const struct condition *s)
{
    return text_equal(s->status, event_condition_status(s->verdict.state)) &&
           text_equal(s->reason, readiness_reason_name(s->verdict.reason));
}

static bool says_verdict(const struct condition *s)
{
    return says_reason(s) && text_equal(s->message, s->verdict.message);
}

/* When the next write may be. */
static struct mono not_before(const struct condition *s)
{
    int64_t gap_ns = says_reason(s) ? CONDITION_WORDS_NS : CONDITION_GAP_NS;
    return s->written_at.ns == 0 ? s->written_at : mono_add(s->written_at, gap_ns);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void try_later(struct condition *s, const char *why, int64_t wait_ns, struct mono now)
{
    s->stats.failed++;
    if (log_repeat_due(&s->trouble, now, LOG_AGAIN_NS)) {
        log_warn("condition", "setting %s on node '%s': %s, will retry%s", EVENT_CONDITION, s->node,
                 why, s->trouble.more);
    }
    arm(s, mono_add(now, wait_ns));
}

static void fail(struct condition *s, const struct kube_response *r)
{
    int64_t least_ns = mono_ns_mul(r->retry_after_ms > 0 ? r->retry_after_ms : 0, NS_PER_MS);
    s->is_known = false; /* a write that failed may have arrived */
    bool is_refused = r->http_status == 400 || r->http_status == 422;
    if (r->http_status != 403 && !is_refused) {
        try_later(s, r->message, kube_backoff_next_ns(&s->backoff, least_ns), r->received_at);
        return;
    }
    s->stats.failed++;
    /* That stays so until somebody acts. */
    if (log_repeat_due(&s->lasting, r->received_at, LASTING_LOG_NS)) {
        log_warn("condition",
                 "setting %s on node '%s': %s%s, --node-condition=off does without, will retry "
                 "every %d s%s",
                 EVENT_CONDITION, s->node, r->message,
                 is_refused ? "" : "; rbac/host-agent-node-condition.yaml gives that right",
                 (int)(LASTING_RETRY_NS / NS_PER_SEC), s->lasting.more);
    }
    arm(s, mono_add(r->received_at, LASTING_RETRY_NS));
}

static void send(struct condition *s, enum kube_method method, const char *path, const json_t *body,
                 kube_done_fn *then)
{
    struct err e = ERR_INIT;
    const struct kube_request request = {
        .method = method, .channel = KUBE_CONTROL, .path = path, .body = body};
    arm(s, MONO_NEVER); /* the answer decides what comes next */
    if (method != KUBE_GET && !body) {
        (void)err_set(&e, ERR_NOMEM, "out of memory"); /* its message is all we need */
    } else if (kube_client_start(s->client, &request, then, s, &s->call, &e) == 0) {
        return;
    }
    s->call = NULL;
    try_later(s, e.msg, kube_backoff_next_ns(&s->backoff, 0), clock_mono_now());
}

static void on_node(void *user, const struct kube_response *r)
{
    struct condition *s = user;
    s->call = NULL;
    if (r->code != 0) {
        fail(s, r);
        return;
    }
    remember_node(s, r->body);
    step(s, r->received_at);
}

static void ask_node(struct condition *s)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", s->node); /* sized for it */
    send(s, KUBE_GET, path, NULL, on_node);
}

static void on_patched(void *user, const struct kube_response *r)
{
    struct condition *s = user;
    s->call = NULL;
    if (r->code != 0) {
        fail(s, r);
        return;
    }
    s->stats.written++;
    s->written_at = r->received_at;
    remember(s, event_condition_status(s->sent.state), readiness_reason_name(s->sent.reason),
             s->sent.message, s->sent_transition);
    step(s, r->received_at);
}

static void patch_node(struct condition *s)
{
    char path[PATH_BYTES];
    bool same_status = text_equal(s->status, event_condition_status(s->verdict.state));
    s->sent = s->verdict;
    s->sent_transition = same_status && s->transition.ns != 0 ? s->transition : s->since;
    CLEANUP(json)
    json_t *patch = event_condition_patch(&s->sent, s->sent_transition, clock_wall_now());
    (void)snprintf(path, sizeof(path), "/api/v1/nodes/%s/status", s->node); /* sized for it */
    send(s, KUBE_STRATEGIC_PATCH, path, patch, on_patched);
}

/* The next thing to do, if nothing is under way. */
static void step(struct condition *s, struct mono now)
{
    if (s->call || !s->has_verdict) {
        return;
    }
    if (!s->is_known) {
        ask_node(s);
    } else if (says_verdict(s)) {
        kube_backoff_reset(&s->backoff); /* not by a read alone: writes may go on failing */
        log_repeat_reset(&s->trouble);
        arm(s, mono_add(now, CONDITION_CHECK_NS));
    } else if (mono_before(now, not_before(s))) {
        arm(s, not_before(s));
    } else {
        patch_node(s);
    }
}

static void on_timer(void *user)
{
    struct condition *s = user;
    if (s->is_known && says_verdict(s)) {
        s->is_known = false; /* at rest: time to look whether that still holds */
    }
    step(s, clock_mono_now());
}

/* ---- life ------------------------------------------------------------------------------------ */

int condition_new(struct ev_loop *loop, struct kube_client *client, const char *node,
                  struct condition **out, struct err *e)
{
    CLEANUP(free) struct condition *s = calloc(1, sizeof(*s));
    if (!s) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    s->client = client;
    if (!text_copy(s->node, sizeof(s->node), node)) {
        return err_set(e, ERR_LIMIT, "the node's name is too long");
    }
    kube_backoff_init(&s->backoff, RETRY_BASE_NS, RETRY_MAX_NS, (uint64_t)clock_wall_now().ns);
    int rc = boot_timer_new(loop, on_timer, s, &s->timer, e);
    if (rc != 0) {
        return rc;
    }
    *out = TAKE(s);
    return 0;
}

void condition_free(struct condition *s)
{
    if (s) {
        kube_call_cancel(s->call);
        boot_timer_free(s->timer);
        free(s);
    }
}

void condition_publish(struct condition *s, const struct readiness *verdict)
{
    struct mono now = clock_mono_now();
    char message[NAMES_MESSAGE_BYTES];
    bool is_first = !s->has_verdict;
    if (is_first || s->verdict.state != verdict->state) {
        s->since = verdict->transition;
    }
    text_sanitize(message, sizeof(message), verdict->message, strlen(verdict->message));
    s->verdict = *verdict;
    (void)text_copy(s->verdict.message, sizeof(s->verdict.message), message); /* same bound */
    s->has_verdict = true;
    if (is_first) {
        arm(s, mono_add(now, CONDITION_SETTLE_NS));
    } else if (s->is_known) {
        step(s, now); /* not while settling or backing off */
    }
}

struct condition_stats condition_stats(const struct condition *s)
{
    return s->stats;
}
