/* SPDX-License-Identifier: Apache-2.0 */
/* The test is dpu-host-agent: it writes the record as that does. */
#include "dra-driver/record_reader.h"

#include "base/log.h"
#include "base/mem.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <ev.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define S NS_PER_SEC

struct world {
    struct ev_loop *loop;
    char dir[SCRATCH_BYTES];
    char path[64];
    struct record record;
    struct record_reader *reader;
    struct readiness told; /* last */
    int count;
};

static void on_verdict(void *user, const struct readiness *verdict)
{
    struct world *w = user;
    w->told = *verdict;
    w->count++;
}

static void up(struct world *w)
{
    w->loop = ev_loop_new(EVFLAG_AUTO);
    scratch_make(w->dir);
    (void)snprintf(w->path, sizeof(w->path), "%s/run/r.json", w->dir);
    struct mono now = clock_mono_now();
    w->record = (struct record){.node = "w1",
                                .readiness = {.state = READINESS_READY,
                                              .admit = true,
                                              .reason = REASON_LEASE_RENEWED,
                                              .message = "the DPU renews",
                                              .observed = now,
                                              .transition = {1700000000 * S}},
                                .writer_until = mono_add(now, 600 * S),
                                .hold_until = mono_add(now, 900 * S),
                                .written = {1700000100 * S}};
    assert_int_equal(clock_boot_id(w->record.boot_id, NULL), 0);
    log_setup(LOG_ERROR, LOG_TEXT, "");
}

static void down(struct world *w)
{
    record_reader_stop(w->reader);
    ev_loop_destroy(w->loop);
    scratch_remove(w->dir);
}

WORLD(up, down)

