/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_core.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <string.h>

static struct mono at_ms(int64_t ms)
{
    return (struct mono){1000 * NS_PER_SEC + ms * NS_PER_MS};
}

/* Tries to take every millisecond. */
static int take_during(struct kube_bucket *b, int64_t from_ms, int64_t to_ms)
{
    int taken = 0;
    for (int64_t ms = from_ms; ms < to_ms; ms++) {
        taken += kube_bucket_try(b, at_ms(ms));
    }
    return taken;
}

TEST(a_burst_passes_then_one_per_second)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(take_during(&b, 0, 999), KUBE_BUCKET_BURST);
    assert_int_equal(take_during(&b, 999, 1000), 0);
    assert_int_equal(take_during(&b, 1000, 61000), 60);
}

TEST(those_that_wait_get_a_token_each_in_their_order)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    for (int i = 1; i <= KUBE_BUCKET_BURST + 3; i++) {
        int64_t wait_ns = i <= KUBE_BUCKET_BURST ? 0 : (i - KUBE_BUCKET_BURST) * NS_PER_SEC;
        assert_int_equal(kube_bucket_take(&b, at_ms(0)), wait_ns);
    }
    assert_int_equal(kube_bucket_take(&b, at_ms(999)), 3001 * NS_PER_MS);
    kube_bucket_return(&b);
    assert_int_equal(take_during(&b, 999, 4000), 0); /* behind them */
    assert_int_equal(take_during(&b, 4000, 5000), 1);
}

TEST(no_more_than_a_burst_is_saved_up)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(take_during(&b, INT64_C(3600000), 3600999), KUBE_BUCKET_BURST);
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(kube_bucket_take(&b, (struct mono){INT64_MAX}), 0);
}

TEST(time_that_goes_back_gives_and_takes_nothing)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(take_during(&b, -5000, 0), KUBE_BUCKET_BURST);
    assert_int_equal(take_during(&b, 0, 2001), 2);
}

TEST(urgent_ones_are_counted_but_leave_a_reserve)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    for (int i = 0; i < 100; i++) {
        kube_bucket_take_urgent(&b, at_ms(0));
    }
    for (int i = 0; i < KUBE_BUCKET_RESERVE; i++) {
        assert_true(kube_bucket_try(&b, at_ms(0)));
    }
    assert_false(kube_bucket_try(&b, at_ms(0)));
}

TEST(urgent_ones_without_end_starve_nobody)
{
    struct kube_bucket b;
    int taken = 0;
    kube_bucket_init(&b, at_ms(0));
    for (int64_t ms = 0; ms < 60000; ms++) {
        if (ms % 20 == 0) {
            kube_bucket_take_urgent(&b, at_ms(ms));
        }
        taken += ms >= 10000 && kube_bucket_try(&b, at_ms(ms));
    }
    assert_in_range(taken, 50, 50 + KUBE_BUCKET_RESERVE + 1);
}

TEST(each_timeout_doubles_it_up_to_a_bound)
{
    static const uint32_t steps_ms[] = {5000, 10000, 20000, 40000, 40000, 40000};
    struct kube_patience p = {{0}};
    for (size_t i = 0; i < sizeof(steps_ms) / sizeof(steps_ms[0]); i++) {
        assert_int_equal(kube_patience_ms(&p, KUBE_WRITES), steps_ms[i]);
        kube_patience_learn(&p, KUBE_WRITES, false, steps_ms[i]);
    }
}

TEST(those_that_hung_together_count_once)
{
    struct kube_patience p = {{0}};
    for (int i = 0; i < 5; i++) {
        kube_patience_learn(&p, KUBE_READS, false, 5001);
    }
    assert_int_equal(kube_patience_ms(&p, KUBE_READS), 10000);
}

TEST(a_slow_answer_keeps_it_and_a_fast_one_ends_it)
{
    struct kube_patience p = {{0}};
    kube_patience_learn(&p, KUBE_WRITES, false, 5000);
    kube_patience_learn(&p, KUBE_WRITES, true, 6000);
    assert_int_equal(kube_patience_ms(&p, KUBE_WRITES), 10000);
    kube_patience_learn(&p, KUBE_WRITES, true, 4999);
    assert_int_equal(kube_patience_ms(&p, KUBE_WRITES), 5000);
}

/* Each write of the keeper follows reads. */
TEST(fast_reads_take_nothing_from_slow_writes)
{
    struct kube_patience p = {{0}};
    kube_patience_learn(&p, KUBE_WRITES, false, 5000);
    kube_patience_learn(&p, KUBE_READS, true, 1);
    assert_int_equal(kube_patience_ms(&p, KUBE_WRITES), 10000);
    assert_int_equal(kube_patience_ms(&p, KUBE_READS), 5000);
}

enum { LINE_BYTES = 16 };

struct fixture {
    char inbox[64];
    size_t used;
    char seen[64]; /* the lines, each followed by '|' */
};

static void start(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
}

/* More has come: notes the lines and keeps the rest; returns the last result. */
static enum watch_line_result feed(struct fixture *f, const char *bytes, size_t len)
{
    assert_true(f->used + len <= sizeof(f->inbox));
    memcpy(f->inbox + f->used, bytes, len);
    const char *at = f->inbox;
    size_t left = f->used + len;
    const char *line;
    size_t line_len;
    enum watch_line_result result;
    while ((result = watch_line_next(&at, &left, LINE_BYTES, &line, &line_len)) ==
           WATCH_LINE_READY) {
        assert_true(line_len > 0 && line_len <= LINE_BYTES);
        (void)strncat(f->seen, line, line_len);
        (void)strcat(f->seen, "|");
    }
    memmove(f->inbox, at, left);
    f->used = left;
    return result;
}

TEST(lines_come_out_wherever_the_network_cut_them)
{
    static const char stream[] = "{\"a\":1}\n{\"b\":2}\n\n{\"c\":3}\n";
    const size_t len = sizeof(stream) - 1;
    for (size_t first = 0; first <= len; first++) {
        for (size_t second = first; second <= len; second++) {
            struct fixture f;
            start(&f);
            assert_int_equal(feed(&f, stream, first), WATCH_LINE_MORE);
            assert_int_equal(feed(&f, stream + first, second - first), WATCH_LINE_MORE);
            assert_int_equal(feed(&f, stream + second, len - second), WATCH_LINE_MORE);
            assert_string_equal(f.seen, "{\"a\":1}|{\"b\":2}|{\"c\":3}|");
        }
    }
}

TEST(line_of_exactly_the_bound_fits_and_one_byte_more_does_not)
{
    struct fixture f;
    start(&f);
    assert_int_equal(feed(&f, "0123456789abcdef\n", 17), WATCH_LINE_MORE);
    assert_string_equal(f.seen, "0123456789abcdef|");
    assert_int_equal(feed(&f, "0123456789abcdefg\n", 18), WATCH_LINE_TOO_LONG);
}

TEST(over_long_line_in_pieces_is_noticed)
{
    struct fixture f;
    start(&f);
    assert_int_equal(feed(&f, "0123456789", 10), WATCH_LINE_MORE);
    assert_int_equal(feed(&f, "0123456789", 10), WATCH_LINE_TOO_LONG);
    assert_string_equal(f.seen, "");
}

TEST(no_bytes_are_no_line)
{
    struct fixture f;
    start(&f);
    assert_int_equal(feed(&f, "", 0), WATCH_LINE_MORE);
    assert_int_equal(feed(&f, "\n\n\n", 3), WATCH_LINE_MORE);
    assert_string_equal(f.seen, "");
}
