/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The renewer: health + answers of the API server + now -> what to write next, when to wake.
 * CORE: no I/O, clock, allocator, log or global; the same input gives the same output.
 *
 *               first result: healthy                    a probe fails
 *   STARTING ──────────────────────────▶ RENEWING ─────────────────────────▶ REPORTING
 *      │                                  ▲    ▲ ◀──────── healthy again ─────── │
 *      │ somebody else holds the lease    │    │ the lease is ours or nobody's   │
 *      └──────────────────────────▶ YIELDING ◀───────────────────────────────────┘
 *
 *   ACCOMPANYING stands for RENEWING where somebody else renews. STOPPING: the shutdown is being
 *   announced. STOPPED: nothing happens any more.
 *
 *   STARTING   reads the lease, and writes nothing: no probe has spoken yet
 *   RENEWING   one PUT per interval on a fixed cadence; no read, unless the PUT meets a conflict
 *   REPORTING  writes "unhealthy" once per interval: the report is renewed, renewTime is not
 *   YIELDING   reads once per interval, and writes nothing
 *   ACCOMPANYING  reads once per interval, and mends what is not true: a report, the boot's id
 *
 * As a companion (`heartbeat=companion`) we leave renewTime to ovn-kubernetes' own health check,
 * whose renewals prove ovnkube, and add what the probes say. Each write follows a read of the same
 * step: between two of ours the other writer has renewed, and a PUT of an old tree would be
 * refused.
 *
 * A lease that has been missing for its whole duration, DPU healthy, is made by us where we may. By
 * then a host of ours would have made it, with the delete event or its next read, and has called us
 * dead; upstream's host does so at its start only.
 *
 * Times count from before a request is sent. A failed request is tried again for ever, on a fresh
 * connection after a backoff with jitter; one that was not answered by its deadline, beside. A
 * renewal that arrived although its answer was late or lost is known by its stamp, and not made
 * again. Retry-After is obeyed up to an interval. No deadline and no pause is longer than
 * contract/lease.h tells the host.
 *
 * Effects are data: the shell (lease_writer) performs `action` and passes the answer back. It holds
 * the lease's JSON tree; the renewer knows only whether that tree is current. The struct is
 * transparent only so that it can be embedded.
 */
#ifndef DPU_AGENT_RENEWER_H
#define DPU_AGENT_RENEWER_H

#include "base/log.h"
#include "base/time.h"
#include "contract/lease.h"
#include "probe/probe_state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* A renewTime among the last ones we sent is our own: as many as we send at most while the
     * answer to one of them is welcome. */
    RENEWER_SENT_STAMPS = 64,
    RENEWER_NOTES_MAX = 4, /* of one step */
    RENEWER_NOTE_BYTES = 1200,
    RENEWER_TRIES = 3, /* that fit between a renewal that is due and the end of the lease */
};

#define RENEWER_BACKOFF_MIN_NS   (200 * NS_PER_MS)  /* before the first retry, at most */
#define RENEWER_BACKOFF_MAX_NS   (5 * NS_PER_SEC)   /* or an interval if that is shorter */
#define RENEWER_LASTING_MIN_NS   (10 * NS_PER_SEC)  /* an answer is welcome at least so long */
#define RENEWER_LASTING_SLOW_NS  (30 * NS_PER_SEC)  /* once the tries that had to fit have failed */
#define RENEWER_LASTING_MAX_NS   (60 * NS_PER_SEC)  /* an API server ends a request by then */
#define RENEWER_STOP_NS          (2 * NS_PER_SEC)   /* to announce a shutdown */
#define RENEWER_FLIP_NS          (1 * NS_PER_SEC)   /* between writes for a health that flips */
#define RENEWER_CREATE_DENIED_NS (600 * NS_PER_SEC) /* between tries that are denied, at most */

