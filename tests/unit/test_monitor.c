/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told what, in which order and how often: all that is around the monitor is the test's. */
#include "host-agent/monitor.h"

#include "host-agent/condition.h"
#include "host-agent/lease_keeper.h"
#include "host-agent/lease_watch.h"
#include "host-agent/podnet/podnet.h"
#include "host-agent/record.h"
#include "outputs/events.h"
#include "tests/support/case.h"
#include "tests/unit/api_world.h"
#include "tests/unit/verdict_world.h"

#define READY_STORY "record systemd pods events condition"

/* One for all parts: each is only ever passed back to its functions. */
static struct stage {
    struct monitor *monitor;
    struct lease_view lease;
    char story[400]; /* what has happened, a word each */
    int running;     /* parts that were started and not stopped */
    bool may_not_create;
    struct readiness told; /* to the Events, with the others */
    struct readiness left; /* by a predecessor */
    bool has_left;
    char status[200];
    struct wall rebooted;
    struct mono writer_until;
    struct mono hold_most;
    struct lease_keeper_config keeper;
    struct lease_watch_config watch;
} stage;

static void note(const char *word)
{
    size_t used = strlen(stage.story);
    (void)snprintf(stage.story + used, sizeof(stage.story) - used, "%s%s", used ? " " : "", word);
}

/* What has happened since the last look, and no more. */
static void assert_story(const char *expected)
{
    assert_string_equal(stage.story, expected);
    stage.story[0] = '\0';
}

/* A part of any type: it is never looked into. */
static void *part(void)
{
    stage.running++;
    return &stage;
}

static void part_ends(const void *p)
{
    stage.running -= p != NULL;
}

/* ---- in place of the parts ------------------------------------------------------------------- */

struct ev_loop *daemon_loop(struct daemon *d)
{
    return (struct ev_loop *)d;
}

void daemon_notify_ready(struct daemon *d, const char *fmt, ...)
{
    va_list args;
    assert_ptr_equal(d, &stage);
    va_start(args, fmt);
    (void)vsnprintf(stage.status, sizeof(stage.status), fmt, args);
    va_end(args);
    note("systemd");
}

struct record_writer *record_writer_new(struct ev_loop *loop,
                                        const struct record_writer_config *config)
{
    assert_string_equal(config->node, "w1");
    return part();
}

void record_writer_free(struct record_writer *w)
{
    part_ends(w);
}

void record_writer_write(struct record_writer *w, struct mono writer_until, struct mono hold_most)
{
    stage.writer_until = writer_until;
    stage.hold_most = hold_most;
    note("record");
}

struct lease_keeper *lease_keeper_start(struct ev_loop *loop, struct kube_client *client,
                                        const struct lease_keeper_config *config)
{
    stage.keeper = *config;
    return part();
}

void lease_keeper_stop(struct lease_keeper *k)
{
    part_ends(k);
}

void lease_keeper_saw(struct lease_keeper *k, const json_t *lease)
{
    note(lease ? "keeper" : "repair");
}

bool lease_keeper_is_denied(const struct lease_keeper *k)
{
    assert_non_null(k);
    return stage.may_not_create;
}

struct lease_watch *lease_watch_start(struct kube_client *client,
                                      const struct lease_watch_config *config)
{
    stage.watch = *config;
    return part();
}

void lease_watch_stop(struct lease_watch *w)
{
    part_ends(w);
}

void lease_watch_confirm(struct lease_watch *w)
{
    note("confirm");
}

void lease_watch_mark(struct lease_watch *w, const struct lease_view *lease, bool is_trial)
{
    assert_string_equal(lease->uid, stage.lease.uid);
    note("mark");
}

void lease_watch_restart(struct lease_watch *w)
{
    note("restart");
}

void record_carry_settled(void)
{
    note("settled");
}

void lease_watch_saw(struct lease_watch *w, const json_t *lease, struct mono sent_at, bool is_patch)
{
    assert_true(!lease && is_patch && sent_at.ns == 7);
    note("saw");
}

void events_begin(struct events *x, const struct readiness *carried)
{
    assert_ptr_equal(x, &stage);
    stage.has_left = carried != NULL;
    stage.left = carried ? *carried : (struct readiness){.admit = false};
}

