/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is seen, answered and done, in any order: no sandbox is stopped against the rules. Four
 * bytes are a step: what and whom it is about, what is said of it, and how much later. */
#include "host-agent/reset/reset.h"

#include "base/text.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>

enum { IDS = 8, STEP_BYTES = 4 };

static const struct reset_config config = {.debounce_ns = 10 * NS_PER_SEC,
                                           .settle_ns = 40 * NS_PER_SEC,
                                           .gap_ns = NS_PER_SEC,
                                           .stops = true,
                                           .seed = 7};
static const char *const ids[IDS] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};

/* What a bystander remembers. */
struct witness {
    struct mono ready_since; /* MONO_NEVER: it is not */
    const char *in_hand;     /* NULL: nobody */
    bool is_asked;           /* it; else it is being stopped */
};

static const char *same(const char *id)
{
    for (size_t i = 0; i < IDS; i++) {
        if (text_equal(ids[i], id)) {
            return ids[i];
        }
    }
    abort(); /* somebody who was never seen */
}

static const struct reset_sandbox *find(const struct reset *x, const char *id)
{
    for (size_t i = 0; i < x->count; i++) {
        if (text_equal(x->sandboxes[i].id, id)) {
            return &x->sandboxes[i];
        }
    }
    abort(); /* somebody who is not known */
}

static struct reset_event read_event(const uint8_t *at, struct mono now, const struct witness *w)
{
    bool is_to_the_point = (at[2] & 4) != 0 && w->in_hand;
    return (struct reset_event){
        .kind = is_to_the_point ? (w->is_asked ? RESET_ANSWER : RESET_DONE)
                                : (enum reset_event_kind)(at[0] % (RESET_TICK + 1)),
        .now = now,
        .id = is_to_the_point ? w->in_hand : ids[at[1] % IDS],
        .made = {at[1] / IDS},
        .evidence = (enum reset_evidence)(at[0] / 8 % 3),
        .policy = (enum reset_policy)(at[1] / IDS % 3),
        .is_ready = (at[2] & 1) != 0,
        .is_stopped = (at[2] & 2) != 0,
    };
}

static void check_ask(const struct reset *x, const struct witness *w, struct mono now,
                      const char *id)
{
    const struct reset_sandbox *s = find(x, id);
    int64_t silence_ns = config.settle_ns / 4 * 5;
    assert(!w->in_hand && !s->is_spared); /* one at a time */
    assert(mono_reached(now, mono_add(w->ready_since, config.settle_ns)));
    assert(mono_reached(now, mono_add(s->gone_since, silence_ns)));
    assert(mono_before(now, mono_add(s->seen_at, config.debounce_ns)));
}

static void check(const struct reset *x, struct witness *w, const struct reset_event *event,
                  const struct reset_update *out)
{
    bool is_about_it = w->in_hand && text_equal(event->id, w->in_hand);
    bool is_answer = event->kind == RESET_ANSWER && is_about_it && w->is_asked;
    bool is_done = event->kind == RESET_DONE && is_about_it && !w->is_asked;
    if (event->kind == RESET_DPU) {
        w->ready_since = !event->is_ready                ? MONO_NEVER
                         : mono_is_never(w->ready_since) ? event->now
                                                         : w->ready_since;
    }
    assert(x->lost <= x->count && x->count <= IDS);
    assert(mono_before(event->now, out->wake_at));
    assert(!out->ask || !out->stop);
    if (out->stop) { /* on the word of this very moment */
        assert(is_answer && text_equal(out->stop, w->in_hand));
        assert(event->policy == RESET_POLICY_RESTARTS && event->evidence == RESET_GONE);
        assert(!mono_is_never(w->ready_since));
        w->is_asked = false;
    } else if (is_answer || is_done) {
        w->in_hand = NULL;
    }
    if (out->ask) {
        check_ask(x, w, event->now, out->ask);
        w->in_hand = same(out->ask);
        w->is_asked = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reset *x = calloc(1, sizeof(*x));
    struct witness w = {.ready_since = MONO_NEVER};
    struct mono now = {NS_PER_SEC};
    if (!x) {
        return 0;
    }
    bool has_stopped = false;
    reset_init(x, &config);
    for (; size >= STEP_BYTES; data += STEP_BYTES, size -= STEP_BYTES) {
        struct reset_update out;
        now = mono_add(now, (int64_t)data[3] * 50 * NS_PER_MS);
        const struct reset_event event = read_event(data, now, &w);
        reset_step(x, &event, &out);
        check(x, &w, &event, &out);
        has_stopped = has_stopped || out.stop;
    }
    fuzz_tell(has_stopped);
    free(x);
    return 0;
}
