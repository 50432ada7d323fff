/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl status and watch: what is seen on this node. */
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
