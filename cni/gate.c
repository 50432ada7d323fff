/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/gate.h"

#include "base/text.h"

#include <stdio.h>

/* Tolerated where a record was written between our reading of it and of the clock. */
#define FUTURE_TOLERANCE_NS (1 * NS_PER_SEC)

/* "12.3 s", truncated to a tenth. */
static void age_text(struct mono now, struct mono then, char *out, size_t out_bytes)
{
    int64_t tenths = mono_since(now, then) / (NS_PER_SEC / 10);
    (void)snprintf(out, out_bytes, "%lld.%lld s", (long long)(tenths / 10),
                   (long long)(tenths % 10)); /* sized by the callers */
}

static void refuse(struct gate_decision *out, enum readiness_reason reason, const char *message)
{
    out->admit = false;
    out->reason = reason;
    (void)text_copy(out->message, sizeof(out->message), message); /* its documented bound */
}

/* The verdict says Ready or held, but its time is up while its writer is alive. */
static void refuse_expired(struct gate_decision *out, const struct record *r)
{
    char message[NAMES_MESSAGE_BYTES];
    const struct readiness_lease *lease = &r->verdict.lease;
    (void)snprintf(message, sizeof(message), "the DPU has not renewed lease %.200s/%.200s for %us",
                   lease->ns, lease->name, lease->duration_s); /* names fit in practice; the bound else */
    refuse(out, REASON_LEASE_EXPIRED, message);
}

static void judge_admitting(const struct record *r, struct mono now, struct gate_decision *out)
{
    char age[48];
    if (mono_before(now, r->verdict.valid_until)) {
        out->admit = true;
        return;
    }
    if (mono_before(now, r->writer_until)) {
        refuse_expired(out, r);
        return;
    }
    age_text(now, r->writer_until, age, sizeof(age));
    if (mono_before(now, r->hold_until)) {
        out->admit = true;
        (void)snprintf(out->note, sizeof(out->note),
                       "dpu-host-agent (pid %d) is %s overdue; its last word, %s, still counts",
                       (int)r->pid, age, readiness_state_name(r->verdict.state)); /* bound */
        return;
    }
    char message[NAMES_MESSAGE_BYTES];
    (void)snprintf(message, sizeof(message),
                   "dpu-host-agent is %s overdue, too long to trust its last word: is it running "
                   "on this node?",
                   age); /* truncation is the bound */
    refuse(out, REASON_RECORD_STALE, message);
}

static void describe(const struct record *r, struct mono now, const char *path,
                     struct gate_decision *out)
{
    char age[48] = "never";
    if (r->verdict.observed.ns > 0) {
        age_text(now, r->verdict.observed, age, sizeof(age));
    }
    (void)snprintf(out->details, sizeof(out->details),
                   "reason %s, last renewal seen %s%s, record %s",
                   readiness_reason_name(out->reason), age,
                   r->verdict.observed.ns > 0 ? " ago" : "", path); /* truncation is the bound */
}

void gate_judge(const struct record *record, const char *boot_id, struct mono now, const char *path,
                struct gate_decision *out)
{
    *out = (struct gate_decision){.reason = record->verdict.reason};
    if (!text_equal(record->boot_id, boot_id)) {
        gate_refuse(REASON_RECORD_INVALID, "it was written before this boot", path, out);
        return;
    }
    if (mono_before(mono_add(now, FUTURE_TOLERANCE_NS), record->verdict.observed)) {
        gate_refuse(REASON_RECORD_INVALID, "it speaks of a time yet to come", path, out);
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
        (void)snprintf(message, sizeof(message),
                       "no readiness record at %.200s: is dpu-host-agent running on this node?",
                       path); /* truncation is the bound */
    } else {
        (void)snprintf(message, sizeof(message), "readiness record %.200s cannot be used: %.200s",
                       path, why); /* same */
    }
    refuse(out, reason, message);
    (void)snprintf(out->details, sizeof(out->details), "reason %s, record %.200s: %.200s",
                   readiness_reason_name(reason), path, why); /* same */
}
