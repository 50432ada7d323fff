/* SPDX-License-Identifier: Apache-2.0 */
/* The API server: the lease, and what becomes of requests. */
#include "tests/explore/parts.h"

#include "base/text.h"
#include "base/time.h"

#include <assert.h>
#include <string.h>

/* ---- the lease ------------------------------------------------------------------------------- */

void number_text(char *out, size_t bytes, const char *prefix, uint64_t number)
{
    char digits[24];
    size_t at = sizeof(digits) - 1;
    size_t len = strlen(prefix);
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    assert(len + sizeof(digits) - at <= bytes);
    memcpy(out, prefix, len);
    memcpy(out + len, digits + at, sizeof(digits) - at);
}

/* Texts of stamps, as they were last needed: to write them, and numbers, took a tenth of the time.
 */
enum { STAMPS = 1024 };
static struct {
    int64_t stamp;
    char text[NAMES_STAMP_BYTES];
} stamps[STAMPS];

static size_t stamp_place(int64_t stamp)
{
    return ((uint64_t)stamp * UINT64_C(0x9e3779b97f4a7c15)) >> 54;
}

static void stamp_text(char *out, size_t bytes, int64_t stamp)
{
    size_t i = stamp_place(stamp);
    if (stamp == 0) {
        out[0] = '\0';
        return;
    }
    if (stamps[i].stamp != stamp) {
        stamps[i].stamp = stamp;
        (void)text_copy(stamps[i].text, sizeof(stamps[i].text),
                        rfc3339_text((struct wall){stamp}, true).text);
    }
    memcpy(out, stamps[i].text, strlen(stamps[i].text) + 1);
    assert(strlen(out) < bytes);
}

/* The lease as the shells pass it to the cores. */
void lease_show(const struct explorer *e, const struct lease *lease, struct lease_view *out)
{
    *out = (struct lease_view){
        .renew_time_valid = lease->renewed != 0,
        .renew_time = {lease->renewed},
        .duration_s = (uint32_t)(e->setting->duration_ns / NS_PER_SEC),
        .health = lease->health,
        .health_message = "a probe fails",
    };
    (void)text_copy(out->ns, sizeof(out->ns), e->renewer.lease_ns);
    (void)text_copy(out->name, sizeof(out->name), e->renewer.lease_name);
    (void)text_copy(out->holder, sizeof(out->holder), e->renewer.holder);
    number_text(out->uid, sizeof(out->uid), "uid-", lease->uid);
    number_text(out->resource_version, sizeof(out->resource_version), "", lease->version);
    stamp_text(out->renew_stamp, sizeof(out->renew_stamp), lease->renewed);
    stamp_text(out->health_stamp, sizeof(out->health_stamp), lease->reported);
    if (lease->boot != 0) {
        number_text(out->boot_id, sizeof(out->boot_id), "boot-", lease->boot);
    }
}

bool watch_is_held(const struct world *w)
{
    return world_has(w, WATCH_LATE) || world_has(w, API_SILENT) || world_has(w, HOST_CUT);
}

/* What the watch is about to bring. */
void watch_emit(struct world *w)
{
    struct watch *watch = &w->host.watch;
    if (!w->host.runs || watch->state != WATCH_OPEN || watch->is_deaf) {
        return;
    }
    if (watch->held_count == HELD_MAX) { /* the host reads the last ones */
        memmove(&watch->held[0], &watch->held[1], sizeof(watch->held[0]) * (HELD_MAX - 1));
        watch->held_count--;
    }
    watch->held[watch->held_count++] = w->lease;
}

void lease_commit(struct world *w, struct lease lease)
{
    lease.version = ++w->version;
    w->lease = lease;
    watch_emit(w);
}

