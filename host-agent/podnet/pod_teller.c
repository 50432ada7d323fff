/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/podnet/pod_teller.h"

#include "base/clock.h"
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
    struct kube_client *client;
    const char *node;
    struct job queue[POD_TELLER_QUEUE]; /* a ring; the first is under way with `event` */
    size_t first;
    size_t count;
    struct kube_call *event;
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
        log_warn("podnet", "%s: %s%s%s", what, r->message,
                 r->http_status == 403 ? "; rbac/host-agent-pods.yaml gives that right" : "",
                 t->trouble.more);
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
        .node = t->node,
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
    return kube_client_start(t->client, &request, on_event, t, &t->event, e);
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
    if (t->count == POD_TELLER_QUEUE) {
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

struct pod_teller *pod_teller_new(struct kube_client *client, const char *node)
{
    struct pod_teller *t = MEM_NEW(struct pod_teller);
    t->client = client;
    t->node = node;
    return t;
}

void pod_teller_free(struct pod_teller *t)
{
    if (t) {
        kube_call_cancel(t->event);
        free(t);
    }
}
