/* SPDX-License-Identifier: Apache-2.0 */
#include "outputs/events.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "loop/daemon.h"

#include <inttypes.h>
#include <string.h>

#define MOD "event"

#define RETRY_BASE_NS    NS_PER_SEC
#define RETRY_MAX_NS     (30 * NS_PER_SEC)
#define LASTING_RETRY_NS (300 * NS_PER_SEC)
#define BUCKET_NS        (EVENT_BURST * EVENT_REFILL_NS)

enum {
    PATH_BYTES = 512,
    NAME_BYTES = NAMES_K8S_NAME_BYTES,
    SUFFIX_BYTES = 18,    /* of a name: a dot, 16 hexadecimal digits and the terminator */
    INSTANCE_BYTES = 129, /* reportingInstance: 128 and the terminator */
    NOTE_BYTES = 1025,    /* what the API server takes, and the terminator */
};

struct events {
    struct kube_client *client;
    const char *node;
    const char *pods_reporter; /* NULL: we write of the Node; else of pods only, in that name */
    struct readiness current;  /* the last change that was taken in */
    bool has_current;
    struct readiness waiting; /* the last verdict */
    struct mono tell_at;      /* when it is taken in; MONO_NEVER: there was none yet */
    struct event
        *queue[EVENT_NODE_QUEUE + EVENT_POD_QUEUE]; /* owned; the Node's before the pods' */
    size_t count;
    size_t node_count;
    uint64_t left_out;      /* changes since the one that was begun last */
    struct mono full_at;    /* when the bucket is full again */
    struct event *begun;    /* about the Node: it is under way, or to be tried again; or NULL */
    struct mono try_at;     /* of that: backing off until then */
    struct event *sent;     /* it is under way: the one that was begun, or a pod's */
    struct kube_call *call; /* with it */
    struct boot_timer *timer;
    struct backoff backoff;
    struct log_repeat trouble;
    struct log_repeat lasting;
    struct log_repeat pod_trouble;
    events_written_fn *written; /* NULL: nobody is told */
    void *user;
    struct event_stats stats;
};

static void events_pump(struct events *x, struct mono now);

static bool is_about_pod(const struct event *event)
{
    return event->pod[0] != '\0';
}

/* ---- the queue ------------------------------------------------------------------------------- */

static void queue_insert(struct events *x, size_t at, const struct event *event)
{
    struct event *copy = mem_alloc(sizeof(*copy));
    *copy = *event;
    memmove(&x->queue[at + 1], &x->queue[at], (x->count - at) * sizeof(x->queue[0]));
    x->queue[at] = copy;
    x->count++;
    x->node_count += !is_about_pod(event);
}

static struct event *queue_take(struct events *x, size_t at)
{
    struct event *event = x->queue[at];
    x->count--;
    x->node_count -= !is_about_pod(event);
    memmove(&x->queue[at], &x->queue[at + 1], (x->count - at) * sizeof(x->queue[0]));
    return event;
}

static void event_free(struct event *event)
{
    free(event ? event->change : NULL);
    free(event);
}

static void leave_out(struct events *x, struct event *event)
{
    x->left_out += event->left_out + 1;
    x->stats.suppressed++;
    event_free(event);
}

static void queue_node_event(struct events *x, const struct event *event)
{
    if (x->node_count == EVENT_NODE_QUEUE) {
        leave_out(x, queue_take(x, 0));
    }
    queue_insert(x, x->node_count, event);
}

void events_tell_pod(struct events *x, const struct event *event)
{
    if (x->count - x->node_count < EVENT_POD_QUEUE) {
        queue_insert(x, x->count, event);
        events_pump(x, clock_mono_now());
    }
}

void events_withdraw(struct events *x, const char *action)
{
    for (size_t i = x->count; i-- > x->node_count;) {
        if (text_equal(x->queue[i]->action, action)) {
            event_free(queue_take(x, i));
        }
    }
}

/* ---- changes of readiness -------------------------------------------------------------------- */

