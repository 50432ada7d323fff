/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/fleet_take.h"

#include "base/rfc3339.h"
#include "base/text.h"
#include "contract/lease.h"
#include "loop/agent_options.h"
#include "json/json_text.h"

#include <string.h>

#define TAINT_SUFFIX "/unhealthy" /* behind the driver's name */

/* Those of ovn-kubernetes and of OpenShift's network operator. */
static const char *const host_labels[] = {"k8s.ovn.org/dpu-host",
                                          "network.operator.openshift.io/dpu-host"};

static const json_t *meta_of(const json_t *object)
{
    return json_object_get(object, "metadata");
}

static void put(char *out, size_t out_bytes, const char *text)
{
    if (text) {
        text_sanitize(out, out_bytes, text, strlen(text));
    }
}

static struct wall time_of(const json_t *object, const char *key)
{
    const char *text = json_text_get(object, key);
    struct wall at = {0};
    if (text && rfc3339_parse(text, strlen(text), &at, NULL) != 0) {
        return (struct wall){0};
    }
    return at;
}

/* A member of a list of objects, by its "type". */
static const json_t *find_type(const json_t *list, const char *type)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        if (text_equal(json_text_get(item, "type"), type)) {
            return item;
        }
    }
    return NULL;
}

/* ---- whose it is ----------------------------------------------------------------------------- */

const char *fleet_node_of_lease(const json_t *lease)
{
    const char *name = json_text_get(meta_of(lease), "name");
    size_t len = strlen(NAMES_LEASE_PREFIX);
    return name && strncmp(name, NAMES_LEASE_PREFIX, len) == 0 ? name + len : NULL;
}

const char *fleet_node_of_node(const json_t *node)
{
    return json_text_get(meta_of(node), "name");
}

const char *fleet_node_of_bound(const json_t *slice_or_pod)
{
    return json_text_get(json_object_get(slice_or_pod, "spec"), "nodeName");
}

/* ---- what it tells --------------------------------------------------------------------------- */

/* What a view keeps as it is, for comparing. */
static void clean(char *text, size_t text_bytes)
{
    char shown[NAMES_HOLDER_BYTES];
    text_sanitize(shown, sizeof(shown), text, strlen(text));
    text_format(text, text_bytes, "%s", shown);
}

void fleet_take_lease(struct fleet_row *row, const json_t *lease)
{
    row->has_lease = lease_read(lease, &row->lease, NULL) == 0;
    clean(row->lease.holder, sizeof(row->lease.holder));
    clean(row->lease.renew_stamp, sizeof(row->lease.renew_stamp));
    put(row->boot_id, sizeof(row->boot_id),
        json_text_get(json_object_get(meta_of(lease), "annotations"), NAMES_ANNOTATION_BOOT_ID));
}

/* A refusal is no proof that the DPU is down: these say that nobody knows. */
static enum readiness_state state_of_refusal(const char *reason)
{
    static const enum readiness_reason doubts[] = {REASON_AWAITING_FIRST_RENEWAL,
                                                   REASON_RECORD_MISSING, REASON_RECORD_STALE,
                                                   REASON_RECORD_INVALID};
    for (size_t i = 0; i < ARRAY_LEN(doubts); i++) {
        if (text_equal(reason, readiness_reason_name(doubts[i]))) {
            return READINESS_UNKNOWN;
        }
    }
    return READINESS_NOT_READY;
}

/* The word behind "reason " in a refusal of dpu-gate, if it is one of ours. */
static const char *reason_in(const char *message)
{
    static const char before[] = "reason ";
    for (const char *at = strstr(message, before); at; at = strstr(at, before)) {
        char word[FLEET_WORD_BYTES];
        enum readiness_reason reason;
        at += sizeof(before) - 1;
        text_format(word, sizeof(word), "%.*s", (int)strcspn(at, ", ;"), at);
        if (readiness_reason_from_name(word, &reason)) {
            return readiness_reason_name(reason);
        }
    }
    return "Refused";
}

/* The runtime asks dpu-gate, the kubelet repeats the answer: nothing is nearer to the pods. */
static void hear_gate(struct fleet_row *row, const json_t *condition)
{
    const char *message = json_text_get(condition, "message");
    const char *said = message ? strstr(message, NAMES_NOT_READY_PREFIX) : NULL;
    if (!said || text_equal(json_text_get(condition, "status"), "True")) {
        return;
    }
    struct fleet_word word = {.teller = FLEET_GATE,
                              .since = time_of(condition, "lastTransitionTime")};
    put(word.reason, sizeof(word.reason), reason_in(said));
    put(word.message, sizeof(word.message), said + strlen(NAMES_NOT_READY_PREFIX));
    word.state = state_of_refusal(word.reason);
    row->has_gate = true;
    fleet_hear(row, &word);
}

