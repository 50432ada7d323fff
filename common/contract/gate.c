/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/gate.h"

#include "base/text.h"
#include "base/time.h"

#include <stdio.h>

/* Tolerated where a record was written between our reading of it and of the clock. */
#define FUTURE_TOLERANCE_NS (1 * NS_PER_SEC)

/* The part of the chain that is missing, and how to look. */
#define HOST_AGENT_CURE                                                                            \
    "is it running on this node? (systemctl status dpu-host-agent, or kubectl logs of its pod)"

enum { SHOWN_PATH_BYTES = 200, TIME_WORDS_BYTES = 24 + RFC3339_BYTES };

/*
 * "<before>2026-11-20T10:00:00Z", or "" if the time is not known. Times and never ages: the kubelet
 * compares texts, and a verdict that lasts has to say the same at each look.
 */
static const char *time_words(const char *before, struct wall time,
                              char out[static TIME_WORDS_BYTES])
{
    char text[RFC3339_BYTES];
    out[0] = '\0';
    if (time.ns != 0) {
        rfc3339_format_seconds(time, text);
        text_format(out, TIME_WORDS_BYTES, "%s%s", before, text);
    }
    return out;
}

static void refuse(struct gate_decision *out, enum readiness_reason reason, const char *message)
{
    out->admit = false;
    out->reason = reason;
    text_format(out->message, sizeof(out->message), "%s", message);
}

static void refuse_stale(const struct record *r, struct gate_decision *out)
{
    char when[TIME_WORDS_BYTES];
    char message[NAMES_MESSAGE_BYTES];
    text_format(message, sizeof(message),
                "dpu-host-agent %s, too long ago for its last word to count: " HOST_AGENT_CURE,
                r->written.ns != 0 ? time_words("last wrote at ", r->written, when)
                                   : "has stopped writing");
    refuse(out, REASON_RECORD_STALE, message);
}

static void note_held(const struct record *r, struct gate_decision *out)
{
    char when[TIME_WORDS_BYTES];
    text_format(out->note, sizeof(out->note),
                "dpu-host-agent (pid %d) is overdue%s; its last word, %s, still counts",
                (int)r->pid, time_words(", it last wrote at ", r->written, when),
                readiness_state_name(r->verdict.state));
}

static void judge_admitting(const struct record *r, struct mono now, struct gate_decision *out)
{
    if (!mono_before(now, r->hold_until)) {
        refuse_stale(r, out);
        return;
    }
    out->admit = true;
    if (!mono_before(now, r->writer_until)) {
        note_held(r, out);
    }
}

/* Since when is the record's word; what its reader found is of no time that it could name. */
static void describe(const struct record *r, const char *path, struct gate_decision *out)
{
    char since[TIME_WORDS_BYTES];
    bool is_records = out->reason == r->verdict.reason;
    text_format(
        out->details, sizeof(out->details), "reason %s%s, record %s",
        readiness_reason_name(out->reason),
        time_words(", since ", is_records ? r->verdict.transition : (struct wall){0}, since), path);
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
    describe(record, path, out);
}

void gate_refuse(enum readiness_reason reason, const char *why, const char *path,
                 struct gate_decision *out)
{
    char message[NAMES_MESSAGE_BYTES];
    *out = (struct gate_decision){.reason = reason};
    if (reason == REASON_RECORD_MISSING) {
        text_format(
            message, sizeof(message),
            "there is no readiness record '%.*s', which dpu-host-agent writes: " HOST_AGENT_CURE,
            (int)SHOWN_PATH_BYTES, path);
    } else {
        text_format(message, sizeof(message), "the readiness record '%.*s' cannot be used: %s",
                    (int)SHOWN_PATH_BYTES, path, why);
    }
    refuse(out, reason, message);
    text_format(out->details, sizeof(out->details), "reason %s, record %s",
                readiness_reason_name(reason), path);
}

int gate_status_code(const struct gate_decision *decision)
{
    enum { NOT_AVAILABLE = 50, LIMITED_CONNECTIVITY = 51 };
    if (decision->admit) {
        return 0;
    }
    return decision->reason == REASON_POD_NETWORK_LOST ? LIMITED_CONNECTIVITY : NOT_AVAILABLE;
}