static void take_change(struct events *x, const struct readiness *v)
{
    const struct readiness *old = &x->current;
    if (x->has_current && old->state == v->state && old->reason == v->reason &&
        old->admit == v->admit) {
        return;
    }
    struct event e = {.at = v->transition,
                      .key = (uint64_t)v->transition.ns,
                      .action = "ReadinessChanged",
                      .reason = readiness_reason_name(v->reason),
                      .is_warning = v->state != READINESS_READY,
                      .change = MEM_NEW(struct readiness)};
    *e.change = *v;
    text_sanitize(e.note, sizeof(e.note), v->message, strlen(v->message));
    x->has_current = true;
    x->current = *v;
    queue_node_event(x, &e);
}

static void settle(struct events *x, struct mono now)
{
    if (mono_reached(now, x->tell_at)) {
        take_change(x, &x->waiting);
    }
}

void events_begin(struct events *x, const struct readiness *carried)
{
    if (carried) {
        x->has_current = true;
        x->current = *carried;
    }
}

void events_publish(struct events *x, const struct readiness *verdict)
{
    struct mono now = clock_mono_now();
    settle(x, now); /* the one before, if the timer is late */
    bool is_first = mono_is_never(x->tell_at);
    if (verdict->state != READINESS_UNKNOWN) {
        x->tell_at = now;
    } else if (is_first || x->waiting.state != READINESS_UNKNOWN) {
        x->tell_at = mono_add(now, EVENT_UNKNOWN_NS);
    }
    x->waiting = *verdict;
    events_pump(x, now);
}

void events_tell_node(struct events *x, const struct event *event)
{
    queue_node_event(x, event);
    events_pump(x, clock_mono_now());
}

void events_tell_reboot(struct events *x, struct wall at)
{
    const struct event e = {
        .at = at,
        .key = (uint64_t)at.ns,
        .action = "RebootNoticed",
        .reason = "DPURebooted",
        .is_warning = true,
        .note = "the DPU has rebooted: another boot of it renews the lease; Pods with its "
                "functions may have lost their network, check those older than the reboot"};
    events_tell_node(x, &e);
}

/* ---- the body -------------------------------------------------------------------------------- */

/* "<subject>.<key>". A subject that is too long is cut, to what still is a name. */
static void event_name(const char *subject, uint64_t key, char out[static NAME_BYTES])
{
    text_format(out, NAME_BYTES - SUFFIX_BYTES, "%s", subject);
    size_t len = strlen(out);
    while (len > 0 && (out[len - 1] == '.' || out[len - 1] == '-')) {
        len--;
    }
    text_format(out + len, SUFFIX_BYTES, ".%" PRIx64, key);
}

/* NULL for no lease too. */
static json_t *lease_reference(const struct readiness_lease *lease)
{
    return text_is_empty(lease->name)
               ? NULL
               : json_pack("{s:s, s:s, s:s, s:s, s:s*}", "apiVersion", "coordination.k8s.io/v1",
                           "kind", "Lease", "namespace", lease->ns, "name", lease->name, "uid",
                           text_is_empty(lease->uid) ? NULL : lease->uid);
}

/* The message; for a state that can be either way, which of both it is; what to do; and what went
 * before. */
static void event_note(const struct event *event, char out[static NOTE_BYTES])
{
    char before[80] = "";
    const char *more = "";
    const char *cure = NULL;
    if (event->change && event->change->state != READINESS_READY) {
        cure = readiness_reason_traits(event->change->reason)->fix;
    }
    if (event->change && event->change->state == READINESS_UNKNOWN) {
        more = event->change->admit ? "; new Pods are admitted" : "; new Pods are rejected";
    }
    if (event->left_out > 0) {
        text_format(before, sizeof(before), "; earlier changes without an Event: %" PRIu64,
                    event->left_out);
    }
    text_format(out, NOTE_BYTES, "%s%s%s%s%s", event->note, more, cure ? ". Next step: " : "",
                cure ? cure : "", before);
}

/* As in a kubelet's Events the Node's name stands in for its UID: kubectl looks for either. An
 * Event about a Node, which has no namespace, lives in "default" (the server's
 * pkg/apis/core/validation/events.go). Returns owned. */
