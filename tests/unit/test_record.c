/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record.h"

#include "base/text.h"
#include "tests/support/case.h"

static struct record sample(void)
{
    return (struct record){
        .node = "worker-1",
        .readiness =
            {.state = READINESS_READY,
             .admit = true,
             .reason = REASON_LEASE_RENEWED,
             .message = "the DPU renews its lease",
             .observed = {512340000000},
             .lease_until = {552340000000},
             .transition = {INT64_C(1795166084) * NS_PER_SEC},
             .lease = {.ns = "ovn-kubernetes",
                       .name = "ovn-dpu-worker-1",
                       .uid = "6a6c2c1e-1111-2222-3333-444455556666",
                       .renew_stamp = "2026-11-20T10:00:00.000000Z",
                       .resource_version = "123",
                       .duration_s = 40},
             .dpu_boot_id = "0f3c1f00-1111-2222-3333-444455556666",
             .dpu_boot_before = "00001f00-1111-2222-3333-444455556666",
             .dpu_rebooted = {INT64_C(1795166000) * NS_PER_SEC},
             .host_probes = {.count = 2,
                             .each = {{.probe = "pci:0000:03:00.0", .says = HOST_PROBE_FAILED},
                                      {.probe = "exec:\"a\"", .says = HOST_PROBE_NEVER_WELL}}}},
        .evidence = {.checked = {530000000000},
                     .failing = {531000000000},
                     .blind_ns = 7,
                     .granted = {535000000000},
                     .has_marked = true},
        .boot_id = "8a7c1f00-1111-2222-3333-444455556666",
        .writer_until = {537340000000},
        .hold_until = {852340000000},
        .written = {INT64_C(1795166085) * NS_PER_SEC},
        .pid = 4711,
    };
}

/* A page around `body` (what stands before the checksum), with a checksum that holds. */
static size_t seal(char page[static 2 * RECORD_PAGE_BYTES], const char *body)
{
    return (size_t)snprintf(page, 2 * (size_t)RECORD_PAGE_BYTES, "%s,\"crc32c\":\"%08x\"}\n", body,
                            crc32c_compute(body, strlen(body)));
}

/* The sample's body, as text. */
static void sample_body(char body[static RECORD_PAGE_BYTES])
{
    struct record r = sample();
    assert_int_equal(record_encode(&r, body, NULL), 0);
    *strstr(body, ",\"crc32c\"") = '\0';
}

/* Writes it, and reads it back. */
static struct record carried(const struct record *r)
{
    char page[RECORD_PAGE_BYTES];
    struct record back;
    assert_int_equal(record_encode(r, page, NULL), 0);
    assert_int_equal(record_decode(page, sizeof(page), &back, NULL), 0);
    return back;
}

/* The sample, with other text in place of what begins with `from` and ends before `to`. */
static int decode_changed(const char *from, const char *to, const char *by, struct record *out,
                          struct err *e)
{
    char body[RECORD_PAGE_BYTES];
    char changed[2 * RECORD_PAGE_BYTES];
    char page[2 * RECORD_PAGE_BYTES];
    sample_body(body);
    const char *at = strstr(body, from);
    assert_non_null(at);
    const char *behind = to ? strstr(at, to) : at + strlen(from);
    assert_non_null(behind);
    (void)snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - body), body, by, behind);
    return record_decode(page, seal(page, changed), out, e);
}

TEST(record_survives_a_round_trip)
{
    struct record r = sample();
    struct record back = carried(&r);
    assert_memory_equal(&r, &back, sizeof(r));
}

