/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice_pace.h"

#include "base/text.h"
#include "base/time.h"

enum { DOUBLINGS_MAX = 20 /* beyond every cap */ };

static int64_t doubled_ns(int64_t min_ns, uint32_t times, int64_t max_ns)
{
    int64_t ns = mono_ns_mul(min_ns, INT64_C(1) << (times < DOUBLINGS_MAX ? times : DOUBLINGS_MAX));
    return ns < max_ns ? ns : max_ns;
}

int64_t slice_pace_doubled_ns(struct slice_pace *p, int64_t min_ns, uint32_t times, int64_t max_ns)
{
    int64_t ns = doubled_ns(min_ns, times, max_ns);
    return ns - prng_next(&p->random, ns / 4);
}

void slice_pace_init(struct slice_pace *p, int64_t renew_interval_ns, uint64_t seed)
{
    int64_t flip_ns = renew_interval_ns < SLICE_FLIP_MAX_NS ? renew_interval_ns : SLICE_FLIP_MAX_NS;
    *p = (struct slice_pace){
        .flip_ns = flip_ns > SLICE_FLIP_MIN_NS ? flip_ns : SLICE_FLIP_MIN_NS,
        .random = seed,
        .repair_at = MONO_NEVER,
        .last_repair = {-SLICE_QUIET_NS},
    };
}

static bool is_same(const struct slice_taint *a, const struct slice_taint *b)
{
    return a->is_set == b->is_set && text_equal(a->value, b->value);
}

static struct mono repair_at(struct slice_pace *p, struct mono now)
{
    if (!mono_is_never(p->repair_at)) {
        return p->repair_at;
    }
    if (mono_since(now, p->last_repair) > SLICE_QUIET_NS) {
        p->repairs = 0;
    }
    p->repair_at = mono_add(
        now, slice_pace_doubled_ns(p, SLICE_REPAIR_MIN_NS, p->repairs, SLICE_REPAIR_MAX_NS));
    return p->repair_at;
}

struct mono slice_pace_next(struct slice_pace *p, const struct slice_taint *taint, struct mono now)
{
    if (p->has_tried && !is_same(taint, &p->tried)) {
        return mono_max(p->next_flip, p->told_until);
    }
    return p->is_standing ? mono_max(repair_at(p, now), p->retry_at) : p->retry_at;
}

bool slice_pace_wrote(struct slice_pace *p, const struct slice_taint *taint, struct mono now)
{
    bool is_flip = p->has_tried && !is_same(taint, &p->tried);
    bool is_repair = p->is_standing && !is_flip;
    if (is_flip) {
        p->next_flip = mono_add(now, p->flip_ns);
    }
    if (is_repair) {
        p->repairs++;
        p->last_repair = now;
    }
    p->repair_at = MONO_NEVER;
    p->has_tried = true;
    p->is_standing = false;
    p->tried = *taint;
    return is_repair;
}

void slice_pace_stands(struct slice_pace *p, const struct slice_taint *taint)
{
    p->has_tried = true;
    p->is_standing = true;
    p->tried = *taint;
    p->repair_at = MONO_NEVER;
}

struct mono slice_pace_failed(struct slice_pace *p, int64_t told_ns, struct mono now)
{
    int64_t told = told_ns < SLICE_RETRY_MAX_NS ? told_ns : SLICE_RETRY_MAX_NS;
    int64_t cap_ns = doubled_ns(SLICE_RETRY_MIN_NS, p->failures, SLICE_RETRY_MAX_NS);
    int64_t wait_ns = SLICE_RETRY_MIN_NS + prng_next(&p->random, cap_ns);
    p->failures++;
    p->told_until = mono_add(now, told > 0 ? told : 0);
    p->retry_at = mono_max(mono_add(now, wait_ns), p->told_until);
    return p->retry_at;
}

void slice_pace_worked(struct slice_pace *p)
{
    p->failures = 0;
    p->retry_at = (struct mono){0};
    p->told_until = (struct mono){0};
}
