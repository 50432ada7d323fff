/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/events.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "host-agent/event_body.h"
#include "kube/kube_backoff.h"
#include "loop/daemon.h"
#include "json/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_BASE_NS    NS_PER_SEC
#define RETRY_MAX_NS     (30 * NS_PER_SEC)
#define LASTING_RETRY_NS (300 * NS_PER_SEC)
#define LOG_AGAIN_NS     (60 * NS_PER_SEC)
#define LASTING_LOG_NS   (3600 * NS_PER_SEC)

enum { PATH_BYTES = 640 };

struct events {
    struct kube_client *client;
    char node[NAMES_K8S_NAME_BYTES];
    struct readiness_lease lease; /* as the last verdict has it */
    struct event_plan plan;
    struct event_write write; /* the one under way */
    struct kube_call *call;   /* its request, or NULL */
    struct boot_timer *timer;
    struct kube_backoff backoff;
    struct log_repeat trouble;
    struct log_repeat lasting;
};

static void pump(struct events *s, struct mono now);

/* ---- outcomes -------------------------------------------------------------------------------- */

static void finish(struct events *s, enum event_outcome outcome, struct mono now)
{
    kube_backoff_reset(&s->backoff);
    log_repeat_reset(&s->trouble);
    event_plan_done(&s->plan, outcome, now, now);
    pump(s, now);
}

static void try_later(struct events *s, const char *why, int64_t wait_ns, struct mono now)
{
    if (log_repeat_due(&s->trouble, now, LOG_AGAIN_NS)) {
        log_warn("event", "writing an Event about node '%s': %s, will retry%s", s->node, why,
                 s->trouble.more);
    }
    event_plan_done(&s->plan, EVENT_FAILED, mono_add(now, wait_ns), now);
    pump(s, now);
}

/* A right that is missing (403), or an API (404): it stays so until somebody acts. */
static void wait_for_admin(struct events *s, const struct kube_response *r)
{
    if (log_repeat_due(&s->lasting, r->received_at, LASTING_LOG_NS)) {
        log_warn("event",
                 "writing an Event about node '%s': %s; %s, --events=off does without, will retry "
                 "every %d s%s",
                 s->node, r->message,
                 r->http_status == 403 ? "rbac/host-agent-events.yaml gives that right"
                                       : "does the server have events.k8s.io/v1?",
                 (int)(LASTING_RETRY_NS / NS_PER_SEC), s->lasting.more);
    }
    event_plan_done(&s->plan, EVENT_FAILED, mono_add(r->received_at, LASTING_RETRY_NS),
                    r->received_at);
    pump(s, r->received_at);
}

