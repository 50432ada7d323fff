/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim.h"

#include <stdio.h>

static void heal(struct sim *s)
{
    s->api.up = true;
    s->api.takes_writes = true;
    s->api.watches = true;
    s->api.slow = false;
    s->host.link_up = true;
    s->dpu.link_up = true;
    if (!s->dpu.alive) {
        sim_dpu_start(s);
    } else if (!s->dpu.healthy) {
        sim_dpu_verdict(s, true);
    }
}

/* Spans that matter: around the interval, the duration, and far beyond. */
static int64_t span_seconds(struct sim *s)
{
    int64_t interval_s = s->timers.interval_ns / NS_PER_SEC;
    int64_t duration_s = s->timers.duration_ns / NS_PER_SEC;
    switch (sim_random_between(&s->random, 0, 2)) {
    case 0:
        return sim_random_between(&s->random, 1, interval_s + 1);
    case 1:
        return sim_random_between(&s->random, interval_s, 2 * duration_s);
    default:
        return sim_random_between(&s->random, duration_s, 8 * duration_s);
    }
}

static void touch_lease(struct sim *s)
{
    if (s->api.lease_present) { /* kubectl annotate: a new version, the same renewTime */
        (void)snprintf(s->api.lease.resource_version, sizeof(s->api.lease.resource_version), "%u",
                       ++s->api.next_version);
        s->host.watch_due = mono_add(s->now, NS_PER_MS);
    }
}

static void delete_lease(struct sim *s)
{
    /* A watch shows events in order; ours shows the newest state: never hide a renewal behind it.
     */
    bool nothing_pending = s->host.watch_version == s->api.next_version;
    if (s->api.lease_present && nothing_pending) {
        s->api.lease_present = false;
        s->api.next_version++;
        s->host.watch_due = mono_add(s->now, NS_PER_MS);
    }
}

void sim_inject(struct sim *s)
{
    if (s->heal_at.ns != 0 && mono_reached(s->now, s->heal_at)) {
        sim_tell(s, "fault: healed");
        heal(s);
        s->heal_at = (struct mono){0};
    }
    if (mono_before(s->now, s->next_fault)) {
        return;
    }
    struct mono end = mono_add(s->now, span_seconds(s) * NS_PER_SEC);
    static const char *const names[] = {
        "API server down", "host cut off", "DPU cut off",    "DPU dies",      "DPU dies",
        "host stopped",    "agent down",   "watch is stuck", "lease touched", "lease or clock",
        "DPU unhealthy",   "no writes",    "no watches",     "slow answers"};
    int64_t kind = sim_random_between(&s->random, 0, (int64_t)ARRAY_LEN(names) - 1);
    sim_tell(s, "fault: %s until %.3f", names[kind], (double)(end.ns - 1000 * NS_PER_SEC) / 1e9);
    switch (kind) {
    case 0:
        s->api.up = false;
        break;
    case 1:
        s->host.link_up = false;
        break;
    case 2:
        s->dpu.link_up = false;
        break;
    case 3:
    case 4:
        s->dpu.alive = false;
        break;
    case 5:
        s->host.stopped = true;
        s->host.wake_from_stop = end;
        break;
    case 6:
        s->host.running = false;
        s->host.restart_at = end;
        break;
    case 7:
        s->host.watch_stuck = s->host.watching;
        break;
    case 8:
        touch_lease(s);
        break;
    case 9:
        if (sim_random_one_in(&s->random, 2)) {
            delete_lease(s);
        } else {
            s->dpu.wall_offset_ns +=
                sim_random_between(&s->random, -3600 * NS_PER_SEC, 3600 * NS_PER_SEC);
            s->watchdog.stepped_at = s->now;
            s->watchdog.first_after_step = MONO_NEVER;
        }
        break;
    case 10:
        sim_dpu_verdict(s, false);
        break;
    case 11:
        s->api.takes_writes = false;
        break;
    case 12:
        s->api.watches = false;
        break;
    case 13:
        s->api.slow = true;
        break;
    }
    s->heal_at = mono_max(s->heal_at, end);
    s->next_fault = mono_add(s->now, span_seconds(s) * NS_PER_SEC * 2);
}
