/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One DPU, the API server, the watch, the host agent, its record and its reader, in steps of one
 * renew interval. Everything that may fail does, one thing a step, in every order and for any time;
 * ages are capped, so that all runs of whatever length are among the states that spin visits.
 *
 * Left out: reports, deletion and damage of the lease, stepped clocks, stalls, stale reads. They are
 * the simulator's. docs/testing.md says what is proven by what.
 *
 * Of a simulation, each step is a line that tests/model/replay.c feeds to the C core.
 */
#define DURATION   4 /* of the lease: 40 s at an interval of 10 s */
#define GRACE      2 /* lease_pace_grace_ns() */
#define STALE_HOLD 2 /* --stale-hold */
#define STILL      2 /* a control this old stands still */
#define CAP        7 /* ages beyond are all alike */
#define CONTROL_CAP 4

#define SPARE_LATE 2 /* a late event, and the step in which it is noticed */

/* What is asserted of every state. */
#define READY_BOUND  (DURATION + SPARE_LATE) /* of silence that could be proven */
#define PROOF_BOUND  (GRACE + 2)             /* since when it could be: an outage earns a grace */
#define HEAL_BOUND   3                       /* until Ready once all is well */
#define ORPHAN_BOUND (DURATION + STALE_HOLD + 1)

mtype = { AWAITING, FRESH, HOLDING, EXPIRED };
mtype:watch = { WORKS, BROKEN, SILENT };

/* The world. */
bool dpu_up; /* and reaches the API server */
bool api_writes = true, api_reads = true, host_up = true;
bool accused; /* a witness of the host, which has testified before, says no */
mtype:watch watch = WORKS;
bool late;         /* the event of this step comes with the next */
byte lease_age;    /* since the newest stamp was written */
byte control_age;  /* since the kubelet's was */
bool has_stamp, written;

/* The host agent. */
mtype phase = AWAITING;
bool known, seen;  /* the lease was seen; its newest stamp was */
bool was_observed;
bool is_unsure;    /* that observation is no older than said, but may be younger */
byte base_late;    /* age of the first stamp that was seen */
byte observed_age; /* without an observation: since waiting began */
bool waiting;
bool lost;         /* contact */
short credit = DURATION; /* until run-out, time without contact not counted */
byte grace;
byte sight_age;    /* since a read was answered */
bool blind, delivered, carried;
bool just_carried; /* the first read after a restart waits an interval for the list */
bool looked, moved, graced, heard; /* the control */
bool stood_still; /* it did, when it was last looked at */
byte looked_stamp; /* its age */
bool not_writing;  /* why it holds */

/* The record without its writer, and the reader. */
byte valid_left, hold_left;
bool record_admits, admits;
bool record_accuses; /* what is refused there the lease admits */

/* The oracle's. */
byte provable_for, well_for, orphan_for;

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
    fi;
    if
    :: api_writes -> control_age = 0
    :: else
    fi
}

inline forget_control()
{
    looked = false; moved = false; graced = false; heard = false; stood_still = false
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
    credit = DURATION - observed_age;
    if
    :: observed_age == 0 -> grace = 0
    :: else
    fi;
    forget_control();
    if
    :: observed_age < DURATION -> phase = FRESH
    :: else
    fi
}

inline give_grace(steps)
{
    if
    :: (steps) > grace -> grace = (steps)
    :: else
    fi
}

inline regain()
{
    if
    :: !waiting && !was_observed && phase == AWAITING -> observed_age = 0; credit = DURATION
    :: else
    fi;
    waiting = true;
    if
    :: lost && credit >= 0 -> give_grace(GRACE)
    :: lost && credit < 0 && credit > -GRACE -> give_grace(GRACE + credit)
    :: else
    fi;
    lost = false
}

/* What the first look after a restart makes of the carried record. */
inline settle()
{
    carried = false;
    if
    :: seen
    :: !seen && lease_age < DURATION -> note_renewal(lease_age)
    :: !seen && lease_age >= DURATION && phase == EXPIRED -> note_renewal(lease_age)
    :: !seen && lease_age >= DURATION && phase != EXPIRED -> note_renewal(lease_age); give_grace(GRACE)
    fi;
    if
    :: observed_age < DURATION -> phase = FRESH
    :: else
    fi
}

/* The lease is seen; `age` is that of a renewal that it shows. */
inline see(age)
{
    regain();
    if
    :: carried -> settle()
    :: !carried && known && !seen -> note_renewal(age)
    :: !carried && !known && !was_observed -> base_late = (has_stamp -> lease_age : CAP)
    :: else
    fi;
    known = true;
    seen = true
}

inline by_watch()
{
    delivered = false;
    if
    :: watch == WORKS && known && has_stamp && !seen && !late ->
        if
        :: delivered = true
        :: !blind -> late = true
        fi
    :: watch == WORKS && known && has_stamp && !seen && late -> delivered = true; late = false
    :: else -> late = false
    fi;
    if
    :: delivered && (blind || lost) -> see(lease_age)
    :: delivered && !blind && !lost -> see(0)
    :: else
    fi
}

