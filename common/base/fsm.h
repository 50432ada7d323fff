/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checked state machine: one static table of states and allowed transitions, asserted at each
 * move. A transition that is not in the table is a programming error and stops the program.
 */
#ifndef BASE_FSM_H
#define BASE_FSM_H

#include <stdint.h>

struct fsm_state {
    const char *name;
    uint32_t next; /* bit i set: the state with index i may follow */
};

#define FSM_TO(state) (UINT32_C(1) << (state))

/* Asserts that `to` may follow `from` and returns it. `states` has `count` entries, at most 32. */
int fsm_move(const struct fsm_state *states, int count, int from, int to);

#endif
