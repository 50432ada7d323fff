/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pace at which we restore what somebody else undoes: the same thing CONTEST_TRIES times at
 * once, then every CONTEST_CALM_NS, because two programs that write all the time are worse than one
 * that is wrong. What has stood for CONTEST_CALM_NS was no contest. CORE.
 */
#ifndef INSTALL_CONTEST_H
#define INSTALL_CONTEST_H

#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>

#define CONTEST_CALM_NS (600 * NS_PER_SEC)

enum {
    CONTEST_TRIES = 3,
    CONTEST_WAYS = 8, /* in which ours is undone; more share the last one's pace */
    CONTEST_WORDS_BYTES = 800,
};

/* A way in which somebody undoes what we write. */
struct contest_way {
    char words[CONTEST_WORDS_BYTES]; /* by which it is known again */
    unsigned tries;
    struct mono tried_at; /* the last of them */
    bool is_undone;       /* since then */
    bool is_told;
};

/* All zero: nobody has undone anything. */
struct contest {
    struct contest_way ways[CONTEST_WAYS];
    size_t count;
};

enum contest_answer {
    CONTEST_RESTORE, /* now; contest_restored() once that is done */
    CONTEST_TELL,    /* not now, and people are to know of it: once in a contest */
    CONTEST_YIELD,   /* not now */
};

/* Ours was undone in that way. *out_again: when to ask again, if it is not to be restored now. */
enum contest_answer contest_undone(struct contest *c, const char *words, struct mono now,
                                   struct mono *out_again);

/* It was restored. A try that failed, as on a full disk, is nobody's doing: it does not count. */
void contest_restored(struct contest *c, const char *words, struct mono now);

/* Ours stands. *out_again: when to ask again whether a contest is over; MONO_NEVER: there is none.
 * Returns whether one of which people know has ended right now. */
bool contest_stands(struct contest *c, struct mono now, struct mono *out_again);

#endif
