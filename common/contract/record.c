/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record.h"

#include "base/json.h"
#include "base/text.h"
#include "base/time.h"

#include <string.h>

/* The checksum member and what precedes it; eight hexadecimal digits follow. */
static const char crc_member[] = ",\"crc32c\":\"";
enum { CRC_DIGITS = 8, CRC_TAIL_BYTES = sizeof(crc_member) - 1 + CRC_DIGITS + 3, WORD_BYTES = 64 };

/* ---- members --------------------------------------------------------------------------------- */

enum kind {
    KIND_VERSION,
    KIND_TEXT,
    KIND_INT32, /* signed or not: no value needs the highest bit */
    KIND_INT64, /* also boot times */
    KIND_TIME,
    KIND_BOOL,
    KIND_STATE,
    KIND_REASON,
    KIND_LEASE,
    KIND_HOST_PROBES,
};

enum {
    NEEDED = 1 << 0, /* without it a record says nothing */
    IF_SET = 1 << 1, /* left out where there is nothing to say */
};

struct member {
    const char *name;
    enum kind kind;
    unsigned flags;
    size_t at; /* in its struct */
    size_t bytes;
};

#define IN(type, field)     offsetof(struct type, field), sizeof(((struct type *)0)->field)
#define IN_RECORD(field)    IN(record, field)
#define IN_READINESS(field) IN(record, readiness.field)

/* In the order of the page. What is not NEEDED is missing in older records. */
static const struct member record_members[] = {
    {.name = "version", .kind = KIND_VERSION, .flags = NEEDED},
    {"node", KIND_TEXT, 0, IN_RECORD(node)},
    {"state", KIND_STATE, NEEDED, IN_READINESS(state)},
    {"admit", KIND_BOOL, NEEDED, IN_READINESS(admit)},
    {"reason", KIND_REASON, NEEDED, IN_RECORD(readiness)},
    {"message", KIND_TEXT, 0, IN_READINESS(message)},
    {"lease", KIND_LEASE, 0, IN_READINESS(lease)},
    {"dpuBootId", KIND_TEXT, IF_SET, IN_READINESS(dpu_boot_id)},
    {"dpuBootIdBefore", KIND_TEXT, IF_SET, IN_READINESS(dpu_boot_before)},
    {"dpuRebootTime", KIND_TIME, IF_SET, IN_READINESS(dpu_rebooted)},
    {"hostProbes", KIND_HOST_PROBES, IF_SET, IN_READINESS(host_probes)},
    {"bootId", KIND_TEXT, NEEDED, IN_RECORD(boot_id)},
    {"observedBoottimeNs", KIND_INT64, NEEDED, IN_READINESS(observed)},
    {"leaseUntilBoottimeNs", KIND_INT64, 0, IN_READINESS(lease_until)},
    {"checkedBoottimeNs", KIND_INT64, 0, IN_RECORD(evidence.checked)},
    {"failingBoottimeNs", KIND_INT64, 0, IN_RECORD(evidence.failing)},
    {"blindNs", KIND_INT64, 0, IN_RECORD(evidence.blind_ns)},
    {"grantedBoottimeNs", KIND_INT64, 0, IN_RECORD(evidence.granted)},
    {"marked", KIND_BOOL, 0, IN_RECORD(evidence.has_marked)},
    {"writerUntilBoottimeNs", KIND_INT64, NEEDED, IN_RECORD(writer_until)},
    {"holdUntilBoottimeNs", KIND_INT64, NEEDED, IN_RECORD(hold_until)},
    {"transitionTime", KIND_TIME, 0, IN_READINESS(transition)},
    {"writtenTime", KIND_TIME, 0, IN_RECORD(written)},
    {"pid", KIND_INT32, 0, IN_RECORD(pid)},
    {.name = NULL},
};

static const struct member lease_members[] = {
    {"namespace", KIND_TEXT, 0, IN(readiness_lease, ns)},
    {"name", KIND_TEXT, 0, IN(readiness_lease, name)},
    {"uid", KIND_TEXT, 0, IN(readiness_lease, uid)},
    {"renewTime", KIND_TEXT, 0, IN(readiness_lease, renew_stamp)},
    {"resourceVersion", KIND_TEXT, 0, IN(readiness_lease, resource_version)},
    {"durationSeconds", KIND_INT32, 0, IN(readiness_lease, duration_s)},
    {.name = NULL},
};

/* ---- writing --------------------------------------------------------------------------------- */

/* Whether a member that stands in the page only if it is set is; a number always is. */
static bool is_set(const struct member *m, const void *value)
{
    if (m->kind == KIND_HOST_PROBES) {
        return ((const struct readiness_host_probes *)value)->count > 0;
    }
    if (m->kind == KIND_TIME) {
        return ((const struct wall *)value)->ns > 0;
    }
    return m->kind != KIND_TEXT || *(const char *)value != '\0';
}

