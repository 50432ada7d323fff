/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/evidence.h"

#include "contract/lease.h"

#define SLACK_NS (1 * NS_PER_SEC)

int64_t spans_gap_ns(const struct spans *s)
{
    return mono_ns_add(mono_ns_mul(s->interval_ns, 2), s->deadline_ns + SLACK_NS);
}

int64_t spans_retry_ns(const struct spans *s)
{
    return lease_pace_grace_ns(s->interval_ns);
}

bool evidence_is_failing(const struct evidence *e)
{
    return e->failing.ns != 0;
}

/* Since when nothing is asked that the DPU could be condemned by: in the time that was granted,
 * what fails makes a blind span, and that nobody asked does not. */
static struct mono asked_until(const struct evidence *e)
{
    return mono_max(e->checked, e->granted);
}

bool evidence_is_gap(const struct evidence *e, const struct spans *s, struct mono t)
{
    return mono_since(t, asked_until(e)) > spans_gap_ns(s);
}

struct mono evidence_gap_at(const struct evidence *e, const struct spans *s)
{
    return mono_add(asked_until(e), spans_gap_ns(s) + 1);
}

/* When a gap began. */
static struct mono asking_due(const struct evidence *e, const struct spans *s)
{
    return mono_add(asked_until(e), s->interval_ns);
}

/* When the next piece was due. */
static struct mono evidence_due(const struct evidence *e, const struct spans *s)
{
    return mono_add(e->checked, s->interval_ns);
}

struct mono evidence_condemns_at(const struct evidence *e, struct mono run_out)
{
    return mono_max(run_out, e->granted);
}

/* No condemnation before the DPU had the time of one retry, within what B allows. The host asked at
 * `t`, and knows the answer `now`; the DPU may have been able to write only from then on. */
static void give_retry(struct evidence *e, const struct spans *s, struct mono run_out,
                       struct mono t, struct mono now)
{
    int64_t most_ns = mono_ns_add(e->blind_ns, spans_retry_ns(s));
    struct mono until = mono_min(mono_add(t, spans_retry_ns(s)), mono_add(run_out, most_ns));
    e->granted = mono_max(e->granted, mono_add(until, mono_since(now, t)));
}

enum evidence_link evidence_take(struct evidence *e, const struct spans *s, struct mono run_out,
                                 struct mono t, struct mono now)
{
    enum evidence_link link = evidence_is_failing(e)     ? EVIDENCE_AFTER_FAILURE
                              : evidence_is_gap(e, s, t) ? EVIDENCE_AFTER_GAP
                                                         : EVIDENCE_FOLLOWS;
    if (link != EVIDENCE_FOLLOWS) {
        struct mono began = link == EVIDENCE_AFTER_FAILURE ? e->failing : asking_due(e, s);
        int64_t span_ns = mono_ns_max(0, mono_since(t, began));
        e->blind_ns = mono_ns_add(e->blind_ns, span_ns);
        give_retry(e, s, run_out, t, now);
    }
    e->checked = mono_max(e->checked, t);
    e->failing = (struct mono){0};
    return link;
}

/* What failed after a renewal but before the last mark that was taken was a blind span between
 * both. It may become known only then, since a request runs to its deadline. */
bool evidence_miss(struct evidence *e, const struct spans *s, struct mono observed, struct mono t,
                   struct mono now)
{
    bool is_past = !evidence_is_failing(e) && mono_before(t, e->checked);
    if (is_past && mono_before(t, observed)) {
        return false;
    }
    if (is_past) {
        e->blind_ns = mono_ns_add(e->blind_ns, mono_since(e->checked, t));
        give_retry(e, s, mono_add(observed, s->duration_ns), e->checked, now);
    } else if (!evidence_is_failing(e)) {
        e->failing = evidence_is_gap(e, s, t) ? asking_due(e, s) : mono_max(t, evidence_due(e, s));
    }
    return true;
}

/* If it was found late, by its stamp, attempts may have failed after the evidence that it gives was
 * due again: these go on to count, as a blind span that began then. */
void evidence_renew(struct evidence *e, const struct spans *s, struct mono observed,
                    struct mono now)
{
    e->checked = observed;
    bool still_fails = evidence_is_failing(e) && mono_before(evidence_due(e, s), now);
    struct mono since = mono_max(e->failing, evidence_due(e, s));
    e->failing = still_fails ? since : (struct mono){0};
    e->blind_ns = 0;
    e->granted = (struct mono){0};
}

/* A shorter duration accuses nobody at once: the DPU reads it with its next answer, and gets the
 * time of a retry, but never more than it had under the longer one. */
bool evidence_shorten(struct evidence *e, const struct spans *s, struct mono run_out,
                      struct mono before, struct mono now)
{
    if (!mono_before(now, before) || !mono_before(evidence_condemns_at(e, run_out), before)) {
        return false;
    }
    e->granted = mono_min(mono_add(now, spans_retry_ns(s)), before);
    return true;
}

void evidence_restore(struct evidence *e, const struct spans *s, struct mono observed,
                      struct mono now)
{
    struct mono granted = e->granted;
    e->checked = mono_max(observed, mono_min(e->checked, now));
    int64_t most_ns = mono_ns_max(s->duration_ns, spans_retry_ns(s)); /* no grant was longer */
    e->granted = mono_min(granted, mono_add(now, most_ns));
    if (e->blind_ns > 0 && granted.ns == 0) { /* a record of before it was carried */
        give_retry(e, s, mono_add(observed, s->duration_ns), now, now);
    }
}
