/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record.h"

#include "base/crc32c.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "contract/record_page.h"

#include <stdio.h>
#include <string.h>

/* The checksum member and what precedes it; eight hexadecimal digits follow. */
static const char crc_member[] = ",\"crc32c\":\"";
enum { CRC_DIGITS = 8, CRC_TAIL_BYTES = sizeof(crc_member) - 1 + CRC_DIGITS + 3, KEY_BYTES = 64 };

/* ---- writing --------------------------------------------------------------------------------- */

static void put_key(struct record_writer *w, const char *key)
{
    record_put_raw(w, w->used > 0 && w->page[w->used - 1] == '{' ? "\"" : ",\"");
    record_put_raw(w, key);
    record_put_raw(w, "\":");
}

static void put_text(struct record_writer *w, const char *key, const char *value)
{
    put_key(w, key);
    record_put_text(w, value);
}

static void put_i64(struct record_writer *w, const char *key, int64_t value)
{
    put_key(w, key);
    record_put_i64(w, value);
}

static void put_wall(struct record_writer *w, const char *key, struct wall value)
{
    char text[RFC3339_BYTES];
    rfc3339_format_seconds(value, text);
    put_text(w, key, text);
}

static void put_lease(struct record_writer *w, const struct readiness_lease *lease)
{
    put_key(w, "lease");
    record_put_raw(w, "{");
    put_text(w, "namespace", lease->ns);
    put_text(w, "name", lease->name);
    put_text(w, "uid", lease->uid);
    put_text(w, "renewTime", lease->renew_stamp);
    put_text(w, "resourceVersion", lease->resource_version);
    put_i64(w, "durationSeconds", lease->duration_s);
    record_put_raw(w, "}");
}