void events_publish(struct events *x, const struct readiness *verdict)
{
    stage.told = *verdict;
    note("events");
}

void events_tell_reboot(struct events *x, struct wall at)
{
    stage.rebooted = at;
    note("reboot");
}

struct condition *condition_new(struct ev_loop *loop, struct kube_client *client, const char *node,
                                const char *dpu, bool is_firm)
{
    assert_string_equal(node, "w1");
    assert_string_equal(dpu, "dpu1");
    assert_true(is_firm);
    return part();
}

void condition_free(struct condition *c)
{
    part_ends(c);
}

void condition_publish(struct condition *c, const struct readiness *verdict)
{
    note("condition");
}

void podnet_publish(struct podnet *l, const struct readiness *verdict)
{
    note("pods");
}

/* ---- the stage ------------------------------------------------------------------------------- */

static struct monitor_config everything(void)
{
    return (struct monitor_config){.daemon = (struct daemon *)&stage,
                                   .client = &world.client,
                                   .pods = (struct podnet *)&stage,
                                   .verdict = world_config(),
                                   .node = "w1",
                                   .dpu = "dpu1",
                                   .readiness_file = "/run/x/readiness.json",
                                   .stale_hold_ns = 300 * NS_PER_SEC,
                                   .events = (struct events *)&stage,
                                   .has_condition = true,
                                   .is_condition_firm = true};
}

/* In place of one that is at work. */
static void begin(struct monitor_config config, const struct record *carry)
{
    monitor_free(stage.monitor);
    stage.story[0] = '\0';
    stage.monitor = monitor_new(&config, carry);
    monitor_start(stage.monitor);
}

static int stage_up(void **state)
{
    loop_world_start();
    stage = (struct stage){.lease = world_lease()};
    begin(everything(), NULL);
    return 0;
}

static int stage_down(void **state)
{
    monitor_free(stage.monitor);
    assert_int_equal(stage.running, 0);
    assert_false(world.timer.fire);
    log_set_fd(STDERR_FILENO);
    return 0;
}

static void tell(struct verdict_event event)
{
    stage.watch.on_event(stage.watch.user, event, NULL);
}

static void see(void)
{
    tell((struct verdict_event){.kind = VERDICT_LEASE_OBSERVED, .lease = &stage.lease});
}

/* The DPU renews with a stamp so far ahead of our clock. */
static void renew(int64_t ahead_ns)
{
    struct wall stamp = {clock_wall_now().ns + ahead_ns};
    stage.lease.renew_time = stamp;
    stage.lease.renew_time_valid = true;
    text_format(stage.lease.renew_stamp, sizeof(stage.lease.renew_stamp), "%s",
                rfc3339_text(stamp, true).text);
    see();
}

static void report(enum lease_health health, const char *message)
{
    stage.lease.health = health;
    text_format(stage.lease.health_stamp, sizeof(stage.lease.health_stamp), "%s",
                rfc3339_text(clock_wall_now(), true).text);
    (void)text_copy(stage.lease.health_message, sizeof(stage.lease.health_message), message);
    renew(0);
}

static void answered(void)
{
    tell((struct verdict_event){.kind = VERDICT_LEASE_OBSERVED,
                                .source = VERDICT_BY_CONFIRM,
                                .started_at = world.now,
                                .lease = &stage.lease});
}

static void refused(void)
{
    tell((struct verdict_event){.kind = VERDICT_READ_FAILED,
                                .source = VERDICT_BY_CONFIRM,
                                .started_at = world.now,
                                .failure = "refused"});
}

/* The mark that was asked for. */
static void marked(enum mark_outcome outcome)
{
    tell((struct verdict_event){.kind = VERDICT_MARK,
                                .source = VERDICT_BY_MARK,
                                .outcome = outcome,
                                .started_at = world.now});
}

/* Ready, with a look at the lease a second before. */
static void be_ready(void)
{
    answered();
    marked(MARK_TAKEN);
    world_pass(NS_PER_SEC);
    renew(0);
    stage.story[0] = '\0';
}

static struct monitor_stats stats(void)
{
    return monitor_stats(stage.monitor, world.now);
}

/* ---- who hears of it ------------------------------------------------------------------------- */

