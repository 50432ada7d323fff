/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdbool.h>

int64_t mono_ns_add(int64_t a_ns, int64_t b_ns)
{
    int64_t sum;
    if (__builtin_add_overflow(a_ns, b_ns, &sum)) {
        return b_ns > 0 ? INT64_MAX : INT64_MIN;
    }
    return sum;
}

int64_t mono_ns_sub(int64_t a_ns, int64_t b_ns)
{
    int64_t difference;
    if (__builtin_sub_overflow(a_ns, b_ns, &difference)) {
        return b_ns > 0 ? INT64_MIN : INT64_MAX;
    }
    return difference;
}

int64_t mono_ns_mul(int64_t a_ns, int64_t factor)
{
    int64_t product;
    if (__builtin_mul_overflow(a_ns, factor, &product)) {
        return (a_ns > 0) == (factor > 0) ? INT64_MAX : INT64_MIN;
    }
    return product;
}

int64_t mono_ns_doubled(int64_t first_ns, uint32_t count, int64_t cap_ns)
{
    int64_t span_ns = first_ns;
    for (uint32_t i = 1; i < count && span_ns < cap_ns; i++) {
        span_ns = mono_ns_mul(span_ns, 2);
    }
    return mono_ns_min(span_ns, cap_ns);
}

/* ---- RFC 3339 -------------------------------------------------------------------------------- */

struct civil {
    int64_t year;
    int month;
    int day;
};

/* Years count from 1 March, and from -400, so that no number below is negative. */
enum { FIRST_YEAR = -400, DAYS_TO_1970 = 865565 };

/* Days since 1970-01-01 of a proleptic Gregorian date. */
static int64_t days_from_civil(struct civil c)
{
    int64_t year = c.year - FIRST_YEAR - (c.month <= 2);
    int64_t day_of_year = (153 * (c.month + (c.month > 2 ? -3 : 9)) + 2) / 5 + c.day - 1;
    return year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - DAYS_TO_1970;
}

static struct civil civil_from_days(int64_t days)
{
    int64_t shifted = days + DAYS_TO_1970;
    int64_t era = shifted / 146097; /* of 400 years */
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    struct civil c = {
        .day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1),
        .month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9)};
    c.year = year_of_era + era * 400 + FIRST_YEAR + (c.month <= 2);
    return c;
}

void rfc3339_format(struct wall t, bool micros, char out[static RFC3339_BYTES])
{
    int64_t ns = t.ns % NS_PER_SEC;
    int64_t seconds = t.ns / NS_PER_SEC - (ns < 0);
    int64_t of_day = seconds % 86400 + (seconds % 86400 < 0 ? 86400 : 0);
    struct civil c = civil_from_days((seconds - of_day) / 86400);
    char fraction[8] = "";
    if (micros) {
        text_format(fraction, sizeof(fraction), ".%06d",
                    (int)((ns < 0 ? ns + NS_PER_SEC : ns) / 1000));
    }
    text_format(out, RFC3339_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d%.7sZ", (int)c.year % 10000,
                c.month, c.day, (int)(of_day / 3600), (int)(of_day / 60 % 60), (int)(of_day % 60),
                fraction);
}

/* Days that a month does not have count on into the next one. */
static bool is_date(struct civil c)
{
    struct civil same = civil_from_days(days_from_civil(c));
    return c.month >= 1 && c.month <= 12 && same.month == c.month && same.day == c.day;
}

/* The fields of a pattern: the digit i in it stands for a digit of out[i], 'T' for any separator of
 * date and time. */
static bool read_fields(const char *pattern, const char *s, size_t len, int *out)
{
    for (size_t i = 0; pattern[i]; i++) {
        char p = pattern[i];
        if (i == len) {
            return false;
        }
        if (text_is_digit(p)) {
            if (!text_is_digit(s[i])) {
                return false;
            }
            out[p - '0'] = out[p - '0'] * 10 + (s[i] - '0');
        } else if (s[i] != p && (p != 'T' || (s[i] != 't' && s[i] != ' '))) {
            return false;
        }
    }
    return true;
}

