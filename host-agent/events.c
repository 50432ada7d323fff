/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/events.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "host-agent/event_body.h"
#include "loop/daemon.h"

#include <stdlib.h>

#define RETRY_BASE_NS    NS_PER_SEC
#define RETRY_MAX_NS     (30 * NS_PER_SEC)
#define LASTING_RETRY_NS (300 * NS_PER_SEC)
#define LASTING_LOG_NS   (3600 * NS_PER_SEC)

struct events {
    struct kube_client *client;
    char node[NAMES_K8S_NAME_BYTES];
    struct readiness_lease lease; /* as the last verdict has it */
    struct event_plan plan;
    struct kube_call *call; /* the request under way, or NULL */
    struct boot_timer *timer;
    struct backoff backoff;
    struct log_repeat trouble;
    struct log_repeat lasting;
    events_written_fn *written; /* NULL: nobody is told */
    void *user;
};

static void pump(struct events *x, struct mono now);

/* ---- outcomes -------------------------------------------------------------------------------- */

static void finish(struct events *x, enum event_outcome outcome, struct mono now)
{
    backoff_reset(&x->backoff);
    log_repeat_reset(&x->trouble);
    event_plan_done(&x->plan, outcome, now);
    pump(x, now);
}

static void try_later(struct events *x, const char *why, int64_t wait_ns, struct mono now)
{
    if (log_repeat_due(&x->trouble, now, LOG_AGAIN_NS)) {
        log_warn("event", "writing an Event about node '%s': %s, will retry%s", x->node, why,
                 x->trouble.more);
    }
    event_plan_done(&x->plan, EVENT_FAILED, mono_add(now, wait_ns));
    pump(x, now);
}

/* A right that is missing (403), or an API (404): it stays so until somebody acts. */
static void wait_for_admin(struct events *x, const struct kube_response *r)
{
    if (log_repeat_due(&x->lasting, r->received_at, LASTING_LOG_NS)) {
        log_warn("event",
                 "writing an Event about node '%s': %s; %s, --events=off does without, will retry "
                 "every %d s%s",
                 x->node, r->message,
                 r->http_status == 403 ? "rbac/host-agent-events.yaml gives that right"
                                       : "does the server have events.k8s.io/v1?",
                 (int)(LASTING_RETRY_NS / NS_PER_SEC), x->lasting.more);
    }
    event_plan_done(&x->plan, EVENT_FAILED, mono_add(r->received_at, LASTING_RETRY_NS));
    pump(x, r->received_at);
}

static void fail(struct events *x, const struct kube_response *r)
{
    if (r->http_status == 403 || r->http_status == 404) {
        wait_for_admin(x, r);
    } else if (r->http_status == 400 || r->http_status == 422) {
        log_warn("event", "an Event about node '%s' was refused: %s, continuing without it",
                 x->node, r->message);
        finish(x, EVENT_REFUSED, r->received_at);
    } else {
        int64_t least_ns = mono_ns_mul(r->retry_after_ms > 0 ? r->retry_after_ms : 0, NS_PER_MS);
        try_later(x, r->message, backoff_next_ns(&x->backoff, least_ns), r->received_at);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void on_created(void *user, const struct kube_response *r)
{
    struct events *x = user;
    x->call = NULL;
    if (r->code == 0 || (r->http_status == 409 && text_equal(r->reason, "AlreadyExists"))) {
        if (x->written) {
            x->written(x->user, &x->plan.change);
        }
        finish(x, EVENT_WRITTEN, r->received_at); /* if it exists, an earlier try did arrive */
    } else {
        fail(x, r);
    }
}

static void create(struct events *x, const struct event_change *change)
{
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *body = event_body(x->node, &x->lease, change);
    const struct kube_request request = {
        .method = KUBE_POST,
        .channel = KUBE_CONTROL,
        .path = "/apis/events.k8s.io/v1/namespaces/" EVENT_NAMESPACE "/events",
        .body = body};
    if (!body) {
        (void)err_no_memory(&e); /* its message is all we need */
    } else if (kube_client_start(x->client, &request, on_created, x, &x->call, &e) == 0) {
        return;
    }
    x->call = NULL;
    try_later(x, e.msg, backoff_next_ns(&x->backoff, 0), clock_mono_now());
}

/* Starts what is due and arms the timer. A request that cannot even start backs off, so this ends.
 */
static void pump(struct events *x, struct mono now)
{
    const struct event_change *change = event_plan_next(&x->plan, now); /* none while one is sent */
    if (change) {
        create(x, change);
    }
    boot_timer_arm(x->timer, event_plan_wake_at(&x->plan, now));
}

static void on_timer(void *user)
{
    pump(user, clock_mono_now());
}

/* ---- life ------------------------------------------------------------------------------------ */

int events_new(struct ev_loop *loop, struct kube_client *client, const char *node,
               const struct readiness *carried, struct events **out, struct err *e)
{
    CLEANUP(free) struct events *x = calloc(1, sizeof(*x));
    if (!x) {
        return err_no_memory(e);
    }
    x->client = client;
    if (!text_copy(x->node, sizeof(x->node), node)) {
        return err_set(e, ERR_LIMIT, "the node's name is too long");
    }
    backoff_init(&x->backoff, RETRY_BASE_NS, RETRY_MAX_NS, (uint64_t)clock_wall_now().ns);
    event_plan_init(&x->plan, carried, clock_mono_now());
    x->timer = boot_timer_new(loop, on_timer, x);
    *out = TAKE(x);
    return 0;
}

void events_free(struct events *x)
{
    if (x) {
        kube_call_cancel(x->call);
        boot_timer_free(x->timer);
        free(x);
    }
}

void events_on_written(struct events *x, events_written_fn *written, void *user)
{
    x->written = written;
    x->user = user;
}

void events_publish(struct events *x, const struct readiness *verdict)
{
    struct mono now = clock_mono_now();
    x->lease = verdict->lease;
    event_plan_change(&x->plan, verdict, now);
    pump(x, now);
}

void events_tell_reboot(struct events *x, struct wall at)
{
    event_plan_reboot(&x->plan, at);
    pump(x, clock_mono_now());
}

struct event_plan_stats events_stats(const struct events *x)
{
    return x->plan.stats;
}
