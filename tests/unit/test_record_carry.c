/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/record.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/record.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OBSERVED ((struct mono){5000 * NS_PER_SEC})

struct world {
    struct verdict_config config;
    char dir[SCRATCH_BYTES];
    char path[96];
    char mark[112];
};

/* As a former agent of this boot left it. */
static struct record former_record(void)
{
    struct record r = {.readiness = {.state = READINESS_READY,
                                     .admit = true,
                                     .reason = REASON_LEASE_RENEWED,
                                     .observed = OBSERVED,
                                     .lease_until = mono_add(OBSERVED, 40 * NS_PER_SEC),
                                     .lease = {.ns = "ovn-kubernetes", .name = "ovn-dpu-w1"}},
                       .node = "w1",
                       .hold_until = mono_add(OBSERVED, 340 * NS_PER_SEC)};
    assert_int_equal(clock_boot_id(r.boot_id, NULL), 0);
    return r;
}

static void leave(const struct world *w, const struct record *r)
{
    char page[RECORD_PAGE_BYTES];
    assert_int_equal(record_encode(r, page, NULL), 0);
    CLEANUP(fd) int fd = open(w->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
    assert_int_equal(fchmod(fd, 0644), 0);
}

static void up(struct world *w)
{
    w->config = (struct verdict_config){.lease_ns = "ovn-kubernetes", .lease_name = "ovn-dpu-w1"};
    scratch_make(w->dir);
    (void)snprintf(w->path, sizeof(w->path), "%s/readiness.json", w->dir);
    (void)snprintf(w->mark, sizeof(w->mark), "%s.crashed", w->path);
    struct record r = former_record();
    leave(w, &r);
}

static void down(struct world *w)
{
    record_carry_settled();
    scratch_remove(w->dir);
}

WORLD(up, down)

static int carry(const struct world *w, struct record *out, struct err *e)
{
    return record_carry_read(w->path, "w1", &w->config, out, e);
}

static void assert_refused(const struct world *w, int code, const char *words)
{
    struct record untouched = {.hold_until = {7}};
    struct err e = ERR_INIT;
    assert_int_equal(carry(w, &untouched, &e), code);
    assert_int_equal(untouched.hold_until.ns, 7);
    if (!strstr(e.msg, words)) {
        fail_msg("'%s' does not say '%s'", e.msg, words);
    }
}

/* ---- whose record is it? --------------------------------------------------------------------- */

TEST_IN(the_record_of_this_boot_node_and_lease_is_carried)
{
    struct record out;
    assert_int_equal(carry(w, &out, NULL), 0);
    assert_int_equal(out.hold_until.ns, mono_add(OBSERVED, 340 * NS_PER_SEC).ns);
    assert_int_equal(out.readiness.observed.ns, OBSERVED.ns);
    assert_int_equal(out.readiness.state, READINESS_READY);
    assert_true(out.readiness.admit);
}

TEST_IN(a_record_of_another_boot_node_or_lease_is_not_carried)
{
    static const struct {
        size_t offset; /* of a text in the record */
        const char *text;
        const char *words;
    } rows[] = {
        {offsetof(struct record, boot_id), "another", "before this boot"},
        {offsetof(struct record, node), "w2", "about node 'w2'"},
        {offsetof(struct record, readiness.lease.ns), "elsewhere",
         "about lease 'elsewhere/ovn-dpu-w1'"},
        {offsetof(struct record, readiness.lease.name), "ovn-dpu-w2",
         "about lease 'ovn-kubernetes/ovn-dpu-w2'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record r = former_record();
        (void)strcpy((char *)&r + rows[i].offset, rows[i].text);
        leave(w, &r);
        assert_refused(w, ERR_GONE, rows[i].words);
    }
}

TEST_IN(no_record_is_said_to_be_missing)
{
    assert_int_equal(unlink(w->path), 0);
    assert_refused(w, ERR_NOTFOUND, "opening");
}

TEST_IN(a_damaged_record_is_not_carried)
{
    assert_int_equal(truncate(w->path, 100), 0);
    assert_refused(w, ERR_PARSE, "checksum");
    assert_int_equal(truncate(w->path, 0), 0);
    assert_refused(w, ERR_PARSE, "checksum");
}

/* ---- what ended its reader ------------------------------------------------------------------- */

enum course { CRASHES, SETTLES_FIRST, READS_NOTHING };

/* In a process of its own, which ends by the signal. */
static void live_and_end(const struct world *w, enum course course, int signal_number)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct record out;
        const struct rlimit none = {.rlim_cur = 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(signal_number, SIG_DFL); /* cmocka has handlers of its own */
        if (course != READS_NOTHING && carry(w, &out, NULL) != 0) {
            _exit(2);
        }
        if (course == SETTLES_FIRST) {
            record_carry_settled();
        }
        (void)raise(signal_number);
        _exit(3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal_number);
}

static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

TEST_IN(a_record_that_ended_its_reader_is_passed_over_once)
{
    struct record out;
    for (size_t i = 0; i < ARRAY_LEN(crashes); i++) {
        live_and_end(w, CRASHES, crashes[i]);
        assert_refused(w, ERR_GONE, "crashed");
        assert_int_equal(carry(w, &out, NULL), 0);
        record_carry_settled();
    }
}

TEST_IN(an_end_that_says_nothing_of_the_record_leaves_no_mark)
{
    live_and_end(w, CRASHES, SIGTERM); /* from outside */
    assert_int_equal(access(w->mark, F_OK), -1);
    for (size_t i = 0; i < ARRAY_LEN(crashes); i++) {
        live_and_end(w, SETTLES_FIRST, crashes[i]);
        assert_int_equal(access(w->mark, F_OK), -1);
    }
    live_and_end(w, READS_NOTHING, SIGSEGV);
    assert_int_equal(access(w->mark, F_OK), -1);
}
