/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/node_look.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file_read.h"
#include "base/rfc3339.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Pids are this pid namespace's: where the agent runs in a pod of its own they say nothing. */
static bool is_host_agent(int pid)
{
    char path[64];
    CLEANUP(buf) struct buf name;
    buf_init(&name, 64);
    text_format(path, sizeof(path), "/proc/%d/comm", pid);
    return pid > 0 && file_read(path, &name, NULL) == 0 &&
           strncmp(buf_text(&name), "dpu-host-agent", 14) == 0;
}

static enum node_answer answer_of(const struct node_look *look)
{
    switch (look->gate.reason) {
    case REASON_LEASE_EXPIRED:
    case REASON_LEASE_NOT_FOUND:
    case REASON_LEASE_INVALID:
    case REASON_DPU_REPORTED_UNHEALTHY:
    case REASON_DPU_SHUTDOWN:
    case REASON_POD_NETWORK_LOST:
    case REASON_HOST_PROBE_FAILED:
        return NODE_NOT_READY;
    case REASON_LEASE_RENEWED:
    case REASON_HEALTH_CHECK_DISABLED: /* held by a dead writer's last word: nobody knows */
        return look->gate.admit && look->gate.note[0] == '\0' ? NODE_READY : NODE_UNKNOWN;
    case REASON_AWAITING_FIRST_RENEWAL:
    case REASON_API_SERVER_UNREACHABLE:
    case REASON_API_SERVER_NOT_WRITING:
    case REASON_RECORD_MISSING:
    case REASON_RECORD_STALE:
    case REASON_RECORD_INVALID:
    case REASON_COUNT:
        break;
    }
    return NODE_UNKNOWN;
}

/* On the boot clock, by which it does not matter whether the wall clock was set since. */
static struct mono transition_of(const struct node_look *look)
{
    struct mono after_boot = {1};
    int64_t age_ns = wall_since(look->wall, look->record.verdict.transition);
    return age_ns < 0 ? look->now : mono_max(mono_add(look->now, -age_ns), after_boot);
}

static struct mono holds_since(const struct node_look *look)
{
    const struct record *r = &look->record;
    const struct readiness *v = &r->verdict;
    enum readiness_reason reason = look->gate.reason;
    if (!look->has_record || reason == REASON_RECORD_INVALID) {
        return (struct mono){0};
    }
    if (look->gate.note[0] != '\0') { /* a dead writer's last word */
        return r->writer_until;
    }
    return reason == v->reason ? transition_of(look) : r->hold_until; /* else it is stale */
}

static struct mono next_flip(const struct node_look *look)
{
    const struct record *r = &look->record;
    const struct mono turns[] = {r->writer_until, r->hold_until};
    struct mono next = MONO_NEVER;
    for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
        if (mono_before(look->now, turns[i])) {
            next = mono_min(next, turns[i]);
        }
    }
    return look->has_record && r->verdict.admit ? next : MONO_NEVER;
}

void node_look_take(const struct admin_config *config, struct node_look *out)
{
    char boot_id[CLOCK_BOOT_ID_BYTES];
    struct err e = config->record_problem;
    int rc = config->record_rc;
    *out = (struct node_look){.wall = clock_wall_now(),
                              .has_record = rc == 0,
                              .record = config->record,
                              .flips_at = MONO_NEVER};
    text_format(out->path, sizeof(out->path), "%s", config->record_path);
    if (rc == 0) {
        rc = clock_boot_id(boot_id, &e);
    }
    out->now = clock_mono_now(); /* after reading: what was read is not of the future */
    if (rc != 0) {
        bool is_missing = rc == ERR_NOTFOUND;
        text_format(out->problem, sizeof(out->problem), "%s", e.msg);
        gate_refuse(is_missing ? REASON_RECORD_MISSING : REASON_RECORD_INVALID, e.msg, out->path,
                    &out->gate);
    } else {
        gate_judge(&out->record, boot_id, out->now, out->path, &out->gate);
        out->writer_exists = is_host_agent(out->record.pid);
        out->flips_at = next_flip(out);
        out->since = holds_since(out);
    }
    out->answer = answer_of(out);
}

const char *node_look_message(const struct node_look *look)
{
    return look->gate.message[0] != '\0' ? look->gate.message
           : look->gate.note[0] != '\0'  ? look->gate.note
                                         : look->record.verdict.message;
}

bool node_look_dpu_skew(const struct node_look *look, int64_t *out_ns)
{
    const struct readiness *v = &look->record.verdict;
    const char *renewed = v->lease.renew_stamp;
    struct wall stamped;
    if (!look->has_record || v->observed.ns <= 0 ||
        rfc3339_parse(renewed, strlen(renewed), &stamped, NULL) != 0) {
        return false;
    }
    int64_t age_ns = mono_since(look->now, v->observed);
    *out_ns = wall_since(stamped, (struct wall){.ns = mono_ns_sub(look->wall.ns, age_ns)});
    return true;
}

const char *node_answer_name(enum node_answer answer)
{
    static const char *const names[] = {
        [NODE_READY] = "Ready", [NODE_NOT_READY] = "NotReady", [NODE_UNKNOWN] = "Unknown"};
    return names[answer];
}
