/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "base/time.h"
#include "tests/support/case.h"

TEST(whole_numbers_are_read_completely_or_not_at_all)
{
    static const struct {
        const char *text;
        int unsigned_code;
        uint64_t unsigned_value;
        int signed_code;
        int64_t signed_value;
    } rows[] = {
        {"0", 0, 0, 0, 0},
        {"007", 0, 7, 0, 7},
        {"-5", ERR_PARSE, 0, 0, -5},
        {"9223372036854775807", 0, INT64_MAX, 0, INT64_MAX},
        {"9223372036854775808", 0, UINT64_C(9223372036854775808), ERR_LIMIT, 0},
        {"18446744073709551615", 0, UINT64_MAX, ERR_LIMIT, 0},
        {"18446744073709551616", ERR_LIMIT, 0, ERR_LIMIT, 0},
        {"99999999999999999999999", ERR_LIMIT, 0, ERR_LIMIT, 0},
        {"", ERR_PARSE, 0, ERR_PARSE, 0},
        {"-", ERR_PARSE, 0, ERR_PARSE, 0},
        {"+1", ERR_PARSE, 0, ERR_PARSE, 0},
        {"1 ", ERR_PARSE, 0, ERR_PARSE, 0},
        {"0x10", ERR_PARSE, 0, ERR_PARSE, 0},
        {"--1", ERR_PARSE, 0, ERR_PARSE, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].text);
        uint64_t u = 77;
        int64_t s = 77;
        assert_int_equal(text_to_u64(rows[i].text, len, &u, NULL), rows[i].unsigned_code);
        assert_true(u == (rows[i].unsigned_code == 0 ? rows[i].unsigned_value : 77));
        assert_int_equal(text_to_i64(rows[i].text, len, &s, NULL), rows[i].signed_code);
        assert_true(s == (rows[i].signed_code == 0 ? rows[i].signed_value : 77));
    }
}

TEST(numbers_end_at_the_given_length)
{
    static const struct {
        const char *text;
        size_t len;
        int64_t ms;
    } rows[] = {{"1234", 2, 12000}, {"12.5", 2, 12000}, {"0.55", 3, 500}, {"10ms", 3, 600000}};
    uint64_t value = 0;
    int64_t ns;
    assert_int_equal(text_to_u64("123456", 3, &value, NULL), 0);
    assert_int_equal(value, 123);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(text_to_duration_ns(rows[i].text, rows[i].len, &ns, NULL), 0);
        assert_int_equal(ns, rows[i].ms * NS_PER_MS);
    }
}

