/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/reset/pod_teller.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/kube_event.h"
#include "json/json_text.h"

#include <stdlib.h>
#include <string.h>

enum {
    PATH_BYTES = 2048,
    PAGE_PODS = 32,
    PAGES_MAX = 64,
};

struct job {
    struct cri_sandbox sandbox;
    const char *reason;
    struct wall at;
    char note[POD_TELLER_NOTE_BYTES];
};

struct pod_teller {
    struct pod_teller_config config;
    struct job queue[POD_TELLER_QUEUE]; /* a ring; the first is under way with `event` */
    size_t first;
    size_t count;
    struct kube_call *event;
    struct kube_call *list;
    size_t pages; /* of it, so far */
    struct mono ask_again;
    struct log_repeat trouble;
};

static void start_next(struct pod_teller *t);

static struct job *first_of(struct pod_teller *t)
{
    return &t->queue[t->first];
}

static void end_first(struct pod_teller *t)
{
    t->first = (t->first + 1) % POD_TELLER_QUEUE;
    t->count--;
    start_next(t);
}

static void complain(struct pod_teller *t, const char *what, const struct kube_response *r)
{
    if (log_repeat_due(&t->trouble, r->received_at, LOG_AGAIN_NS)) {
        log_warn("reset", "%s: %s%s%s", what, r->message,
                 r->http_status == 403 ? "; rbac/host-agent-pods.yaml gives that right" : "",
                 t->trouble.more);
    }
}

/* ---- policy ---------------------------------------------------------------------------------- */

/* The pod of this sandbox, and not a later one of its name. A static pod is known to the API server
 * by a mirror, which carries the pod's own uid as an annotation. */
static bool is_same_pod(const json_t *pod, const struct cri_sandbox *sandbox)
{
    const json_t *metadata = json_object_get(pod, "metadata");
    const json_t *annotations = json_object_get(metadata, "annotations");
    return text_equal(json_text_get(metadata, "uid"), sandbox->uid) ||
           text_equal(json_text_get(annotations, "kubernetes.io/config.hash"), sandbox->uid);
}

static enum reset_policy policy_of(const json_t *pod)
{
    const char *phase = json_text_get(json_object_get(pod, "status"), "phase");
    const char *policy = json_text_get(json_object_get(pod, "spec"), "restartPolicy");
    bool is_ending = json_object_get(json_object_get(pod, "metadata"), "deletionTimestamp") != NULL;
    bool runs = text_equal(phase, "Running") || text_equal(phase, "Pending");
    if (is_ending || !runs) {
        return RESET_POLICY_UNKNOWN;
    }
    if (text_equal(policy, "Always") || text_equal(policy, "OnFailure")) {
        return RESET_POLICY_RESTARTS;
    }
    return text_equal(policy, "Never") ? RESET_POLICY_NEVER : RESET_POLICY_UNKNOWN;
}

enum reset_policy pod_teller_policy(const json_t *pods, const struct cri_sandbox *sandbox)
{
    size_t i;
    const json_t *pod;
    json_array_foreach(json_object_get(pods, "items"), i, pod)
    {
        if (is_same_pod(pod, sandbox)) {
            return policy_of(pod);
        }
    }
    return RESET_POLICY_UNKNOWN;
}

static void on_page(void *user, const struct kube_response *r);

/* Urgent, and so not behind the Events: it has a pace of its own. In pages, for a pod may be large
 * and there may be hundreds. */
static void ask_page(struct pod_teller *t, const char *token)
{
    char path[PATH_BYTES];
    struct err e = ERR_INIT;
    text_format(path, sizeof(path), "/api/v1/pods?fieldSelector=spec.nodeName%%3D%s&limit=%d%s%s",
                t->config.node, (int)PAGE_PODS, token ? "&continue=" : "", token ? token : "");
    const struct kube_request request = {
        .method = KUBE_GET, .channel = KUBE_CONTROL, .priority = KUBE_URGENT, .path = path};
    if (kube_client_start(t->config.client, &request, on_page, t, &t->list, &e) != 0) {
        t->list = NULL;
        log_debug("reset", "listing the pods of this node: %s", e.msg);
    }
}

