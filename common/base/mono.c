/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mono.h"

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

struct mono mono_add(struct mono t, int64_t span_ns)
{
    if (mono_is_never(t)) {
        return t;
    }
    return (struct mono){mono_ns_add(t.ns, span_ns)};
}

int64_t mono_since(struct mono later, struct mono earlier)
{
    return mono_ns_sub(later.ns, earlier.ns);
}

bool mono_before(struct mono a, struct mono b)
{
    return a.ns < b.ns;
}

bool mono_reached(struct mono now, struct mono deadline)
{
    return now.ns >= deadline.ns;
}

struct mono mono_min(struct mono a, struct mono b)
{
    return a.ns < b.ns ? a : b;
}

struct mono mono_max(struct mono a, struct mono b)
{
    return a.ns > b.ns ? a : b;
}

bool mono_is_never(struct mono t)
{
    return t.ns == INT64_MAX;
}

int64_t wall_since(struct wall later, struct wall earlier)
{
    return mono_ns_sub(later.ns, earlier.ns);
}
