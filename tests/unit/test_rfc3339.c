/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 2026-01-02T03:04:05Z */
#define AT_NS (INT64_C(1767323045) * NS_PER_SEC)

static int parse(const char *text, int64_t *out_ns)
{
    struct wall t = {77};
    int rc = rfc3339_parse(text, strlen(text), &t, NULL);
    *out_ns = t.ns;
    return rc;
}

/* The API server is stricter than we are: it writes six digits and refuses any other number of
 * them. Other writers exist, so 0 to 9 digits and any offset are read. */
TEST(other_writers_forms_are_read)
{
    static const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        {"2026-01-02T03:04:05.123456Z", AT_NS + 123456000},
        {"2026-01-02T03:04:05,123456Z", AT_NS + 123456000},
        {"2026-01-02T05:04:05.123456+02:00", AT_NS + 123456000},
        {"2026-01-02T03:04:05.123456-00:00", AT_NS + 123456000},
        {"2026-01-01T21:34:05-05:30", AT_NS},
        {"2026-01-02T03:04:05Z", AT_NS},
        {"2026-01-02T03:04:05.1Z", AT_NS + 100000000},
        {"2026-01-02T03:04:05.123Z", AT_NS + 123000000},
        {"2026-01-02T03:04:05.1234567Z", AT_NS + 123456700},
        {"2026-01-02T03:04:05.123456789Z", AT_NS + 123456789},
        {"2026-01-02t03:04:05z", AT_NS},
        {"2026-01-02 03:04:05Z", AT_NS},
        {"1970-01-01T00:00:00Z", 0},
        {"1969-12-31T23:59:59.999999Z", -1000},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800) * NS_PER_SEC},
        {"2000-02-29T00:00:00Z", INT64_C(951782400) * NS_PER_SEC},
        {"2016-12-31T23:59:60Z", INT64_C(1483228799) * NS_PER_SEC}, /* leap second: clamped */
        {"2262-04-11T23:47:15Z", INT64_C(9223372035) * NS_PER_SEC},
        {"1677-09-21T00:12:45Z", INT64_C(-9223372035) * NS_PER_SEC},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns;
        if (parse(rows[i].text, &ns) != 0 || ns != rows[i].ns) {
            fail_msg("'%s' read as %lld", rows[i].text, (long long)ns);
        }
    }
}

TEST(what_is_no_time_is_refused)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"", ERR_PARSE},
        {"2026", ERR_PARSE},
        {"2026-01-02", ERR_PARSE},
        {"2026-01-02T03:04:05", ERR_PARSE},       /* no zone */
        {"2026-01-02T03:04:05+0200", ERR_PARSE},  /* no colon */
        {"2026-01-02T03:04:05+24:00", ERR_PARSE}, /* Go 1.19 takes it; nobody means it */
        {"2026-01-02T03:04:05+02:60", ERR_PARSE},
        {"2026-01-02T03:04:05 02:00", ERR_PARSE},
        {"2026-01-02T03:04:05+", ERR_PARSE},
        {"2026-01-02T1:00:00.000000Z", ERR_PARSE}, /* one-digit hour */
        {"2026-01-02T24:00:00Z", ERR_PARSE},
        {"2026-01-02T03:60:00Z", ERR_PARSE},
        {"2026-01-02T03:04:61Z", ERR_PARSE},
        {"2026-00-02T03:04:05Z", ERR_PARSE},
        {"2026-13-02T03:04:05Z", ERR_PARSE},
        {"2026-01-00T03:04:05Z", ERR_PARSE},
        {"2026-01-32T03:04:05Z", ERR_PARSE},
        {"2026-04-31T03:04:05Z", ERR_PARSE},
        {"2026-02-29T03:04:05Z", ERR_PARSE},
        {"1900-02-29T03:04:05Z", ERR_PARSE},
        {"12026-01-02T03:04:05Z", ERR_PARSE},
        {"2026-01-02T03:04:05.Z", ERR_PARSE},
        {"2026-01-02T03:04:05.1234567890Z", ERR_PARSE},
        {"2026-01-02T03:04:05Z ", ERR_PARSE},
        {" 2026-01-02T03:04:05Z", ERR_PARSE},
        {"2026/01/02T03:04:05Z", ERR_PARSE},
        {"2026-01-02T03.04:05Z", ERR_PARSE},
        {"null", ERR_PARSE},
        {"0000-01-01T00:00:00Z", ERR_LIMIT},
        {"0001-01-01T00:00:00Z", ERR_LIMIT},
        {"9999-12-31T23:59:59Z", ERR_LIMIT},
        {"2262-04-11T23:47:16Z", ERR_LIMIT},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns;
        int rc = parse(rows[i].text, &ns);
        if (rc != rows[i].code || ns != 77) {
            fail_msg("'%s' gave %d", rows[i].text, rc);
        }
    }
}

TEST(the_error_quotes_the_text_without_control_characters)
{
    struct wall t;
    struct err e = ERR_INIT;
    assert_int_equal(rfc3339_parse("a\nb", 3, &t, &e), ERR_PARSE);
    assert_string_equal(e.msg, "'a b' is not an RFC 3339 time");
}

TEST(reading_stops_at_the_given_length)
{
    struct wall t;
    const char *text = "2026-01-02T03:04:05Zgarbage";
    assert_int_equal(rfc3339_parse(text, 20, &t, NULL), 0);
    assert_int_equal(rfc3339_parse(text, 19, &t, NULL), ERR_PARSE);
}

TEST(micro_time_has_exactly_six_digits)
{
    static const struct {
        int64_t ns;
        const char *micro;
        const char *seconds;
    } rows[] = {
        {AT_NS, "2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05Z"},
        {AT_NS + 1, "2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05Z"},
        {AT_NS + 999999999, "2026-01-02T03:04:05.999999Z", "2026-01-02T03:04:05Z"},
        {0, "1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00Z"},
        {-1, "1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59Z"},
        {INT64_C(951782400) * NS_PER_SEC, "2000-02-29T00:00:00.000000Z", "2000-02-29T00:00:00Z"},
        {INT64_MAX, "2262-04-11T23:47:16.854775Z", "2262-04-11T23:47:16Z"},
        {INT64_MIN, "1677-09-21T00:12:43.145224Z", "1677-09-21T00:12:43Z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[RFC3339_BYTES];
        rfc3339_format_micro((struct wall){rows[i].ns}, text);
        assert_string_equal(text, rows[i].micro);
        rfc3339_format_seconds((struct wall){rows[i].ns}, text);
        assert_string_equal(text, rows[i].seconds);
    }
}

TEST(every_day_of_five_centuries_survives_the_round_trip)
{
    for (int64_t day = -100000; day < 100000; day += 1) {
        char text[RFC3339_BYTES];
        int64_t ns;
        int64_t want = (day * 86400 + 12345) * NS_PER_SEC + 678901000;
        rfc3339_format_micro((struct wall){want}, text);
        assert_int_equal(parse(text, &ns), 0);
        assert_true(ns == want);
    }
}
