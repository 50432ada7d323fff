/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time as typed values, and how long to wait: the compiler refuses to mix the two clocks.
 *
 * `struct mono` is CLOCK_BOOTTIME of the *initial* time namespace: it never steps, goes on through
 * suspend, and means the same to every process of one boot. All deadlines are mono. `struct wall`
 * is CLOCK_REALTIME, for humans and for the stamps on a Lease; it decides nothing. Durations are
 * int64_t nanoseconds with `_ns` in the name. All arithmetic saturates.
 *
 * Pure; the clocks themselves are read in base/clock.h, once per wake-up.
 */
#ifndef BASE_TIME_H
#define BASE_TIME_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mono {
    int64_t ns; /* since boot */
};

struct wall {
    int64_t ns; /* since 1970-01-01T00:00:00Z */
};

#define NS_PER_MS  INT64_C(1000000)
#define NS_PER_SEC INT64_C(1000000000)

/* Later than any real time; "no deadline". */
static const struct mono MONO_NEVER = {INT64_MAX};

/* Of durations, saturating. */
int64_t mono_ns_add(int64_t a_ns, int64_t b_ns);
int64_t mono_ns_sub(int64_t a_ns, int64_t b_ns);
int64_t mono_ns_mul(int64_t a_ns, int64_t factor);

static inline int64_t mono_ns_min(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static inline int64_t mono_ns_max(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* Before try `count`, from 1: the first span, doubled for each further one, up to the cap. */
int64_t mono_ns_doubled(int64_t first_ns, uint32_t count, int64_t cap_ns);

static inline bool mono_is_never(struct mono t)
{
    return t.ns == INT64_MAX;
}

/* MONO_NEVER stays MONO_NEVER. */
static inline struct mono mono_add(struct mono t, int64_t span_ns)
{
    return mono_is_never(t) ? t : (struct mono){mono_ns_add(t.ns, span_ns)};
}

static inline int64_t mono_since(struct mono later, struct mono earlier)
{
    return mono_ns_sub(later.ns, earlier.ns);
}

static inline bool mono_before(struct mono a, struct mono b)
{
    return a.ns < b.ns;
}

static inline bool mono_reached(struct mono now, struct mono deadline)
{
    return now.ns >= deadline.ns;
}

static inline struct mono mono_min(struct mono a, struct mono b)
{
    return a.ns < b.ns ? a : b;
}

static inline struct mono mono_max(struct mono a, struct mono b)
{
    return a.ns > b.ns ? a : b;
}

/* The earliest of `count` moments that is after `now`; NEVER: none is. */
struct mono mono_first_after(struct mono now, const struct mono *moments, size_t count);

static inline int64_t wall_since(struct wall later, struct wall earlier)
{
    return mono_ns_sub(later.ns, earlier.ns);
}

/* ---- RFC 3339 -------------------------------------------------------------------------------- */

/*
 * Timestamps as Kubernetes has them. MicroTime needs EXACTLY six fractional digits, a real API
 * server answers 400 to anything else (apimachinery meta/v1 micro_time.go).
 */
enum { RFC3339_BYTES = 48 }; /* room for either form and its terminator */

/* "2026-11-20T10:00:00.123456Z" (metav1.MicroTime), or without the fraction (metav1.Time), rounded
 * down. A value, so that it can stand in an argument: rfc3339_text(t, true).text lives until the
 * end of its statement. */
struct rfc3339_text {
    char text[RFC3339_BYTES];
};
struct rfc3339_text rfc3339_text(struct wall t, bool micros);

/* Of a text that rfc3339_text() gives. Errors: ERR_PARSE, also for what does not fit 64-bit
 * nanoseconds (1677 to 2262). */
NODISCARD int rfc3339_parse(const char *s, size_t len, struct wall *out, struct err *e);

/* ---- chance and backoff ---------------------------------------------------------------------- */

/* Pseudo-random, uniform in [0, most]; `most` is not negative. Any seed does. */
int64_t prng_next(uint64_t *state, int64_t most);

/*
 * Exponential backoff with full jitter: each wait is drawn from [0, min(cap, base * 2^n)], so that
 * a fleet that failed together does not come back together.
 */
struct backoff {
    int64_t base_ns;
    int64_t cap_ns;
    uint32_t failures;
    uint64_t random; /* of prng_next; seeded by the owner */
};

void backoff_init(struct backoff *b, int64_t base_ns, int64_t cap_ns, uint64_t seed);
/* The wait before the next try, at least a tenth of the current bound; `least_ns` (Retry-After, or
 * 0) raises it, but never above the cap. */
int64_t backoff_next_ns(struct backoff *b, int64_t least_ns);
void backoff_reset(struct backoff *b);

/* ---- a line per period ----------------------------------------------------------------------- */

/* Of one kind of message: zero-initialise it. See log_limited() of base/log.h. */
enum { LOG_MORE_BYTES = 64 };

#define LOG_AGAIN_NS  (60 * NS_PER_SEC)   /* the period where nothing speaks for another */
#define LOG_SELDOM_NS (3600 * NS_PER_SEC) /* of what lasts until somebody acts */

struct log_repeat {
    struct mono next;          /* the earliest time of the next line */
    uint64_t pending;          /* lines withheld since the last one */
    char more[LOG_MORE_BYTES]; /* of the one that is due: " (12 more like it were not shown)" */
};

/* True if a line is due now; log_limited() asks and writes it. For a core. */
bool log_repeat_due(struct log_repeat *r, struct mono now, int64_t period_ns);
/* Forgets the past: the next one is due at once. */
void log_repeat_reset(struct log_repeat *r);

#endif
