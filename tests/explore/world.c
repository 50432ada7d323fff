/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong in the world, and how it goes on. */
#include "tests/explore/parts.h"

#include "base/text.h"
#include "base/time.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define START_NS     (1000 * NS_PER_SEC)
#define CLOCK_ODD_NS 7000 /* no stamp comes twice to the microsecond */
#define HOST_BOOT    "6f1d7f5e-0000-4000-8000-000000000001"

enum { INSTANT_MAX = 300 };

/* As schedules name them. */
static const char *const fault_names[FAULTS] = {
    [API_DOWN] = "api-down",
    [API_SILENT] = "api-silent",
    [API_UNSURE] = "api-unsure",
    [API_UNTOLD] = "api-untold",
    [API_READ_ONLY] = "api-read-only",
    [API_STUCK] = "api-stuck",
    [HOST_DENIED] = "host-denied",
    [HOST_CUT] = "host-cut",
    [HOST_SLOW] = "host-slow",
    [HOST_SLOWEST] = "host-slowest",
    [HOST_GARBAGE] = "host-garbage",
    [HOST_STALE] = "host-stale",
    [WATCH_BROKEN] = "watch-broken",
    [WATCH_LATE] = "watch-late",
    [WATCH_SILENT] = "watch-silent",
    [HOST_DOWN] = "host-down",
    [HOST_LOOP] = "host-loop",
    [ACCUSED] = "accused",
    [DPU_DOWN] = "dpu-down",
    [DPU_STOPPED] = "dpu-stopped",
    [DPU_CUT] = "dpu-cut",
    [DPU_SLOW] = "dpu-slow",
    [DPU_SLOWEST] = "dpu-slowest",
    [DPU_UNWELL] = "dpu-unwell",
    [TOUCHES] = "touches",
    [DPU_RESTART] = "dpu-restart",
    [DPU_CLOCK_BACK] = "dpu-clock-back",
    [DPU_CLOCK_ON] = "dpu-clock-on",
    [LEASE_DELETED] = "lease-deleted",
};

const char *fault_name(enum fault fault)
{
    return fault_names[fault];
}

const char *root_name(enum root root)
{
    static const char *const names[ROOTS] = {"calm", "new-host", "new-host-of-dead-dpu"};
    return names[root];
}

void world_tell(const struct explorer *e, const struct world *w, const char *fmt, ...)
{
    if (!e->is_told) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    (void)printf("%9.3f  ", (double)(w->now - START_NS) / 1e9);
    (void)vprintf(fmt, ap);
    (void)printf("\n");
    va_end(ap);
}

/* Waits are as long as the setting says (linked in place of base/time.c's). */
static int64_t jitter_pc = 100;
int64_t __wrap_prng_next(uint64_t *state, int64_t most);
int64_t __wrap_prng_next(uint64_t *state, int64_t most)
{
    (void)state; /* of the real one */
    return most / 100 * jitter_pc;
}

/* ---- what happens next ----------------------------------------------------------------------- */

static int64_t watch_due(const struct world *w)
{
    const struct watch *watch = &w->host.watch;
    bool brings = watch->state == WATCH_OPEN && watch->held_count > 0 && !watch_is_held(w);
    return !w->host.runs                  ? NEVER
           : brings                       ? w->now
           : watch->state == WATCH_CLOSED ? watch->try_at
                                          : request_due(&watch->list);
}

static int64_t next_due(const struct world *w)
{
    const struct host *h = &w->host;
    const struct request *const requests[] = {&h->read, &h->late_read, &h->mark,
                                              &h->make, &w->dpu.call,  &w->dpu.late};
    int64_t next = least(watch_due(w), NEVER);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        next = least(next, request_due(requests[i]));
    }
    for (size_t i = 0; i < ORPHANS_MAX; i++) {
        next = least(next, request_due(&w->orphans[i]));
    }
    next = least(next, h->runs ? h->wake_at : NEVER);
    return least(next, w->dpu.runs ? w->dpu.wake_at : NEVER);
}

void world_run(struct explorer *e, struct world *w, int64_t end)
{
    const struct scene s = {e, w};
    jitter_pc = e->setting->jitter_pc;
    for (;;) {
        bool did = server_step(s) || dpu_step(s) || (w->host.runs && host_step(s));
        if (did) {
            if (++w->instant_events > INSTANT_MAX) {
                judge_fail(e, "loop: too much happens at one time");
            }
            if (e->failure[0] != '\0') {
                return;
            }
            continue;
        }
        judge_look(w);
        judge_check(e, w);
        int64_t next = next_due(w);
        if (next > end || e->failure[0] != '\0') {
            break;
        }
        w->now = next;
        w->instant_events = 0;
    }
    w->now = end;
    w->instant_events = 0;
}

