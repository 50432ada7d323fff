/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that lost their network with their DPU. Twice in the time that a loss takes to count it
 * lists all Pod sandboxes of this node over CRI and checks the network of each (probe/pod_net.h),
 * but for those in the host's network. It reports the losses and stops the sandboxes that
 * podnet_plan.h names, so that the kubelet creates new ones. One call at a time, each with a
 * deadline. Loop thread only.
 *
 * For sandboxes older than the agent, CNI's cached result counts as proof that they had their
 * interface. For younger ones, the agent must have seen the interface itself: otherwise a Pod whose
 * device never gives it a netdev (vDPA) would lose one sandbox after the other.
 */
#ifndef PODNET_PODNET_H
#define PODNET_PODNET_H

#include "contract/readiness.h"
#include "host-agent/podnet/podnet_plan.h"

#include <stddef.h>
#include <stdint.h>

struct ev_loop;
struct events;
struct kube_client;
struct podnet;

#define PODNET_CALL_NS  (10 * NS_PER_SEC)
#define PODNET_AGAIN_NS (60 * NS_PER_SEC) /* one that the runtime could not describe */
#define PODNET_STOP_NS  (60 * NS_PER_SEC) /* a runtime kills what runs in it at once */

enum podnet_mode { PODNET_MODE_REPORT, PODNET_MODE_STATUS, PODNET_MODE_RESTART };

enum { PODNET_WORDS_BYTES = 300 };

/* How many sandboxes are lost by what their devices say, which no pod can do to itself: told when
 * the number of those that are lost changes, and once when as much time has passed as a loss takes
 * to count. `words` name the first of them. */
typedef void podnet_fn(void *user, size_t lost, const char *words);

/* Texts are borrowed. */
struct podnet_config {
    struct ev_loop *loop;
    struct kube_client *client; /* for PODNET_MODE_RESTART */
    struct events *events;      /* NULL: none are written */
    const char *node;
    const char *socket; /* of the runtime */
    const char *root;   /* as pod_net_open has it */
    enum podnet_mode mode;
    struct podnet_plan_config plan; /* `stops` and `seed` are ours */
    podnet_fn *on_change;
    void *user;
};

struct podnet_stats {
    uint64_t sandboxes; /* of the last list */
    uint64_t unseen;    /* of the last look: could not be looked at */
    uint64_t lost;
    uint64_t scans;
    uint64_t scan_failures;
    uint64_t found; /* as lost, in all */
    uint64_t stops;
    uint64_t stop_failures;
};

/* The first look is at once, from the loop. */
struct podnet *podnet_start(const struct podnet_config *config);
void podnet_free(struct podnet *p); /* before the client; accepts NULL; not within its callback */

void podnet_publish(struct podnet *p, const struct readiness *verdict);

const struct podnet_stats *podnet_stats(const struct podnet *p);

/* Whether the kubelet would recreate the sandbox of the Pod with this UID after a stop, by a list
 * with the Pod of its name; UNKNOWN if that is another Pod or a terminating one. For NEVER, `why`
 * is the reason, for people; static. */
enum podnet_policy podnet_read_policy(const char *list, size_t len, const char *uid,
                                      const char **out_why);

#endif
