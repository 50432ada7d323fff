/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/chain.h"

#include "base/text.h"

#include <string.h>

uint64_t chain_version(const char *text)
{
    uint64_t version;
    return text_to_u64(text, strlen(text), &version, NULL) == 0 ? version : 0;
}

void chain_start(struct chain *c, const struct lease_view *lease, struct mono now)
{
    *c = (struct chain){.action = CHAIN_PATCH, .patch_at = now};
    text_format(c->uid, sizeof(c->uid), "%s", lease->uid);
    text_format(c->renew_stamp, sizeof(c->renew_stamp), "%s", lease->renew_stamp);
    text_format(c->version, sizeof(c->version), "%s", lease->resource_version);
}

static enum chain_action end(struct chain *c, enum chain_outcome outcome, struct mono proof_at)
{
    c->outcome = outcome;
    c->proof_at = proof_at;
    c->action = CHAIN_END;
    return CHAIN_END;
}

/* The lease is as it was judged: nobody has renewed. What the PATCH was answered with decides. */
static enum chain_action after_silence(struct chain *c, const struct lease_view *lease,
                                       struct mono sent_at)
{
    bool moved = !text_equal(c->version, lease->resource_version);
    if (c->patched == CHAIN_FORBIDS) {
        return end(c, CHAIN_DENIED, sent_at);
    }
    if (c->patched == CHAIN_FAILS) {
        return end(c, CHAIN_REFUSED, sent_at);
    }
    if (!c->is_second) {
        c->is_second = true;
        text_format(c->version, sizeof(c->version), "%s", lease->resource_version);
        c->action = CHAIN_PATCH;
        return CHAIN_PATCH;
    }
    if (c->patched == CHAIN_CONFLICTS && moved) {
        return end(c, CHAIN_TAKEN, c->patch_at);
    }
    return end(c, c->patched == CHAIN_NO_ANSWER ? CHAIN_LOST : CHAIN_CONFLICT, sent_at);
}

static enum chain_action after_read(struct chain *c, enum chain_answer answer,
                                    const struct lease_view *lease, bool has_text,
                                    struct mono sent_at)
{
    if (answer != CHAIN_LEASE) {
        return end(c,
                   answer == CHAIN_NOT_FOUND ? CHAIN_ABSENT
                   : answer == CHAIN_GARBLED ? CHAIN_NONSENSE
                                             : CHAIN_LOST,
                   sent_at);
    }
    /* An etcd that was restored shows what was before: no renewal, but a version to write on. */
    uint64_t shown = chain_version(lease->resource_version);
    bool is_older = shown != 0 && shown < chain_version(c->version);
    bool is_changed = !text_equal(lease->renew_stamp, c->renew_stamp);
    if (!text_equal(lease->uid, c->uid) || (is_changed && !is_older)) {
        return end(c, CHAIN_CONFLICT, sent_at);
    }
    return has_text ? end(c, CHAIN_TAKEN, c->patch_at) : after_silence(c, lease, sent_at);
}

enum chain_action chain_step(struct chain *c, enum chain_answer answer,
                             const struct lease_view *lease, bool has_text, struct mono sent_at)
{
    if (c->action == CHAIN_GET) {
        return after_read(c, answer, lease, has_text, sent_at);
    }
    c->patched = answer;
    if (answer == CHAIN_LEASE) {
        return end(c, CHAIN_TAKEN, sent_at);
    }
    if (answer == CHAIN_GARBLED || answer == CHAIN_UNSENT) {
        return end(c, answer == CHAIN_UNSENT ? CHAIN_LOST : CHAIN_NONSENSE, sent_at);
    }
    c->action = CHAIN_GET;
    return CHAIN_GET;
}

const char *chain_outcome_name(enum chain_outcome outcome)
{
    static const char *const names[] = {
        [CHAIN_LOST] = "lost",     [CHAIN_NONSENSE] = "nonsense", [CHAIN_REFUSED] = "refused",
        [CHAIN_DENIED] = "denied", [CHAIN_CONFLICT] = "conflict", [CHAIN_ABSENT] = "absent",
        [CHAIN_TAKEN] = "taken",
    };
    return names[outcome];
}
