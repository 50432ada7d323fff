/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All probes of this DPU and their verdict: runs them and reports each change. Loop thread only.
 */
#ifndef PROBE_HEALTH_H
#define PROBE_HEALTH_H

#include "base/err.h"
#include "probe/probe_spec.h"
#include "probe/verdict.h"

#include <stddef.h>

struct ev_loop;
struct health;

/* For metrics: runs of one probe since the start. */
struct health_stats {
    uint64_t runs[PROBE_OUTCOME_COUNT];
    int64_t last_ns; /* how long the last run took */
};

/* `message` is borrowed, "" unless unhealthy. Must not free the health. */
typedef void health_change_fn(void *user, enum verdict_state state, const char *message);

/* Reads `count` probes as written on the command line; `defaults` fills what they do not say.
 * Errors: ERR_PARSE, ERR_LIMIT (more than VERDICT_MAX_PROBES), ERR_NOMEM, ERR_IO. */
NODISCARD int health_new(struct ev_loop *loop, char *const *probes, size_t count,
                         const struct probe_spec *defaults, health_change_fn *change, void *user,
                         struct health **out, struct err *e);
/* Before the start: the probes are witnesses (verdict.h), of which the first report tells what is
 * restored, and each later one that something changed. */
void health_make_witnesses(struct health *health);
/* The same for a witness that passed under a former process. */
void health_restore(struct health *health, size_t index, bool failing);
/* Runs all probes for the first time. Without any, reports healthy at once. */
void health_start(struct health *health);
const struct verdict *health_verdict(const struct health *health); /* borrowed */
/* One per probe of the verdict, in its order; borrowed, as of the last result. */
const struct health_stats *health_stats(const struct health *health);
void health_free(struct health *health); /* accepts NULL */

#endif