TEST_WITH(each_verdict_is_in_the_record_before_others_hear_of_it, stage_up, stage_down)
{
    assert_story(READY_STORY); /* awaiting is a verdict */
    assert_int_equal(monitor_verdict(stage.monitor)->reason, REASON_AWAITING_FIRST_RENEWAL);
    assert_true(mono_is_never(stage.hold_most));
    answered();
    assert_story("record mark"); /* whose lease it is, for a restart; and may we write? */
    marked(MARK_TAKEN);
    assert_story("record"); /* evidence, for a restart */
    world_pass(NS_PER_SEC);
    renew(0);
    assert_story("settled " READY_STORY);
    assert_int_equal(stage.told.reason, REASON_LEASE_RENEWED);
    assert_int_equal(stage.told.transition.ns, clock_wall_now().ns);
    assert_ptr_equal(strstr(stage.status, "Ready (LeaseRenewed): "), stage.status);
    assert_int_equal(stage.writer_until.ns, mono_add(world.now, 15 * NS_PER_SEC).ns);
    world_pass(NS_PER_SEC);
    renew(0);
    assert_story("settled record"); /* a renewal alone is news for the record only */
}

TEST_WITH(what_is_off_is_not_told, stage_up, stage_down)
{
    struct monitor_config config = everything();
    config.pods = NULL;
    config.events = NULL;
    config.has_condition = false;
    begin(config, NULL);
    assert_story("record systemd");
    config = everything();
    config.client = NULL;
    begin(config, NULL);
    assert_story("record systemd pods");
    world_pass(60 * NS_PER_SEC); /* there is nobody to look at the lease */
    assert_null(strstr(stage.story, "confirm"));
    assert_false(stats().api_reachable);
}

TEST_WITH(without_a_health_check_nobody_looks_at_the_lease, stage_up, stage_down)
{
    struct monitor_config config = everything();
    config.verdict.renew_interval_ns = 0;
    begin(config, NULL);
    assert_story(READY_STORY);
    assert_null(monitor_parts(stage.monitor)->watch);
    assert_null(monitor_parts(stage.monitor)->keeper);
    assert_int_equal(stage.told.reason, REASON_HEALTH_CHECK_DISABLED);
}

TEST_WITH(what_the_verdict_needs_is_asked_for, stage_up, stage_down)
{
    be_ready();
    world_pass(23 * NS_PER_SEC); /* it is overdue */
    assert_non_null(strstr(stage.story, "confirm"));
    world_pass(3 * NS_PER_SEC);
    assert_non_null(strstr(stage.story, "mark"));
    stage.story[0] = '\0';
    struct lease_view unseen = stage.lease;
    (void)text_copy(unseen.renew_stamp, sizeof(unseen.renew_stamp), "another");
    unseen.renew_time.ns += 20 * NS_PER_SEC; /* not just now */
    tell((struct verdict_event){
        .kind = VERDICT_LEASE_OBSERVED, .source = VERDICT_BY_CONFIRM, .lease = &unseen});
    assert_story("settled record restart"); /* the watch had not shown it */
    tell((struct verdict_event){.kind = VERDICT_LEASE_ABSENT});
    assert_story("repair");
    stage.keeper.on_written(stage.keeper.user, NULL, (struct mono){7}, true);
    assert_story("saw");
}

/* Who keeps the lease in shape does not sit in the way of the verdict. */
TEST_WITH(the_lease_reaches_the_keeper_after_the_record, stage_up, stage_down)
{
    CLEANUP(json) json_t *object = json_object();
    const struct verdict_event shown = {.kind = VERDICT_LEASE_OBSERVED, .lease = &stage.lease};
    be_ready();
    world_pass(NS_PER_SEC);
    text_format(stage.lease.renew_stamp, sizeof(stage.lease.renew_stamp), "%s",
                rfc3339_text(clock_wall_now(), true).text);
    stage.lease.resource_version[0] = '2';
    stage.watch.on_event(stage.watch.user, shown, object);
    assert_story("settled record keeper");
    stage.lease.resource_version[0] = '1'; /* a watch that begins with the past */
    stage.watch.on_event(stage.watch.user, shown, object);
    assert_story("");
}