static void put_members(struct json_writer *w, const struct member *members, const void *from);

static void put_host_probes(struct json_writer *w, const struct readiness_host_probes *probes)
{
    json_put_raw(w, "{");
    for (size_t i = 0; i < probes->count; i++) {
        json_put_raw(w, i > 0 ? "," : "");
        json_put_text(w, probes->each[i].probe);
        json_put_raw(w, ":");
        json_put_text(w, host_probe_state_name(probes->each[i].says));
    }
    json_put_raw(w, "}");
}

static void put_value(struct json_writer *w, enum kind kind, const void *value)
{
    switch (kind) {
    case KIND_VERSION:
        json_put_i64(w, RECORD_VERSION);
        break;
    case KIND_TEXT:
        json_put_text(w, value);
        break;
    case KIND_INT32:
        json_put_i64(w, *(const int32_t *)value);
        break;
    case KIND_INT64:
        json_put_i64(w, *(const int64_t *)value);
        break;
    case KIND_TIME:
        json_put_text(w, rfc3339_text(*(const struct wall *)value, false).text);
        break;
    case KIND_BOOL:
        json_put_raw(w, *(const bool *)value ? "true" : "false");
        break;
    case KIND_STATE:
        json_put_text(w, readiness_state_name(*(const enum readiness_state *)value));
        break;
    case KIND_REASON:
        json_put_text(w, readiness_reason_word(value));
        break;
    case KIND_LEASE:
        put_members(w, lease_members, value);
        break;
    case KIND_HOST_PROBES:
        put_host_probes(w, value);
        break;
    }
}

static void put_members(struct json_writer *w, const struct member *members, const void *from)
{
    json_put_raw(w, "{");
    for (const struct member *m = members; m->name; m++) {
        const void *value = (const char *)from + m->at;
        if (!(m->flags & IF_SET) || is_set(m, value)) {
            json_put_raw(w, m > members ? "," : "");
            json_put_text(w, m->name);
            json_put_raw(w, ":");
            put_value(w, m->kind, value);
        }
    }
    json_put_raw(w, "}");
}

