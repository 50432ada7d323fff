/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's own eyes: probes whose word can refuse pods sooner than the lease, each a witness
 * (probe/probe_state.h). Asks them and tells what they have said; what follows from that is the
 * readiness FSM's to decide. Loop thread only.
 */
#ifndef HOST_AGENT_WITNESSES_H
#define HOST_AGENT_WITNESSES_H

#include "base/attr.h"
#include "base/err.h"
#include "contract/readiness.h"

#include <stddef.h>

struct ev_loop;
struct witnesses;

/* All of them, and in words which say no, and why: "" if none does. Both borrowed. Must not free
 * the witnesses. */
typedef void witnesses_change_fn(void *user, const struct readiness_witnesses *said,
                                 const char *accusation);

struct witnesses_config {
    struct ev_loop *loop;
    char *const *probes; /* as written by the admin; borrowed, and outlives the witnesses */
    size_t count;
    const char *root; /* of the host's /sys; NULL or "": none; borrowed for as long */
    witnesses_change_fn *on_change;
    void *user;
};

/* Errors: ERR_PARSE: one makes no sense, is there twice, or asks for a service of the DPU;
 * ERR_LIMIT: too many, or one too long; ERR_NOMEM, ERR_IO. */
NODISCARD int witnesses_new(const struct witnesses_config *config, struct witnesses **out,
                            struct err *e);
/* Before the start: what a former agent of this boot had heard. Copies. */
void witnesses_recall(struct witnesses *w, const struct readiness_witnesses *known);
/* Tells what is known, then asks for the first time. */
void witnesses_start(struct witnesses *w);
void witnesses_free(struct witnesses *w); /* accepts NULL */

#endif
