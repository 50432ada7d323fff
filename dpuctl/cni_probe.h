/* SPDX-License-Identifier: Apache-2.0 */
/* Asks an installed CNI plugin which versions it speaks, as a runtime would: CNI_COMMAND=VERSION.
 */
#ifndef DPUCTL_CNI_PROBE_H
#define DPUCTL_CNI_PROBE_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { CNI_PROBE_ANSWER_MAX_BYTES = 64 << 10, CNI_PROBE_DEADLINE_MS = 2000 };

/* Runs `path` with nothing on its standard input and no environment but the question, and ends it
 * if it takes longer than the deadline. Returns 0 if it speaks 1.1.0; ERR_NOTFOUND if its answer
 * does not name that; another error if there is no answer. */
NODISCARD int cni_probe_version(const char *path, struct err *e);

/* The same judgement of an answer. Pure. */
NODISCARD int cni_probe_judge(const char *text, size_t len, struct err *e);

#endif
