/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical form of a world: what its future depends on, and nothing else. Times are relative
 * to now, and ages beyond what the cores can tell apart are one. Stamps, versions and numbers are
 * relative, too. What is only said (messages, notes, counts for the log) is left out.
 *
 * A form that is too coarse hides worlds from the explorer, and never makes a failure that is none:
 * the worlds themselves go on as they are. tests/explore/mutants shows what it still finds.
 */
#include "tests/explore/parts.h"

#include "base/text.h"
#include "base/time.h"

#include <string.h>

struct form {
    const struct explorer *e;
    const struct world *w;
    int64_t cap_ns;
    struct digest digest;
};

static void add(struct form *f, uint64_t value)
{
    uint64_t a = (f->digest.a ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t b = (f->digest.b + value) * UINT64_C(0xd6e8feb86659fd93);
    f->digest.a = a ^ (a >> 29);
    f->digest.b = b ^ (b >> 32);
}

/* A time: how long ago, or how far ahead. */
static void add_time_within(struct form *f, int64_t at, int64_t cap_ns)
{
    if (at == 0 || at == INT64_MAX) {
        add(f, at == 0 ? 1 : 2);
        return;
    }
    int64_t age_ns = f->w->now - at;
    age_ns = age_ns > cap_ns ? cap_ns : age_ns < -cap_ns ? -cap_ns : age_ns;
    add(f, (uint64_t)age_ns * 2 + 3);
}

static void add_time(struct form *f, int64_t at)
{
    add_time_within(f, at, f->cap_ns);
}

static void add_mono(struct form *f, struct mono at)
{
    add_time(f, at.ns);
}

/* A stamp of the DPU's, by its own clock. */
static void add_stamp(struct form *f, int64_t stamp)
{
    add_time(f, stamp == 0 ? 0 : stamp - WALL_NS - f->w->dpu.clock_ns);
}

/* There are few, and each is read again and again: the last ones are kept, by their hash. */
static int64_t stamp_of(const char *text)
{
    static struct {
        char text[NAMES_STAMP_BYTES];
        int64_t ns;
    } kept[1024];
    struct wall stamp = {0};
    uint32_t hash = 0;
    for (const char *c = text; *c; c++) {
        hash = hash * 31 + (unsigned char)*c;
    }
    hash = (hash ^ hash >> 10 ^ hash >> 20) % ARRAY_LEN(kept);
    if (strcmp(kept[hash].text, text) != 0) {
        (void)(rfc3339_parse(text, strlen(text), &stamp, NULL) == 0); /* "" is none */
        (void)text_copy(kept[hash].text, sizeof(kept[hash].text), text);
        kept[hash].ns = stamp.ns;
    }
    return kept[hash].ns;
}

static void add_stamp_text(struct form *f, const char *text)
{
    add_stamp(f, stamp_of(text));
}

static void add_version(struct form *f, uint64_t version)
{
    uint64_t behind = f->w->version - version;
    add(f, version == 0 ? UINT64_MAX : behind > 64 ? 64 : behind);
}

static void add_version_text(struct form *f, const char *text)
{
    add_version(f, mark_version(text));
}

/* The number at the end of a name: how far it is behind the last of its kind. */
static void add_name(struct form *f, const char *text, uint32_t last)
{
    uint64_t number = 0;
    const char *digits = strrchr(text, '-');
    if (digits) {
        (void)(text_to_u64(digits + 1, strlen(digits + 1), &number, NULL) == 0); /* else none */
    }
    add(f, number == 0 ? UINT64_MAX : last - number);
}

static void add_lease(struct form *f, const struct lease *lease)
{
    add(f, lease->uid == 0 ? UINT64_MAX : f->w->last_uid - lease->uid);
    add(f, f->w->dpu.boot - lease->boot);
    add_version(f, lease->version);
    add_stamp(f, lease->renewed);
    add_stamp(f, lease->reported);
    add(f, lease->health);
    add(f, f->w->host.mark_number - lease->mark > 2 ? 2 : f->w->host.mark_number - lease->mark);
}

static void add_view(struct form *f, const struct lease_view *lease)
{
    add_name(f, lease->uid, f->w->last_uid);
    add_version_text(f, lease->resource_version);
    add_stamp_text(f, lease->renew_stamp);
    add_stamp_text(f, lease->health_stamp);
    add(f, lease->health);
    add_name(f, lease->boot_id, f->w->dpu.boot);
    add(f, lease->duration_s);
}

static void add_request(struct form *f, const struct request *r)
{
    add(f, r->kind);
    if (r->kind == REQUEST_NONE) {
        return;
    }
    add(f, (uint64_t)r->is_served << 2 | (uint64_t)r->is_dry << 1 | r->is_unreachable);
    add(f, (uint64_t)r->status);
    add_time(f, r->sent_at);
    add_time(f, r->is_served ? 0 : r->serve_at);
    add_time(f, r->answer_at);
    add_time(f, r->due_at);
    add_time(f, r->end_at);
    if (!r->is_served && (r->kind == REQUEST_PUT || r->kind == REQUEST_MARK)) {
        add_lease(f, &r->body);
    }
    if (r->is_served && r->status == 200) {
        add_lease(f, &r->shown);
    }
}

/* A time that matters only while it is ahead. */
static void add_ahead(struct form *f, struct mono at)
{
    add_time(f, at.ns > f->w->now ? at.ns : 0);
}

/* What the evidence says: a grant that is over, and that nothing is counted from any more, is as
 * good as any other. */
static void add_evidence(struct form *f, const struct evidence *e, struct mono observed)
{
    int64_t run_out = observed.ns + f->e->setting->duration_ns;
    bool is_over = e->granted.ns <= e->checked.ns && e->granted.ns <= run_out;
    add_mono(f, observed);
    add_mono(f, e->checked);
    add_mono(f, e->failing);
    add(f, (uint64_t)e->blind_ns);
    add_time(f, e->granted.ns != 0 && is_over ? 1 : e->granted.ns);
    add(f, e->has_marked);
}

static void add_boots(struct form *f, const struct readiness *r)
{
    add_name(f, r->dpu_boot_id, f->w->dpu.boot);
    add_name(f, r->dpu_boot_before, f->w->dpu.boot);
}

static void add_record(struct form *f, const struct record *record)
{
    const struct readiness *r = &record->readiness;
    add(f, (uint64_t)r->state << 16 | (uint64_t)r->admit << 8 | r->reason);
    add_evidence(f, &record->evidence, r->observed);
    add_boots(f, r);
    add_name(f, r->lease.uid, f->w->last_uid);
    add_stamp_text(f, r->lease.renew_stamp);
    add_version_text(f, r->lease.resource_version);
    add(f, r->host_probes.each[0].says);
    add_mono(f, record->hold_until);
}

/* When the verdict asked for something matters until the next one is due, or is not waited for; and
 * so does what came first. */
static void add_asking(struct form *f, const struct verdict *x)
{
    int64_t pace_ns = f->e->setting->interval_ns + NS_PER_SEC;
    int64_t wait_ns = 4 * x->spans.deadline_ns + NS_PER_SEC;
    const int64_t times[] = {x->mark.asked_at.ns,    x->sight.looked_at.ns,
                             x->sight.back_at.ns,    x->evidence.failing.ns,
                             x->evidence.checked.ns, x->history.observed.ns,
                             x->evidence.granted.ns, verdict_condemns_at(x).ns};
    add(f, (uint64_t)x->read.wanted << 6 | (uint64_t)x->read.under_way << 4 |
               (uint64_t)x->mark.wanted << 2 | x->mark.under_way);
    add_time_within(f, x->read.asked_at.ns, x->read.under_way != ASK_NOTHING ? wait_ns : pace_ns);
    add_time_within(f, x->mark.asked_at.ns, x->mark.under_way != ASK_NOTHING ? wait_ns : pace_ns);
    add_time_within(f, x->sight.looked_at.ns, pace_ns);
    add_time_within(f, x->sight.back_at.ns, pace_ns);
    add_time_within(f, x->sight.blind_since.ns, pace_ns);
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < sizeof(times) / sizeof(times[0]); j++) {
            add(f, times[i] < times[j]);
        }
    }
}

