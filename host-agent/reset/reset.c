/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/reset/reset.h"

#include "base/chance.h"
#include "base/text.h"

#include <assert.h>

void reset_init(struct reset *x, const struct reset_config *config)
{
    x->config = *config;
    x->count = 0;
    x->lost = 0;
    x->settled_at = MONO_NEVER;
    x->next_stop = (struct mono){0};
    x->is_stopping = false;
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

static void see_gone(struct reset *x, struct reset_sandbox *s, struct mono now,
                     struct reset_update *out)
{
    s->seen_at = now;
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
        if (s && s->state == RESET_STOPPING) {
            s->is_listed = true; /* what was asked for is on its way */
        } else if (s) {
            out->turn = counts(s) ? RESET_TURN_BACK : RESET_NO_TURN;
            forget(x, s);
        }
        return;
    case RESET_GONE:
        s = s ? s : add(x, event);
        if (s) {
            see_gone(x, s, event->now, out);
        }
        return;
    }
}

static void end_scan(struct reset *x)
{
    for (size_t i = x->count; i-- > 0;) {
        struct reset_sandbox *s = &x->sandboxes[i];
        if (!s->is_listed && s->state != RESET_STOPPING) {
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
        int64_t jitter_ns = chance_next(&x->chance, x->config.settle_ns / 4);
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

static void note_done(struct reset *x, const struct reset_event *event)
{
    struct reset_sandbox *s = find(x, event->id);
    if (!s || s->state != RESET_STOPPING) {
        return;
    }
    int64_t gap_ns = x->config.gap_ns / 2 + chance_next(&x->chance, x->config.gap_ns);
    x->is_stopping = false;
    x->next_stop = mono_add(event->now, gap_ns);
    if (event->is_stopped) {
        s->state = RESET_STOPPED;
        s->failures = 0;
        s->not_before = mono_add(event->now, RESET_STILL_THERE_NS);
    } else {
        s->state = RESET_LOST;
        s->failures++;
        s->not_before = mono_add(event->now, retry_ns(s->failures));
    }
}

/* May be stopped once its time has come: its loss was seen in a scan that is not long ago. */
static bool is_candidate(const struct reset *x, const struct reset_sandbox *s, struct mono now)
{
    return s->state == RESET_LOST && s->policy == RESET_POLICY_RESTARTS &&
           mono_before(now, mono_add(s->seen_at, x->config.debounce_ns));
}

/* Stops what is due, or says when something may be. Not in the middle of what is learned of pods:
 * it would be the first that was told in place of the oldest. */
static void choose(struct reset *x, const struct reset_event *event, struct reset_update *out)
{
    struct mono now = event->now;
    struct reset_sandbox *oldest = NULL;
    if (!x->config.stops || x->is_stopping || mono_is_never(x->settled_at)) {
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
    if (oldest && event->kind != RESET_POLICY) {
        oldest->state = RESET_STOPPING;
        x->is_stopping = true;
        out->stop = oldest->id;
        out->wake_at = MONO_NEVER; /* DONE comes next */
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
    case RESET_POLICY: {
        struct reset_sandbox *s = find(x, event->id);
        if (s) {
            s->policy = event->policy;
        }
        break;
    }
    case RESET_DONE:
        note_done(x, event);
        break;
    case RESET_TICK:
        break;
    }
    assert(x->lost <= x->count);
    if (event->kind != RESET_SEEN) { /* the end of the scan follows, once for all */
        choose(x, event, out);
    }
    out->count_changed = x->lost != lost;
}