static void note_renewed(struct world *w)
{
    w->past.renewed_before = w->past.renewed_at;
    w->past.renewed_at = w->now;
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool is_of_dpu(enum request_kind kind)
{
    return kind >= REQUEST_GET;
}

static bool is_write(enum request_kind kind)
{
    return kind == REQUEST_MARK || kind == REQUEST_MAKE || kind == REQUEST_PUT ||
           kind == REQUEST_CREATE;
}

static bool is_cut(const struct world *w, enum request_kind kind)
{
    return world_has(w, API_SILENT) || world_has(w, is_of_dpu(kind) ? DPU_CUT : HOST_CUT);
}

/* How long a request takes: half of it to the API server. */
static int64_t latency_ns(const struct explorer *e, const struct world *w, enum request_kind kind)
{
    int64_t interval_ns = e->setting->interval_ns;
    bool is_dpu = is_of_dpu(kind);
    return world_has(w, is_dpu ? DPU_SLOWEST : HOST_SLOWEST) ? 2 * interval_ns
           : world_has(w, is_dpu ? DPU_SLOW : HOST_SLOW)     ? interval_ns / 2
                                                             : 0;
}

struct request *request_send(struct scene s, struct request *r, enum request_kind kind,
                             int64_t due_ns, int64_t end_ns)
{
    struct world *w = s.w;
    int64_t took_ns = latency_ns(s.e, w, kind);
    *r = (struct request){.kind = kind,
                          .sent_at = w->now,
                          .serve_at = w->now + took_ns / 2,
                          .answer_at = w->now + took_ns,
                          .due_at = later(w->now, due_ns),
                          .end_at = later(w->now, end_ns)};
    if (world_has(w, API_DOWN)) {
        r->is_unreachable = true;
        r->is_served = true;
        r->serve_at = w->now;
        r->answer_at = w->now;
    } else if (is_cut(w, kind)) {
        r->serve_at = NEVER;
        r->answer_at = NEVER;
    }
    *(is_of_dpu(kind) ? &w->past.dpu_requests : &w->past.host_requests) += 1;
    return r;
}

/* The owner gives it up; what is under way may arrive all the same. */
void request_drop(struct world *w, struct request *r)
{
    if (r->kind != REQUEST_NONE && !r->is_served && r->serve_at != NEVER && is_write(r->kind)) {
        memmove(&w->orphans[1], &w->orphans[0], sizeof(w->orphans[0]) * (ORPHANS_MAX - 1));
        w->orphans[0] = *r;
        w->orphans[0].answer_at = NEVER;
        w->orphans[0].due_at = NEVER;
        w->orphans[0].end_at = NEVER;
    }
    *r = (struct request){.kind = REQUEST_NONE};
}

/* Its connection breaks. */
void request_break(struct world *w, struct request *r)
{
    if (r->kind != REQUEST_NONE) {
        r->is_served = true;
        r->status = 0;
        r->serve_at = w->now;
        r->answer_at = w->now;
    }
}

static void serve_read(struct world *w, struct request *r)
{
    bool is_host = !is_of_dpu(r->kind);
    r->shown = is_host && world_has(w, HOST_STALE) ? w->stale : w->lease;
    r->status = is_host && world_has(w, HOST_GARBAGE) ? -200 : r->shown.uid == 0 ? 404 : 200;
}

static void serve_mark(struct world *w, struct request *r)
{
    struct lease lease = w->lease;
    if (lease.uid == 0) {
        r->status = 404;
    } else if (lease.version != r->body.version) {
        r->status = 409;
    } else {
        r->status = 200;
        r->shown = lease;
        if (!r->is_dry) {
            lease.mark = r->body.mark;
            lease_commit(w, lease);
            r->shown = w->lease;
        }
    }
}

static void serve_put(struct scene s, struct request *r)
{
    struct world *w = s.w;
    if (w->lease.uid == 0) {
        r->status = 404;
        return;
    }
    if (w->lease.version != r->body.version || w->lease.uid != r->body.uid) {
        r->status = 409;
        return;
    }
    bool is_renewal = r->body.renewed != w->lease.renewed;
    bool was_well = w->lease.health == LEASE_HEALTH_NONE;
    r->body.mark = w->lease.mark;
    lease_commit(w, r->body);
    if (is_renewal) {
        note_renewed(w);
    }
    if (was_well || r->body.health == LEASE_HEALTH_NONE) {
        w->past.reported_since = r->body.health == LEASE_HEALTH_NONE ? 0 : w->now;
    }
    world_tell(s.e, w, "the API server commits the DPU's %s, version %llu",
               is_renewal ? "renewal" : "report", (unsigned long long)w->version);
    r->status = 200;
    r->shown = w->lease;
}

static void serve_make(struct scene s, struct request *r)
{
    struct world *w = s.w;
    if (w->lease.uid != 0) {
        r->status = 409;
        return;
    }
    lease_commit(w, (struct lease){.uid = ++w->last_uid});
    world_tell(s.e, w, "the host makes the lease anew");
    r->status = 200;
    r->shown = w->lease;
}

static void request_serve(struct scene s, struct request *r)
{
    struct world *w = s.w;
    bool is_host = !is_of_dpu(r->kind);
    r->is_served = true;
    if (world_has(w, API_DOWN) || is_cut(w, r->kind)) {
        r->answer_at = world_has(w, API_DOWN) ? w->now : NEVER;
    } else if (is_write(r->kind) && world_has(w, API_STUCK)) {
        r->answer_at = NEVER;
    } else if (is_write(r->kind) && world_has(w, API_READ_ONLY)) {
        r->status = 500;
    } else if ((is_write(r->kind) && is_host && world_has(w, HOST_DENIED)) ||
               r->kind == REQUEST_CREATE) {
        r->status = 403;
    } else if (r->kind == REQUEST_MARK) {
        serve_mark(w, r);
    } else if (r->kind == REQUEST_PUT) {
        serve_put(s, r);
    } else if (r->kind == REQUEST_MAKE) {
        serve_make(s, r);
    } else {
        serve_read(w, r);
    }
    bool is_untold = world_has(w, API_UNTOLD) && is_write(r->kind) && r->status == 200;
    if (is_untold || world_has(w, API_UNSURE)) {
        r->answer_at = NEVER;
    }
}

/* ---- when something of a request is due ------------------------------------------------------ */

int64_t request_due(const struct request *r)
{
    if (r->kind == REQUEST_NONE) {
        return NEVER;
    }
    int64_t next = r->is_served ? r->answer_at : r->serve_at;
    return least(next, least(r->due_at, r->end_at));
}

static bool is_due(const struct world *w, int64_t at)
{
    return at <= w->now;
}

/* The API server goes first. True: something was served. */
bool server_step(struct scene s)
{
    struct world *w = s.w;
    struct host *h = &w->host;
    struct request *const requests[] = {
        &w->dpu.call,  &w->dpu.late,   &h->mark,       &h->make,       &h->watch.list, &h->read,
        &h->late_read, &w->orphans[0], &w->orphans[1], &w->orphans[2], &w->orphans[3]};
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct request *r = requests[i];
        if (r->kind != REQUEST_NONE && !r->is_served && is_due(w, r->serve_at)) {
            request_serve(s, r);
            if (i >= sizeof(requests) / sizeof(requests[0]) - ORPHANS_MAX) {
                r->kind = REQUEST_NONE;
            }
            return true;
        }
    }
    return false;
}

bool request_is_answered(const struct world *w, const struct request *r)
{
    return r->kind != REQUEST_NONE && r->is_served && is_due(w, r->answer_at);
}

/* It was not answered by its end: the owner of a late one is told nothing. */
bool request_has_ended(const struct world *w, const struct request *r)
{
    return r->kind != REQUEST_NONE && is_due(w, r->end_at);
}

bool request_is_overdue(const struct world *w, const struct request *r)
{
    return r->kind != REQUEST_NONE && is_due(w, r->due_at);
}
