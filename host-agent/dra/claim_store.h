/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which claims are prepared: all that the driver remembers. For each a symbolic link in `claims/`
 * of the plugin's directory, named by the claim's UID. Its target is no path but says "USE
 * NAMESPACE/NAME": it is whole or not there, outlives the agent, and two of them in a rolling
 * update see the same. Who puts holds the lock of dra/serialize.h; to drop takes none.
 *
 * What is there may be out of date, where a kubelet has lost its own memory: so it is asked about,
 * and never the last word for ever (dra/claim_events.h).
 */
#ifndef DRA_CLAIM_STORE_H
#define DRA_CLAIM_STORE_H

#include "base/attr.h"
#include "base/err.h"
#include "host-agent/dra/claim.h"

#include <limits.h>
#include <stdbool.h>

enum { CLAIM_STORE_ENTRIES_MAX = 4096 /* looked at; a node has far fewer pods */ };

struct stored_claim {
    enum claim_use use;
    char ns[NAMES_K8S_NAME_BYTES];
    char name[NAMES_K8S_NAME_BYTES];
    char uid[NAMES_UID_BYTES];
};

/* Caller-owned; a directory that is not there is empty. */
struct claim_store {
    char dir[PATH_MAX];
};

/* Errors: ERR_LIMIT. */
NODISCARD int claim_store_init(struct claim_store *s, const char *plugin_dir, struct err *e);

/* Keeps it, in place of what was kept for that UID, unless another claim is in the way: each may
 * have the device alone, but for those that only look on. Errors: ERR_CONFLICT, then `out_other` is
 * that claim; ERR_IO, ERR_PARSE (a UID that names no file): nobody is in the way, but it is not
 * kept. */
NODISCARD int claim_store_take(const struct claim_store *s, const struct claim_ref *ref,
                               enum claim_use use, struct stored_claim *out_other, struct err *e);
/* Nothing if it is not there, or `s` is NULL. */
void claim_store_drop(const struct claim_store *s, const char *uid);

/* The claim with the smallest UID above `uid` ("": the first); false: there is none. What is no
 * claim of ours is passed over. `out` may hold `uid`. */
NODISCARD bool claim_store_next(const struct claim_store *s, const char *uid,
                                struct stored_claim *out);

#endif
