/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a case's own, and what is put there. Each of these fails the case. */
#ifndef TESTS_SUPPORT_SCRATCH_H
#define TESTS_SUPPORT_SCRATCH_H

#include "base/err.h"

#include <stdbool.h>

enum { SCRATCH_BYTES = 32, SCRATCH_PATH_BYTES = 512 };

void scratch_make(char out_dir[static SCRATCH_BYTES]);
/* With all that is in it on its file system. Refuses what scratch_make() did not make. */
void scratch_remove(const char *dir);

/* A file with that text, and the directories on its way; `name` is relative to `dir`. */
void scratch_put(const char *dir, const char *name, const char *text);

/* Runs a command of the shell; says whether it succeeded. */
bool scratch_run(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
