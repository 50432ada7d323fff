/* SPDX-License-Identifier: Apache-2.0 */
/* How one attempt to ask a service ended, told apart because each deserves its own patience. CORE.
 */
#ifndef PROBE_OUTCOME_H
#define PROBE_OUTCOME_H

#include <stdbool.h>

enum probe_outcome {
    PROBE_UNKNOWN, /* nothing can be said yet */
    PROBE_UNABLE,  /* we could not ask: no descriptor, process or memory was left */
    PROBE_PASSED,
    PROBE_REFUSED, /* nobody listens, or the connection was closed without an answer */
    PROBE_SILENT,  /* no answer in time, or none could be asked for */
    PROBE_DENIED,  /* we have no right to ask */
    PROBE_MISSING, /* there is no socket to ask at */
    PROBE_WRONG,   /* an answer, and not the one that is expected */
    PROBE_OUTCOME_COUNT
};

/* A failed system call says that we lack something: that is no answer of the one we ask. */
bool probe_outcome_is_our_lack(int sys_errno);

enum { PROBE_WORDS_BYTES = 256 }; /* what was tried, on what, and what was seen */

/* One lower-case word; static. */
const char *probe_outcome_name(enum probe_outcome outcome);

#endif
