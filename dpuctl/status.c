/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl status, watch and pods: what is seen on this node. */
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "dpuctl/api.h"
#include "dpuctl/node.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the document ---------------------------------------------------------------------------- */

static json_t *status_document(struct admin_config *config, const struct node_snapshot *seen)
{
    char socket[PATH_MAX];
    struct api *api = NULL;
    struct err e = ERR_INIT;
    const struct agent_config *a = &config->agent;
    json_t *tree = node_document(config, seen);
    config->asks_runtime = /* where the agent does, too */
        !text_is_empty(config->cri_socket) && pods_find_runtime(config, socket);
    int rc = api_open(config, &api, &e);
    if (rc != 0) {
        print_json_put(tree, "api", node_api_error_json(config, rc, &e));
    } else {
        const struct api_answer *lease =
            api_ask(api, NULL, mem_format(API_LEASE_PATH, a->lease_namespace, a->lease_name));
        const struct api_answer *slice =
            api_ask(api, NULL, mem_format(API_SLICE_PATH, config->driver, a->node_name));
        api_wait(api);
        print_json_put(json_object_get(tree, "dra"), "slice", node_slice_json(slice));
        print_json_put(tree, "api", node_api_json(api, lease));
        print_json_put(tree, "lease", node_lease_json(a, seen, lease));
    }
    api_close(api);
    if (config->asks_runtime) {
        print_json_put(tree, "pods", node_pods_json(config, socket));
    }
    return tree;
}

/* ---- the document as text -------------------------------------------------------------------- */

static const struct print_row head[] = {
    {"", "", " ({gate.reason})"},
    {"", "gate.forSeconds", " for {gate.forSeconds}"},
    {"\n  ", "gate.message", "{gate.message}"},
    {"\n  ", "!gate.message gate.note", "{gate.note}"},
    {"\n  ", "!gate.message !gate.note", "{record.message}"},
    {"\n\n  pods    ", "gate.admitsPods", "ADD passes"},
    {"\n\n  pods    ", "!gate.admitsPods", "ADD fails at once"},
    {"", "", ", STATUS answers {gate.statusCode}"},
    {"\n  record  ", "record.problem", "{record.file}: {record.problem}"},
    {"\n  record  ", "record.state", "{record.state} ({record.file})\n          "},
    {"", "record.reason=HealthCheckDisabled", "the health check is disabled; "},
    {"", "record.lastRenewalAgeSeconds", "last renewal {record.lastRenewalAgeSeconds} ago"},
    {"", "record.state !record.lastRenewalAgeSeconds", "no renewal was observed yet"},
    {", ", "record.validSeconds>0", "valid for {record.validSeconds}"},
    {", ", "record.validSeconds !record.validSeconds>0", "over for {record.validSeconds}"},
    {"\n  agent   ", "record.state", "pid {record.writerPid}"},
    {" ", "record.state !record.writerAlive !record.writerPid>1", "of its pod"},
    {" ", "!record.writerAlive record.writerPid>1", "(no such dpu-host-agent is visible here)"},
    {", ", "record.writerSeconds>0", "writes again within {record.writerSeconds}"},
    {", ", "record.state !record.writerSeconds>0", "overdue for {record.writerSeconds}"},
    {"\n  DPU     ", "record.dpuBootId", "boot {record.dpuBootId}"},
    {", ", "record.dpuBootId record.dpuRebootAgeSeconds",
     "rebooted {record.dpuRebootAgeSeconds} ago"},
};

static const struct print_row host_probe[] = {
    {"\n  probe   ", "", "{probe}: "},
    {"", "says=none", "has not passed since this host started, so it proves nothing"},
    {"", "says=well", "well"},
    {"", "says=failed", "failed"},
};

