/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/renewer_lease.h"

#include "base/text.h"
#include "dpu-agent/renewer_words.h"

/* Two sightings of a renewTime that is not ours make a second agent: a single one may be our own
 * former process or a restored etcd. */
enum { STRANGERS_TO_REPORT = 2 };

enum { HTTP_FORBIDDEN = 403, HTTP_NOT_FOUND = 404 };

/* When we sent it; MONO_NEVER: it is not among the last ones. */
static struct mono sent_since(const struct renewer *r, const char *stamp)
{
    for (size_t i = 0; i < RENEWER_SENT_STAMPS; i++) {
        if (stamp[0] != '\0' && text_equal(r->sent[i], stamp)) {
            return r->sent_since[i];
        }
    }
    return MONO_NEVER;
}

struct mono renewer_arrived(const struct renewer *r, const struct lease_view *lease)
{
    bool is_news = !text_equal(r->lease_stamp, lease->renew_stamp);
    return is_news ? sent_since(r, lease->renew_stamp) : MONO_NEVER;
}

/* A renewTime that neither we sent nor stood there before: somebody else renews our lease. */
static void look_for_stranger(struct renewer *r, const struct renewer_event *event,
                              struct renewer_update *out)
{
    const struct lease_view *lease = event->lease;
    bool stranger = !r->config.is_companion && !r->foreign && !text_is_empty(r->lease_uid) &&
                    !text_is_empty(lease->renew_stamp) &&
                    !text_equal(r->lease_stamp, lease->renew_stamp) &&
                    mono_is_never(sent_since(r, lease->renew_stamp));
    text_format(r->lease_stamp, sizeof(r->lease_stamp), "%s", lease->renew_stamp);
    if (!stranger) {
        return;
    }
    r->strangers++;
    r->clean_rounds = 0;
    if (r->strangers == STRANGERS_TO_REPORT) { /* once: it may be meant to be so */
        renewer_note_add(r, RENEWER_NOTE_SECOND_AGENT, event, out);
    }
}

/* As companion: the other writer's renewals, by our own clock. */
static void look_for_renewal(struct renewer *r, const struct renewer_event *event,
                             struct renewer_update *out)
{
    bool is_first = text_is_empty(r->lease_uid);
    if (!is_first && text_equal(r->lease_stamp, event->lease->renew_stamp)) {
        if (mono_since(event->now, r->renewed_at) >= r->config.duration_ns) {
            renewer_note_add(r, RENEWER_NOTE_NOT_RENEWED, event, out);
        }
        return;
    }
    r->renewed_at = event->now;
    renewer_note_reset(r, RENEWER_NOTE_NOT_RENEWED);
    out->renewed = !is_first;
    if (out->renewed && !r->ever_renewed) {
        r->ever_renewed = true;
        renewer_note_add(r, RENEWER_NOTE_RENEWING, event, out);
    }
}

static void look_for_mismatch(struct renewer *r, const struct renewer_event *event,
                              struct renewer_update *out)
{
    bool changed = r->lease_duration_s != event->lease->duration_s;
    r->lease_duration_s = event->lease->duration_s;
    bool mismatch = r->lease_duration_s > 0 &&
                    mono_ns_mul(NS_PER_SEC, r->lease_duration_s) <= r->config.interval_ns;
    if (mismatch && (changed || !r->mismatch)) {
        renewer_note_add(r, RENEWER_NOTE_MISMATCH, event, out);
    }
    r->mismatch = mismatch;
}

static void look_at_holder(struct renewer *r, const struct renewer_event *event,
                           struct renewer_update *out)
{
    bool foreign =
        !text_is_empty(event->lease->holder) && !text_equal(event->lease->holder, r->config.holder);
    text_format(r->lease_holder, sizeof(r->lease_holder), "%s", event->lease->holder);
    if (foreign) {
        r->read_at = mono_add(event->now, r->config.interval_ns);
        renewer_note_add(r, RENEWER_NOTE_FOREIGN, event, out);
    } else if (r->foreign) {
        renewer_note_reset(r, RENEWER_NOTE_FOREIGN);
        renewer_note_add(r, RENEWER_NOTE_OURS_AGAIN, event, out);
    }
    r->foreign = foreign;
}

void renewer_adopt(struct renewer *r, const struct renewer_event *event, struct renewer_update *out)
{
    const struct lease_view *lease = event->lease;
    bool anew = !text_is_empty(r->lease_uid) && !text_equal(r->lease_uid, lease->uid);
    if (r->config.is_companion) {
        look_for_renewal(r, event, out);
    }
    look_for_stranger(r, event, out);
    text_format(r->lease_uid, sizeof(r->lease_uid), "%s", lease->uid);
    if (r->sent_action == RENEWER_CREATE) {
        renewer_note_add(r, RENEWER_NOTE_CREATED, event, out);
    } else if (anew) {
        renewer_note_add(r, RENEWER_NOTE_RECREATED, event, out);
    }
    look_at_holder(r, event, out);
    look_for_mismatch(r, event, out);
    r->lease_current = true;
    r->missing_since = (struct mono){0};
    r->create_refused = false;
    r->create_denials = 0;
    renewer_note_reset(r, RENEWER_NOTE_MISSING);
}

void renewer_miss(struct renewer *r, const struct renewer_event *event, struct renewer_update *out)
{
    renewer_note_add(r, RENEWER_NOTE_MISSING, event, out);
    if (r->missing_since.ns == 0) {
        r->missing_since = event->now;
        r->create_at = mono_add(event->now, r->config.duration_ns);
    }
    if (r->phase == RENEWER_RENEWING && mono_reached(event->now, r->create_at)) {
        r->create_due = true;
        r->retry_at = (struct mono){0};
    }
}

/* An API server that has just started denies everything until it has read its rules. */
static int64_t denied_pause_ns(const struct renewer *r)
{
    int64_t pause_ns = r->config.interval_ns;
    for (uint32_t i = 1; i < r->create_denials && pause_ns < RENEWER_CREATE_DENIED_NS; i++) {
        pause_ns = mono_ns_mul(pause_ns, 2);
    }
    return pause_ns < RENEWER_CREATE_DENIED_NS ? pause_ns : RENEWER_CREATE_DENIED_NS;
}

void renewer_creation_failed(struct renewer *r, const struct renewer_event *event,
                             struct renewer_update *out)
{
    bool forbidden = event->http_status == HTTP_FORBIDDEN;
    r->create_denials = forbidden ? r->create_denials + 1 : 0;
    if (!forbidden && event->http_status != HTTP_NOT_FOUND) {
        renewer_note_add(r, RENEWER_NOTE_FAILED, event, out);
    } else if (!r->create_refused && r->create_denials != 1) { /* one may be no lasting denial */
        renewer_note_add(r, RENEWER_NOTE_NOT_CREATED, event, out);
        r->create_refused = true;
    }
    r->create_at = mono_add(event->now, forbidden ? denied_pause_ns(r) : r->config.duration_ns);
}

void renewer_hope_to_create(struct renewer *r, const struct renewer_event *event)
{
    if (r->create_denials > 0) {
        r->create_denials = 0;
        r->create_at = mono_min(r->create_at, mono_add(event->now, r->config.interval_ns));
    }
}
