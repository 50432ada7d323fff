/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All probes of this DPU and their verdict: runs them and reports each change. Loop thread only.
 */
#ifndef PROBE_PROBE_SET_H
#define PROBE_PROBE_SET_H

#include "base/err.h"
#include "probe/probe_spec.h"
#include "probe/probe_state.h"

#include <stddef.h>

struct ev_loop;
struct probe_set;

/* For metrics: runs of one probe since the start. */
struct probe_stats {
    uint64_t runs[PROBE_OUTCOME_COUNT];
    int64_t last_ns; /* how long the last run took */
};

/* `message` is borrowed, "" unless unhealthy. Must not free the health. */
typedef void probe_set_change_fn(void *user, enum probe_health state, const char *message);

/* Reads `count` probes as written on the command line; `defaults` fills what they do not say.
 * Errors: ERR_PARSE, ERR_LIMIT (more than PROBES_MAX), ERR_NOMEM, ERR_IO. */
NODISCARD int probe_set_new(struct ev_loop *loop, char *const *probes, size_t count,
                            const struct probe_spec *defaults, probe_set_change_fn *change,
                            void *user, struct probe_set **out, struct err *e);
/* Before the start: the probes are host probes (probe_state.h), of which the first report tells
 * what is restored, and each later one that something changed. */
void probe_set_make_host_probes(struct probe_set *set);
/* The same for a host probe that passed under a former process. */
void probe_set_restore(struct probe_set *set, size_t index, bool failing);
/* Runs all probes for the first time. Without any, reports healthy at once. */
void probe_set_start(struct probe_set *set);
const struct probe_state *probe_set_state(const struct probe_set *set); /* borrowed */
/* One per probe of the verdict, in its order; borrowed, as of the last result. */
const struct probe_stats *probe_set_stats(const struct probe_set *set);
void probe_set_free(struct probe_set *set); /* accepts NULL */

#endif
