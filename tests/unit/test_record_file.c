/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/support/case.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

struct bench {
    char dir[64];
    char path[96];
    char page[RECORD_PAGE_BYTES];
};

/* A page of this boot, renewed just now. */
static void make_page(char page[static RECORD_PAGE_BYTES])
{
    struct mono now = clock_mono_now();
    struct record r = {.verdict = {.state = READINESS_READY,
                                   .admit = true,
                                   .reason = REASON_LEASE_RENEWED,
                                   .observed = now,
                                   .lease_until = mono_add(now, 40 * NS_PER_SEC)},
                       .writer_until = mono_add(now, 15 * NS_PER_SEC),
                       .hold_until = mono_add(now, 340 * NS_PER_SEC)};
    assert_int_equal(clock_boot_id(r.boot_id, NULL), 0);
    assert_int_equal(record_encode(&r, page, NULL), 0);
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    (void)snprintf(b->dir, sizeof(b->dir), "/tmp/test-record-file.XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    (void)snprintf(b->path, sizeof(b->path), "%s/readiness.json", b->dir);
    make_page(b->page);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    if (unlink(b->path) != 0) {
        (void)rmdir(b->path); /* one test makes it a directory, another none at all */
    }
    assert_int_equal(rmdir(b->dir), 0);
    free(b);
    return 0;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
    CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    assert_int_equal(fchmod(fd, 0644), 0);
}

static struct gate_decision judge(const struct bench *b)
{
    struct gate_decision decision;
    record_file_judge(b->path, &decision);
    print_message("%s %s\n", decision.admit ? "admitted" : "refused", decision.message);
    return decision;
}

static void assert_invalid(const struct bench *b, const char *words)
{
    struct gate_decision d = judge(b);
    assert_false(d.admit);
    assert_int_equal(d.reason, REASON_RECORD_INVALID);
    assert_non_null(strstr(d.message, words));
}

TEST_WITH(an_intact_record_is_judged, set_up, tear_down)
{
    const struct bench *b = *state;
    write_file(b->path, b->page, sizeof(b->page));
    assert_true(judge(b).admit);
}

TEST_WITH(a_record_that_is_not_there_is_missing, set_up, tear_down)
{
    const struct bench *b = *state;
    struct gate_decision d = judge(b);
    assert_false(d.admit);
    assert_int_equal(d.reason, REASON_RECORD_MISSING);
    record_file_judge("/dev/null/readiness.json", &d);
    assert_int_equal(d.reason, REASON_RECORD_MISSING);
}

TEST_WITH(a_damaged_record_is_invalid, set_up, tear_down)
{
    struct bench *b = *state;
    b->page[30] ^= 1;
    write_file(b->path, b->page, sizeof(b->page));
    assert_invalid(b, "checksum");
    write_file(b->path, "", 0);
    assert_invalid(b, "checksum");
}

TEST_WITH(what_is_no_regular_file_is_not_opened_for_long, set_up, tear_down)
{
    const struct bench *b = *state;
    char real[128];
    assert_int_equal(mkfifo(b->path, 0644), 0);
    assert_invalid(b, "regular file");
    assert_int_equal(unlink(b->path), 0);
    assert_int_equal(mkdir(b->path, 0755), 0);
    assert_invalid(b, "regular file");
    assert_int_equal(rmdir(b->path), 0);
    (void)snprintf(real, sizeof(real), "%s/real", b->dir);
    write_file(real, b->page, sizeof(b->page));
    assert_int_equal(symlink(real, b->path), 0);
    assert_invalid(b, "opening it");
    assert_int_equal(unlink(real), 0);
}

TEST_WITH(a_large_file_is_refused, set_up, tear_down)
{
    const struct bench *b = *state;
    write_file(b->path, b->page, sizeof(b->page));
    assert_int_equal(truncate(b->path, RECORD_FILE_MAX_BYTES + 1), 0);
    assert_invalid(b, "it has 65537 bytes, and dpu-gate reads at most 65536");
    assert_int_equal(truncate(b->path, RECORD_FILE_MAX_BYTES), 0);
    assert_invalid(b, "checksum"); /* it was read */
}

TEST_WITH(root_refuses_what_others_may_write, set_up, tear_down)
{
    const struct bench *b = *state;
    static const mode_t modes[] = {0664, 0646, 0666};
    if (geteuid() != 0) {
        skip();
    }
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        write_file(b->path, b->page, sizeof(b->page));
        assert_int_equal(chmod(b->path, modes[i]), 0);
        assert_invalid(b, "only root may write it");
    }
    write_file(b->path, b->page, sizeof(b->page));
    assert_int_equal(chown(b->path, 65534, 65534), 0);
    assert_invalid(b, "its owner is 65534 and its mode 0644");
    assert_int_equal(chown(b->path, 0, 65534), 0);
    assert_true(judge(b).admit);
}

/* In place of the C library's: the writer gets on with its page while the reader pauses. */
static struct {
    const struct bench *bench;
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

TEST_WITH(a_page_that_is_being_written_is_looked_at_again, set_up, tear_down)
{
    const struct bench *b = *state;
    for (int finish_at = 1; finish_at < RECORD_FILE_TRIES; finish_at++) {
        write_file(b->path, b->page, 100);
        writer.bench = b;
        writer.pauses = 0;
        writer.finish_at = finish_at;
        assert_true(judge(b).admit);
        assert_int_equal(writer.pauses, finish_at);
    }
}

TEST_WITH(a_page_that_stays_torn_is_given_up_after_some_milliseconds, set_up, tear_down)
{
    const struct bench *b = *state;
    write_file(b->path, b->page, 100);
    writer.pauses = 0;
    writer.finish_at = 0;
    writer.paused_ns = 0;
    assert_invalid(b, "checksum");
    assert_int_equal(writer.pauses, RECORD_FILE_TRIES - 1);
    assert_in_range(writer.paused_ns, 10 * NS_PER_MS, 20 * NS_PER_MS);
}
