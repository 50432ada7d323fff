/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/fleet.h"

#include "base/text.h"

#include <string.h>

enum { SHOWN_HOLDER_BYTES = 81 };

void fleet_hear(struct fleet_row *row, const struct fleet_word *word)
{
    if (word->teller > row->word.teller) {
        row->word = *word;
    }
}

bool fleet_renewal_age(const struct fleet_row *row, int64_t *out_ns)
{
    if (!row->has_lease || !row->lease.renew_time_valid || row->now.ns == 0) {
        return false;
    }
    *out_ns = wall_since(row->now, row->lease.renew_time);
    return true;
}

static void set(struct fleet_row *row, enum readiness_state state, enum readiness_reason reason)
{
    row->state = state;
    row->since = (struct wall){0};
    text_format(row->reason, sizeof(row->reason), "%s", readiness_reason_name(reason));
}

/* Of what the lease alone shows, a silence apart. Returns false if there is nothing of the kind. */
static bool judge_lease(struct fleet_row *row, const char *holder)
{
    const struct lease_view *lease = &row->lease;
    char held_by[SHOWN_HOLDER_BYTES];
    char expected[SHOWN_HOLDER_BYTES];
    if (lease->holder[0] != '\0' && !text_equal(lease->holder, holder)) {
        set(row, READINESS_NOT_READY, REASON_LEASE_INVALID);
        text_format(held_by, sizeof(held_by), "%s", lease->holder); /* cut between characters */
        text_format(expected, sizeof(expected), "%s", holder);
        text_format(row->message, sizeof(row->message),
                    "the lease is held by '%s'; only renewals of '%s' count", held_by, expected);
        return true;
    }
    if (lease->health != LEASE_HEALTH_NONE) {
        set(row, READINESS_NOT_READY,
            lease->health == LEASE_HEALTH_SHUTDOWN ? REASON_DPU_SHUTDOWN
                                                   : REASON_DPU_REPORTED_UNHEALTHY);
        text_format(row->message, sizeof(row->message), "the DPU says so on the lease: %s",
                    lease->health_message);
        return true;
    }
    return false;
}

static void take_word(struct fleet_row *row)
{
    row->state = row->word.state;
    row->since = row->word.since;
    text_format(row->reason, sizeof(row->reason), "%s", row->word.reason);
    text_format(row->message, sizeof(row->message), "%s", row->word.message);
}

/* Nothing but the stamp of the last renewal is left to go by. */
static void judge_silence(struct fleet_row *row)
{
    const struct lease_view *lease = &row->lease;
    int64_t lasts_ns = (int64_t)lease->duration_s * NS_PER_SEC;
    int64_t age_ns;
    bool says_ready = row->word.teller != FLEET_NOBODY && row->word.state == READINESS_READY;
    if (!fleet_renewal_age(row, &age_ns)) {
        set(row, READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL);
        text_format(row->message, sizeof(row->message), "%s",
                    lease->renew_stamp[0] == '\0' ? "the DPU has never renewed the lease"
                                                  : "the stamp of its renewal cannot be judged");
    } else if (age_ns <= lasts_ns) {
        set(row, READINESS_READY, REASON_LEASE_RENEWED);
        row->since = says_ready ? row->word.since : (struct wall){0};
        text_format(row->message, sizeof(row->message), "the DPU renews its lease");
    } else if (says_ready) { /* its host may see renewals with a clock that is behind, or be dead */
        set(row, READINESS_UNKNOWN, REASON_LEASE_EXPIRED);
        text_format(row->message, sizeof(row->message),
                    "the last renewal is stamped %s and lasts %u s, but the host says Ready: a "
                    "clock is wrong, or the host's agent is gone",
                    lease->renew_stamp, lease->duration_s);
    } else {
        set(row, READINESS_NOT_READY, REASON_LEASE_EXPIRED);
        row->since = (struct wall){mono_ns_add(lease->renew_time.ns, lasts_ns)};
        text_format(row->message, sizeof(row->message),
                    "the last renewal is stamped %s and lasts %u s", lease->renew_stamp,
                    lease->duration_s);
    }
}

void fleet_judge(struct fleet_row *row, const char *holder)
{
    const struct fleet_word *word = &row->word;
    bool is_off = text_equal(word->reason, readiness_reason_name(REASON_HEALTH_CHECK_DISABLED));
    if (word->teller != FLEET_NOBODY && (word->state != READINESS_READY || is_off)) {
        take_word(row);
    } else if (!row->has_lease) {
        set(row, READINESS_UNKNOWN, REASON_LEASE_NOT_FOUND);
        text_format(row->message, sizeof(row->message),
                    "the Node is marked as a DPU's host, but has no lease");
    } else if (!judge_lease(row, holder)) {
        judge_silence(row);
    }
}

/* NotReady, Unknown, Ready. */
static int rank_of(const struct fleet_row *row)
{
    return row->state == READINESS_NOT_READY ? 0 : row->state == READINESS_UNKNOWN ? 1 : 2;
}

int fleet_compare(const void *a, const void *b)
{
    const struct fleet_row *left = a;
    const struct fleet_row *right = b;
    int by_rank = rank_of(left) - rank_of(right);
    if (by_rank != 0) {
        return by_rank;
    }
    int by_reason = strcmp(left->reason, right->reason);
    return by_reason != 0 ? by_reason : strcmp(left->node, right->node);
}
