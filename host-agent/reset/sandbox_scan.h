/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at all pod sandboxes of this node: lists them over CRI, asks once where the network of each
 * is, and reads from then on what that holds. One call at a time, each with a deadline; what is in
 * the host's network is not looked at. Loop thread only.
 *
 * CNI's word that a sandbox once had its interface counts for those that were there before us. Of
 * younger ones we would have seen it: a device that never gives its netdev to the pod (vDPA) must
 * not cost it one sandbox after the other.
 */
#ifndef RESET_SANDBOX_SCAN_H
#define RESET_SANDBOX_SCAN_H

#include "base/attr.h"
#include "base/err.h"
#include "cri/cri_message.h"
#include "cri/pod_net.h"

struct ev_loop;
struct sandbox_scan;

#define SANDBOX_SCAN_CALL_NS  (10 * NS_PER_SEC)
#define SANDBOX_SCAN_AGAIN_NS (60 * NS_PER_SEC) /* one that the runtime could not describe */

/* One sandbox of a scan; borrowed. */
typedef void sandbox_scan_fn(void *user, const struct cri_sandbox *sandbox,
                             const struct pod_net_finding *finding);
/* The scan is over. `why`: the runtime did not answer, and there were no calls of the other. */
typedef void sandbox_scan_done_fn(void *user, const struct err *why);

struct sandbox_scan_config {
    struct ev_loop *loop;
    const char *socket; /* of the runtime; borrowed */
    const char *root;   /* as pod_net_open has it; borrowed */
    sandbox_scan_fn *each;
    sandbox_scan_done_fn *done;
    void *user;
};

NODISCARD int sandbox_scan_new(const struct sandbox_scan_config *config, struct sandbox_scan **out,
                               struct err *e);
void sandbox_scan_free(struct sandbox_scan *s); /* accepts NULL; not within a callback */

/* Begins a scan; nothing while one is under way. */
void sandbox_scan_run(struct sandbox_scan *s);

/* Looks at one of the last list now, without the runtime. UNSEEN if it is not of that. */
void sandbox_scan_look(struct sandbox_scan *s, const char *id, struct pod_net_finding *out);

/* NULL: not of the last list. Borrowed until the next scan. */
const struct cri_sandbox *sandbox_scan_find(const struct sandbox_scan *s, const char *id);

/* Those of the last list. */
size_t sandbox_scan_count(const struct sandbox_scan *s);

#endif