/* Version 1 had no word of the DPU's boot at first, and before the marks no evidence. */
TEST(record_of_an_older_writer_is_read)
{
    struct record back;
    assert_int_equal(decode_changed(",\"dpuBootId\"", ",\"bootId\"", "", &back, NULL), 0);
    assert_string_equal(back.readiness.dpu_boot_id, "");
    assert_true(back.readiness.dpu_rebooted.ns == 0);
    assert_int_equal(back.readiness.host_probes.count, 0);
    assert_string_equal(back.boot_id, sample().boot_id);
    /* It had a member that nobody reads any more. */
    static const char valid[] = ",\"validUntilBoottimeNs\":1";
    static const char writer[] = ",\"writerUntilBoottimeNs\"";
    assert_int_equal(decode_changed(",\"leaseUntilBoottimeNs\"", writer, valid, &back, NULL), 0);
    assert_int_equal(back.readiness.lease_until.ns, 0);
    assert_int_equal(back.evidence.checked.ns, 0);
    assert_int_equal(back.evidence.blind_ns, 0);
    assert_int_equal(back.evidence.failing.ns, 0);
    assert_false(back.evidence.has_marked);
    assert_int_equal(decode_changed(",\"message\"", ",\"dpuBootId\"", "", &back, NULL), 0);
    assert_string_equal(back.readiness.lease.uid, "");
    assert_int_equal(decode_changed(",\"node\"", ",\"state\"", "", &back, NULL), 0);
    assert_int_equal(decode_changed(",\"transitionTime\"", ",\"pid\"", "", &back, NULL), 0);
}

TEST(what_is_not_known_is_not_written)
{
    char page[RECORD_PAGE_BYTES];
    struct record r = sample();
    r.readiness.dpu_rebooted = (struct wall){0};
    r.readiness.dpu_boot_id[0] = '\0';
    r.readiness.dpu_boot_before[0] = '\0';
    r.readiness.host_probes.count = 0;
    assert_int_equal(record_encode(&r, page, NULL), 0);
    assert_null(memmem(page, sizeof(page), "hostProbes", 10));
    assert_null(memmem(page, sizeof(page), "dpuReboot", 9));
    assert_null(memmem(page, sizeof(page), "dpuBootId", 9));
}

TEST(page_is_one_line_of_json_padded_with_blanks)
{
    char page[RECORD_PAGE_BYTES];
    struct record r = sample();
    assert_int_equal(record_encode(&r, page, NULL), 0);
    assert_memory_equal(page, "{\"version\":1,\"node\":\"worker-1\",\"state\":\"Ready\",", 46);
    assert_int_equal(page[RECORD_PAGE_BYTES - 1], '\n');
    const char *end = memchr(page, '\n', sizeof(page));
    assert_ptr_equal(end, page + RECORD_PAGE_BYTES - 1);
    assert_non_null(memmem(page, sizeof(page), "\"pid\":4711,\"crc32c\":\"", 21));
    assert_non_null(strstr(page, "\"transitionTime\":\"2026-11-20T09:14:44Z\""));
}

TEST(extreme_values_survive)
{
    struct record r = sample();
    r.readiness.lease_until = MONO_NEVER;
    r.hold_until = MONO_NEVER;
    r.readiness.lease.duration_s = INT32_MAX;
    r.pid = INT32_MAX;
    (void)text_copy(r.readiness.message, sizeof(r.readiness.message),
                    "quotes \" and \\ and tab\t and \x01 and \xc3\xa9 \xf0\x9f\x92\xbe");
    struct record back = carried(&r);
    assert_memory_equal(&r, &back, sizeof(r));
}

TEST(message_that_does_not_fit_is_shortened)
{
    struct record r = sample();
    memset(r.readiness.message, 1,
           sizeof(r.readiness.message) - 1); /* six bytes each when escaped */
    memset(r.readiness.lease.name, 'n', sizeof(r.readiness.lease.name) - 1);
    memset(r.readiness.lease.ns, 'n', sizeof(r.readiness.lease.ns) - 1);
    memset(r.node, 'n', sizeof(r.node) - 1);
    struct record back = carried(&r);
    assert_true(strlen(back.readiness.message) < strlen(r.readiness.message));
    assert_memory_equal(back.readiness.message, r.readiness.message,
                        strlen(back.readiness.message));
}

/* Each way to fill the page to its last byte and beyond: it stays a page, and no more of the
 * message goes than half. */
