/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/podnet/podnet_plan.h"

#include "base/time.h"

void podnet_plan_init(struct podnet_plan *x, const struct podnet_plan_config *config)
{
    *x = (struct podnet_plan){.config = *config, .settled_at = MONO_NEVER, .random = config->seed};
}

/* ---- evidence -------------------------------------------------------------------------------- */

static void loss_forget(struct podnet_plan *x, struct podnet_loss *s)
{
    x->lost -= podnet_is_lost(s);
    *s = (struct podnet_loss){.next = s->next, .made = s->made};
}

static void loss_see_gone(struct podnet_plan *x, const struct podnet_event *event,
                          struct podnet_update *out)
{
    struct podnet_loss *s = event->about;
    struct mono now = event->now;
    if (s->state == PODNET_UNSUSPECTED) {
        s->state = PODNET_SUSPECT;
        s->gone_since = now;
    }
    s->seen_at = now;
    s->is_by_device = event->is_by_device;
    if (s->state == PODNET_SUSPECT &&
        mono_reached(now, mono_add(s->gone_since, x->config.debounce_ns))) {
        s->state = PODNET_LOST;
        x->lost++;
        out->turn = PODNET_TURN_LOST;
    }
}

static void loss_see(struct podnet_plan *x, const struct podnet_event *event,
                     struct podnet_update *out)
{
    struct podnet_loss *s = event->about;
    if (event->evidence == POD_NET_LOST) {
        loss_see_gone(x, event, out);
    } else if (event->evidence == POD_NET_WHOLE && !podnet_is_in_hand(s)) {
        out->turn = podnet_is_lost(s) ? PODNET_TURN_BACK : PODNET_NO_TURN;
        loss_forget(x, s);
    }
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void note_dpu(struct podnet_plan *x, const struct podnet_event *event)
{
    if (!event->is_ready) {
        x->settled_at = MONO_NEVER;
    } else if (mono_is_never(x->settled_at)) {
        int64_t jitter_ns = prng_next(&x->random, x->config.settle_ns / 4);
        x->settled_at = mono_add(event->now, mono_ns_add(x->config.settle_ns, jitter_ns));
    }
}

static void set_gap(struct podnet_plan *x, struct mono now)
{
    int64_t gap_ns = x->config.gap_ns / 2 + prng_next(&x->random, x->config.gap_ns);
    x->is_busy = false;
    x->next_stop = mono_add(now, gap_ns);
}

static void loss_back_off(struct podnet_loss *s, struct mono now)
{
    s->state = PODNET_LOST;
    s->retry_ns = s->retry_ns == 0 ? PODNET_RETRY_BASE_NS : 2 * s->retry_ns;
    s->retry_ns = s->retry_ns < PODNET_RETRY_MAX_NS ? s->retry_ns : PODNET_RETRY_MAX_NS;
    s->not_before = mono_add(now, s->retry_ns);
}

static void note_answer(struct podnet_plan *x, const struct podnet_event *event,
                        struct podnet_update *out)
{
    struct podnet_loss *s = event->about;
    bool has_settled = mono_reached(event->now, x->settled_at);
    if (event->evidence == POD_NET_LOST && event->policy == PODNET_POLICY_RESTARTS && has_settled) {
        out->stop = s; /* still in hand */
        return;
    }
    set_gap(x, event->now);
    loss_back_off(s, event->now);
    s->is_spared = event->policy == PODNET_POLICY_NEVER;
    if (event->evidence == POD_NET_WHOLE) {
        out->turn = PODNET_TURN_BACK;
        loss_forget(x, s);
    }
}

static void note_done(struct podnet_plan *x, const struct podnet_event *event)
{
    struct podnet_loss *s = event->about;
    set_gap(x, event->now);
    if (event->is_stopped) {
        s->state = PODNET_LOST; /* until it is listed no more */
        s->retry_ns = 0;
        s->not_before = mono_add(event->now, PODNET_STILL_THERE_NS);
    } else {
        loss_back_off(s, event->now);
    }
}

/* May be stopped once its time has come: its loss was seen in a scan that is not long ago. */
static bool is_candidate(const struct podnet_plan *x, const struct podnet_loss *s, struct mono now)
{
    return s->state == PODNET_LOST && !s->is_spared &&
           mono_before(now, mono_add(s->seen_at, x->config.debounce_ns));
}

/* Asks about what is due, or says when something may be. */
static void choose_next(struct podnet_plan *x, struct mono now, struct podnet_update *out)
{
    struct podnet_loss *oldest = NULL;
    if (!x->config.stops || x->is_busy) {
        return;
    }
    struct mono earliest = mono_max(x->settled_at, x->next_stop);
    int64_t silence_ns = mono_ns_add(x->config.settle_ns, x->config.settle_ns / 4);
    for (struct podnet_loss *s = x->all; s; s = s->next) {
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
        oldest->state = PODNET_IN_HAND;
        x->is_busy = true;
        out->ask = oldest;
        out->wake_at = MONO_NEVER; /* ANSWER comes next */
    }
}

void podnet_plan_step(struct podnet_plan *x, const struct podnet_event *event,
                      struct podnet_update *out)
{
    *out = (struct podnet_update){.wake_at = MONO_NEVER};
    switch (event->kind) {
    case PODNET_SEEN:
        loss_see(x, event, out);
        break;
    case PODNET_ENDED:
        loss_forget(x, event->about);
        break;
    case PODNET_DPU:
        note_dpu(x, event);
        break;
    case PODNET_ANSWER:
        note_answer(x, event, out);
        break;
    case PODNET_DONE:
        note_done(x, event);
        break;
    case PODNET_SCANNED:
    case PODNET_TICK:
        break;
    }
    if (event->kind != PODNET_SEEN && event->kind != PODNET_ENDED) { /* SCANNED follows, for all */
        choose_next(x, event->now, out);
    }
}
