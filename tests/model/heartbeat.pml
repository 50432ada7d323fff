/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One DPU, the API server, the watch, the host agent, its record and its reader, in steps of one
 * renew interval. Everything that may fail does, one thing a step, in every order and for any time;
 * ages are capped, so that all runs of whatever length are among the states that spin visits.
 *
 * Left out: reports, deletion and damage of the lease, stepped clocks, stalls, stale reads. They are
 * the simulator's. tests/README.md says what is proven by what.
 *
 * Of a simulation, each step is a line that tests/model/replay.c feeds to the C core.
 */
#define DURATION   4 /* of the lease: 40 s at an interval of 10 s */
#define RETRY      4 /* lease_pace_grace_ns(): R */
#define GAP        2 /* evidence further apart than that leaves a blind span: G is 26 s */
#define STALE_HOLD 2 /* --stale-hold */
#define CAP        7 /* ages beyond are all alike */

#define SPARE_LATE 2 /* a late event, and the step in which it is noticed */

/* What is asserted of every state. */
#define READY_BOUND  (DURATION + SPARE_LATE) /* of silence that could be proven */
#define PROOF_BOUND  (RETRY + 2)             /* since when it could be: a blind span earns a retry */
#define HEAL_BOUND   3                       /* until Ready once all is well */
#define ORPHAN_BOUND (DURATION + STALE_HOLD + 1)

mtype = { AWAITING, FRESH, HOLDING, EXPIRED };
mtype:watch = { WORKS, BROKEN, SILENT };

/* The world. */
bool dpu_up; /* and reaches the API server */
bool api_writes = true, api_reads = true, host_up = true;
bool accused; /* a host probe, which has been well before, says no */
mtype:watch watch = WORKS;
bool late;      /* the event of this step comes with the next */
byte lease_age; /* since the newest stamp was written */
bool has_stamp, written;

/* The host agent. Held is no phase of its own: see is_held. */
mtype phase = AWAITING, shown;
bool known, seen;  /* the lease was seen; its newest stamp was */
bool was_observed;
bool is_unsure;    /* that observation is no older than said, but may be younger */
byte base_late;    /* age of the first stamp that was seen */
byte observed_age; /* o; without an observation: since waiting began */
byte evidence_age; /* E */
bool failing;
byte failing_age;
byte blind;        /* B */
byte retry_left;   /* until N */
bool waiting, sightless, delivered, carried;
bool just_started; /* the first read waits an interval for the list */

/* The record without its writer, and the reader. */
byte hold_left;
bool record_admits, admits;
bool record_accuses; /* what is refused there the lease admits */

/* The oracle's. */
byte provable_for, well_for, orphan_for;

#define is_held (observed_age >= DURATION && (retry_left > 0 || failing || evidence_age > GAP))

inline up(age, most)
{
    if
    :: age < most -> age++
    :: else
    fi
}

inline run_of(age, holds, most)
{
    if
    :: holds -> up(age, most)
    :: else -> age = 0
    fi
}

/* Nothing, or one thing more that fails or heals. */
inline disturb()
{
    if
    :: true
    :: dpu_up = !dpu_up
    :: api_writes = !api_writes
    :: api_reads = !api_reads
    :: watch != WORKS -> watch = WORKS
    :: watch == WORKS -> watch = BROKEN
    :: watch == WORKS -> watch = SILENT
    :: accused = !accused
    :: host_up -> crash()
    :: !host_up -> start()
    fi
}

/* A DPU that runs may be an interval late: drift, jitter, a retry. */
inline renew()
{
    written = false;
    if
    :: dpu_up && api_writes -> written = true
    :: dpu_up && api_writes && lease_age < 2 -> skip
    :: !(dpu_up && api_writes) -> skip
    fi;
    if
    :: written -> lease_age = 0; has_stamp = true; seen = false
    :: else
    fi
}

/* The first is dated from when the baseline was seen, whatever its age was then. */
inline note_renewal(age)
{
    observed_age = age;
    is_unsure = false;
    if
    :: !was_observed && age > 0 && base_late > 0 ->
        is_unsure = true;
        observed_age = (age > base_late -> age - base_late : 0)
    :: else
    fi;
    was_observed = true;
    evidence_age = observed_age;
    /* Attempts that failed since evidence after it was due still tell of a blind span. */
    failing = failing && observed_age > 1;
    failing_age = (!failing -> 0 : (failing_age < observed_age -> failing_age : observed_age - 1));
    blind = 0;
    retry_left = 0;
    if
    :: observed_age < DURATION -> phase = FRESH
    :: else
    fi
}

/* N = min(t + R, o + D + B + R) */
inline give_retry()
{
    if
    :: DURATION + blind + RETRY <= observed_age -> skip
    :: DURATION + blind + RETRY > observed_age && DURATION + blind - observed_age < 0 ->
        retry_left = DURATION + blind + RETRY - observed_age
    :: DURATION + blind + RETRY > observed_age && DURATION + blind - observed_age >= 0 ->
        retry_left = RETRY
    fi
}

/* The lease is seen; `age` is that of a renewal that it shows. */
inline see(age)
{
    if
    :: !waiting && !was_observed && phase == AWAITING ->
        observed_age = 0; evidence_age = 0; failing = false; failing_age = 0
    :: else
    fi;
    waiting = true;
    if
    :: known && !seen -> note_renewal(age)
    :: !known && !was_observed -> base_late = (has_stamp -> lease_age : CAP)
    :: else
    fi;
    carried = false;
    known = true;
    seen = true
}

