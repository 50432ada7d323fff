/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the Events that host-agent/event_plan.h asks for. Loop thread only.
 *
 * One request at a time, on a connection and with a deadline of its own: the lease's requests are
 * never waited for nor kept waiting. A failure backs off with jitter and honours Retry-After; a
 * missing right is said once an hour and tried again every five minutes. What is not written when
 * the agent stops is lost.
 */
#ifndef HOST_AGENT_EVENTS_H
#define HOST_AGENT_EVENTS_H

#include "base/attr.h"
#include "base/err.h"
#include "host-agent/event_plan.h"
#include "kube/kube_client.h"

struct ev_loop;
struct events;

/* `node` is copied, the client borrowed. `carried` is the verdict that a predecessor left behind,
 * or NULL; borrowed. Errors: ERR_NOMEM, ERR_LIMIT, ERR_IO (no timer). */
NODISCARD int events_new(struct ev_loop *loop, struct kube_client *client, const char *node,
                         const struct readiness *carried, struct events **out, struct err *e);
void events_free(struct events *x); /* before the client; accepts NULL */

/* Called with each change that an Event about the Node now tells. Set before the first. */
typedef void events_written_fn(void *user, const struct event_change *change);
void events_on_written(struct events *x, events_written_fn *written, void *user);

void events_publish(struct events *x, const struct readiness *verdict);

/* The DPU was found to have rebooted, then. */
void events_tell_reboot(struct events *x, struct wall at);

struct event_plan_stats events_stats(const struct events *x);

#endif
