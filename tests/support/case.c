/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/case.h"

#include <stdlib.h>

enum { CASES_MAX = 400 };

static struct CMUnitTest cases[CASES_MAX];
static size_t case_count;
static CMFixtureFunction group_up, group_down;

void case_add(const char *name, CMUnitTestFunction run, CMFixtureFunction up,
              CMFixtureFunction down)
{
    if (case_count == CASES_MAX) {
        abort(); /* raise CASES_MAX */
    }
    cases[case_count++] = (struct CMUnitTest){
        .name = name, .test_func = run, .setup_func = up, .teardown_func = down};
}

void case_group(CMFixtureFunction up, CMFixtureFunction down)
{
    group_up = up;
    group_down = down;
}

int main(void)
{
    return _cmocka_run_group_tests("cases", cases, case_count, group_up, group_down);
}
