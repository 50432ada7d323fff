/* SPDX-License-Identifier: Apache-2.0 */
/* Whose network is lost, and which sandbox is stopped next: stories. Walks: tests/fuzz. */
#include "host-agent/podnet/podnet_plan.h"

#include "base/err.h"
#include "base/text.h"
#include "tests/support/case.h"

#define SEC(s) ((int64_t)((s) * (double)NS_PER_SEC))
#define AT(s)  ((struct mono){SEC(s)})

static const struct podnet_plan_config stopping = {.debounce_ns = 10 * NS_PER_SEC,
                                                   .settle_ns = 40 * NS_PER_SEC,
                                                   .gap_ns = NS_PER_SEC,
                                                   .stops = true,
                                                   .seed = 7};

enum { IDS_MAX = 8, ID_BYTES = 16 };

static const char *const ids[] = {"s1", "s2"};

/* A sandbox as a shell has it. */
struct sandbox {
    struct podnet_loss loss; /* first */
    char id[ID_BYTES];
    bool is_listed; /* in the scan under way */
};

struct world {
    struct podnet_plan x;
    struct sandbox sandboxes[IDS_MAX];
    size_t count;
    struct podnet_update out;
};

static void start(struct world *w, const struct podnet_plan_config *config)
{
    *w = (struct world){.count = 0};
    podnet_plan_init(&w->x, config);
}

static void up(struct world *w)
{
    start(w, &stopping);
}

static void down(struct world *w)
{
}

WORLD(up, down)

static struct podnet_loss *find(struct world *w, const char *id)
{
    for (size_t i = 0; i < w->count; i++) {
        if (text_equal(w->sandboxes[i].id, id)) {
            return &w->sandboxes[i].loss;
        }
    }
    struct sandbox *s = &w->sandboxes[w->count++];
    assert_true(w->count <= IDS_MAX);
    *s = (struct sandbox){.loss = {.next = w->x.all}};
    text_format(s->id, sizeof(s->id), "%s", id);
    if (text_to_i64(id + 1, strlen(id + 1), &s->loss.made.ns, NULL) != 0) { /* "s3": made at 3 */
        s->loss.made.ns = 0;
    }
    w->x.all = &s->loss;
    return &s->loss;
}

static const char *id_of(const struct podnet_loss *loss)
{
    assert_non_null(loss);
    return ((const struct sandbox *)loss)->id;
}

static void expect_nobody(const struct world *w)
{
    for (size_t i = 0; i < w->count; i++) {
        assert_int_equal(w->sandboxes[i].loss.state, PODNET_UNSUSPECTED);
    }
}

static void step(struct world *w, struct podnet_event event)
{
    podnet_plan_step(&w->x, &event, &w->out);
}

static void see(struct world *w, double at, const char *id, enum pod_net_evidence evidence)
{
    struct podnet_loss *loss = find(w, id);
    ((struct sandbox *)loss)->is_listed = true;
    step(w, (struct podnet_event){.kind = PODNET_SEEN,
                                  .now = AT(at),
                                  .about = loss,
                                  .evidence = evidence,
                                  .is_by_device = true});
}

/* Those that were not seen in it are no more. */
static void end_scan(struct world *w, double at)
{
    for (size_t i = 0; i < w->count; i++) {
        struct sandbox *s = &w->sandboxes[i];
        if (!s->is_listed && !podnet_is_in_hand(&s->loss)) {
            step(w, (struct podnet_event){.kind = PODNET_ENDED, .now = AT(at), .about = &s->loss});
        }
        s->is_listed = false;
    }
    step(w, (struct podnet_event){.kind = PODNET_SCANNED, .now = AT(at)});
}

static void tell_dpu(struct world *w, double at, bool is_ready)
{
    step(w, (struct podnet_event){.kind = PODNET_DPU, .now = AT(at), .is_ready = is_ready});
}

/* The question about `id` was asked, and this is the answer. */
static void answer(struct world *w, double at, const char *id, enum podnet_policy policy,
                   enum pod_net_evidence evidence)
{
    assert_string_equal(id_of(w->out.ask), id);
    step(w, (struct podnet_event){.kind = PODNET_ANSWER,
                                  .now = AT(at),
                                  .about = find(w, id),
                                  .policy = policy,
                                  .evidence = evidence});
}

