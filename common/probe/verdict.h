/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probe results -> is the DPU healthy? CORE: no I/O, clock, allocator, log or global.
 *
 *   UNKNOWN ──every probe ran once──▶ HEALTHY ◀──every probe passes──▶ UNHEALTHY
 *
 * A probe that never passed fails with its first failure, so that a restart does not vouch for a
 * dead dataplane. One that did pass fails after `failures` failures in a row and passes again
 * after `successes` successes in a row. The message names the first failing probe in
 * the order of the configuration and changes only if there is news: it ends up on the lease.
 */
#ifndef PROBE_VERDICT_H
#define PROBE_VERDICT_H

#include "base/attr.h"
#include "base/mono.h"
#include "contract/names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VERDICT_MAX_PROBES = 16,
    VERDICT_NAME_BYTES = 128,
    VERDICT_REASON_BYTES = 256,
};

enum verdict_state {
    VERDICT_UNKNOWN,
    VERDICT_HEALTHY,
    VERDICT_UNHEALTHY,
};

/* Results in a row that turn a probe; 0 counts as 1. */
struct verdict_thresholds {
    uint32_t failures;
    uint32_t successes;
};

struct verdict_probe {
    char name[VERDICT_NAME_BYTES];
    struct verdict_thresholds thresholds;
    bool ran;
    bool passed_once;
    bool failing;
    uint32_t streak; /* results in a row that speak against `failing` */
    char reason[VERDICT_REASON_BYTES];
};

struct verdict {
    struct verdict_probe probes[VERDICT_MAX_PROBES];
    size_t probe_count;
    enum verdict_state state;
    struct mono since;                 /* of state; 0 until the first */
    char message[NAMES_MESSAGE_BYTES]; /* "" unless UNHEALTHY */
};

struct verdict_result {
    struct mono now;
    size_t probe; /* index in the order of verdict_add_probe */
    bool passed;
    const char *reason; /* why it failed; borrowed, NULL if it passed */
};

/* UNKNOWN with probes still to be added; verdict_settle makes an agent without probes HEALTHY. */
void verdict_init(struct verdict *v);
/* Returns false if there are VERDICT_MAX_PROBES already. Copies (and may shorten) `name`. */
NODISCARD bool verdict_add_probe(struct verdict *v, const char *name,
                                 struct verdict_thresholds thresholds);

/* Takes one result; the new state and message are in `v`. Returns whether either changed. */
bool verdict_step(struct verdict *v, const struct verdict_result *result);
/* The same without any new result, at the start. */
bool verdict_settle(struct verdict *v, struct mono now);

#endif
