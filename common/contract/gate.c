/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/gate.h"

#include "base/text.h"

#include <stdio.h>

/* Tolerated where a record was written between our reading of it and of the clock. */
#define FUTURE_TOLERANCE_NS (1 * NS_PER_SEC)

/* The part of the chain that is missing, and how to look. */
#define HOST_AGENT_CURE                                                                            \
    "is it running on this node? (systemctl status dpu-host-agent, or kubectl logs of its pod)"

enum { AGE_BYTES = 32, SHOWN_PATH_BYTES = 200 };

/* "12.3 s", rounded down; "0.0 s" where `then` is a moment ahead. */
static const char *age_text(struct mono now, struct mono then, char out[static AGE_BYTES])
{
    int64_t age_ns = mono_before(then, now) ? mono_since(now, then) : 0;
    int64_t tenths = age_ns / (NS_PER_SEC / 10);
    (void)snprintf(out, AGE_BYTES, "%lld.%lld s", (long long)(tenths / 10),
                   (long long)(tenths % 10)); /* 19 digits fit */
    return out;
}

static void refuse(struct gate_decision *out, enum readiness_reason reason, const char *message)
{
    out->admit = false;
    out->reason = reason;
    (void)text_copy(out->message, sizeof(out->message), message); /* its documented bound */
}

/* The verdict says Ready or held, but its time is up while its writer is alive. */
static void refuse_expired(const struct record *r, struct mono now, struct gate_decision *out)
{
    char age[AGE_BYTES];
    char message[NAMES_MESSAGE_BYTES];
    const struct readiness_lease *lease = &r->verdict.lease;
    bool was_seen = r->verdict.observed.ns > 0;
    (void)snprintf(message, sizeof(message), "the DPU has not renewed lease %.200s/%.200s%s%s",
                   lease->ns, lease->name, was_seen ? " for " : "",
                   was_seen ? age_text(now, r->verdict.observed, age) : ""); /* all of it fits */
    refuse(out, REASON_LEASE_EXPIRED, message);
}

static void judge_admitting(const struct record *r, struct mono now, struct gate_decision *out)
{
    char age[AGE_BYTES];
    char message[NAMES_MESSAGE_BYTES];
    if (mono_before(now, r->verdict.valid_until)) {
        out->admit = true;
    } else if (mono_before(now, r->writer_until)) {
        refuse_expired(r, now, out);
    } else if (mono_before(now, r->hold_until)) {
        out->admit = true;
        (void)snprintf(out->note, sizeof(out->note),
                       "dpu-host-agent (pid %d) is overdue for %s; its last word, %s, still counts",
                       (int)r->pid, age_text(now, r->writer_until, age),
                       readiness_state_name(r->verdict.state)); /* all of it fits */
    } else {
        (void)snprintf(message, sizeof(message),
                       "dpu-host-agent is overdue for %s, too long for its last word to "
                       "count: " HOST_AGENT_CURE,
                       age_text(now, r->writer_until, age)); /* all of it fits */
        refuse(out, REASON_RECORD_STALE, message);
    }
}

static void describe(const struct record *r, struct mono now, const char *path,
                     struct gate_decision *out)
{
    char age[AGE_BYTES];
    bool was_seen = r->verdict.observed.ns > 0;
    (void)snprintf(out->details, sizeof(out->details),
                   "reason %s, last renewal seen %s%s, record %s",
                   readiness_reason_name(out->reason),
                   was_seen ? age_text(now, r->verdict.observed, age) : "never",
                   was_seen ? " ago" : "", path); /* truncation is the bound */
}

void gate_judge(const struct record *record, const char *boot_id, struct mono now, const char *path,
                struct gate_decision *out)
{
    *out = (struct gate_decision){.reason = record->verdict.reason};
    if (!text_equal(record->boot_id, boot_id)) {
        gate_refuse(
            REASON_RECORD_INVALID,
            "it was written before this boot, and not by dpu-host-agent since: " HOST_AGENT_CURE,
            path, out);
        return;
    }
    if (mono_before(mono_add(now, FUTURE_TOLERANCE_NS), record->verdict.observed)) {
        gate_refuse(REASON_RECORD_INVALID,
                    "it speaks of a time yet to come: remove it and restart dpu-host-agent", path,
                    out);
        return;
    }
    if (record->verdict.admit && record->verdict.state != READINESS_NOT_READY) {
        judge_admitting(record, now, out);
    } else {
        refuse(out, record->verdict.reason, record->verdict.message);
    }
    describe(record, now, path, out);
}

void gate_refuse(enum readiness_reason reason, const char *why, const char *path,
                 struct gate_decision *out)
{
    char message[NAMES_MESSAGE_BYTES];
    *out = (struct gate_decision){.reason = reason};
    if (reason == REASON_RECORD_MISSING) {
        (void)snprintf(
            message, sizeof(message),
            "there is no readiness record '%.*s', which dpu-host-agent writes: " HOST_AGENT_CURE,
            (int)SHOWN_PATH_BYTES, path); /* all of it fits */
    } else {
        (void)snprintf(message, sizeof(message), "the readiness record '%.*s' cannot be used: %s",
                       (int)SHOWN_PATH_BYTES, path, why); /* truncation is the bound */
    }
    refuse(out, reason, message);
    (void)snprintf(out->details, sizeof(out->details), "reason %s, record %s",
                   readiness_reason_name(reason), path); /* same */
}