TEST(page_may_be_full_to_the_last_byte)
{
    char page[RECORD_PAGE_BYTES];
    struct record r = sample();
    struct record back;
    size_t most = 0; /* whole messages */
    memset(r.readiness.lease.name, 1, sizeof(r.readiness.lease.name) - 1);
    memset(r.readiness.lease.ns, 1,
           sizeof(r.readiness.lease.ns) - 40); /* most of the message fits */
    r.readiness.message[0] = '\0';
    for (size_t len = 1; len < sizeof(r.readiness.message); len++) {
        r.readiness.message[len - 1] = 'm';
        r.readiness.message[len] = '\0';
        assert_int_equal(record_encode(&r, page, NULL), 0);
        assert_int_equal(record_decode(page, sizeof(page), &back, NULL), 0);
        size_t kept = strlen(back.readiness.message);
        if (kept == len) {
            most = len;
            continue;
        }
        assert_int_equal(kept, sizeof(r.readiness.message) / 2 - 1);
        r.readiness.message[most] = '\0';
        assert_int_equal(record_encode(&r, page, NULL), 0);
        assert_int_equal(page[RECORD_PAGE_BYTES - 2], '}');
        return;
    }
    fail_msg("all of them fit");
}

TEST(one_host_probe_is_carried)
{
    struct record r = sample();
    r.readiness.host_probes.count = 1;
    struct record back = carried(&r);
    assert_int_equal(back.readiness.host_probes.count, 1);
    assert_int_equal(back.readiness.host_probes.each[0].says, HOST_PROBE_FAILED);
}

TEST(all_host_probes_fit_whatever_they_are_called)
{
    struct record r = sample();
    memset(r.readiness.lease.name, 'n', sizeof(r.readiness.lease.name) - 1);
    memset(r.readiness.lease.ns, 'n', sizeof(r.readiness.lease.ns) - 1);
    memset(r.node, 'n', sizeof(r.node) - 1);
    r.readiness.host_probes.count = HOST_PROBES_MAX;
    for (int i = 0; i < HOST_PROBES_MAX; i++) {
        struct readiness_host_probe *host_probe = &r.readiness.host_probes.each[i];
        memset(host_probe->probe, '"',
               sizeof(host_probe->probe) - 1); /* printable: two bytes at most */
        host_probe->probe[sizeof(host_probe->probe) - 2] = (char)('0' + i);
        host_probe->says = HOST_PROBE_FAILED;
    }
    struct record back = carried(&r);
    assert_memory_equal(&r.readiness.host_probes, &back.readiness.host_probes,
                        sizeof(r.readiness.host_probes));
    assert_string_equal(back.readiness.message, r.readiness.message);
}

TEST(record_that_cannot_fit_is_an_error)
{
    char page[RECORD_PAGE_BYTES];
    struct record r = sample();
    memset(r.readiness.lease.name, 1, sizeof(r.readiness.lease.name) - 1);
    memset(r.readiness.lease.ns, 1, sizeof(r.readiness.lease.ns) - 1);
    memset(r.node, 1, sizeof(r.node) - 1);
    assert_int_equal(record_encode(&r, page, NULL), ERR_LIMIT);
}

TEST(every_flipped_bit_is_noticed)
{
    char page[RECORD_PAGE_BYTES];
    struct record r = sample();
    struct record back;
    assert_int_equal(record_encode(&r, page, NULL), 0);
    size_t used = (size_t)((char *)memchr(page, '}', sizeof(page)) - page);
    for (size_t i = 0; i < used * 8; i++) {
        page[i / 8] = (char)(page[i / 8] ^ (1 << (i % 8)));
        assert_int_equal(record_decode(page, sizeof(page), &back, NULL), ERR_PARSE);
        page[i / 8] = (char)(page[i / 8] ^ (1 << (i % 8)));
    }
}

TEST(page_torn_between_two_records_is_noticed)
{
    char page[RECORD_PAGE_BYTES];
    char newer[RECORD_PAGE_BYTES];
    struct record r = sample();
    struct record back;
    assert_int_equal(record_encode(&r, page, NULL), 0);
    r.readiness.state = READINESS_NOT_READY;
    r.readiness.admit = false;
    r.pid = 4712;
    assert_int_equal(record_encode(&r, newer, NULL), 0);
    for (size_t cut = 40; cut < 700; cut++) {
        char torn[RECORD_PAGE_BYTES];
        memcpy(torn, newer, cut);
        memcpy(torn + cut, page + cut, sizeof(torn) - cut);
        if (memcmp(torn, newer, sizeof(torn)) != 0 && memcmp(torn, page, sizeof(torn)) != 0) {
            assert_int_equal(record_decode(torn, sizeof(torn), &back, NULL), ERR_PARSE);
        }
    }
}

