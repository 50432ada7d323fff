/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that lost their network with their DPU: looks at the node's sandboxes at a steady pace,
 * tells what reset.h decides, and stops those sandboxes that it names, for the kubelet to make new
 * ones. Loop thread only.
 */
#ifndef RESET_LOST_NETWORK_H
#define RESET_LOST_NETWORK_H

#include "base/attr.h"
#include "base/err.h"
#include "contract/readiness.h"

#include <stddef.h>
#include <stdint.h>

struct ev_loop;
struct kube_client;
struct lost_network;

#define LOST_NETWORK_STOP_NS (60 * NS_PER_SEC) /* a runtime kills what runs in it at once */

enum lost_network_mode { LOST_NETWORK_REPORT, LOST_NETWORK_STATUS, LOST_NETWORK_RESTART };

enum { LOST_NETWORK_WORDS_BYTES = 300 };

/* How many sandboxes are lost by what their devices say, which no pod can do to itself: told when
 * the number of those that are lost changes, and once when as much time has passed as a loss takes
 * to count. `words` name the first of them. */
typedef void lost_network_fn(void *user, size_t lost, const char *words);

/* Texts are borrowed. */
struct lost_network_config {
    struct ev_loop *loop;
    struct kube_client *client; /* NULL: no Events, and no pod's policy is known */
    const char *node;
    const char *socket; /* of the runtime */
    const char *root;   /* as pod_net_open has it */
    enum lost_network_mode mode;
    int64_t scan_ns;
    int64_t debounce_ns;
    int64_t settle_ns;
    int64_t gap_ns; /* these three as reset.h has them */
    bool has_events;
    lost_network_fn *on_change;
    void *user;
};

struct lost_network_stats {
    size_t sandboxes; /* of the last list */
    size_t unseen;    /* of the last look: could not be looked at */
    size_t lost;
    uint64_t scans;
    uint64_t scan_failures;
    uint64_t found; /* as lost, in all */
    uint64_t stops;
    uint64_t stop_failures;
};

/* The first look is at once, from the loop. Errors: ERR_NOMEM, ERR_IO (no timer). */
NODISCARD int lost_network_start(const struct lost_network_config *config,
                                 struct lost_network **out, struct err *e);
void lost_network_free(struct lost_network *l); /* accepts NULL; not within its callback */

void lost_network_publish(struct lost_network *l, const struct readiness *verdict);

struct lost_network_stats lost_network_stats(const struct lost_network *l);

#endif
