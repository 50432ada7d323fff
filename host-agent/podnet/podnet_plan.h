/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Pods have lost their network, and which sandbox to stop next? Evidence per pod sandbox +
 * now -> both. CORE: no I/O, clock, allocator, log or global.
 *
 *           evidence of loss           for the debounce        its turn
 *   (whole) ────────────────▶ SUSPECT ────────────────▶ LOST ──────────▶ IN_HAND: asked about,
 *      ▲                         │                      │ ▲                 │     then stopped
 *      └─ evidence that it is there, or listed no more ─┘ └ may not, done, ─┘
 *                                                           or failed
 *
 *  - Only what is seen counts: a sandbox that cannot be looked at stays what it was, but is not
 *    stopped on old evidence.
 *  - Sandboxes are stopped only while the DPU has been ready for the settle time, and not before so
 *    much has passed since the loss: a DPU that fell silent with it is known to be dead by then.
 *    One at a time, oldest first, with a gap that varies. One that cannot be stopped backs off.
 *  - Right before a stop the pod is asked about, and its network looked at once more: only a pod
 *    that is known to start again, and has no network at that moment, is stopped.
 */
#ifndef PODNET_PODNET_PLAN_H
#define PODNET_PODNET_PLAN_H

#include "base/time.h"
#include "probe/pod_net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PODNET_RETRY_BASE_NS  (10 * NS_PER_SEC)  /* after the first failure; then twice that ... */
#define PODNET_RETRY_MAX_NS   (300 * NS_PER_SEC) /* ... and so on */
#define PODNET_STILL_THERE_NS (60 * NS_PER_SEC)  /* stopped, and yet shown as ready: tried again */

struct podnet_plan_config {
    int64_t debounce_ns;
    int64_t settle_ns; /* of the DPU */
    int64_t gap_ns;    /* between two stops, on average */
    bool stops;        /* else only told */
    uint64_t seed;     /* of the jitter */
};

/* Will the kubelet make the pod a new sandbox? */
enum podnet_policy {
    PODNET_POLICY_UNKNOWN, /* nobody says, or the pod is ending: asked again later */
    PODNET_POLICY_NEVER,   /* it would end the pod, or count against it; for good */
    PODNET_POLICY_RESTARTS,
};

enum podnet_state {
    PODNET_UNSUSPECTED,
    PODNET_SUSPECT,
    PODNET_LOST, /* from here on it counts as lost */
    PODNET_IN_HAND,
};

/* The state of one sandbox. The shell has it in its own, zeroed at first but for `made`, and
 * puts it into the plan's list; out of that after PODNET_ENDED. */
struct podnet_loss {
    struct podnet_loss *next;
    struct wall made;
    enum podnet_state state;
    struct mono gone_since; /* the first evidence of loss */
    struct mono seen_at;    /* the newest evidence of loss */
    struct mono not_before;
    int64_t retry_ns;  /* the last wait after a failure; 0: it did not fail */
    bool is_by_device; /* as the newest evidence has it */
    bool is_spared;    /* PODNET_POLICY_NEVER */
};

enum podnet_event_kind {
    PODNET_SEEN,    /* a sandbox, in a scan: at its end something may be due */
    PODNET_ENDED,   /* it is listed no more; not for one that is_in_hand */
    PODNET_SCANNED, /* the scan is complete */
    PODNET_DPU,     /* it is ready, or is not */
    PODNET_ANSWER,  /* to the question whether it may be stopped, with a look right now */
    PODNET_DONE,    /* the stop that was asked for; each is told once */
    PODNET_TICK,
};

struct podnet_event {
    enum podnet_event_kind kind;
    struct mono now;
    struct podnet_loss *about;      /* SEEN, ENDED, ANSWER, DONE */
    enum pod_net_evidence evidence; /* SEEN, ANSWER; what is neither WHOLE nor LOST is unclear */
    bool is_by_device;              /* SEEN, of POD_NET_LOST: no pod can make it look so */
    enum podnet_policy policy;      /* ANSWER */
    bool is_ready;                  /* DPU */
    bool is_stopped;                /* DONE */
};

enum podnet_turn { PODNET_NO_TURN, PODNET_TURN_LOST, PODNET_TURN_BACK };

struct podnet_update {
    enum podnet_turn turn;    /* of the sandbox that was seen; BACK: it had been lost */
    struct podnet_loss *ask;  /* may this one be stopped? report by ANSWER */
    struct podnet_loss *stop; /* stop this one now, and report by DONE */
    struct mono wake_at;      /* MONO_NEVER: nothing is due */
};

/* Transparent so that it can be embedded. */
struct podnet_plan {
    struct podnet_plan_config config;
    struct podnet_loss *all;
    size_t lost;            /* LOST and beyond */
    struct mono settled_at; /* MONO_NEVER: the DPU is not ready */
    struct mono next_stop;
    bool is_busy; /* one is IN_HAND */
    uint64_t random;
};

void podnet_plan_init(struct podnet_plan *x, const struct podnet_plan_config *config);

/* One step. Fills every member of `out`. */
void podnet_plan_step(struct podnet_plan *x, const struct podnet_event *event,
                      struct podnet_update *out);

static inline bool podnet_is_lost(const struct podnet_loss *s)
{
    return s->state >= PODNET_LOST;
}

/* An ANSWER or a DONE is to come. */
static inline bool podnet_is_in_hand(const struct podnet_loss *s)
{
    return s->state == PODNET_IN_HAND;
}

#endif