static const struct print_row rest[] = {
    {"\n  lease   ", "lease", "{lease.namespace}/{lease.name}: {lease.problem}"},
    {"", "lease.holder", "held by {lease.holder}"},
    {"", "lease.found !lease.holder", "it has no holder"},
    {"", "lease.found !lease.holderExpected", " (not the one expected)"},
    {", ", "lease.found", "{lease.durationSeconds} s\n          "},
    {"", "lease.renewTime", "renewed {lease.renewTime}"},
    {"", "lease.found !lease.renewTime", "never renewed"},
    {", ", "lease.found !lease.uidOfRecord", "not the one of the record"},
    {"\n          ", "lease.health", "the DPU says: {lease.health}"},
    {", ", "lease.healthMessage", "{lease.healthMessage}"},
    {"\n  clocks  ", "record.dpuClockSkewSeconds",
     "DPU (at its last renewal) {record.dpuClockSkewSeconds+} against this host"},
    {"\n  clocks  ", "api.clockSkewSeconds",
     "API server {api.clockSkewSeconds+} against this host"},
    {"\n  API     ", "", "{api.server}"},
    {": ", "api.server api.problem", ""},
    {"", "api.problem", "{api.problem}"},
    {"\n  CNI     ", "", "{cni.problem}"},
    {"", "!cni.problem !cni.first", "no configuration that a runtime can use"},
    {"", "cni.first", "{cni.first} comes first ({cni.plugins})"},
    {", ", "cni.gated !cni.statusSupported",
     "without cniVersion 1.1.0, so no runtime calls STATUS"},
    {"; ", "cni.first !cni.gated cni.gate", "the gate is in {cni.gate}, run dpuctl doctor"},
    {", ", "cni.first !cni.gate", "without dpu-gate"},
    {"\n  DRA     ", "dra.registrationSocket", "{dra.driver}: offered to the kubelet"},
    {"\n  DRA     ", "!dra.registrationSocket dra.slice.found",
     "{dra.driver}: not offered to the kubelet"},
    {", ", "dra.slice.found", "slice published"},
    {", ", "dra.slice.taint", "tainted {dra.slice.taint}"},
    {", ", "dra.registrationSocket dra.slice.problem", "slice: {dra.slice.problem}"},
    {"\n  network ", "pods.problem", "{pods.problem}"},
    {"\n  network ", "pods !pods.problem",
     "{pods.lost} of {pods.count} pods have lost their network"},
    {": ", "pods.lost", "run dpuctl pods"},
    {"; ", "pods.unseen", "{pods.unseen} could not be inspected"},
    {"\n", "", ""},
};

static bool print_page(const json_t *tree, enum node_answer answer, int color)
{
    static const enum print_color colors[] = {
        [NODE_READY] = PRINT_GOOD, [NODE_NOT_READY] = PRINT_BAD, [NODE_UNKNOWN] = PRINT_DOUBT};
    bool has_color = print_has_color(color);
    size_t i;
    const json_t *probe;
    (void)printf("%s: %s%s%s", json_text_get(tree, "node"), print_on(has_color, colors[answer]),
                 node_answer_name(answer), print_off(has_color));
    print_rows(tree, head, ARRAY_LEN(head), has_color);
    json_array_foreach(json_object_get(json_object_get(tree, "record"), "hostProbes"), i, probe)
    {
        print_rows(probe, host_probe, ARRAY_LEN(host_probe), has_color);
    }
    print_rows(tree, rest, ARRAY_LEN(rest), has_color);
    return fflush(stdout) == 0;
}

int status_run(struct admin_config *config)
{
    struct node_snapshot seen;
    node_snapshot_take(config, &seen);
    CLEANUP(json) json_t *tree = status_document(config, &seen);
    bool is_written = config->output == ADMIN_TEXT
                          ? print_page(tree, seen.answer, config->color)
                          : print_json(json_incref(tree), config->output == ADMIN_YAML, stdout);
    return is_written ? (int)seen.answer : NODE_UNKNOWN;
}

/* ---- watch: a line for each change of the readiness ------------------------------------------ */

/* So soon after it took effect a change is shown. */
#define LOOK_AGAIN_NS (100 * NS_PER_MS)

/* Looks; prints what is new against `shown`, and keeps it there. `since`: from when on that held.
 */