TEST(unknown_members_of_any_kind_are_ignored)
{
    static const char *const extras[] = {
        "\"x\":null",
        "\"x\":{}",
        "\"x\":{\"a\":{\"b\":[{}]},\"c\":1}",
        "\"x\":\"\\u0000\\ud800\"",
        "\"x\":123456789012345678901234567890",
    };
    for (size_t i = 0; i < ARRAY_LEN(extras); i++) {
        char start[64];
        struct record back;
        struct err e = ERR_INIT;
        (void)snprintf(start, sizeof(start), "{%s,", extras[i]);
        if (decode_changed("{", NULL, start, &back, &e) != 0) {
            fail_msg("%s: %s", extras[i], e.msg);
        }
        assert_string_equal(back.node, "worker-1");
    }
}

TEST(other_writers_may_escape_and_order_as_they_like)
{
    static const struct {
        const char *what, *by;
        const char *message, *lease;
    } rows[] = {
        {"the DPU", "\\ud83d\\udcbe \\u00E9\\u20ac\\/\\\"",
         "\xf0\x9f\x92\xbe \xc3\xa9\xe2\x82\xac/\"", "ovn-dpu-worker-1"},
        {"{\"version\":1,", "{ \"pid\" : 1 ,\t\"version\":1,", "the DPU", "ovn-dpu-worker-1"},
        {"\"lease\":{", "\"lease\":{\"x\":[{}],", "the DPU", "ovn-dpu-worker-1"},
        {"\"lease\":{", "\"lease\":{},\"other\":{", "the DPU", ""},
        {",\"pid\":4711", "", "the DPU", "ovn-dpu-worker-1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record back;
        assert_int_equal(decode_changed(rows[i].what, NULL, rows[i].by, &back, NULL), 0);
        assert_memory_equal(back.readiness.message, rows[i].message, strlen(rows[i].message));
        assert_string_equal(back.readiness.lease.name, rows[i].lease);
    }
}

/* A newer writer of the same version: its readers go by state and admit, and repeat its word. */
TEST(a_reason_that_is_not_known_counts_as_its_state_does)
{
    static const struct {
        const char *in_page;
        const char *word;
    } rows[] = {
        {"\"FirmwareUpdating\"", "FirmwareUpdating"},
        {"\"Other\"", "Other"},
        {"\"Zustand \\u00e9\"", "Zustand \xc3\xa9"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record back;
        struct gate_decision d;
        assert_int_equal(decode_changed("\"LeaseRenewed\"", NULL, rows[i].in_page, &back, NULL), 0);
        assert_int_equal(back.readiness.reason, REASON_OTHER);
        assert_string_equal(readiness_reason_word(&back.readiness), rows[i].word);
        struct record again = carried(&back);
        assert_string_equal(readiness_reason_word(&again.readiness), rows[i].word);
        gate_judge(&back, back.boot_id, (struct mono){512340000000}, "/r", &d);
        assert_true(d.admit);
        assert_string_equal(d.word, rows[i].word);
        assert_non_null(strstr(d.details, rows[i].word));
        back.readiness.admit = false;
        gate_judge(&back, back.boot_id, (struct mono){512340000000}, "/r", &d);
        assert_int_equal(gate_status_code(&d), 50);
        assert_non_null(strstr(d.details, rows[i].word));
        assert_string_equal(d.message, back.readiness.message);
    }
}

TEST(host_probes_that_are_not_understood_are_passed_over)
{
    struct record back;
    assert_int_equal(decode_changed(":\"failed\"", NULL, ":\"perhaps\"", &back, NULL), 0);
    assert_int_equal(back.readiness.host_probes.count, 2);
    assert_int_equal(back.readiness.host_probes.each[0].says, HOST_PROBE_NEVER_WELL);
    static const char more[] =
        "{\"a\":\"well\",\"b\":\"well\",\"c\":\"well\",\"d\":\"well\",\"e\":\"well\","
        "\"f\":\"well\",\"g\":\"well\",\"pci:";
    assert_int_equal(decode_changed("{\"pci:", NULL, more, &back, NULL), 0);
    assert_int_equal(back.readiness.host_probes.count, HOST_PROBES_MAX);
}

TEST(malformed_or_incomplete_records_are_refused)
{
    /* One replacement each in an otherwise good record whose checksum holds. */
    static const struct {
        const char *what;
        const char *by;
    } rows[] = {
        {"\"version\":1", "\"version\":2"},
        {"\"version\":1", "\"version\":\"1\""},
        {"\"version\":1,", ""},
        {"\"state\":\"Ready\"", "\"state\":\"ready\""},
        {":\"failed\"", ":null"},
        {"{\"pci:0000:03:00.0\":\"failed\",\"exec:\\\"a\\\"\":\"none\"}", "\"none\""},
        {"\"state\":\"Ready\",", ""},
        {"\"admit\":true", "\"admit\":1"},
        {"\"admit\":true,", ""},
        {"\"LeaseRenewed\"", "7"},
        {"\"LeaseRenewed\"", "\"\""},
        {"\"reason\":\"LeaseRenewed\",", ""},
        {"\"bootId\":", "\"otherId\":"},
        {"\"leaseUntilBoottimeNs\":552340000000", "\"leaseUntilBoottimeNs\":-1"},
        {"\"leaseUntilBoottimeNs\":552340000000", "\"leaseUntilBoottimeNs\":1.5"},
        {"\"leaseUntilBoottimeNs\":552340000000", "\"leaseUntilBoottimeNs\":99999999999999999999"},
        {"\"checkedBoottimeNs\":530000000000", "\"checkedBoottimeNs\":-1"},
        {"\"blindNs\":7", "\"blindNs\":-7"},
        {"\"holdUntilBoottimeNs\":", "\"otherUntil\":"},
        {"\"writerUntilBoottimeNs\":537340000000", "\"writerUntilBoottimeNs\":null"},
        {"\"durationSeconds\":40", "\"durationSeconds\":4294967296"},
        {"\"pid\":4711", "\"pid\":-4"},
        {"\"pid\":4711", "\"pid\":4711,"},
        {"\"transitionTime\":\"2", "\"transitionTime\":\"x"},
        {"\"node\":\"worker-1\"", "\"node\":\"wor\\u0000ker\""},
        {"\"node\":\"worker-1\"", "\"node\":\"wor\\ud800ker\""},
        {"\"node\":\"worker-1\"", "\"x\":[1,]"},
        {"\"node\":\"worker-1\"", "\"node\":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]"},
        {"\"lease\":{", "\"lease\":["},
        {"\"lease\":{", "\"lease\":7,\"x\":{"},
        {"{\"version\"", "[\"version\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record back = {.pid = 99};
        if (decode_changed(rows[i].what, NULL, rows[i].by, &back, NULL) != ERR_PARSE) {
            fail_msg("accepted: %s", rows[i].by);
        }
        assert_int_equal(back.pid, 99); /* untouched */
    }
}

TEST(what_is_wrong_is_named)
{
    struct record back;
    struct err e = ERR_INIT;
    assert_int_equal(decode_changed("\"admit\":true", NULL, "\"admit\":1", &back, &e), ERR_PARSE);
    assert_string_equal(e.msg, "the record's admit is missing or invalid");
}

/* Under another name it is none, even if it holds. */
TEST(a_checksum_has_its_name)
{
    char body[RECORD_PAGE_BYTES];
    char page[2 * RECORD_PAGE_BYTES];
    struct record back;
    sample_body(body);
    size_t len = seal(page, body);
    assert_int_equal(record_decode(page, len, &back, NULL), 0);
    *(strstr(page, "crc32c")) = 'k';
    assert_int_equal(record_decode(page, len, &back, NULL), ERR_PARSE);
}

TEST(text_without_a_checksum_at_its_end_is_refused)
{
    static const char *const texts[] = {
        "",
        " ",
        "\n",
        "{}",
        "{\"crc32c\":\"00000000\"}",
        ",\"crc32c\":\"00000000\"}",
        "{\"a\":1,\"crc32c\":\"00000000\",\"b\":2}",
    };
    struct record back;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(record_decode(texts[i], strlen(texts[i]), &back, NULL), ERR_PARSE);
    }
}