inline by_watch()
{
    delivered = false;
    if
    :: watch == WORKS && waiting && has_stamp && !seen && !late ->
        if
        :: delivered = true
        :: !sightless -> late = true
        fi
    :: watch == WORKS && waiting && has_stamp && !seen && late -> delivered = true; late = false
    :: else -> late = false
    fi;
    if
    :: delivered && (sightless || failing) -> see(lease_age)
    :: delivered && !sightless && !failing -> see(0)
    :: else
    fi
}

inline take_evidence()
{
    if
    :: failing -> blind = (blind + failing_age > CAP -> CAP : blind + failing_age); give_retry()
    :: !failing && evidence_age > GAP ->
        blind = (blind + evidence_age - 1 > CAP -> CAP : blind + evidence_age - 1); give_retry()
    :: else
    fi;
    evidence_age = 0;
    failing = false;
    if
    :: phase != EXPIRED && observed_age >= DURATION && retry_left == 0 ->
        assert(api_writes || phase == AWAITING); /* nobody is refused there who was admitted */
        assert(!was_observed || lease_age >= DURATION);
        phase = EXPIRED
    :: else
    fi
}

/* A mark, which reads where it is not taken; where nobody is admitted a read alone. */
inline ask()
{
    if
    :: api_reads && (observed_age > 0 || sightless || carried || !known) ->
        see(lease_age);
        sightless = watch == BROKEN;
        if
        :: observed_age > 0 && (api_writes || phase == AWAITING) -> take_evidence()
        :: observed_age > 0 && !api_writes && phase == FRESH && !failing && evidence_age > 0 ->
            failing = true;
            failing_age = 0
        :: else
        fi
    :: !api_reads && !just_started && (observed_age > 0 || sightless || carried || !known) ->
        if
        :: !failing -> failing = true; failing_age = 0
        :: else
        fi
    :: else
    fi
}

inline host_step()
{
    sightless = sightless || watch == BROKEN || !waiting; /* no watch without a list before it */
    by_watch();
    ask();
    just_started = false;
    admits = phase == FRESH && !accused
}

/* Until it is started again, the record is all that there is. */
inline crash()
{
    host_up = false;
    late = false;
    record_admits = phase == FRESH;
    record_accuses = record_admits && accused;
    record_admits = record_admits && !accused;
    hold_left = STALE_HOLD + (observed_age + 1 < DURATION -> DURATION - observed_age : 1)
}

inline start()
{
    host_up = true;
    waiting = false;
    failing = false;
    just_started = true;
    sightless = true;
    if
    :: phase == FRESH && hold_left == 0 -> phase = AWAITING
    :: !was_observed -> phase = AWAITING
    :: else
    fi;
    if
    :: phase == AWAITING ->
        was_observed = false; observed_age = 0; evidence_age = 0; blind = 0; retry_left = 0
    :: else /* what was granted is in the record */
    fi;
    known = was_observed;
    carried = was_observed
}

inline orphan_step()
{
    admits = record_admits && hold_left > 0
}

inline check()
{
    run_of(provable_for, host_up && api_reads && api_writes, PROOF_BOUND);
    run_of(well_for, host_up && api_reads && api_writes && dpu_up && watch == WORKS && !accused,
           HEAL_BOUND);
    run_of(orphan_for, !host_up, ORPHAN_BOUND);
    /* Never Ready longer than the bound while evidence could be had. */
    assert(!(lease_age >= READY_BOUND && provable_for >= PROOF_BOUND) || !admits || is_unsure);
    /* Never NotReady while the DPU renews and the host can see: see take_evidence(), and here. */
    assert(!(host_up && phase == FRESH) || admits || accused);
    /* A host probe takes away at once, and all that it takes away is what the lease admits. */
    assert(!(host_up && accused) || !admits);
    /* Ready again once all is well. */
    assert(well_for < HEAL_BOUND || admits);
    /* A record without its writer vouches for a bounded time. */
    assert(orphan_for < ORPHAN_BOUND || !admits)
}

inline age_all()
{
    up(lease_age, CAP);
    up(observed_age, CAP);
    up(evidence_age, CAP);
    failing_age = (failing -> failing_age : 0);
    if
    :: failing -> up(failing_age, CAP)
    :: else
    fi;
    /* What is set before it is looked at again makes no two states of one. */
    base_late = (was_observed -> 0 : base_late);
    written = false;
    delivered = false;
    shown = AWAITING;
    if
    :: host_up -> record_admits = false; record_accuses = false; hold_left = 0
    :: else -> sightless = false; failing = false; failing_age = 0
    fi;
    if
    :: retry_left > 0 -> retry_left--
    :: else
    fi;
    if
    :: hold_left > 0 -> hold_left--
    :: else
    fi
}

active proctype heartbeat()
{
    lease_age = CAP;
    do
    :: atomic {
        disturb();
        renew();
        if
        :: host_up -> host_step()
        :: else -> orphan_step()
        fi;
        check();
        shown = phase;
        if
        :: phase == FRESH && is_held -> shown = HOLDING
        :: else
        fi;
        printf("STEP %d %d %d %e %d %d %d %e %d\n", written, api_writes, api_reads, watch,
               delivered, accused, host_up, shown, admits);
        age_all()
       }
    od
}