static void fail(struct events *s, const struct kube_response *r)
{
    if (r->http_status == 403 || r->http_status == 404) {
        wait_for_admin(s, r);
    } else if (r->http_status == 400 || r->http_status == 422) {
        log_warn("event", "an Event about node '%s' was refused: %s, continuing without it",
                 s->node, r->message);
        finish(s, EVENT_REFUSED, r->received_at);
    } else {
        int64_t least_ns = mono_ns_mul(r->retry_after_ms > 0 ? r->retry_after_ms : 0, NS_PER_MS);
        try_later(s, r->message, kube_backoff_next_ns(&s->backoff, least_ns), r->received_at);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void send(struct events *s, enum kube_method method, const char *path, const json_t *body,
                 kube_done_fn *then)
{
    struct err e = ERR_INIT;
    const struct kube_request request = {
        .method = method, .channel = KUBE_CONTROL, .path = path, .body = body};
    if (method != KUBE_GET && !body) {
        (void)err_set(&e, ERR_NOMEM, "out of memory"); /* its message is all we need */
    } else if (kube_client_start(s->client, &request, then, s, &s->call, &e) == 0) {
        return;
    }
    s->call = NULL;
    try_later(s, e.msg, kube_backoff_next_ns(&s->backoff, 0), clock_mono_now());
}

static void on_created(void *user, const struct kube_response *r)
{
    struct events *s = user;
    s->call = NULL;
    if (r->code == 0) {
        finish(s, EVENT_WRITTEN, r->received_at);
    } else if (r->http_status == 409 && text_equal(r->reason, "AlreadyExists")) {
        finish(s, EVENT_EXISTS, r->received_at);
    } else {
        fail(s, r);
    }
}

static void create(struct events *s, const char *node_uid)
{
    const struct event_subject subject = {
        .node_name = s->node, .node_uid = node_uid, .lease = &s->lease};
    CLEANUP(json) json_t *body = event_body(&subject, &s->write);
    send(s, KUBE_POST, "/apis/events.k8s.io/v1/namespaces/" EVENT_NAMESPACE "/events", body,
         on_created);
}

static void on_node(void *user, const struct kube_response *r)
{
    struct events *s = user;
    s->call = NULL;
    if (r->code == 0) {
        create(s, json_text_get(json_object_get(r->body, "metadata"), "uid"));
    } else if (r->http_status == 403 || r->http_status == 404) {
        create(s, NULL);
    } else {
        fail(s, r);
    }
}

static void on_updated(void *user, const struct kube_response *r)
{
    struct events *s = user;
    s->call = NULL;
    if (r->code == 0) {
        finish(s, EVENT_WRITTEN, r->received_at);
    } else if (r->http_status == 404) {
        finish(s, EVENT_GONE, r->received_at);
    } else {
        fail(s, r);
    }
}

static void start_write(struct events *s)
{
    char path[PATH_BYTES];
    char name[NAMES_K8S_NAME_BYTES];
    if (!s->write.is_update) {
        (void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", s->node); /* sized for it */
        send(s, KUBE_GET, path, NULL, on_node);
        return;
    }
    CLEANUP(json) json_t *patch = event_series_patch(&s->write);
    event_name(s->node, s->write.first, name);
    (void)snprintf(path, sizeof(path),
                   "/apis/events.k8s.io/v1/namespaces/" EVENT_NAMESPACE "/events/%s",
                   name); /* sized for it */
    send(s, KUBE_MERGE_PATCH, path, patch, on_updated);
}

/* Starts what is due and arms the timer. A request that cannot even start backs off, so this ends.
 */
static void pump(struct events *s, struct mono now)
{
    if (!s->call && event_plan_next(&s->plan, now, &s->write)) {
        start_write(s);
    }
    boot_timer_arm(s->timer, event_plan_wake_at(&s->plan, now));
}

static void on_timer(void *user)
{
    pump(user, clock_mono_now());
}

/* ---- life ------------------------------------------------------------------------------------ */

int events_new(struct ev_loop *loop, struct kube_client *client, const char *node,
               const struct readiness *carried, struct events **out, struct err *e)
{
    CLEANUP(free) struct events *s = calloc(1, sizeof(*s));
    if (!s) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    s->client = client;
    if (!text_copy(s->node, sizeof(s->node), node)) {
        return err_set(e, ERR_LIMIT, "the node's name is too long");
    }
    kube_backoff_init(&s->backoff, RETRY_BASE_NS, RETRY_MAX_NS, (uint64_t)clock_wall_now().ns);
    event_plan_init(&s->plan, carried, clock_mono_now());
    int rc = boot_timer_new(loop, on_timer, s, &s->timer, e);
    if (rc != 0) {
        return rc;
    }
    *out = TAKE(s);
    return 0;
}

void events_free(struct events *s)
{
    if (s) {
        kube_call_cancel(s->call);
        boot_timer_free(s->timer);
        free(s);
    }
}

void events_publish(struct events *s, const struct readiness *verdict)
{
    struct mono now = clock_mono_now();
    s->lease = verdict->lease;
    event_plan_change(&s->plan, verdict, now);
    pump(s, now);
}

struct event_plan_stats events_stats(const struct events *s)
{
    return s->plan.stats;
}
