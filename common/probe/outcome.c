/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/outcome.h"

#include <errno.h>

const char *probe_outcome_name(enum probe_outcome outcome)
{
    static const char *const names[PROBE_OUTCOME_COUNT] = {
        [PROBE_UNKNOWN] = "unknown", [PROBE_PASSED] = "passed", [PROBE_REFUSED] = "refused",
        [PROBE_SILENT] = "silent",   [PROBE_DENIED] = "denied", [PROBE_MISSING] = "missing",
        [PROBE_WRONG] = "wrong",     [PROBE_UNABLE] = "unable",
    };
    return names[outcome];
}

bool probe_outcome_is_our_lack(int sys_errno)
{
    return sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == ENOMEM ||
           sys_errno == ENOBUFS;
}