/* It is asked about, may be stopped, and is to be. */
static void may_go(struct world *w, double at, const char *id)
{
    answer(w, at, id, PODNET_POLICY_RESTARTS, POD_NET_LOST);
    assert_string_equal(id_of(w->out.stop), id);
}

static void tell_done(struct world *w, double at, const char *id, bool is_stopped)
{
    step(w,
         (struct podnet_event){
             .kind = PODNET_DONE, .now = AT(at), .about = find(w, id), .is_stopped = is_stopped});
}

/* A scan that sees all of them gone. */
static void scan_gone(struct world *w, double at, const char *const *gone, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        see(w, at, gone[i], POD_NET_LOST);
    }
    end_scan(w, at);
}

/* Lost since 30, and the DPU settled: the first is asked about at 95. */
static void lose(struct world *w, const char *const *gone, size_t count)
{
    tell_dpu(w, 0, true);
    scan_gone(w, 30, gone, count);
    scan_gone(w, 75, gone, count);
    scan_gone(w, 95, gone, count);
}

/* ---- loss ------------------------------------------------------------------------------------ */

TEST_IN(loss_counts_at_the_debounce_exactly)
{
    see(w, 1, "s1", POD_NET_LOST);
    assert_int_equal(w->x.lost, 0);
    see(w, 10.999, "s1", POD_NET_LOST);
    assert_int_equal(w->x.lost, 0);
    assert_int_equal(w->out.turn, PODNET_NO_TURN);
    see(w, 11, "s1", POD_NET_LOST);
    assert_int_equal(w->x.lost, 1);
    assert_true(find(w, "s1")->is_by_device);
    assert_int_equal(w->out.turn, PODNET_TURN_LOST);
    see(w, 12, "s1", POD_NET_LOST);
    assert_int_equal(w->out.turn, PODNET_NO_TURN);
}

TEST_IN(interface_moved_back_ends_it_by_itself)
{
    see(w, 1, "s1", POD_NET_LOST);
    see(w, 20, "s1", POD_NET_LOST);
    see(w, 25, "s1", POD_NET_WHOLE);
    assert_int_equal(w->out.turn, PODNET_TURN_BACK);
    assert_int_equal(w->x.lost, 0);
    assert_int_equal(find(w, "s1")->state, PODNET_UNSUSPECTED);
}

TEST_IN(what_cannot_be_seen_stays_what_it_was)
{
    see(w, 1, "s1", POD_NET_AWAY);
    expect_nobody(w);
    see(w, 2, "s1", POD_NET_LOST);
    see(w, 20, "s1", POD_NET_LOST);
    end_scan(w, 20);
    see(w, 25, "s1", POD_NET_AWAY);
    end_scan(w, 25);
    assert_int_equal(w->x.lost, 1);
}

TEST_IN(clock_that_goes_back_accuses_nobody)
{
    see(w, 100, "s1", POD_NET_LOST);
    see(w, 1, "s1", POD_NET_LOST);
    assert_int_equal(w->x.lost, 0);
}

/* ---- stopping -------------------------------------------------------------------------------- */

TEST_IN(lost_ones_are_stopped_oldest_first_and_one_at_a_time)
{
    static const char *const made[] = {"s30", "s10", "s20"};
    static const char *const order[] = {"s10", "s20", "s30"};
    struct podnet_plan_config config = stopping;
    for (config.seed = 0; config.seed < 20; config.seed++) {
        double at = 95;
        start(w, &config);
        lose(w, made, ARRAY_LEN(made));
        for (size_t i = 0; i < ARRAY_LEN(order); i++) {
            may_go(w, at, order[i]);
            step(w, (struct podnet_event){.kind = PODNET_TICK, .now = AT(at + 0.1)});
            assert_null(w->out.ask); /* one is under way */
            tell_done(w, at + 0.2, order[i], true);
            assert_null(w->out.ask); /* the gap */
            if (i + 1 < ARRAY_LEN(order)) {
                int64_t gap_ns = w->out.wake_at.ns - SEC(at + 0.2);
                assert_between(gap_ns, config.gap_ns / 2, config.gap_ns * 3 / 2);
                at = (double)w->out.wake_at.ns / (double)NS_PER_SEC;
                step(w, (struct podnet_event){.kind = PODNET_TICK, .now = w->out.wake_at});
            }
        }
        assert_true(w->out.wake_at.ns >= SEC(95 + 60)); /* should one still be there */
    }
}

