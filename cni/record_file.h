/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the readiness record and judges it. Bounded: at most RECORD_FILE_MAX_BYTES, at most
 * RECORD_FILE_TRIES reads of a page that is being rewritten, never a blocking open.
 */
#ifndef CNI_RECORD_FILE_H
#define CNI_RECORD_FILE_H

#include "cni/gate.h"

enum { RECORD_FILE_MAX_BYTES = 64 << 10, RECORD_FILE_TRIES = 5 };

/* As root, a file that is not root's, or that others may write, is refused. Always decides. */
void record_file_judge(const char *path, struct gate_decision *out);

#endif
