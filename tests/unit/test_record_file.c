/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

struct world {
    char dir[SCRATCH_BYTES];
    char path[96];
    char page[RECORD_PAGE_BYTES];
};

/* A page of this boot, renewed just now. */
static void make_page(char page[static RECORD_PAGE_BYTES])
{
    struct mono now = clock_mono_now();
    struct record r = {.readiness = {.state = READINESS_READY,
                                     .admit = true,
                                     .reason = REASON_LEASE_RENEWED,
                                     .observed = now,
                                     .lease_until = mono_add(now, 40 * NS_PER_SEC)},
                       .writer_until = mono_add(now, 15 * NS_PER_SEC),
                       .hold_until = mono_add(now, 340 * NS_PER_SEC)};
    assert_int_equal(clock_boot_id(r.boot_id, NULL), 0);
    assert_int_equal(record_encode(&r, page, NULL), 0);
}

static void world_make(struct world *w)
{
    scratch_make(w->dir);
    (void)snprintf(w->path, sizeof(w->path), "%s/readiness.json", w->dir);
    make_page(w->page);
}

static void world_remove(struct world *w)
{
    scratch_remove(w->dir);
}

WORLD(world_make, world_remove)

static void write_file(const char *path, const char *bytes, size_t len)
{
    CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    assert_int_equal(fchmod(fd, 0644), 0);
}

static struct gate_decision judge(const char *path)
{
    struct record record;
    struct gate_decision decision;
    struct err e = ERR_INIT;
    int rc = record_file_judge(path, &record, &decision, &e);
    assert_int_equal(rc == 0, e.code == 0);
    print_message("%s %s\n", decision.admit ? "admitted" : "refused", decision.message);
    return decision;
}

static void assert_invalid(const struct world *w, const char *words)
{
    struct gate_decision d = judge(w->path);
    assert_false(d.admit);
    assert_int_equal(d.reason, REASON_RECORD_INVALID);
    assert_non_null(strstr(d.message, words));
    assert_null(strstr(d.details, "since")); /* a time that the reader does not know */
}

TEST_IN(an_intact_record_is_judged)
{
    write_file(w->path, w->page, sizeof(w->page));
    assert_true(judge(w->path).admit);
}

TEST_IN(a_record_that_is_not_there_is_missing)
{
    struct gate_decision d = judge(w->path);
    assert_false(d.admit);
    assert_int_equal(d.reason, REASON_RECORD_MISSING);
    assert_int_equal(judge("/dev/null/readiness.json").reason, REASON_RECORD_MISSING);
}

TEST_IN(a_damaged_record_is_invalid)
{
    w->page[30] ^= 1;
    write_file(w->path, w->page, sizeof(w->page));
    assert_invalid(w, "checksum");
    write_file(w->path, "", 0);
    assert_invalid(w, "checksum");
}

TEST_IN(what_is_no_regular_file_is_not_opened_for_long)
{
    char real[128];
    assert_int_equal(mkfifo(w->path, 0644), 0);
    assert_invalid(w, "regular file");
    assert_int_equal(unlink(w->path), 0);
    assert_int_equal(mkdir(w->path, 0755), 0);
    assert_invalid(w, "regular file");
    assert_int_equal(rmdir(w->path), 0);
    (void)snprintf(real, sizeof(real), "%s/real", w->dir);
    write_file(real, w->page, sizeof(w->page));
    assert_int_equal(symlink(real, w->path), 0);
    assert_invalid(w, "opening it");
}

TEST_IN(a_large_file_is_refused)
{
    write_file(w->path, w->page, sizeof(w->page));
    assert_int_equal(truncate(w->path, RECORD_FILE_MAX_BYTES + 1), 0);
    assert_invalid(w, "it has 65537 bytes, and dpu-gate reads at most 65536");
    assert_int_equal(truncate(w->path, RECORD_FILE_MAX_BYTES), 0);
    assert_invalid(w, "checksum"); /* it was read */
}

TEST_IN(root_refuses_what_others_may_write)
{
    static const mode_t modes[] = {0664, 0646, 0666};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        write_file(w->path, w->page, sizeof(w->page));
        assert_int_equal(chmod(w->path, modes[i]), 0);
        assert_invalid(w, "only root may write it");
    }
    write_file(w->path, w->page, sizeof(w->page));
    assert_int_equal(chown(w->path, 65534, 65534), 0);
    assert_invalid(w, "its owner is 65534 and its mode 0644");
    assert_int_equal(chown(w->path, 0, 65534), 0);
    assert_true(judge(w->path).admit);
}

/* In place of the C library's: the writer gets on with its page while the reader pauses. */
static struct {
    const struct world *bench;
    int pauses;
    int finish_at; /* the pause during which the page becomes whole; 0: it never does */
    int64_t paused_ns;
} writer;

int nanosleep(const struct timespec *pause, struct timespec *left)
{
    writer.pauses++;
    writer.paused_ns += pause->tv_sec * NS_PER_SEC + pause->tv_nsec;
    if (writer.pauses == writer.finish_at) {
        write_file(writer.bench->path, writer.bench->page, sizeof(writer.bench->page));
    }
    return 0;
}

TEST_IN(a_page_that_is_being_written_is_looked_at_again)
{
    for (int finish_at = 0; finish_at < RECORD_FILE_TRIES; finish_at++) {
        write_file(w->path, w->page, finish_at > 0 ? 100 : sizeof(w->page));
        writer.bench = w;
        writer.pauses = 0;
        writer.finish_at = finish_at;
        assert_true(judge(w->path).admit);
        assert_int_equal(writer.pauses, finish_at);
    }
}

TEST_IN(a_page_that_stays_torn_is_given_up_after_some_milliseconds)
{
    write_file(w->path, w->page, 100);
    writer.pauses = 0;
    writer.finish_at = 0;
    writer.paused_ns = 0;
    assert_invalid(w, "checksum");
    assert_int_equal(writer.pauses, RECORD_FILE_TRIES - 1);
    assert_between(writer.paused_ns, 10 * NS_PER_MS, 20 * NS_PER_MS);
}
