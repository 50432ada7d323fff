/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probe results -> is the DPU healthy? CORE: no I/O, clock, allocator, log or global.
 *
 *   UNKNOWN ──every probe has spoken──▶ HEALTHY ◀──every probe passes──▶ UNHEALTHY
 *
 * A probe fails once its failures in a row are many enough and have lasted long enough: as long as
 * the patience with the way in which it fails now, or twice the longest patience in all. Until then
 * one that has passed counts as well, and one that has not yet as not asked: a restart neither
 * vouches for a dead dataplane nor accuses a living one whose failure would have been forgiven. It
 * passes again after `successes` successes in a row. An outcome of PROBE_UNKNOWN or PROBE_UNABLE
 * changes nothing.
 *
 * Host probes can only accuse: HEALTHY there says no more than that none of them
 * does. One that never passed proves nothing, so that a wrong option condemns nobody, and who may
 * not look (PROBE_DENIED), or was stopped meanwhile, has seen nothing.
 *
 * The message names the failing probes in the order of the configuration and changes only if there
 * is news: it ends up on the lease.
 */
#ifndef PROBE_PROBE_STATE_H
#define PROBE_PROBE_STATE_H

#include "base/attr.h"
#include "base/time.h"
#include "contract/names.h"
#include "probe/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROBES_MAX = 16,
    PROBE_NAME_BYTES = 128,
    PROBE_REASON_BYTES = PROBE_WORDS_BYTES,
};

enum probe_health {
    PROBE_HEALTH_UNKNOWN,
    PROBE_HEALTHY,
    PROBE_UNHEALTHY,
};

/* What turns a probe. Numbers of results in a row count as 1 where they are 0. */
struct probe_thresholds {
    uint32_t failures;
    uint32_t successes;
    int64_t patience_ns[PROBE_OUTCOME_COUNT]; /* with failures of this kind */
};

struct probe_history {
    char name[PROBE_NAME_BYTES];
    struct probe_thresholds thresholds;
    bool ran; /* has spoken */
    bool passed_once;
    bool failing;
    uint32_t streak;            /* results in a row that speak against `failing` */
    struct mono streak_since;   /* when the first of them was asked for */
    enum probe_outcome outcome; /* the last one */
    struct mono outcome_since;  /* when the first of those in a row was asked for */
    char reason[PROBE_REASON_BYTES];
};

struct probe_state {
    bool is_of_host;
    struct probe_history probes[PROBES_MAX];
    size_t probe_count;
    enum probe_health state;
    struct mono since;                 /* of state; 0 until the first */
    char message[NAMES_MESSAGE_BYTES]; /* "" unless UNHEALTHY */
};

struct probe_state_result {
    struct mono started; /* the run */
    struct mono now;
    size_t probe; /* index in the order of probe_state_add_probe */
    enum probe_outcome outcome;
    const char *reason; /* why it did not pass; borrowed */
};

/* UNKNOWN with probes still to be added; probe_state_settle makes an agent without probes HEALTHY.
 */
void probe_state_init(struct probe_state *v);
/* Returns false if there are PROBES_MAX already. Copies both, and may shorten `name`. */
NODISCARD bool probe_state_add_probe(struct probe_state *v, const char *name,
                                     const struct probe_thresholds *thresholds);

/* What a former process knew of a host probe that has passed: whether it fails. */
void probe_state_restore(struct probe_state *v, size_t probe, bool failing);

/* Takes one result; the new state and message are in `v`. Returns whether either changed, or for a
 * host probe whether it has passed or fails. */
bool probe_state_step(struct probe_state *v, const struct probe_state_result *result);
/* The state without any new result, at the start. Returns whether it changed. */
bool probe_state_settle(struct probe_state *v, struct mono now);

#endif
