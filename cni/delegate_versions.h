/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What delegates answered to VERSION, so that STATUS and GC need not ask each time: a small file
 * beside the readiness record. An answer counts while the program is the same file, by path,
 * device, inode, size and times. A memory that cannot be read or written is none, and no error.
 */
#ifndef CNI_DELEGATE_VERSIONS_H
#define CNI_DELEGATE_VERSIONS_H

#include "base/attr.h"

#include <limits.h>
#include <stdbool.h>

#define DELEGATE_VERSIONS_NAME "gate-delegates"

enum {
    DELEGATE_VERSIONS_ENTRIES = 16,           /* a node has one delegate, or a few */
    DELEGATE_VERSIONS_MAX_BYTES = 128 << 10,  /* room for as many of the longest paths */
    DELEGATE_IDENTITY_BYTES = PATH_MAX + 160, /* a path and five numbers */
};

/* Which file a program was, when it was looked at. */
struct delegate_identity {
    char text[DELEGATE_IDENTITY_BYTES]; /* "": it could not be looked at */
};

/* To be taken before the program is run: what was put in its place meanwhile is another one. */
void delegate_versions_identify(const char *file, struct delegate_identity *out);

/* *out: does it know STATUS and GC? Returns false if that is not known. A file that is not ours, or
 * that others may write, is not believed. */
NODISCARD bool delegate_versions_recall(const char *readiness_file,
                                        const struct delegate_identity *id, bool *out);

void delegate_versions_keep(const char *readiness_file, const struct delegate_identity *id,
                            bool knows_status);

#endif
