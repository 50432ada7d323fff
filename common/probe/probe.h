/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One probe: runs its method at once, then again a pause after each run has ended, for ever; a run
 * that takes longer than the timeout is cancelled and has failed. Where the kernel tells of changes
 * (change_watch.h) the pause ends soon after one. Loop thread only.
 *
 * Its timers are libev's own (CLOCK_MONOTONIC): no lease hangs on them, and a probe need not have
 * run during a suspend.
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include "base/err.h"
#include "base/time.h"
#include "probe/probe_spec.h"

#include <stdbool.h>
#include <stddef.h>

struct ev_loop;
struct probe;

struct probe_result {
    struct mono started;
    struct mono now;
    enum probe_outcome outcome;
    bool is_late;      /* we ourselves were away past its end: it may have answered in time */
    const char *words; /* unless it passed, why not; borrowed */
};

/* Must not free the probe. */
typedef void probe_result_fn(void *user, size_t index, const struct probe_result *result);

/* Copies `spec`. Errors: ERR_PARSE if its target makes no sense, ERR_NOMEM, ERR_IO. */
NODISCARD int probe_new(struct ev_loop *loop, const struct probe_spec *spec, size_t index,
                        probe_result_fn *result, void *user, struct probe **out, struct err *e);
/* The first run; its result may come before this returns. */
void probe_start(struct probe *probe);
void probe_free(struct probe *probe); /* accepts NULL; ends a run under way */

#endif