static void put_record(struct record_writer *w, const struct record *r, const char *message)
{
    const struct readiness *v = &r->verdict;
    record_put_raw(w, "{");
    put_i64(w, "version", RECORD_VERSION);
    put_text(w, "node", r->node);
    put_text(w, "state", readiness_state_name(v->state));
    put_key(w, "admit");
    record_put_raw(w, v->admit ? "true" : "false");
    put_text(w, "reason", readiness_reason_name(v->reason));
    put_text(w, "message", message);
    put_lease(w, &v->lease);
    put_text(w, "bootId", r->boot_id);
    put_i64(w, "observedBoottimeNs", v->observed.ns);
    put_i64(w, "validUntilBoottimeNs", v->valid_until.ns);
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
        struct record_writer w = {.page = out_page,
                                  .max_bytes = RECORD_PAGE_BYTES - CRC_TAIL_BYTES};
        (void)text_copy(message, keep, r->verdict.message); /* cut on purpose */
        put_record(&w, r, message);
        if (!w.overflow) {
            uint32_t crc = crc32c_compute(out_page, w.used);
            char tail[CRC_TAIL_BYTES + 1];
            (void)snprintf(tail, sizeof(tail), "%s%08x\"}", crc_member, crc); /* sized for it */
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

static uint32_t take_u32(struct record_reader *in)
{
    int64_t value = record_take_i64(in);
    if (value < 0 || value > UINT32_MAX) {
        in->failed = true;
        return 0;
    }
    return (uint32_t)value;
}

static struct mono take_mono(struct record_reader *in)
{
    int64_t value = record_take_i64(in);
    if (value < 0) {
        in->failed = true;
    }
    return (struct mono){value};
}

static struct wall take_wall(struct record_reader *in)
{
    char text[RFC3339_BYTES] = "";
    struct wall value = {0};
    record_take_text(in, text, sizeof(text));
    if (in->failed || rfc3339_parse(text, strlen(text), &value, NULL) != 0) {
        in->failed = true;
    }
    return value;
}

static void take_lease_member(struct record_reader *in, const char *key,
                              struct readiness_lease *lease)
{
    if (text_equal(key, "namespace")) {
        record_take_text(in, lease->ns, sizeof(lease->ns));
    } else if (text_equal(key, "name")) {
        record_take_text(in, lease->name, sizeof(lease->name));
    } else if (text_equal(key, "uid")) {
        record_take_text(in, lease->uid, sizeof(lease->uid));
    } else if (text_equal(key, "renewTime")) {
        record_take_text(in, lease->renew_stamp, sizeof(lease->renew_stamp));
    } else if (text_equal(key, "resourceVersion")) {
        record_take_text(in, lease->resource_version, sizeof(lease->resource_version));
    } else if (text_equal(key, "durationSeconds")) {
        lease->duration_s = take_u32(in);
    } else {
        record_skip_value(in);
    }
}

static void take_lease(struct record_reader *in, struct readiness_lease *lease)
{
    char key[KEY_BYTES];
    record_expect(in, '{');
    if (record_take(in, '}')) {
        return;
    }
    do {
        record_take_text(in, key, sizeof(key));
        record_expect(in, ':');
        if (!in->failed) {
            take_lease_member(in, key, lease);
        }
    } while (record_take(in, ','));
    record_expect(in, '}');
}

/* Members without which a record says nothing, one bit each. */
enum {
    HAS_VERSION = 1 << 0,
    HAS_STATE = 1 << 1,
    HAS_ADMIT = 1 << 2,
    HAS_REASON = 1 << 3,
    HAS_BOOT_ID = 1 << 4,
    HAS_VALID = 1 << 5,
    HAS_WRITER = 1 << 6,
    HAS_HOLD = 1 << 7,
    HAS_OBSERVED = 1 << 8,
    HAS_ALL = (1 << 9) - 1,
};

static uint32_t take_verdict_member(struct record_reader *in, const char *key, struct readiness *v)
{
    char word[KEY_BYTES] = "";
    if (text_equal(key, "state")) {
        record_take_text(in, word, sizeof(word));
        in->failed = in->failed || !readiness_state_from_name(word, &v->state);
        return HAS_STATE;
    }
    if (text_equal(key, "reason")) {
        record_take_text(in, word, sizeof(word));
        in->failed = in->failed || !readiness_reason_from_name(word, &v->reason);
        return HAS_REASON;
    }
    if (text_equal(key, "admit")) {
        v->admit = record_take_bool(in);
        return HAS_ADMIT;
    }
    if (text_equal(key, "message")) {
        record_take_text(in, v->message, sizeof(v->message));
    } else if (text_equal(key, "lease")) {
        take_lease(in, &v->lease);
    } else if (text_equal(key, "observedBoottimeNs")) {
        v->observed = take_mono(in);
        return HAS_OBSERVED;
    } else if (text_equal(key, "validUntilBoottimeNs")) {
        v->valid_until = take_mono(in);
        return HAS_VALID;
    } else if (text_equal(key, "transitionTime")) {
        v->transition = take_wall(in);
    } else {
        record_skip_value(in);
    }
    return 0;
}

static uint32_t take_member(struct record_reader *in, const char *key, struct record *r)
{
    if (text_equal(key, "version")) {
        in->failed = in->failed || record_take_i64(in) != RECORD_VERSION;
        return HAS_VERSION;
    }
    if (text_equal(key, "bootId")) {
        record_take_text(in, r->boot_id, sizeof(r->boot_id));
        return HAS_BOOT_ID;
    }
    if (text_equal(key, "writerUntilBoottimeNs")) {
        r->writer_until = take_mono(in);
        return HAS_WRITER;
    }
    if (text_equal(key, "holdUntilBoottimeNs")) {
        r->hold_until = take_mono(in);
        return HAS_HOLD;
    }
    if (text_equal(key, "node")) {
        record_take_text(in, r->node, sizeof(r->node));
    } else if (text_equal(key, "writtenTime")) {
        r->written = take_wall(in);
    } else if (text_equal(key, "pid")) {
        int64_t pid = record_take_i64(in);
        in->failed = in->failed || pid < 0 || pid > INT32_MAX;
        r->pid = (int32_t)pid;
    } else {
        return take_verdict_member(in, key, &r->verdict);
    }
    return 0;
}

/* Where the checksum member starts, if it is the last one and holds. */
static int check_crc(const char *page, size_t len, size_t *out_covered, struct err *e)
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
    (void)snprintf(expected, sizeof(expected), "%08x",
                   crc32c_compute(page, covered)); /* 8 digits */
    if (memcmp(page + end - 2 - CRC_DIGITS, expected, CRC_DIGITS) != 0) {
        return err_set(e, ERR_PARSE, "the record's checksum does not match");
    }
    *out_covered = covered;
    return 0;
}

int record_decode(const char *page, size_t len, struct record *out, struct err *e)
{
    size_t covered = 0;
    int rc = check_crc(page, len, &covered, e);
    if (rc != 0) {
        return rc;
    }
    struct record_reader in = {.at = page, .end = page + covered};
    struct record r = {.pid = 0};
    uint32_t seen = 0;
    char key[KEY_BYTES];
    record_expect(&in, '{');
    do {
        record_take_text(&in, key, sizeof(key));
        record_expect(&in, ':');
        if (!in.failed) {
            seen |= take_member(&in, key, &r);
        }
    } while (record_take(&in, ','));
    if (in.failed) {
        return err_set(e, ERR_PARSE, "the record cannot be read at byte %zu",
                       (size_t)(in.at - page));
    }
    if (in.at != in.end || seen != HAS_ALL) {
        return err_set(e, ERR_PARSE, "the record is not complete");
    }
    *out = r;
    return 0;
}
