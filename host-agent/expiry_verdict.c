/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict that the state of the readiness FSM gives, and how long each word of it holds. */
#include "base/text.h"
#include "host-agent/expiry_internal.h"
#include "host-agent/expiry_words.h"

#define DISABLED_REWRITE_NS (10 * NS_PER_SEC)

/* ---- how long it holds ----------------------------------------------------------------------- */

int64_t expiry_writer_ahead_ns(const struct expiry_config *config)
{
    int64_t r = config->renew_interval_ns;
    if (r == 0) {
        return DISABLED_REWRITE_NS * 3 / 2;
    }
    int64_t ahead_ns = r + r / 2;
    int64_t most_ns = config->duration_ns - r;
    return ahead_ns < most_ns ? ahead_ns : most_ns;
}

struct mono expiry_writer_until(const struct expiry *x, struct mono now)
{
    struct mono until = mono_add(now, expiry_writer_ahead_ns(&x->config));
    bool counting = (x->phase == EXPIRY_FRESH || x->phase == EXPIRY_HOLDING) && !x->contact_lost;
    bool others_write = expiry_hear(x) == EXPIRY_HEARD;
    if (counting && !(expiry_early_reads_went_well(x) && others_write)) {
        until = mono_min(until, mono_max(now, x->verdict.valid_until));
    }
    return until;
}

struct mono expiry_hold_end(const struct expiry *x)
{
    switch (x->hold_cause) {
    case EXPIRY_HOLD_OUTAGE:
    case EXPIRY_HOLD_UNANSWERED:
    case EXPIRY_HOLD_UNREADABLE:
    case EXPIRY_HOLD_NOT_WRITING:
        return mono_add(expiry_run_out(x), x->config.api_outage_hold_ns);
    case EXPIRY_HOLD_GRACE:
    case EXPIRY_HOLD_STALL:
    case EXPIRY_HOLD_RESTART:
        break;
    }
    return MONO_NEVER; /* they end by themselves */
}

/* Until when readers may go on admitting without hearing from us. While we know that we cannot
 * know, the promise is pushed on with each rewrite; otherwise it ends exactly at the deadline. */
static struct mono valid_until(const struct expiry *x, struct mono now)
{
    struct mono deadline = expiry_proof_deadline(x);
    struct mono pushed = mono_add(now, expiry_writer_ahead_ns(&x->config));
    switch (x->phase) {
    case EXPIRY_DISABLED:
        return pushed;
    case EXPIRY_FRESH:
        return x->contact_lost ? mono_max(deadline, pushed) : deadline;
    case EXPIRY_HOLDING: {
        bool counting = !x->contact_lost && mono_before(now, deadline);
        return mono_min(counting ? deadline : pushed, expiry_hold_end(x));
    }
    case EXPIRY_AWAITING:
    case EXPIRY_EXPIRED:
    case EXPIRY_REPORTED:
    case EXPIRY_PHASE_COUNT:
        break;
    }
    return x->has_observation ? deadline : (struct mono){0};
}

/* ---- state, reason, admission ---------------------------------------------------------------- */

/* Why the silence: the lease itself is damaged, or the DPU does not renew it. */
static enum readiness_reason expired_reason(const struct expiry *x)
{
    const struct lease_view *lease = &x->lease;
    if (!x->lease_present) {
        return REASON_LEASE_NOT_FOUND;
    }
    if (x->lease_unreadable || !text_equal(lease->holder, x->config.holder) ||
        lease->renew_stamp[0] == '\0' || lease->duration_s == 0) {
        return REASON_LEASE_INVALID;
    }
    return REASON_LEASE_EXPIRED;
}

static void judge(struct readiness *out, enum readiness_state state, enum readiness_reason reason,
                  bool admit)
{
    out->state = state;
    out->reason = reason;
    out->admit = admit;
}

static void judge_phase(const struct expiry *x, struct readiness *out)
{
    switch (x->phase) {
    case EXPIRY_AWAITING:
    case EXPIRY_PHASE_COUNT:
        judge(out, READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, false);
        break;
    case EXPIRY_FRESH:
        judge(out, READINESS_READY, REASON_LEASE_RENEWED, true);
        break;
    case EXPIRY_HOLDING:
        judge(out, READINESS_UNKNOWN,
              x->hold_cause == EXPIRY_HOLD_NOT_WRITING ? REASON_API_SERVER_NOT_WRITING
                                                       : REASON_API_SERVER_UNREACHABLE,
              x->hold_admit);
        break;
    case EXPIRY_EXPIRED:
        judge(out, READINESS_NOT_READY, expired_reason(x), false);
        break;
    case EXPIRY_REPORTED:
        judge(out, READINESS_NOT_READY,
              x->lease.health == LEASE_HEALTH_SHUTDOWN ? REASON_DPU_SHUTDOWN
                                                       : REASON_DPU_REPORTED_UNHEALTHY,
              false);
        break;
    case EXPIRY_DISABLED:
        judge(out, READINESS_READY, REASON_HEALTH_CHECK_DISABLED, true);
        break;
    }
}

/* A former process said why, or heard it; nothing new is known. */
static bool is_carried_on(const struct expiry *x)
{
    return (x->phase == EXPIRY_EXPIRED || x->phase == EXPIRY_REPORTED) && expiry_is_unsettled(x);
}

void expiry_judge(struct expiry *x, struct mono now)
{
    struct readiness *out = &x->verdict;
    out->observed = x->has_observation ? x->observed : (struct mono){0};
    out->valid_until = valid_until(x, now);
    text_format(out->lease.ns, sizeof(out->lease.ns), "%s", x->config.lease_ns);
    text_format(out->lease.name, sizeof(out->lease.name), "%s", x->config.lease_name);
    text_format(out->lease.uid, sizeof(out->lease.uid), "%s", x->lease.uid);
    text_format(out->lease.renew_stamp, sizeof(out->lease.renew_stamp), "%s",
                x->has_observation ? x->observed_stamp : x->lease.renew_stamp);
    text_format(out->lease.resource_version, sizeof(out->lease.resource_version), "%s",
                x->lease.resource_version);
    out->lease.duration_s = x->lease.duration_s;
    text_format(out->dpu_boot_id, sizeof(out->dpu_boot_id), "%s", x->boot.id);
    if (is_carried_on(x)) {
        judge(out, READINESS_NOT_READY, out->reason, false);
        return;
    }
    judge_phase(x, out);
    if (out->admit && readiness_is_accused(out) && x->phase != EXPIRY_DISABLED) {
        judge(out, READINESS_NOT_READY, REASON_HOST_PROBE_FAILED, false);
    } else if (out->admit && x->pods[0] != '\0') {
        judge(out, READINESS_NOT_READY, REASON_POD_NETWORK_LOST, false);
    }
    expiry_words_say(x, out);
}

const struct readiness *expiry_verdict(const struct expiry *x)
{
    return &x->verdict;
}