/* ".123" in ns, if it is there, and how long it is. */
static int64_t read_fraction_ns(const char *s, size_t len, size_t *out_len)
{
    int64_t ns = 0;
    size_t digits = 0;
    while (digits < 9 && digits + 1 < len && (s[0] == '.' || s[0] == ',') &&
           text_is_digit(s[digits + 1])) {
        ns = ns * 10 + (s[++digits] - '0');
    }
    *out_len = digits > 0 ? digits + 1 : 0;
    for (; digits > 0 && digits < 9; digits++) {
        ns *= 10;
    }
    return ns;
}

static bool read_offset_seconds(const char *s, size_t len, int64_t *out)
{
    int parts[2] = {0}; /* hours, minutes */
    *out = 0;
    if (len == 1 && (s[0] == 'Z' || s[0] == 'z')) {
        return true;
    }
    if (len != 6 || (s[0] != '+' && s[0] != '-') || !read_fields("00:11", s + 1, len - 1, parts)) {
        return false;
    }
    int64_t seconds = (int64_t)parts[0] * 3600 + (int64_t)parts[1] * 60;
    *out = s[0] == '-' ? -seconds : seconds;
    return parts[0] < 24 && parts[1] < 60;
}

int rfc3339_parse(const char *s, size_t len, struct wall *out, struct err *e)
{
    static const char pattern[] = "0000-11-22T33:44:55";
    int f[6] = {0};
    size_t at = sizeof(pattern) - 1;
    size_t fraction_len;
    int64_t offset;
    bool valid = read_fields(pattern, s, len, f);
    int64_t fraction_ns = valid ? read_fraction_ns(s + at, len - at, &fraction_len) : 0;
    struct civil date = {.year = f[0], .month = f[1], .day = f[2]};
    valid = valid && read_offset_seconds(s + at + fraction_len, len - at - fraction_len, &offset) &&
            is_date(date) && f[3] < 24 && f[4] < 60 && f[5] <= 60;
    if (!valid) {
        return err_set(e, ERR_PARSE, "'%.*s' is not an RFC 3339 time",
                       (int)mono_ns_min((int64_t)len, RFC3339_BYTES - 1), s);
    }
    /* A leap second has no place in POSIX time: the one before it. */
    int64_t of_day = (int64_t)f[3] * 3600 + (int64_t)f[4] * 60 + (f[5] == 60 ? 59 : f[5]);
    int64_t seconds = days_from_civil(date) * 86400 + of_day - offset;
    if (seconds > INT64_MAX / NS_PER_SEC - 1 || seconds < INT64_MIN / NS_PER_SEC + 1) {
        return err_set(e, ERR_LIMIT, "time '%.*s' is out of range", (int)len, s);
    }
    *out = (struct wall){seconds * NS_PER_SEC + fraction_ns};
    return 0;
}

/* ---- chance and backoff ---------------------------------------------------------------------- */

/* SplitMix64 */
int64_t prng_next(uint64_t *state, int64_t most)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (int64_t)((z ^ (z >> 31)) % ((uint64_t)most + 1));
}

void backoff_init(struct backoff *b, int64_t base_ns, int64_t cap_ns, uint64_t seed)
{
    *b = (struct backoff){.base_ns = base_ns, .cap_ns = cap_ns, .random = seed};
}

int64_t backoff_next_ns(struct backoff *b, int64_t least_ns)
{
    b->failures += b->failures < UINT32_MAX;
    int64_t bound_ns = mono_ns_doubled(b->base_ns, b->failures, b->cap_ns);
    int64_t floor_ns = bound_ns / 10;
    int64_t wait_ns = floor_ns + prng_next(&b->random, bound_ns - floor_ns);
    return mono_ns_min(mono_ns_max(wait_ns, least_ns), b->cap_ns);
}

void backoff_reset(struct backoff *b)
{
    b->failures = 0;
}

/* ---- a line per period ----------------------------------------------------------------------- */

bool log_repeat_due(struct log_repeat *r, struct mono now, int64_t period_ns)
{
    if (mono_before(now, r->next)) {
        r->pending++;
        return false;
    }
    r->next = mono_add(now, period_ns);
    r->more[0] = '\0';
    if (r->pending > 0) {
        text_format(r->more, sizeof(r->more), " (%" PRIu64 " more like it %s not shown)",
                    r->pending, r->pending == 1 ? "was" : "were");
    }
    r->pending = 0;
    return true;
}

void log_repeat_reset(struct log_repeat *r)
{
    *r = (struct log_repeat){0};
}
