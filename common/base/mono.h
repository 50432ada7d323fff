/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time as typed values: the compiler refuses to mix the two clocks.
 *
 * `struct mono` is CLOCK_BOOTTIME of the *initial* time namespace: it never steps, goes on through
 * suspend, and means the same to every process of one boot. All deadlines are mono. `struct wall`
 * is CLOCK_REALTIME, for humans and for the stamps on a Lease; it decides nothing. Durations are
 * int64_t nanoseconds with `_ns` in the name. All arithmetic saturates.
 *
 * This half is pure; the clocks themselves are read in base/clock.h, once per wake-up.
 */
#ifndef BASE_MONO_H
#define BASE_MONO_H

#include <stdbool.h>
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

/* Saturating a + b and a - b of two durations. */
int64_t mono_ns_add(int64_t a_ns, int64_t b_ns);
int64_t mono_ns_sub(int64_t a_ns, int64_t b_ns);
/* Saturating a * factor. */
int64_t mono_ns_mul(int64_t a_ns, int64_t factor);

/* t + span; MONO_NEVER stays MONO_NEVER. */
struct mono mono_add(struct mono t, int64_t span_ns);
/* later - earlier. */
int64_t mono_since(struct mono later, struct mono earlier);
bool mono_before(struct mono a, struct mono b);           /* a < b */
bool mono_reached(struct mono now, struct mono deadline); /* now >= deadline */
struct mono mono_min(struct mono a, struct mono b);
struct mono mono_max(struct mono a, struct mono b);
bool mono_is_never(struct mono t);

/* later - earlier. */
int64_t wall_since(struct wall later, struct wall earlier);

#endif