/* Where the host may make the lease anew it is no evidence that it is gone. */
TEST_WITH(an_absence_lasts_where_the_keeper_may_not_make_the_lease, stage_up, stage_down)
{
    for (int lasts = 0; lasts < 2; lasts++) {
        begin(everything(), NULL);
        stage.may_not_create = lasts == 1;
        be_ready();
        for (int i = 0; i < 45; i++) {
            stage.story[0] = '\0';
            world_pass(NS_PER_SEC);
            tell((struct verdict_event){.kind = VERDICT_LEASE_ABSENT,
                                        .source = VERDICT_BY_CONFIRM,
                                        .started_at = world.now});
            answered();
        }
        assert_true((monitor_verdict(stage.monitor)->state == READINESS_NOT_READY) == (lasts == 1));
    }
}

TEST_WITH(its_parts_know_the_lease, stage_up, stage_down)
{
    assert_string_equal(stage.keeper.ns, "ovn-kubernetes");
    assert_string_equal(stage.keeper.name, "ovn-dpu-w1");
    assert_string_equal(stage.keeper.holder, "ovnkube-dpu-node");
    assert_int_equal(stage.keeper.duration_s, 40);
    assert_string_equal(stage.watch.ns, "ovn-kubernetes");
    assert_string_equal(stage.watch.name, "ovn-dpu-w1");
    assert_int_equal(stage.watch.renew_interval_ns, 10 * NS_PER_SEC);
    assert_int_equal(stage.watch.deadline_ms, 5000);
}

TEST_WITH(a_predecessors_verdict_lasts_as_long_as_nothing_else_is_known, stage_up, stage_down)
{
    assert_false(stage.has_left);
    be_ready();
    const struct record carry = {.readiness = *monitor_verdict(stage.monitor),
                                 .hold_until = mono_add(world.now, 340 * NS_PER_SEC)};
    world_pass(3 * NS_PER_SEC);
    begin(everything(), &carry);
    assert_int_equal(stage.left.transition.ns, carry.readiness.transition.ns);
    assert_int_equal(stage.left.reason, REASON_LEASE_RENEWED);
    assert_int_equal(stage.told.transition.ns, carry.readiness.transition.ns);
    assert_story(READY_STORY); /* those who show it have to hear it once */
    assert_int_equal(stage.hold_most.ns, carry.hold_until.ns); /* it would be a crash loop's, too */
    refused();
    world_pass(30 * NS_PER_SEC);
    monitor_event(stage.monitor, (struct verdict_event){.kind = VERDICT_TICK});
    assert_true(mono_is_never(stage.hold_most)); /* an outage */
}

/* ---- counters -------------------------------------------------------------------------------- */

TEST_WITH(changes_and_renewals_are_counted_apart, stage_up, stage_down)
{
    assert_false(stats().has_skew);
    renew(0); /* the first sight of a lease renews nothing */
    assert_int_equal(stats().renewals, 0);
    be_ready();
    world_pass(NS_PER_SEC);
    renew(0);
    const struct monitor_stats s = stats();
    assert_int_equal(s.renewals, 2);
    assert_int_equal(s.changes[REASON_AWAITING_FIRST_RENEWAL], 1);
    assert_int_equal(s.changes[REASON_LEASE_RENEWED], 1);
    assert_int_equal(s.changes[REASON_LEASE_EXPIRED], 0);
}

/* That pods are held from now on is a change, in the same state and for the same reason. */
TEST_WITH(the_end_of_the_hold_is_a_change, stage_up, stage_down)
{
    struct monitor_config config = everything();
    config.verdict.api_outage_hold_ns = 60 * NS_PER_SEC;
    begin(config, NULL);
    be_ready();
    refused();
    world_pass(50 * NS_PER_SEC);
    assert_int_equal(stats().changes[REASON_API_SERVER_UNREACHABLE], 1);
    assert_true(stage.told.admit);
    world_pass(60 * NS_PER_SEC);
    assert_int_equal(stats().changes[REASON_API_SERVER_UNREACHABLE], 2);
    assert_false(stage.told.admit);
}

