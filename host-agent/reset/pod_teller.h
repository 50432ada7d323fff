/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server is asked and told of pods that lost their network: whether a pod starts
 * again, right before its sandbox is stopped, and an Event on a pod for each step. A pod may be as
 * large as its tenant likes: it is read as bytes, and no tree is made of it. One Event after the
 * other, as fast as the client lets them; those that fail are dropped. An Event's name is made of
 * the sandbox and the step, so that a restart of ours tells nothing twice. Loop thread only.
 */
#ifndef RESET_POD_TELLER_H
#define RESET_POD_TELLER_H

#include "base/attr.h"
#include "base/err.h"
#include "cri/cri_message.h"
#include "host-agent/reset/reset.h"

#include <stdbool.h>
#include <stddef.h>

struct kube_client;
struct pod_teller;

enum { POD_TELLER_QUEUE = 512, POD_TELLER_NOTE_BYTES = 256 };

/* `why` says of NEVER what would come of a stop, for people; static. */
typedef void pod_teller_answer_fn(void *user, enum reset_policy policy, const char *why);

struct pod_teller_config {
    struct kube_client *client; /* borrowed */
    const char *node;           /* borrowed */
    bool has_events;
    pod_teller_answer_fn *on_answer;
    void *user;
};

/* The steps, as reasons of Events. */
#define POD_TELLER_LOST    "PodNetworkLost"
#define POD_TELLER_STOPPED "PodSandboxStopped"

NODISCARD int pod_teller_new(const struct pod_teller_config *config, struct pod_teller **out,
                             struct err *e);
void pod_teller_free(struct pod_teller *t); /* before the client; accepts NULL */

/* Asks for the pod of this sandbox; one at a time. on_answer() comes later, or at once. */
void pod_teller_ask(struct pod_teller *t, const struct cri_sandbox *sandbox);

/* What the kubelet does once the sandbox is stopped, by a list with the pod of its name; UNKNOWN if
 * that is another pod, or is ending. */
enum reset_policy pod_teller_read(const char *text, size_t len, const struct cri_sandbox *sandbox,
                                  const char **out_why);

/* `reason` is static. Nothing where the queue is full. */
void pod_teller_tell(struct pod_teller *t, const struct cri_sandbox *sandbox, const char *reason,
                     const char *note);

#endif
