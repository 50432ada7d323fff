/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a repeating message to one line per period. Zero-initialise one per kind of message. Pure.
 *     if (log_repeat_due(&rep, now, period_ns)) log_warn("kube", "...: %s%s", why, rep.more)
 */
#ifndef BASE_LOG_REPEAT_H
#define BASE_LOG_REPEAT_H

#include "base/mono.h"

#include <stdbool.h>
#include <stdint.h>

enum { LOG_MORE_BYTES = 64 };

#define LOG_AGAIN_NS (60 * NS_PER_SEC) /* the period where nothing speaks for another */

struct log_repeat {
    struct mono next;          /* the earliest time of the next line */
    uint64_t held_back;        /* lines withheld before the one now due */
    uint64_t pending;          /* withheld since */
    char more[LOG_MORE_BYTES]; /* that in words: " (12 more like it were not shown)", or "" */
};

/* True if a line is due now; then `held_back` and `more` say how many were withheld before it. */
bool log_repeat_due(struct log_repeat *r, struct mono now, int64_t period_ns);
/* Forgets the past: the next one is due at once. */
void log_repeat_reset(struct log_repeat *r);

#endif
