/* SPDX-License-Identifier: Apache-2.0 */
/* Beside another agent of the node, played by the test: it holds the lock and writes the record. */
#include "host-agent/record.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <ev.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct world {
    char dir[SCRATCH_BYTES];
    char file[128];
    struct ev_loop *loop;
    struct file_lock other;
    struct record_turn *turn;
    struct record record; /* of ours */
    int turns;
    int losses;
};

static void on_turn(void *user)
{
    ((struct world *)user)->turns++;
}

static void on_lost(void *user)
{
    ((struct world *)user)->losses++;
}

static void up(struct world *w)
{
    scratch_make(w->dir);
    (void)snprintf(w->file, sizeof(w->file), "%s/record.json", w->dir);
    assert_int_equal(file_lock_init(&w->other, w->file, ".lock", NULL), 0);
    w->loop = ev_loop_new(0);
    assert_non_null(w->loop);
}

static void down(struct world *w)
{
    record_turn_stop(w->turn);
    ev_loop_destroy(w->loop);
    file_lock_release(&w->other);
    scratch_remove(w->dir);
}

WORLD(up, down)

static void start(struct world *w, const char *lease)
{
    const struct record_turn_config config = {.loop = w->loop,
                                              .path = w->file,
                                              .lease_ns = "ovn-kubernetes",
                                              .lease_name = lease,
                                              .on_turn = on_turn,
                                              .on_lost = on_lost,
                                              .user = w};
    assert_int_equal(record_turn_start(&config, &w->turn, NULL), 0);
}