static void add_history(struct form *f, const struct history *h)
{
    int64_t past = stamp_of(h->past_stamp);
    add_stamp_text(f, h->stamp);
    add(f, h->stamp_time.ns != 0);
    add(f, past == 0 ? 0 : past == f->w->lease.renewed ? 1 : past == f->w->stale.renewed);
    add_view(f, &h->lease);
    add_name(f, h->uid, f->w->last_uid);
    add_stamp(f, h->newest.ns);
    add_version(f, h->version);
    add(f, (uint64_t)h->boot_repeats << 1 | h->is_first_look);
    add_mono(f, h->lease.health != LEASE_HEALTH_NONE ? h->reported : (struct mono){0});
}

/* The verdict's core. */
static void add_verdict(struct form *f, const struct verdict *x)
{
    const struct readiness *r = &x->readiness;
    bool is_denied = x->evidence.failing.ns != 0 && x->failure.cause == MARK_DENIED;
    add(f,
        (uint64_t)x->phase << 24 | (uint64_t)r->state << 16 | (uint64_t)r->admit << 8 | r->reason);
    add_evidence(f, &x->evidence, x->history.observed);
    add_boots(f, r);
    add(f, r->host_probes.each[0].says);
    add(f, (uint64_t)x->sight.shows << 3 | (uint64_t)x->hold_is_over << 2 |
               (uint64_t)x->sight.has_contact << 1 | x->sight.is_watch_broken);
    add_history(f, &x->history);
    add(f, x->failure.cause);
    add_time(f, is_denied ? x->failure.since.ns : 0);
    add_asking(f, x);
    add_mono(f, x->next_rewrite);
}

