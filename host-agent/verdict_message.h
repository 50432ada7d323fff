/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence of a verdict, for people. CORE: it decides nothing. */
#ifndef HOST_AGENT_VERDICT_WORDS_H
#define HOST_AGENT_VERDICT_WORDS_H

#include "host-agent/verdict.h"

/* Fills the message for the state, reason and admission that stand in `out`. */
void verdict_message_write(const struct verdict *x, struct readiness *out);

#endif
