/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The abstract world of the explorer: one lease, its API server, a watch, and both cores as they
 * are: the verdict with its marks and the record's codec and gate on the host, the renewer on the
 * DPU. The shells around them (monitor.c, lease_watch.c, lease_writer.c) are played here.
 *
 * Everything is one plain value without a pointer into itself: a copy of it is another world, that
 * goes on by itself. Nothing is random. What the world does beyond what the cores ask for are its
 * faults, which begin and end between two calls of world_run().
 *
 * Times are ns of one clock, which is the boot clock of both machines.
 */
#ifndef TESTS_EXPLORE_WORLD_H
#define TESTS_EXPLORE_WORLD_H

#include "contract/record.h"
#include "dpu-agent/renewer.h"
#include "host-agent/mark.h"
#include "host-agent/verdict.h"

#include <stdbool.h>
#include <stdint.h>

/* What may go wrong. The first ones last until they are ended. */
enum fault {
    API_DOWN,      /* nobody has a connection; the watch breaks */
    API_SILENT,    /* requests arrive nowhere, and what the watch would bring is held up */
    API_UNSURE,    /* requests take effect, and their answers are lost */
    API_UNTOLD,    /* those of writes that take effect alone */
    API_READ_ONLY, /* writes are answered with 500 */
    API_STUCK,     /* writes arrive nowhere, and reads are answered */
    HOST_DENIED,   /* the host's writes are answered with 403 */
    HOST_CUT,      /* as API_SILENT, for the host alone */
    HOST_SLOW,     /* a request of the host takes half an interval */
    HOST_SLOWEST,  /* two intervals */
    HOST_GARBAGE,  /* what the host reads is no lease */
    HOST_STALE,    /* it is the lease as it was when the fault began */
    WATCH_BROKEN,  /* there is none */
    WATCH_LATE,    /* what it brings is held up */
    WATCH_SILENT,  /* it is half open from now on: what it would bring is lost */
    HOST_DOWN,     /* the host agent is killed, and started again at the end */
    HOST_LOOP,     /* it is killed and started at each point of time */
    ACCUSED,       /* a host probe, which has been well before, says no */
    DPU_DOWN,      /* the DPU dies, and boots at the end */
    DPU_STOPPED,   /* its agent announces a shutdown, and is started again at the end */
    DPU_CUT,       /* as API_SILENT, for the DPU alone */
    DPU_SLOW,      /* as HOST_SLOW, for the DPU */
    DPU_SLOWEST,
    DPU_UNWELL, /* a probe of the DPU's fails */
    TOUCHES,    /* somebody writes the lease at each point of time, and renews nothing */
    FAULTS_THAT_LAST,
    /* These are over at once. */
    DPU_RESTART = FAULTS_THAT_LAST, /* its agent is killed, and started again */
    DPU_CLOCK_BACK,                 /* the DPU's wall clock is set back by two intervals */
    DPU_CLOCK_ON,                   /* and forward */
    LEASE_DELETED,
    FAULTS,
};

const char *fault_name(enum fault fault);

struct setting {
    const char *name;
    int64_t interval_ns;
    int64_t duration_ns;
    int64_t stale_hold_ns;
    int64_t step_ns;   /* between two points of time at which faults begin and end */
    int64_t first_ns;  /* the first of them: so long after an interval of the DPU's began */
    int64_t jitter_pc; /* of each random wait: this many hundredths of the longest */
};

/* The lease, as far as anybody looks. Times are the DPU's wall clock's. */
struct lease {
    uint32_t uid; /* 0: there is none */
    uint32_t boot;
    uint64_t version;
    int64_t renewed; /* 0: never */
    int64_t reported;
    enum lease_health health;
    uint32_t mark; /* number of the host's last mark; 0: none */
};

enum request_kind {
    REQUEST_NONE,
    REQUEST_READ,
    REQUEST_LIST,
    REQUEST_MARK,     /* PATCH */
    REQUEST_MARK_GET, /* the read after it */
    REQUEST_MAKE,     /* the keeper's POST */
    REQUEST_GET,      /* the DPU's */
    REQUEST_PUT,
    REQUEST_CREATE, /* which it may not */
};

struct request {
    enum request_kind kind;
    bool is_served;
    bool is_dry;
    bool is_unreachable;
    int status; /* 0: no answer; 200 with something else than a lease: -200 */
    int64_t sent_at;
    int64_t serve_at; /* INT64_MAX: never, as the next two */
    int64_t answer_at;
    int64_t due_at;     /* the answer is waited for until then, */
    int64_t end_at;     /* and is welcome until then */
    struct lease body;  /* PUT, PATCH: `version` is the condition */
    struct lease shown; /* by the answer */
};

enum { HELD_MAX = 6, ORPHANS_MAX = 4 };

enum watch_state { WATCH_CLOSED, WATCH_LISTING, WATCH_OPEN };

struct watch {
    enum watch_state state;
    bool is_deaf;    /* half open */
    bool has_failed; /* the host was told, and has not heard of it since */
    int64_t try_at;  /* CLOSED */
    struct request list;
    struct lease held[HELD_MAX]; /* what it is about to bring, the oldest first */
    uint32_t held_count;
};

