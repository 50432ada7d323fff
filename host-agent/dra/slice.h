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

#include "host-agent/dra/dra_service.h"

#include <stdbool.h>

#define SLICE_RETRY_MIN_NS  (400 * NS_PER_MS)
#define SLICE_RETRY_MAX_NS  (30 * NS_PER_SEC)
#define SLICE_REPAIR_MIN_NS NS_PER_SEC /* after somebody else changed it */
#define SLICE_REPAIR_MAX_NS (600 * NS_PER_SEC)
#define SLICE_CREATE_MAX_NS (60 * NS_PER_SEC)  /* after somebody else removed it */
#define SLICE_QUIET_NS      (300 * NS_PER_SEC) /* without repair: the next one is quick again */
/* A verdict after this tries what the server dropped: a gate may be on. */
#define SLICE_DROPPED_AGAIN_NS (600 * NS_PER_SEC)
/* Between two verdicts in the slice: the renewal interval within these bounds. Schedulers read
 * every slice of the cluster, so a DPU that toggles must not cost them more; a slower one would
 * leave a DPU tainted that has long recovered. */
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

/* Borrows all, and keeps in `stats` what is the slice's. Verdicts go to the slice once per renewal
 * interval, within SLICE_FLIP's bounds. */
struct slice_publisher *slice_publisher_new(const struct dra_config *config,
                                            const struct dra_device *device,
                                            struct dra_stats *stats);
/* Gives up what is under way; not within a callback of the client; accepts NULL. */
void slice_publisher_free(struct slice_publisher *p);

/* The first call starts the work. The device is tainted exactly while CNI ADD would be refused, so
 * that the scheduler sends no pod where its network cannot come up. */
void slice_publisher_publish(struct slice_publisher *p, const struct readiness *verdict);

/* ---- the devices of another driver -----------------------------------------------------------
 *
 * --taint-devices=DRIVER[/POOL]: one DeviceTaintRule of our node has our taint for those devices,
 * such as the DPU's virtual functions. While the DPU is ready it selects none: so nobody needs a
 * right to delete it, and the server dates each taint anew, from where a toleration's seconds
 * count. It goes with the Node. Its API is v1 from Kubernetes 1.37 on; older ones are tried.
 */

#define TAINT_RULE_GAP_NS (5 * NS_PER_SEC) /* between two changes */

struct taint_rule;

/* "" is none. Errors: ERR_PARSE, naming the option. */
NODISCARD int taint_rule_check(const char *devices, struct err *e);

/* Borrows all but `device`; of that, driver, node_name and effect count. `devices` is checked. */
struct taint_rule *taint_rule_new(struct ev_loop *loop, struct kube_client *client,
                                  const char *devices, const struct dra_device *device);
void taint_rule_free(struct taint_rule *t); /* as slice_publisher_free */
void taint_rule_publish(struct taint_rule *t, const struct readiness *verdict);

#endif
