/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the readiness record and judges it. Bounded: at most RECORD_FILE_MAX_BYTES, at most
 * RECORD_FILE_TRIES reads of a page that is being rewritten, never a blocking open.
 */
#ifndef CONTRACT_RECORD_FILE_H
#define CONTRACT_RECORD_FILE_H

#include "contract/gate.h"

enum {
    RECORD_FILE_MAX_BYTES = 64 << 10, /* ours is one page; another writer's may be a longer one */
    RECORD_FILE_TRIES = 5,            /* a writer that is off the CPU for longer is not at it */
};

/* As root, a file that is not root's, or that others may write, is refused. Errors, with what to do
 * about them: ERR_NOTFOUND, ERR_AUTH (whose file it is), ERR_LIMIT, ERR_PARSE, ERR_IO. */
NODISCARD int record_file_read(const char *path, struct record *out, struct err *e);

/* Reads it and asks the gate. Always decides. */
void record_file_judge(const char *path, struct gate_decision *out);

#endif