int record_encode(const struct record *r, char out_page[static RECORD_PAGE_BYTES], struct err *e)
{
    struct record shown = *r;
    size_t keep = sizeof(shown.readiness.message);
    char tail[CRC_TAIL_BYTES + 1];
    struct json_writer w = {.overflow = true};
    /* Names may be long and a message may consist of quotes: shorten it until the page holds. */
    for (; w.overflow; keep /= 2) {
        if (keep == 0) {
            return err_set(e, ERR_LIMIT, "the record does not fit into %d bytes",
                           RECORD_PAGE_BYTES);
        }
        w = (struct json_writer){.out = out_page,
                                 .max_bytes = RECORD_PAGE_BYTES - CRC_TAIL_BYTES + 1};
        (void)text_copy(shown.readiness.message, keep, r->readiness.message); /* cut on purpose */
        put_members(&w, record_members, &shown);
    }
    w.used--; /* the checksum is the last member */
    text_format(tail, sizeof(tail), "%s%08x\"}", crc_member, crc32c_compute(out_page, w.used));
    memcpy(out_page + w.used, tail, strlen(tail));
    w.used += strlen(tail);
    memset(out_page + w.used, ' ', RECORD_PAGE_BYTES - w.used);
    out_page[RECORD_PAGE_BYTES - 1] = '\n';
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool take_members(struct json_slice object, const struct member *members, void *to,
                         const char **out_bad);

static bool take_int(struct json_slice value, int64_t most, int64_t *out)
{
    return text_to_i64(value.at, value.len, out, NULL) == 0 && *out >= 0 && *out <= most;
}

static bool take_time(struct json_slice value, struct wall *out)
{
    char text[RFC3339_BYTES];
    return json_scan_text(value, text, sizeof(text)) &&
           rfc3339_parse(text, strlen(text), out, NULL) == 0;
}

/* A newer writer may have a reason that we do not know: the state says what it means for Pods. */
static bool take_reason(struct json_slice value, struct readiness *out)
{
    char word[NAMES_REASON_BYTES];
    if (!json_scan_text(value, word, sizeof(word)) || word[0] == '\0') {
        return false;
    }
    if (!readiness_reason_from_name(word, &out->reason) || out->reason == REASON_OTHER) {
        out->reason = REASON_OTHER;
        text_sanitize(out->other_reason, sizeof(out->other_reason), word, strlen(word));
    }
    return true;
}

/* What it says of a probe in words that we do not know, or of more than we have room for, tells
 * nothing. */
static bool take_host_probes(struct json_slice object, struct readiness_host_probes *out)
{
    struct json_walk w = json_walk_start(object);
    char word[WORD_BYTES];
    bool is_good = json_scan_kind(object) == JSON_KIND_OBJECT;
    while (is_good && json_walk_next(&w)) {
        struct readiness_host_probe probe = {.probe = ""};
        is_good = json_scan_text(w.key, probe.probe, sizeof(probe.probe)) &&
                  json_scan_text(w.value, word, sizeof(word));
        if (is_good && out->count < HOST_PROBES_MAX) {
            bool is_known = host_probe_state_from_name(word, &probe.says);
            probe.says = is_known ? probe.says : HOST_PROBE_NEVER_WELL;
            out->each[out->count++] = probe;
        }
    }
    return is_good;
}

/* False if it is not what it should be. */
static bool take_value(const struct member *m, struct json_slice value, void *out)
{
    char word[WORD_BYTES];
    const char *bad;
    int64_t number = 0;
    bool is_good = true;
    switch (m->kind) {
    case KIND_VERSION:
        return take_int(value, INT64_MAX, &number) && number == RECORD_VERSION;
    case KIND_TEXT:
        return json_scan_text(value, out, m->bytes);
    case KIND_INT32:
        is_good = take_int(value, INT32_MAX, &number);
        *(int32_t *)out = (int32_t)number;
        return is_good;
    case KIND_INT64:
        return take_int(value, INT64_MAX, out);
    case KIND_TIME:
        return take_time(value, out);
    case KIND_BOOL:
        *(bool *)out = json_scan_kind(value) == JSON_KIND_TRUE;
        return *(bool *)out || json_scan_kind(value) == JSON_KIND_FALSE;
    case KIND_STATE:
        return json_scan_text(value, word, sizeof(word)) && readiness_state_from_name(word, out);
    case KIND_REASON:
        return take_reason(value, out);
    case KIND_LEASE:
        return take_members(value, lease_members, out, &bad);
    case KIND_HOST_PROBES:
        return take_host_probes(value, out);
    }
    return false;
}

/* False if a member is not what it should be, or one that is NEEDED is missing: then *out_bad is
 * NULL. Passes over what is none of them: a newer agent's. */
static bool take_members(struct json_slice object, const struct member *members, void *to,
                         const char **out_bad)
{
    uint32_t missing = 0; /* a bit for each */
    for (const struct member *m = members; m->name; m++) {
        missing |= m->flags & NEEDED ? UINT32_C(1) << (m - members) : 0;
    }
    for (struct json_walk w = json_walk_start(object); json_walk_next(&w);) {
        const struct member *m = members;
        while (m->name && !json_scan_equals(w.key, m->name)) {
            m++;
        }
        *out_bad = m->name;
        missing &= ~(UINT32_C(1) << (m - members));
        if (m->name && !take_value(m, w.value, (char *)to + m->at)) {
            return false;
        }
    }
    *out_bad = NULL;
    return missing == 0 && json_scan_kind(object) == JSON_KIND_OBJECT;
}

/* Does the page end with the checksum of what comes before it? */
static int check_crc(const char *page, size_t len, struct err *e)
{
    size_t end = len;
    char expected[CRC_DIGITS + 1];
    const size_t tail = sizeof(crc_member) - 1 + CRC_DIGITS + 2; /* quote and brace */
    while (end > 0 && (page[end - 1] == ' ' || page[end - 1] == '\n')) {
        end--;
    }
    if (end < tail || memcmp(page + end - tail, crc_member, sizeof(crc_member) - 1) != 0 ||
        memcmp(page + end - 2, "\"}", 2) != 0) {
        return err_set(e, ERR_PARSE, "the record has no checksum at its end");
    }
    size_t covered = end - tail;
    text_format(expected, sizeof(expected), "%08x", crc32c_compute(page, covered));
    if (memcmp(page + end - 2 - CRC_DIGITS, expected, CRC_DIGITS) != 0) {
        return err_set(e, ERR_PARSE, "the record's checksum does not match");
    }
    return 0;
}

int record_decode(const char *page, size_t len, struct record *out, struct err *e)
{
    struct json_slice object;
    const char *bad;
    struct record r = {.pid = 0};
    int rc = check_crc(page, len, e);
    if (rc != 0 || (rc = json_scan_check(page, len, &object, e)) != 0) {
        return rc;
    }
    if (!take_members(object, record_members, &r, &bad)) {
        return bad ? err_set(e, ERR_PARSE, "the record's %s is missing or invalid", bad)
                   : err_set(e, ERR_PARSE, "the record is incomplete");
    }
    *out = r;
    return 0;
}

/* ---- the gate -------------------------------------------------------------------------------- */

/* Tolerated where a record was written between our reading of it and of the clock. */
#define FUTURE_TOLERANCE_NS (1 * NS_PER_SEC)

/* The part of the chain that is missing, and how to look. */
#define HOST_AGENT_CURE                                                                            \
    "check that it runs on this node (systemctl status dpu-host-agent, or kubectl logs of its "    \
    "Pod)"

enum { SHOWN_PATH_BYTES = 200, TIME_WORDS_BYTES = 24 + RFC3339_BYTES };

/*
 * "<before>2026-11-20T10:00:00Z", or "" if the time is not known. Times and never ages: the kubelet
 * compares texts, and a verdict that lasts has to say the same at each look.
 */
static const char *time_words(const char *before, struct wall time,
                              char out[static TIME_WORDS_BYTES])
{
    out[0] = '\0';
    if (time.ns != 0) {
        text_format(out, TIME_WORDS_BYTES, "%s%s", before, rfc3339_text(time, false).text);
    }
    return out;
}

/* `since` is the record's; what its reader found is of no time that it could name. A refusal ends
 * with what to do next: an admin reads it where the kubelet shows it. */
static void describe(struct gate_decision *out, struct wall since, const char *path)
{
    char when[TIME_WORDS_BYTES];
    text_format(out->details, sizeof(out->details), "reason %s%s, record %s%s", out->word,
                time_words(", since ", since, when), path,
                out->admit ? "" : "; run 'dpuctl doctor' on this node or in dpu-host-agent's Pod");
}

static void judge_admitting(const struct record *r, struct mono now, struct gate_decision *out)
{
    char when[TIME_WORDS_BYTES];
    if (!mono_before(now, r->hold_until)) {
        out->reason = REASON_RECORD_STALE;
        text_format(out->message, sizeof(out->message),
                    "dpu-host-agent %s, so its record no longer counts: " HOST_AGENT_CURE
                    "; if it is gone for good, take the gate out: 'dpu-host-agent uninstall-cni', "
                    "or remove 0*-dpu-gate.conf* from the CNI directory",
                    r->written.ns != 0 ? time_words("last wrote at ", r->written, when)
                                       : "has stopped writing");
        return;
    }
    out->admit = true;
    if (!mono_before(now, r->writer_until)) {
        text_format(out->note, sizeof(out->note),
                    "dpu-host-agent (pid %d) is overdue%s; its last verdict, %s, still counts",
                    (int)r->pid, time_words(", it last wrote at ", r->written, when),
                    readiness_state_name(r->readiness.state));
    }
}

void gate_judge(const struct record *record, const char *boot_id, struct mono now, const char *path,
                struct gate_decision *out)
{
    const char *why = NULL;
    if (!text_equal(record->boot_id, boot_id)) {
        why = "dpu-host-agent has not written it since this host booted: " HOST_AGENT_CURE;
    } else if (mono_before(mono_add(now, FUTURE_TOLERANCE_NS), record->readiness.observed)) {
        why = "its time is in the future: remove it and restart dpu-host-agent";
    }
    if (why) {
        gate_refuse(REASON_RECORD_INVALID, why, path, out);
        return;
    }
    *out = (struct gate_decision){.reason = record->readiness.reason};
    if (record->readiness.admit && record->readiness.state != READINESS_NOT_READY) {
        judge_admitting(record, now, out);
    } else {
        (void)text_copy(out->message, sizeof(out->message), record->readiness.message);
    }
    bool is_records = out->reason == record->readiness.reason;
    (void)text_copy(out->word, sizeof(out->word),
                    is_records ? readiness_reason_word(&record->readiness)
                               : readiness_reason_name(out->reason));
    describe(out, is_records ? record->readiness.transition : (struct wall){0}, path);
}

void gate_refuse(enum readiness_reason reason, const char *why, const char *path,
                 struct gate_decision *out)
{
    *out = (struct gate_decision){.reason = reason};
    (void)text_copy(out->word, sizeof(out->word), readiness_reason_name(reason));
    if (reason == REASON_RECORD_MISSING) {
        text_format(out->message, sizeof(out->message),
                    "there is no readiness record '%.*s', which dpu-host-agent "
                    "writes: " HOST_AGENT_CURE,
                    (int)SHOWN_PATH_BYTES, path);
    } else {
        text_format(out->message, sizeof(out->message),
                    "the readiness record '%.*s' cannot be used: %s", (int)SHOWN_PATH_BYTES, path,
                    why);
    }
    describe(out, (struct wall){0}, path);
}

int gate_status_code(const struct gate_decision *decision)
{
    return decision->admit ? 0 : readiness_reason_traits(decision->reason)->status_code;
}
