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
 * Probes that are witnesses can only accuse: HEALTHY there says no more than that none of them
 * does. One that never passed proves nothing, so that a wrong option condemns nobody, and who may
 * not look (PROBE_DENIED), or was stopped meanwhile, has seen nothing.
 *
 * The message names the failing probes in the order of the configuration and changes only if there
 * is news: it ends up on the lease.
 */
#ifndef PROBE_VERDICT_H
#define PROBE_VERDICT_H

#include "base/attr.h"
#include "base/mono.h"
#include "contract/names.h"
#include "probe/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VERDICT_MAX_PROBES = 16,
    VERDICT_NAME_BYTES = 128,
    VERDICT_REASON_BYTES = PROBE_WORDS_BYTES,
};

enum verdict_state {
    VERDICT_UNKNOWN,
    VERDICT_HEALTHY,
    VERDICT_UNHEALTHY,
};

/* What turns a probe. Numbers of results in a row count as 1 where they are 0. */
struct verdict_thresholds {
    uint32_t failures;
    uint32_t successes;
    int64_t patience_ns[PROBE_OUTCOME_COUNT]; /* with failures of this kind */
};

struct verdict_probe {
    char name[VERDICT_NAME_BYTES];
    struct verdict_thresholds thresholds;
    bool ran; /* has spoken */
    bool passed_once;
    bool failing;
    uint32_t streak;            /* results in a row that speak against `failing` */
    struct mono streak_since;   /* when the first of them was asked for */
    enum probe_outcome outcome; /* the last one */
    struct mono outcome_since;  /* when the first of those in a row was asked for */
    char reason[VERDICT_REASON_BYTES];
};

struct verdict {
    bool is_of_witnesses;
    struct verdict_probe probes[VERDICT_MAX_PROBES];
    size_t probe_count;
    enum verdict_state state;
    struct mono since;                 /* of state; 0 until the first */
    char message[NAMES_MESSAGE_BYTES]; /* "" unless UNHEALTHY */
};

struct verdict_result {
    struct mono started; /* the run */
    struct mono now;
    size_t probe; /* index in the order of verdict_add_probe */
    enum probe_outcome outcome;
    const char *reason; /* why it did not pass; borrowed */
};

/* UNKNOWN with probes still to be added; verdict_settle makes an agent without probes HEALTHY. */
void verdict_init(struct verdict *v);
/* Returns false if there are VERDICT_MAX_PROBES already. Copies both, and may shorten `name`. */
NODISCARD bool verdict_add_probe(struct verdict *v, const char *name,
                                 const struct verdict_thresholds *thresholds);

/* What a former process knew of a witness that has passed: whether it fails. */
void verdict_restore(struct verdict *v, size_t probe, bool failing);

/* Takes one result; the new state and message are in `v`. Returns whether either changed, or for a
 * witness whether it has passed or fails. */
bool verdict_step(struct verdict *v, const struct verdict_result *result);
/* The state without any new result, at the start. Returns whether it changed. */
bool verdict_settle(struct verdict *v, struct mono now);

#endif
