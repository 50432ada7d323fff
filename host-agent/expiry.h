/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readiness FSM: lease events + now -> the verdict, what to do, when to wake. CORE: no I/O,
 * clock, allocator, log or global; the same input gives the same output.
 *
 *                    renewal seen                 ran out, API unreadable or we were stalled
 *   AWAITING ───────────────────────▶ FRESH ───────────────────────────────▶ HOLDING
 *      │                              │  ▲ ◀──────── renewal seen ───────────── │
 *      │ a lease duration of     proof│  │renewal seen                          │ proof
 *      │ silence, with proof          ▼  │                                      │
 *      └───────────────────────────▶ EXPIRED ◀──────────────────────────────────┘
 *
 *   REPORTED: entered from any of them when the DPU says it is unhealthy or shutting down, left to
 *   FRESH by the next renewal. DISABLED: interval 0; nothing happens any more.
 *
 *   Pods that lost their network are no state of the DPU: they take away what any of these admits.
 *   So does a witness, a probe of the host's own, that said "well" in this boot and now says no;
 *   not where the health check is off.
 *
 * The rules it enforces (docs/architecture.md):
 *  - Expiry is counted on the host's boot-time clock from the moment a renewal was *observed*. A
 *    renewal is a renewTime text not seen before, on a lease held by the expected holder. One that
 *    was made while the host could not look is dated by the distance of the DPU's own stamps.
 *  - EXPIRED needs proof: a successful quorum read that was *started* at or after the deadline and
 *    shows no renewal. Without proof the last readiness is held (HOLDING).
 *  - Silence is proof only while others are heard: a control, the Lease of this node's kubelet, has
 *    to show that the same API server took a write since.
 *  - An answer is an answer. Only a read that gets none is lost contact; a lease that cannot be
 *    read shows no renewal, and a broken watch only means that reads take its place.
 *  - Time without API contact does not count against the DPU: after contact is regained it gets
 *    the time of one retry of its own (contract/lease_pace.h) before silence is proof again. The
 *    sum of these extensions is bounded by the time really lost, so that a flapping API cannot keep
 *    a dead DPU alive.
 *  - Nothing is alive until it has been seen alive: the first state of a lease is a baseline.
 *
 * The shell passes every event with the time it read at this wake-up, performs what the update
 * asks for, and arms one timer from wake_at. The struct is transparent only so that it can be
 * embedded; use the functions.
 */
#ifndef HOST_AGENT_EXPIRY_H
#define HOST_AGENT_EXPIRY_H

#include "base/mono.h"
#include "contract/lease_view.h"
#include "contract/readiness.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    EXPIRY_SEEN_BOOTS = 4,
    EXPIRY_SEEN_STAMPS = 8,     /* an older state of the lease (stale read) is no renewal */
    EXPIRY_FAILURE_BYTES = 200, /* of the reason why the API cannot be read */
    EXPIRY_PODS_BYTES = 400,    /* of the sentence about pods */
};

/* Upper bound of a duration that was set on the lease by somebody else than us; the lower one is
 * two renew intervals. The configured duration is taken as it is. */
#define EXPIRY_MAX_DURATION_NS (600 * NS_PER_SEC)

/* "Without limit" for api_outage_hold_ns. */
#define EXPIRY_HOLD_UNLIMITED INT64_MAX

struct expiry_config {
    char lease_ns[NAMES_K8S_NAME_BYTES];
    char lease_name[NAMES_K8S_NAME_BYTES];
    char holder[NAMES_HOLDER_BYTES];
    int64_t renew_interval_ns; /* 0: the health check is disabled */
    int64_t duration_ns;       /* > renew_interval_ns; the lease's own value wins once seen */
    int64_t api_outage_hold_ns;
    bool pods_count; /* pods that lost their network make the node not ready */
};

/* What the record of this boot, written by a former process, remembers. */
struct expiry_carry {
    struct readiness verdict;
    struct mono hold_until; /* until then readers trusted the dead writer's last word */
};

enum expiry_event_kind {
    EXPIRY_LEASE_OBSERVED,   /* the lease as a watch, read or the keeper's own write shows it */
    EXPIRY_LEASE_ABSENT,     /* it does not exist: an empty list, DELETED or 404 */
    EXPIRY_LEASE_UNREADABLE, /* the API server answered, but not with a lease that we can read */
    EXPIRY_READ_OK,      /* a list or read was answered; what it showed was passed just before */
    EXPIRY_READ_FAILED,  /* a read got no answer: no contact */
    EXPIRY_WATCH_BROKEN, /* no list, no watch, or it ended badly: says nothing of reads */
    EXPIRY_WATCH_WORKS,  /* the API server accepted a watch */
    EXPIRY_CONTROL,      /* the outcome of the look that `look` asked for */
    EXPIRY_PODS,         /* which pods of the node have lost their network; with pods_count only */
    EXPIRY_WITNESSES,    /* what the host's own probes say; at first what is known of them */
    EXPIRY_TICK,         /* wake_at was reached, or any other wake-up */
};

