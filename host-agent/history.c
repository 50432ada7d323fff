/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/history.h"

#include "host-agent/mark.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define BOOT_REPEATS 4 /* renewals in a row under the boot before: it lasts, and is news */

static bool read_stamp(const char *stamp, struct wall *out)
{
    return rfc3339_parse(stamp, strlen(stamp), out, NULL) == 0;
}

/* ---- renewals -------------------------------------------------------------------------------- */

bool history_has_renewed(const struct history *h)
{
    return h->stamp[0] != '\0';
}

bool history_is_ours(const struct history *h, const struct lease_view *lease)
{
    return text_equal(lease->holder, h->holder);
}

static bool is_same_lease(const struct history *h, const struct lease_view *lease)
{
    return h->lease.uid[0] != '\0' && text_equal(h->lease.uid, lease->uid);
}

/* That one, or the last renewal's: a server that lags may have shown one that is gone since. */
static bool is_known(const struct history *h, const struct lease_view *lease)
{
    return is_same_lease(h, lease) || (h->uid[0] != '\0' && text_equal(h->uid, lease->uid));
}

static bool is_below(const struct lease_view *lease, uint64_t known)
{
    uint64_t version = mark_version(lease->resource_version);
    return version != 0 && version < known;
}

/* A report is a lease of its own: dpu-agent renews its stamp once an interval while it stands. */
static bool has_report(const struct history *h, const struct lease_view *lease)
{
    return history_is_ours(h, lease) && lease->health != LEASE_HEALTH_NONE;
}

/* A text that differs from the last state's, the last renewal's and the last older state's, by our
 * holder, on a lease that is known ("Rules for both sides", 1). An older state may hold one, too,
 * and so may what we wrote on it: there the stamp has to be the latest ever. */
static bool is_renewal(const struct history *h, const struct lease_view *lease, bool is_behind)
{
    const char *stamp = lease->renew_stamp;
    bool is_latest = lease->renew_time_valid && lease->renew_time.ns > h->newest.ns;
    return is_known(h, lease) && history_is_ours(h, lease) && stamp[0] != '\0' &&
           !text_equal(stamp, h->lease.renew_stamp) && !text_equal(stamp, h->stamp) &&
           !text_equal(stamp, h->past_stamp) && (is_latest || !is_behind);
}

struct news history_compare(const struct history *h, const struct lease_view *lease, bool by_write)
{
    struct wall reported;
    bool is_same = is_same_lease(h, lease);
    bool is_behind = is_below(lease, h->version);
    return (struct news){
        .is_same_lease = is_same,
        .is_new_stamp = !is_same || !text_equal(h->lease.renew_stamp, lease->renew_stamp),
        .is_old = is_below(lease, mark_version(h->lease.resource_version)),
        .is_behind = is_behind,
        .is_renewal = is_renewal(h, lease, is_behind || by_write),
        .is_late_report = has_report(h, lease) && read_stamp(lease->health_stamp, &reported) &&
                          reported.ns > h->newest.ns,
    };
}

/* Rule 1: no clocks of two machines are compared; two stamps of one DPU are. It lies as far after
 * the last one as its stamp does, but not before the last look, which would have shown it, and not
 * after now.
 *
 * Where the DPU's clock was set back, the stamps tell nothing, nor does the distance from one that
 * was held until the clock is there again. Then the renewal counts from now, which is in the DPU's
 * favour; but from the last look if it was made while we did not run, so that a dead DPU gains
 * nothing by our restart. */
struct mono history_date(const struct history *h, const struct lease_view *lease,
                         int64_t interval_ns, struct mono looked_at, struct mono now)
{
    struct mono earliest = mono_max(h->observed, looked_at);
    struct wall last = h->is_first_look ? h->newest : h->stamp_time;
    bool is_known = last.ns != 0 && lease->renew_time_valid;
    int64_t distance_ns = is_known ? wall_since(lease->renew_time, last) : 0;
    if (distance_ns > interval_ns / 2) {
        return mono_min(now, mono_max(mono_add(h->observed, distance_ns), earliest));
    }
    return h->is_first_look ? earliest : now;
}

/* The DPU's clock was set back, and its stamp is the former one and a microsecond
 * (contract/lease.h), or a few, where some of them were missed: the clock itself was behind it. */
