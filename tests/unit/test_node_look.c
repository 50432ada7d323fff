/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up records in a temporary file: what is the answer, since when, and what turns it next. */
#include "dpuctl/node_look.h"

#include "base/clock.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { NEVER = INT32_MAX, NOT_KNOWN = INT32_MIN };

struct row {
    enum readiness_state state;
    bool admit;
    enum readiness_reason reason;
    int valid_s; /* from now; NEVER */
    int writer_s;
    int hold_s;
    enum node_answer answer;
    enum readiness_reason seen;
    int since_s; /* from now; NOT_KNOWN */
    int flips_s; /* from now; NEVER */
};

static struct mono from_now(struct mono now, int s)
{
    return s == NEVER ? MONO_NEVER : mono_add(now, s * NS_PER_SEC);
}

static void write_record(const char *path, const struct row *row, struct mono now)
{
    struct record r = {
        .node = "worker-1",
        .verdict = {.state = row->state,
                    .admit = row->admit,
                    .reason = row->reason,
                    .message = "said",
                    .observed = from_now(now, -20),
                    .lease_until = from_now(now, row->valid_s),
                    .transition = {clock_wall_now().ns - 90 * NS_PER_SEC},
                    .lease = {.ns = "ovn-kubernetes", .name = "ovn-dpu-worker-1"}},
        .writer_until = from_now(now, row->writer_s),
        .hold_until = from_now(now, row->hold_s),
        .pid = 1, /* lives, and is not dpu-host-agent */
    };
    char page[RECORD_PAGE_BYTES];
    assert_int_equal(clock_boot_id(r.boot_id, NULL), 0);
    assert_int_equal(record_encode(&r, page, NULL), 0);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(page, sizeof(page), 1, file), 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0644), 0);
}

static bool is_near(struct mono t, struct mono now, int s)
{
    int64_t off_ns = mono_since(t, mono_add(now, s * NS_PER_SEC));
    return off_ns > -2 * NS_PER_SEC && off_ns < 2 * NS_PER_SEC;
}

static void check_row(struct admin_config *config, const struct row *row)
{
    struct node_look look;
    struct mono now = clock_mono_now();
    write_record(config->readiness_file, row, now);
    admin_read_record(config);
    node_look_take(config, &look);
    assert_true(look.has_record);
    assert_int_equal(look.answer, row->answer);
    assert_int_equal(look.gate.reason, row->seen);
    assert_false(look.writer_exists);
    assert_true(row->since_s == NOT_KNOWN ? look.since.ns == 0
                                          : is_near(look.since, now, row->since_s));
    assert_true(row->flips_s == NEVER ? mono_is_never(look.flips_at)
                                      : is_near(look.flips_at, now, row->flips_s));
    assert_true(node_look_message(&look)[0] != '\0');
}

static void a_record_gives_an_answer(void **state)
{
    static const struct row rows[] = {
        {READINESS_READY, true, REASON_LEASE_RENEWED, 20, 30, 330, NODE_READY, REASON_LEASE_RENEWED,
         -90, 30},
        /* The lease ran out, and its writer lives: it alone tells. */
        {READINESS_READY, true, REASON_LEASE_RENEWED, -5, 30, 330, NODE_READY, REASON_LEASE_RENEWED,
         -90, 30},
        /* Its writer is dead: held, since it became so. */
        {READINESS_READY, true, REASON_LEASE_RENEWED, -50, -30, 100, NODE_UNKNOWN,
         REASON_LEASE_RENEWED, -30, 100},
        {READINESS_READY, true, REASON_LEASE_RENEWED, -350, -330, -30, NODE_UNKNOWN,
         REASON_RECORD_STALE, -30, NEVER},
        {READINESS_READY, true, REASON_HEALTH_CHECK_DISABLED, NEVER, 30, NEVER, NODE_READY,
         REASON_HEALTH_CHECK_DISABLED, -90, 30},
        {READINESS_NOT_READY, false, REASON_LEASE_EXPIRED, -50, 30, 330, NODE_NOT_READY,
         REASON_LEASE_EXPIRED, -90, NEVER},
        {READINESS_NOT_READY, false, REASON_DPU_SHUTDOWN, 20, -30, -1, NODE_NOT_READY,
         REASON_DPU_SHUTDOWN, -90, NEVER},
        {READINESS_UNKNOWN, true, REASON_API_SERVER_UNREACHABLE, 20, 30, 330, NODE_UNKNOWN,
         REASON_API_SERVER_UNREACHABLE, -90, 30},
        {READINESS_UNKNOWN, false, REASON_AWAITING_FIRST_RENEWAL, 20, 30, 330, NODE_UNKNOWN,
         REASON_AWAITING_FIRST_RENEWAL, -90, NEVER},
    };
    char path[] = "/tmp/test-node-look-XXXXXX";
    int fd = mkstemp(path);
    struct admin_config config = {.readiness_file = path};
    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    if (clock_mono_now().ns < 400 * NS_PER_SEC) {
        skip(); /* a machine that has just started has no such past */
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_row(&config, &rows[i]);
    }
    assert_int_equal(unlink(path), 0);
}

static void without_a_record_it_is_named_what_is_missing(void **state)
{
    char path[] = "/nonexistent/readiness.json";
    char root[] = "/host";
    struct admin_config config = {.readiness_file = path, .root = root};
    struct node_look look;
    (void)state;
    admin_read_record(&config);
    node_look_take(&config, &look);
    assert_false(look.has_record);
    assert_string_equal(look.path, "/host/nonexistent/readiness.json");
    assert_int_equal(look.answer, NODE_UNKNOWN);
    assert_int_equal(look.gate.reason, REASON_RECORD_MISSING);
    assert_int_equal(look.since.ns, 0);
    assert_true(mono_is_never(look.flips_at));
    assert_non_null(strstr(node_look_message(&look), look.path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_gives_an_answer),
        cmocka_unit_test(without_a_record_it_is_named_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
