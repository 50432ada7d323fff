/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking: what the verdict asks of the API server next, and when. CORE, a part of verdict.h.
 *
 * There are two requests, each at most once at a time: a read, and a mark or its trial, which only
 * asks whether the host may write. `asking.c` begins with the table of all reasons for one.
 */
#ifndef HOST_AGENT_ASKING_H
#define HOST_AGENT_ASKING_H

#include "base/time.h"

#include <stdbool.h>

struct verdict;
struct verdict_update;

enum ask_what {
    ASK_NOTHING,
    ASK_READ,
    ASK_TRIAL, /* of a mark, by dryRun: nothing is written, and nobody is condemned by it */
    ASK_MARK,
};

/* The reasons, the most urgent first. */
enum asking_reason {
    ASKS_AT_THE_DEADLINE,
    ASKS_TWO_STATES,
    ASKS_MAY_WRITE_PAST_DEADLINE,
    ASKS_AFTER_AN_OUTAGE,
    ASKS_AFTER_A_FAILURE,
    ASKS_EVIDENCE_IS_OLD,
    ASKS_READ_IS_WANTED,
    ASKS_RENEWAL_IS_OVERDUE,
    ASKS_WATCH_IS_MISTRUSTED,
    ASKS_DPU_IS_REFUSED,
    ASKS_MAY_WRITE,
    ASKS_RETRY_UNANSWERED,
    ASKS_RETRY_IS_GRANTED,
    ASKING_REASONS
};

struct ask {
    enum ask_what wanted;    /* beside what the pace asks for */
    enum ask_what under_way; /* a mark ends a trial */
    struct mono asked_at;    /* of a mark: also if a read took its place; 0: never */
};

/* The mark or trial under way has ended. `is_open`: it did not tell whether we may write, nor which
 * of two states stands, so that this is still wanted. */
void asking_end_mark(struct ask *mark, bool is_trial, bool is_open);

/* Puts into `out` what to ask for now. */
void asking_plan(struct verdict *x, struct mono now, struct verdict_update *out);

/* The next moment after `now` at which that may change. */
struct mono asking_next(const struct verdict *x, struct mono now);

#endif