TEST_IN(nothing_is_stopped_before_the_dpu_has_settled)
{
    lose(w, ids, 1);
    assert_non_null(w->out.ask);
    start(w, &stopping);
    scan_gone(w, 1, ids, 1);
    scan_gone(w, 20, ids, 1);
    scan_gone(w, 25, ids, 1);
    assert_null(w->out.ask); /* never ready */
    tell_dpu(w, 30, true);
    assert_null(w->out.ask);
    assert_true(w->out.wake_at.ns >= SEC(70) && w->out.wake_at.ns <= SEC(80)); /* with jitter */
    tell_dpu(w, 60, false); /* it fell again: the time counts anew */
    tell_dpu(w, 61, true);
    scan_gone(w, 100, ids, 1);
    assert_null(w->out.ask);
    tell_dpu(w, 101, true); /* told again: nothing new */
    scan_gone(w, 112, ids, 1);
    may_go(w, 112, "s1");
}

TEST_IN(dpu_that_falls_while_a_pod_is_asked_about_spares_it)
{
    lose(w, ids, 1);
    assert_non_null(w->out.ask);
    tell_dpu(w, 95.1, false);
    tell_dpu(w, 95.15, true); /* which is not for long */
    step(w, (struct podnet_event){.kind = PODNET_ANSWER,
                                  .now = AT(95.2),
                                  .about = find(w, "s1"),
                                  .policy = PODNET_POLICY_RESTARTS,
                                  .evidence = POD_NET_LOST});
    assert_null(w->out.stop);
    assert_int_equal(w->x.lost, 1);
}

/* It is called ready for a lease duration more. */
TEST_IN(nothing_is_stopped_while_the_dpu_may_have_died_with_it)
{
    tell_dpu(w, 0, true);
    for (double at = 500; at < 550; at += 5) {
        scan_gone(w, at, ids, 1);
        assert_null(w->out.ask);
    }
    assert_int_equal(w->out.wake_at.ns, SEC(550));
    scan_gone(w, 550, ids, 1);
    may_go(w, 550, "s1");
}

TEST_IN(pod_that_would_end_is_spared_and_not_asked_about_again)
{
    lose(w, ids, 1);
    answer(w, 95, "s1", PODNET_POLICY_NEVER, POD_NET_LOST);
    assert_null(w->out.stop);
    for (double at = 100; at < 1000; at += 5) {
        scan_gone(w, at, ids, 1);
        assert_null(w->out.ask);
        assert_true(mono_is_never(w->out.wake_at));
    }
    assert_int_equal(w->x.lost, 1); /* told all the same */
}

/* One that is ending, or that the API server does not know. */
TEST_IN(pod_of_which_nobody_knows_is_asked_about_again_later)
{
    lose(w, ids, 2);
    answer(w, 95, "s1", PODNET_POLICY_UNKNOWN, POD_NET_LOST);
    assert_null(w->out.stop);
    scan_gone(w, 98, ids, 2);
    answer(w, 98, "s2", PODNET_POLICY_UNKNOWN, POD_NET_LOST); /* others have their turn */
    scan_gone(w, 104, ids, 2);
    assert_null(w->out.ask);
    scan_gone(w, 105, ids, 2);
    may_go(w, 105, "s1");
}

TEST_IN(network_that_is_back_right_before_the_stop_saves_it)
{
    lose(w, ids, 1);
    answer(w, 95, "s1", PODNET_POLICY_RESTARTS, POD_NET_WHOLE);
    assert_null(w->out.stop);
    assert_int_equal(w->out.turn, PODNET_TURN_BACK);
    assert_int_equal(w->x.lost, 0);
    expect_nobody(w);
    start(w, &stopping);
    lose(w, ids, 1);
    answer(w, 95, "s1", PODNET_POLICY_RESTARTS, POD_NET_AWAY);
    assert_null(w->out.stop);
    assert_int_equal(w->x.lost, 1); /* what it was */
}

