/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is seen, answered and done, in any order: no sandbox is stopped against the rules. Four
 * bytes are a step: what and whom it is about, what is said of it, and how much later. */
#include "host-agent/podnet/podnet_plan.h"

#include "base/err.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

enum { IDS = 8, STEP_BYTES = 4 };

static const struct podnet_plan_config config = {.debounce_ns = 10 * NS_PER_SEC,
                                                 .settle_ns = 40 * NS_PER_SEC,
                                                 .gap_ns = NS_PER_SEC,
                                                 .stops = true,
                                                 .seed = 7};

/* What a bystander remembers. */
struct witness {
    struct mono ready_since;     /* MONO_NEVER: it is not */
    struct podnet_loss *in_hand; /* NULL: nobody */
    bool is_asked;               /* it; else it is being stopped */
};

static struct podnet_event read_event(const uint8_t *at, struct mono now, const struct witness *w,
                                      struct podnet_loss *all)
{
    static const enum podnet_event_kind kinds[] = {PODNET_SEEN, PODNET_SCANNED, PODNET_DPU,
                                                   PODNET_TICK, PODNET_TICK,    PODNET_TICK};
    static const enum pod_net_evidence evidences[] = {POD_NET_AWAY, POD_NET_WHOLE, POD_NET_LOST};
    bool is_to_the_point = (at[2] & 4) != 0 && w->in_hand;
    return (struct podnet_event){
        .kind = is_to_the_point ? (w->is_asked ? PODNET_ANSWER : PODNET_DONE)
                                : kinds[at[0] % ARRAY_LEN(kinds)],
        .now = now,
        .about = is_to_the_point ? w->in_hand : &all[at[1] % IDS],
        .evidence = evidences[at[0] / 8 % ARRAY_LEN(evidences)],
        .policy = (enum podnet_policy)(at[1] / IDS % 3),
        .is_ready = (at[2] & 1) != 0,
        .is_stopped = (at[2] & 2) != 0,
    };
}

static void check_ask(const struct witness *w, struct mono now, const struct podnet_loss *s)
{
    int64_t silence_ns = config.settle_ns / 4 * 5;
    assert(!w->in_hand && !s->is_spared); /* one at a time */
    assert(mono_reached(now, mono_add(w->ready_since, config.settle_ns)));
    assert(mono_reached(now, mono_add(s->gone_since, silence_ns)));
    assert(mono_before(now, mono_add(s->seen_at, config.debounce_ns)));
}

static void check_update(const struct podnet_plan *x, struct witness *w,
                         const struct podnet_event *event, const struct podnet_update *out)
{
    bool is_about_it = w->in_hand && event->about == w->in_hand;
    bool is_answer = event->kind == PODNET_ANSWER && is_about_it && w->is_asked;
    bool is_done = event->kind == PODNET_DONE && is_about_it && !w->is_asked;
    if (event->kind == PODNET_DPU) {
        w->ready_since = !event->is_ready                ? MONO_NEVER
                         : mono_is_never(w->ready_since) ? event->now
                                                         : w->ready_since;
    }
    size_t lost = 0;
    for (const struct podnet_loss *s = x->all; s; s = s->next) {
        lost += podnet_is_lost(s);
    }
    assert(x->lost == lost);
    assert(mono_before(event->now, out->wake_at));
    assert(!out->ask || !out->stop);
    if (out->stop) { /* on the word of this very moment */
        assert(is_answer && out->stop == w->in_hand);
        assert(event->policy == PODNET_POLICY_RESTARTS && event->evidence == POD_NET_LOST);
        assert(!mono_is_never(w->ready_since));
        w->is_asked = false;
    } else if (is_answer || is_done) {
        w->in_hand = NULL;
    }
    if (out->ask) {
        check_ask(w, event->now, out->ask);
        w->in_hand = out->ask;
        w->is_asked = true;
    }
}

/* As a shell does at the end of a scan. */
static void end_unseen(struct podnet_plan *x, struct podnet_loss *all, bool *is_seen,
                       struct mono now)
{
    for (size_t i = 0; i < IDS; i++) {
        struct podnet_update out;
        const struct podnet_event event = {.kind = PODNET_ENDED, .now = now, .about = &all[i]};
        if (!is_seen[i] && !podnet_is_in_hand(&all[i])) {
            podnet_plan_step(x, &event, &out);
            assert(!out.ask && !out.stop);
        }
        is_seen[i] = false;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct podnet_plan x;
    struct podnet_loss all[IDS] = {{.next = NULL}};
    struct witness w = {.ready_since = MONO_NEVER};
    struct mono now = {NS_PER_SEC};
    bool is_seen[IDS] = {false};
    bool has_stopped = false;
    podnet_plan_init(&x, &config);
    for (size_t i = 0; i < IDS; i++) {
        all[i].made.ns = (int64_t)i;
        all[i].next = x.all;
        x.all = &all[i];
    }
    for (; size >= STEP_BYTES; data += STEP_BYTES, size -= STEP_BYTES) {
        struct podnet_update out;
        now = mono_add(now, (int64_t)data[3] * 50 * NS_PER_MS);
        const struct podnet_event event = read_event(data, now, &w, all);
        if (event.kind == PODNET_SEEN) {
            is_seen[event.about - all] = true;
        } else if (event.kind == PODNET_SCANNED) {
            end_unseen(&x, all, is_seen, now);
        }
        podnet_plan_step(&x, &event, &out);
        check_update(&x, &w, &event, &out);
        has_stopped = has_stopped || out.stop;
    }
    fuzz_tell(has_stopped);
    return 0;
}
