/* SPDX-License-Identifier: Apache-2.0 */
/* Chance as a plain value: good enough to spread a fleet, no secret. Any seed does. Pure. */
#ifndef BASE_CHANCE_H
#define BASE_CHANCE_H

#include <stdint.h>

/* Uniform in [0, most]; `most` is not negative. */
int64_t chance_next(uint64_t *state, int64_t most);

#endif
