/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host probes, which can reject Pods sooner than the lease (probe/probe_state.h). Runs them and
 * reports their results; the verdict decides. Loop thread only.
 */
#ifndef HOST_AGENT_HOST_PROBES_H
#define HOST_AGENT_HOST_PROBES_H

#include "base/err.h"
#include "contract/readiness.h"

#include <stddef.h>

struct ev_loop;
struct host_probes;

/* All of them, and in words which say no, and why: "" if none does. Both borrowed. Must not free
 * the host probes. */
typedef void host_probes_change_fn(void *user, const struct readiness_host_probes *said,
                                   const char *accusation);

struct host_probes_config {
    struct ev_loop *loop;
    char *const *probes; /* as written by the admin; borrowed, and outlives the host probes */
    size_t count;
    const char *root; /* of the host's /sys; "": none; borrowed for as long */
    host_probes_change_fn *on_change;
    void *user;
};

/* Errors: ERR_PARSE: one makes no sense, is there twice, or asks for a service of the DPU;
 * ERR_LIMIT: too many, or one too long; ERR_IO. */
NODISCARD int host_probes_new(const struct host_probes_config *config, struct host_probes **out,
                              struct err *e);
/* Before the start: what a former agent of this boot had heard. Copies. */
void host_probes_recall(struct host_probes *w, const struct readiness_host_probes *known);
/* Tells what is known, then asks for the first time. */
void host_probes_start(struct host_probes *w);
void host_probes_free(struct host_probes *w); /* accepts NULL */

#endif
