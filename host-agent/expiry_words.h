/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence of a verdict that the readiness FSM has reached. It decides nothing. CORE. */
#ifndef HOST_AGENT_EXPIRY_WORDS_H
#define HOST_AGENT_EXPIRY_WORDS_H

#include "host-agent/expiry.h"

/* Fills the message of `out`, which holds everything else of the verdict. The sentence says what
 * was seen and, where someone has to act, what to look at; it does not change while the situation
 * does not. */
void expiry_words_say(const struct expiry *x, struct readiness *out);

#endif
