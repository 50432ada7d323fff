/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chance.h"

/* SplitMix64 */
int64_t chance_next(uint64_t *state, int64_t most)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (int64_t)((z ^ (z >> 31)) % ((uint64_t)most + 1));
}
