/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the ResourceSlice on the API server as slice_plan wants it. Loop thread only.
 *
 * Looks up the Node (its owner) and what slices there are, once; then watches its own slice and
 * writes when the verdict changes or somebody changed or removed it. A kubelet removes the slices
 * of its node at each start (after that it wants them back), so a vanished slice is created again.
 * One request at a time; slice_pace.h says when. What the server makes of a write is its last word:
 * the same verdict is not written again because of it. A slice that is being deleted is made anew
 * when it is gone. The slice is left behind on stop: the successor takes it over, the kubelet
 * removes it if there is none.
 */
#ifndef DRA_SLICE_PUBLISHER_H
#define DRA_SLICE_PUBLISHER_H

#include "base/attr.h"
#include "base/err.h"
#include "base/log.h"
#include "base/time.h"
#include "host-agent/dra/slice_plan.h"
#include "kube/kube_client.h"
#include "kube/kube_watch.h"

#include <stdbool.h>
#include <stdint.h>

#define SLICE_POLL_NS        (60 * NS_PER_SEC)  /* where watching is forbidden */
#define SLICE_WATCH_AGAIN_NS (600 * NS_PER_SEC) /* and the right may have come */
#define SLICE_DROPPED_AGAIN_NS                                                                     \
    (600 * NS_PER_SEC) /* a verdict after this tries what the server dropped: a gate may be on */
#define SLICE_NO_API_NS (300 * NS_PER_SEC) /* where resource.k8s.io is not served at all */

struct slice_publisher_config {
    struct kube_client *client; /* borrowed */
    struct slice_spec spec;     /* its texts borrowed; node_uid NULL: to be looked up */
    int64_t renew_interval_ns;  /* the pace of verdicts in the slice, within slice_pace's bounds */
    /* slice_publisher_next_tick may have changed. */
    void (*on_rearm)(void *user);
    void *user;
};

struct slice_stats {
    uint64_t writes;
    uint64_t failures;
    bool is_published; /* the server has what we want */
};

struct slice_publisher;

/* Errors: ERR_NOMEM. */
NODISCARD int slice_publisher_new(const struct slice_publisher_config *config,
                                  struct slice_publisher **out, struct err *e);
/* Gives up what is under way; not within a callback of the client. Accepts NULL. */
void slice_publisher_free(struct slice_publisher *p);

/* What the device's taint is to be; the first call starts the work. */
void slice_publisher_publish(struct slice_publisher *p, const struct slice_taint *taint,
                             struct mono now);

struct mono slice_publisher_next_tick(const struct slice_publisher *p);
void slice_publisher_tick(struct slice_publisher *p, struct mono now);

struct slice_stats slice_publisher_stats(const struct slice_publisher *p);

#endif