/* As the recovery of ovn-kubernetes does: it moves them back once the lease is renewed again. */
TEST_IN(interface_that_returns_while_the_dpu_settles_stops_nothing)
{
    tell_dpu(w, 0, false);
    scan_gone(w, 1, ids, 2);
    scan_gone(w, 20, ids, 2);
    tell_dpu(w, 30, true);
    scan_gone(w, 65, ids, 2);
    see(w, 69, "s1", POD_NET_WHOLE); /* the DPU has settled at 70 at the earliest */
    assert_int_equal(w->out.turn, PODNET_TURN_BACK);
    see(w, 69, "s2", POD_NET_LOST);
    end_scan(w, 69);
    see(w, 80, "s1", POD_NET_WHOLE);
    see(w, 80, "s2", POD_NET_LOST);
    end_scan(w, 80);
    may_go(w, 80, "s2"); /* which is the younger */
    tell_done(w, 80, "s2", true);
    see(w, 85, "s1", POD_NET_WHOLE);
    end_scan(w, 85);
    assert_null(w->out.ask);
    assert_true(mono_is_never(w->out.wake_at));
}

TEST_IN(report_alone_stops_nothing)
{
    struct podnet_plan_config config = stopping;
    config.stops = false;
    start(w, &config);
    lose(w, ids, 1);
    assert_int_equal(w->x.lost, 1);
    assert_null(w->out.ask);
}

TEST_IN(failed_stop_lets_others_pass)
{
    lose(w, ids, 2);
    may_go(w, 95, "s1");
    tell_done(w, 96, "s1", false);
    scan_gone(w, 98, ids, 2);
    assert_true(mono_is_never(w->out.wake_at)); /* the answer comes next */
    may_go(w, 98, "s2");
}

/* Scans until `wait_s` have passed since the stop: it is not asked about before. */
static void wait_asked(struct world *w, double at, double wait_s)
{
    for (double passed = 0; passed < wait_s; passed += 2.5) {
        scan_gone(w, at + passed, ids, 1);
        assert_null(w->out.ask);
    }
    scan_gone(w, at + wait_s, ids, 1);
}

TEST_IN(failed_stops_are_tried_again_up_to_five_minutes_apart)
{
    static const double waits_s[] = {10, 20, 40, 80, 160, 300, 300};
    double at = 95;
    lose(w, ids, 1);
    for (size_t i = 0; i < ARRAY_LEN(waits_s); i++) {
        may_go(w, at, "s1");
        tell_done(w, at, "s1", false);
        wait_asked(w, at, waits_s[i]);
        at += waits_s[i];
    }
    may_go(w, at, "s1");
    tell_done(w, at, "s1", true);
    wait_asked(w, at, 60); /* a runtime that lags behind its own word */
    may_go(w, at + 60, "s1");
    tell_done(w, at + 60, "s1", false);
    wait_asked(w, at + 60, 10); /* it begins anew */
    may_go(w, at + 70, "s1");
    tell_done(w, at + 71, "s1", true);
    end_scan(w, at + 75);
    expect_nobody(w);
    assert_int_equal(w->x.lost, 0);
}

/* Else nothing is ever stopped again. */
TEST_IN(a_scan_forgets_no_stop_under_way)
{
    static const enum pod_net_evidence shown[] = {POD_NET_AWAY, POD_NET_WHOLE, POD_NET_LOST};
    for (size_t i = 0; i <= ARRAY_LEN(shown); i++) {
        start(w, &stopping);
        lose(w, ids, 2);
        may_go(w, 95, "s1");
        if (i < ARRAY_LEN(shown)) { /* else it does not list it any more */
            see(w, 96, "s1", shown[i]);
        }
        scan_gone(w, 96, &ids[1], 1);
        assert_null(w->out.ask); /* one at a time */
        scan_gone(w, 97, &ids[1], 1);
        tell_done(w, 98, "s1", true);
        scan_gone(w, 100, &ids[1], 1);
        may_go(w, 100, "s2");
    }
}