static json_t *event_body(const struct events *x, const struct event *event)
{
    char name[NAME_BYTES];
    char instance[INSTANCE_BYTES];
    char note[NOTE_BYTES];
    bool is_pods = is_about_pod(event);
    const char *subject = is_pods ? event->pod : x->node;
    event_name(subject, event->key, name);
    text_format(instance, sizeof(instance), "%s", x->node); /* cut to what is allowed */
    event_note(event, note);
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
        "s:{s:s, s:s, s:s*, s:s, s:s}, s:o*}",
        "apiVersion", "events.k8s.io/v1", "kind", "Event", "metadata", "name", name, "namespace",
        is_pods ? event->ns : "default", "eventTime", rfc3339_text(event->at, true).text,
        "reportingController", x->pods_reporter ? x->pods_reporter : "dpu-host-agent",
        "reportingInstance", instance, "action", event->action, "reason", event->reason, "type",
        event->is_warning ? "Warning" : "Normal", "note", note, "regarding", "apiVersion", "v1",
        "kind", is_pods ? "Pod" : "Node", "namespace", is_pods ? event->ns : NULL, "name", subject,
        "uid", is_pods ? event->uid : x->node, "related",
        is_pods ? NULL : lease_reference(&x->waiting.lease));
}

/* ---- outcomes -------------------------------------------------------------------------------- */

static void try_later(struct events *x, const struct kube_response *r)
{
    log_limited(&x->trouble, LOG_AGAIN_NS, LOG_WARN, MOD,
                "writing an Event about node '%s': %s, will retry", x->node, r->message);
    x->try_at = mono_add(r->received_at, backoff_next_ns(&x->backoff, r->retry_after_ns));
}

/* A right that is missing (403), or an API (404): it stays so until somebody acts. */
static void wait_for_admin(struct events *x, const struct kube_response *r)
{
    log_limited(
        &x->lasting, LOG_SELDOM_NS, LOG_WARN, MOD,
        "writing an Event about node '%s': %s; %s, or set --events=off; will retry every %d s",
        x->node, r->message,
        r->http_status == 403 ? "apply rbac/host-agent-events.yaml"
                              : "check that the API server serves events.k8s.io/v1",
        (int)(LASTING_RETRY_NS / NS_PER_SEC));
    x->try_at = mono_add(r->received_at, LASTING_RETRY_NS);
}

static struct event *end_begun(struct events *x)
{
    backoff_reset(&x->backoff);
    log_repeat_reset(&x->trouble);
    return TAKE(x->begun);
}

/* Takes it. Who waits for its change is told. */
static void end_change(struct events *x, struct event *event)
{
    if (x->written && event->change) {
        x->written(x->user, event->change);
    }
    event_free(event);
}

/* If it exists, an earlier try did arrive. */
static bool is_written(const struct kube_response *r)
{
    return r->code == 0 || (r->http_status == 409 && text_equal(r->reason, "AlreadyExists"));
}

static void end_node_event(struct events *x, const struct kube_response *r)
{
    if (is_written(r)) {
        x->stats.created++;
        end_change(x, end_begun(x));
        return;
    }
    x->stats.failed++;
    if (r->http_status == 403 || r->http_status == 404) {
        wait_for_admin(x, r);
    } else if (r->http_status == 400 || r->http_status == 422) {
        log_warn(MOD, "the API server rejected an Event about node '%s': %s, continuing without it",
                 x->node, r->message);
        leave_out(x, end_begun(x));
    } else {
        try_later(x, r);
    }
}

static void end_pod_event(struct events *x, struct event *event, const struct kube_response *r)
{
    if (!is_written(r)) {
        log_limited(&x->pod_trouble, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "writing an Event about Pod '%s/%s': %s%s%s", event->ns, event->pod, r->message,
                    r->http_status == 403 ? "; apply rbac/" : "",
                    r->http_status == 403 ? event->rights : "");
    }
    event_free(event);
}

