/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rfc3339.h"

#include "base/text.h"

#include <stdbool.h>

struct civil {
    int64_t year;
    int month;
    int day;
};

/* Days since 1970-01-01 of a proleptic Gregorian date, counted in 400-year eras from 1 March. */
static int64_t days_from_civil(struct civil c)
{
    int64_t year = c.month <= 2 ? c.year - 1 : c.year;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (c.month + (c.month > 2 ? -3 : 9)) + 2) / 5 + c.day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

static struct civil civil_from_days(int64_t days)
{
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    struct civil c = {
        .day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1),
        .month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9)};
    c.year = year_of_era + era * 400 + (c.month <= 2);
    return c;
}

static void format(struct wall t, bool micros, char out[static RFC3339_BYTES])
{
    int64_t seconds = t.ns / NS_PER_SEC;
    int64_t ns = t.ns % NS_PER_SEC;
    if (ns < 0) {
        ns += NS_PER_SEC;
        seconds--;
    }
    int64_t days = seconds / 86400;
    int64_t second_of_day = seconds % 86400;
    if (second_of_day < 0) {
        second_of_day += 86400;
        days--;
    }
    struct civil c = civil_from_days(days);
    char fraction[8] = "";
    if (micros) {
        text_format(fraction, sizeof(fraction), ".%06d", (int)(ns / 1000));
    }
    text_format(out, RFC3339_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d%.7sZ", (int)c.year % 10000,
                c.month, c.day, (int)(second_of_day / 3600), (int)(second_of_day / 60 % 60),
                (int)(second_of_day % 60), fraction);
}

void rfc3339_format_micro(struct wall t, char out[static RFC3339_BYTES])
{
    format(t, true, out);
}

void rfc3339_format_seconds(struct wall t, char out[static RFC3339_BYTES])
{
    format(t, false, out);
}

static int days_in_month(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

/* A reader over the text: each step takes characters or marks the whole as failed. */
struct cursor {
    const char *at;
    const char *end;
    bool failed;
};

static int take_digits(struct cursor *c, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (c->at == c->end || *c->at < '0' || *c->at > '9') {
            c->failed = true;
            return 0;
        }
        value = value * 10 + (*c->at++ - '0');
    }
    return value;
}

static bool take_one_of(struct cursor *c, const char *accepted)
{
    for (const char *a = accepted; c->at < c->end && *a; a++) {
        if (*c->at == *a) {
            c->at++;
            return true;
        }
    }
    return false;
}

static void expect(struct cursor *c, const char *accepted)
{
    if (!c->failed && !take_one_of(c, accepted)) {
        c->failed = true;
    }
}

static int64_t take_fraction_ns(struct cursor *c)
{
    int64_t ns = 0;
    int digits = 0;
    if (c->failed || !take_one_of(c, ".,")) {
        return 0;
    }
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && digits < 9) {
        ns = ns * 10 + (*c->at++ - '0');
        digits++;
    }
    if (digits == 0) {
        c->failed = true;
    }
    for (; digits < 9; digits++) {
        ns *= 10;
    }
    return ns;
}

static int64_t take_offset_seconds(struct cursor *c)
{
    if (c->failed || take_one_of(c, "Zz")) {
        return 0;
    }
    bool negative = c->at < c->end && *c->at == '-';
    expect(c, "+-");
    int hours = take_digits(c, 2);
    expect(c, ":");
    int minutes = take_digits(c, 2);
    if (hours > 23 || minutes > 59) {
        c->failed = true;
    }
    int64_t seconds = (int64_t)hours * 3600 + (int64_t)minutes * 60;
    return negative ? -seconds : seconds;
}

int rfc3339_parse(const char *s, size_t len, struct wall *out, struct err *e)
{
    struct cursor c = {.at = s, .end = s + len};
    struct civil date = {.year = take_digits(&c, 4)};
    expect(&c, "-");
    date.month = take_digits(&c, 2);
    expect(&c, "-");
    date.day = take_digits(&c, 2);
    expect(&c, "Tt ");
    int hour = take_digits(&c, 2);
    expect(&c, ":");
    int minute = take_digits(&c, 2);
    expect(&c, ":");
    int second = take_digits(&c, 2);
    int64_t fraction_ns = take_fraction_ns(&c);
    int64_t offset = take_offset_seconds(&c);
    bool valid = !c.failed && c.at == c.end && date.month >= 1 && date.month <= 12 &&
                 date.day >= 1 && date.day <= days_in_month(date.year, date.month) && hour < 24 &&
                 minute < 60 && second <= 60;
    if (!valid) {
        char shown[48];
        text_sanitize(shown, sizeof(shown), s, len);
        return err_set(e, ERR_PARSE, "'%s' is not an RFC 3339 time", shown);
    }
    if (second == 60) {
        second = 59; /* a leap second has no place in POSIX time: clamp */
    }
    int64_t of_day = (int64_t)hour * 3600 + (int64_t)minute * 60 + second;
    int64_t seconds = days_from_civil(date) * 86400 + of_day - offset;
    if (seconds > INT64_MAX / NS_PER_SEC - 1 || seconds < INT64_MIN / NS_PER_SEC + 1) {
        return err_set(e, ERR_LIMIT, "time '%.*s' is out of range", (int)len, s);
    }
    *out = (struct wall){seconds * NS_PER_SEC + fraction_ns};
    return 0;
}
