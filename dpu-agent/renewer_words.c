/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/renewer_words.h"

#include "base/text.h"

#include <string.h>

enum { SPAN_BYTES = 32 };

/* Writes one sentence. */
typedef void say_fn(const struct renewer *r, const struct renewer_event *event, char *text,
                    size_t text_bytes);

/* A duration for people: tenths of a second are enough. */
static void say_span(int64_t ns, char out[static SPAN_BYTES])
{
    int64_t unit_ns = ns < NS_PER_SEC ? NS_PER_MS : NS_PER_SEC / 10;
    text_from_duration(ns / unit_ns * unit_ns, out, SPAN_BYTES);
}

static const char *what_we_did(const struct renewer *r)
{
    switch (r->sent_action) {
    case RENEWER_GET:
        return "getting";
    case RENEWER_CREATE:
        return "creating";
    case RENEWER_NONE:
    case RENEWER_PUT_RENEWAL:
    case RENEWER_PUT_HEALTH:
        break;
    }
    return "updating";
}

/* What an administrator can do about a refusal. */
static const char *hint(const struct renewer *r, const struct renewer_event *event)
{
    switch (event->http_status) {
    case 400:
    case 422:
        return ": the API server finds the lease invalid as we write it";
    case 401:
        return ": it does not know us (token or client certificate expired?)";
    case 403:
        return r->sent_action == RENEWER_GET
                   ? ": our identity needs the verb 'get' on leases.coordination.k8s.io"
                   : ": our identity needs the verb 'update' on leases.coordination.k8s.io";
    default:
        return "";
    }
}

static void say_renewing(const struct renewer *r, const struct renewer_event *event, char *text,
                         size_t text_bytes)
{
    char interval[SPAN_BYTES];
    (void)event;
    say_span(r->config.interval_ns, interval);
    if (r->config.is_companion) {
        text_format(text, text_bytes,
                    "lease '%s/%s' is renewed by another as '%s', and lasts %us: adding what our "
                    "probes say",
                    r->config.lease_ns, r->config.lease_name, r->config.holder,
                    (unsigned)r->lease_duration_s);
        return;
    }
    text_format(text, text_bytes, "renewing lease '%s/%s' as '%s' every %s; it lasts %us",
                r->config.lease_ns, r->config.lease_name, r->config.holder, interval,
                (unsigned)r->lease_duration_s);
}

static void say_not_renewed(const struct renewer *r, const struct renewer_event *event, char *text,
                            size_t text_bytes)
{
    char span[SPAN_BYTES];
    say_span(mono_since(event->now, r->renewed_at), span);
    text_format(text, text_bytes,
                "nobody renews lease '%s/%s', for %s: as a companion we do not; is ovn-kubernetes' "
                "own health check on here, and ovnkube alive? (heartbeat=own renews it)",
                r->config.lease_ns, r->config.lease_name, span);
}

static void say_missing(const struct renewer *r, const struct renewer_event *event, char *text,
                        size_t text_bytes)
{
    (void)event;
    text_format(
        text, text_bytes,
        "lease '%s/%s' does not exist: the host side has not created it; is dpu-host-agent running "
        "there, with this node name and namespace? waiting for it",
        r->config.lease_ns, r->config.lease_name);
}

static void say_created(const struct renewer *r, const struct renewer_event *event, char *text,
                        size_t text_bytes)
{
    char span[SPAN_BYTES];
    say_span(mono_since(event->now, r->missing_since), span);
    text_format(text, text_bytes,
                "created lease '%s/%s', which was missing for %s: no host side made it",
                r->config.lease_ns, r->config.lease_name, span);
}

static void say_not_created(const struct renewer *r, const struct renewer_event *event, char *text,
                            size_t text_bytes)
{
    text_format(text, text_bytes,
                "lease '%s/%s' cannot be made by us either: %s; waiting for the host side "
                "(rbac/dpu-create gives the right to make it, where that runs no "
                "dpu-host-agent)",
                r->config.lease_ns, r->config.lease_name,
                text_is_empty(event->message) ? "refused" : event->message);
}

static void say_failed(const struct renewer *r, const struct renewer_event *event, char *text,
                       size_t text_bytes)
{
    char ago[SPAN_BYTES] = "never";
    if (r->ever_renewed) {
        say_span(mono_since(event->now, r->renewed_at), ago);
    }
    text_format(text, text_bytes, "%s lease '%s/%s' failed: %s%s, will retry; last renewed %s%s",
                what_we_did(r), r->config.lease_ns, r->config.lease_name,
                text_is_empty(event->message) ? "no answer" : event->message, hint(r, event), ago,
                r->ever_renewed ? " ago" : "");
}

static void say_recovered(const struct renewer *r, const struct renewer_event *event, char *text,
                          size_t text_bytes)
{
    char span[SPAN_BYTES];
    say_span(mono_since(event->now, r->failing_since), span);
    text_format(text, text_bytes, "lease '%s/%s' can be reached again after %s", r->config.lease_ns,
                r->config.lease_name, span);
}

static void say_foreign(const struct renewer *r, const struct renewer_event *event, char *text,
                        size_t text_bytes)
{
    (void)event;
    text_format(text, text_bytes, "lease '%s/%s' is held by '%s' and not by '%s': not renewing it",
                r->config.lease_ns, r->config.lease_name, r->lease_holder, r->config.holder);
}

static void say_ours_again(const struct renewer *r, const struct renewer_event *event, char *text,
                           size_t text_bytes)
{
    (void)event;
    text_format(text, text_bytes, "lease '%s/%s' is no longer held by another", r->config.lease_ns,
                r->config.lease_name);
}