static bool is_held_stamp(const struct history *h, const struct lease_view *lease)
{
    struct wall former;
    int64_t later_ns = read_stamp(h->stamp, &former) ? wall_since(lease->renew_time, former) : 0;
    return later_ns > 0 && later_ns <= NS_PER_MS;
}

void history_renew(struct history *h, struct mono made, const struct lease_view *lease)
{
    bool is_clocks = lease->renew_time_valid && !is_held_stamp(h, lease);
    h->stamp_time = is_clocks ? lease->renew_time : (struct wall){0};
    h->last_gap_ns = history_has_renewed(h) ? mono_since(made, h->observed) : 0;
    (void)text_copy(h->stamp, sizeof(h->stamp), lease->renew_stamp);
    (void)text_copy(h->uid, sizeof(h->uid), lease->uid);
    h->observed = made;
}

/* ---- reports --------------------------------------------------------------------------------- */

static bool stood_still(const struct history *h, int64_t duration_ns, struct mono at)
{
    return mono_reached(at, mono_add(h->reported, duration_ns));
}

/* renewTime may be renewed by somebody else meanwhile (ovn-kubernetes' own health check): a report
 * that stands still for a duration beside such renewals is a leftover ("Rules for both sides",
 * 5). */
bool history_take_report(struct history *h, const struct lease_view *lease, const struct news *news,
                         int64_t duration_ns, struct mono now)
{
    bool is_new = !news->is_same_lease || !has_report(h, &h->lease) ||
                  h->lease.health != lease->health ||
                  !text_equal(h->lease.health_stamp, lease->health_stamp);
    if (!has_report(h, lease)) {
        return false;
    }
    if (is_new) {
        h->reported = news->is_behind && !news->is_late_report ? (struct mono){0} : now;
    }
    return (is_new || news->is_renewal) && !stood_still(h, duration_ns, now);
}

/* One that stands still for a duration. An announced shutdown is the last that is heard, and an
 * older dpu-agent reports only once. */
bool history_is_report_over(const struct history *h, int64_t duration_ns, struct mono t)
{
    bool is_renewable =
        h->lease.health == LEASE_HEALTH_UNHEALTHY && h->lease.health_stamp[0] != '\0';
    return !has_report(h, &h->lease) || (is_renewable && stood_still(h, duration_ns, t));
}

/* ---- boots ----------------------------------------------------------------------------------- */

/* Only another boot than the last two, on a lease that has just been renewed, is a reboot: a second
 * DPU that writes the same lease is no news. An older state tells of one before, which lasts until
 * it is mended where ovnkube renews it. */
bool history_take_boot(struct history *h, const struct lease_view *lease, const struct news *news,
                       struct readiness *out)
{
    const char *id = lease->boot_id;
    bool renewed = news->is_renewal;
    bool is_first = out->dpu_boot_id[0] == '\0';
    if (!history_is_ours(h, lease) || id[0] == '\0' || text_equal(id, out->dpu_boot_id)) {
        h->boot_repeats = 0;
        return false; /* an older dpu-agent, or upstream's, claims nothing */
    }
    if (news->is_behind && !renewed && !is_first) {
        (void)text_copy(out->dpu_boot_before, sizeof(out->dpu_boot_before), id);
    }
    h->boot_repeats += renewed && text_equal(id, out->dpu_boot_before);
    bool is_past = text_equal(id, out->dpu_boot_before) && h->boot_repeats < BOOT_REPEATS;
    if (is_past || !(renewed || is_first)) {
        return false;
    }
    h->boot_repeats = 0;
    memcpy(out->dpu_boot_before, out->dpu_boot_id, sizeof(out->dpu_boot_before));
    (void)text_copy(out->dpu_boot_id, sizeof(out->dpu_boot_id), id);
    return !is_first;
}

/* ---- what is kept ---------------------------------------------------------------------------- */

void history_keep(struct history *h, const struct lease_view *lease, bool stands)
{
    struct wall reported;
    uint64_t version = mark_version(lease->resource_version);
    if (lease->renew_time_valid && lease->renew_time.ns > h->newest.ns) {
        h->newest = lease->renew_time;
    }
    if (read_stamp(lease->health_stamp, &reported) && reported.ns > h->newest.ns) {
        h->newest = reported;
    }
    if (stands || version > h->version) {
        h->version = version;
    }
    h->is_first_look = false;
    h->lease = *lease;
}

