/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host agent's side of the readiness record (contract/record.h): writes it, decides which of
 * two agents of a node writes it, and reads what a previous agent left. Loop thread only.
 */
#ifndef HOST_AGENT_RECORD_H
#define HOST_AGENT_RECORD_H

#include "base/err.h"
#include "contract/record.h"
#include "host-agent/verdict.h"

#include <stdbool.h>
#include <stdint.h>

struct ev_loop;

/* ---- whose turn it is ------------------------------------------------------------------------ */

/*
 * The holder of the lock beside the record (PATH.lock) writes it. In a rolling update the new pod
 * starts before the old one goes: it waits, does nothing else, and has its turn within
 * RECORD_TURN_POLL_NS of the writer's end. A writer that is frozen keeps its lock, but not its
 * promise to write: then the one that waits takes its place, long before the record is no longer
 * believed. One that wakes after that writes nothing, and ends.
 *
 * A writer whose record is about another lease is no predecessor: two DPUs that were given one
 * file. That is an error, at the start or as soon as it shows.
 *
 * Only a lock that another process holds keeps us from writing. Where the file system refuses the
 * lock we write without it, and say so: no writer is worse than two.
 */
struct record_turn;

#define RECORD_TURN_POLL_NS (250 * NS_PER_MS) /* how late we may be when the writer ends */
/* How long a writer may be overdue, or half of what its record is held for if that is shorter. */
#define RECORD_FROZEN_NS (5 * NS_PER_SEC)

struct record_turn_config {
    struct ev_loop *loop;
    const char *path; /* of the record; borrowed, as is what follows */
    const char *lease_ns;
    const char *lease_name;
    /* The record is ours to write: once, from the loop. Not called if that is so at the start. */
    void (*on_turn)(void *user);
    /* The lock was removed under us and another process has it, or who has it writes of another
     * lease: there must not be two. */
    void (*on_lost)(void *user);
    void *user;
};

/* Errors: ERR_LIMIT (path), ERR_CONFLICT (the record is another DPU's), ERR_IO (no boot id). */
NODISCARD int record_turn_start(const struct record_turn_config *config, struct record_turn **out,
                                struct err *e);
/* Gives the lock back: after the record's writer has ended. Accepts NULL. */
void record_turn_stop(struct record_turn *t);
bool record_turn_is_waiting(const struct record_turn *t); /* another agent writes */

/* ---- what a former agent left ---------------------------------------------------------------- */

/* The record at `path`, which record_turn_start() took, if it is this boot's, this node's and about
 * the same lease: read once at start, so that a restart neither makes a dead DPU look alive nor a
 * living one dead. Errors: ERR_NOTFOUND (there is none), ERR_IO, ERR_PARSE, ERR_GONE (another boot,
 * node or lease), each with the reason: none of them is a reason not to start. */
NODISCARD int record_carry_read(const char *path, const char *node,
                                const struct verdict_config *config, struct record *out,
                                struct err *e);

/*
 * A record that ends its reader once is not believed a second time: from a successful
 * record_carry_read on, a crash (SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL) leaves a mark beside the
 * record, and the next record_carry_read answers ERR_GONE and takes the mark away.
 * record_carry_settled ends that, once the DPU has been seen anew. One carried record a process: a
 * signal handler has nothing but globals.
 */
void record_carry_settled(void);

/* ---- writing --------------------------------------------------------------------------------- */

/*
 * The page is created once by temporary file and rename, then rewritten in place by one pwrite:
 * that needs neither inode nor block, so a full tmpfs does not stop it. A record that somebody
 * removes, replaces or changes (owner, mode, size, a page that does not decode) is noticed by
 * inotify, without one at the next write, and made anew. What cannot be written is retried each
 * second and logged each minute; the agent keeps running. The file stays when we stop: its own
 * validity ends it.
 */
struct record_writer;

struct record_writer_config {
    const char *path; /* as record_turn_start() took it; borrowed */
    const char *node; /* copied */
    int64_t stale_hold_ns;
    struct record_turn *turn; /* asked before each write; NULL: it is always ours; borrowed */
    struct record *record;    /* what is written: the caller sets its verdict; borrowed */
};

/* Fills in who writes. What cannot be read or written is logged, and retried. */
struct record_writer *record_writer_new(struct ev_loop *loop,
                                        const struct record_writer_config *config);
void record_writer_free(struct record_writer *w); /* accepts NULL; leaves the file */

/* Writes the verdict; `writer_until` is our promise to have written again by then. Readers are told
 * to believe it no longer than `hold_most`, if we die. */
void record_writer_write(struct record_writer *w, struct mono writer_until, struct mono hold_most);

/* For metrics. Counters since the start. */
struct record_writer_stats {
    uint64_t writes;
    uint64_t failures;
    bool is_current; /* the last verdict stands in the file */
};
const struct record_writer_stats *record_writer_stats(const struct record_writer *w);

#endif
