/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/reset/pod_teller.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/kube_event.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 2048 };

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
    struct kube_call *question;
    struct cri_sandbox asked; /* whom it is about */
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

/* A static pod is known to the API server by a mirror, which has a uid of its own, and the pod's as
 * an annotation. That alone anybody can write on a pod. */
static bool is_mirror_of(struct json_slice pod, const char *uid)
{
    struct json_slice annotations =
        json_scan_member(json_scan_member(pod, "metadata"), "annotations");
    struct json_slice mirror = json_scan_member(annotations, "kubernetes.io/config.mirror");
    return json_scan_kind(mirror) == JSON_KIND_TEXT &&
           json_scan_equals(json_scan_member(annotations, "kubernetes.io/config.hash"), uid);
}

/* The pod of this sandbox, and not a later one of its name; its own uid before all. Absent: there
 * is none. */
static struct json_slice find_pod(struct json_slice list, const char *uid)
{
    struct json_slice key;
    struct json_slice pod;
    struct json_slice mirror = {NULL, 0};
    struct json_walk w = json_walk_start(json_scan_member(list, "items"));
    while (uid[0] != '\0' && json_walk_next(&w, &key, &pod)) {
        if (json_scan_equals(json_scan_member(json_scan_member(pod, "metadata"), "uid"), uid)) {
            return pod;
        }
        mirror = is_mirror_of(pod, uid) ? pod : mirror;
    }
    return mirror;
}

/* OnFailure with an owner is a Job's, which counts each restart of a container as a failure. */
static enum reset_policy policy_of(struct json_slice policy, bool has_owner, const char **out_why)
{
    bool is_on_failure = json_scan_equals(policy, "OnFailure");
    if (json_scan_equals(policy, "Never")) {
        *out_why = "its restartPolicy is Never, so it would end";
        return RESET_POLICY_NEVER;
    }
    if (is_on_failure && has_owner) {
        *out_why = "its restartPolicy is OnFailure, so its Job would count a failure";
        return RESET_POLICY_NEVER;
    }
    return is_on_failure || json_scan_equals(policy, "Always") ? RESET_POLICY_RESTARTS
                                                               : RESET_POLICY_UNKNOWN;
}

enum reset_policy pod_teller_read(const char *text, size_t len, const struct cri_sandbox *sandbox,
                                  const char **out_why)
{
    struct json_slice list;
    *out_why = "";
    if (json_scan_check(text, len, &list, NULL) != 0) {
        return RESET_POLICY_UNKNOWN;
    }
    struct json_slice pod = find_pod(list, sandbox->uid);
    struct json_slice metadata = json_scan_member(pod, "metadata");
    struct json_slice phase = json_scan_member(json_scan_member(pod, "status"), "phase");
    bool is_ending =
        json_scan_kind(json_scan_member(metadata, "deletionTimestamp")) == JSON_KIND_TEXT;
    bool runs = json_scan_equals(phase, "Running") || json_scan_equals(phase, "Pending");
    if (is_ending || !runs) {
        return RESET_POLICY_UNKNOWN;
    }
    bool has_owner = json_scan_count(json_scan_member(metadata, "ownerReferences")) > 0;
    return policy_of(json_scan_member(json_scan_member(pod, "spec"), "restartPolicy"), has_owner,
                     out_why);
}

static void on_pod(void *user, const struct kube_response *r)
{
    struct pod_teller *t = user;
    const char *why = "";
    enum reset_policy policy = RESET_POLICY_UNKNOWN;
    t->question = NULL;
    if (r->code == 0) {
        policy = pod_teller_read(r->raw, r->raw_len, &t->asked, &why);
    } else {
        complain(t, "reading a pod that lost its network", r);
    }
    t->config.on_answer(t->config.user, policy, why);
}

/* Urgent, and so not behind the Events: it has a pace of its own. A list of one is what an agent
 * always had the right to ask for. */
void pod_teller_ask(struct pod_teller *t, const struct cri_sandbox *sandbox)
{
    char path[PATH_BYTES];
    struct err e = ERR_INIT;
    t->asked = *sandbox;
    text_format(
        path, sizeof(path),
        "/api/v1/namespaces/%s/pods?fieldSelector=spec.nodeName%%3D%s%%2Cmetadata.name%%3D%s",
        sandbox->ns, t->config.node, sandbox->name);
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = KUBE_CONTROL,
                                         .priority = KUBE_URGENT,
                                         .path = path,
                                         .is_raw = true};
    if (kube_client_start(t->config.client, &request, on_pod, t, &t->question, &e) != 0) {
        t->question = NULL;
        log_debug("reset", "reading pod %s/%s: %s", sandbox->ns, sandbox->name, e.msg);
        t->config.on_answer(t->config.user, RESET_POLICY_UNKNOWN, "");
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
        kube_call_cancel(t->question);
        kube_call_cancel(t->event);
        free(t);
    }
}