enum expiry_source {
    EXPIRY_BY_WATCH,
    EXPIRY_BY_READ,    /* a list, a poll, or the answer to a write */
    EXPIRY_BY_CONFIRM, /* the read that `confirm` asked for */
};

/* What became of a look at the control. */
enum expiry_control {
    EXPIRY_CONTROL_UNKNOWN,    /* not looked at since the last renewal */
    EXPIRY_CONTROL_SEEN,       /* it shows a stamp */
    EXPIRY_CONTROL_NONE,       /* it does not exist, or we may not read it */
    EXPIRY_CONTROL_UNREADABLE, /* answered, but not with a lease */
    EXPIRY_CONTROL_LOST,       /* no answer */
};

struct expiry_event {
    enum expiry_event_kind kind;
    struct mono now;
    enum expiry_source source;      /* LEASE_*, READ_* */
    const struct lease_view *lease; /* LEASE_OBSERVED; CONTROL that was seen; borrowed */
    struct mono started_at;         /* READ_OK: before the request was sent */
    const char *failure;            /* READ_FAILED, LEASE_UNREADABLE: for people; borrowed */
    enum expiry_control control;    /* CONTROL */
    const char *pods; /* PODS: a sentence about those that lost it; NULL: none; borrowed */
    const struct readiness_witnesses *witnesses; /* WITNESSES: all of them; borrowed */
    const char *accusation; /* WITNESSES: which of them say no, and why; for people; borrowed */
    struct mono control_at; /* CONTROL: when its writer, on this machine, wrote it; 0: unknown */
};

struct expiry_update {
    bool verdict_changed; /* state, admit, reason or message differ: tell everybody */
    bool renewed;         /* a renewal was observed */
    bool rebooted;        /* by another boot of the DPU than before */
    bool rewrite;         /* write the record (implied by both above) */
    bool confirm;         /* start a quorum read on a fresh connection now; none is under way */
    bool look;            /* read the control now; no look is under way */
    bool restart_watch;   /* the read showed what the watch had not: mistrust it */
    bool repair;          /* the lease is absent: let the keeper look */
    struct mono wake_at;  /* MONO_NEVER: nothing is due */
};

enum expiry_phase {
    EXPIRY_AWAITING,
    EXPIRY_FRESH,
    EXPIRY_HOLDING,
    EXPIRY_EXPIRED,
    EXPIRY_REPORTED,
    EXPIRY_DISABLED,
    EXPIRY_PHASE_COUNT
};

enum expiry_hold_cause {
    EXPIRY_HOLD_OUTAGE,      /* the API server cannot be read */
    EXPIRY_HOLD_UNANSWERED,  /* it has not answered yet */
    EXPIRY_HOLD_UNREADABLE,  /* it answers, but nothing that it says makes sense */
    EXPIRY_HOLD_NOT_WRITING, /* nobody else's write is seen either */
    EXPIRY_HOLD_GRACE,       /* silence is no proof yet: see expiry_grace_cause */
    EXPIRY_HOLD_STALL,       /* we ourselves were stopped or stalled past the deadline */
    EXPIRY_HOLD_RESTART,     /* we were restarted after the deadline */
};

/* Why the DPU is given time although the lease ran out. */
enum expiry_grace_cause {
    EXPIRY_GRACE_OUTAGE,  /* the API server could not be read */
    EXPIRY_GRACE_WRITES,  /* it took no writes */
    EXPIRY_GRACE_RESTART, /* it renewed while we were away, nobody knows when */
    EXPIRY_GRACE_SHORTER, /* the duration on the lease became shorter */
    EXPIRY_GRACE_BACK,    /* its stamps went back: a stepped clock, or an old state of the lease */
};

/* The Lease of this node's kubelet, since the last renewal of the DPU's. */
struct expiry_control_view {
    enum expiry_control state;
    bool under_way;       /* a look, */
    struct mono asked_at; /* ... since then */
    bool moved;           /* two looks showed two stamps */
    bool graced;          /* after it had stood still: once a silence */
    int64_t still_ns;     /* standing at one stamp for longer is standing still */
    char stamp[NAMES_STAMP_BYTES];
    uint64_t version;       /* resourceVersion, as a number; 0: none */
    struct mono since;      /* it stands at that stamp */
    struct mono written_at; /* by our own clock; 0: unknown */
    struct mono looked_at;  /* the newest look that showed it */
};

/* What the DPU says of itself: a lease of its own. */
struct expiry_report {
    char uid[NAMES_UID_BYTES]; /* of the lease it stands on; "": none stands */
    enum lease_health health;
    char stamp[NAMES_STAMP_BYTES];
    struct mono renewed; /* when it, or its stamp, was first seen */
    bool over;           /* a leftover: the DPU went on renewing without it */
};

