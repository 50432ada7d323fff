/* SPDX-License-Identifier: Apache-2.0 */
/* SplitMix64: a tiny seeded generator, so that a seed replays a run bit for bit. */
#ifndef TESTS_SIM_SIM_RANDOM_H
#define TESTS_SIM_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
    uint64_t state;
};

static inline uint64_t sim_random_next(struct sim_random *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform in [low, high]. */
static inline int64_t sim_random_between(struct sim_random *r, int64_t low, int64_t high)
{
    return low + (int64_t)(sim_random_next(r) % (uint64_t)(high - low + 1));
}

static inline bool sim_random_one_in(struct sim_random *r, int64_t n)
{
    return sim_random_between(r, 1, n) == 1;
}

#endif
