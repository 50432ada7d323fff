/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: lease events + now -> is the DPU ready, what to ask next, when to wake. CORE: no
 * I/O, clock, allocator, log or global; the same input gives the same output.
 *
 *               renewal                    t >= max(o + D, N), by a mark that was taken at t
 *   AWAITING ────────────▶ FRESH ───────────────────────────────▶ EXPIRED
 *      │                     ▲ ◀──────────── renewal ──────────────  │ ▲
 *      │ the DPU's report    │ renewal                       report │ │ the report ran out
 *      └──────────────────▶ REPORTED ◀───────────────────────────────┘─┘
 *
 *   DISABLED: renew interval 0; nothing happens any more.
 *
 * It rests on four ideas, which can be read one by one:
 *
 *   - history.h: what was seen on the lease; what of it is a renewal, a reboot, a report, or past
 *   - evidence.h: what the host can prove, and which time does not count against the DPU
 *   - asking.h: what to ask next and when; asking.c begins with the table of reasons
 *   - words: the sentences, a table in verdict.c
 *
 * mark.h has the outcomes of the one request that proves anything, and verdict.c what ties all to
 * the phases above: it takes the events one by one.
 *
 * docs/architecture.md, "The verdict", has the rules and what o, D, r, E, G, B, R, N and q are; the
 * comments here cite them, and each step says which it followed. Pods that lost their network are
 * no state of the DPU: they take away what any of these admits. So does a host probe that said
 * "well" in this boot and now says no.
 *
 * The shell passes each event with the time of its wake-up, performs what the update asks for, and
 * arms one timer from wake_at. It may read the struct; only the functions write it.
 */
#ifndef HOST_AGENT_VERDICT_H
#define HOST_AGENT_VERDICT_H

#include "base/time.h"
#include "contract/lease.h"
#include "contract/record.h"
#include "host-agent/asking.h"
#include "host-agent/evidence.h"
#include "host-agent/history.h"
#include "host-agent/mark.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VERDICT_FAILURE_BYTES = 320, /* of the reason why there is no evidence */
    VERDICT_PODS_BYTES = 400,    /* of the sentence about pods */
    VERDICT_RULE_BYTES = 200,    /* of the sentence about a rule */
    VERDICT_TRACE_STEPS = 12,    /* more than one event can take */
};

/* Upper bound of a duration that was set on the lease by somebody else than us; the lower one is
 * two renew intervals. The configured duration is taken as it is. */
#define VERDICT_MAX_DURATION_NS (600 * NS_PER_SEC)

#define VERDICT_HOLD_UNLIMITED INT64_MAX /* for api_outage_hold_ns */

/* Texts are borrowed. */
struct verdict_config {
    const char *lease_ns;
    const char *lease_name;
    const char *holder;
    int64_t renew_interval_ns; /* 0: the health check is disabled */
    int64_t duration_ns;       /* > renew_interval_ns; the lease's own value wins once seen */
    int64_t api_outage_hold_ns;
    bool pods_count; /* pods that lost their network make the node not ready */
};

enum verdict_event_kind {
    VERDICT_LEASE_OBSERVED,
    VERDICT_LEASE_ABSENT,     /* it does not exist: an empty list, DELETED or 404 */
    VERDICT_LEASE_UNREADABLE, /* the API server answered, but not with a lease that we can read */
    VERDICT_READ_FAILED,      /* a read got no answer */
    VERDICT_WATCH_BROKEN,     /* no list, no watch, or it ended badly: says nothing of reads */
    VERDICT_WATCH_WORKS,      /* the API server accepted a watch */
    VERDICT_MARK,             /* a mark has ended */
    VERDICT_PODS,        /* which pods of the node have lost their network; with pods_count only */
    VERDICT_HOST_PROBES, /* what the host's own probes say; at first what is known of them */
    VERDICT_TICK,        /* wake_at was reached, or any other wake-up */
};

/* How the API server came to say LEASE_* or READ_FAILED. */
enum verdict_source {
    VERDICT_BY_WATCH,
    VERDICT_BY_READ,    /* a list, or a poll */
    VERDICT_BY_CONFIRM, /* the read that `confirm` asked for */
    VERDICT_BY_MARK,    /* the mark under way, a GET of it, or the keeper's PATCH in its place */
    VERDICT_BY_KEEPER,  /* a write of the keeper's: a mark, too, but not the one under way */
};

struct verdict_event {
    enum verdict_event_kind kind;
    struct mono now;
    struct wall
        wall; /* the same moment by the host's other clock: measured with, never judged by */
    enum verdict_source source;
    /* LEASE_OBSERVED; MARK: what our own write was answered with, so that it stands in etcd, or
     * NULL. Borrowed. */
    const struct lease_view *lease;
    bool is_trial;             /* MARK: of a trial */
    struct mono started_at;    /* by a read: before the request was sent; MARK: proof_at */
    const char *failure;       /* READ_FAILED, LEASE_UNREADABLE, MARK: for people; borrowed */
    enum mark_outcome outcome; /* MARK */
    bool is_lasting;           /* LEASE_ABSENT: we may not make it anew */
    const char *pods;          /* PODS: a sentence about those that lost it; NULL: none; borrowed */
    const struct readiness_host_probes *host_probes; /* HOST_PROBES: all of them; borrowed */
    const char *accusation; /* HOST_PROBES: which of them say no, and why; for people; borrowed */
};

/* A rule of docs/architecture.md that decided something. Two numbers go with it; what they are says
 * its sentence (verdict_trace_text). */
