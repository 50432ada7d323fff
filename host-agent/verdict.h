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
 * NotReady is a fact in etcd: a mark (host-agent/chain.h) was taken, at or after the deadline, on
 * the very version in which the DPU had not renewed. A time without evidence, whatever its cause,
 * does not count against the DPU:
 *
 *   - o is the last renewal, as observed; D the lease duration; r the renew interval;
 *   - E is the last evidence: a renewal, or the start of a mark that was taken;
 *   - B is the blind time since o: from when evidence was due (E + r, or the first attempt that
 *     failed after that) to the next evidence, wherever an attempt failed or two pieces of evidence
 *     are more than G apart;
 *   - R is the time that a living DPU needs for one retry (contract/lease.h);
 *   - N = min(t + R, o + D + B + R) after each blind span that ended at t: no condemnation before.
 *
 * Past o + D the last state is held (Unknown) while now < N, an attempt has failed, or E is more
 * than G ago. A read looks for a renewal that is overdue. Marks are as few as evidence needs, since
 * each is a version that a renewal under way does not know: 2 r + q after the renewal, then each
 * 2 r while they are taken, each r while they fail, and exactly at the time of condemnation, with
 * none started within q before; q is the deadline of one request. An excuse postpones a refusal, it
 * never admits: what was refused stays refused until a renewal.
 *
 * Pods that lost their network are no state of the DPU: they take away what any of these admits.
 * So does a host probe that said "well" in this boot and now says no.
 *
 * The shell passes every event with the time it read at this wake-up, performs what the update
 * asks for, and arms one timer from wake_at. The struct is transparent only so that it can be
 * embedded; use the functions.
 */
#ifndef HOST_AGENT_VERDICT_H
#define HOST_AGENT_VERDICT_H

#include "base/time.h"
#include "contract/lease.h"
#include "contract/readiness.h"
#include "host-agent/chain.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    VERDICT_SEEN_BOOTS = 4,
    VERDICT_FAILURE_BYTES = 200, /* of the reason why there is no evidence */
    VERDICT_PODS_BYTES = 400,    /* of the sentence about pods */
};

/* Upper bound of a duration that was set on the lease by somebody else than us; the lower one is
 * two renew intervals. The configured duration is taken as it is. */
#define VERDICT_MAX_DURATION_NS (600 * NS_PER_SEC)

/* "Without limit" for api_outage_hold_ns. */
#define VERDICT_HOLD_UNLIMITED INT64_MAX

struct verdict_config {
    char lease_ns[NAMES_K8S_NAME_BYTES];
    char lease_name[NAMES_K8S_NAME_BYTES];
    char holder[NAMES_HOLDER_BYTES];
    int64_t renew_interval_ns; /* 0: the health check is disabled */
    int64_t duration_ns;       /* > renew_interval_ns; the lease's own value wins once seen */
    int64_t api_outage_hold_ns;
    bool pods_count; /* pods that lost their network make the node not ready */
};

/* What the record of this boot, written by a former process, remembers. */
struct verdict_carry {
    struct readiness verdict;
    struct mono hold_until; /* until then readers trusted the dead writer's last word */
};

enum verdict_event_kind {
    VERDICT_LEASE_OBSERVED,   /* the lease as a watch, read or the keeper's own write shows it */
    VERDICT_LEASE_ABSENT,     /* it does not exist: an empty list, DELETED or 404 */
    VERDICT_LEASE_UNREADABLE, /* the API server answered, but not with a lease that we can read */
    VERDICT_READ_OK,      /* a list or read was answered; what it showed was passed just before */
    VERDICT_READ_FAILED,  /* a read got no answer */
    VERDICT_WATCH_BROKEN, /* no list, no watch, or it ended badly: says nothing of reads */
    VERDICT_WATCH_WORKS,  /* the API server accepted a watch */
    VERDICT_MARK,         /* a mark has ended; what its answers showed was passed before */
    VERDICT_PODS,         /* which pods of the node have lost their network; with pods_count only */
    VERDICT_HOST_PROBES,  /* what the host's own probes say; at first what is known of them */
    VERDICT_TICK,         /* wake_at was reached, or any other wake-up */
};

