/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the slice may be written: the publisher's own pace, whatever the DPU, the server and other
 * writers do. CORE.
 *
 *  - the first write: at once;
 *  - another verdict: at once if the last one is `flip_ns` old, otherwise then, the last one wins;
 *  - again, because the last write failed: exponential, jittered backoff;
 *  - again, because somebody else undid it: the same, slower, and quick again after a quiet while.
 *
 * What the server asks for (Retry-After) holds for all of them.
 */
#ifndef DRA_SLICE_PACE_H
#define DRA_SLICE_PACE_H

#include "base/time.h"
#include "host-agent/dra/slice_plan.h"

#include <stdbool.h>
#include <stdint.h>

#define SLICE_RETRY_MIN_NS  (200 * NS_PER_MS)
#define SLICE_RETRY_MAX_NS  (30 * NS_PER_SEC)
#define SLICE_REPAIR_MIN_NS NS_PER_SEC /* after somebody else changed it */
#define SLICE_REPAIR_MAX_NS (60 * NS_PER_SEC)
#define SLICE_QUIET_NS      (300 * NS_PER_SEC) /* without repair: the next one is quick again */
/* Between two verdicts in the slice: the renewal interval within these bounds. Schedulers read
 * every slice of the cluster, so a DPU that toggles must not cost them more; a slower one would
 * leave a DPU tainted that has long recovered. */
#define SLICE_FLIP_MIN_NS NS_PER_SEC
#define SLICE_FLIP_MAX_NS (10 * NS_PER_SEC)

/* Zero-initialise, then slice_pace_init. */
struct slice_pace {
    int64_t flip_ns;
    uint64_t random;
    bool has_tried;
    bool is_standing; /* the last try succeeded, or was not needed */
    struct slice_taint tried;
    struct mono next_flip;
    struct mono retry_at;   /* after a failure */
    struct mono told_until; /* by Retry-After */
    uint32_t failures;
    struct mono repair_at; /* MONO_NEVER: none is due */
    struct mono last_repair;
    uint32_t repairs;
};

void slice_pace_init(struct slice_pace *p, int64_t renew_interval_ns, uint64_t seed);

/* The server's slice is not as `taint` wants it: the earliest time to write. */
struct mono slice_pace_next(struct slice_pace *p, const struct slice_taint *taint, struct mono now);
/* The write begins. Returns true if it undoes what somebody else did. */
bool slice_pace_wrote(struct slice_pace *p, const struct slice_taint *taint, struct mono now);
/* It stands on the server as `taint` wants it, or as the server wants it. */
void slice_pace_stands(struct slice_pace *p, const struct slice_taint *taint);

/* A request failed: when to try again; `told_ns` is the server's Retry-After (0: none), believed
 * up to SLICE_RETRY_MAX_NS. */
struct mono slice_pace_failed(struct slice_pace *p, int64_t told_ns, struct mono now);
/* One succeeded. */
void slice_pace_worked(struct slice_pace *p);

/* min_ns doubled so often, at most max_ns, less up to a quarter. */
int64_t slice_pace_doubled_ns(struct slice_pace *p, int64_t min_ns, uint32_t times, int64_t max_ns);

#endif
