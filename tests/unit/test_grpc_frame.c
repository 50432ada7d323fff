/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/frame.h"

#include "base/time.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* Feeds `wire` in pieces of `step` bytes; collects payload; returns the number of messages. */
static int deframe_all(struct grpc_deframer *d, const uint8_t *wire, size_t len, size_t step,
                       uint8_t *payload, size_t *payload_len)
{
    int messages = 0;
    for (size_t at = 0; at < len; at += step) {
        struct grpc_slice in = {.bytes = wire + at, .len = len - at < step ? len - at : step};
        struct grpc_slice part;
        enum grpc_deframed got;
        while ((got = grpc_deframe(d, &in, &part)) != GRPC_NEED_MORE) {
            assert_true(got == GRPC_PAYLOAD || got == GRPC_MESSAGE);
            if (got == GRPC_MESSAGE) {
                messages++;
            } else {
                memcpy(payload + *payload_len, part.bytes, part.len);
                *payload_len += part.len;
            }
        }
        assert_int_equal(in.len, 0);
    }
    return messages;
}

TEST(messages_split_at_any_byte_come_out_whole)
{
    static const uint8_t wire[] = {0, 0, 0, 0, 3, 'a', 'b', 'c', 0,   0,
                                   0, 0, 0, 0, 0, 0,   0,   2,   'd', 'e'};
    for (size_t step = 1; step <= sizeof(wire); step++) {
        struct grpc_deframer d = {.max_bytes = 3};
        uint8_t payload[8];
        size_t len = 0;
        assert_int_equal(deframe_all(&d, wire, sizeof(wire), step, payload, &len), 3);
        assert_int_equal(len, 5);
        assert_memory_equal(payload, "abcde", 5);
        assert_true(grpc_deframer_is_idle(&d));
    }
}

TEST(empty_message_is_a_message)
{
    struct grpc_deframer d = {.max_bytes = 0};
    struct grpc_slice in = {.bytes = (const uint8_t *)"\0\0\0\0", .len = 5};
    struct grpc_slice part;
    assert_int_equal(grpc_deframe(&d, &in, &part), GRPC_MESSAGE);
    assert_int_equal(grpc_deframe(&d, &in, &part), GRPC_NEED_MORE);
    assert_true(grpc_deframer_is_idle(&d));
}

TEST(stream_may_not_end_within_a_message)
{
    static const uint8_t wire[] = {0, 0, 0, 0, 2, 'a'};
    for (size_t len = 1; len <= sizeof(wire); len++) {
        struct grpc_deframer d = {.max_bytes = 8};
        struct grpc_slice in = {.bytes = wire, .len = len};
        struct grpc_slice part;
        while (grpc_deframe(&d, &in, &part) != GRPC_NEED_MORE) {
        }
        assert_false(grpc_deframer_is_idle(&d));
    }
}

TEST(refusals_are_told_apart)
{
    static const struct {
        uint8_t prefix[GRPC_PREFIX_BYTES];
        enum grpc_deframed want;
    } rows[] = {
        {{1, 0, 0, 0, 0}, GRPC_COMPRESSED}, {{2, 0, 0, 0, 0}, GRPC_BAD_FLAG},
        {{0, 0, 0, 0, 5}, GRPC_TOO_LARGE},  {{0, 0xff, 0xff, 0xff, 0xff}, GRPC_TOO_LARGE},
        {{0, 0, 0, 0, 4}, GRPC_NEED_MORE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct grpc_deframer d = {.max_bytes = 4};
        struct grpc_slice in = {.bytes = rows[i].prefix, .len = GRPC_PREFIX_BYTES};
        struct grpc_slice part;
        assert_int_equal(grpc_deframe(&d, &in, &part), rows[i].want);
    }
}

TEST(prefix_is_big_endian)
{
    uint8_t out[GRPC_PREFIX_BYTES];
    grpc_write_prefix(0x01020304, out);
    assert_memory_equal(out, "\0\1\2\3\4", 5);
}

TEST(status_message_is_percent_encoded)
{
    static const struct {
        const char *text;
        size_t out_bytes;
        const char *want;
    } rows[] = {
        {"", 8, ""},
        {"plain ~ text", 32, "plain ~ text"},
        {"100%", 32, "100%25"},
        {"a\nb\x7f", 32, "a%0Ab%7F"},
        {"\xc3\xa4", 32, "%C3%A4"},
        {"abc", 3, "ab"},
        {"a%", 4, "a"},                /* no half escape */
        {"a\xc3\xa4", 7, "a"},         /* no half code point */
        {"a\xc3\xa4", 8, "a%C3%A4"},   /* fits exactly */
        {"\xf0\x9f\x92\xa5!", 12, ""}, /* four bytes need twelve and the end */
        {"x", 1, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[32];
        grpc_percent_encode(rows[i].text, out, rows[i].out_bytes);
        assert_string_equal(out, rows[i].want);
    }
}

TEST(percent_decoding_keeps_what_is_no_escape)
{
    static const char *const rows[][2] = {
        {"%C3%a4", "\xc3\xa4"}, {"100%", "100%"}, {"%2", "%2"}, {"%zz%41", "%zzA"}, {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[32];
        grpc_percent_decode(rows[i][0], strlen(rows[i][0]), out, sizeof(out));
        assert_string_equal(out, rows[i][1]);
    }
    char small[3];
    grpc_percent_decode("%41%42%43", 9, small, sizeof(small));
    assert_string_equal(small, "AB");
}

TEST(every_status_has_a_name)
{
    assert_string_equal(grpc_status_name(GRPC_UNIMPLEMENTED), "UNIMPLEMENTED");
    assert_string_equal(grpc_status_name(GRPC_OK), "OK");
    assert_string_equal(grpc_status_name(99), "CODE");
}
