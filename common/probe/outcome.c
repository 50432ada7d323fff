/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/outcome.h"

const char *probe_outcome_name(enum probe_outcome outcome)
{
    static const char *const names[PROBE_OUTCOME_COUNT] = {
        [PROBE_UNKNOWN] = "unknown", [PROBE_PASSED] = "passed", [PROBE_REFUSED] = "refused",
        [PROBE_SILENT] = "silent",   [PROBE_DENIED] = "denied", [PROBE_MISSING] = "missing",
        [PROBE_WRONG] = "wrong",
    };
    return names[outcome];
}
