/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

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
        return (a_ns ^ factor) < 0 ? INT64_MIN : INT64_MAX;
    }
    return product;
}

struct mono mono_first_after(struct mono now, const struct mono *moments, size_t count)
{
    struct mono first = MONO_NEVER;
    for (size_t i = 0; i < count; i++) {
        if (mono_before(now, moments[i])) {
            first = mono_min(first, moments[i]);
        }
    }
    return first;
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

/* So many digits, and what separates them from the next; returns the end. */
static char *put_digits(char *at, int64_t value, int count, char separator)
{
    for (int i = count; i > 0; i--) {
        at[i - 1] = (char)('0' + value % 10);
        value /= 10;
    }
    at[count] = separator;
    return at + count + 1;
}

/* By hand, not by snprintf, because each heartbeat writes several. A wall time is of the years 1677
 * to 2262: four digits. */
struct rfc3339_text rfc3339_text(struct wall t, bool micros)
{
    struct rfc3339_text out = {.text = ""};
    int64_t ns = t.ns % NS_PER_SEC;
    int64_t seconds = t.ns / NS_PER_SEC - (ns < 0);
    int64_t of_day = seconds % 86400 + (seconds % 86400 < 0 ? 86400 : 0);
    struct civil c = civil_from_days((seconds - of_day) / 86400);
    char *at = put_digits(out.text, c.year, 4, '-');
    at = put_digits(at, c.month, 2, '-');
    at = put_digits(at, c.day, 2, 'T');
    at = put_digits(at, of_day / 3600, 2, ':');
    at = put_digits(at, of_day / 60 % 60, 2, ':');
    at = put_digits(at, of_day % 60, 2, micros ? '.' : 'Z');
    if (micros) {
        (void)put_digits(at, (ns < 0 ? ns + NS_PER_SEC : ns) / 1000, 6, 'Z');
    }
    return out;
}

/* The API server gives each time back as rfc3339_text() writes it, whatever form it was given. */
int rfc3339_parse(const char *s, size_t len, struct wall *out, struct err *e)
{
    static const char pattern[] = "0000-11-22T33:44:55.666666Z"; /* the digit i: one of f[i] */
    int64_t f[7] = {0};
    for (size_t i = 0; i < len && pattern[i]; i++) {
        if (text_is_digit(pattern[i])) { /* what is none in `s` shows below */
            int64_t *field = &f[pattern[i] - '0'];
            *field = *field * 10 + (s[i] - '0');
        }
    }
    struct civil date = {.year = f[0], .month = (int)f[1], .day = (int)f[2]};
    int64_t seconds = days_from_civil(date) * 86400 + f[3] * 3600 + f[4] * 60 + f[5];
    struct wall t = {mono_ns_add(mono_ns_mul(seconds, NS_PER_SEC), f[6] * 1000)};
    const struct rfc3339_text same = rfc3339_text(t, len == sizeof(pattern) - 1);
    if (t.ns == INT64_MIN || len != strlen(same.text) || memcmp(s, same.text, len) != 0) {
        return err_set(e, ERR_PARSE, "'%.*s' is not an RFC 3339 time in UTC",
                       (int)mono_ns_min((int64_t)len, RFC3339_BYTES - 1), s);
    }
    *out = t;
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
    *r = (struct log_repeat){.pending = 0};
}