/* ---- faults ---------------------------------------------------------------------------------- */

bool world_can_toggle(const struct world *w, enum fault fault)
{
    bool is_on = world_has(w, fault);
    bool api_is_away = world_has(w, API_DOWN) || world_has(w, API_SILENT);
    if (is_on) {
        return true;
    }
    switch (fault) {
    case API_DOWN:
    case API_SILENT:
    case API_UNSURE:
    case API_UNTOLD:
    case API_READ_ONLY:
    case API_STUCK:
        return !api_is_away;
    case HOST_DOWN:
    case HOST_LOOP:
        return w->host.runs && !world_has(w, HOST_LOOP);
    case HOST_SLOW:
        return !world_has(w, HOST_SLOWEST) && w->host.runs;
    case HOST_SLOWEST:
        return !world_has(w, HOST_SLOW) && w->host.runs;
    case DPU_SLOW:
        return !world_has(w, DPU_SLOWEST) && w->dpu.runs;
    case DPU_SLOWEST:
        return !world_has(w, DPU_SLOW) && w->dpu.runs;
    case WATCH_BROKEN:
    case WATCH_LATE:
    case WATCH_SILENT:
        return w->host.runs && w->host.watch.state == WATCH_OPEN && !w->host.watch.is_deaf;
    case HOST_DENIED: /* where reads are the proof, they must not lie: no real API server's do */
        return w->host.runs && !world_has(w, HOST_STALE);
    case HOST_STALE:
        return w->host.runs && !world_has(w, HOST_DENIED);
    case HOST_CUT:
    case HOST_GARBAGE:
    case ACCUSED:
        return w->host.runs;
    case DPU_DOWN:
    case DPU_STOPPED:
    case DPU_CUT:
    case DPU_UNWELL:
    case DPU_RESTART:
    case DPU_CLOCK_BACK:
    case DPU_CLOCK_ON:
        return w->dpu.runs;
    case LEASE_DELETED: /* nor do they show a lease of before */
        return w->lease.uid != 0 && !world_has(w, HOST_STALE);
    case TOUCHES:
        return w->lease.uid != 0;
    case FAULTS:
        break;
    }
    return false;
}

static void begin(struct scene s, enum fault fault)
{
    struct world *w = s.w;
    struct host *h = &w->host;
    s.e->tally.began[fault]++;
    switch (fault) {
    case API_DOWN:
        request_break(w, &w->dpu.call);
        request_break(w, &w->dpu.late);
        request_break(w, &h->mark);
        request_break(w, &h->make);
        request_break(w, &h->read);
        request_break(w, &h->late_read);
        request_break(w, &h->watch.list);
        host_break_watch(s);
        break;
    case WATCH_BROKEN:
        host_break_watch(s);
        break;
    case WATCH_SILENT:
        h->watch.is_deaf = true;
        break;
    case HOST_STALE:
        w->stale = w->lease;
        break;
    case HOST_DOWN:
        host_kill(s);
        break;
    case HOST_LOOP:
        host_kill(s);
        host_start(s);
        break;
    case ACCUSED:
        host_tell_probes(s);
        break;
    case DPU_DOWN:
        dpu_kill(s);
        break;
    case DPU_STOPPED:
        dpu_event(s, (struct renewer_event){.kind = RENEWER_STOP});
        break;
    case DPU_UNWELL:
        dpu_say(s);
        break;
    case DPU_RESTART:
        dpu_kill(s);
        dpu_start(s);
        w->past.dpu_bad_at = w->now;
        break;
    case DPU_CLOCK_BACK:
        w->dpu.clock_ns -= 2 * s.e->setting->interval_ns + CLOCK_ODD_NS;
        w->past.stepped_at = w->now;
        break;
    case DPU_CLOCK_ON:
        w->dpu.clock_ns += 2 * s.e->setting->interval_ns + CLOCK_ODD_NS;
        w->past.stepped_at = w->now;
        break;
    case LEASE_DELETED:
        w->version++;
        w->lease = (struct lease){.uid = 0};
        w->past.reported_since = 0;
        w->past.gone_at = w->now;
        watch_emit(w);
        break;
    case API_SILENT: /* requests and the watch look at the rest */
    case API_UNSURE:
    case API_UNTOLD:
    case API_READ_ONLY:
    case API_STUCK:
    case HOST_DENIED:
    case HOST_CUT:
    case HOST_SLOW:
    case HOST_SLOWEST:
    case HOST_GARBAGE:
    case WATCH_LATE:
    case DPU_CUT:
    case DPU_SLOW:
    case DPU_SLOWEST:
    case TOUCHES:
    case FAULTS:
        break;
    }
}