TEST_WITH(a_log_for_debugging_tells_which_rules_were_followed, stage_up, stage_down)
{
    be_ready();
    assert_int_equal(loop_world_said("mod=verdict"), 0);
    log_setup(LOG_DEBUG, LOG_TEXT, "");
    renew(NS_PER_SEC);
    assert_int_equal(loop_world_said("mod=verdict msg=\"a renewal of "), 1);
    assert_int_equal(loop_world_said("mod=verdict"), 1);
}

TEST_WITH(skew_is_that_of_the_newest_renewal, stage_up, stage_down)
{
    be_ready();
    renew(30 * NS_PER_SEC);
    assert_true(stats().has_skew);
    assert_int_equal(stats().skew_ns, 30 * NS_PER_SEC);
    (void)text_copy(stage.lease.renew_stamp, sizeof(stage.lease.renew_stamp), "no time at all");
    stage.lease.renew_time_valid = false;
    see();
    assert_int_equal(stats().renewals, 3); /* a changed stamp counts, readable or not */
    assert_false(stats().has_skew);
    assert_int_equal(stats().skew_ns, 0);
}

TEST_WITH(an_outage_lasts_from_the_first_failure_to_the_next_answer, stage_up, stage_down)
{
    assert_false(stats().api_reachable); /* nobody has answered yet */
    answered();
    assert_true(stats().api_reachable);
    for (int i = 0; i < 3; i++) {
        world_pass(NS_PER_SEC);
        refused();
    }
    tell((struct verdict_event){.kind = VERDICT_WATCH_WORKS});
    assert_false(stats().api_reachable); /* a watch is no read */
    assert_int_equal(stats().outage_ns, 2 * NS_PER_SEC);
    world_pass(NS_PER_SEC);
    answered();
    assert_true(stats().api_reachable);
    world_pass(100 * NS_PER_SEC);
    assert_int_equal(stats().outage_ns, 3 * NS_PER_SEC);
    refused();
    world_pass(NS_PER_SEC);
    assert_int_equal(stats().outage_ns, 4 * NS_PER_SEC); /* of all */
}

TEST_WITH(a_reboot_is_counted_told_and_remembered, stage_up, stage_down)
{
    (void)text_copy(stage.lease.boot_id, sizeof(stage.lease.boot_id), "boot-1");
    be_ready();
    assert_int_equal(stats().reboots, 0);
    world_pass(5 * NS_PER_SEC);
    (void)text_copy(stage.lease.boot_id, sizeof(stage.lease.boot_id), "boot-2");
    renew(0);
    struct wall at = clock_wall_now();
    assert_story("settled reboot record");
    assert_int_equal(stage.rebooted.ns, at.ns);
    assert_int_equal(stats().reboots, 1);
    world_pass(5 * NS_PER_SEC);
    renew(0);
    assert_int_equal(monitor_verdict(stage.monitor)->dpu_rebooted.ns, at.ns);
}

/* ---- the log --------------------------------------------------------------------------------- */

TEST_WITH(changes_are_logged_once_an_interval_and_the_last_of_them_always, stage_up, stage_down)
{
    be_ready();
    assert_int_equal(loop_world_said("Unknown (AwaitingFirstRenewal"), 1);
    assert_int_equal(loop_world_said("Ready (LeaseRenewed)"), 0); /* a second later: it waits */
    world_pass(15 * NS_PER_SEC);
    assert_int_equal(loop_world_said("Ready (LeaseRenewed)"), 1);
    world_pass(10 * NS_PER_SEC); /* by now the next is due at once */
    report(LEASE_HEALTH_UNHEALTHY, "ovs is down");
    assert_int_equal(loop_world_said("NotReady (DPUReportedUnhealthy)"), 1);
    for (int i = 0; i < 8; i++) {
        world_pass(NS_PER_SEC);
        report(i % 2 == 0 ? LEASE_HEALTH_NONE : LEASE_HEALTH_UNHEALTHY, "ovs is down");
    }
    world_pass(NS_PER_SEC);
    report(LEASE_HEALTH_NONE, "");
    assert_int_equal(loop_world_said("Ready (LeaseRenewed)"), 1);
    world_pass(5 * NS_PER_SEC);
    renew(0);
    assert_int_equal(loop_world_said("Ready (LeaseRenewed)"), 2);
    assert_int_equal(loop_world_said("NotReady (DPUReportedUnhealthy)"), 1);
    for (int i = 0; i < 30; i++) {
        world_pass(5 * NS_PER_SEC);
        renew(0);
    }
    assert_int_equal(loop_world_said("Ready (LeaseRenewed)"), 2); /* said once, it is said */
}

