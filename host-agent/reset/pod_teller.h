/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API server is asked and told of pods that lost their network: which pods of the node
 * start again (their restartPolicy), by one list for all, and an Event on a pod for each step. One
 * Event after the other, as fast as the client lets them; those that fail are dropped. An Event's
 * name is made of the sandbox and the step, so that a restart of ours tells nothing twice. Loop
 * thread only.
 */
#ifndef RESET_POD_TELLER_H
#define RESET_POD_TELLER_H

#include "base/attr.h"
#include "base/err.h"
#include "cri/cri_message.h"
#include "host-agent/reset/reset.h"

#include <jansson.h>
#include <stdbool.h>

struct kube_client;
struct pod_teller;

enum { POD_TELLER_QUEUE = 512, POD_TELLER_NOTE_BYTES = 256 };

#define POD_TELLER_ASK_NS   (5 * NS_PER_SEC)  /* between two lists */
#define POD_TELLER_AGAIN_NS (60 * NS_PER_SEC) /* after one that failed */

/* A part of the list of the node's pods; borrowed. */
typedef void pod_teller_pods_fn(void *user, const json_t *pods);

struct pod_teller_config {
    struct kube_client *client; /* borrowed */
    const char *node;           /* borrowed */
    bool has_events;
    pod_teller_pods_fn *on_pods;
    void *user;
};

/* The steps, as reasons of Events. */
#define POD_TELLER_LOST    "PodNetworkLost"
#define POD_TELLER_STOPPED "PodSandboxStopped"

NODISCARD int pod_teller_new(const struct pod_teller_config *config, struct pod_teller **out,
                             struct err *e);
void pod_teller_free(struct pod_teller *t); /* before the client; accepts NULL */

/* Asks for the node's pods, told by on_pods, part by part; nothing while that is under way, or was
 * a short while ago. */
void pod_teller_ask(struct pod_teller *t, struct mono now);

/* What the kubelet does once the sandbox is stopped; UNKNOWN if its pod is not in this part of the
 * list, or is about to end. */
enum reset_policy pod_teller_policy(const json_t *pods, const struct cri_sandbox *sandbox);

/* `reason` is static. Nothing where the queue is full. */
void pod_teller_tell(struct pod_teller *t, const struct cri_sandbox *sandbox, const char *reason,
                     const char *note);

#endif
