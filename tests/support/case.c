/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/case.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static bool is_in_list(const char *name, const char *list)
{
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* CASES_SKIP=NAME[,NAME]... leaves cases out: what lies behind one that crashes is seen, too. */
static void cases_skip(const char *skip)
{
    size_t kept = 0;
    for (size_t i = 0; i < case_count; i++) {
        if (skip == NULL || !is_in_list(cases[i].name, skip)) {
            cases[kept++] = cases[i];
        }
    }
    case_count = kept;
}

int main(void)
{
    cases_skip(getenv("CASES_SKIP"));
    return _cmocka_run_group_tests("cases", cases, case_count, group_up, group_down);
}