void history_keep_past(struct history *h, const struct lease_view *lease)
{
    (void)text_copy(h->past_stamp, sizeof(h->past_stamp), lease->renew_stamp);
}

void history_restore(struct history *h, const struct readiness *was, struct mono now)
{
    struct lease_view *lease = &h->lease;
    (void)text_copy(lease->uid, sizeof(lease->uid), was->lease.uid);
    (void)text_copy(lease->renew_stamp, sizeof(lease->renew_stamp), was->lease.renew_stamp);
    memcpy(lease->resource_version, was->lease.resource_version, sizeof(lease->resource_version));
    (void)text_copy(lease->holder, sizeof(lease->holder), h->holder);
    lease->duration_s = was->lease.duration_s;
    h->observed = was->observed;
    (void)text_copy(h->stamp, sizeof(h->stamp), was->lease.renew_stamp);
    (void)text_copy(h->uid, sizeof(h->uid), was->lease.uid);
    h->version = mark_version(was->lease.resource_version);
    (void)read_stamp(h->stamp, &h->newest); /* none stays 0 */
    h->is_first_look = true;
    if (was->reason == REASON_DPU_SHUTDOWN || was->reason == REASON_DPU_REPORTED_UNHEALTHY) {
        bool is_shutdown = was->reason == REASON_DPU_SHUTDOWN;
        lease->health = is_shutdown ? LEASE_HEALTH_SHUTDOWN : LEASE_HEALTH_UNHEALTHY;
        h->reported = now;
    }
}

/* ---- whose renewal it is --------------------------------------------------------------------- */

/* The gap between the last two renewTimes in the host's name is like the one before (a quarter is
 * the jitter of requests and of a busy DPU), and shorter than the lease. */
static void note_rhythm(struct renewal_origin *o, const struct lease_view *lease, bool is_host)
{
    int64_t lasts_ns = mono_ns_mul(NS_PER_SEC, lease->duration_s);
    bool has_gap = is_host && o->host_wrote.ns != 0;
    int64_t gap_ns = has_gap ? wall_since(lease->renew_time, o->host_wrote) : 0;
    bool is_rhythm =
        gap_ns > 0 && gap_ns < lasts_ns && o->gap_ns > 0 && llabs(gap_ns - o->gap_ns) <= gap_ns / 4;
    o->is_regular = is_host && (o->is_regular || is_rhythm);
    o->gap_ns = gap_ns;
    o->host_wrote = is_host ? lease->renew_time : (struct wall){0};
}

/* By a dpu-agent that does not sign, beside the sign of one that did. */
static bool is_by_unsigning_agent(const struct renewal_origin *o, const struct lease_view *lease)
{
    return lease->sign[0] != '\0' && !text_equal(lease->agent_version, o->signer);
}

bool origin_leave_out_host(struct renewal_origin *o, struct lease_view *lease, const char *writer)
{
    bool is_first = !text_equal(o->uid, lease->uid);
    bool is_new = is_first || !text_equal(o->newest, lease->renew_stamp);
    if (is_first || text_equal(lease->sign, lease->renew_stamp)) {
        (void)text_copy(o->signer, sizeof(o->signer), lease->agent_version);
    }
    bool is_host = lease_is_by_host(lease, writer, o->host) && !is_by_unsigning_agent(o, lease);
    if (is_new) {
        (void)text_copy(o->uid, sizeof(o->uid), lease->uid);
        (void)text_copy(o->newest, sizeof(o->newest), lease->renew_stamp);
        note_rhythm(o, lease, is_host);
    }
    if (is_new && (is_first || !is_host || o->is_regular)) {
        o->dpu = *lease;
    }
    if (is_new && is_host && !o->is_regular && read_stamp(lease->sign, &o->dpu.renew_time)) {
        (void)text_copy(o->dpu.renew_stamp, sizeof(o->dpu.renew_stamp), lease->sign);
        o->dpu.renew_time_valid = true; /* the DPU's last, also where nobody has seen it */
    }
    bool is_bump = !text_equal(o->dpu.renew_stamp, o->newest);
    if (is_bump) {
        (void)text_copy(lease->renew_stamp, sizeof(lease->renew_stamp), o->dpu.renew_stamp);
        lease->renew_time_valid = o->dpu.renew_time_valid;
        lease->renew_time = o->dpu.renew_time;
    }
    return is_new && is_bump;
}
