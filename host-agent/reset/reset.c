/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/reset/reset.h"

#include "base/text.h"
#include "base/time.h"

#include <assert.h>

void reset_init(struct reset *x, const struct reset_config *config)
{
    x->config = *config;
    x->count = 0;
    x->lost = 0;
    x->settled_at = MONO_NEVER;
    x->next_stop = (struct mono){0};
    x->is_busy = false;
    x->chance = config->seed;
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct reset_sandbox *find(struct reset *x, const char *id)
{
    for (size_t i = 0; i < x->count; i++) {
        if (text_equal(x->sandboxes[i].id, id)) {
            return &x->sandboxes[i];
        }
    }
    return NULL;
}

static bool counts(const struct reset_sandbox *s)
{
    return s->state != RESET_SUSPECT;
}

static void forget(struct reset *x, struct reset_sandbox *s)
{
    x->lost -= counts(s);
    *s = x->sandboxes[--x->count]; /* their order says nothing */
}

/* NULL if it does not fit: then it is whole for all that we remember. */
static struct reset_sandbox *add(struct reset *x, const struct reset_event *event)
{
    if (x->count == RESET_SANDBOXES_MAX) {
        return NULL;
    }
    struct reset_sandbox *s = &x->sandboxes[x->count];
    *s = (struct reset_sandbox){
        .state = RESET_SUSPECT, .made = event->made, .gone_since = event->now};
    if (!text_copy(s->id, sizeof(s->id), event->id)) {
        return NULL;
    }
    x->count++;
    return s;
}

/* ---- evidence -------------------------------------------------------------------------------- */

static bool is_in_hand(const struct reset_sandbox *s)
{
    return s->state == RESET_ASKING || s->state == RESET_STOPPING;
}

static void see_gone(struct reset *x, struct reset_sandbox *s, const struct reset_event *event,
                     struct reset_update *out)
{
    struct mono now = event->now;
    s->seen_at = now;
    s->is_by_device = event->is_by_device;
    s->is_listed = true;
    if (s->state == RESET_SUSPECT &&
        mono_reached(now, mono_add(s->gone_since, x->config.debounce_ns))) {
        s->state = RESET_LOST;
        x->lost++;
        out->turn = RESET_TURN_LOST;
    } else if (s->state == RESET_STOPPED && mono_reached(now, s->not_before)) {
        s->state = RESET_LOST;
    }
}

static void see(struct reset *x, const struct reset_event *event, struct reset_update *out)
{
    struct reset_sandbox *s = find(x, event->id);
    switch (event->evidence) {
    case RESET_UNCLEAR:
        if (s) {
            s->is_listed = true;
        }
        return;
    case RESET_WHOLE:
        if (s && is_in_hand(s)) {
            s->is_listed = true; /* what was asked for is on its way */
        } else if (s) {
            out->turn = counts(s) ? RESET_TURN_BACK : RESET_NO_TURN;
            forget(x, s);
        }
        return;
    case RESET_GONE:
        s = s ? s : add(x, event);
        if (s) {
            see_gone(x, s, event, out);
        }
        return;
    }
}

static void end_scan(struct reset *x)
{
    for (size_t i = x->count; i-- > 0;) {
        struct reset_sandbox *s = &x->sandboxes[i];
        if (!s->is_listed && !is_in_hand(s)) {
            forget(x, s); /* the last one, which takes its place, was looked at before */
        } else {
            s->is_listed = false;
        }
    }
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void note_dpu(struct reset *x, const struct reset_event *event)
{
    if (!event->is_ready) {
        x->settled_at = MONO_NEVER;
    } else if (mono_is_never(x->settled_at)) {
        int64_t jitter_ns = prng_next(&x->chance, x->config.settle_ns / 4);
        x->settled_at = mono_add(event->now, mono_ns_add(x->config.settle_ns, jitter_ns));
    }
}

static int64_t retry_ns(uint32_t failures)
{
    int64_t wait_ns = RESET_RETRY_BASE_NS;
    for (uint32_t i = 1; i < failures && wait_ns < RESET_RETRY_MAX_NS; i++) {
        wait_ns *= 2;
    }
    return wait_ns < RESET_RETRY_MAX_NS ? wait_ns : RESET_RETRY_MAX_NS;
}

static void set_gap(struct reset *x, struct mono now)
{
    int64_t gap_ns = x->config.gap_ns / 2 + prng_next(&x->chance, x->config.gap_ns);
    x->is_busy = false;
    x->next_stop = mono_add(now, gap_ns);
}

static void back_off(struct reset_sandbox *s, struct mono now)
{
    s->state = RESET_LOST;
    s->failures++;
    s->not_before = mono_add(now, retry_ns(s->failures));
}

static bool has_settled(const struct reset *x, struct mono now)
{
    return !mono_is_never(x->settled_at) && mono_reached(now, x->settled_at);
}

static void note_answer(struct reset *x, const struct reset_event *event, struct reset_update *out)
{
    struct reset_sandbox *s = find(x, event->id);
    if (!s || s->state != RESET_ASKING) {
        return;
    }
    bool is_gone = event->evidence == RESET_GONE;
    if (is_gone && event->policy == RESET_POLICY_RESTARTS && has_settled(x, event->now)) {
        s->state = RESET_STOPPING;
        out->stop = s->id; /* still busy */
        return;
    }
    set_gap(x, event->now);
    back_off(s, event->now);
    s->is_spared = event->policy == RESET_POLICY_NEVER;
    if (event->evidence == RESET_WHOLE) {
        out->turn = RESET_TURN_BACK;
        forget(x, s);
    }
}

static void note_done(struct reset *x, const struct reset_event *event)
{
    struct reset_sandbox *s = find(x, event->id);
    if (!s || s->state != RESET_STOPPING) {
        return;
    }
    set_gap(x, event->now);
    if (event->is_stopped) {
        s->state = RESET_STOPPED;
        s->failures = 0;
        s->not_before = mono_add(event->now, RESET_STILL_THERE_NS);
    } else {
        back_off(s, event->now);
    }
}

/* May be stopped once its time has come: its loss was seen in a scan that is not long ago. */
static bool is_candidate(const struct reset *x, const struct reset_sandbox *s, struct mono now)
{
    return s->state == RESET_LOST && !s->is_spared &&
           mono_before(now, mono_add(s->seen_at, x->config.debounce_ns));
}

/* Asks about what is due, or says when something may be. */
static void choose(struct reset *x, struct mono now, struct reset_update *out)
{
    struct reset_sandbox *oldest = NULL;
    if (!x->config.stops || x->is_busy || mono_is_never(x->settled_at)) {
        return;
    }
    struct mono earliest = mono_max(x->settled_at, x->next_stop);
    int64_t silence_ns = mono_ns_add(x->config.settle_ns, x->config.settle_ns / 4);
    for (size_t i = 0; i < x->count; i++) {
        struct reset_sandbox *s = &x->sandboxes[i];
        struct mono known = mono_add(s->gone_since, silence_ns);
        struct mono due = mono_max(known, mono_max(earliest, s->not_before));
        if (!is_candidate(x, s, now)) {
            continue;
        }
        if (!mono_reached(now, due)) {
            out->wake_at = mono_min(out->wake_at, due);
        } else if (!oldest || s->made.ns < oldest->made.ns) {
            oldest = s;
        }
    }
    if (oldest) {
        oldest->state = RESET_ASKING;
        x->is_busy = true;
        out->ask = oldest->id;
        out->wake_at = MONO_NEVER; /* ANSWER comes next */
    }
}

void reset_step(struct reset *x, const struct reset_event *event, struct reset_update *out)
{
    size_t lost = x->lost;
    *out = (struct reset_update){.wake_at = MONO_NEVER};
    switch (event->kind) {
    case RESET_SEEN:
        see(x, event, out);
        break;
    case RESET_SCANNED:
        end_scan(x);
        break;
    case RESET_DPU:
        note_dpu(x, event);
        break;
    case RESET_ANSWER:
        note_answer(x, event, out);
        break;
    case RESET_DONE:
        note_done(x, event);
        break;
    case RESET_TICK:
        break;
    }
    assert(x->lost <= x->count);
    if (event->kind != RESET_SEEN) { /* the end of the scan follows, once for all */
        choose(x, event->now, out);
    }
    out->count_changed = x->lost != lost;
}
