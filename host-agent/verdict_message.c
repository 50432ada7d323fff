/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/verdict_message.h"

#include "base/attr.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What others said is part of it: it is cut between characters and made printable, for it goes into
 * JSON and onto terminals. */
static void say(struct readiness *out, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say(struct readiness *out, const char *fmt, ...)
{
    char whole[2 * NAMES_MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(whole, sizeof(whole), fmt, ap); /* cut at its bound */
    va_end(ap);
    text_sanitize(out->message, sizeof(out->message), whole, strlen(whole));
}

static void say_awaiting(const struct verdict *x, struct readiness *out)
{
    const struct verdict_config *c = x->config;
    if (x->contact == VERDICT_CONTACT_LOST) {
        say(out, "no renewal of lease %s/%s has been seen yet: the API server cannot be read (%s)",
            c->lease_ns, c->lease_name, x->failure);
    } else {
        say(out, "no renewal of lease %s/%s has been seen yet: is dpu-agent running on the DPU?",
            c->lease_ns, c->lease_name);
    }
}

/* Why there was no evidence, and the same once the DPU has its retry. */
static const struct {
    const char *now, *past;
} cause_texts[] = {
    [VERDICT_CAUSE_PAUSE] = {"dpu-host-agent was stopped, restarted, or met conflicts alone", NULL},
    [VERDICT_CAUSE_UNREACHABLE] = {"the API server does not answer",
                                   "the API server could not be reached"},
    [VERDICT_CAUSE_UNREADABLE] = {"the API server's answers cannot be read",
                                  "the API server's answers could not be read"},
    [VERDICT_CAUSE_NO_WRITES] = {"the API server takes no writes", "the API server took no writes"},
    [VERDICT_CAUSE_DENIED] = {"the API server denies the host's write to the lease",
                              "the API server denied the host's write to the lease"},
    [VERDICT_CAUSE_ABSENT] = {"the lease is gone and is being made anew", "the lease was gone"},
    [VERDICT_CAUSE_SHORTER] = {"the duration on the lease became shorter", NULL},
};

static const char *cause_text(enum verdict_cause cause, bool is_over)
{
    const char *past = cause_texts[cause].past;
    return is_over && past ? past : cause_texts[cause].now;
}

static void say_held(const struct verdict *x, struct readiness *out)
{
    bool is_failing = x->failing.ns != 0;
    bool has_detail = is_failing && x->failure[0] != '\0';
    enum verdict_cause cause = is_failing || x->not_before.ns != 0 ? x->cause : VERDICT_CAUSE_PAUSE;
    if (x->hold_is_over) {
        char hold[32];
        text_from_duration(x->config->api_outage_hold_ns, hold, sizeof(hold));
        say(out,
            "nobody could tell whether the DPU lives for longer than --api-outage-hold (%s): %s",
            hold, cause_text(cause, !is_failing));
    } else if (is_failing) {
        say(out,
            "the lease ran out while nobody could tell whether the DPU lives: %s%s%s%s; "
            "the last state, ready, is held",
            cause_text(cause, false), has_detail ? " (" : "", has_detail ? x->failure : "",
            has_detail ? ")" : "");
    } else {
        say(out, "the DPU has time for one retry: %s", cause_text(cause, true));
    }
}

static void say_damaged(const struct verdict *x, struct readiness *out)
{
    const struct verdict_config *c = x->config;
    const struct lease_view *lease = &x->lease;
    if (lease->holder[0] != '\0' && !text_equal(lease->holder, c->holder)) {
        say(out, "lease %s/%s is held by '%s' instead of '%s'", c->lease_ns, c->lease_name,
            lease->holder, c->holder);
    } else if (lease->holder[0] == '\0') {
        say(out, "lease %s/%s has no holder", c->lease_ns, c->lease_name);
    } else if (lease->renew_stamp[0] == '\0') {
        say(out,
            "lease %s/%s has never been renewed: is dpu-agent running on the DPU? If its health "
            "check is disabled there but not here, this is a configuration mismatch",
            c->lease_ns, c->lease_name);
    } else {
        say(out, "lease %s/%s has no leaseDurationSeconds, and was not renewed", c->lease_ns,
            c->lease_name);
    }
}

static void say_expired(const struct verdict *x, struct readiness *out)
{
    const struct verdict_config *c = x->config;
    char duration[32];
    text_from_duration(x->duration_ns, duration, sizeof(duration));
    if (out->reason == REASON_LEASE_NOT_FOUND) {
        say(out,
            "no renewal for %s, and lease %s/%s does not exist: see dpu-host-agent's log for "
            "why it cannot be created",
            duration, c->lease_ns, c->lease_name);
    } else if (out->reason == REASON_LEASE_INVALID && x->sight == VERDICT_SEES_GARBLED) {
        say(out, "no renewal for %s, and lease %s/%s cannot be read: %s", duration, c->lease_ns,
            c->lease_name, x->failure);
    } else if (out->reason == REASON_LEASE_INVALID) {
        say_damaged(x, out);
    } else if (x->last_gap_ns > x->duration_ns) {
        char gap[32];
        text_from_duration(x->last_gap_ns / NS_PER_SEC * NS_PER_SEC, gap, sizeof(gap));
        say(out,
            "the DPU has not renewed lease %s/%s for %s; its last two renewals were %s apart, "
            "which looks like a configuration mismatch of the renew interval",
            c->lease_ns, c->lease_name, duration, gap);
    } else {
        say(out, "the DPU has not renewed lease %s/%s for %s; its last renewal is stamped %s",
            c->lease_ns, c->lease_name, duration, out->lease.renew_stamp);
    }
}

static void say_reported(const struct verdict *x, struct readiness *out)
{
    const char *why = x->lease.health_message;
    if (x->lease.health == LEASE_HEALTH_SHUTDOWN) {
        say(out, "the DPU announced its shutdown%s%s", why[0] ? ": " : "", why);
    } else if (x->lease.health == LEASE_HEALTH_UNHEALTHY) {
        say(out, "the DPU reports that it is unhealthy: %s", why[0] ? why : "no reason was given");
    } else {
        say(out, "the DPU reported that it was unhealthy and has not renewed its lease since");
    }
}

void verdict_message_write(const struct verdict *x, struct readiness *out)
{
    switch (out->reason) {
    case REASON_AWAITING_FIRST_RENEWAL:
        say_awaiting(x, out);
        break;
    case REASON_LEASE_RENEWED:
        say(out, "the DPU renews its lease");
        break;
    case REASON_HEALTH_CHECK_DISABLED:
        say(out, "the DPU health check is disabled (--dpu-node-lease-renew-interval=0 or "
                 "--dpu-node-lease-duration=0)");
        break;
    case REASON_LEASE_EXPIRED:
    case REASON_LEASE_NOT_FOUND:
    case REASON_LEASE_INVALID:
        say_expired(x, out);
        break;
    case REASON_DPU_REPORTED_UNHEALTHY:
    case REASON_DPU_SHUTDOWN:
        say_reported(x, out);
        break;
    case REASON_API_SERVER_UNREACHABLE:
    case REASON_API_SERVER_NOT_WRITING:
        say_held(x, out);
        break;
    case REASON_POD_NETWORK_LOST:
        say(out, "%s", x->pods);
        break;
    case REASON_HOST_PROBE_FAILED:
        say(out, "seen from the host: %s", x->accusation);
        break;
    case REASON_RECORD_MISSING: /* these are a reader's */
    case REASON_RECORD_STALE:
    case REASON_RECORD_INVALID:
    case REASON_COUNT:
        break;
    }
}
