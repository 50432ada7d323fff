/* SPDX-License-Identifier: Apache-2.0 */
/* Asks an installed CNI plugin which versions it speaks, as a runtime would: CNI_COMMAND=VERSION.
 */
#ifndef DPUCTL_GATE_ASK_H
#define DPUCTL_GATE_ASK_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { GATE_ASK_ANSWER_MAX_BYTES = 64 << 10, GATE_ASK_DEADLINE_MS = 2000 };

/* Runs `path` with nothing on its standard input and no environment but the question, and ends it
 * if it takes longer than the deadline. Returns 0 if it speaks 1.1.0; else an error that says what
 * is wrong with it. */
NODISCARD int gate_ask_version(const char *path, struct err *e);

/* The same judgement of an answer. Pure. */
NODISCARD int gate_judge_answer(const char *text, size_t len, struct err *e);

#endif
