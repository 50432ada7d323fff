/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/record_reader.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/daemon.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* All that record_file_judge() goes by: what has the record's name, who may write that, and what is
 * in it. */
#define WATCHED (DIR_WATCH_NAMES | IN_CREATE | IN_ATTRIB | IN_CLOSE_WRITE | IN_MODIFY)

struct record_reader {
    const char *path;
    char dir[PATH_MAX];
    record_verdict_fn *on_verdict;
    void *user;
    struct dir_watch watch;
    struct boot_timer *timer;
    struct readiness verdict; /* as last told */
    bool has_told;
};

/* ---- judging --------------------------------------------------------------------------------- */

void record_reader_judge(const struct record *record, const struct gate_decision *judged,
                         struct mono now, struct readiness *out, struct mono *out_until)
{
    bool is_usable = record && judged->reason != REASON_RECORD_MISSING &&
                     judged->reason != REASON_RECORD_INVALID;
    *out_until = MONO_NEVER;
    if (!is_usable) {
        *out = (struct readiness){.state = READINESS_UNKNOWN, .reason = judged->reason};
        text_format(out->message, sizeof(out->message), "%s", judged->message);
        return;
    }
    *out = record->readiness;
    out->admit = judged->admit;
    if (mono_before(now, record->writer_until)) {
        *out_until = record->writer_until;
        return;
    }
    if (judged->admit) {
        *out_until = record->hold_until;
    }
    out->state = READINESS_UNKNOWN;
    out->reason = REASON_RECORD_STALE;
    out->transition = (struct wall){0};
    /* Times and never ages: the same words for as long as it lasts. */
    text_format(
        out->message, sizeof(out->message),
        "dpu-host-agent last wrote at %s, so the state of the DPU is unknown; it was %s (%s)",
        rfc3339_text(record->written, false).text, readiness_state_name(record->readiness.state),
        readiness_reason_word(&record->readiness));
}

/* ---- following ------------------------------------------------------------------------------- */

/* For somebody who shows it: each of these is shown somewhere. */
static bool is_same(const struct readiness *a, const struct readiness *b)
{
    return readiness_same_verdict(a, b) && a->transition.ns == b->transition.ns &&
           a->lease.duration_s == b->lease.duration_s &&
           a->host_probes.count == b->host_probes.count &&
           memcmp(&a->host_probes.each, &b->host_probes.each, sizeof(a->host_probes.each)) == 0;
}

static void log_verdict(const struct readiness *v)
{
    log_info("record", "%s (%s): %s", readiness_state_name(v->state), readiness_reason_word(v),
             v->message);
}

static void tell(struct record_reader *r, struct readiness *verdict)
{
    const struct readiness *was = &r->verdict;
    bool is_other = !r->has_told || was->state != verdict->state || was->admit != verdict->admit ||
                    was->reason != verdict->reason;
    if (verdict->transition.ns == 0) { /* ours, not the record's */
        verdict->transition = is_other ? clock_wall_now() : was->transition;
    }
    if (r->has_told && is_same(verdict, was)) {
        return;
    }
    r->verdict = *verdict;
    r->has_told = true;
    if (is_other) {
        log_verdict(verdict);
    }
    r->on_verdict(r->user, &r->verdict);
}

static void look(void *user)
{
    struct record_reader *r = user;
    struct record record;
    struct gate_decision judged;
    struct readiness verdict;
    struct mono until;
    struct err e = ERR_INIT;
    /* Before the look, so that no change is missed between the two. */
    bool is_watched = dir_watch_add(&r->watch, r->dir, WATCHED);
    int rc = record_file_judge(r->path, &record, &judged, &e);
    struct mono now = clock_mono_now();
    record_reader_judge(rc == 0 ? &record : NULL, &judged, now, &verdict, &until);
    /* What cannot be read may be as it was: it was our lack, of descriptors or of memory. */
    bool is_sure = is_watched && (rc == 0 || rc == ERR_NOTFOUND);
    boot_timer_arm(r->timer, is_sure ? until : mono_min(until, mono_add(now, RECORD_LOOK_NS)));
    tell(r, &verdict);
}

void record_reader_look(struct record_reader *r)
{
    look(r);
}

struct record_reader *record_reader_start(struct ev_loop *loop, const char *path,
                                          record_verdict_fn *on_verdict, void *user)
{
    struct record_reader *r = MEM_NEW(struct record_reader);
    r->path = path;
    text_format(r->dir, sizeof(r->dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    r->on_verdict = on_verdict;
    r->user = user;
    dir_watch_start(&r->watch, loop, look, r);
    r->timer = boot_timer_new(loop, look, r);
    boot_timer_arm(r->timer, clock_mono_now());
    text_format(r->verdict.message, sizeof(r->verdict.message), "no verdict yet");
    return r;
}

void record_reader_stop(struct record_reader *r)
{
    if (r) {
        dir_watch_stop(&r->watch);
        boot_timer_free(r->timer);
        free(r);
    }
}

const struct readiness *record_reader_verdict(const struct record_reader *r)
{
    return &r->verdict;
}
