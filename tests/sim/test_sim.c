/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs seeds through the simulator. SIM_SEEDS (number, default 400), SIM_FIRST_SEED and
 * SIM_MINUTES (of virtual time a seed, default 60) choose more; a failure
 * prints its seed, and SIM_TRACE=1 tells the story of a run.
 */
#include "base/text.h"
#include "tests/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t number_from_env(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    uint64_t value;
    if (!text || text_to_u64(text, strlen(text), &value, NULL) != 0) {
        return fallback;
    }
    return value;
}

static void no_seed_breaks_an_invariant(void **state)
{
    uint64_t first = number_from_env("SIM_FIRST_SEED", 1);
    uint64_t seeds = number_from_env("SIM_SEEDS", 400);
    int64_t minutes = (int64_t)number_from_env("SIM_MINUTES", 60);
    uint64_t steps = 0;
    uint64_t flips = 0;
    struct sim *s = malloc(sizeof(*s));
    (void)state;
    assert_non_null(s);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        sim_init(s, seed);
        s->trace = getenv("SIM_TRACE") != NULL;
        if (!sim_run(s, minutes * 60 * NS_PER_SEC)) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, s->failure);
        }
        assert_true(s->host_requests * 500 < (uint64_t)(minutes * 60 * 1000) * 2);
        steps += s->steps;
        flips += s->flips;
    }
    free(s);
    print_message("%llu seeds, %llu steps, %llu flips\n", (unsigned long long)seeds,
                  (unsigned long long)steps, (unsigned long long)flips);
    assert_true(flips > seeds); /* a simulation in which nothing happens proves nothing */
}

static void same_seed_gives_the_same_run(void **state)
{
    struct sim *a = malloc(sizeof(*a));
    struct sim *b = malloc(sizeof(*b));
    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    sim_init(a, 7);
    sim_init(b, 7);
    (void)sim_run(a, 1200 * NS_PER_SEC);
    (void)sim_run(b, 1200 * NS_PER_SEC);
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->flips, b->flips);
    assert_int_equal(a->now.ns, b->now.ns);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_seed_breaks_an_invariant),
        cmocka_unit_test(same_seed_gives_the_same_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
