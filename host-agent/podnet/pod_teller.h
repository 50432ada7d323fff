/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Event on a pod that lost its network for each step. One Event after the
 * other, as fast as the client lets them; those that fail are dropped. An Event's name is made of
 * the sandbox and the step, so that a restart of ours tells nothing twice. Loop thread only.
 */
#ifndef RESET_POD_TELLER_H
#define RESET_POD_TELLER_H

#include "base/attr.h"
#include "base/err.h"
#include "cri/cri_message.h"

#include <stdbool.h>
#include <stddef.h>

struct kube_client;
struct pod_teller;

enum { POD_TELLER_QUEUE = 512, POD_TELLER_NOTE_BYTES = 256 };

/* The steps, as reasons of Events. */
#define POD_TELLER_LOST    "PodNetworkLost"
#define POD_TELLER_STOPPED "PodSandboxStopped"

struct pod_teller *pod_teller_new(struct kube_client *client, const char *node); /* borrows both */
void pod_teller_free(struct pod_teller *t); /* before the client; accepts NULL */

/* `reason` is static. Nothing where the queue is full. */
void pod_teller_tell(struct pod_teller *t, const struct cri_sandbox *sandbox, const char *reason,
                     const char *note);

#endif
