/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the ResourceSlice on the API server as slice_plan wants it. Loop thread only.
 *
 * Looks up the Node (its owner) and what slices there are; then watches its own slice and writes
 * when the verdict changes or somebody changed or removed it. A kubelet removes the slices of its
 * node at each start (after that it wants them back), so a vanished slice is created again, at
 * kube_sync's pace. What the server makes of a write is its last word: the same verdict is not
 * written again because of it. A slice that is being deleted is made anew when it is gone. The
 * slice is left behind on stop: the successor takes it over, the kubelet removes it if there is
 * none.
 */
#ifndef DRA_SLICE_PUBLISHER_H
#define DRA_SLICE_PUBLISHER_H

#include "base/time.h"
#include "host-agent/dra/slice_plan.h"
#include "kube/kube_client.h"

#include <stdbool.h>
#include <stdint.h>

#define SLICE_RETRY_MIN_NS  (400 * NS_PER_MS)
#define SLICE_RETRY_MAX_NS  (30 * NS_PER_SEC)
#define SLICE_REPAIR_MIN_NS NS_PER_SEC /* after somebody else changed it */
#define SLICE_REPAIR_MAX_NS (60 * NS_PER_SEC)
#define SLICE_QUIET_NS      (300 * NS_PER_SEC) /* without repair: the next one is quick again */
#define SLICE_POLL_NS       (60 * NS_PER_SEC)  /* where watching is forbidden */
/* A verdict after this tries what the server dropped: a gate may be on. */
#define SLICE_DROPPED_AGAIN_NS (600 * NS_PER_SEC)
/* Between two verdicts in the slice: the renewal interval within these bounds. Schedulers read
 * every slice of the cluster, so a DPU that toggles must not cost them more; a slower one would
 * leave a DPU tainted that has long recovered. */
#define SLICE_FLIP_MIN_NS NS_PER_SEC
#define SLICE_FLIP_MAX_NS (10 * NS_PER_SEC)

struct slice_publisher_config {
    struct ev_loop *loop;       /* borrowed */
    struct kube_client *client; /* borrowed */
    struct slice_spec spec;     /* its texts borrowed; node_uid is looked up */
    int64_t renew_interval_ns;
};

struct slice_stats {
    uint64_t writes;
    uint64_t failures;
    bool is_published; /* the server has what we want */
};

struct slice_publisher;

struct slice_publisher *slice_publisher_new(const struct slice_publisher_config *config);
/* Gives up what is under way; not within a callback of the client. Accepts NULL. */
void slice_publisher_free(struct slice_publisher *p);

/* What the device's taint is to be; the first call starts the work. */
void slice_publisher_publish(struct slice_publisher *p, const struct slice_taint *taint);

struct slice_stats slice_publisher_stats(const struct slice_publisher *p);

#endif
