/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose network is lost, and which sandbox to stop next? Evidence per pod sandbox + now -> both.
 * CORE: no I/O, clock, allocator, log or global.
 *
 *           evidence of loss           for the debounce        its turn          may go
 *   (whole) ────────────────▶ SUSPECT ────────────────▶ LOST ──────────▶ ASKING ─────────▶ STOPPING
 *      ▲                         │                      │ ▲ ▲               │                │  │
 *      └─ evidence that it is there, or no such ────────┘ │ └─── may not, or failed ─────────┘  │
 * done sandbox any more                                └─────────── still there ── STOPPED ◀─┘
 *
 *  - Only what is seen counts: a sandbox that cannot be looked at stays what it was, but is not
 *    stopped on old evidence. What is whole is not kept, so a restart of ours changes nothing but
 *    that the debounce begins anew.
 *  - Sandboxes are stopped only while the DPU has been ready for the settle time, and not before so
 *    much has passed since the loss: a DPU that fell silent with it is known to be dead by then.
 *    One at a time, oldest first, with a gap that varies. One that cannot be stopped backs off.
 *  - Right before a stop the pod is asked about, and its network looked at once more: only a pod
 *    that is known to start again, and has no network at that moment, is stopped.
 *
 * The struct is transparent only so that it can be embedded; it is large.
 */
#ifndef RESET_RESET_H
#define RESET_RESET_H

#include "base/attr.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RESET_ID_BYTES = 129, RESET_SANDBOXES_MAX = 1024 };

#define RESET_RETRY_BASE_NS  (10 * NS_PER_SEC)  /* after the first failure; then twice that ... */
#define RESET_RETRY_MAX_NS   (300 * NS_PER_SEC) /* ... and so on */
#define RESET_STILL_THERE_NS (60 * NS_PER_SEC)  /* stopped, and yet shown as ready: tried again */

struct reset_config {
    int64_t debounce_ns;
    int64_t settle_ns; /* of the DPU */
    int64_t gap_ns;    /* between two stops, on average */
    bool stops;        /* else only told */
    uint64_t seed;     /* of the jitter */
};

enum reset_evidence {
    RESET_UNCLEAR, /* also: gone from its namespace, its device being nowhere to be seen */
    RESET_WHOLE,
    RESET_GONE,
};

/* Will the kubelet make the pod a new sandbox? */
enum reset_policy {
    RESET_POLICY_UNKNOWN, /* nobody says, or the pod is ending: asked again later */
    RESET_POLICY_NEVER,   /* it would end the pod, or count against it; for good */
    RESET_POLICY_RESTARTS,
};

enum reset_state { RESET_SUSPECT, RESET_LOST, RESET_ASKING, RESET_STOPPING, RESET_STOPPED };

struct reset_sandbox {
    char id[RESET_ID_BYTES];
    struct wall made;
    enum reset_state state;
    struct mono gone_since; /* the first evidence of loss */
    struct mono seen_at;    /* the newest evidence of loss */
    struct mono not_before;
    uint32_t failures;
    bool is_by_device; /* as the newest evidence has it */
    bool is_spared;    /* RESET_POLICY_NEVER */
    bool is_listed;    /* in the scan under way */
};

enum reset_event_kind {
    RESET_SEEN,    /* a sandbox, in a scan: at its end something may be due */
    RESET_SCANNED, /* the scan was complete: who was not in it is no more */
    RESET_DPU,     /* it is ready, or is not */
    RESET_ANSWER,  /* to the question whether it may be stopped, with a look right now */
    RESET_DONE,    /* the stop that was asked for */
    RESET_TICK,
};

struct reset_event {
    enum reset_event_kind kind;
    struct mono now;
    const char *id;               /* SEEN, ANSWER, DONE; borrowed */
    struct wall made;             /* SEEN */
    enum reset_evidence evidence; /* SEEN, ANSWER */
    bool is_by_device;            /* SEEN, of RESET_GONE: no pod can make it look so */
    enum reset_policy policy;     /* ANSWER */
    bool is_ready;                /* DPU */
    bool is_stopped;              /* DONE */
};

enum reset_turn { RESET_NO_TURN, RESET_TURN_LOST, RESET_TURN_BACK };

struct reset_update {
    enum reset_turn turn; /* of the sandbox that was seen; BACK: it had been lost */
    bool count_changed;   /* of those that are lost */
    const char *ask;      /* may this one be stopped? report by ANSWER; both borrowed until ... */
    const char *stop;     /* ... the next step: stop this one now, and report by DONE */
    struct mono wake_at;  /* MONO_NEVER: nothing is due */
};

struct reset {
    struct reset_config config;
    struct reset_sandbox sandboxes[RESET_SANDBOXES_MAX];
    size_t count;
    size_t lost;            /* LOST, STOPPING and STOPPED */
    struct mono settled_at; /* MONO_NEVER: the DPU is not ready */
    struct mono next_stop;
    bool is_busy; /* one is ASKING or STOPPING */
    uint64_t chance;
};

void reset_init(struct reset *x, const struct reset_config *config);

/* One step. Fills every member of `out`. Beyond RESET_SANDBOXES_MAX nothing is remembered. */
void reset_step(struct reset *x, const struct reset_event *event, struct reset_update *out);

#endif
