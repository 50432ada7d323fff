/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record.h"

#include "base/json.h"
#include "base/text.h"
#include "base/time.h"

#include <string.h>

/* The checksum member and what precedes it; eight hexadecimal digits follow. */
static const char crc_member[] = ",\"crc32c\":\"";
enum { CRC_DIGITS = 8, CRC_TAIL_BYTES = sizeof(crc_member) - 1 + CRC_DIGITS + 3, WORD_BYTES = 64 };

/* ---- writing --------------------------------------------------------------------------------- */

static void put_key(struct json_writer *w, const char *key)
{
    json_put_raw(w, w->out[w->used - 1] == '{' ? "\"" : ",\"");
    json_put_raw(w, key);
    json_put_raw(w, "\":");
}

static void put_text(struct json_writer *w, const char *key, const char *value)
{
    put_key(w, key);
    json_put_text(w, value);
}

static void put_i64(struct json_writer *w, const char *key, int64_t value)
{
    put_key(w, key);
    json_put_i64(w, value);
}

static void put_wall(struct json_writer *w, const char *key, struct wall value)
{
    char text[RFC3339_BYTES];
    rfc3339_format_seconds(value, text);
    put_text(w, key, text);
}

static void put_lease(struct json_writer *w, const struct readiness_lease *lease)
{
    put_key(w, "lease");
    json_put_raw(w, "{");
    put_text(w, "namespace", lease->ns);
    put_text(w, "name", lease->name);
    put_text(w, "uid", lease->uid);
    put_text(w, "renewTime", lease->renew_stamp);
    put_text(w, "resourceVersion", lease->resource_version);
    put_i64(w, "durationSeconds", lease->duration_s);
    json_put_raw(w, "}");
}

static void put_host_probes(struct json_writer *w, const struct readiness_host_probes *host_probes)
{
    put_key(w, "hostProbes");
    json_put_raw(w, "{");
    for (size_t i = 0; i < host_probes->count; i++) {
        json_put_raw(w, i > 0 ? "," : "");
        json_put_text(w, host_probes->each[i].probe);
        json_put_raw(w, ":");
        json_put_text(w, host_probe_state_name(host_probes->each[i].says));
    }
    json_put_raw(w, "}");
}

static void put_record(struct json_writer *w, const struct record *r, const char *message)
{
    const struct readiness *v = &r->verdict;
    json_put_raw(w, "{");
    put_i64(w, "version", RECORD_VERSION);
    put_text(w, "node", r->node);
    put_text(w, "state", readiness_state_name(v->state));
    put_key(w, "admit");
    json_put_raw(w, v->admit ? "true" : "false");
    put_text(w, "reason", readiness_reason_name(v->reason));
    put_text(w, "message", message);
    put_lease(w, &v->lease);
    if (v->dpu_boot_id[0] != '\0') {
        put_text(w, "dpuBootId", v->dpu_boot_id);
    }
    if (v->dpu_rebooted.ns > 0) {
        put_wall(w, "dpuRebootTime", v->dpu_rebooted);
    }
    if (v->host_probes.count > 0) {
        put_host_probes(w, &v->host_probes);
    }
    put_text(w, "bootId", r->boot_id);
    put_i64(w, "observedBoottimeNs", v->observed.ns);
    put_i64(w, "leaseUntilBoottimeNs", v->lease_until.ns);
    put_i64(w, "checkedBoottimeNs", v->checked.ns);
    put_i64(w, "blindNs", v->blind_ns);
    /* Older readers refuse by themselves between this and writerUntil: never. */
    put_i64(w, "validUntilBoottimeNs", r->hold_until.ns);
    put_i64(w, "writerUntilBoottimeNs", r->writer_until.ns);
    put_i64(w, "holdUntilBoottimeNs", r->hold_until.ns);
    put_wall(w, "transitionTime", v->transition);
    put_wall(w, "writtenTime", r->written);
    put_i64(w, "pid", r->pid);
}

