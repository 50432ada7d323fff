/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict as the readiness FSM's state reads: state, reason, sentence, validity. CORE. */
#ifndef HOST_AGENT_EXPIRY_WORDS_H
#define HOST_AGENT_EXPIRY_WORDS_H

#include "host-agent/expiry.h"

/* Updates everything but `transition`; `out` holds the verdict so far. The sentence says what was
 * seen and, where someone has to act, what to look at; it does not change while the situation does
 * not. */
void expiry_words_fill(const struct expiry *x, struct mono now, struct mono proof_deadline,
                       struct readiness *out);

#endif
