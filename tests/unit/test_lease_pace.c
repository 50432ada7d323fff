/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/lease.h"

#include "base/attr.h"
#include "base/time.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

static const int64_t INTERVALS_MS[] = {100, 200, 1000, 2000, 3000, 10000, 60000};

TEST(the_grace_outlasts_a_whole_retry_at_every_interval)
{
    for (size_t i = 0; i < ARRAY_LEN(INTERVALS_MS); i++) {
        int64_t r = INTERVALS_MS[i] * NS_PER_MS;
        int64_t retry_ns = lease_pace_slow_deadline_ns(r) + lease_pace_pause_ns(r);
        assert_true(lease_pace_grace_ns(r) > retry_ns);
        assert_true(lease_pace_grace_ns(r) >= 2 * r);
        assert_true(lease_pace_slow_deadline_ns(r) >= lease_pace_deadline_ns(r));
    }
}

TEST(a_deadline_gives_a_slow_server_one_second_and_five_at_most)
{
    assert_int_equal(lease_pace_deadline_ns(100 * NS_PER_MS), NS_PER_SEC);
    assert_int_equal(lease_pace_deadline_ns(2 * NS_PER_SEC), 4 * NS_PER_SEC);
    assert_int_equal(lease_pace_deadline_ns(10 * NS_PER_SEC), 5 * NS_PER_SEC);
    assert_int_equal(lease_pace_deadline_ns(INT64_MAX), 5 * NS_PER_SEC);
}