inline look()
{
    if
    :: looked && control_age < looked_stamp ->
        moved = true;
        if
        :: !graced && stood_still -> graced = true; give_grace(GRACE)
        :: else
        fi
    :: else
    fi;
    looked = true;
    looked_stamp = control_age;
    stood_still = control_age >= STILL;
    heard = (moved || observed_age >= control_age + 2) && control_age < STILL
}

/* A read that began at the deadline or later shows silence. */
inline condemn()
{
    if
    :: phase != EXPIRED && observed_age >= DURATION && grace == 0 && !lost && !carried ->
        if
        :: looked && heard -> phase = EXPIRED; assert(!was_observed || lease_age >= DURATION)
        :: looked && !heard && phase != AWAITING -> phase = HOLDING; not_writing = true
        :: else
        fi
    :: else
    fi
}

inline by_read()
{
    if
    :: api_reads && (observed_age > 0 || blind || carried || !known) ->
        see(lease_age);
        sight_age = 0;
        blind = watch == BROKEN;
        condemn();
        if
        :: observed_age > 0 && phase != EXPIRED -> look(); condemn()
        :: else
        fi
    :: !api_reads && !just_carried && (observed_age > 0 || blind || carried || !known) ->
        if
        :: !lost && (watch == BROKEN || !known) ->
            credit = (credit + (sight_age < observed_age -> sight_age : observed_age));
            lost = true
        :: !lost && watch != BROKEN && known -> lost = true
        :: else
        fi
    :: else
    fi
}

inline advance()
{
    if
    :: phase == FRESH && observed_age >= DURATION && (lost || grace > 0) ->
        phase = HOLDING; not_writing = false
    :: phase == HOLDING && (lost || grace > 0) -> not_writing = false
    :: else
    fi
}

inline host_step()
{
    blind = blind || watch == BROKEN || !known; /* no watch without a list before it */
    by_watch();
    by_read();
    just_carried = false;
    advance();
    admits = (phase == FRESH || phase == HOLDING) && !accused
}

/* Until it is started again, the record is all that there is. */
inline crash()
{
    host_up = false;
    late = false;
    record_admits = (phase == FRESH || phase == HOLDING);
    record_accuses = record_admits && accused;
    record_admits = record_admits && !accused;
    valid_left = (phase == FRESH && observed_age < DURATION -> DURATION - observed_age : 0);
    valid_left = (phase == FRESH && grace > valid_left -> grace : valid_left);
    hold_left = valid_left + STALE_HOLD
}

inline start()
{
    host_up = true;
    lost = (phase == HOLDING && !not_writing && !record_accuses);
    grace = 0;
    known = false;
    waiting = false;
    forget_control();
    if
    :: was_observed ->
        carried = true;
        just_carried = true;
        blind = true;
        sight_age = observed_age;
        credit = (lost -> DURATION : DURATION - observed_age);
        if
        :: phase == EXPIRED
        :: phase != EXPIRED && (record_admits || record_accuses) && observed_age < DURATION ->
            phase = FRESH
        :: phase != EXPIRED && record_admits && observed_age >= DURATION && hold_left > 0 ->
            phase = HOLDING
        :: phase != EXPIRED && record_accuses && observed_age >= DURATION && hold_left > 0 ->
            phase = HOLDING; /* why, the accusation hides: it may have been an outage */
            lost = true;
            credit = DURATION
        :: else -> phase = AWAITING
        fi
    :: else -> phase = AWAITING; observed_age = 0; credit = DURATION; carried = false
    fi
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
    /* Never NotReady while the DPU renews and the host can see: see condemn(), and here. */
    assert(!(host_up && phase == FRESH) || admits || accused);
    /* A witness takes away at once, and all that it takes away is what the lease admits. */
    assert(!(host_up && accused) || !admits);
    /* Ready again once all is well. */
    assert(well_for < HEAL_BOUND || admits);
    /* A record without its writer vouches for a bounded time. */
    assert(orphan_for < ORPHAN_BOUND || !admits)
}

inline age_all()
{
    up(lease_age, CAP);
    up(control_age, CONTROL_CAP);
    up(observed_age, CAP);
    up(sight_age, DURATION);
    if
    :: looked -> up(looked_stamp, CONTROL_CAP)
    :: else -> looked_stamp = 0
    fi;
    /* What is set before it is looked at again makes no two states of one. */
    base_late = (was_observed -> 0 : base_late);
    written = false;
    delivered = false;
    if
    :: host_up -> record_admits = false; record_accuses = false; valid_left = 0; hold_left = 0
    :: else -> /* what the record says; an accusation takes the place of why it holds */
        blind = false;
        lost = lost && phase == HOLDING && !record_accuses;
        not_writing = not_writing && phase == HOLDING && !record_accuses
    fi;

    if
    :: !lost && credit > -GRACE - 1 -> credit--
    :: else
    fi;
    if
    :: grace > 0 -> grace--
    :: else
    fi;
    if
    :: valid_left > 0 -> valid_left--
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
        printf("STEP %d %d %d %e %d %d %d %e %d\n", written, api_writes, api_reads, watch,
               delivered, accused, host_up, phase, admits);
        age_all()
       }
    od
}
