/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which plugins are behind the gate: the one in `delegate`, or what the file `delegateConf` holds
 * now. That file may be gone, renamed or broken when a pod is removed, and then DEL would fail for
 * good: the verbs that are not gated take the copy in `lastDelegate` instead. It may also have
 * become a list since the pod was added: DEL goes through all of it.
 */
#ifndef CNI_DELEGATE_SOURCE_H
#define CNI_DELEGATE_SOURCE_H

#include "cni/conf.h"

struct delegate_source {
    struct buf file; /* owned */
    struct json_slice
        plugins;  /* one plugin's object, or a list of them; in `file` or in the conf */
    size_t count; /* of plugins, at least 1; with DEL alone more */
};

/* Borrows `conf`. Returns 0 or the error's code; `out` is to be closed in either case. */
int delegate_source_open(const struct cni_conf *conf, enum cni_verb verb,
                         struct delegate_source *out, struct cni_error *error);
void delegate_source_close(struct delegate_source *source);

/* `index` < count. Borrowed. */
struct json_slice delegate_source_plugin(const struct delegate_source *source, size_t index);

#endif