static void hear_condition(struct fleet_row *row, const json_t *condition)
{
    const char *status = json_text_get(condition, "status");
    struct fleet_word word = {.teller = FLEET_CONDITION,
                              .state = text_equal(status, "True")    ? READINESS_READY
                                       : text_equal(status, "False") ? READINESS_NOT_READY
                                                                     : READINESS_UNKNOWN,
                              .since = time_of(condition, "lastTransitionTime")};
    put(word.reason, sizeof(word.reason), json_text_get(condition, "reason"));
    put(word.message, sizeof(word.message), json_text_get(condition, "message"));
    if (condition) {
        fleet_hear(row, &word);
    }
}

bool fleet_node_is_marked(const json_t *node)
{
    const json_t *labels = json_object_get(meta_of(node), "labels");
    bool is_marked = false;
    for (size_t i = 0; i < ARRAY_LEN(host_labels); i++) {
        is_marked = is_marked || json_object_get(labels, host_labels[i]);
    }
    return is_marked;
}

void fleet_take_node(struct fleet_row *row, const json_t *node)
{
    const json_t *conditions = json_object_get(json_object_get(node, "status"), "conditions");
    row->has_node = true;
    row->is_marked = row->is_marked || fleet_node_is_marked(node);
    hear_gate(row, find_type(conditions, "Ready"));
    hear_condition(row, find_type(conditions, "DPUReady"));
}

void fleet_take_slice(struct fleet_row *row, const json_t *slice)
{
    const json_t *devices = json_object_get(json_object_get(slice, "spec"), "devices");
    const json_t *device = json_array_get(devices, 0);
    const json_t *basic = json_object_get(device, "basic"); /* v1beta1 has it in there */
    size_t i;
    const json_t *taint;
    json_array_foreach(json_object_get(basic ? basic : device, "taints"), i, taint)
    {
        const char *key = json_text_get(taint, "key");
        const char *suffix = key ? strrchr(key, '/') : NULL;
        if (!text_equal(suffix, TAINT_SUFFIX)) {
            continue;
        }
        struct fleet_word word = {.teller = FLEET_TAINT, .since = time_of(taint, "timeAdded")};
        put(word.reason, sizeof(word.reason), json_text_get(taint, "value"));
        word.state = state_of_refusal(word.reason);
        put(word.message, sizeof(word.message), "its ResourceSlice has a taint for that");
        fleet_hear(row, &word);
    }
}

/* "registry:5000/name:1.2@sha256:..." has the tag 1.2. */
static void put_tag(char *out, size_t out_bytes, const char *image)
{
    const char *name = strrchr(image, '/');
    name = name ? name + 1 : image;
    size_t len = strcspn(name, "@");
    const char *colon = memchr(name, ':', len);
    if (colon) {
        text_sanitize(out, out_bytes, colon + 1, len - (size_t)(colon + 1 - name));
    }
}

/* As far as the pod says: a ConfigMap behind it is not looked at. */
static bool has_rolling_names(const json_t *container)
{
    static const char flag[] = "--dra-rolling-update-uid=";
    bool is_named = false;
    bool is_on = false;
    size_t i;
    const json_t *item;
    json_array_foreach(json_object_get(container, "args"), i, item)
    {
        const char *arg = json_string_value(item);
        is_named = is_named || (arg && strncmp(arg, flag, sizeof(flag) - 1) == 0);
    }
    json_array_foreach(json_object_get(container, "env"), i, item)
    {
        is_on = is_on || (text_equal(json_text_get(item, "name"), AGENT_ENV_PREFIX "DRA") &&
                          text_equal(json_text_get(item, "value"), "on"));
    }
    return is_named && is_on;
}

void fleet_take_pod(struct fleet_row *row, const json_t *pod)
{
    const json_t *spec = json_object_get(pod, "spec");
    const json_t *conditions = json_object_get(json_object_get(pod, "status"), "conditions");
    const json_t *container = json_array_get(json_object_get(spec, "containers"), 0);
    const char *image = json_text_get(container, "image");
    bool is_ready = text_equal(json_text_get(find_type(conditions, "Ready"), "status"), "True");
    size_t i;
    const json_t *init;
    if (row->agent_pod[0] != '\0' && row->is_agent_ready) {
        return; /* two of them in a rolling update */
    }
    row->is_agent_ready = is_ready;
    row->has_rolling_names = has_rolling_names(container);
    put(row->agent_pod, sizeof(row->agent_pod), json_text_get(meta_of(pod), "name"));
    if (image) {
        put_tag(row->agent_version, sizeof(row->agent_version), image);
    }
    json_array_foreach(json_object_get(spec, "initContainers"), i, init)
    {
        const json_t *word = json_array_get(json_object_get(init, "args"), 0);
        row->has_gate = row->has_gate || text_equal(json_string_value(word), "install-cni");
    }
}