struct renewer_config {
    char lease_ns[NAMES_K8S_NAME_BYTES];
    char lease_name[NAMES_K8S_NAME_BYTES];
    char holder[NAMES_HOLDER_BYTES];
    char node_name[NAMES_K8S_NAME_BYTES];    /* of the owner of a lease that we make */
    char boot_id[NAMES_BOOT_ID_BYTES];       /* written with all that is; "": not known */
    char version[NAMES_AGENT_VERSION_BYTES]; /* the same, of dpu-agent; "": not said */
    bool has_no_probe;                       /* written with what renews */
    int64_t interval_ns;                     /* > 0 */
    int64_t duration_ns;                     /* > 0; counts until the lease says another one */
    bool announce_shutdown;
    bool is_companion; /* somebody else renews */
    uint64_t seed;     /* of the jitter */
};

enum renewer_action {
    RENEWER_NONE,
    RENEWER_GET,         /* read the lease */
    RENEWER_PUT_RENEWAL, /* renew it: lease_set_renewal on the tree of the last answer, then PUT */
    RENEWER_PUT_HEALTH,  /* lease_set_health with `health` and `message`, then PUT */
    RENEWER_CREATE,      /* make the lease with a renewal */
};

enum renewer_event_kind {
    RENEWER_TICK,   /* wake_at was reached, or any other wake-up */
    RENEWER_HEALTH, /* the probes said something new */
    RENEWER_ANSWER, /* the action under way has ended, or was not answered by its deadline */
    RENEWER_LATE,   /* an answer, with a lease or a conflict, to an action that was told of as not
                       answered */
    RENEWER_STOP,   /* asked to stop */
};

struct renewer_event {
    enum renewer_event_kind kind;
    struct mono now;
    enum probe_health health; /* HEALTH */
    const char *message;      /* HEALTH: why unhealthy; ANSWER: what failed; borrowed */

    /* ANSWER; LATE: `code`, `http_status` and `lease` */
    int code;                       /* 0: success, then `lease` is set; else enum err_code */
    int http_status;                /* 0: there was no answer */
    int64_t retry_after_ms;         /* 0: none */
    bool is_unreachable;            /* no connection came about: nobody was asked */
    const struct lease_view *lease; /* as the answer shows it; borrowed */
    struct wall sent_time; /* the renewTime that was sent, also if the PUT failed; 0: none */
};

enum renewer_note_kind {
    RENEWER_NOTE_RENEWING,     /* first renewal */
    RENEWER_NOTE_NOT_RENEWED,  /* as companion: nobody renews */
    RENEWER_NOTE_MISSING,      /* the lease does not exist */
    RENEWER_NOTE_NOT_TAKEN,    /* the same, and our last try to make it failed */
    RENEWER_NOTE_CREATED,      /* we made it */
    RENEWER_NOTE_NOT_CREATED,  /* we may not make it, or its Node does not exist */
    RENEWER_NOTE_FAILED,       /* a request failed */
    RENEWER_NOTE_RECOVERED,    /* a write succeeded after failures */
    RENEWER_NOTE_FOREIGN,      /* somebody else holds the lease */
    RENEWER_NOTE_OURS_AGAIN,   /* no longer */
    RENEWER_NOTE_SECOND_AGENT, /* somebody renews it beside us */
    RENEWER_NOTE_RECREATED,    /* the lease has a new UID */
    RENEWER_NOTE_MISMATCH,     /* the lease does not outlast our interval */
    RENEWER_NOTE_UNHEALTHY,    /* a probe failed: no more renewals */
    RENEWER_NOTE_HEALTHY,      /* they pass again */
    RENEWER_NOTE_LATE,         /* we ourselves were stopped or starved */
    RENEWER_NOTE_SHUTDOWN,     /* the shutdown was announced */
    RENEWER_NOTE_UNANNOUNCED,  /* it could not be */
    RENEWER_NOTE_KINDS
};

struct renewer_note {
    enum renewer_note_kind kind;
    enum log_level level;
    char text[RENEWER_NOTE_BYTES]; /* one sentence for the log */
};

