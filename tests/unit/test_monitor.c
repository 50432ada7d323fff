/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/monitor.h"

#include "base/clock.h"
#include "base/log.h"
#include "host-agent/dra/dra_service.h"
#include "host-agent/record_writer.h"
#include "loop/daemon.h"
#include "tests/unit/expiry_world.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct stage;

/* In place of the kubelet plugin: who is told what it would show. */
struct dra_service {
    struct stage *stage;
};

/* A monitor with its record in a directory of its own. */
struct stage {
    struct daemon *daemon;
    struct dra_service dra;
    struct monitor *monitor;
    struct lease_view lease;
    char dir[64];
    char path[96];
    int published;
    uint64_t writes_when_published;
    enum readiness_reason reason;
};

static struct record_writer_stats record_stats(const struct stage *s)
{
    return record_writer_stats(monitor_parts(s->monitor)->record);
}

void dra_service_publish(struct dra_service *dra, const struct readiness *verdict)
{
    struct stage *s = dra->stage;
    s->published++;
    s->reason = verdict->reason;
    s->writes_when_published = record_stats(s).writes;
}

static int stage_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));
    struct err e = ERR_INIT;
    assert_non_null(s);
    (void)snprintf(s->dir, sizeof(s->dir), "/tmp/test_monitor.XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    (void)snprintf(s->path, sizeof(s->path), "%s/readiness.json", s->dir);
    log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    s->dra.stage = s;
    s->lease = world_lease();
    assert_int_equal(daemon_new(1000, NULL, NULL, &s->daemon, &e), 0);
    const struct monitor_config config = {.daemon = s->daemon,
                                          .dra = &s->dra,
                                          .expiry = world_config(),
                                          .node = "w1",
                                          .readiness_file = s->path,
                                          .stale_hold_ns = 300 * NS_PER_SEC};
    assert_int_equal(monitor_new(&config, NULL, &s->monitor, &e), 0);
    monitor_start(s->monitor);
    *state = s;
    return 0;
}

static int stage_down(void **state)
{
    struct stage *s = *state;
    monitor_free(s->monitor);
    daemon_free(s->daemon);
    assert_int_equal(unlink(s->path), 0);
    assert_int_equal(rmdir(s->dir), 0);
    free(s);
    return 0;
}

/* The lease is seen with a stamp so far ahead of our clock. */
static void see(struct stage *s, int64_t ahead_ns)
{
    struct wall stamp = {clock_wall_now().ns + ahead_ns};
    s->lease.renew_time = stamp;
    s->lease.renew_time_valid = true;
    rfc3339_format_micro(stamp, s->lease.renew_stamp);
    monitor_event(s->monitor,
                  (struct expiry_event){.kind = EXPIRY_LEASE_OBSERVED, .lease = &s->lease});
}

static struct monitor_stats stats_in(const struct stage *s, int64_t ns)
{
    return monitor_stats(s->monitor, mono_add(clock_mono_now(), ns));
}

static void each_verdict_is_in_the_record_before_others_hear_of_it(void **state)
{
    struct stage *s = *state;
    assert_int_equal(s->published, 1);
    assert_int_equal(s->writes_when_published, 1);
    assert_int_equal(s->reason, REASON_AWAITING_FIRST_RENEWAL);
    see(s, -NS_PER_SEC);
    see(s, 0);
    assert_int_equal(s->reason, REASON_LEASE_RENEWED);
    assert_true(s->writes_when_published >= 2);
    int before = s->published;
    see(s, NS_PER_SEC); /* a renewal alone is news for the record only */
    assert_int_equal(s->published, before);
    assert_true(record_stats(s).writes > s->writes_when_published);
    assert_true(record_stats(s).is_current);
}

