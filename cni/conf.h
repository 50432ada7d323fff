/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network configuration on stdin. It is checked by the rules of Go's JSON reader, and what we
 * do not need is not looked at: a verb that cleans up must not fail for it.
 *
 * Wrapping: `delegate` holds the other plugin's configuration, or `delegateConf` names a file that
 * does, read at each call so that it never drifts from what its owner writes. `lastDelegate` is
 * a copy of what that file held, for when it is gone. Without `delegate` and `delegateConf` we are
 * chained. Our other keys: `readinessFile`, `statusCode` (50 or 51).
 */
#ifndef CNI_CONF_H
#define CNI_CONF_H

#include "base/json.h"
#include "base/mem.h"
#include "cni/cni_env.h"

#include <limits.h>

enum {
    /* Of stdin, and of delegateConf. Runtimes take messages of at most 16 MiB over CRI: what comes
     * out of one is not larger. */
    CONF_MAX_BYTES = 16 << 20,
    CONF_VERSION_BYTES = 64, /* of cniVersion; what is longer is cut, and no version that exists */
};

struct cni_conf {
    struct buf text;                  /* owned: stdin */
    struct json_slice object;         /* in it */
    char version[CONF_VERSION_BYTES]; /* cniVersion or its default */
    char readiness_file[PATH_MAX];
    int status_code; /* for verbs that are gated */
    bool is_wrapping;
};

/* Reads all of `fd`; checks size, syntax and network name, in the skeleton's order and words.
 * Returns 0 or the error's code; the conf is to be finished in either case. */
int conf_read(int fd, struct cni_conf *out, struct cni_error *error);
void conf_fini(struct cni_conf *conf); /* accepts a zeroed one */

/* May this verb be used with this configuration's version, and do we speak it? */
int conf_check_version(struct cni_conf *conf, enum cni_verb verb, struct cni_error *error);

/* Our own keys, as far as the verb needs them; after the version, so that a runtime is first told
 * of that. */
int conf_read_options(struct cni_conf *conf, enum cni_verb verb, struct cni_error *error);

/* Is this key one of ours, in letters of either case? */
bool conf_owns_key(struct json_slice key);

#endif
