/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/shrink.h"

#include <stdlib.h>
#include <string.h>

/* Without `count` faults from `first` on; false if that fails no more, or otherwise. */
static bool do_without(struct sim_case *c, size_t first, size_t count, const char *rule,
                       const char *directory)
{
    struct sim_result result;
    struct sim_case *shorter = malloc(sizeof(*shorter));
    if (!shorter) {
        return false;
    }
    *shorter = *c;
    shorter->faults.count -= count;
    memmove(&shorter->faults.items[first], &shorter->faults.items[first + count],
            (shorter->faults.count - first) * sizeof(shorter->faults.items[0]));
    sim_run(shorter, directory, false, &result);
    bool fails = result.failure[0] != '\0' && strcmp(result.rule, rule) == 0;
    if (fails) {
        *c = *shorter;
    }
    free(shorter);
    return fails;
}

/* By halves, quarters ... and one by one, until nothing can be left out. */
void shrink(struct sim_case *c, const char *rule, const char *directory)
{
    size_t part = c->faults.count / 2;
    while (part > 0) {
        bool is_shorter = false;
        for (size_t first = 0; first + part <= c->faults.count;) {
            if (do_without(c, first, part, rule, directory)) {
                is_shorter = true;
            } else {
                first += part;
            }
        }
        part = is_shorter && part == 1 ? 1 : part / 2;
    }
}
