/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/expiry_words.h"

#include "base/attr.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The sentence of a verdict; truncation is its documented bound. What others said is part of it: it
 * is cut between characters and made printable, for it goes into JSON and onto terminals. */
static void say(struct readiness *out, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say(struct readiness *out, const char *fmt, ...)
{
    char whole[2 * NAMES_MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(whole, sizeof(whole), fmt, ap); /* see above */
    va_end(ap);
    text_sanitize(out->message, sizeof(out->message), whole, strlen(whole));
}

static void say_awaiting(const struct expiry *x, struct readiness *out)
{
    const struct expiry_config *c = &x->config;
    if (x->contact_lost) {
        say(out, "no renewal of lease %s/%s has been seen yet: the API server cannot be read (%s)",
            c->lease_ns, c->lease_name, x->failure);
    } else {
        say(out, "no renewal of lease %s/%s has been seen yet: is dpu-agent running on the DPU?",
            c->lease_ns, c->lease_name);
    }
}

static const char *grace_why(enum expiry_grace_cause cause)
{
    switch (cause) {
    case EXPIRY_GRACE_OUTAGE:
        return "the API server can be read again";
    case EXPIRY_GRACE_WRITES:
        return "the API server takes writes again";
    case EXPIRY_GRACE_RESTART:
        return "it renewed its lease while dpu-host-agent was away";
    case EXPIRY_GRACE_SHORTER:
        return "the duration on its lease became shorter";
    case EXPIRY_GRACE_BACK:
        return "the stamps on its lease went back";
    }
    return "";
}

static void say_hold_is_over(const struct expiry *x, struct readiness *out)
{
    char hold[32];
    const char *why = x->hold_cause == EXPIRY_HOLD_NOT_WRITING  ? "takes no writes"
                      : x->hold_cause == EXPIRY_HOLD_UNREADABLE ? "gives no answer that can be read"
                                                                : x->failure;
    text_from_duration(x->config.api_outage_hold_ns, hold, sizeof(hold));
    say(out,
        "the API server could not be asked about the DPU (%s) for longer than "
        "--api-outage-hold (%s)",
        why, hold);
}

static void say_holding(const struct expiry *x, struct readiness *out)
{
    if (!x->hold_admit) {
        say_hold_is_over(x, out);
        return;
    }
    switch (x->hold_cause) {
    case EXPIRY_HOLD_OUTAGE:
        say(out,
            "the lease ran out while the API server could not be read (%s): the last state, "
            "ready, is held",
            x->failure);
        break;
    case EXPIRY_HOLD_UNANSWERED:
        say(out, "the lease ran out, and the API server has not answered yet: the last state, "
                 "ready, is held");
        break;
    case EXPIRY_HOLD_UNREADABLE:
        say(out,
            "the lease ran out while the API server's answers could not be read (%s): the last "
            "state, ready, is held",
            x->unreadable);
        break;
    case EXPIRY_HOLD_NOT_WRITING:
        say(out,
            "the lease ran out, but the lease of this node's kubelet stands still, too (at %s): "
            "the API server seems to take no writes; the last state, ready, is held",
            x->control.stamp);
        break;
    case EXPIRY_HOLD_GRACE:
        say(out, "the DPU has time to renew its lease: %s", grace_why(x->grace_cause));
        break;
    case EXPIRY_HOLD_STALL:
        say(out,
            "dpu-host-agent itself was stopped when the lease ran out: it is being read again");
        break;
    case EXPIRY_HOLD_RESTART:
        say(out, "dpu-host-agent was restarted after the lease ran out: it is being read again");
        break;
    }
}

static void say_damaged(const struct expiry *x, const char *duration, struct readiness *out)
{
    const struct expiry_config *c = &x->config;
    const struct lease_view *lease = &x->lease;
    if (x->lease_unreadable) {
        say(out, "no renewal for %s, and lease %s/%s cannot be read: %s", duration, c->lease_ns,
            c->lease_name, x->unreadable);
    } else if (lease->holder[0] == '\0') {
        say(out, "no renewal for %s, and lease %s/%s has no holder", duration, c->lease_ns,
            c->lease_name);
    } else if (!text_equal(lease->holder, c->holder)) {
        say(out, "lease %s/%s is held by '%s' instead of '%s'", c->lease_ns, c->lease_name,
            lease->holder, c->holder);
    } else if (lease->renew_stamp[0] == '\0') {
        say(out,
            "lease %s/%s has never been renewed: is dpu-agent running on the DPU? If its health "
            "check is disabled there but not here, this is a configuration mismatch",
            c->lease_ns, c->lease_name);
    } else {
        say(out, "no renewal for %s, and lease %s/%s has no leaseDurationSeconds", duration,
            c->lease_ns, c->lease_name);
    }
}

static void say_expired(const struct expiry *x, struct readiness *out)
{
    const struct expiry_config *c = &x->config;
    char duration[32];
    text_from_duration(x->duration_ns, duration, sizeof(duration));
    if (out->reason == REASON_LEASE_NOT_FOUND) {
        say(out,
            "no renewal for %s, and lease %s/%s does not exist: see dpu-host-agent's log for "
            "why it cannot be created",
            duration, c->lease_ns, c->lease_name);
    } else if (out->reason == REASON_LEASE_INVALID) {
        say_damaged(x, duration, out);
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

static void say_reported(const struct expiry *x, struct readiness *out)
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

void expiry_words_say(const struct expiry *x, struct readiness *out)
{
    if (out->reason == REASON_POD_NETWORK_LOST) {
        say(out, "%s", x->pods);
        return;
    }
    if (out->reason == REASON_HOST_PROBE_FAILED) {
        say(out, "seen from the host: %s", x->accusation);
        return;
    }
    switch (x->phase) {
    case EXPIRY_AWAITING:
    case EXPIRY_PHASE_COUNT:
        say_awaiting(x, out);
        break;
    case EXPIRY_FRESH:
        say(out, "the DPU renews its lease");
        break;
    case EXPIRY_HOLDING:
        say_holding(x, out);
        break;
    case EXPIRY_EXPIRED:
        say_expired(x, out);
        break;
    case EXPIRY_REPORTED:
        say_reported(x, out);
        break;
    case EXPIRY_DISABLED:
        say(out, "the DPU health check is disabled (--dpu-node-lease-renew-interval=0 or "
                 "--dpu-node-lease-duration=0)");
        break;
    }
}
