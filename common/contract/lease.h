/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Lease as both sides see it: coordination.k8s.io/v1, the few fields we use.
 *
 * A Lease is edited in its parsed JSON tree, so that fields and labels we do not know survive a
 * PUT. Reading never fails on a lease the API server accepts: every spec field may be absent
 * (coordination/v1 types.go), and what cannot be read as ours is reported as such, not refused.
 * No I/O and no clock here; jansson allocates.
 */
#ifndef CONTRACT_LEASE_H
#define CONTRACT_LEASE_H

#include "base/err.h"
#include "base/time.h"
#include "contract/lease_view.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The owner reference we keep on the lease. It is no controller: the API server allows one, and
 * that place is for upstream's DPU side. That one adds a controller with the UID that the Node had
 * at its start, and after the Node was made anew each of its renewals would be refused beside ours.
 */
struct lease_owner {
    const char *node_name; /* borrowed */
    const char *node_uid;  /* borrowed */
};

/* Copies what it needs. Errors: ERR_PARSE if `lease` is not a Lease with a name, namespace, uid
 * and resourceVersion (an HTTP 200 is evidence only if it is the object that was asked for). */
NODISCARD int lease_read(const json_t *lease, struct lease_view *out, struct err *e);

/* Who wrote the renewTime, by metadata.managedFields: the name that a client gives itself in its
 * User-Agent. NULL if that does not name exactly one. Returns borrowed from `lease`. */
const char *lease_renewed_by(const json_t *lease);

/* "ovn-dpu-<node>". Errors: ERR_LIMIT if the result is no valid object name (at most 253 bytes of
 * lower-case labels). */
NODISCARD int lease_name_for_node(const char *node, char out[static NAMES_K8S_NAME_BYTES],
                                  struct err *e);

/* A new Lease without renewTime: nothing is alive until it has been seen alive.
 * Returns owned (json_decref), or NULL when out of memory. */
json_t *lease_new(const char *ns, const char *name, const char *holder, uint32_t duration_s,
                  struct lease_owner owner);

/* The renewal: renewTime = now (a microsecond later where that would be the text already there);
 * acquireTime and holderIdentity only if unset; removes our health annotations. Changes nothing
 * else. Errors: ERR_NOMEM, ERR_PARSE; after any failed edit the tree may be half edited: drop it.
 */
NODISCARD int lease_set_renewal(json_t *lease, struct wall now, const char *holder, struct err *e);

/* The report: the health annotations, their stamp renewed as a renewTime is, which itself stays as
 * it is. LEASE_HEALTH_NONE removes them. */
NODISCARD int lease_set_health(json_t *lease, enum lease_health health, const char *message,
                               struct wall now, struct err *e);

/* Which boot of the DPU writes it; "" leaves what is there. Errors: as the others. */
NODISCARD int lease_set_boot_id(json_t *lease, const char *boot_id, struct err *e);

/* Which dpu-agent writes it; "" leaves what is there. Errors: as the others. */
NODISCARD int lease_set_agent_version(json_t *lease, const char *version, struct err *e);

/* Whether no probe stands behind the renewals. Errors: as the others. */
NODISCARD int lease_set_no_probe(json_t *lease, bool has_none, struct err *e);

/* What the keeper found wrong with a lease. */
struct lease_drift {
    bool duration; /* leaseDurationSeconds differs */
    bool owner; /* our Node's is missing, blocks deletion or is in the way, or another's is there */
    bool holder_empty;   /* nobody holds it */
    bool holder_foreign; /* somebody else does: reported and left alone */
};

struct lease_drift lease_check(const json_t *lease, const char *holder, uint32_t duration_s,
                               struct lease_owner owner);

/* Mends what lease_check calls duration, owner and holder_empty. References to Nodes
 * are replaced, not appended. Never touches renewTime. Errors: ERR_NOMEM, ERR_PARSE. */
NODISCARD int lease_repair(json_t *lease, const char *holder, uint32_t duration_s,
                           struct lease_owner owner, struct err *e);

#endif
