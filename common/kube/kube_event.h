/* SPDX-License-Identifier: Apache-2.0 */
/* An Event of events.k8s.io/v1: its name, and all of one about a pod. */
#ifndef KUBE_EVENT_H
#define KUBE_EVENT_H

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>

enum {
    KUBE_EVENT_NAME_BYTES = 254,  /* a DNS-1123 subdomain and its terminator */
    KUBE_EVENT_SUFFIX_BYTES = 17, /* 16 letters and digits, and its terminator */
};

/* "<subject>.<suffix>". The subject's name is cut where it is too long, to what still is one. */
void kube_event_name(const char *subject, const char *suffix,
                     char out[static KUBE_EVENT_NAME_BYTES]);

/* All texts borrowed. */
struct kube_pod_event {
    const char *node; /* of the agent that tells */
    const char *ns;
    const char *pod;
    const char *uid;
    const char *suffix; /* of the Event's name: the same for each try, so that one that did arrive
                         * is recognised */
    struct wall at;
    const char *action;
    const char *reason;
    const char *note;
    bool is_warning;
};

/* Owned (json_decref); NULL when out of memory. */
json_t *kube_pod_event(const struct kube_pod_event *event);

#endif
