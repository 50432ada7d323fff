/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mark: the write by which the host proves that the DPU has not renewed its lease. CORE.
 *
 * A mark is a merge PATCH of one annotation, with the resourceVersion of the state that is judged.
 * If the API server takes it, the server was reachable, took writes, and nobody had renewed: a fact
 * in etcd. Any other answer is followed by one GET, and both together give the outcome. A PATCH
 * that found no way to the server is LOST at once: a GET would find none either.
 *
 *   PATCH                 GET                      outcome
 *   our lease             -                        TAKEN
 *   something else        -                        NONSENSE
 *   any other             a renewal, another lease CONFLICT
 *   any other             our own text             TAKEN: only the answer was lost
 *   403 and the like      the same silence         DENIED
 *   5xx, 429, 401         the same silence         REFUSED
 *   no answer, 504        the same silence         UNANSWERED: writes fail, and the DPU's renewal
 *                                                  may have failed with this one. Always so for a
 *                                                  trial, which leaves no text
 *   409, 404              the same silence         PATCH once more; then TAKEN if it is a conflict
 *                                                  again (somebody writes, and it is not the DPU),
 *                                                  else CONFLICT
 *   any other             404                      ABSENT
 *   any other             something else           NONSENSE
 *   any other             no answer                LOST
 */
#ifndef HOST_AGENT_MARK_H
#define HOST_AGENT_MARK_H

#include "base/time.h"
#include "contract/lease.h"

#include <stdbool.h>
#include <stdint.h>

/* The answer to one request. */
enum mark_answer {
    MARK_UNSENT,    /* no connection: it cannot have taken effect */
    MARK_NO_ANSWER, /* none, or 504; to a GET one that is not about the lease: 401, 403, 5xx ... */
    MARK_GARBLED,   /* an answer that is not our lease, and no error either */
    MARK_LEASE,     /* our lease */
    MARK_CONFLICTS, /* 409 */
    MARK_NOT_FOUND, /* 404 */
    MARK_FORBIDS,   /* to a PATCH: any other 4xx, above all 403 and 422 */
    MARK_FAILS,     /* to a PATCH: 401, 429, any other 5xx */
};

enum mark_outcome {
    MARK_LOST,       /* nobody answers */
    MARK_NONSENSE,   /* the answers are not the API server's */
    MARK_UNANSWERED, /* the write is not answered, and a read shows nothing of it */
    MARK_REFUSED,    /* it takes no writes at present */
    MARK_DENIED,     /* it forbids this write: ours alone, or everybody's */
    MARK_CONFLICT,   /* somebody else writes; the next mark tells */
    MARK_ABSENT,     /* there is no lease */
    MARK_TAKEN,      /* the write stands */
    MARK_OUTCOMES    /* how many */
};

enum mark_action { MARK_PATCH, MARK_GET, MARK_END };

struct mark {
    char uid[NAMES_UID_BYTES]; /* of the state that is judged, as the next two */
    char renew_stamp[NAMES_STAMP_BYTES];
    char version[NAMES_VERSION_BYTES]; /* the PATCH's condition */
    enum mark_action action;           /* under way */
    enum mark_answer patched;          /* what the last PATCH was answered with */
    bool is_second;                    /* that PATCH was the second */
    struct mono patch_at;              /* start of the first PATCH */
    struct mono proof_at;              /* END: from when the outcome counts */
    enum mark_outcome outcome;         /* END */
};

/* A resourceVersion as a number, to compare: a hint only, for they are opaque. 0: none. */
uint64_t mark_version(const char *text);

/* Starts a mark, or a trial, of the state that `lease` shows; the first request is a PATCH. */
void mark_start(struct mark *m, const struct lease_view *lease, struct mono now);

/*
 * The request under way, sent at `sent_at`, was answered. LEASE: `lease` is what the answer shows,
 * and `has_text` says whether it carries the text of this mark. Returns what to do next; on END,
 * `outcome` and `proof_at` are set.
 */
enum mark_action mark_step(struct mark *m, enum mark_answer answer, const struct lease_view *lease,
                           bool has_text, struct mono sent_at);

const char *mark_outcome_name(enum mark_outcome outcome);

#endif
