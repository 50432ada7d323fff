/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network configuration on stdin: ours, and the delegate's that comes out of it.
 *
 * Wrapping: `delegate` holds the other plugin's configuration, or `delegateConf` names a file that
 * does, read at each call so that it never drifts from what its owner writes. Without either we
 * are chained. Our other keys: `readinessFile`, `statusCode` (50 or 51).
 */
#ifndef CNI_CONF_H
#define CNI_CONF_H

#include "cni/cni_env.h"

#include <jansson.h>

enum { CONF_MAX_BYTES = 1 << 20 /* of stdin, and of delegateConf */ };

struct cni_conf {
    json_t *json;               /* owned */
    const char *version;        /* cniVersion or its default; borrowed from json */
    const char *readiness_file; /* same */
    int status_code;
    bool is_wrapping;
};

/* Reads all of `fd`; checks size, syntax and network name, in the skeleton's order and words.
 * Returns 0 or the error's code. */
int conf_read(int fd, struct cni_conf *out, struct cni_error *error);
void conf_fini(struct cni_conf *conf); /* accepts a zeroed one */

/* May this verb be used with this configuration's version, and do we speak it? */
int conf_check_version(struct cni_conf *conf, enum cni_verb verb, struct cni_error *error);

/* Our own keys; after the version, so that a runtime is first told of that. */
int conf_read_options(struct cni_conf *conf, struct cni_error *error);

/*
 * The delegate's configuration: the original one with its own type, and from ours what the runtime
 * put there (name, cniVersion, prevResult, runtimeConfig, args, "cni.dev/...") and every key that
 * neither we nor the delegate know. A delegate that is ourselves is refused.
 * *out_type is borrowed from *out_json, which is owned (json_decref).
 */
int conf_make_delegate(const struct cni_conf *conf, json_t **out_json, const char **out_type,
                       struct cni_error *error);

#endif
