/* SPDX-License-Identifier: Apache-2.0 */
/* The CNI_* environment: which variables a verb needs, and whether they are well-formed. */
#ifndef CNI_CNI_ENV_H
#define CNI_CNI_ENV_H

#include "cni/reply.h"

#include <stdbool.h>

enum cni_verb {
    CNI_VERB_UNKNOWN,
    CNI_ADD,
    CNI_DEL,
    CNI_CHECK,
    CNI_GC,
    CNI_STATUS,
    CNI_VERSION,
};

struct cni_env {
    enum cni_verb verb;
    const char *command; /* CNI_COMMAND; these are borrowed from the environment, "" if unset */
    const char *container_id;
    const char *netns;
    const char *ifname;
    const char *path;
    bool netns_override; /* CNI_NETNS_OVERRIDE is 1 or TRUE */
};

/* Checks in the order of the CNI library's skeleton. Returns 0 or the error's code. */
int cni_env_read(struct cni_env *out, struct cni_error *error);

/* Also the rule for a network name: starts alphanumeric, then alphanumerics, '_', '.', '-'. */
bool cni_env_is_identifier(const char *text);

#endif
