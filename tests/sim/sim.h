/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All cores on virtual time: the DPU's renewer writes a lease at a fake API server, the host's
 * readiness FSM observes it through a watch that may break, stick or lag, and dpu-gate's judgement
 * reads the record. Faults are drawn from a seed; a run is a pure function of it. Two invariants
 * are checked all the time:
 *
 *   never late    A reader admits past the last accepted renewal + the lease duration only where
 *                 the host had no chance to know better.
 *   never early   A DPU whose renewals the host could see within the lease duration, or that
 *                 renewed regularly all along, is not called dead.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "contract/gate.h"
#include "contract/record.h"
#include "dpu-agent/renewer.h"
#include "host-agent/expiry.h"
#include "tests/sim/sim_random.h"

#include <stdbool.h>
#include <stdint.h>

enum { SIM_RENEWALS_KEPT = 256 };

#define SIM_BOOT_ID "9a867fd2-bc7d-467e-8978-0f5cf6666cda"

#define SIM_CONTROL_NS (10400 * NS_PER_MS) /* between two writes of the kubelet's, at most */

struct sim_timers {
    int64_t interval_ns;
    int64_t duration_ns;
    int64_t stale_hold_ns;
};

/* The API server. */
struct sim_api {
    bool up;
    bool takes_writes;   /* else it reads only: etcd is out of space */
    bool watches;        /* else list and watch fail while reads are answered */
    bool slow;           /* answers take up to twice the deadline of a read */
    struct mono control; /* the kubelet's last write of its lease; 0: there is none */
    struct mono next_control;
    bool lease_present;
    struct lease_view lease;
    uint32_t next_version;
    uint32_t next_uid;
    struct mono accepted[SIM_RENEWALS_KEPT]; /* ring: when it accepted renewals */
    uint32_t accepted_count;
};

/* One request of the DPU on its way: decided when it arrives, answered when it returns. */
struct sim_put {
    enum renewer_action action; /* RENEWER_NONE: nothing under way */
    bool decided;
    struct mono arrives;
    struct mono returns;
    struct mono deadline;
    int code;
    int http_status;
    struct lease_view lease; /* what is sent, then what is answered */
};

struct sim_dpu {
    bool alive;
    bool link_up;
    bool healthy;
    int64_t wall_offset_ns; /* its wall clock - boot time of the host */
    struct renewer renewer;
    struct lease_view tree; /* of the last answer */
    struct sim_put call;
    struct mono wake_at;
    char sent_stamp[NAMES_STAMP_BYTES];
};

/* A list or read on its way: decided when it reaches the server, delivered when it returns. */
struct sim_read {
    bool active;
    enum expiry_source source;
    bool decided;
    bool answered;
    bool present;
    struct mono started;
    struct mono arrives;
    struct mono returns;
    struct lease_view seen;
    struct mono control;
};

struct sim_host {
    bool running; /* the process exists */
    bool link_up;
    bool stopped; /* SIGSTOP, VM pause, suspend */
    struct expiry fsm;
    struct mono wake_at;
    struct sim_read list;    /* the watch's own LIST */
    struct sim_read confirm; /* the read that the FSM asked for */
    struct sim_read look;    /* at the control */
    bool watching;           /* the watch is established ... */
    bool watch_stuck;        /* ... but nothing comes through */
    struct mono watch_retry;
    uint32_t watch_version; /* last delivered */
    struct mono watch_due;  /* when the pending change is delivered; 0: none pending */
    struct mono restart_at;
    struct mono wake_from_stop;
};

/* When the host could last not see for itself; see the invariants. */
struct sim_watchdog {
    struct mono blind_until; /* the newest moment the host had no working path or did not run */
    struct mono stuck_until; /* the newest moment the watch was stuck */
    struct mono mute_since;  /* the API server takes no writes; MONO_NEVER: it does */
    struct mono host_down_since;
    bool was_ready;         /* a reader was admitted in this life of the record */
    struct mono stepped_at; /* the DPU's clock was; a restart then awaits a renewal: by design */
    struct mono first_after_step; /* the first renewal since */
    struct mono regular_since;    /* the DPU has renewed without a gap since */
};

struct sim {
    uint64_t seed;
    struct sim_random random;
    struct sim_timers timers;
    struct mono now;
    struct sim_api api;
    struct sim_dpu dpu;
    struct sim_host host;
    bool has_record;
    struct record record;
    struct sim_watchdog watchdog;
    struct mono next_fault;
    struct mono heal_at; /* faults of a span end here */
    uint64_t steps;
    uint64_t host_requests;
    uint64_t flips;
    bool last_admitted;
    bool trace;        /* tell the story on stdout (SIM_TRACE=1) */
    char failure[256]; /* "" while both invariants hold */
};

void sim_init(struct sim *s, uint64_t seed);
/* Runs for `span_ns` of virtual time or until an invariant fails; returns false then. */
bool sim_run(struct sim *s, int64_t span_ns);

/* One line of the story, if wanted. */
void sim_tell(const struct sim *s, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* sim_dpu.c: the DPU's side. */
void sim_dpu_start(struct sim *s);
void sim_dpu_step(struct sim *s);
/* Tells the renewer what the probes say, if it is running. */
void sim_dpu_verdict(struct sim *s, bool healthy);

/* sim.c: something was written: a new version, shown by the watch after a while. */
void sim_api_touch(struct sim *s);
/* A lease that was never renewed. */
void sim_api_create_lease(struct sim *s);
struct mono sim_soon(struct sim *s, int64_t least_ms, int64_t most_ms);

/* sim_faults.c: one random fault, or the end of one. */
void sim_inject(struct sim *s);
/* sim_check.c: the invariants. */
void sim_check(struct sim *s);
void sim_note_renewal(struct sim *s);

#endif
