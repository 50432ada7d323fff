/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ResourceClaim as Prepare needs it: what of it was allocated from our device. No I/O.
 *
 * The kubelet names claims in its requests; what was allocated stands in the claim's status. Only
 * results of our driver count; each has to be the one device we have, and the claim has to be the
 * one that was asked for, not a namesake that replaced it (KEP-4381).
 */
#ifndef DRA_CLAIM_H
#define DRA_CLAIM_H

#include "base/attr.h"
#include "base/err.h"
#include "contract/names.h"

#include <jansson.h>
#include <stddef.h>

enum {
    CLAIM_RESULTS_MAX = 32,   /* of one claim, all drivers; the API server's own limit */
    CLAIM_REQUEST_BYTES = 64, /* a DNS label */
    CLAIM_DEVICE_BYTES = 64,  /* a DNS label */
};

struct claim_ref {
    const char *ns;
    const char *uid;
    const char *name;
};

/* What we serve. All borrowed. */
struct claim_target {
    const char *driver;
    const char *pool;
    const char *device;
};

struct claim_share {
    char request[CLAIM_REQUEST_BYTES]; /* base name: without "/subrequest" */
    char share_id[NAMES_UID_BYTES];    /* "" if the device is not shared */
};

enum claim_use {
    CLAIM_USE_ALONE,  /* nobody else may have the device */
    CLAIM_USE_SHARED, /* each of its results is a share */
    CLAIM_USE_ADMIN,  /* each looks on, whoever has the device (adminAccess) */
};

struct claim_allocation {
    enum claim_use use; /* of all results together */
    size_t count;
    struct claim_share shares[CLAIM_RESULTS_MAX];
};

/* Errors: ERR_PARSE if the reference cannot name a claim (it goes into a URL). */
NODISCARD int claim_ref_check(const struct claim_ref *ref, struct err *e);

/* Errors: ERR_GONE (another claim of that name), ERR_RETRY (not allocated yet), ERR_NOTFOUND
 * (nothing of ours in it), ERR_CONFLICT (a device we do not have), ERR_PARSE, ERR_LIMIT. */
NODISCARD int claim_read(const json_t *claim, const struct claim_ref *ref,
                         const struct claim_target *target, struct claim_allocation *out,
                         struct err *e);

#endif
