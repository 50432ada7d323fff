/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct mono at_ms(int64_t ms)
{
    return (struct mono){1000 * NS_PER_SEC + ms * NS_PER_MS};
}

/* Tries to take every millisecond. */
static int take_during(struct kube_bucket *b, int64_t from_ms, int64_t to_ms)
{
    int taken = 0;
    for (int64_t ms = from_ms; ms < to_ms; ms++) {
        taken += kube_bucket_take(b, at_ms(ms));
    }
    return taken;
}

static void a_burst_passes_then_one_per_second(void **state)
{
    struct kube_bucket b;
    (void)state;
    kube_bucket_init(&b, at_ms(0));
    for (int i = 0; i < KUBE_BUCKET_BURST; i++) {
        assert_int_equal(kube_bucket_wait_ns(&b, at_ms(0)), 0);
        assert_true(kube_bucket_take(&b, at_ms(0)));
    }
    assert_false(kube_bucket_take(&b, at_ms(0)));
    assert_int_equal(kube_bucket_wait_ns(&b, at_ms(0)), NS_PER_SEC);
    assert_int_equal(kube_bucket_wait_ns(&b, at_ms(999)), NS_PER_MS);
    assert_int_equal(kube_bucket_wait_ns(&b, (struct mono){at_ms(1000).ns - 1}), 1);
    assert_false(kube_bucket_take(&b, at_ms(999)));
    assert_int_equal(take_during(&b, 1000, 61000), 60);
}

static void no_more_than_a_burst_is_saved_up(void **state)
{
    struct kube_bucket b;
    (void)state;
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(take_during(&b, INT64_C(3600000), 3600999), KUBE_BUCKET_BURST);
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(kube_bucket_wait_ns(&b, (struct mono){INT64_MAX}), 0);
}

static void time_that_goes_back_gives_and_takes_nothing(void **state)
{
    struct kube_bucket b;
    (void)state;
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(take_during(&b, -5000, 0), KUBE_BUCKET_BURST);
    assert_int_equal(take_during(&b, 0, 2001), 2);
}

static void urgent_ones_are_counted_but_leave_a_reserve(void **state)
{
    struct kube_bucket b;
    (void)state;
    kube_bucket_init(&b, at_ms(0));
    for (int i = 0; i < 100; i++) {
        kube_bucket_take_urgent(&b, at_ms(0));
    }
    for (int i = 0; i < KUBE_BUCKET_RESERVE; i++) {
        assert_true(kube_bucket_take(&b, at_ms(0)));
    }
    assert_false(kube_bucket_take(&b, at_ms(0)));
}

static void urgent_ones_without_end_starve_nobody(void **state)
{
    struct kube_bucket b;
    int taken = 0;
    (void)state;
    kube_bucket_init(&b, at_ms(0));
    for (int64_t ms = 0; ms < 60000; ms++) {
        if (ms % 20 == 0) {
            kube_bucket_take_urgent(&b, at_ms(ms));
        }
        taken += ms >= 10000 && kube_bucket_take(&b, at_ms(ms));
    }
    assert_in_range(taken, 50, 50 + KUBE_BUCKET_RESERVE + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_passes_then_one_per_second),
        cmocka_unit_test(no_more_than_a_burst_is_saved_up),
        cmocka_unit_test(time_that_goes_back_gives_and_takes_nothing),
        cmocka_unit_test(urgent_ones_are_counted_but_leave_a_reserve),
        cmocka_unit_test(urgent_ones_without_end_starve_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