static void changes_and_renewals_are_counted_apart(void **state)
{
    struct stage *s = *state;
    assert_false(stats_in(s, 0).has_skew);
    see(s, -NS_PER_SEC); /* the first sight of a lease renews nothing */
    assert_int_equal(stats_in(s, 0).renewals, 0);
    see(s, 0);
    see(s, NS_PER_SEC);
    const struct monitor_stats stats = stats_in(s, 0);
    assert_int_equal(stats.renewals, 2);
    assert_int_equal(stats.changes[REASON_AWAITING_FIRST_RENEWAL], 1);
    assert_int_equal(stats.changes[REASON_LEASE_RENEWED], 1);
    assert_int_equal(stats.changes[REASON_LEASE_EXPIRED], 0);
}

static void skew_is_that_of_the_newest_renewal(void **state)
{
    struct stage *s = *state;
    see(s, 0);
    see(s, 30 * NS_PER_SEC);
    struct monitor_stats stats = stats_in(s, 0);
    assert_true(stats.has_skew);
    assert_in_range(stats.skew_ns / NS_PER_SEC, 28, 30);
    (void)snprintf(s->lease.renew_stamp, sizeof(s->lease.renew_stamp), "no time at all");
    s->lease.renew_time_valid = false;
    monitor_event(s->monitor,
                  (struct expiry_event){.kind = EXPIRY_LEASE_OBSERVED, .lease = &s->lease});
    stats = stats_in(s, 0);
    assert_int_equal(stats.renewals, 2); /* a changed stamp counts, readable or not */
    assert_false(stats.has_skew);
}

static void an_outage_lasts_from_the_first_failure_to_the_next_answer(void **state)
{
    struct stage *s = *state;
    assert_false(stats_in(s, 0).api_reachable); /* nobody has answered yet */
    monitor_event(s->monitor, (struct expiry_event){.kind = EXPIRY_READ_OK});
    assert_true(stats_in(s, 0).api_reachable);
    assert_int_equal(stats_in(s, 10 * NS_PER_SEC).outage_ns, 0);
    for (int i = 0; i < 3; i++) {
        monitor_event(s->monitor,
                      (struct expiry_event){.kind = EXPIRY_READ_FAILED, .failure = "refused"});
    }
    monitor_event(s->monitor, (struct expiry_event){.kind = EXPIRY_WATCH_WORKS});
    assert_false(stats_in(s, 0).api_reachable); /* a watch is no read */
    assert_in_range(stats_in(s, 10 * NS_PER_SEC).outage_ns / NS_PER_SEC, 10, 12);
    monitor_event(s->monitor, (struct expiry_event){.kind = EXPIRY_READ_OK});
    assert_true(stats_in(s, 0).api_reachable);
    int64_t whole_ns = stats_in(s, 0).outage_ns;
    assert_true(whole_ns > 0);
    assert_true(stats_in(s, 100 * NS_PER_SEC).outage_ns == whole_ns);
}

/* What /livez and the health streams ask. */
static void a_wake_up_that_is_overdue_is_no_progress(void **state)
{
    struct stage *s = *state;
    see(s, -NS_PER_SEC);
    see(s, 0);
    struct mono now = clock_mono_now();
    assert_true(monitor_makes_progress(s->monitor, now));
    assert_true(monitor_makes_progress(s->monitor, mono_add(now, 10 * NS_PER_SEC)));
    assert_false(monitor_makes_progress(s->monitor, mono_add(now, 60 * NS_PER_SEC)));
    monitor_event(s->monitor, (struct expiry_event){.kind = EXPIRY_TICK});
    assert_true(monitor_makes_progress(s->monitor, clock_mono_now()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_verdict_is_in_the_record_before_others_hear_of_it,
                                        stage_up, stage_down),
        cmocka_unit_test_setup_teardown(changes_and_renewals_are_counted_apart, stage_up,
                                        stage_down),
        cmocka_unit_test_setup_teardown(skew_is_that_of_the_newest_renewal, stage_up, stage_down),
        cmocka_unit_test_setup_teardown(an_outage_lasts_from_the_first_failure_to_the_next_answer,
                                        stage_up, stage_down),
        cmocka_unit_test_setup_teardown(a_wake_up_that_is_overdue_is_no_progress, stage_up,
                                        stage_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
