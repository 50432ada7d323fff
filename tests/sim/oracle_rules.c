/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules, each with its bound. What they excuse is said beside them, and nothing else is.
 *
 *   late      A DPU that renews no more is admitted no longer than its lease, once evidence can be
 *             had. A broken watch is no excuse: reads are answered.
 *   probe     A DPU that the host sees gone is refused at once, and nobody is refused for what no
 *             host probe says.
 *   report    A DPU that says it is unwell is refused at once.
 *   stale     The last word of a dead writer ends.
 *   early     A DPU whose renewal was there to be seen is not refused within the duration that
 * stands on the lease, or ours, if that is shorter. regular   A DPU that renews all along is not
 * refused, whatever the host cannot see. hold      Nobody is condemned by an API server that is not
 * there, or takes no writes. reboot    Another boot of the DPU is told once, and nothing else is
 * told as one. back      When all has been well for long enough, the DPU is admitted.
 */
#include "tests/sim/oracle_internal.h"

#include <string.h>

#define LATENCY_NS ORACLE_LATENCY_NS
#define SEC_NS     ORACLE_SEC

/* A look at it is no later. */
#define HOST_PROBE_NS (SEC_NS + LATENCY_NS)

/* A request that hangs, on either side. */
#define HANG_NS (5 * SEC_NS)

/* The host takes a longer duration from the lease, up to this. */
#define DURATION_MOST_NS (600 * SEC_NS)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t duration_ns(const struct oracle *o)
{
    return most(o->config.duration_ns, least(o->longest_ns, DURATION_MOST_NS));
}

/* ---- admitted ---------------------------------------------------------------------------------
 */

/* Once it can see again the host needs a read, and gives the DPU the time of a retry; what it then
 * sees for the first time counts from that moment. */
static int64_t settle_ns(const struct oracle *o)
{
    int64_t interval_ns = o->config.interval_ns;
    int64_t settle = 3 * interval_ns + HANG_NS;
    return most(settle, duration_ns(o) + interval_ns);
}

static void check_late(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    int64_t interval_ns = o->config.interval_ns;
    int64_t duration = duration_ns(o);
    /* Without a watch a renewal is seen by a read, at most a duration after it was made. */
    int64_t unseen_ns = t->now - o->murky_at < 2 * duration ? duration : 0;
    int64_t limit = o->renewed_at + duration + unseen_ns;
    if (o->stepped_at != 0) { /* stamps that went back: a retry's time for the next */
        limit = most(limit, o->renewed_at + 2 * interval_ns + HANG_NS + SEC_NS);
    }
    limit = most(limit, o->blind_at + settle_ns(o));
    limit = most(limit, o->gone_at + settle_ns(o));
    if (o->edited_at != 0) { /* stamps that somebody else wrote may pass for the DPU's */
        limit = most(limit, o->edited_at + duration + settle_ns(o));
    }
    if (o->unsure_at != 0 && t->now - o->unsure_at < HANG_NS) {
        limit += most(o->config.duration_ns / 8, SEC_NS / 4); /* a mark's answer is waited for */
    }
    if (t->now > limit + 2 * LATENCY_NS) {
        oracle_fail(o, t, r, "late", "a dead DPU is admitted");
    }
}

static void check_report(struct oracle *o, const struct oracle_truth *t,
                         const struct record_read *r)
{
    int64_t seen_since = most(o->blind_at, o->murky_at);
    if (o->is_reported && o->reported_since > seen_since + LATENCY_NS &&
        t->now - o->reported_since > LATENCY_NS && t->now - o->edited_at > duration_ns(o) &&
        t->now - o->report_renewed_at < o->shortest_ns) {
        oracle_fail(o, t, r, "report", "a DPU that says it is unwell is admitted");
    }
}

static void check_stale(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    int64_t limit_ns = o->config.stale_hold_ns + duration_ns(o) + 2 * o->config.interval_ns;
    if (o->host_down_since != 0 && t->now - o->host_down_since > limit_ns) {
        oracle_fail(o, t, r, "stale", "the last word of a dead writer counts");
    }
}

/* ---- refused ----------------------------------------------------------------------------------
 */

/* Neither said by the DPU itself, nor done to it by others. */
static bool is_undisturbed(const struct oracle *o, int64_t since)
{
    return !o->is_reported && o->reported_at < since && o->edited_at + 2 * duration_ns(o) < since &&
           o->stepped_at < since;
}

static void check_early(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    int64_t before = o->before_at;
    bool was_visible = before != 0 && most(o->blind_at, o->murky_at) + LATENCY_NS < before;
    int64_t age_ns = t->now - o->counted_at;
    if (was_visible && is_undisturbed(o, before) && o->gone_at + LATENCY_NS < before &&
        age_ns > LATENCY_NS && age_ns < o->shortest_ns - LATENCY_NS) {
        oracle_fail(o, t, r, "early", "a DPU whose renewal was visible is refused");
    }
}