static void look_again(const struct admin_config *config, json_t **shown, struct mono *since)
{
    static const struct print_row rows[] = {
        {"", "", "{time}  "},
        {"", "answer=Ready", "Ready     "},
        {"", "answer=NotReady", "NotReady  "},
        {"", "answer=Unknown", "Unknown   "},
        {"", "", "{reason}"},
        {" after ", "former", "{formerSeconds} {former}"},
        {": ", "", "{message}\n"},
    };
    struct node_snapshot seen;
    char time[RFC3339_BYTES];
    const char *former = json_text_get(*shown, "answer");
    node_snapshot_take(config, &seen);
    rfc3339_format(seen.wall, true, time);
    CLEANUP(json)
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:b, s:s, s:o, s:s?, s:o}", "time", time, "node",
                  config->agent.node_name, "answer", node_answer_name(seen.answer), "admitsPods",
                  seen.gate.admit, "reason", readiness_reason_name(seen.gate.reason), "message",
                  print_json_text(node_message(&seen)), "former", former, "formerSeconds",
                  former ? print_json_seconds(mono_since(seen.now, *since)) : json_null());
    if (text_equal(former, node_answer_name(seen.answer)) &&
        text_equal(json_text_get(*shown, "reason"), json_text_get(line, "reason")) &&
        print_holds(*shown, "admitsPods") == seen.gate.admit) {
        return;
    }
    if (config->output == ADMIN_JSON) {
        print_json_line(json_incref(line));
    } else {
        print_rows(line, rows, ARRAY_LEN(rows), false);
    }
    *since = !former && seen.since.ns > 0 ? seen.since : seen.now;
    json_decref(*shown);
    *shown = TAKE(line);
}

int watch_run(struct admin_config *config)
{
    CLEANUP(fd) int stop_fd = admin_stop_signals();
    CLEANUP(json) json_t *shown = NULL;
    struct mono since = {0};
    bool is_written;
    do {
        look_again(config, &shown, &since);
        is_written = fflush(stdout) == 0 || errno == EPIPE; /* a reader may go at any moment */
    } while (!ferror(stdout) && admin_wait(stop_fd, LOOK_AGAIN_NS));
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- pods: which of this node have lost their network, and what follows ---------------------- */

enum pods_answer { PODS_NONE_LOST, PODS_SOME_LOST, PODS_UNCLEAR };

static const char *network_of(const struct pods_pod *pod)
{
    static const char *const names[] = {[POD_NET_UNSEEN] = "Unknown",
                                        [POD_NET_UNKNOWN] = "Unknown",
                                        [POD_NET_WHOLE] = "There",
                                        [POD_NET_AWAY] = "Away",
                                        [POD_NET_LOST] = "Lost"};
    return pod->has_host_network ? "Host" : names[pod->net.evidence];
}

/* What the agent does, or leaves to people; NULL: nothing follows. */
static const char *what_follows(const struct admin_config *config, const struct pods_pod *pod)
{
    static const char *const by_mode[] = {
        "reported", "new Pods are rejected meanwhile",
        "gets a new sandbox, unless its restartPolicy is Never, or OnFailure in a Job"};
    if (pod->net.evidence != POD_NET_LOST) {
        return NULL;
    }
    if (config->on_lost_network == LOST_NETWORK_STATUS && !pod->net.is_by_device) {
        return by_mode[LOST_NETWORK_REPORT]; /* the pod may have done it */
    }
    return text_is_empty(config->cri_socket) ? "nothing: dpu-host-agent has no --cri-socket"
                                             : by_mode[config->on_lost_network];
}

/* `reboot`: when the DPU's was seen; 0: of none that is known. */
static json_t *pod_json(const struct admin_config *config, const struct pods_pod *pod,
                        struct wall reboot)
{
    const struct cri_sandbox *s = &pod->sandbox;
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:o, s:o}", "namespace", s->ns, "name",
                     s->name, "uid", s->uid, "sandbox", s->id, "madeTime",
                     print_json_stamp(s->made), "madeBeforeReboot",
                     reboot.ns != 0 ? json_boolean(s->made.ns < reboot.ns) : json_null(), "network",
                     network_of(pod), "seen", print_json_text(pod->net.words), "follows",
                     print_json_text(what_follows(config, pod)));
}

