/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the condition DPUReady on our Node in step with the verdict (--node-condition). A further
 * DPU of the node has a condition of its own: DPU.dpu.k8s.ovn.org/DPUReady. Loop thread only.
 *
 * The agent writes the condition only when state, reason or message change: a periodic write to
 * every Node would cost the API server more than the lease, which already shows freshness. So
 * lastHeartbeatTime is the time of the last write. At start and every ten minutes the agent reads
 * the Node, and restores the condition if another writer changed or removed it (a recreated Node
 * has none). Two writes are CONDITION_GAP_NS apart; a changed message alone waits for
 * CONDITION_WORDS_NS, because a probe may report other words each time. The agent changes no other
 * conditions.
 */
#ifndef HOST_AGENT_CONDITION_H
#define HOST_AGENT_CONDITION_H

#include "contract/readiness.h"
#include "outputs/kube_sync.h"

#define CONDITION_SETTLE_NS (3 * NS_PER_SEC) /* at start only the outcome counts */
#define CONDITION_GAP_NS    (5 * NS_PER_SEC)
#define CONDITION_WORDS_NS  (60 * NS_PER_SEC) /* the same where the message alone has changed */
#define CONDITION_CHECK_NS  (600 * NS_PER_SEC)

struct condition;

/* Borrows `loop` and `client`. `dpu` is a further DPU's name; "": the first. A firm condition is
 * never Unknown: it says whether pods are admitted. */
struct condition *condition_new(struct ev_loop *loop, struct kube_client *client, const char *node,
                                const char *dpu, bool is_firm);
/* Leaves the condition as it is; before the client; accepts NULL. */
void condition_free(struct condition *c);

void condition_publish(struct condition *c, const struct readiness *verdict);

const struct kube_sync_stats *condition_stats(const struct condition *c);

#endif
