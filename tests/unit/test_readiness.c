/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/readiness.h"
#include "tests/support/case.h"

TEST(the_zero_value_admits_nothing)
{
    struct readiness r = {0};
    assert_int_equal(r.state, READINESS_UNKNOWN);
    assert_int_equal(r.reason, REASON_AWAITING_FIRST_RENEWAL);
    assert_false(r.admit);
}

TEST(states_have_the_words_of_kubernetes)
{
    static const char *const words[] = {"Unknown", "NotReady", "Ready"};
    for (int i = 0; i < (int)ARRAY_LEN(words); i++) {
        enum readiness_state back = READINESS_UNKNOWN;
        assert_string_equal(readiness_state_name((enum readiness_state)i), words[i]);
        assert_true(readiness_state_from_name(words[i], &back));
        assert_int_equal(back, i);
    }
}

TEST(every_reason_has_a_word_that_reads_back)
{
    for (int i = 0; i < REASON_COUNT; i++) {
        enum readiness_reason back = REASON_COUNT;
        const char *name = readiness_reason_name((enum readiness_reason)i);
        assert_true(name && name[0] >= 'A' && name[0] <= 'Z');
        assert_true(readiness_reason_from_name(name, &back));
        assert_int_equal(back, i);
    }
    assert_string_equal(readiness_reason_name(REASON_DPU_REPORTED_UNHEALTHY),
                        "DPUReportedUnhealthy");
}

TEST(a_word_that_is_none_of_ours_is_refused)
{
    static const char *const words[] = {"", "ready", "Ready ", "LeaseRenewedX", NULL};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        enum readiness_state s = READINESS_READY;
        enum readiness_reason r = REASON_LEASE_RENEWED;
        assert_false(readiness_state_from_name(words[i], &s));
        assert_false(readiness_reason_from_name(words[i], &r));
        assert_int_equal(s, READINESS_READY);
        assert_int_equal(r, REASON_LEASE_RENEWED);
    }
}

TEST(a_verdict_is_the_same_if_an_observer_sees_no_difference)
{
    const struct readiness a = {.state = READINESS_READY,
                                .admit = true,
                                .reason = REASON_LEASE_RENEWED,
                                .message = "DPU renewed its lease"};
    struct readiness b[5] = {a, a, a, a, a};
    b[0].observed = (struct mono){5};
    b[0].lease_until = (struct mono){9};
    b[1].state = READINESS_UNKNOWN;
    b[2].admit = false;
    b[3].reason = REASON_HEALTH_CHECK_DISABLED;
    b[4].message[0] = 'd';
    for (size_t i = 0; i < ARRAY_LEN(b); i++) {
        assert_int_equal(readiness_same_verdict(&a, &b[i]), i == 0);
    }
}