struct renewer_update {
    bool cancel; /* first of all: end the request under way; its answer must not come any more */
    enum renewer_action action;
    bool fresh;               /* on a connection of its own */
    uint32_t deadline_ms;     /* how long the answer is waited for: then tell that there is none */
    uint32_t lasts_ms;        /* how long it is welcome as a late one: end the request then */
    enum lease_health health; /* PUT_HEALTH */
    const char *message;      /* PUT_HEALTH; borrowed from the renewer until the next step */
    bool renewed;             /* a renewal has succeeded; as companion: was seen */
    bool stopped;             /* all is done: quit */
    struct mono wake_at;      /* MONO_NEVER: nothing is due */
    size_t note_count;
    struct renewer_note notes[RENEWER_NOTES_MAX]; /* rate-limited already: log them all */
};

enum renewer_phase {
    RENEWER_STARTING,
    RENEWER_RENEWING,
    RENEWER_REPORTING,
    RENEWER_YIELDING,
    RENEWER_ACCOMPANYING,
    RENEWER_STOPPING,
    RENEWER_STOPPED,
    RENEWER_PHASE_COUNT
};

struct renewer {
    struct renewer_config config;
    enum renewer_phase phase;
    uint64_t random;

    enum probe_health health;
    char message[NAMES_MESSAGE_BYTES]; /* why unhealthy */

    /* The lease as last read or written. */
    bool lease_current; /* the shell's tree can be PUT */
    char lease_uid[NAMES_UID_BYTES];
    char lease_holder[NAMES_HOLDER_BYTES];
    char lease_stamp[NAMES_STAMP_BYTES];
    uint32_t lease_duration_s;                   /* 0 if absent */
    struct wall sent[RENEWER_SENT_STAMPS];       /* renewTimes; 0: none */
    struct mono sent_since[RENEWER_SENT_STAMPS]; /* the start of each one's request */
    uint32_t sent_next;
    uint32_t foreign_renewals; /* unknown renewTimes met */
    uint32_t clean_rounds;     /* writes without a conflict since the last of them */
    bool create_due;           /* it has just been missed again, and long enough */
    bool create_refused;       /* that was said */
    bool create_failed;        /* our last try, neither for want of a right nor of its Node */
    uint32_t create_denials;   /* 403 in a row */
    struct mono missing_since; /* the first 404; 0: it is there */
    struct mono create_at;     /* not before */

    enum renewer_action under_way;
    enum renewer_action sent_action; /* the last one, also after it has ended */
    bool owed; /* a renewal, as companion another write, is due and has not succeeded yet */
    bool ever_renewed;
    bool fresh;           /* the connection is not to be trusted */
    bool is_slow;         /* the last renewal took longer than the tries that have to fit */
    struct mono anchor;   /* renewals are due at anchor + n intervals; 0: not yet */
    struct mono slot;     /* the next of them */
    struct mono next_at;  /* REPORTING: the next report; YIELDING, ACCOMPANYING: the next look */
    struct mono retry_at; /* not before, after a failure; 0: at once */
    uint32_t failures;    /* in a row */
    uint32_t conflicts;   /* in a row */
    struct mono failing_since;
    struct mono renewed_at; /* start of the PUT that last succeeded; as companion: last seen */
    struct mono sent_at;
    struct mono answered_at;

    enum probe_health told; /* the log's last word on the health */
    bool flipped;           /* the phase has changed since the last request */
    struct mono flip_at;    /* the next change of the health is not written before */
    struct mono stop_until;

    struct log_repeat repeats[RENEWER_NOTE_KINDS];
};

/* Copies `config`. Step with RENEWER_TICK at once, and with RENEWER_HEALTH when there is one. */
void renewer_init(struct renewer *r, const struct renewer_config *config);

/* One step. Fills every member of `out`. */
void renewer_step(struct renewer *r, const struct renewer_event *event, struct renewer_update *out);

/* For people; static text. */
const char *renewer_phase_name(const struct renewer *r);

/* Of the next request, or of one under way: how long it is waited for before the next try. */
int64_t renewer_deadline_ns(const struct renewer *r);

/* For tests: the time between a renewal that is due and the end of the lease; how long the answer
 * to the next request is welcome; the upper bound of the jitter before retry number `failures` (1:
 * the first). */
int64_t renewer_budget_ns(const struct renewer *r);
int64_t renewer_lasting_ns(const struct renewer *r);
int64_t renewer_backoff_ns(const struct renewer *r, uint32_t failures);

#endif
