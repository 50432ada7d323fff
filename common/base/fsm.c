/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fsm.h"

#include <assert.h>

int fsm_move(const struct fsm_state *states, int count, int from, int to)
{
    assert(count <= 32 && from >= 0 && from < count && to >= 0 && to < count);
    assert((states[from].next & FSM_TO(to)) != 0);
    return to;
}
