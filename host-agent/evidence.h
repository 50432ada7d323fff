/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence: what the host can prove about the writes that the API server took, and for how long
 * nobody could have proven anything. CORE.
 *
 * A piece of evidence is a renewal, or the begin of a mark that was taken: up to then nobody had
 * renewed but the DPU. Where such pieces lie too far apart, or attempts have failed between them,
 * a blind span is closed, which does not count against the DPU (docs/architecture.md, rule 3).
 *
 * `struct evidence` (contract/record.h) holds E, B and N of docs/architecture.md, "The verdict".
 * Each function below is one sentence of that page.
 */
#ifndef HOST_AGENT_EVIDENCE_H
#define HOST_AGENT_EVIDENCE_H

#include "base/time.h"
#include "contract/record.h"

#include <stdbool.h>
#include <stdint.h>

/* What the rules count with. */
struct spans {
    int64_t interval_ns; /* r, of the DPU's renewals */
    int64_t deadline_ns; /* q, of one request of ours */
    int64_t duration_ns; /* D, of the lease */
};

int64_t spans_gap_ns(const struct spans *s);   /* G */
int64_t spans_retry_ns(const struct spans *s); /* R */

/* An attempt since E has failed. */
bool evidence_is_failing(const struct evidence *e);

/* More than G lies between E, or N, and `t`: the host was stopped, or met conflicts only. Nobody
 * knows what the API server would have taken in that time, so that it is a blind span. */
bool evidence_is_gap(const struct evidence *e, const struct spans *s, struct mono t);
/* The first moment at which it does. */
struct mono evidence_gap_at(const struct evidence *e, const struct spans *s);

/* No condemnation before: max(o + D, N). `run_out` is o + D, here and below. */
struct mono evidence_condemns_at(const struct evidence *e, struct mono run_out);

/* How a piece of evidence followed the one before. */
enum evidence_link {
    EVIDENCE_FOLLOWS,       /* in time */
    EVIDENCE_AFTER_FAILURE, /* attempts had failed: a blind span is closed */
    EVIDENCE_AFTER_GAP,     /* nobody had asked, or met conflicts only: likewise */
};

/* In all that was asked of the API server up to `t`, nobody had renewed; it is known `now`. */
enum evidence_link evidence_take(struct evidence *e, const struct spans *s, struct mono run_out,
                                 struct mono t, struct mono now);

/* An attempt that was started at `t` gave none, and it is known `now`; the last renewal was made at
 * `observed`. False if that renewal came after it: then it says nothing. */
bool evidence_miss(struct evidence *e, const struct spans *s, struct mono observed, struct mono t,
                   struct mono now);

/* A renewal, made at `observed` and seen `now`: B and N become 0. */
void evidence_renew(struct evidence *e, const struct spans *s, struct mono observed,
                    struct mono now);

/* The duration became shorter; before, nobody could be condemned until `before`. True if that gives
 * the DPU the time of a retry. */
bool evidence_shorten(struct evidence *e, const struct spans *s, struct mono run_out,
                      struct mono before, struct mono now);

/* As a record left it, with a renewal at `observed`: no restart grants anything anew. */
void evidence_restore(struct evidence *e, const struct spans *s, struct mono observed,
                      struct mono now);

#endif