enum verdict_rule {
    RULE_STALLED,
    RULE_STATE_IS_PAST,
    RULE_RENEWED,
    RULE_DURATION_SHORTENED,
    RULE_REPORTED,
    RULE_REPORT_IS_OVER,
    RULE_EVIDENCE,
    RULE_BLIND_SPAN_OF_FAILURES,
    RULE_BLIND_SPAN_OF_A_GAP,
    RULE_BLIND_SPAN_KNOWN_LATE,
    RULE_CONDEMNED,
    RULE_READ_IS_THE_PROOF,
    RULE_ABSENCE_IS_THE_PROOF,
    RULE_DENIAL_LASTED,
    RULE_CONFLICT_IS_NEITHER,
    RULE_FAILS, /* and the outcome of the attempt: RULE_FAILS + MARK_LOST ... */
    RULE_HOLD_IS_OVER = RULE_FAILS + MARK_OUTCOMES,
    RULE_READ_REPLACES_A_MARK,
    RULE_ASKS, /* and the reason: RULE_ASKS + ASKS_AT_THE_DEADLINE ... */
    VERDICT_RULES = RULE_ASKS + ASKING_REASONS
};

struct verdict_trace {
    struct {
        enum verdict_rule rule;
        int64_t a_ns, b_ns;
    } steps[VERDICT_TRACE_STEPS];
    size_t count;
};

struct verdict_update {
    bool verdict_changed; /* state, admit, reason or message differ: tell everybody */
    bool renewed;         /* a renewal was observed */
    bool rebooted;        /* by another boot of the DPU than before */
    bool rewrite;         /* write the record (the first two imply it) */
    bool confirm;         /* start a quorum read on a fresh connection now */
    bool mark;            /* start a mark of `lease` now */
    bool is_trial;        /* it only asks whether a mark would be taken: nothing is written */
    bool restart_watch;   /* the read showed what the watch had not: mistrust it */
    bool repair;          /* the lease is absent: let the keeper look */
    bool is_past;         /* what came is older than what is known: it is no lease to keep */
    struct mono wake_at;  /* MONO_NEVER: nothing is due */
    bool has_skew;        /* renewed: its stamp is a time */
    int64_t skew_ns; /* that stamp minus the host's wall clock: of interest, it decides nothing */
    struct verdict_trace trace; /* the rules that were followed, in their order */
};

enum verdict_phase {
    VERDICT_AWAITING,
    VERDICT_FRESH,
    VERDICT_EXPIRED,
    VERDICT_REPORTED,
    VERDICT_DISABLED,
    VERDICT_PHASE_COUNT
};

enum verdict_sight {
    VERDICT_SEES_NONE, /* not yet, or the watch told that it is gone */
    VERDICT_SEES_GONE, /* a read told so: what the watch still tells of is past */
    VERDICT_SEES_GARBLED,
    VERDICT_SEES_LEASE,
};

/* The lease as last seen, and how fresh that is. What the watch shows is up to date, unless the
 * watch is broken, requests beside it get no answer, or this process was stopped. Then it may show
 * any state that the lease had since `looked_at`. The next read that is answered ends that. */
struct sight {
    enum verdict_sight shows;
    bool has_contact; /* the last request for the lease was answered */
    bool is_watch_broken;
    struct mono blind_since; /* the watch is not trusted since; NEVER: it is */
    struct mono looked_at;   /* start of the newest read or mark that was answered */
    struct mono back_at;     /* answer to the read that found the way back, last time */
};

/* Why there is no evidence. */
struct failure {
    enum mark_outcome cause; /* of the last blind span; CONFLICT: a pause of our own, and others */
    struct mono since;       /* attempts fail for this cause */
    char text[VERDICT_FAILURE_BYTES];
};

struct verdict {
    const struct verdict_config *config; /* borrowed */
    enum verdict_phase phase;
    struct spans spans;         /* the duration is the lease's, within bounds */
    struct readiness readiness; /* as of the last step; `transition` is left to the shell */
    struct evidence evidence;   /* E, B and N: what the record carries to the next process */

    struct history history; /* of the lease: the last renewal, and what was seen */
    struct sight sight;
    struct ask read, mark; /* what is asked for */

    struct failure failure;
    bool hold_is_over; /* beyond --api-outage-hold: Unknown does not admit any more */

    struct mono next_rewrite;
    struct mono wake_due; /* as the last step asked for; waking later is a stall */

    char pods[VERDICT_PODS_BYTES];        /* that sentence; "": none has lost it */
    char accusation[NAMES_MESSAGE_BYTES]; /* of a host probe, in words */
};

/* Starts in the state that `carry` supports at `now`: the memory of a former process, its record of
 * this boot (borrowed), or NULL. Borrows `config`. */
void verdict_init(struct verdict *x, const struct verdict_config *config,
                  const struct record *carry, struct mono now);

/* One step. Fills every member of `out`. */
void verdict_step(struct verdict *x, const struct verdict_event *event, struct verdict_update *out);

/* The sentence of the i-th step of a trace, with its numbers: for a log. */
void verdict_trace_text(const struct verdict_trace *trace, size_t i,
                        char out[static VERDICT_RULE_BYTES]);

/* For the parts of the verdict: adds a step to the trace. */
void verdict_follow(struct verdict_update *out, enum verdict_rule rule, int64_t a_ns, int64_t b_ns);

/* No condemnation before: max(o + D, N). */
struct mono verdict_condemns_at(const struct verdict *x);
/* A renewal is overdue then. */
struct mono verdict_overdue_at(const struct verdict *x);
/* Attempts have failed, and a read that began since was answered. */
bool verdict_is_back(const struct verdict *x);

/* How far ahead the writer promises its next rewrite, which comes after three quarters of that: not
 * before the next renewal, which rewrites anyway, is due. */
int64_t verdict_writer_ahead_ns(const struct verdict_config *config);

/* q, the deadline of one request for evidence, in ms: several fit before the lease runs out. */
uint32_t verdict_deadline_ms(const struct verdict_config *config);

#endif
