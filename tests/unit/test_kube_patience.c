/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_patience.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { READ = false, WRITE = true };

static void each_timeout_doubles_it_up_to_a_bound(void **state)
{
    static const uint32_t steps_ms[] = {5000, 10000, 20000, 40000, 40000, 40000};
    struct kube_patience p = {{0}};
    (void)state;
    for (size_t i = 0; i < sizeof(steps_ms) / sizeof(steps_ms[0]); i++) {
        assert_int_equal(kube_patience_ms(&p, WRITE), steps_ms[i]);
        kube_patience_learn(&p, WRITE, false, steps_ms[i]);
    }
}

static void those_that_hung_together_count_once(void **state)
{
    struct kube_patience p = {{0}};
    (void)state;
    for (int i = 0; i < 5; i++) {
        kube_patience_learn(&p, READ, false, 5001);
    }
    assert_int_equal(kube_patience_ms(&p, READ), 10000);
}

static void a_slow_answer_keeps_it_and_a_fast_one_ends_it(void **state)
{
    struct kube_patience p = {{0}};
    (void)state;
    kube_patience_learn(&p, WRITE, false, 5000);
    kube_patience_learn(&p, WRITE, true, 6000);
    assert_int_equal(kube_patience_ms(&p, WRITE), 10000);
    kube_patience_learn(&p, WRITE, true, 4999);
    assert_int_equal(kube_patience_ms(&p, WRITE), 5000);
}

/* Each write of the keeper follows reads. */
static void fast_reads_take_nothing_from_slow_writes(void **state)
{
    struct kube_patience p = {{0}};
    (void)state;
    kube_patience_learn(&p, WRITE, false, 5000);
    kube_patience_learn(&p, READ, true, 1);
    assert_int_equal(kube_patience_ms(&p, WRITE), 10000);
    assert_int_equal(kube_patience_ms(&p, READ), 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_timeout_doubles_it_up_to_a_bound),
        cmocka_unit_test(those_that_hung_together_count_once),
        cmocka_unit_test(a_slow_answer_keeps_it_and_a_fast_one_ends_it),
        cmocka_unit_test(fast_reads_take_nothing_from_slow_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
