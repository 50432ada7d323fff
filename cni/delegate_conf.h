/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delegate's configuration: the original one with its own type, and from ours what the runtime
 * put there (name, cniVersion, prevResult, runtimeConfig, args, "cni.dev/...") and every key that
 * neither we nor the delegate know. Each member's bytes are as they were; of two of the same name
 * the last counts, and they are sorted, as the CNI library does it for a plugin of its own.
 */
#ifndef CNI_DELEGATE_CONF_H
#define CNI_DELEGATE_CONF_H

#include "cni/conf.h"

enum { DELEGATE_TYPE_BYTES = NAME_MAX + 1 }; /* it is the name of a file */

/* Whether this is a plugin's configuration, and not one of ours. */
bool delegate_conf_is_usable(struct json_slice plugin);

/* Appends that of the plugin `delegate` to `out`, whose bound has to be DELEGATE_CONF_MAX_BYTES. A
 * delegate that is ourselves is refused. Returns 0 or the error's code. */
enum { DELEGATE_CONF_MAX_BYTES = 2 * CONF_MAX_BYTES + 2 }; /* both parts, and brackets */
int delegate_conf_make(const struct cni_conf *conf, struct json_slice delegate, struct buf *out,
                       char out_type[static DELEGATE_TYPE_BYTES], struct cni_error *error);

#endif