TEST_WITH(a_change_that_was_held_back_is_logged_in_time_and_with_its_own, stage_up, stage_down)
{
    char words[96];
    world_pass(30 * NS_PER_SEC);
    be_ready(); /* at once: the line before was long ago */
    assert_int_equal(loop_world_said("Ready (LeaseRenewed)"), 1);
    world_pass(2 * NS_PER_SEC);
    report(LEASE_HEALTH_UNHEALTHY, "ovs is down");
    (void)snprintf(words, sizeof(words), "ovs is down (since %s)",
                   rfc3339_text(clock_wall_now(), true).text);
    world_pass(8 * NS_PER_SEC - 1);
    assert_int_equal(loop_world_said("NotReady"), 0);
    world_pass(1); /* an interval after the line before, and nothing else is due */
    assert_int_equal(loop_world_said(words), 1);
    assert_int_equal(loop_world_said("(since "), 1);
}

TEST_WITH(other_words_for_the_same_are_logged_once_a_minute, stage_up, stage_down)
{
    be_ready();
    world_pass(20 * NS_PER_SEC);
    for (int i = 0; i < 115; i++) {
        char words[32];
        (void)snprintf(words, sizeof(words), "probe %d", i);
        report(LEASE_HEALTH_UNHEALTHY, words);
        assert_non_null(strstr(stage.story, READY_STORY)); /* all others hear them */
        stage.story[0] = '\0';
        world_pass(NS_PER_SEC);
        if (i == 10) { /* a change waits for an interval at most, whatever is said meanwhile */
            assert_int_equal(loop_world_said("NotReady (DPUReportedUnhealthy)"), 1);
        }
    }
    assert_int_equal(loop_world_said("NotReady (DPUReportedUnhealthy)"), 2);
}

/* ---- progress -------------------------------------------------------------------------------- */

/* What /livez and the health streams ask. */
TEST_WITH(a_wake_up_that_is_overdue_is_no_progress, stage_up, stage_down)
{
    be_ready();
    struct mono late = mono_add(world.timer.deadline, MONITOR_LATE_NS);
    assert_true(monitor_makes_progress(stage.monitor, mono_add(late, -1)));
    assert_false(monitor_makes_progress(stage.monitor, late));
    world.now = late;
    tell((struct verdict_event){.kind = VERDICT_TICK});
    assert_true(monitor_makes_progress(stage.monitor, late));
}

TEST_WITH(a_request_without_an_outcome_is_no_progress, stage_up, stage_down)
{
    be_ready();
    for (int kind = 0; kind < 3; kind++) {
        for (int s = 0; !strstr(stage.story, "mark") && !strstr(stage.story, "confirm"); s++) {
            world_pass(NS_PER_SEC);
            assert_between(s, 0, 100);
        }
        struct mono asked = world.now;
        world_pass(MONITOR_UNANSWERED_NS - 2 * NS_PER_SEC); /* it asks again meanwhile */
        assert_true(monitor_makes_progress(stage.monitor, world.now));
        world.now = mono_add(asked, MONITOR_UNANSWERED_NS);
        tell((struct verdict_event){.kind = VERDICT_TICK});
        assert_false(monitor_makes_progress(stage.monitor, world.now));
        stage.story[0] = '\0';
        if (kind == 0) {
            marked(MARK_LOST);
        } else if (kind == 1) {
            refused();
        } else {
            answered();
        }
        assert_true(monitor_makes_progress(stage.monitor, world.now));
    }
}

TEST_WITH(before_its_start_nothing_is_overdue, stage_up, stage_down)
{
    const struct monitor_config config = everything();
    monitor_free(stage.monitor);
    stage.monitor = monitor_new(&config, NULL);
    world.now = mono_add(world.now, 3600 * NS_PER_SEC);
    assert_true(monitor_makes_progress(stage.monitor, world.now));
    assert_int_equal(stats().outage_ns, 0);
}