struct expiry_boot {
    char id[NAMES_BOOT_ID_BYTES]; /* of the DPU that renews; "": it does not say */
    char seen[EXPIRY_SEEN_BOOTS][NAMES_BOOT_ID_BYTES];
    uint32_t seen_next;
};

struct expiry {
    struct expiry_config config;
    enum expiry_phase phase;
    struct readiness verdict;

    /* The last observation. Without one, `observed` is when waiting began. */
    bool has_observation;
    bool observed_wall_valid;
    struct mono observed;
    char observed_stamp[NAMES_STAMP_BYTES]; /* the renewTime of that observation */
    struct wall observed_wall;              /* the same, as a time */
    int64_t duration_ns;                    /* in force: the lease's, within bounds */
    int64_t last_gap_ns;                    /* between the last two renewals; 0 if unknown */
    char seen[EXPIRY_SEEN_STAMPS][NAMES_STAMP_BYTES];
    uint32_t seen_next;

    /* The lease as last seen. */
    bool lease_known; /* it was seen since we started */
    bool lease_present;
    bool lease_unreadable;
    bool went_back; /* its last stamp was older than the observed one; not counted */
    char unreadable[EXPIRY_FAILURE_BYTES]; /* what is wrong with it */
    struct lease_view lease;
    struct mono stamp_seen_at; /* its stamp, for the first time */
    uint64_t highest_version;  /* resourceVersion, as a number; 0: none */
    struct mono went_back_at;  /* when that was first seen: a sign of life, or an old state */
    struct expiry_report report;
    struct expiry_boot boot;

    /* Contact with the API server. */
    bool contact_made; /* ever, since we started */
    bool contact_lost;
    struct mono lost_at;
    int64_t lost_total_ns;    /* since `observed` */
    struct mono proof_after;  /* silence is no proof before; 0: the run-out alone decides */
    struct mono last_read_at; /* start of the newest answered read */
    char failure[EXPIRY_FAILURE_BYTES];

    /* Sight: while blind, what is seen may have happened any time since `sighted_at`. */
    bool watch_broken;
    bool blind; /* the watch was broken, or we were stalled, and no read was answered since */
    bool gone_by_read; /* a read, not the watch, found the lease absent */
    struct mono blind_since;
    struct mono blind_read_at; /* a read takes its place from then on */
    struct mono sighted_at;
    struct expiry_control_view control;

    char pods[EXPIRY_PODS_BYTES];         /* that sentence; "": none has lost it */
    char accusation[NAMES_MESSAGE_BYTES]; /* of a witness, in words */
    enum expiry_hold_cause hold_cause;
    enum expiry_grace_cause grace_cause;
    bool hold_admit;
    bool carry_pending;   /* the first look at the lease decides what the carried record is worth */
    bool confirm_pending; /* a confirming read is under way */
    struct mono last_confirm; /* start of the newest confirming read */
    struct mono next_confirm;
    struct mono next_rewrite;
    struct mono wake_due; /* as the last step asked for; waking later is a stall */
};

/* Starts in the state that `carry` (borrowed; NULL if there is no usable record of this boot)
 * supports at `now`; expiry_verdict tells which. Copies `config`. Step with EXPIRY_TICK at once. */
void expiry_init(struct expiry *x, const struct expiry_config *config,
                 const struct expiry_carry *carry, struct mono now);

/* One step. Fills every member of `out`. */
void expiry_step(struct expiry *x, const struct expiry_event *event, struct expiry_update *out);

/* The verdict as of the last step; `transition` is left to the shell. Borrowed. */
const struct readiness *expiry_verdict(const struct expiry *x);

/* With the API server. */
enum expiry_contact {
    EXPIRY_CONTACT_AWAITED, /* nobody has answered yet */
    EXPIRY_CONTACT_STANDS,  /* the last read was answered */
    EXPIRY_CONTACT_LOST,    /* it was not */
};
enum expiry_contact expiry_contact(const struct expiry *x);

/*
 * How far ahead the writer promises its next rewrite: 1.5 renew intervals, but no more than the
 * duration leaves after one interval, so that a writer that stops right after its promise can
 * never make a living DPU look dead. It rewrites after three quarters of that, which is not before
 * the next renewal is due: what a renewal writes need not be written again.
 */
int64_t expiry_writer_ahead_ns(const struct expiry_config *config);

/*
 * What a record written at `now` promises: the writer will have rewritten by then. Readers call
 * the lease expired only within this promise, so beyond valid_until it is given only if the early
 * reads went well: a writer that dies without knowing that it was cut off must not accuse.
 */
struct mono expiry_writer_until(const struct expiry *x, struct mono now);

/* Deadline of one confirming read in ms, so that several fit before the lease runs out. */
uint32_t expiry_confirm_deadline_ms(const struct expiry_config *config);

#endif
