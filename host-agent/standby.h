/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One agent of a node writes the readiness record, a second one stands by: in a rolling update the
 * new pod starts before the old one goes. Who holds writer_lock.h's lock writes; the other one
 * follows what the writer says, counts as ready and alive (a DaemonSet ends the old pod only when
 * the new one is ready), and has its turn within STANDBY_POLL_NS of the writer's end. A writer that
 * is frozen keeps its lock, but not its promise to write: then the other one takes its place, long
 * before the record is no longer believed. One that wakes after that writes nothing, and ends.
 *
 * A writer whose record is about another lease is no predecessor: two DPUs that were given one
 * file. That is an error, at the start or as soon as it shows.
 *
 * Only a lock that another process holds keeps us from writing. Where the file system refuses the
 * lock we write without it, and say so: no writer is worse than two. Loop thread only.
 */
#ifndef HOST_AGENT_STANDBY_H
#define HOST_AGENT_STANDBY_H

#include "base/attr.h"
#include "base/err.h"
#include "base/time.h"
#include "contract/readiness.h"

#include <stdbool.h>

struct ev_loop;
struct standby;

#define STANDBY_POLL_NS  (250 * NS_PER_MS) /* how late we may be when the writer ends */
#define STANDBY_AGAIN_NS (5 * NS_PER_SEC)  /* between tries to have the lock, and to watch it */
/* How long a writer may be overdue, or half of what its record is held for if that is shorter. */
#define STANDBY_FROZEN_NS (5 * NS_PER_SEC)

struct standby_config {
    struct ev_loop *loop;
    const char *readiness_file; /* borrowed */
    const char *node;           /* borrowed */
    const char *lease_ns;       /* borrowed */
    const char *lease_name;     /* borrowed */
    const char *http_address;   /* of the page while we wait; "": none; borrowed */
    /* While we wait: the writer says something new (borrowed). */
    void (*on_verdict)(void *user, const struct readiness *verdict);
    /* The record is ours to write: once, from the loop. Not called if that is so at the start. */
    void (*on_turn)(void *user);
    /* The lock was removed under us and another process has it, or who has it writes of another
     * lease: there must not be two. */
    void (*on_lost)(void *user);
    void *user;
};

/* Errors: ERR_LIMIT (path), ERR_PARSE (address), ERR_NOMEM, ERR_IO (no boot id), ERR_CONFLICT (the
 * record is another DPU's). */
NODISCARD int standby_start(const struct standby_config *config, struct standby **out,
                            struct err *e);
/* Gives the lock back: after the record's writer has ended. Accepts NULL. */
void standby_stop(struct standby *s);

/* True while another agent writes. */
bool standby_is_waiting(const struct standby *s);
/* The writer that we follow was alive just now. */
bool standby_vouches(const struct standby *s, struct mono now);
/* Of a struct standby: the record is ours, and nobody has taken our place while we stood still. */
bool standby_may_write(void *user);

#endif
