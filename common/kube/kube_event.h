/* SPDX-License-Identifier: Apache-2.0 */
/* An Event of events.k8s.io/v1 about a pod. */
#ifndef KUBE_EVENT_H
#define KUBE_EVENT_H

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>

/* All texts borrowed. */
struct kube_pod_event {
    const char *node; /* of the agent that tells */
    const char *ns;
    const char *pod;
    const char *uid;
    const char *suffix; /* of the Event's name: the same for each try, so that one that did arrive
                         * is recognised; at most 16 letters and digits */
    struct wall at;
    const char *action;
    const char *reason;
    const char *note;
    bool is_warning;
};

/* Owned (json_decref); NULL when out of memory. */
json_t *kube_pod_event(const struct kube_pod_event *event);

#endif