/* The token of the page that follows; NULL: none, or not one that can stand in a path. */
static const char *next_page(const json_t *list)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=";
    const char *token = json_text_get(json_object_get(list, "metadata"), "continue");
    bool is_usable = !text_is_empty(token) && strlen(token) < PATH_BYTES / 2 &&
                     token[strspn(token, allowed)] == '\0';
    return is_usable ? token : NULL;
}

static void on_page(void *user, const struct kube_response *r)
{
    struct pod_teller *t = user;
    t->list = NULL;
    if (r->code != 0) {
        t->ask_again = mono_add(r->received_at, POD_TELLER_AGAIN_NS);
        complain(t, "listing the pods of this node", r);
        return;
    }
    t->config.on_pods(t->config.user, r->body);
    const char *token = next_page(r->body);
    if (token && ++t->pages < PAGES_MAX) {
        ask_page(t, token);
    }
}

void pod_teller_ask(struct pod_teller *t, struct mono now)
{
    if (!t->list && mono_reached(now, t->ask_again)) {
        t->ask_again = mono_add(now, POD_TELLER_ASK_NS);
        t->pages = 0;
        ask_page(t, NULL);
    }
}

/* ---- Events ---------------------------------------------------------------------------------- */

static json_t *event_of(const struct pod_teller *t, const struct job *job)
{
    const struct cri_sandbox *s = &job->sandbox;
    char suffix[KUBE_EVENT_SUFFIX_BYTES];
    bool is_lost = text_equal(job->reason, POD_TELLER_LOST);
    text_format(suffix, sizeof(suffix), "%08x%08x", crc32c_compute(s->id, strlen(s->id)),
                crc32c_compute(job->reason, strlen(job->reason)));
    const struct kube_pod_event event = {
        .node = t->config.node,
        .ns = s->ns,
        .pod = s->name,
        .uid = s->uid,
        .suffix = suffix,
        .at = job->at,
        .action = is_lost ? "NetworkLost" : "SandboxStopped",
        .reason = job->reason,
        .note = job->note,
        .is_warning = is_lost,
    };
    return kube_pod_event(&event);
}

static void on_event(void *user, const struct kube_response *r)
{
    struct pod_teller *t = user;
    t->event = NULL;
    if (r->code != 0 && !text_equal(r->reason, "AlreadyExists")) {
        complain(t, "writing an Event about a pod", r);
    }
    end_first(t);
}

/* ---- the queue ------------------------------------------------------------------------------- */

static int start(struct pod_teller *t, const struct job *job, struct err *e)
{
    char path[PATH_BYTES];
    text_format(path, sizeof(path), "/apis/events.k8s.io/v1/namespaces/%s/events", job->sandbox.ns);
    CLEANUP(json) json_t *body = event_of(t, job);
    if (!body) {
        return err_set(e, ERR_NOMEM, "out of memory for an Event");
    }
    const struct kube_request request = {
        .method = KUBE_POST, .channel = KUBE_CONTROL, .path = path, .body = body};
    return kube_client_start(t->config.client, &request, on_event, t, &t->event, e);
}

static void start_next(struct pod_teller *t)
{
    struct err e = ERR_INIT;
    while (t->count > 0 && start(t, first_of(t), &e) != 0) {
        t->event = NULL;
        t->first = (t->first + 1) % POD_TELLER_QUEUE;
        t->count--;
    }
}

void pod_teller_tell(struct pod_teller *t, const struct cri_sandbox *sandbox, const char *reason,
                     const char *note)
{
    if (!t->config.has_events || t->count == POD_TELLER_QUEUE) {
        return;
    }
    struct job *job = &t->queue[(t->first + t->count) % POD_TELLER_QUEUE];
    *job = (struct job){.sandbox = *sandbox, .reason = reason, .at = clock_wall_now()};
    text_format(job->note, sizeof(job->note), "%s", note); /* for people: may be cut */
    t->count++;
    if (!t->event) {
        start_next(t);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int pod_teller_new(const struct pod_teller_config *config, struct pod_teller **out, struct err *e)
{
    struct pod_teller *t = calloc(1, sizeof(*t));
    if (!t) {
        return err_no_memory(e);
    }
    t->config = *config;
    *out = t;
    return 0;
}

void pod_teller_free(struct pod_teller *t)
{
    if (t) {
        kube_call_cancel(t->list);
        kube_call_cancel(t->event);
        free(t);
    }
}