TEST(durations_are_seconds_or_have_a_unit)
{
    static const struct {
        const char *text;
        int code;
        int64_t ns;
    } rows[] = {
        {"10", 0, 10 * NS_PER_SEC},
        {"0", 0, 0},
        {"0.5", 0, 500 * NS_PER_MS},
        {"500ms", 0, 500 * NS_PER_MS},
        {"1.5ms", 0, 1500000},
        {"0.000000001ms", 0, 0},
        {"10s", 0, 10 * NS_PER_SEC},
        {"1m", 0, 60 * NS_PER_SEC},
        {"1.5m", 0, 90 * NS_PER_SEC},
        {"2h", 0, 7200 * NS_PER_SEC},
        {"0.000000001", 0, 1},
        {"-1", ERR_PARSE, 0},
        {"876000h", 0, INT64_C(876000) * 3600 * NS_PER_SEC},
        {"876001h", ERR_LIMIT, 0},
        {"99999999999", ERR_LIMIT, 0},
        {"99999999999999999999999999", ERR_LIMIT, 0},
        {"", ERR_PARSE, 0},
        {"-", ERR_PARSE, 0},
        {"s", ERR_PARSE, 0},
        {".5", ERR_PARSE, 0},
        {"5.", ERR_PARSE, 0},
        {"5.s", ERR_PARSE, 0},
        {"0.0000000001", ERR_PARSE, 0},
        {"10 s", ERR_PARSE, 0},
        {"10S", ERR_PARSE, 0},
        {"10d", ERR_PARSE, 0},
        {"1m30s", ERR_PARSE, 0},
        {"ten", ERR_PARSE, 0},
        {"1e3", ERR_PARSE, 0},
        {"+1", ERR_PARSE, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns = 77;
        struct err e = ERR_INIT;
        int rc = text_to_duration_ns(rows[i].text, strlen(rows[i].text), &ns, &e);
        if (rc != rows[i].code || ns != (rc == 0 ? rows[i].ns : 77)) {
            fail_msg("'%s': %d, %lld ns, %s", rows[i].text, rc, (long long)ns, e.msg);
        }
    }
}

TEST(a_written_duration_reads_back)
{
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        {0, "0s"},
        {40 * NS_PER_SEC, "40s"},
        {500 * NS_PER_MS, "500ms"},
        {1500 * NS_PER_MS, "1.5s"},
        {1, "0.000000001s"},
        {3600 * NS_PER_SEC, "3600s"},
        {NS_PER_SEC + 1, "1.000000001s"},
        {100 * INT64_C(31536000) * NS_PER_SEC - 1, "3153599999.999999999s"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns = 77;
        struct text_span span = text_span(rows[i].ns);
        assert_string_equal(span.text, rows[i].text);
        assert_int_equal(text_to_duration_ns(span.text, strlen(span.text), &ns, NULL), 0);
        assert_true(ns == rows[i].ns);
    }
    assert_string_equal(text_span(INT64_MAX).text, "9223372036.854775807s");
}

TEST(a_formatted_text_is_cut_between_characters)
{
    static const struct {
        const char *text;
        size_t bytes;
        const char *cut;
    } rows[] = {
        {"hello", 16, "7 hello"},      {"hello", 8, "7 hello"},
        {"hello", 7, "7 hell"},        {"abc\xc3\xa9", 8, "7 abc\xc3\xa9"},
        {"abc\xc3\xa9", 7, "7 abc"},   {"abc\xc3\xa9", 6, "7 abc"},
        {"\xf0\x9f\x98\x80", 6, "7 "}, {"\xf0\x9f\x98\x80", 5, "7 "},
        {"\xf0\x9f\x98\x80", 4, "7 "}, {"", 1, ""},
        {"\xc3\xa9", 3, "7 "},         {"hello", 1, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[16];
        memset(out, '~', sizeof(out));
        text_format(out, rows[i].bytes, "%d %s", 7, rows[i].text);
        assert_string_equal(out, rows[i].cut);
        assert_true(rows[i].bytes == sizeof(out) || out[rows[i].bytes] == '~');
        /* The same of a copy: what fits whole is so much shorter. */
        bool is_whole = strlen(rows[i].text) < rows[i].bytes;
        assert_int_equal(text_copy(out, rows[i].bytes, rows[i].text), is_whole);
        assert_memory_equal(out, rows[i].text, strlen(out));
        assert_true(!is_whole || text_equal(out, rows[i].text));
    }
}

TEST(equality_knows_null)
{
    assert_true(text_equal("a", "a"));
    assert_false(text_equal("a", "b"));
    assert_false(text_equal(NULL, ""));
    assert_false(text_equal("", NULL));
    assert_true(text_equal(NULL, NULL));
    assert_true(text_is_empty(NULL) && text_is_empty("") && !text_is_empty(" "));
}

TEST(sanitized_text_is_valid_utf8_without_control_characters)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {
        {"plain", "plain"},
        {"two\nlines\x1f\x7f", "two lines  "},
        {"\xc2\x9b"
         "31m",
         "  31m"}, /* U+009B: an escape sequence in one character */
        {"a\xe2\x80\xae"
         "b\xe2\x81\xa6"
         "c",
         "a   b   c"}, /* U+202E, U+2066: turned round */
        {"\xe2\x80\xa8|\xe2\x80\x8e|\xd8\x9c|\xe2\x81\xa9", "   |   |  |   "},
        {"\xe2\x80\xa7|\xe2\x80\x93|\xd8\x9b", "\xe2\x80\xa7|\xe2\x80\x93|\xd8\x9b"},
        {"\xc2\xa0", "\xc2\xa0"},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", "????"},
        {"\xf4\x8f\xbf\xbf|\xe0\xa0\x80", "\xf4\x8f\xbf\xbf|\xe0\xa0\x80"},
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xe0\x80\x80", "???"},      /* over-long */
        {"\xf0\x80\x80\x80", "????"}, /* over-long */
        {"\xc0\xaf", "??"},           /* over-long '/' */
        {"\xff\x80", "??"},
        {"\xc3", "?"},             /* cut at the end */
        {"\xe2\x82", "??"},        /* cut at the end */
        {"\xe2\x82x", "??x"},      /* broken in the middle */
        {"\xf0\x9f\x98x", "???x"}, /* broken in the middle */
        {"\xe2\x28\xa1", "?(?"},   /* second byte no continuation */
        {"a\xef\xbf\xbdz", "a\xef\xbf\xbdz"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[32];
        text_sanitize(out, sizeof(out), rows[i].in, strlen(rows[i].in));
        assert_string_equal(out, rows[i].out);
    }
    char four[4];
    text_sanitize(four, sizeof(four), "ab\xc3\xa9", 4);
    assert_string_equal(four, "ab");
    text_sanitize(four, sizeof(four), "a\0b", 3);
    assert_string_equal(four, "a b");
    text_sanitize(four, sizeof(four), "a\xc3\xa9", 2); /* it ends within a character */
    assert_string_equal(four, "a?");
}

TEST(names_follow_dns_1123)
{
    static const struct {
        const char *name;
        bool valid;
    } rows[] = {
        {"worker-1", true}, {"a", true},    {"1", true},     {"a.b-z.d9", true},
        {"", false},        {"-a", false},  {"a-", false},   {"a..b", false},
        {".a", false},      {"a.", false},  {"a.-b", false}, {"a-.b", false},
        {"Worker", false},  {"a_b", false}, {"a b", false},  {"\xc3\xa9", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(text_is_dns1123_subdomain(rows[i].name), rows[i].valid);
    }
    char longest[255];
    memset(longest, 'a', sizeof(longest));
    longest[253] = '\0';
    assert_true(text_is_dns1123_subdomain(longest));
    longest[253] = 'a';
    longest[254] = '\0';
    assert_false(text_is_dns1123_subdomain(longest));
}

TEST(an_address_of_pci_has_four_parts)
{
    static const char *const good[] = {"0000:03:00.0", "0f1a0000:ff:1f.7"};
    static const char *const bad[] = {"000:03:00.0",  "0f1a00000:03:00.0", "0000:03:00.8", "",
                                      "0000:03:0g.0", "0000:03:00.0x",     "0000:03:00"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(text_is_pci_address(good[i % 2]));
        assert_false(text_is_pci_address(bad[i]));
    }
}

TEST(fields_of_a_process_are_counted_behind_its_name)
{
    static const struct {
        const char *stat;
        size_t field;
        uint64_t value;
    } rows[] = {
        {"1 (a) S 41 52", 4, 41},
        {"1 (a) S 41 52\n", 5, 52},
        {"1 (a) b) S 41 52", 4, 41}, /* a name may hold anything */
        {"1 (a) S 41 52", 6, 0},
        {"1 (a) S 41 52", 3, 0}, /* no number */
        {"1 (a) S -4", 4, 0},
        {"1 (a", 4, 0},
        {"", 4, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(text_stat_field(rows[i].stat, rows[i].field), rows[i].value);
    }
}

TEST(both_alphabets_of_base64_are_read)
{
    static const struct {
        const char *in;
        const char *out; /* NULL: refused */
    } rows[] = {
        {"", ""},
        {"Zg==", "f"},
        {"Zg", "f"},
        {"YmE=", "ba"},
        {"Zm9v", "foo"},
        {"Zm9vYg", "foob"},
        {"Zm9v\n YmE=\n", "fooba"},
        {"+/8=", "\xfb\xff"},
        {"-_8", "\xfb\xff"},
        {"Z", NULL},
        {"Zm9vY", NULL},
        {"Zg==Zg==", NULL},
        {"Zm9v\t", NULL},
        {"Zm9v.", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        unsigned char out[BASE64_DECODED_BYTES(32)];
        size_t len = 0;
        bool read = base64_decode(rows[i].in, strlen(rows[i].in), out, &len);
        assert_int_equal(read, rows[i].out != NULL);
        if (rows[i].out) {
            assert_int_equal(len, strlen(rows[i].out));
            assert_memory_equal(out, rows[i].out, len);
        }
    }
}

TEST(the_checksum_is_that_of_iscsi)
{
    assert_int_equal(crc32c_compute("123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_compute("", 0), 0);
}

TEST(words_in_braces_are_filled_in_and_others_stay)
{
    static const struct text_word words[] = {{"{a}", "one {b}"}, {"{b}", ""}, {"{: }", ": "}};
    char out[24];
    text_fill(out, sizeof(out), "{a}{: }{c}, {b}{", words, ARRAY_LEN(words));
    assert_string_equal(out, "one {b}: {c}, {"); /* a value is not filled in again */
    text_fill(out, 8, "as it{: }{a}", words, ARRAY_LEN(words));
    assert_string_equal(out, "as it: ");
    text_fill(out, sizeof(out), "", words, ARRAY_LEN(words));
    assert_string_equal(out, "");
}
