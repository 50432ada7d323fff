/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a kubeconfig's user acts as, in the API server's headers: `as`, `as-uid`, `as-groups` and
 * `as-user-extra`. The credential proves who we are; the API server checks the right to
 * impersonate.
 */
#ifndef KUBE_KUBE_IMPERSONATION_H
#define KUBE_KUBE_IMPERSONATION_H

#include "loop/yaml_tree.h"

enum {
    KUBE_IMPERSONATION_MAX = 64,         /* headers */
    KUBE_IMPERSONATION_MAX_BYTES = 1024, /* of one */
};

struct kube_impersonation {
    char *headers[KUBE_IMPERSONATION_MAX]; /* owned: "Impersonate-User: NAME" ... */
    size_t count;
};

/* Reads the members of a `user`; none of them: no headers. Errors: ERR_PARSE, ERR_LIMIT, ERR_NOMEM,
 * naming file, line and key; what was read before stays in `out`, to be freed. */
NODISCARD int kube_impersonation_read(struct yaml_tree *y, yaml_node_t *user,
                                      struct kube_impersonation *out, struct err *e);
void kube_impersonation_fini(struct kube_impersonation *i); /* accepts a zeroed one */

bool kube_impersonation_equal(const struct kube_impersonation *a,
                              const struct kube_impersonation *b);

#endif
