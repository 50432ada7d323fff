/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of the readiness record (contract/record.h). Loop thread only.
 *
 * The page is created once by temporary file and rename, then rewritten in place by one pwrite:
 * that needs neither inode nor block, so a full tmpfs does not stop it. A record that somebody
 * removes or replaces is noticed by inotify and made anew. What cannot be written is retried each
 * second and logged each minute; the agent keeps running. The file stays when we stop: its own
 * validity ends it.
 */
#ifndef HOST_AGENT_SINK_RECORD_H
#define HOST_AGENT_SINK_RECORD_H

#include "base/attr.h"
#include "base/err.h"
#include "contract/record.h"

#include <stdbool.h>
#include <stdint.h>

struct ev_loop;
struct sink_record;

struct sink_record_config {
    const char *path; /* absolute; copied */
    const char *node; /* copied */
    int64_t stale_hold_ns;
};

/* Prepares the directory (0755, parents too) and watches it. A problem with the file system is no
 * error here: it is logged and retried. Errors: ERR_NOMEM, ERR_LIMIT, ERR_IO (no boot id). */
NODISCARD int sink_record_new(struct ev_loop *loop, const struct sink_record_config *config,
                              struct sink_record **out, struct err *e);
/* Makes the directory that a file at this absolute path goes into, parents too, as sink_record_new
 * does. Errors: ERR_IO, ERR_LIMIT. */
NODISCARD int sink_record_make_directory(const char *path, struct err *e);

void sink_record_free(struct sink_record *s); /* accepts NULL; leaves the file */

/* Writes the verdict; `writer_until` is our promise to have written again by then. */
void sink_record_write(struct sink_record *s, const struct readiness *verdict,
                       struct mono writer_until);

/* For metrics. Counters since the start. */
struct sink_record_stats {
    uint64_t writes;
    uint64_t failures;
    bool is_current; /* the last verdict stands in the file */
};
struct sink_record_stats sink_record_stats(const struct sink_record *s);

#endif