int record_encode(const struct record *r, char out_page[static RECORD_PAGE_BYTES], struct err *e)
{
    char message[NAMES_MESSAGE_BYTES];
    size_t keep = sizeof(message);
    /* Names may be long and a message may consist of quotes: shorten it until the page holds. */
    for (;;) {
        struct json_writer w = {.out = out_page, .max_bytes = RECORD_PAGE_BYTES - CRC_TAIL_BYTES};
        text_format(message, keep, "%s", r->verdict.message); /* cut on purpose */
        put_record(&w, r, message);
        if (!w.overflow) {
            uint32_t crc = crc32c_compute(out_page, w.used);
            char tail[CRC_TAIL_BYTES + 1];
            text_format(tail, sizeof(tail), "%s%08x\"}", crc_member, crc);
            memcpy(out_page + w.used, tail, strlen(tail));
            w.used += strlen(tail);
            memset(out_page + w.used, ' ', RECORD_PAGE_BYTES - w.used);
            out_page[RECORD_PAGE_BYTES - 1] = '\n';
            return 0;
        }
        if (keep <= 1) {
            return err_set(e, ERR_LIMIT, "the record does not fit %d bytes", RECORD_PAGE_BYTES);
        }
        keep /= 2;
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Members without which a record says nothing, one bit each. */
enum {
    HAS_VERSION = 1 << 0,
    HAS_STATE = 1 << 1,
    HAS_ADMIT = 1 << 2,
    HAS_REASON = 1 << 3,
    HAS_BOOT_ID = 1 << 4,
    HAS_WRITER = 1 << 5,
    HAS_HOLD = 1 << 6,
    HAS_OBSERVED = 1 << 7,
    HAS_ALL = (1 << 8) - 1,
};

struct reader {
    uint32_t seen; /* HAS_... */
    bool failed;   /* a member that is not what it should be: nothing of the record counts */
};

static void take_text(struct reader *in, struct json_slice value, char *out, size_t out_bytes)
{
    if (!json_scan_text(value, out, out_bytes)) {
        in->failed = true;
    }
}

static int64_t take_i64(struct reader *in, struct json_slice value, int64_t most)
{
    int64_t number = 0;
    if (text_to_i64(value.at, value.len, &number, NULL) != 0 || number < 0 || number > most) {
        in->failed = true;
        return 0;
    }
    return number;
}

static struct mono take_mono(struct reader *in, struct json_slice value)
{
    return (struct mono){take_i64(in, value, INT64_MAX)};
}

static struct wall take_wall(struct reader *in, struct json_slice value)
{
    char text[RFC3339_BYTES];
    struct wall time = {0};
    take_text(in, value, text, sizeof(text));
    if (in->failed || rfc3339_parse(text, strlen(text), &time, NULL) != 0) {
        in->failed = true;
    }
    return time;
}

static void take_lease(struct reader *in, struct json_slice object, struct readiness_lease *lease)
{
    struct json_walk w = json_walk_start(object);
    struct json_slice key;
    struct json_slice value;
    in->failed = in->failed || json_scan_kind(object) != JSON_KIND_OBJECT;
    while (json_walk_next(&w, &key, &value)) {
        if (json_scan_equals(key, "namespace")) {
            take_text(in, value, lease->ns, sizeof(lease->ns));
        } else if (json_scan_equals(key, "name")) {
            take_text(in, value, lease->name, sizeof(lease->name));
        } else if (json_scan_equals(key, "uid")) {
            take_text(in, value, lease->uid, sizeof(lease->uid));
        } else if (json_scan_equals(key, "renewTime")) {
            take_text(in, value, lease->renew_stamp, sizeof(lease->renew_stamp));
        } else if (json_scan_equals(key, "resourceVersion")) {
            take_text(in, value, lease->resource_version, sizeof(lease->resource_version));
        } else if (json_scan_equals(key, "durationSeconds")) {
            lease->duration_s = (uint32_t)take_i64(in, value, UINT32_MAX);
        }
    }
}

static void take_host_probes(struct reader *in, struct json_slice object,
                             struct readiness_host_probes *host_probes)
{
    struct json_walk w = json_walk_start(object);
    struct json_slice key;
    struct json_slice value;
    in->failed = in->failed || json_scan_kind(object) != JSON_KIND_OBJECT;
    while (!in->failed && json_walk_next(&w, &key, &value)) {
        char word[WORD_BYTES];
        if (host_probes->count == HOST_PROBES_MAX) {
            in->failed = true;
            return;
        }
        struct readiness_host_probe *host_probe = &host_probes->each[host_probes->count++];
        take_text(in, key, host_probe->probe, sizeof(host_probe->probe));
        take_text(in, value, word, sizeof(word));
        in->failed = in->failed || !host_probe_state_from_name(word, &host_probe->says);
    }
}

static void take_word_member(struct reader *in, struct json_slice key, struct json_slice value,
                             struct readiness *v)
{
    char word[WORD_BYTES];
    take_text(in, value, word, sizeof(word));
    if (json_scan_equals(key, "state")) {
        in->failed = in->failed || !readiness_state_from_name(word, &v->state);
        in->seen |= HAS_STATE;
    } else {
        in->failed = in->failed || !readiness_reason_from_name(word, &v->reason);
        in->seen |= HAS_REASON;
    }
}

static void take_verdict_member(struct reader *in, struct json_slice key, struct json_slice value,
                                struct readiness *v)
{
    if (json_scan_equals(key, "state") || json_scan_equals(key, "reason")) {
        take_word_member(in, key, value, v);
    } else if (json_scan_equals(key, "admit")) {
        in->failed = in->failed || json_scan_kind(value) != JSON_KIND_BOOL;
        v->admit = value.at[0] == 't';
        in->seen |= HAS_ADMIT;
    } else if (json_scan_equals(key, "message")) {
        take_text(in, value, v->message, sizeof(v->message));
    } else if (json_scan_equals(key, "lease")) {
        take_lease(in, value, &v->lease);
    } else if (json_scan_equals(key, "observedBoottimeNs")) {
        v->observed = take_mono(in, value);
        in->seen |= HAS_OBSERVED;
    } else if (json_scan_equals(key, "transitionTime")) {
        v->transition = take_wall(in, value);
    } else if (json_scan_equals(key, "leaseUntilBoottimeNs")) { /* these: not in older records */
        v->lease_until = take_mono(in, value);
    } else if (json_scan_equals(key, "checkedBoottimeNs")) {
        v->checked = take_mono(in, value);
    } else if (json_scan_equals(key, "blindNs")) {
        v->blind_ns = take_i64(in, value, INT64_MAX);
    } else if (json_scan_equals(key, "hostProbes")) {
        take_host_probes(in, value, &v->host_probes);
    } else if (json_scan_equals(key, "dpuBootId")) {
        take_text(in, value, v->dpu_boot_id, sizeof(v->dpu_boot_id));
    } else if (json_scan_equals(key, "dpuRebootTime")) {
        v->dpu_rebooted = take_wall(in, value);
    }
}

static void take_member(struct reader *in, struct json_slice key, struct json_slice value,
                        struct record *r)
{
    if (json_scan_equals(key, "version")) {
        in->failed = in->failed || take_i64(in, value, INT64_MAX) != RECORD_VERSION;
        in->seen |= HAS_VERSION;
    } else if (json_scan_equals(key, "bootId")) {
        take_text(in, value, r->boot_id, sizeof(r->boot_id));
        in->seen |= HAS_BOOT_ID;
    } else if (json_scan_equals(key, "writerUntilBoottimeNs")) {
        r->writer_until = take_mono(in, value);
        in->seen |= HAS_WRITER;
    } else if (json_scan_equals(key, "holdUntilBoottimeNs")) {
        r->hold_until = take_mono(in, value);
        in->seen |= HAS_HOLD;
    } else if (json_scan_equals(key, "node")) {
        take_text(in, value, r->node, sizeof(r->node));
    } else if (json_scan_equals(key, "writtenTime")) {
        r->written = take_wall(in, value);
    } else if (json_scan_equals(key, "pid")) {
        r->pid = (int32_t)take_i64(in, value, INT32_MAX);
    } else {
        take_verdict_member(in, key, value, &r->verdict);
    }
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
    struct json_slice key;
    struct json_slice value;
    struct reader in = {.seen = 0};
    struct record r = {.pid = 0};
    int rc = check_crc(page, len, e);
    if (rc != 0) {
        return rc;
    }
    rc = json_scan_check(page, len, &object, e);
    if (rc != 0) {
        return rc;
    }
    struct json_walk w = json_walk_start(object);
    while (json_walk_next(&w, &key, &value)) {
        take_member(&in, key, value, &r);
        if (in.failed) {
            char name[WORD_BYTES];
            (void)json_scan_text(key, name, sizeof(name)); /* one that we know, so it fits */
            return err_set(e, ERR_PARSE, "the record's %s is not what it should be", name);
        }
    }
    if (in.seen != HAS_ALL) {
        return err_set(e, ERR_PARSE, "the record is not complete");
    }
    *out = r;
    return 0;
}
