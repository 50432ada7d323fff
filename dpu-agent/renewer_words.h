/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences of the renewer, and how often each may be said. CORE; used by renewer.c only. */
#ifndef DPU_AGENT_RENEWER_WORDS_H
#define DPU_AGENT_RENEWER_WORDS_H

#include "dpu-agent/renewer.h"

/* Adds a note of this kind to `out`, unless it was said less than its period ago. `event` is the
 * one being handled (its answer or message is quoted). */
void renewer_note_add(struct renewer *r, enum renewer_note_kind kind,
                      const struct renewer_event *event, struct renewer_update *out);

/* The next note of this kind is due at once. */
void renewer_note_reset(struct renewer *r, enum renewer_note_kind kind);

#endif
