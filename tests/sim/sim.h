/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run: the real shells of both agents against the model API server, with a list of faults,
 * under the eyes of the oracle. A run is a pure function of its seed and its list.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "tests/sim/faults.h"
#include "tests/sim/tally.h"
#include "tests/sim/world.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_case {
    uint64_t seed;
    int64_t span_ns;
    bool has_list; /* else it is drawn from the seed */
    struct fault_list faults;
};

struct sim_result {
    char failure[WORLD_FAILURE_BYTES]; /* "" if there was none */
    char rule[24];                     /* of the oracle's that failed */
    int64_t lasted_ns;
    uint64_t faults;
    uint64_t renewals;
    uint64_t flips;
    uint64_t requests;
    uint64_t callbacks;
    struct tally tally;
};

/* The list of faults that the case stands for. */
void sim_draw(struct sim_case *c);
/* `directory` is for the records. */
void sim_run(const struct sim_case *c, const char *directory, bool is_traced,
             struct sim_result *out);

#endif