static void say_second_agent(const struct renewer *r, const struct renewer_event *event, char *text,
                             size_t text_bytes)
{
    (void)event;
    text_format(text, text_bytes,
                "somebody else renews lease '%s/%s' as '%s', too (renewTime '%s' is not ours): "
                "right if it is ovn-kubernetes' own health check on this DPU; wrong if it is an "
                "old agent, or another DPU with the same node name",
                r->config.lease_ns, r->config.lease_name, r->config.holder, r->lease_stamp);
}

static void say_recreated(const struct renewer *r, const struct renewer_event *event, char *text,
                          size_t text_bytes)
{
    (void)event;
    text_format(text, text_bytes, "lease '%s/%s' was created anew, uid '%s'", r->config.lease_ns,
                r->config.lease_name, r->lease_uid);
}

static void say_mismatch(const struct renewer *r, const struct renewer_event *event, char *text,
                         size_t text_bytes)
{
    char interval[SPAN_BYTES];
    (void)event;
    say_span(r->config.interval_ns, interval);
    text_format(
        text, text_bytes,
        "configuration mismatch: lease '%s/%s' lasts %us, but this agent renews it only every %s; "
        "compare dpu-node-lease-renew-interval and dpu-node-lease-duration of both sides",
        r->config.lease_ns, r->config.lease_name, (unsigned)r->lease_duration_s, interval);
}

static void say_unhealthy(const struct renewer *r, const struct renewer_event *event, char *text,
                          size_t text_bytes)
{
    (void)event;
    text_format(text, text_bytes, "DPU is unhealthy, %s: %s",
                r->config.is_companion ? "reporting it on its lease" : "not renewing its lease",
                r->message);
}

static void say_healthy(const struct renewer *r, const struct renewer_event *event, char *text,
                        size_t text_bytes)
{
    (void)event;
    text_format(text, text_bytes, "all probes pass, %s",
                r->config.is_companion ? "taking the report back" : "renewing the lease again");
}

static void say_late(const struct renewer *r, const struct renewer_event *event, char *text,
                     size_t text_bytes)
{
    char span[SPAN_BYTES];
    say_span(mono_since(event->now, r->slot), span);
    text_format(text, text_bytes,
                "a renewal is %s late: this machine was suspended, stopped or starved", span);
}

static void say_shutdown(const struct renewer *r, const struct renewer_event *event, char *text,
                         size_t text_bytes)
{
    (void)event;
    text_format(text, text_bytes, "announced the shutdown on lease '%s/%s'", r->config.lease_ns,
                r->config.lease_name);
}

static void say_unannounced(const struct renewer *r, const struct renewer_event *event, char *text,
                            size_t text_bytes)
{
    text_format(text, text_bytes, "stopping unannounced: lease '%s/%s' could not be written%s%s",
                r->config.lease_ns, r->config.lease_name, text_is_empty(event->message) ? "" : ": ",
                text_is_empty(event->message) ? "" : event->message);
}

static const struct {
    enum renewer_severity severity;
    bool repeats; /* then at most once per LOG_AGAIN_NS */
    say_fn *say;
} manners[RENEWER_NOTE_KINDS] = {
    [RENEWER_NOTE_RENEWING] = {RENEWER_INFO, false, say_renewing},
    [RENEWER_NOTE_NOT_RENEWED] = {RENEWER_WARN, true, say_not_renewed},
    [RENEWER_NOTE_MISSING] = {RENEWER_WARN, true, say_missing},
    [RENEWER_NOTE_CREATED] = {RENEWER_WARN, false, say_created},
    [RENEWER_NOTE_NOT_CREATED] = {RENEWER_INFO, false, say_not_created},
    [RENEWER_NOTE_FAILED] = {RENEWER_WARN, true, say_failed},
    [RENEWER_NOTE_RECOVERED] = {RENEWER_INFO, false, say_recovered},
    [RENEWER_NOTE_FOREIGN] = {RENEWER_ERROR, true, say_foreign},
    [RENEWER_NOTE_OURS_AGAIN] = {RENEWER_INFO, false, say_ours_again},
    [RENEWER_NOTE_SECOND_AGENT] = {RENEWER_WARN, false, say_second_agent},
    [RENEWER_NOTE_RECREATED] = {RENEWER_INFO, false, say_recreated},
    [RENEWER_NOTE_MISMATCH] = {RENEWER_WARN, false, say_mismatch},
    [RENEWER_NOTE_UNHEALTHY] = {RENEWER_WARN, false, say_unhealthy},
    [RENEWER_NOTE_HEALTHY] = {RENEWER_INFO, false, say_healthy},
    [RENEWER_NOTE_LATE] = {RENEWER_WARN, true, say_late},
    [RENEWER_NOTE_SHUTDOWN] = {RENEWER_INFO, false, say_shutdown},
    [RENEWER_NOTE_UNANNOUNCED] = {RENEWER_WARN, false, say_unannounced},
};

void renewer_note_add(struct renewer *r, enum renewer_note_kind kind,
                      const struct renewer_event *event, struct renewer_update *out)
{
    struct log_repeat *repeat = &r->repeats[kind];
    if (manners[kind].repeats && !log_repeat_due(repeat, event->now, LOG_AGAIN_NS)) {
        return;
    }
    if (out->note_count == RENEWER_NOTES_MAX) {
        return;
    }
    struct renewer_note *note = &out->notes[out->note_count++];
    note->kind = kind;
    note->severity = manners[kind].severity;
    manners[kind].say(r, event, note->text, sizeof(note->text));
    size_t len = strlen(note->text);
    text_format(note->text + len, sizeof(note->text) - len, "%s",
                repeat->more); /* a cut note has no room for it */
}

void renewer_note_reset(struct renewer *r, enum renewer_note_kind kind)
{
    log_repeat_reset(&r->repeats[kind]);
}