static void on_created(void *user, const struct kube_response *r)
{
    struct events *x = user;
    struct event *event = TAKE(x->sent);
    x->call = NULL;
    if (event == x->begun) {
        end_node_event(x, r);
    } else {
        end_pod_event(x, event, r);
    }
    events_pump(x, r->received_at);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* When a token is there: the bucket holds a burst of them. */
static struct mono token_at(const struct events *x)
{
    return mono_add(x->full_at, EVENT_REFILL_NS - BUCKET_NS);
}

/* The next one about the Node, for its token. */
static struct event *take_node_event(struct events *x, struct mono now)
{
    x->full_at = mono_add(mono_max(x->full_at, now), EVENT_REFILL_NS);
    return queue_take(x, 0);
}

/* The Event to write now, NULL if none. A retry costs no token: it has a pace of its own. */
static struct event *next_event(struct events *x, struct mono now)
{
    if (x->node_count > 0 && !x->begun && mono_reached(now, token_at(x))) {
        x->begun = take_node_event(x, now);
        x->begun->left_out = x->left_out;
        x->left_out = 0;
    }
    if (x->begun && mono_reached(now, x->try_at)) {
        return x->begun;
    }
    return x->count > x->node_count ? queue_take(x, x->node_count) : NULL;
}

static void send_event(struct events *x, struct event *event)
{
    char path[PATH_BYTES];
    CLEANUP(json) json_t *body = event_body(x, event);
    text_format(path, sizeof(path), "/apis/events.k8s.io/v1/namespaces/%s/events",
                is_about_pod(event) ? event->ns : "default");
    const struct kube_request request = {
        .method = KUBE_POST, .channel = KUBE_CONTROL, .path = path, .body = body};
    x->sent = event;
    x->call = kube_client_start(x->client, &request, on_created, x);
}

/* The pods hear of a change at the pace of the Events about the Node that we do not write. */
static void pass_changes_on(struct events *x, struct mono now)
{
    while (x->pods_reporter && x->node_count > 0 && mono_reached(now, token_at(x))) {
        end_change(x, take_node_event(x, now));
    }
}

/* Starts what is due and arms the timer. */
static void events_pump(struct events *x, struct mono now)
{
    struct event *event = NULL;
    struct mono wake_at = MONO_NEVER;
    settle(x, now);
    pass_changes_on(x, now);
    if (!x->sent && (event = next_event(x, now)) != NULL) {
        send_event(x, event);
    }
    if (!x->sent && x->begun) {
        wake_at = x->try_at;
    } else if (!x->sent && x->node_count > 0) {
        wake_at = token_at(x);
    }
    if (mono_before(now, x->tell_at)) {
        wake_at = mono_min(wake_at, x->tell_at);
    }
    boot_timer_arm(x->timer, wake_at);
}

static void on_timer(void *user)
{
    events_pump(user, clock_mono_now());
}

/* ---- life ------------------------------------------------------------------------------------ */

struct events *events_new(struct ev_loop *loop, struct kube_client *client, const char *node)
{
    struct events *x = MEM_NEW(struct events);
    x->client = client;
    x->node = node;
    x->tell_at = MONO_NEVER;
    backoff_init(&x->backoff, RETRY_BASE_NS, RETRY_MAX_NS, (uint64_t)clock_wall_now().ns);
    x->timer = boot_timer_new(loop, on_timer, x);
    return x;
}

void events_free(struct events *x)
{
    if (!x) {
        return;
    }
    kube_call_cancel(x->call);
    boot_timer_free(x->timer);
    if (x->sent != x->begun) {
        event_free(x->sent);
    }
    event_free(x->begun);
    while (x->count > 0) {
        event_free(queue_take(x, 0));
    }
    free(x);
}

void events_about_pods_only(struct events *x, const char *reporter)
{
    x->pods_reporter = reporter;
}

void events_on_written(struct events *x, events_written_fn *written, void *user)
{
    x->written = written;
    x->user = user;
}

const struct event_stats *events_stats(const struct events *x)
{
    return &x->stats;
}