static void add_mark_core(struct form *f, const struct mark *c)
{
    add_name(f, c->uid, f->w->last_uid);
    add_stamp_text(f, c->renew_stamp);
    add_version_text(f, c->version);
    add(f, (uint64_t)c->action << 8 | (uint64_t)c->patched << 1 | c->is_second);
    add_mono(f, c->patch_at);
}

static void add_host(struct form *f, const struct host *h)
{
    add(f, h->runs);
    if (!h->runs) {
        return;
    }
    add_verdict(f, &h->core);
    add(f, (uint64_t)h->watch.state << 2 | (uint64_t)h->watch.is_deaf << 1 | h->watch.has_failed);
    add_time(f, h->watch.state == WATCH_CLOSED ? h->watch.try_at : 0);
    add_request(f, &h->watch.list);
    add(f, h->watch.held_count);
    for (uint32_t i = 0; i < h->watch.held_count; i++) {
        add_lease(f, &h->watch.held[i]);
    }
    add_request(f, &h->read);
    add_request(f, &h->late_read);
    add_request(f, &h->mark);
    add_request(f, &h->make);
    if (h->mark.kind != REQUEST_NONE) {
        add_mark_core(f, &h->mark_core);
        add(f, h->is_trial);
    }
    add(f, h->is_denied);
    add(f, (uint64_t)h->read_due_ms << 32 | h->mark_due_ms);
    add_time(f, h->hold_most);
    add_time(f, h->wake_at);
}

/* Those renewals of the renewer's that it may still meet. */
static void add_sent(struct form *f, const struct renewer *r, int64_t stamp)
{
    int64_t since = 0;
    for (size_t i = 0; i < RENEWER_SENT_STAMPS && stamp != 0; i++) {
        if (r->sent[i].ns == stamp) {
            since = r->sent_since[i].ns;
        }
    }
    add_time(f, since);
}