enum verdict_source {
    VERDICT_BY_WATCH,
    VERDICT_BY_READ,    /* a list, or a poll */
    VERDICT_BY_CONFIRM, /* the read that `confirm` asked for, or one of a mark's */
    VERDICT_BY_WRITE,   /* the answer to a write of ours: its version stands in etcd */
};

struct verdict_event {
    enum verdict_event_kind kind;
    struct mono now;
    enum verdict_source source;     /* LEASE_*, READ_* */
    const struct lease_view *lease; /* LEASE_OBSERVED; borrowed */
    struct mono started_at;         /* READ_*: before the request was sent; MARK: proof_at */
    const char *failure;            /* READ_FAILED, LEASE_UNREADABLE, MARK: for people; borrowed */
    enum chain_outcome outcome;     /* MARK */
    bool is_lasting;                /* LEASE_ABSENT: we may not make it anew */
    const char *pods; /* PODS: a sentence about those that lost it; NULL: none; borrowed */
    const struct readiness_host_probes *host_probes; /* HOST_PROBES: all of them; borrowed */
    const char *accusation; /* HOST_PROBES: which of them say no, and why; for people; borrowed */
};

struct verdict_update {
    bool verdict_changed; /* state, admit, reason or message differ: tell everybody */
    bool renewed;         /* a renewal was observed */
    bool rebooted;        /* by another boot of the DPU than before */
    bool rewrite;         /* write the record (implied by both above) */
    bool confirm;         /* start a quorum read on a fresh connection now; none is under way */
    bool mark;            /* start a mark of verdict_lease() now; none is under way */
    bool restart_watch;   /* the read showed what the watch had not: mistrust it */
    bool repair;          /* the lease is absent: let the keeper look */
    struct mono wake_at;  /* MONO_NEVER: nothing is due */
};

enum verdict_phase {
    VERDICT_AWAITING,
    VERDICT_FRESH,
    VERDICT_EXPIRED,
    VERDICT_REPORTED,
    VERDICT_DISABLED,
    VERDICT_PHASE_COUNT
};

/* Why there was no evidence. */
enum verdict_cause {
    VERDICT_CAUSE_PAUSE,       /* we ourselves were stopped, stalled or restarted */
    VERDICT_CAUSE_UNREACHABLE, /* no answer */
    VERDICT_CAUSE_UNREADABLE,  /* none that makes sense */
    VERDICT_CAUSE_NO_WRITES,   /* the API server refuses the mark */
    VERDICT_CAUSE_DENIED,      /* it forbids the mark */
    VERDICT_CAUSE_ABSENT,      /* there is no lease to mark */
    VERDICT_CAUSE_SHORTER,     /* the duration on the lease became shorter */
};

/* What the DPU says of itself: a lease of its own. */
struct verdict_report {
    char uid[NAMES_UID_BYTES]; /* of the lease it stands on; "": none stands */
    enum lease_health health;
    char stamp[NAMES_STAMP_BYTES];
    struct mono since;   /* when it began; kept when it has ended */
    struct mono renewed; /* when it, or its stamp, was first seen */
    bool over;           /* a leftover: the DPU went on renewing without it */
};

/* The lease as last seen. */
enum verdict_sight {
    VERDICT_SEES_NONE,    /* not yet, or the watch told that it is gone */
    VERDICT_SEES_GONE,    /* a read told so: what the watch still tells of is past */
    VERDICT_SEES_GARBLED, /* an answer that is no lease */
    VERDICT_SEES_LEASE,
};

/* With the API server. */
enum verdict_contact {
    VERDICT_CONTACT_AWAITED, /* nobody has answered yet */
    VERDICT_CONTACT_STANDS,  /* the last request for the lease was answered */
    VERDICT_CONTACT_LOST,    /* it was not */
};

