/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/contest.h"

#include "base/text.h"
#include "tests/support/case.h"

#define S(seconds) ((struct mono){INT64_C(1000000000) * (seconds)})

static enum contest_answer undone(struct contest *c, const char *words, int64_t at_s)
{
    struct mono again = {0};
    enum contest_answer answer = contest_undone(c, words, S(at_s), &again);
    if (answer == CONTEST_RESTORE) {
        contest_restored(c, words, S(at_s));
    } else {
        assert_true(mono_before(S(at_s), again)); /* or nobody would ever ask again */
    }
    return answer;
}

TEST(the_same_thing_is_restored_three_times_and_then_every_ten_minutes)
{
    static const struct {
        int64_t at_s;
        const char *words;
        enum contest_answer answer;
    } rows[] = {
        {1000, "removed", CONTEST_RESTORE}, {1001, "removed", CONTEST_RESTORE},
        {1002, "changed", CONTEST_RESTORE}, /* it has a pace of its own */
        {1003, "removed", CONTEST_RESTORE}, {1004, "removed", CONTEST_TELL},
        {1005, "removed", CONTEST_YIELD},   {1006, "changed", CONTEST_RESTORE},
        {1602, "removed", CONTEST_YIELD},   {1603, "removed", CONTEST_RESTORE},
        {1604, "removed", CONTEST_YIELD}, /* no three times again */
        {2202, "removed", CONTEST_YIELD},   {2203, "removed", CONTEST_RESTORE},
        {2803, "removed", CONTEST_RESTORE}, /* it stood for ten minutes */
        {2804, "removed", CONTEST_RESTORE}, {2805, "removed", CONTEST_RESTORE},
        {2806, "removed", CONTEST_TELL},
    };
    struct contest c = {.count = 0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        print_message("%d %s\n", (int)rows[i].at_s, rows[i].words);
        assert_int_equal(undone(&c, rows[i].words, rows[i].at_s), rows[i].answer);
    }
}

TEST(what_could_not_be_restored_accuses_nobody)
{
    struct contest c = {.count = 0};
    struct mono again;
    for (int64_t i = 0; i < 2000; i++) { /* before the three, between them, and ten minutes after */
        assert_int_equal(contest_undone(&c, "removed", S(1000 + i), &again), CONTEST_RESTORE);
    }
    for (int64_t i = 0; i < CONTEST_TRIES; i++) {
        assert_int_equal(undone(&c, "removed", 3000 + i), CONTEST_RESTORE);
    }
    assert_int_equal(undone(&c, "removed", 3003), CONTEST_TELL);
    for (int64_t i = 0; i < 100; i++) {
        assert_int_equal(contest_undone(&c, "removed", S(3602 + i), &again), CONTEST_RESTORE);
    }
    assert_int_equal(undone(&c, "removed", 3702), CONTEST_RESTORE);
    assert_int_equal(undone(&c, "removed", 3703), CONTEST_YIELD);
}

TEST(ever_new_ways_share_a_pace)
{
    struct contest c = {.count = 0};
    size_t restored = 0;
    for (int64_t i = 0; i < 500; i++) {
        char words[32];
        text_format(words, sizeof(words), "renamed to %d", (int)i);
        restored += undone(&c, words, 1000 + i) == CONTEST_RESTORE;
    }
    assert_int_equal(restored, CONTEST_WAYS - 1 + CONTEST_TRIES);
}

TEST(what_stands_for_ten_minutes_ends_it)
{
    struct contest c = {.count = 0};
    struct mono again;
    assert_false(contest_stands(&c, S(900), &again));
    assert_true(mono_is_never(again));
    for (int64_t i = 0; i < CONTEST_TRIES; i++) {
        assert_int_equal(undone(&c, "removed", 1000 + i), CONTEST_RESTORE);
        assert_false(contest_stands(&c, S(1000 + i), &again));
    }
    assert_int_equal(undone(&c, "removed", 1003), CONTEST_TELL);
    assert_int_equal(undone(&c, "removed", 1602), CONTEST_RESTORE);
    assert_false(contest_stands(&c, S(1602), &again));
    assert_int_equal(again.ns, S(2202).ns);
    assert_false(contest_stands(&c, S(2201), &again));
    assert_true(contest_stands(&c, S(2202), &again));
    assert_true(mono_is_never(again));
    assert_false(contest_stands(&c, S(2203), &again));
    assert_int_equal(undone(&c, "removed", 2204), CONTEST_RESTORE);
}
