/* SPDX-License-Identifier: Apache-2.0 */
/* CNI spec versions: which we speak, and how they compare. */
#ifndef CNI_CNI_VERSION_H
#define CNI_CNI_VERSION_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>

/* All released versions of the spec, oldest first; NULL ends the list. */
extern const char *const cni_versions[];

#define CNI_VERSION_CURRENT "1.1.0"
#define CNI_VERSION_DEFAULT "0.1.0" /* of a configuration without cniVersion */

bool cni_version_is_supported(const char *version);

/* *out: `version` >= `least`. Errors: ERR_PARSE in the words of the CNI library. */
NODISCARD int cni_version_at_least(const char *version, const char *least, bool *out,
                                   struct err *e);

#endif