struct verdict {
    const struct verdict_config *config; /* borrowed */
    enum verdict_phase phase;
    struct readiness verdict;

    /* The last renewal. Without one, `observed` is when waiting began. */
    struct mono observed;          /* o */
    char stamp[NAMES_STAMP_BYTES]; /* its renewTime; "": there was none */
    int64_t duration_ns;           /* D: the lease's, within bounds */
    int64_t last_gap_ns;           /* between the last two renewals; 0 if unknown */

    bool is_first_look; /* since we started: another stamp than the record's was made meanwhile */
    enum verdict_sight sight;
    struct lease_view lease;           /* the last one that was seen; uid "": none was */
    struct mono stamp_seen_at;         /* its stamp, for the first time */
    char old_stamp[NAMES_STAMP_BYTES]; /* of the last older state that a read showed, ... */
    struct mono old_since;             /* ... for the first time; 0: none was seen */
    struct wall newest;                /* the latest stamp ever known; 0: none */
    struct verdict_report report;
    char boots[VERDICT_SEEN_BOOTS][NAMES_BOOT_ID_BYTES]; /* of the DPU, the latest first */

    /* Evidence. */
    struct mono evidence;   /* E */
    struct mono failing;    /* since when; 0: the last attempt did not fail */
    int64_t blind_ns;       /* B */
    struct mono not_before; /* N; 0: o + D alone decides */
    enum verdict_cause cause;
    char failure[VERDICT_FAILURE_BYTES];
    bool hold_is_over;        /* what is held no longer admits */
    struct mono denied_since; /* marks are forbidden, and no outage came between; 0: they are not */

    /* Sight: while it is impaired, what is seen may have happened any time since `looked_at`. */
    enum verdict_contact contact;
    bool watch_broken;
    struct mono blind_since;   /* the watch broke or we were stalled; NEVER: a read was answered */
    struct mono blind_read_at; /* a read takes the watch's place from then on */
    struct mono looked_at;     /* start of the newest read or mark that was answered */

    /* What is asked for: one read and one mark at a time. */
    bool is_marked; /* once, in a try, to know whether we may */
    bool confirm_pending, mark_pending;
    struct mono last_confirm, next_confirm;
    struct mono last_mark, next_mark;
    struct mono next_rewrite;
    struct mono wake_due; /* as the last step asked for; waking later is a stall */

    char pods[VERDICT_PODS_BYTES];        /* that sentence; "": none has lost it */
    char accusation[NAMES_MESSAGE_BYTES]; /* of a host probe, in words */
};

/* Starts in the state that `carry` (borrowed; NULL if there is no usable record of this boot)
 * supports at `now`; verdict_readiness tells which. Borrows `config`. Step with VERDICT_TICK at
 * once.
 */
void verdict_init(struct verdict *x, const struct verdict_config *config,
                  const struct verdict_carry *carry, struct mono now);

/* One step. Fills every member of `out`. */
void verdict_step(struct verdict *x, const struct verdict_event *event, struct verdict_update *out);

/* The verdict as of the last step; `transition` is left to the shell. Borrowed. */
const struct readiness *verdict_readiness(const struct verdict *x);

/* The state of the lease that is judged: what a mark is made of. Borrowed. */
const struct lease_view *verdict_lease(const struct verdict *x);

enum verdict_contact verdict_contact(const struct verdict *x);

/*
 * How far ahead the writer promises its next rewrite: 1.5 renew intervals, but no more than the
 * duration leaves after one interval. It rewrites after three quarters of that, which is not before
 * the next renewal is due: what a renewal writes need not be written again.
 */
int64_t verdict_writer_ahead_ns(const struct verdict_config *config);

/* Deadline of one request for evidence in ms, so that several fit before the lease runs out. */
uint32_t verdict_deadline_ms(const struct verdict_config *config);

#endif
