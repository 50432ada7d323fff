/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/record_reader.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4096 };

/* Four bits at a time: what the polynomial makes of each of their values. */
static uint32_t crc32c(const char *bytes, size_t len)
{
    static const uint32_t of_bits[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                         0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                         0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                         0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < len; i++) {
        crc ^= (uint8_t)bytes[i];
        crc = (crc >> 4) ^ of_bits[crc & 15];
        crc = (crc >> 4) ^ of_bits[crc & 15];
    }
    return ~crc;
}

static void take_text(const json_t *page, const char *name, char *out)
{
    const char *text = json_string_value(json_object_get(page, name));
    (void)snprintf(out, RECORD_READER_TEXT_BYTES, "%s", text ? text : "");
}

static int64_t take_time(const json_t *page, const char *name)
{
    const json_t *value = json_object_get(page, name);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
}

static const char *check(const json_t *page, const struct record_read *r)
{
    bool is_ready = strcmp(r->state, "Ready") == 0;
    bool is_refused = strcmp(r->state, "NotReady") == 0;
    if (json_integer_value(json_object_get(page, "version")) != 1) {
        return "it is not of version 1";
    }
    if (!is_ready && !is_refused && strcmp(r->state, "Unknown") != 0) {
        return "its state is no state";
    }
    if (r->reason[0] == '\0' || r->boot_id[0] == '\0') {
        return "it has no reason, or no boot id";
    }
    if ((is_ready && !r->admit) || (is_refused && r->admit)) {
        return "state and admission contradict each other";
    }
    if (r->observed_ns < 0 || r->lease_until_ns < 0 || r->writer_until_ns <= 0 ||
        r->hold_until_ns < r->writer_until_ns) {
        return "its times make no sense";
    }
    if (r->admit && r->observed_ns == 0) {
        return "it admits, and nothing was ever observed";
    }
    return NULL;
}

const char *record_reader_decode(const char *page, size_t len, struct record_read *out)
{
    static const char member[] = ",\"crc32c\":\"";
    const char *at = len == PAGE_BYTES ? memmem(page, len, member, strlen(member)) : NULL;
    if (!at || page[PAGE_BYTES - 1] != '\n') {
        return "it is no page of 4096 bytes that ends in a newline, with a checksum";
    }
    if (strtoul(at + strlen(member), NULL, 16) != crc32c(page, (size_t)(at - page))) {
        return "its checksum is wrong";
    }
    len = PAGE_BYTES - 1;
    while (page[len - 1] == ' ') { /* most of the page: a parser is slow to pass it */
        len--;
    }
    json_t *tree = json_loadb(page, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(tree)) {
        json_decref(tree);
        return "it is no JSON object";
    }
    take_text(tree, "state", out->state);
    take_text(tree, "reason", out->reason);
    take_text(tree, "bootId", out->boot_id);
    take_text(tree, "dpuBootId", out->dpu_boot_id);
    take_text(tree, "dpuRebootTime", out->dpu_reboot_time);
    out->admit = json_is_true(json_object_get(tree, "admit"));
    out->observed_ns = take_time(tree, "observedBoottimeNs");
    out->lease_until_ns = take_time(tree, "leaseUntilBoottimeNs");
    out->writer_until_ns = take_time(tree, "writerUntilBoottimeNs");
    out->hold_until_ns = take_time(tree, "holdUntilBoottimeNs");
    const char *wrong = check(tree, out);
    json_decref(tree);
    return wrong;
}

bool record_reader_judge(const struct record_read *r, const char *boot_id, int64_t boot_ns,
                         const char **out_reason)
{
    *out_reason = r->reason;
    if (strcmp(r->boot_id, boot_id) != 0) {
        *out_reason = "RecordInvalid";
        return false;
    }
    if (!r->admit || boot_ns < r->hold_until_ns) {
        return r->admit;
    }
    *out_reason = "RecordStale";
    return false;
}
