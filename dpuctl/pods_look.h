/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods of this node as the container runtime and the kernel show them: who has lost the
 * network? One look, without any agent. What comes from outside is kept as it came: printers
 * sanitize it.
 */
#ifndef DPUCTL_PODS_LOOK_H
#define DPUCTL_PODS_LOOK_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "cri/cri_message.h"
#include "cri/pod_net.h"
#include "dpuctl/admin_options.h"

#include <stdbool.h>
#include <stddef.h>

struct pods_pod {
    struct cri_sandbox sandbox;
    bool has_host_network;
    struct pod_net_finding net;
};

struct pods_look {
    struct pods_pod *pods; /* owned; oldest first */
    size_t count;
    size_t lost;
    size_t unseen; /* could not be looked at */
};

/* The runtime's socket: as given, else the first known one that is there. Returns false if there is
 * none. */
bool pods_find_runtime(const struct admin_config *config, char out[static PATH_MAX]);

/* One call of the runtime, for what is left of --api-timeout; its answer goes to `answer`. Errors:
 * as unix_call_make, ERR_LIMIT. */
NODISCARD int pods_ask_runtime(const struct admin_config *config, const char *socket,
                               const char *method, const struct cri_request *request,
                               struct buf *answer, struct err *e);

/* Errors: those, and of the list; a pod that cannot be asked about is UNSEEN. */
NODISCARD int pods_look_take(const struct admin_config *config, const char *socket,
                             struct pods_look *out, struct err *e);
void pods_look_fini(struct pods_look *look); /* accepts a zeroed one */

#endif
