/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of readiness as an Event of events.k8s.io/v1. Knows JSON, but no API server.
 *
 * The server's rule (pkg/apis/core/validation/events.go): an Event about a Node, which has no
 * namespace, lives in "default".
 */
#ifndef HOST_AGENT_EVENT_BODY_H
#define HOST_AGENT_EVENT_BODY_H

#include "host-agent/event_plan.h"

#include <jansson.h>

#define EVENT_NAMESPACE  "default"
#define EVENT_CONTROLLER "dpu-host-agent"
#define EVENT_ACTION     "ReadinessChanged"
#define EVENT_REBOOT     "DPURebooted"   /* the reason; */
#define EVENT_REBOOT_ACT "RebootNoticed" /* and the action */

enum { EVENT_INSTANCE_BYTES = 129 /* reportingInstance: 128 and the terminator */ };

/* "<node>.<hex>", made of when it happened: the same for each try, so that a try whose answer was
 * lost is recognised. */
void event_name(const char *node_name, struct wall at, char out[static NAMES_K8S_NAME_BYTES]);

/* A new Event about the Node, related to the lease (without a name: to none). As in a kubelet's
 * Events the Node's name stands in for its UID: kubectl looks for either. Returns owned
 * (json_decref), or NULL when out of memory. */
json_t *event_body(const char *node_name, const struct readiness_lease *lease,
                   const struct event_change *change);

#endif