struct host {
    bool runs;
    struct verdict core;
    struct mark mark_core;
    struct watch watch;
    struct request read;
    struct request late_read;
    struct request mark;
    struct request make; /* the keeper's */
    bool is_trial;
    bool is_denied; /* the keeper may not make the lease */
    uint32_t mark_number;
    uint32_t read_due_ms;
    uint32_t mark_due_ms;
    int64_t hold_most; /* what the record may promise at most; INT64_MAX: anything */
    int64_t wake_at;
};

struct dpu {
    bool runs;
    struct renewer core;
    struct request call;
    struct request late;
    struct lease tree; /* of the last answer, to be edited */
    int64_t sent;      /* the renewTime under way; 0: none */
    int64_t wake_at;
    int64_t clock_ns; /* what its wall clock is ahead */
    uint32_t boot;
};

/* What the judge keeps of the past: true times. */
struct past {
    int64_t renewed_at;      /* the last renewal was committed; 0: none was */
    int64_t renewed_before;  /* the one before */
    int64_t dpu_bad_at;      /* the DPU, or its way to the API server, was last at fault */
    int64_t blind_at;        /* the host could last have had no evidence */
    int64_t murky_at;        /* it last had no watch that shows what happens */
    int64_t broken_at;       /* anything at all was last at fault */
    int64_t reported_since;  /* the lease says that the DPU is not well, since; 0: it does not */
    int64_t host_down_since; /* 0: it runs */
    int64_t gone_at;         /* the lease was last deleted */
    int64_t stepped_at;      /* the DPU's clock was last set */
    int64_t touched_at;
    int64_t
        away_at; /* the host agent last did not run, or not for long, while a retry was granted */
    int64_t slow_at;    /* the DPU's requests last took half an interval */
    uint32_t told_boot; /* the record's last */
    bool was_held;      /* admitted, but not as Ready */
    bool was_ready;     /* admitted as Ready, and nobody has had a reason for another word since */
    uint32_t host_requests; /* since the last point of time */
    uint32_t dpu_requests;
};

struct world {
    int64_t now;
    uint32_t faults;         /* a bit each, of those that last */
    uint32_t instant_events; /* at this very time: too many are a loop */
    struct lease lease;      /* in etcd */
    struct lease stale;      /* what HOST_STALE shows */
    uint64_t version;        /* the last that was given */
    uint32_t last_uid;
    struct host host;
    struct dpu dpu;
    struct record record;
    bool has_record;
    struct request orphans[ORPHANS_MAX]; /* given up, but still under way to the server */
    struct past past;
};

/* What the runs exercised: a run in which nothing happens proves nothing. */
struct tally {
    uint64_t marks[MARK_OUTCOMES];
    uint64_t trials[MARK_OUTCOMES];
    uint64_t told[REASON_COUNT][2]; /* refused, admitted */
    uint64_t began[FAULTS];
    uint64_t ended[FAULTS_THAT_LAST];
    uint64_t rules[VERDICT_RULES];
    uint64_t reboots;
    uint64_t carried; /* starts of the host with a record that it believes */
};

/* What is the same for all worlds of a run. */
struct explorer {
    const struct setting *setting;
    struct verdict_config verdict;
    struct renewer_config renewer;
    char failure[512];      /* what the judge found; "": nothing */
    bool is_told;           /* the story is printed */
    uint64_t verdict_steps; /* of the core */
    uint64_t renewer_steps;
    struct tally tally;
};

void explorer_init(struct explorer *e, const struct setting *setting);

/* How a run begins; the number is that of the faults that have begun. */
enum root { ROOT_CALM, ROOT_NEW_HOST, ROOT_NEW_HOST_OF_DEAD_DPU, ROOTS };
const char *root_name(enum root root);
void world_init(struct explorer *e, struct world *w, enum root root);

static inline bool world_has(const struct world *w, enum fault fault)
{
    return fault < FAULTS_THAT_LAST && (w->faults >> fault & 1) != 0;
}

/* Whether the fault can begin (or end) now: it would change something. */
bool world_can_toggle(const struct world *w, enum fault fault);
void world_toggle(struct explorer *e, struct world *w, enum fault fault);

/* Goes on until `end`, which is included. */
void world_run(struct explorer *e, struct world *w, int64_t end);

/* A point of time: what a fault that lasts does there, and a count of the requests. */
void world_point(struct explorer *e, struct world *w);

void world_tell(const struct explorer *e, const struct world *w, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* judge.c: looks at the world each time that something has happened; the first failure counts. */
void judge_fail(struct explorer *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void judge_look(struct world *w);                      /* what is broken, now */
void judge_check(struct explorer *e, struct world *w); /* what the readers of the record are told */
void judge_pace(struct explorer *e, struct world *w);  /* at a point of time */
void judge_gate(struct explorer *e, struct world *w);  /* of a world that is new: dpu-gate agrees */

/* canon.c: two worlds with the same digest go on alike. */
struct digest {
    uint64_t a;
    uint64_t b;
};
struct digest canon_digest(const struct explorer *e, const struct world *w);

#endif