/* In place, where the file is there. */
static void write_record(const struct world *w)
{
    char page[RECORD_PAGE_BYTES];
    assert_int_equal(record_encode(&w->record, page, NULL), 0);
    assert_true(scratch_run("mkdir -p %s/run", w->dir));
    CLEANUP(fd) int fd = open(w->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(pwrite(fd, page, sizeof(page), 0), sizeof(page));
}

static void start(struct world *w)
{
    w->reader = record_reader_start(w->loop, w->path, on_verdict, w);
    (void)ev_run(w->loop, EVRUN_ONCE);
    assert_int_equal(w->count, 1);
}

static void on_limit(struct ev_loop *loop, ev_timer *limit, int events)
{
    ev_break(loop, EVBREAK_ONE); /* a turn has ended, in which nothing else came */
}

static void wait_for(struct world *w, enum readiness_state state, enum readiness_reason reason,
                     bool admit)
{
    struct mono begin = clock_mono_now();
    ev_timer limit;
    ev_timer_init(&limit, on_limit, 11, 0);
    ev_timer_start(w->loop, &limit);
    while (w->told.state != state || w->told.reason != reason || w->told.admit != admit) {
        if (mono_since(clock_mono_now(), begin) > 10 * S) {
            fail_msg("%s %s: %s", readiness_state_name(w->told.state),
                     readiness_reason_name(w->told.reason), w->told.message);
        }
        (void)ev_run(w->loop, EVRUN_ONCE);
    }
    ev_timer_stop(w->loop, &limit);
}

/* ---- judging --------------------------------------------------------------------------------- */

TEST_IN(a_record_counts_until_its_own_times_say_otherwise)
{
    static const struct {
        enum readiness_state state;
        bool admit;
        int64_t at_s; /* the writer is overdue at 10, held until 20 */
        enum readiness_state told_state;
        bool told_admit;
        bool is_stale;
        int64_t until_s; /* -1: never */
    } rows[] = {
        {READINESS_READY, true, 9, READINESS_READY, true, false, 10},
        {READINESS_READY, true, 10, READINESS_UNKNOWN, true, true, 20},
        {READINESS_READY, true, 19, READINESS_UNKNOWN, true, true, 20},
        {READINESS_READY, true, 20, READINESS_UNKNOWN, false, true, -1},
        {READINESS_UNKNOWN, true, 9, READINESS_UNKNOWN, true, false, 10},
        {READINESS_UNKNOWN, true, 10, READINESS_UNKNOWN, true, true, 20},
        {READINESS_UNKNOWN, false, 9, READINESS_UNKNOWN, false, false, 10},
        {READINESS_NOT_READY, false, 9, READINESS_NOT_READY, false, false, 10},
        {READINESS_NOT_READY, false, 10, READINESS_UNKNOWN, false, true, -1},
        {READINESS_NOT_READY, false, 20, READINESS_UNKNOWN, false, true, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record r = w->record;
        struct gate_decision judged;
        struct readiness told;
        struct mono until;
        const struct mono now = {rows[i].at_s * S};
        r.readiness.observed = (struct mono){S};
        r.readiness.state = rows[i].state;
        r.readiness.admit = rows[i].admit;
        r.writer_until = (struct mono){10 * S};
        r.hold_until = (struct mono){20 * S};
        gate_judge(&r, r.boot_id, now, "/r", &judged);
        record_reader_judge(&r, &judged, now, &told, &until);
        if (told.state != rows[i].told_state || told.admit != rows[i].told_admit ||
            (told.reason == REASON_RECORD_STALE) != rows[i].is_stale ||
            (rows[i].until_s < 0 ? !mono_is_never(until) : until.ns != rows[i].until_s * S)) {
            fail_msg("row %zu: %s admit %d %s until %" PRId64, i, readiness_state_name(told.state),
                     told.admit, readiness_reason_name(told.reason), until.ns);
        }
        assert_int_equal(told.admit, judged.admit); /* as the gate, always */
        assert_int_equal(told.transition.ns, rows[i].is_stale ? 0 : 1700000000 * S);
        assert_true(!rows[i].is_stale || strstr(told.message, "2023-11-14T22:15:00Z"));
    }
}

TEST_IN(a_record_of_another_boot_says_nothing)
{
    struct gate_decision judged;
    struct readiness told;
    struct mono until;
    gate_judge(&w->record, "another", clock_mono_now(), "/r", &judged);
    record_reader_judge(&w->record, &judged, clock_mono_now(), &told, &until);
    assert_int_equal(told.state, READINESS_UNKNOWN);
    assert_int_equal(told.reason, REASON_RECORD_INVALID);
    assert_false(told.admit);
    assert_true(mono_is_never(until));
}

/* ---- following ------------------------------------------------------------------------------- */

TEST_IN(what_is_written_is_told_at_once_and_what_says_the_same_is_not)
{
    write_record(w);
    start(w);
    assert_int_equal(w->told.state, READINESS_READY);
    assert_string_equal(w->told.message, "the DPU renews");
    w->record.writer_until = mono_add(w->record.writer_until, S);
    w->record.written = (struct wall){1700000200 * S};
    write_record(w);
    (void)ev_run(w->loop, EVRUN_ONCE); /* inotify */
    assert_int_equal(w->count, 1);
    w->record.readiness.state = READINESS_NOT_READY;
    w->record.readiness.admit = false;
    w->record.readiness.reason = REASON_LEASE_EXPIRED;
    write_record(w);
    wait_for(w, READINESS_NOT_READY, REASON_LEASE_EXPIRED, false);
    assert_int_equal(w->count, 2);
    assert_int_equal(record_reader_verdict(w->reader)->reason, REASON_LEASE_EXPIRED);
}

TEST_IN(a_writer_that_dies_is_overdue_and_then_counts_no_more)
{
    struct mono now = clock_mono_now();
    w->record.writer_until = mono_add(now, 100 * NS_PER_MS);
    w->record.hold_until = mono_add(now, 300 * NS_PER_MS);
    write_record(w);
    start(w);
    assert_int_equal(w->told.state, READINESS_READY);
    wait_for(w, READINESS_UNKNOWN, REASON_RECORD_STALE, true);
    assert_true(mono_reached(clock_mono_now(), w->record.writer_until));
    int64_t since = w->told.transition.ns;
    wait_for(w, READINESS_UNKNOWN, REASON_RECORD_STALE, false);
    assert_true(mono_reached(clock_mono_now(), w->record.hold_until));
    assert_true(since > 1700000000 * S && w->told.transition.ns >= since);
    w->record.writer_until = mono_add(now, 600 * S); /* another one begins */
    w->record.hold_until = mono_add(now, 900 * S);
    write_record(w);
    wait_for(w, READINESS_READY, REASON_LEASE_RENEWED, true);
    assert_int_equal(w->told.transition.ns, 1700000000 * S);
}

TEST_IN(a_record_that_comes_later_or_goes_is_noticed)
{
    start(w); /* not even its directory is there */
    assert_int_equal(w->told.reason, REASON_RECORD_MISSING);
    assert_false(w->told.admit);
    write_record(w);
    wait_for(w, READINESS_READY, REASON_LEASE_RENEWED, true);
    assert_int_equal(unlink(w->path), 0);
    wait_for(w, READINESS_UNKNOWN, REASON_RECORD_MISSING, false);
    assert_true(scratch_run("rm -r %s/run", w->dir));
    write_record(w);
    wait_for(w, READINESS_READY, REASON_LEASE_RENEWED, true);
    scratch_put(w->dir, "run/r.json", "{}");
    wait_for(w, READINESS_UNKNOWN, REASON_RECORD_INVALID, false);
}

/* Readers refuse a record that not only root may write, and nothing is written meanwhile. */
TEST_IN(a_record_that_others_may_write_is_refused_as_by_the_gate)
{
    if (geteuid() != 0) {
        skip();
    }
    write_record(w);
    start(w);
    assert_int_equal(chmod(w->path, 0666), 0);
    wait_for(w, READINESS_UNKNOWN, REASON_RECORD_INVALID, false);
    assert_int_equal(chmod(w->path, 0644), 0);
    wait_for(w, READINESS_READY, REASON_LEASE_RENEWED, true);
}

TEST_IN(a_record_that_is_linked_into_its_place_is_noticed)
{
    write_record(w);
    start(w);
    assert_true(scratch_run("mv %s/run/r.json %s/kept", w->dir, w->dir));
    wait_for(w, READINESS_UNKNOWN, REASON_RECORD_MISSING, false);
    assert_true(scratch_run("ln %s/kept %s/run/r.json", w->dir, w->dir));
    wait_for(w, READINESS_READY, REASON_LEASE_RENEWED, true);
}

TEST_IN(a_record_that_cannot_be_read_for_a_moment_is_read_again)
{
    struct rlimit limit;
    write_record(w);
    start(w);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {.rlim_cur = 3, .rlim_max = limit.rlim_max};
    assert_int_equal(chmod(w->path, 0600), 0); /* it looks */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    (void)ev_run(w->loop, EVRUN_ONCE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(w->told.reason, REASON_RECORD_INVALID);
    wait_for(w, READINESS_READY, REASON_LEASE_RENEWED, true);
}