/* NULL: a text of it is no UTF-8. */
static json_t *pods_json(const struct admin_config *config, const struct pods_snapshot *seen)
{
    static const char *const modes[] = {"report", "status", "restart"};
    struct node_snapshot node;
    json_t *pods = json_array();
    node_snapshot_take(config, &node);
    struct wall reboot = node.has_record ? node.record.verdict.dpu_rebooted : (struct wall){0};
    for (size_t i = 0; i < seen->count; i++) {
        json_t *pod = pod_json(config, &seen->pods[i], reboot);
        if (json_array_append_new(pods, pod) != 0) {
            json_decref(pods);
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:o}", "node", config->agent.node_name, "onLostNetwork",
                     text_is_empty(config->cri_socket) ? "off" : modes[config->on_lost_network],
                     "lost", (int)seen->lost, "unseen", (int)seen->unseen, "pods", pods);
}

static void print_pods_text(const struct admin_config *config, const json_t *pods)
{
    static const struct print_row columns[] = {
        {"  ", "madeBeforeReboot", "made before the DPU's reboot"},
        {"  ", "madeBeforeReboot=no", "made after the DPU's reboot"},
        {"  ", "seen", "{seen}"},
        {"; ", "follows", "{follows}"},
        {"\n", "", ""},
    };
    bool has_color = print_has_color(config->color);
    int width = (int)strlen("POD");
    char name[2 * CRI_NAME_BYTES];
    size_t i;
    json_t *pod;
    json_array_foreach(pods, i, pod)
    {
        print_fill(pod, "{namespace}/{name}", name, sizeof(name));
        width = (int)strlen(name) > width ? (int)strlen(name) : width;
    }
    (void)printf("%-*s  %-20s  %s\n", width, "POD", "MADE", "NETWORK");
    json_array_foreach(pods, i, pod)
    {
        enum print_color color = print_holds(pod, "network=Lost")   ? PRINT_BAD
                                 : print_holds(pod, "network=Away") ? PRINT_DOUBT
                                                                    : PRINT_PLAIN;
        const char *made = json_text_get(pod, "madeTime");
        print_fill(pod, "{namespace}/{name}", name, sizeof(name));
        (void)printf("%-*s  %s  %s%-7s%s", width, name, made ? made : "-",
                     print_on(has_color, color), json_text_get(pod, "network"),
                     print_off(has_color));
        print_rows(pod, columns, ARRAY_LEN(columns), has_color);
    }
}

static bool print_pods(const struct admin_config *config, const struct pods_snapshot *seen)
{
    CLEANUP(json) json_t *tree = pods_json(config, seen);
    const json_t *pods = json_object_get(tree, "pods");
    size_t i;
    const json_t *pod;
    if (config->output == ADMIN_JSON || config->output == ADMIN_YAML) {
        return print_json(json_incref(tree), config->output == ADMIN_YAML, stdout);
    }
    if (config->output == ADMIN_TEXT) {
        print_pods_text(config, pods);
        return tree && fflush(stdout) == 0;
    }
    json_array_foreach(pods, i, pod)
    {
        if (print_holds(pod, "network=Lost")) {
            (void)printf("%s/%s\n", json_text_get(pod, "namespace"), json_text_get(pod, "name"));
        }
    }
    return tree && fflush(stdout) == 0;
}

int pods_run(struct admin_config *config)
{
    char socket[PATH_MAX];
    struct pods_snapshot seen = {.count = 0};
    struct err e = ERR_INIT;
    if (!pods_find_runtime(config, socket)) {
        (void)fputs("dpuctl pods: no container runtime's socket found: give --cri-socket=FILE\n",
                    stderr);
        return PODS_UNCLEAR;
    }
    if (pods_snapshot_take(config, socket, &seen, &e) != 0) {
        (void)fprintf(stderr, "dpuctl pods: %s\n", e.msg);
        return PODS_UNCLEAR;
    }
    enum pods_answer answer = seen.lost > 0     ? PODS_SOME_LOST
                              : seen.unseen > 0 ? PODS_UNCLEAR
                                                : PODS_NONE_LOST;
    bool is_printed = print_pods(config, &seen);
    pods_snapshot_fini(&seen);
    return is_printed ? (int)answer : PODS_UNCLEAR;
}
