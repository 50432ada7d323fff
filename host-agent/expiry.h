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
 * The rules it enforces (docs/architecture.md):
 *  - Expiry is counted on the host's boot-time clock from the moment a renewal was *observed*. A
 *    renewal is a renewTime text not seen before, on a lease held by the expected holder.
 *  - EXPIRED needs proof: a successful quorum read that was *started* at or after the deadline and
 *    shows no renewal. Without proof the last readiness is held (HOLDING).
 *  - Time without API contact does not count against the DPU: after contact is regained it gets
 *    two renew intervals (at most the lease duration) before silence is proof again. The sum of
 *    these extensions is bounded by the time really lost, so that a flapping API cannot keep a
 *    dead DPU alive.
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
    EXPIRY_SEEN_STAMPS = 8,     /* an older state of the lease (stale read) is no renewal */
    EXPIRY_FAILURE_BYTES = 200, /* of the reason why the API cannot be read */
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
};

/* What the record of this boot, written by a former process, remembers. */
struct expiry_carry {
    struct readiness verdict;
    struct mono hold_until; /* until then readers trusted the dead writer's last word */
};

enum expiry_event_kind {
    EXPIRY_LEASE_OBSERVED, /* the lease as a list, watch, read or the keeper's own write shows it */
    EXPIRY_LEASE_ABSENT,   /* it does not exist: an empty list, DELETED or 404 */
    EXPIRY_READ_OK,        /* a list or read succeeded; what it showed was passed in just before */
    EXPIRY_READ_FAILED,    /* a list, watch or read failed: no contact */
    EXPIRY_CONTACT,        /* the API server accepted a watch: contact, but no proof */
    EXPIRY_TICK,           /* wake_at was reached, or any other wake-up */
};

struct expiry_event {
    enum expiry_event_kind kind;
    struct mono now;
    const struct lease_view *lease; /* LEASE_OBSERVED; borrowed */
    bool by_confirm;                /* LEASE_OBSERVED: shown by the read that `confirm` asked for */
    struct mono started_at;         /* READ_OK: before the request was sent */
    const char *failure;            /* READ_FAILED: what failed, for people; borrowed */
};

struct expiry_update {
    bool verdict_changed; /* state, admit, reason or message differ: tell every sink */
    bool renewed;         /* a renewal was observed */
    bool rewrite;         /* write the record (implied by both above) */
    bool confirm;         /* start a quorum read on a fresh connection now, in place of any older */
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
    EXPIRY_HOLD_OUTAGE,  /* the API server cannot be read */
    EXPIRY_HOLD_GRACE,   /* it can again: the DPU has time to renew */
    EXPIRY_HOLD_STALL,   /* we ourselves were stopped or stalled past the deadline */
    EXPIRY_HOLD_RESTART, /* we were restarted after the deadline */
};

struct expiry {
    struct expiry_config config;
    enum expiry_phase phase;
    struct readiness verdict;

    /* The last observation. Without one, `observed` is when waiting began. */
    bool has_observation;
    struct mono observed;
    char observed_stamp[NAMES_STAMP_BYTES]; /* the renewTime of that observation */
    int64_t duration_ns;                    /* in force: the lease's, within bounds */
    int64_t last_gap_ns;                    /* between the last two renewals; 0 if unknown */
    char seen[EXPIRY_SEEN_STAMPS][NAMES_STAMP_BYTES];
    uint32_t seen_next;

    /* The lease as last seen. */
    bool lease_known; /* it was seen, present or absent, since we started */
    bool lease_present;
    struct lease_view lease;
    char report_uid[NAMES_UID_BYTES]; /* "": no report stands */
    uint32_t report_renewals;         /* seen while it stands; two disprove it */

    /* Contact with the API server. */
    bool contact_made; /* ever, since we started */
    bool contact_lost;
    struct mono lost_at;
    int64_t lost_total_ns;    /* since `observed` */
    struct mono grace_until;  /* 0: none */
    struct mono last_read_at; /* start of the newest successful read */
    char failure[EXPIRY_FAILURE_BYTES];

    enum expiry_hold_cause hold_cause;
    struct mono hold_since;
    bool hold_admit;
    bool carry_pending; /* the first look at the lease decides what the carried record is worth */
    struct mono last_confirm; /* start of the newest confirming read */
    struct mono next_confirm;
    struct mono next_rewrite;
};

/* Starts in the state that `carry` (borrowed; NULL if there is no usable record of this boot)
 * supports at `now`; expiry_verdict tells which. Copies `config`. Step with EXPIRY_TICK at once. */
void expiry_init(struct expiry *x, const struct expiry_config *config,
                 const struct expiry_carry *carry, struct mono now);

/* One step. Fills every member of `out`. */
void expiry_step(struct expiry *x, const struct expiry_event *event, struct expiry_update *out);

/* The verdict as of the last step; `transition` is left to the shell. Borrowed. */
const struct readiness *expiry_verdict(const struct expiry *x);

/*
 * How far ahead the writer promises its next rewrite: 1.5 renew intervals, but no more than the
 * duration leaves after one interval, so that a writer that stops right after its promise can
 * never make a living DPU look dead. It rewrites every two thirds of that.
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
