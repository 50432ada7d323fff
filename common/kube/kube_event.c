/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_event.h"

#include "base/text.h"
#include "base/time.h"

#include <string.h>

enum { INSTANCE_BYTES = 129 /* 128 and the terminator */ };

void kube_event_name(const char *subject, const char *suffix,
                     char out[static KUBE_EVENT_NAME_BYTES])
{
    text_format(out, KUBE_EVENT_NAME_BYTES - KUBE_EVENT_SUFFIX_BYTES, "%s", subject);
    size_t len = strlen(out);
    while (len > 0 && (out[len - 1] == '.' || out[len - 1] == '-')) {
        len--;
    }
    text_format(out + len, KUBE_EVENT_SUFFIX_BYTES + 1, ".%s", suffix);
}

json_t *kube_pod_event(const struct kube_pod_event *event)
{
    char name[KUBE_EVENT_NAME_BYTES];
    char at[RFC3339_BYTES];
    char instance[INSTANCE_BYTES];
    kube_event_name(event->pod, event->suffix, name);
    text_format(instance, sizeof(instance), "%s", event->node); /* cut to what is allowed */
    rfc3339_format_micro(event->at, at);
    return json_pack("{s:s, s:s, s:{s:s, s:s}, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
                     "s:{s:s, s:s, s:s, s:s, s:s}}",
                     "apiVersion", "events.k8s.io/v1", "kind", "Event", "metadata", "name", name,
                     "namespace", event->ns, "eventTime", at, "reportingController",
                     "dpu-host-agent", "reportingInstance", instance, "action", event->action,
                     "reason", event->reason, "type", event->is_warning ? "Warning" : "Normal",
                     "note", event->note, "regarding", "apiVersion", "v1", "kind", "Pod",
                     "namespace", event->ns, "name", event->pod, "uid", event->uid);
}
