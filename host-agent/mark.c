/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/mark.h"

#include "base/text.h"

#include <string.h>

uint64_t mark_version(const char *text)
{
    uint64_t version;
    return text_to_u64(text, strlen(text), &version, NULL) == 0 ? version : 0;
}

void mark_start(struct mark *m, const struct lease_view *lease, struct mono now)
{
    *m = (struct mark){.action = MARK_PATCH, .patch_at = now};
    (void)text_copy(m->uid, sizeof(m->uid), lease->uid);
    (void)text_copy(m->renew_stamp, sizeof(m->renew_stamp), lease->renew_stamp);
    (void)text_copy(m->version, sizeof(m->version), lease->resource_version);
}

static enum mark_action end(struct mark *m, enum mark_outcome outcome, struct mono proof_at)
{
    m->outcome = outcome;
    m->proof_at = proof_at;
    m->action = MARK_END;
    return MARK_END;
}

/* The lease is as it was judged: nobody has renewed. What the PATCH was answered with decides. */
static enum mark_action after_silence(struct mark *m, const struct lease_view *lease,
                                      struct mono sent_at)
{
    bool moved = !text_equal(m->version, lease->resource_version);
    if (m->patched == MARK_FORBIDS) {
        return end(m, MARK_DENIED, sent_at);
    }
    if (m->patched == MARK_FAILS) {
        return end(m, MARK_REFUSED, sent_at);
    }
    if (m->patched == MARK_NO_ANSWER) { /* an attempt that failed: a second PATCH would hide it */
        return end(m, MARK_UNANSWERED, m->patch_at);
    }
    if (!m->is_second) {
        m->is_second = true;
        (void)text_copy(m->version, sizeof(m->version), lease->resource_version);
        m->action = MARK_PATCH;
        return MARK_PATCH;
    }
    if (m->patched == MARK_CONFLICTS && moved) {
        return end(m, MARK_TAKEN, m->patch_at);
    }
    return end(m, MARK_CONFLICT, sent_at);
}

static enum mark_action after_read(struct mark *m, enum mark_answer answer,
                                   const struct lease_view *lease, bool has_text,
                                   struct mono sent_at)
{
    if (answer != MARK_LEASE) {
        return end(m,
                   answer == MARK_NOT_FOUND ? MARK_ABSENT
                   : answer == MARK_GARBLED ? MARK_NONSENSE
                                            : MARK_LOST,
                   sent_at);
    }
    /* An etcd that was restored shows what was before: no renewal, but a version to write on. */
    uint64_t shown = mark_version(lease->resource_version);
    bool is_older = shown != 0 && shown < mark_version(m->version);
    bool is_changed = !text_equal(lease->renew_stamp, m->renew_stamp);
    if (!text_equal(lease->uid, m->uid) || (is_changed && !is_older)) {
        return end(m, MARK_CONFLICT, sent_at);
    }
    return has_text ? end(m, MARK_TAKEN, m->patch_at) : after_silence(m, lease, sent_at);
}

enum mark_action mark_step(struct mark *m, enum mark_answer answer, const struct lease_view *lease,
                           bool has_text, struct mono sent_at)
{
    if (m->action == MARK_GET) {
        return after_read(m, answer, lease, has_text, sent_at);
    }
    m->patched = answer;
    if (answer == MARK_LEASE) {
        return end(m, MARK_TAKEN, sent_at);
    }
    if (answer == MARK_GARBLED || answer == MARK_UNSENT) {
        return end(m, answer == MARK_UNSENT ? MARK_LOST : MARK_NONSENSE, sent_at);
    }
    m->action = MARK_GET;
    return MARK_GET;
}

const char *mark_outcome_name(enum mark_outcome outcome)
{
    static const char *const names[] = {
        [MARK_LOST] = "lost",       [MARK_NONSENSE] = "nonsense", [MARK_UNANSWERED] = "unanswered",
        [MARK_REFUSED] = "refused", [MARK_DENIED] = "denied",     [MARK_CONFLICT] = "conflict",
        [MARK_ABSENT] = "absent",   [MARK_TAKEN] = "taken",
    };
    return names[outcome];
}
