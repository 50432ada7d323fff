/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which node this DPU serves, where no option says it: external_ids:host-k8s-nodename of OVS, which
 * ovn-kubernetes itself goes by on a DPU. The DPU's own host name is not the node's, so nothing is
 * guessed. Asked every NODE_NAME_PERIOD_NS, so that a change is followed; an OVS that does not
 * answer, or a name that is taken away, changes nothing. Loop thread only.
 */
#ifndef DPU_AGENT_NODE_NAME_H
#define DPU_AGENT_NODE_NAME_H

#include "base/attr.h"
#include "base/err.h"
#include "base/time.h"

#define NODE_NAME_SOURCE     "external_ids:host-k8s-nodename of OVS"
#define NODE_NAME_PERIOD_NS  (5 * NS_PER_SEC)
#define NODE_NAME_TIMEOUT_NS (2 * NS_PER_SEC)

struct ev_loop;
struct node_name;

struct node_name_handlers {
    /* Another name than before. Returns non-zero, with its words, if it cannot be one. */
    int (*found)(void *user, const char *name, struct err *e);
    /* There is none yet, for a reason that was not told before; borrowed. */
    void (*missing)(void *user, const char *why);
    void *user;
};

/* `rundir` is where OVS has its sockets; borrows `loop`, copies the rest. Errors: ERR_LIMIT (a path
 * that is too long), ERR_NOMEM. */
NODISCARD int node_name_new(struct ev_loop *loop, const char *rundir,
                            const struct node_name_handlers *handlers, struct node_name **out,
                            struct err *e);
/* The first question; handlers may be called before this returns. */
void node_name_start(struct node_name *n);
/* Why there is none; "" once there is. Borrowed until the next answer. Accepts NULL. */
const char *node_name_awaited(const struct node_name *n);
void node_name_free(struct node_name *n); /* not within a handler; accepts NULL */

#endif
