/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "tests/support/case.h"

#include <time.h>

TEST(our_offset_leads_from_the_common_clock_to_our_own)
{
    struct timespec ts;
    struct mono before = clock_mono_now();
    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
    struct mono after = clock_mono_now();
    int64_t own_ns = (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
    assert_true(before.ns + clock_boottime_offset_ns() <= own_ns);
    assert_true(own_ns <= after.ns + clock_boottime_offset_ns());
}

TEST(wall_time_is_the_systems)
{
    struct wall now = clock_wall_now();
    time_t system = time(NULL);
    assert_between(now.ns / NS_PER_SEC, (uint64_t)system - 1, (uint64_t)system + 1);
}

TEST(the_boot_id_is_a_uuid_that_stays)
{
    char a[CLOCK_BOOT_ID_BYTES];
    char b[CLOCK_BOOT_ID_BYTES];
    assert_int_equal(clock_boot_id(a, NULL), 0);
    assert_int_equal(clock_boot_id(b, NULL), 0);
    assert_int_equal(strlen(a), 36);
    assert_int_equal(a[8], '-');
    assert_string_equal(a, b);
}
