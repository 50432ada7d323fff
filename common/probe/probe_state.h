/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a run of a probe ended, and what the results of all amount to: is the DPU healthy? CORE: no
 * I/O, clock, allocator, log or global. A zeroed state knows of no probe.
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
 * Host probes can only accuse: HEALTHY there says no more than that none of them does. One that
 * never passed proves nothing, so that a wrong option condemns nobody, and who may not look
 * (PROBE_DENIED), or was stopped meanwhile, has seen nothing.
 *
 * The message names the failing probes in the order of the configuration and changes only if there
 * is news: it ends up on the lease.
 */
#ifndef PROBE_PROBE_STATE_H
#define PROBE_PROBE_STATE_H

#include "base/err.h"
#include "base/time.h"
#include "contract/names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- one run --------------------------------------------------------------------------------- */

/* Told apart because each deserves its own patience. */
enum probe_outcome {
    PROBE_UNKNOWN, /* nothing can be said yet */
    PROBE_UNABLE,  /* we could not ask: no descriptor, process or memory was left */
    PROBE_PASSED,
    PROBE_REFUSED, /* nobody listens, or the connection was closed without an answer */
    PROBE_SILENT,  /* no answer in time, or none could be asked for */
    PROBE_DENIED,  /* we have no right to ask */
    PROBE_MISSING, /* there is no socket to ask at */
    PROBE_WRONG,   /* an answer, and not the one that is expected */
    PROBE_OUTCOME_COUNT
};

/* A failed system call says that we lack something: that is no answer of the one we ask. */
bool probe_outcome_is_our_lack(int sys_errno);

/* One lower-case word; static. */
const char *probe_outcome_name(enum probe_outcome outcome);

enum { PROBE_WORDS_BYTES = 256 };

/* How a run ended. The words say what was tried, on what, and what was seen: why it did not pass;
 * or they are the value that was asked for. */
struct probe_answer {
    enum probe_outcome outcome;
    char words[PROBE_WORDS_BYTES];
};

struct probe_answer probe_answer_make(enum probe_outcome outcome, const char *format, ...)
    PRINTF_LIKE(2, 3);

/* One run of a probe. */
struct probe_result {
    size_t probe; /* index in the order of probe_state_add_probe */
    struct mono started;
    struct mono now;
    enum probe_outcome outcome;
    bool is_late;       /* we ourselves were away past its end: it may have answered in time */
    const char *reason; /* why it did not pass; borrowed */
};

/* ---- all of them ----------------------------------------------------------------------------- */

enum { PROBES_MAX = 16, PROBE_NAME_BYTES = 128 };

enum probe_health { PROBE_HEALTH_UNKNOWN, PROBE_HEALTHY, PROBE_UNHEALTHY };

/* When a probe's state changes. A number of results in a row that is 0 counts as 1. */
struct probe_thresholds {
    int64_t failures;
    int64_t successes;
    int64_t patience_ns[PROBE_OUTCOME_COUNT]; /* with failures of this kind */
};

struct probe_history {
    char name[PROBE_NAME_BYTES];
    struct probe_thresholds thresholds;
    bool ran; /* has spoken */
    bool passed_once;
    bool failing;
    int64_t streak;             /* results in a row that speak against `failing` */
    struct mono streak_since;   /* when the first of them was asked for */
    enum probe_outcome outcome; /* the last one */
    struct mono outcome_since;  /* when the first of those in a row was asked for */
    char reason[PROBE_WORDS_BYTES];
    uint64_t runs[PROBE_OUTCOME_COUNT]; /* this and the next: for metrics */
    int64_t last_ns;                    /* how long the last run took */
};

struct probe_state {
    bool is_of_host; /* all of them are host probes */
    struct probe_history probes[PROBES_MAX];
    size_t probe_count;
    enum probe_health state;
    char message[NAMES_MESSAGE_BYTES]; /* "" unless UNHEALTHY */
};

/* Fewer than PROBES_MAX were added before. Copies both, and may shorten `name`. */
void probe_state_add_probe(struct probe_state *v, const char *name,
                           const struct probe_thresholds *thresholds);
/* Takes over from a former process that a host probe has passed, and whether it fails now. */
void probe_state_restore(struct probe_state *v, size_t probe, bool failing);

/* Takes one result; the new state and message are in `v`. Returns whether either changed, or for a
 * host probe whether it has passed or fails. */
bool probe_state_step(struct probe_state *v, const struct probe_result *result);
/* The state without any new result, at the start: HEALTHY without probes. Returns whether it
 * changed. */
bool probe_state_settle(struct probe_state *v);

#endif