static void finish(struct scene s, enum fault fault)
{
    struct world *w = s.w;
    assert(fault < FAULTS_THAT_LAST);
    s.e->tally.ended[fault]++;
    if (fault == HOST_DOWN) {
        host_start(s);
    } else if (fault == ACCUSED && w->host.runs) {
        host_tell_probes(s);
    } else if (fault == DPU_DOWN) {
        w->dpu.boot++;
        dpu_start(s);
    } else if (fault == DPU_STOPPED) {
        dpu_kill(s);
        dpu_start(s);
    } else if (fault == DPU_UNWELL && w->dpu.runs) {
        dpu_say(s);
    }
}

void world_toggle(struct explorer *e, struct world *w, enum fault fault)
{
    const struct scene s = {e, w};
    bool was_on = world_has(w, fault);
    world_tell(e, w, "-- %s %s", fault_name(fault),
               fault >= FAULTS_THAT_LAST ? ""
               : was_on                  ? "ends"
                                         : "begins");
    judge_look(w);
    if (fault < FAULTS_THAT_LAST) {
        w->faults ^= UINT32_C(1) << fault;
    }
    if (was_on) {
        finish(s, fault);
    } else {
        begin(s, fault);
    }
    judge_look(w);
}

/* What goes on at each point of time while a fault lasts. */
static void go_on(struct scene s)
{
    struct world *w = s.w;
    if (world_has(w, HOST_LOOP)) {
        host_kill(s);
        host_start(s);
    }
    if (world_has(w, TOUCHES) && w->lease.uid != 0) {
        lease_commit(w, w->lease);
    }
}

void world_point(struct explorer *e, struct world *w)
{
    go_on((struct scene){e, w});
    judge_pace(e, w);
}

/* ---- start ----------------------------------------------------------------------------------- */

void explorer_init(struct explorer *e, const struct setting *setting)
{
    *e = (struct explorer){.setting = setting};
    e->renewer = (struct renewer_config){.interval_ns = setting->interval_ns,
                                         .duration_ns = setting->duration_ns,
                                         .announce_shutdown = true};
    text_format(e->renewer.lease_ns, sizeof(e->renewer.lease_ns), "ovn-kubernetes");
    text_format(e->renewer.lease_name, sizeof(e->renewer.lease_name), "ovn-dpu-node");
    text_format(e->renewer.holder, sizeof(e->renewer.holder), "ovnkube-dpu-node");
    text_format(e->renewer.node_name, sizeof(e->renewer.node_name), "node");
    e->verdict = (struct verdict_config){.lease_ns = "ovn-kubernetes",
                                         .lease_name = "ovn-dpu-node",
                                         .holder = "ovnkube-dpu-node",
                                         .renew_interval_ns = setting->interval_ns,
                                         .duration_ns = setting->duration_ns,
                                         .api_outage_hold_ns = VERDICT_HOLD_UNLIMITED};
}

void world_init(struct explorer *e, struct world *w, enum root root)
{
    const struct scene s = {e, w};
    *w = (struct world){.now = START_NS, .last_uid = 1, .version = 1000};
    jitter_pc = e->setting->jitter_pc;
    w->host.wake_at = NEVER;
    w->dpu.wake_at = NEVER;
    w->dpu.boot = 1;
    text_format(w->record.boot_id, sizeof(w->record.boot_id), HOST_BOOT);
    text_format(w->record.node, sizeof(w->record.node), "node");
    lease_commit(w, (struct lease){.uid = 1});
    dpu_start(s);
    if (root == ROOT_CALM) {
        host_start(s);
    }
    world_run(e, w, START_NS + 6 * e->setting->interval_ns + e->setting->first_ns);
    if (root == ROOT_NEW_HOST_OF_DEAD_DPU) {
        w->faults |= UINT32_C(1) << DPU_DOWN;
        dpu_kill(s);
    }
    if (root != ROOT_CALM) {
        host_start(s);
    }
    judge_look(w);
}
