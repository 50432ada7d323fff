/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest list of faults that still breaks the same rule of the oracle. */
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include "tests/sim/sim.h"

/* `c` fails by `rule`; it still does afterwards. */
void shrink(struct sim_case *c, const char *rule, const char *directory);

#endif
