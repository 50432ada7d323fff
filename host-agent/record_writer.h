/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of the readiness record (contract/record.h). Loop thread only.
 *
 * The page is created once by temporary file and rename, then rewritten in place by one pwrite:
 * that needs neither inode nor block, so a full tmpfs does not stop it. A record that somebody
 * removes, replaces or changes (owner, mode, size, a page that does not decode) is noticed by
 * inotify, without one at the next write, and made anew. What cannot be written is retried each
 * second and logged each minute; the agent keeps running. The file stays when we stop: its own
 * validity ends it.
 */
#ifndef HOST_AGENT_RECORD_WRITER_H
#define HOST_AGENT_RECORD_WRITER_H

#include "base/attr.h"
#include "base/err.h"
#include "contract/record.h"

#include <stdbool.h>
#include <stdint.h>

struct ev_loop;
struct record_writer;

struct record_writer_config {
    const char *path; /* absolute; copied */
    const char *node; /* copied */
    int64_t stale_hold_ns;
};

/* Prepares the directory (0755, parents too) and watches it. A problem with the file system is no
 * error here: it is logged and retried. Errors: ERR_NOMEM, ERR_LIMIT, ERR_IO (no boot id). */
NODISCARD int record_writer_new(struct ev_loop *loop, const struct record_writer_config *config,
                                struct record_writer **out, struct err *e);
/* Makes the directory that a file at this absolute path goes into, parents too, as
 * record_writer_new does. Errors: ERR_IO, ERR_LIMIT. */
NODISCARD int record_writer_make_directory(const char *path, struct err *e);

/* Asked before each write; one that is refused is tried again a second later. */
typedef bool record_writer_guard_fn(void *user);
void record_writer_guard(struct record_writer *w, record_writer_guard_fn *may_write, void *user);

void record_writer_free(struct record_writer *w); /* accepts NULL; leaves the file */

/* Writes the verdict; `writer_until` is our promise to have written again by then. */
void record_writer_write(struct record_writer *w, const struct readiness *verdict,
                         struct mono writer_until);

/* For metrics. Counters since the start. */
struct record_writer_stats {
    uint64_t writes;
    uint64_t failures;
    bool is_current; /* the last verdict stands in the file */
};
struct record_writer_stats record_writer_stats(const struct record_writer *w);

#endif
