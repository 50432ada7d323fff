/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/event_body.h"

#include "base/json_text.h"
#include "base/text.h"
#include "base/time.h"
#include "kube/kube_event.h"

#include <inttypes.h>

enum { NOTE_BEFORE_BYTES = 80 };

void event_name(const char *node_name, struct wall at, char out[static NAMES_K8S_NAME_BYTES])
{
    char suffix[KUBE_EVENT_SUFFIX_BYTES];
    text_format(suffix, sizeof(suffix), "%" PRIx64, (uint64_t)at.ns);
    kube_event_name(node_name, suffix, out);
}

static json_t *micro_time(struct wall t)
{
    char text[RFC3339_BYTES];
    rfc3339_format_micro(t, text);
    return json_string(text);
}

/* NULL for no lease too. */
static json_t *lease_reference(const struct readiness_lease *lease)
{
    return lease->name[0] == '\0'
               ? NULL
               : json_pack("{s:s, s:s, s:s, s:s, s:s*}", "apiVersion", "coordination.k8s.io/v1",
                           "kind", "Lease", "namespace", lease->ns, "name", lease->name, "uid",
                           lease->uid[0] ? lease->uid : NULL);
}

/* The message; for a state that can be either way, which of both it is; and what went before. */
static json_t *note(const struct event_change *change)
{
    const char *more = "";
    char before[NOTE_BEFORE_BYTES] = "";
    if (change->state == READINESS_UNKNOWN && !change->is_reboot) {
        more = change->admit ? "; new pods are let in" : "; new pods are held back";
    }
    if (change->left_out > 0) {
        text_format(before, sizeof(before), "; changes before this one without an Event: %" PRIu64,
                    change->left_out);
    }
    return json_sprintf("%s%s%s", change->message, more, before);
}

json_t *event_body(const char *node_name, const struct readiness_lease *lease,
                   const struct event_change *change)
{
    char name[NAMES_K8S_NAME_BYTES];
    char instance[EVENT_INSTANCE_BYTES];
    event_name(node_name, change->at, name);
    text_format(instance, sizeof(instance), "%s", node_name); /* cut to what is allowed */
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:o, s:s, s:s, s:s, s:s, s:s, s:o, s:{s:s, s:s, s:s, s:s}, s:o*}",
        "apiVersion", "events.k8s.io/v1", "kind", "Event", "metadata", "name", name, "namespace",
        EVENT_NAMESPACE, "eventTime", micro_time(change->at), "reportingController",
        EVENT_CONTROLLER, "reportingInstance", instance, "action",
        change->is_reboot ? EVENT_REBOOT_ACT : EVENT_ACTION, "reason",
        change->is_reboot ? EVENT_REBOOT : readiness_reason_name(change->reason), "type",
        change->state == READINESS_READY ? "Normal" : "Warning", "note", note(change), "regarding",
        "apiVersion", "v1", "kind", "Node", "name", node_name, "uid", node_name, "related",
        lease_reference(lease));
}
