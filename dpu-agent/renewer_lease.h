/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer says about the lease: holder, duration, other writers, that it is missing. CORE;
 * used by renewer.c only. */
#ifndef DPU_AGENT_RENEWER_LEASE_H
#define DPU_AGENT_RENEWER_LEASE_H

#include "dpu-agent/renewer.h"

/* When we sent the renewal that this lease shows, and whose arrival is news; MONO_NEVER: it shows
 * none. Ask before the lease is taken over. */
struct mono renewer_arrived(const struct renewer *r, const struct lease_view *lease);

/* Takes over the lease that a successful answer shows: its tree is the one to edit from now on.
 * Adds notes on what is odd about it. */
void renewer_adopt(struct renewer *r, const struct renewer_event *event,
                   struct renewer_update *out);

/* A 404: there is no lease. Decides whether we make it; overrules the backoff then. */
void renewer_miss(struct renewer *r, const struct renewer_event *event, struct renewer_update *out);

/* The API server did not answer: another one may not deny us to make it. */
void renewer_hope_to_create(struct renewer *r, const struct renewer_event *event);

/* We could not make it. */
void renewer_creation_failed(struct renewer *r, const struct renewer_event *event,
                             struct renewer_update *out);

#endif