static void check_regular(struct oracle *o, const struct oracle_truth *t,
                          const struct record_read *r)
{
    if (o->was_ready && oracle_is_regular(o, t->now) && is_undisturbed(o, o->regular_since) &&
        t->now - o->regular_since > 2 * o->config.duration_ns && r &&
        t->host_boot_ns < r->hold_until_ns) {
        oracle_fail(o, t, r, "regular", "a DPU that renewed all along is refused");
    }
}

static void check_hold(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    if (o->is_held && r && t->host_boot_ns < r->hold_until_ns) {
        oracle_fail(o, t, r, "hold", "a DPU is refused while nobody can know");
    }
}

static void check_back(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    int64_t bound_ns = 60 * SEC_NS + 4 * o->config.interval_ns + o->config.duration_ns;
    int64_t edited_ns = bound_ns + 10 * o->config.duration_ns;
    if (t->now - o->broken_at > bound_ns && t->now - o->edited_at > edited_ns) {
        oracle_fail(o, t, r, "back", "all has been well, and the DPU is refused");
    }
}

/* Of what a host probe takes away nothing else is asked. */
static bool check_accused(struct oracle *o, const struct oracle_truth *t,
                          const struct record_read *r)
{
    bool is_accused = o->accused_at != 0 && t->now - o->accused_at <= HOST_PROBE_NS;
    bool has_looked = t->now - o->host_down_at > HOST_PROBE_NS;
    if (!is_accused && r && has_looked && strcmp(o->reason, "HostProbeFailed") == 0) {
        oracle_fail(o, t, r, "host probe", "a DPU is refused that no host probe accuses");
    }
    return is_accused;
}

/* ---- boots ------------------------------------------------------------------------------------
 */

static size_t find_boot(const struct oracle *o, const char *id)
{
    size_t i = 0;
    while (i < o->boot_count && strcmp(o->boots[i], id) != 0) {
        i++;
    }
    return i;
}

void oracle_check_boot(struct oracle *o, const struct oracle_truth *t,
                       const struct record_read *before, const struct record_read *now)
{
    bool is_told = now->dpu_reboot_time[0] != '\0' &&
                   strcmp(before->dpu_reboot_time, now->dpu_reboot_time) != 0;
    bool is_known = before->dpu_boot_id[0] != '\0' && now->dpu_boot_id[0] != '\0';
    bool is_other = is_known && strcmp(before->dpu_boot_id, now->dpu_boot_id) != 0;
    size_t boot = find_boot(o, now->dpu_boot_id);
    if (is_told && !is_other && (is_known || boot == 0)) { /* the record does not show each boot */
        oracle_fail(o, t, now, "reboot", "a reboot is told that was none");
    } else if (is_other && (boot == o->boot_count || boot <= find_boot(o, before->dpu_boot_id))) {
        oracle_fail(o, t, now, "reboot", "a boot is told that is not later than the last");
    } else if (is_other && !is_told) {
        oracle_fail(o, t, now, "reboot", "a reboot is not told");
    }
}

/* All has been well for long enough: it is the boot that renews. */
static void check_boot_now(struct oracle *o, const struct oracle_truth *t,
                           const struct record_read *r)
{
    int64_t bound_ns = 60 * SEC_NS + 4 * o->config.interval_ns + o->config.duration_ns;
    if (r && t->now - o->broken_at > bound_ns && strcmp(r->dpu_boot_id, t->dpu_boot_id) != 0) {
        oracle_fail(o, t, r, "reboot", "a boot of the DPU was not noticed");
    }
}

void oracle_check(struct oracle *o, const struct oracle_truth *t, const struct record_read *r,
                  bool admits)
{
    if (!r || t->host_boot_ns >= r->hold_until_ns) { /* all starts anew */
        o->was_ready = false;
        o->is_held = false;
    }
    if (admits) {
        bool sees = most(o->blind_at, o->murky_at) < o->regular_since;
        o->was_ready |= sees && oracle_is_regular(o, t->now) &&
                        t->now - o->regular_since > LATENCY_NS && strcmp(r->state, "Ready") == 0;
        if (o->accused_since != 0 && t->now - o->accused_since > HOST_PROBE_NS) {
            oracle_fail(o, t, r, "host probe", "a DPU is admitted that the host sees gone");
        }
        check_late(o, t, r);
        check_report(o, t, r);
        check_stale(o, t, r);
        check_boot_now(o, t, r);
        return;
    }
    if (!check_accused(o, t, r)) {
        check_early(o, t, r);
        check_regular(o, t, r);
        check_hold(o, t, r);
        check_back(o, t, r);
    }
    o->was_ready = false; /* it has to be earned again */
    o->is_held = false;
}