/* In place, so that no name comes or goes. */
static void write_held(const struct world *w, enum readiness_state state, struct mono writer_until,
                       int64_t hold_ns)
{
    char page[RECORD_PAGE_BYTES];
    bool is_ready = state == READINESS_READY;
    struct record r = {
        .readiness = {.state = state,
                      .admit = is_ready,
                      .reason = is_ready ? REASON_LEASE_RENEWED : REASON_LEASE_EXPIRED,
                      .observed = {NS_PER_SEC},
                      .lease_until = writer_until,
                      .lease = {.ns = "ovn-kubernetes", .name = "ovn-dpu-w1"}},
        .node = "w1",
        .writer_until = writer_until,
        .hold_until = mono_add(writer_until, hold_ns)};
    assert_int_equal(clock_boot_id(r.boot_id, NULL), 0);
    assert_int_equal(record_encode(&r, page, NULL), 0);
    FILE *f = fopen(w->file, "r+");
    f = f ? f : fopen(w->file, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(page, sizeof(page), 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

static void write_record(const struct world *w, enum readiness_state state,
                         struct mono writer_until)
{
    write_held(w, state, writer_until, 300 * NS_PER_SEC);
}

/* Until *count is reached, or for long. */
static void wait_for(const struct world *w, const int *count, int wanted)
{
    struct mono begin = clock_mono_now();
    while (*count < wanted) {
        (void)ev_run(w->loop, EVRUN_ONCE);
        assert_true(mono_since(clock_mono_now(), begin) < 10 * NS_PER_SEC);
    }
    assert_int_equal(*count, wanted);
}

TEST_IN(who_waits_has_its_turn_when_the_writer_ends_and_not_while_it_writes)
{
    assert_int_equal(file_lock_take(&w->other, NULL), 0);
    write_record(w, READINESS_READY, mono_add(clock_mono_now(), 60 * NS_PER_SEC));
    start(w, "ovn-dpu-w1");
    assert_true(record_turn_is_waiting(w->turn));
    for (int i = 0; i < 3; i++) {
        (void)ev_run(w->loop, EVRUN_ONCE);
    }
    assert_int_equal(w->turns, 0);
    file_lock_release(&w->other); /* no name goes */
    wait_for(w, &w->turns, 1);
    assert_false(record_turn_is_waiting(w->turn));
    assert_int_equal(file_lock_take(&w->other, NULL), ERR_CONFLICT);
    assert_int_equal(w->losses, 0);
}

/* With a record in it, written at our turn. */
static struct record_writer *write_at_our_turn(struct world *w)
{
    const struct record_writer_config config = {
        .path = w->file, .node = "w1", .turn = w->turn, .record = &w->record};
    w->record.readiness.reason = REASON_LEASE_RENEWED;
    struct record_writer *writer = record_writer_new(w->loop, &config);
    record_writer_write(writer, clock_mono_now(), MONO_NEVER);
    assert_true(record_writer_stats(writer)->is_current);
    return writer;
}

TEST_IN(a_lock_that_cannot_be_had_is_told_and_not_waited_for)
{
    char said[2048] = "";
    int log_fd = memfd_create("log", MFD_CLOEXEC);
    const char *at = said;
    log_set_fd(log_fd);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(symlink("elsewhere", w->other.path), 0); /* no file can be locked there */
        if (i == 0) {
            start(w, "ovn-dpu-w1");
        }
        record_writer_free(write_at_our_turn(w));
        assert_int_equal(unlink(w->other.path), 0);
        record_writer_free(write_at_our_turn(w)); /* it has one now */
        assert_int_equal(unlink(w->other.path), 0);
    }
    log_set_fd(STDERR_FILENO);
    assert_true(pread(log_fd, said, sizeof(said) - 1, 0) > 0);
    for (int i = 0; i < 2; i++) { /* once each time */
        at = strstr(at, "writing the record without a lock");
        assert_non_null(at++);
    }
    assert_null(strstr(at, "writing the record without a lock"));
    assert_false(record_turn_is_waiting(w->turn));
    assert_int_equal(w->losses, 0);
    assert_int_equal(close(log_fd), 0);
}

TEST_IN(who_writes_notices_that_another_has_its_lock)
{
    start(w, "ovn-dpu-w1");
    assert_false(record_turn_is_waiting(w->turn));
    assert_int_equal(file_lock_take(&w->other, NULL), ERR_CONFLICT);
    struct record_writer *writer = write_at_our_turn(w);
    assert_int_equal(unlink(w->other.path), 0);
    assert_int_equal(file_lock_take(&w->other, NULL), 0); /* before it was seen */
    write_record(w, READINESS_READY, clock_mono_now());
    wait_for(w, &w->losses, 1);
    record_writer_write(writer, clock_mono_now(), MONO_NEVER);
    assert_int_equal(record_writer_stats(writer)->writes, 1);
    assert_int_equal(w->losses, 1); /* told once */
    assert_int_equal(w->turns, 0);
    record_writer_free(writer);
}

TEST_IN(who_writes_takes_a_lock_that_was_removed_again)
{
    start(w, "ovn-dpu-w1");
    struct record_writer *writer = write_at_our_turn(w);
    ev_run(w->loop, EVRUN_NOWAIT);
    assert_int_equal(unlink(w->other.path), 0);
    ev_run(w->loop, EVRUN_ONCE);
    assert_int_equal(file_lock_take(&w->other, NULL), ERR_CONFLICT);
    assert_int_equal(w->losses + w->turns, 0);
    record_writer_free(writer);
}

TEST_IN(a_frozen_writer_is_replaced_when_half_of_its_hold_has_passed)
{
    struct mono begin = clock_mono_now();
    assert_int_equal(file_lock_take(&w->other, NULL), 0);
    write_held(w, READINESS_READY, begin, 2 * NS_PER_SEC);
    start(w, "ovn-dpu-w1");
    wait_for(w, &w->turns, 1);
    assert_between(mono_since(clock_mono_now(), begin), NS_PER_SEC + RECORD_TURN_POLL_NS,
                   5 * NS_PER_SEC);
    assert_int_equal(w->losses, 0);
}

TEST_IN(a_writer_whose_record_is_held_for_long_gets_more_time)
{
    struct mono begin = clock_mono_now();
    assert_int_equal(file_lock_take(&w->other, NULL), 0);
    start(w, "ovn-dpu-w1");
    for (int looks = 1; looks <= 5; looks++) {
        write_record(w, looks % 2 == 0 ? READINESS_READY : READINESS_NOT_READY, begin);
        (void)ev_run(w->loop, EVRUN_ONCE); /* a look */
    }
    assert_int_equal(w->turns, 0);
}

TEST_IN(a_path_that_is_not_one_is_refused)
{
    char long_path[PATH_MAX];
    size_t at = sizeof(long_path) - strlen(".crashed");
    memset(long_path, 'a', sizeof(long_path));
    memcpy(long_path, w->file, strlen(w->dir) + 1);
    long_path[at] = '\0'; /* no room for the mark beside it */
    const char *const paths[] = {"readiness.json", "/readiness.json", "", long_path};
    struct record_turn_config config = {.loop = w->loop};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        config.path = paths[i];
        assert_int_equal(record_turn_start(&config, &w->turn, NULL), ERR_LIMIT);
        assert_null(w->turn);
    }
    long_path[at - 1] = '\0';
    assert_int_equal(record_turn_start(&config, &w->turn, NULL), 0);
}

TEST_IN(who_writes_for_another_lease_is_no_predecessor)
{
    assert_int_equal(file_lock_take(&w->other, NULL), 0);
    start(w, "ovn-dpu-other");
    write_record(w, READINESS_READY, mono_add(clock_mono_now(), NS_PER_SEC));
    wait_for(w, &w->losses, 1);
    const struct record_turn_config config = {
        .loop = w->loop, .path = w->file, .lease_ns = "ovn-kubernetes", .lease_name = "another"};
    struct record_turn *third = NULL;
    assert_int_equal(record_turn_start(&config, &third, NULL), ERR_CONFLICT);
    assert_null(third);
}
