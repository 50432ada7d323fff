/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence of a verdict, for people. CORE: it decides nothing. */
#ifndef HOST_AGENT_EXPIRY_WORDS_H
#define HOST_AGENT_EXPIRY_WORDS_H

#include "host-agent/expiry.h"

/* Fills the message for the state, reason and admission that stand in `out`. */
void expiry_words_say(const struct expiry *x, struct readiness *out);

#endif
