/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ResourceSlice: its desired content, and the publisher that keeps it so on the API server.
 * Loop thread only.
 *
 * One node, one pool, one slice, one device: every change is one atomic update that keeps the
 * pool's generation. The plan lays the desired fields over a copy of the server's slice, so fields
 * that a server adds (taints[].timeAdded, defaults of a newer version) never cause a write.
 *
 * A server whose feature gates are off drops fields silently; then the plan omits them. Without
 * taints, it does not offer an unhealthy device, because nothing else keeps the scheduler off it.
 *
 * A kubelet removes the slices of its node at each start, and then wants them back: the publisher
 * watches its slice, and creates one that vanished again, at kube_sync's pace. A server may ignore
 * a selector and a name may be taken, so driver and node of each slice are looked at before anybody
 * touches it. The slice is left behind on stop: the successor takes it over, the kubelet removes it
 * if there is none.
 */
#ifndef DRA_SLICE_H
#define DRA_SLICE_H

#include "dra-driver/dra/dra_service.h"

#include <stdbool.h>

#define SLICE_RETRY_MIN_NS  (400 * NS_PER_MS)
#define SLICE_RETRY_MAX_NS  (30 * NS_PER_SEC)
#define SLICE_REPAIR_MIN_NS NS_PER_SEC /* after somebody else changed it */
#define SLICE_REPAIR_MAX_NS (600 * NS_PER_SEC)
#define SLICE_CREATE_MAX_NS (60 * NS_PER_SEC)  /* after somebody else removed it */
#define SLICE_QUIET_NS      (300 * NS_PER_SEC) /* without repair: the next one is quick again */
/* A verdict after this tries what the server dropped: a gate may be on. */
#define SLICE_DROPPED_AGAIN_NS (600 * NS_PER_SEC)
/* Between two verdicts in the slice: a quarter of the lease's duration within these bounds.
 * Schedulers read every slice of the cluster, so a DPU that toggles must not cost them more; a
 * slower one would leave a DPU tainted that has long recovered. */
#define SLICE_FLIP_MIN_NS NS_PER_SEC
#define SLICE_FLIP_MAX_NS (10 * NS_PER_SEC)

enum {
    ATTRIBUTES_MAX = 32,
    ATTRIBUTE_TEXT_MAX = 64, /* bytes */
};

/* Fields that the server does not keep. */
struct slice_dropped {
    bool taints;
    bool multiple_allocations;
};

/* Adds NAME=VALUE, a string that a claim's selector can ask for, or replaces the one of that name.
 * The API server refuses a slice with one attribute it does not like, so each is checked by its
 * rules here, at start, where somebody reads the message (resource/v1 validation).
 * Errors: ERR_PARSE, ERR_LIMIT. */
NODISCARD int attribute_add(json_t *attributes, const char *text, struct err *e);

/* ---- what it should be ----------------------------------------------------------------------- */

/* "<driver>-<node>", hashed at the end where that is no valid name: the same for every instance
 * on this node, so that two of them in a rolling update share one slice. */
void slice_make_name(const char *driver, const char *node_name,
                     char out[static NAMES_K8S_NAME_BYTES]);

/* The desired slice, given the server's (NULL: none). Returns owned. */
json_t *slice_plan(const struct dra_device *device, const char *node_uid, const char *taint,
                   struct slice_dropped dropped, const json_t *existing);
/* The fields of `sent` that the server dropped from its `answer`. */
struct slice_dropped slice_find_dropped(const json_t *sent, const json_t *answer);

/* ---- keeping it ------------------------------------------------------------------------------ */

struct slice_publisher;

/* Borrows all, and keeps in `stats` what is the slice's. Verdicts go to the slice once per
 * quarter of a lease's duration, within SLICE_FLIP's bounds. */
struct slice_publisher *slice_publisher_new(const struct dra_config *config,
                                            const struct dra_device *device,
                                            struct dra_stats *stats);
/* Gives up what is under way; not within a callback of the client; accepts NULL. */
void slice_publisher_free(struct slice_publisher *p);

/* The first call starts the work. The device is tainted exactly while CNI ADD would be refused, so
 * that the scheduler sends no pod where its network cannot come up. One that is tainted stays so
 * when the judge dies, for the reason that it had. */
void slice_publisher_publish(struct slice_publisher *p, const struct readiness *verdict);

#endif
