/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the condition DPUReady on our Node in step with the verdict (--node-condition). A further
 * DPU of the node has a driver name of its own, and with it a condition: DRIVER/DPUReady. Loop
 * thread only.
 *
 * It is written when state, reason or message change, and not otherwise: a heartbeat of its own on
 * every Node would cost the API server more than the lease does, and the lease is where freshness
 * is to be seen. So lastHeartbeatTime is when it was last written. At start and every ten minutes
 * the Node is read, and the condition put back if somebody else changed or removed it (a Node that
 * was created again has none). Two writes are CONDITION_GAP_NS apart and tell the latest; a message
 * alone waits for CONDITION_WORDS_NS, because a probe may find new words each time. Nobody else's
 * conditions are touched.
 */
#ifndef HOST_AGENT_CONDITION_H
#define HOST_AGENT_CONDITION_H

#include "contract/readiness.h"
#include "kube/kube_sync.h"

#define CONDITION_SETTLE_NS (3 * NS_PER_SEC) /* at start only the outcome counts */
#define CONDITION_GAP_NS    (5 * NS_PER_SEC)
#define CONDITION_WORDS_NS  (60 * NS_PER_SEC) /* the same where the message alone has changed */
#define CONDITION_CHECK_NS  (600 * NS_PER_SEC)

struct condition;

/* Borrows `loop` and `client`. A firm one is never Unknown: it says whether pods are admitted. */
struct condition *condition_new(struct ev_loop *loop, struct kube_client *client, const char *node,
                                const char *driver, bool is_firm);
/* Leaves the condition as it is; before the client; accepts NULL. */
void condition_free(struct condition *c);

void condition_publish(struct condition *c, const struct readiness *verdict);

const struct kube_sync_stats *condition_stats(const struct condition *c);

#endif