static void add_renewer(struct form *f, const struct renewer *r)
{
    add(f, (uint64_t)r->phase << 8 | r->health);
    add(f, (uint64_t)r->lease_current << 6 | (uint64_t)r->create_due << 5 | (uint64_t)r->owed << 4 |
               (uint64_t)r->fresh << 3 | (uint64_t)r->is_slow << 2 | (uint64_t)r->flipped << 1 |
               (uint64_t)(r->lease_holder[0] != '\0'));
    add_name(f, r->lease_uid, f->w->last_uid);
    add_stamp_text(f, r->lease_stamp);
    add(f, r->lease_duration_s);
    add_sent(f, r, f->w->lease.renewed);
    add(f, r->create_denials);
    add_mono(f, r->missing_since);
    add_time(f, r->missing_since.ns != 0 ? r->create_at.ns : 0);
    add(f, (uint64_t)r->under_way << 8 | r->sent_action);
    add_mono(f, r->anchor.ns == 0 ? r->anchor
                                  : (struct mono){f->w->now - (f->w->now - r->anchor.ns) %
                                                                  f->e->setting->interval_ns});
    add_mono(f, r->phase == RENEWER_RENEWING ? r->slot : (struct mono){0});
    add_ahead(f, r->next_at);
    add_ahead(f, r->retry_at);
    add(f, r->failures > 8 ? 8 : r->failures);
    add(f, r->conflicts > 8 ? 8 : r->conflicts);
    add_mono(f, r->renewed_at);
    add_time(f, r->under_way != RENEWER_NONE ? r->sent_at.ns : 0);
    add_ahead(f, r->flip_at);
    add_ahead(f, r->stop_until);
}

static void add_dpu(struct form *f, const struct dpu *d)
{
    add(f, d->runs);
    if (!d->runs) {
        return;
    }
    add_renewer(f, &d->core);
    add_request(f, &d->call);
    add_request(f, &d->late);
    add_lease(f, &d->tree);
    add_stamp(f, d->call.kind == REQUEST_NONE ? 0 : d->sent);
    add_time(f, d->wake_at);
}

/* The judge asks of most times only which came first. */
static void add_past(struct form *f, const struct past *p)
{
    const struct setting *t = f->e->setting;
    int64_t settle_ns = 2 * lease_pace_grace_ns(t->interval_ns) + t->duration_ns;
    const int64_t bad[] = {p->dpu_bad_at, p->gone_at, p->stepped_at, p->murky_at, p->blind_at};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        add(f, (uint64_t)(bad[i] < p->renewed_at) << 4 |
                   (uint64_t)(bad[i] < p->renewed_before) << 3 |
                   (uint64_t)(bad[i] + t->interval_ns / 2 < p->renewed_at) << 2 |
                   (uint64_t)(bad[i] + t->interval_ns / 2 < p->renewed_before) << 1 |
                   (bad[i] < p->reported_since));
    }
    add_time_within(f, p->renewed_at, 2 * t->duration_ns + settle_ns);
    add_time_within(f, p->blind_at, settle_ns);
    add_time_within(f, p->broken_at, 6 * t->interval_ns);
    add_time_within(f, p->gone_at, settle_ns);
    add_time_within(f, p->touched_at, t->interval_ns);
    add(f, (uint64_t)(p->reported_since != 0) << 1 | (p->stepped_at != 0));
    add_time(f, p->host_down_since);
    add(f, f->w->dpu.boot - p->told_boot);
    add(f, (uint64_t)(p->away_at >= p->renewed_at) << 3 |
               (uint64_t)(p->slow_at >= p->renewed_at) << 2 | (uint64_t)p->was_held << 1 |
               p->was_ready);
}

struct digest canon_digest(const struct explorer *e, const struct world *w)
{
    const struct setting *t = e->setting;
    struct form f = {.e = e, .w = w, .digest = {1, 2}};
    f.cap_ns = 4 * t->duration_ns + 4 * lease_pace_grace_ns(t->interval_ns);
    add(&f, w->faults);
    add_lease(&f, &w->lease);
    if (world_has(w, HOST_STALE)) {
        add_lease(&f, &w->stale);
    }
    add_host(&f, &w->host);
    add_dpu(&f, &w->dpu);
    add_past(&f, &w->past);
    for (size_t i = 0; i < ORPHANS_MAX; i++) {
        add_request(&f, &w->orphans[i]);
    }
    add(&f, w->has_record);
    if (w->has_record) {
        add_record(&f, &w->record);
    }
    return f.digest;
}
