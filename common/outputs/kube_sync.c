/* SPDX-License-Identifier: Apache-2.0 */
#include "outputs/kube_sync.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_answer.h"
#include "loop/daemon.h"

#include <stdlib.h>

enum {
    UNDONE_MOST = 32, /* doubled so often, any pause is at its most */
    UNSERVED = 10,    /* what is not served at all is asked for so much more rarely */
};

/* How far the present want has come. */
enum sync_progress {
    SYNC_IDLE,    /* there is none yet */
    SYNC_FIRST,   /* nothing was written or found in shape yet */
    SYNC_TRIED,   /* its write has failed, or was answered with something that changed it */
    SYNC_CHANGED, /* another one than was last tried */
    SYNC_STANDS,  /* the server has had it */
};

struct sync_track {
    struct mono wrote_at; /* 0: never */
    struct mono next;     /* not again before */
    uint32_t undone;      /* in a row */
};

struct kube_sync {
    struct kube_sync_config config;
    struct boot_timer *timer;
    struct kube_call *call; /* the one request under way */
    enum kube_method method;
    bool is_telling; /* within on_written */

    char owner_uid[KUBE_UID_BYTES]; /* "": unknown, or there is none */
    bool is_known;                  /* else it is read before the next write */
    json_t *existing;               /* owned; as last read, answered or shown; NULL: absent */
    bool look_again;                /* it changed while we were at work */

    enum sync_progress progress;
    bool is_change; /* what is to be written is no repetition */
    bool is_resting;
    struct mono changed_at; /* the last write of another want */
    struct mono retry_at;   /* after a failure; 0: none */
    struct mono told_until; /* by Retry-After */
    struct backoff backoff;
    struct mono checked_at;

    struct sync_track repaired;
    struct sync_track created;
    char wrote_uid[KUBE_UID_BYTES]; /* of the object that was last written */

    struct log_repeat trouble;
    struct log_repeat undone[2]; /* changes, absences */
    struct log_repeat fight;
    bool has_complained;
    struct kube_sync_stats stats;
};

static void sync_step(struct kube_sync *s, struct mono now);
static void on_read(void *user, const struct kube_response *r);

/* Takes `object`. */
static void sync_take(struct kube_sync *s, json_t *object)
{
    if (!object && s->existing) {
        s->owner_uid[0] = '\0'; /* it may have gone with its Node */
    }
    json_decref(s->existing);
    s->existing = object;
}

static void sync_take_answer(struct kube_sync *s, json_t *answer)
{
    const struct kube_sync_config *c = &s->config;
    sync_take(s, json_incref(c->pick ? c->pick(c->user, answer) : answer));
}

/* Where its API may not be served, the write that would create it shows whether that is so. */
static bool sync_is_absent(const struct kube_sync *s, const struct kube_response *r)
{
    return kube_is_not_found(r) || (s->config.unserved_advice && r->http_status == 404);
}

static struct kube_sync_want sync_desired(struct kube_sync *s)
{
    struct kube_sync_want want = {.body = NULL};
    s->config.desired(s->config.user, s->existing, s->owner_uid, &want);
    return want;
}

static bool sync_differs(struct kube_sync *s)
{
    struct kube_sync_want want = sync_desired(s);
    bool differs = want.body || want.trouble;
    json_decref(want.body);
    return differs;
}

/* ---- trouble --------------------------------------------------------------------------------- */

static void sync_fail(struct kube_sync *s, const char *doing, const char *why,
                      const struct kube_response *r)
{
    const struct kube_sync_config *c = &s->config;
    struct mono now = r->received_at;
    int status = r->http_status;
    bool is_unserved = status == 404 && c->unserved_advice && s->method == KUBE_POST;
    bool lacks_right = kube_is_denied(r);
    bool is_denied = lacks_right || status == 400 || status == 422;
    bool lasts = c->denied_retry_ns > 0 && (is_denied || is_unserved);
    int64_t wait_ns = backoff_next_ns(&s->backoff, r->retry_after_ns);
    if (lasts) {
        wait_ns = mono_ns_mul(c->denied_retry_ns, is_unserved ? UNSERVED : 1);
    }
    s->stats.failed++;
    if (status == 409 || c->part || is_unserved) { /* what was written over is old, or may have
                                                      arrived */
        s->is_known = false;
    }
    s->told_until = mono_add(now, mono_ns_min(r->retry_after_ns, wait_ns));
    s->retry_at = mono_add(now, wait_ns);
    boot_timer_arm(s->timer, s->retry_at);
    s->has_complained |= log_limited(&s->trouble, lasts ? LOG_SELDOM_NS : LOG_AGAIN_NS, LOG_WARN,
                                     c->mod, "%s %s: %s%s, will retry", doing, c->what, why,
                                     !lasts        ? ""
                                     : is_unserved ? c->unserved_advice
                                     : lacks_right ? c->denied_advice
                                                   : "");
}

/* Not by a read alone: writes may go on failing. */
static void sync_works(struct kube_sync *s)
{
    s->retry_at = (struct mono){0};
    s->told_until = (struct mono){0};
    backoff_reset(&s->backoff);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Takes `path`. A write does not wait for its turn: the reads before it did, and what they showed
 * would be old. Nor does a read while the object is gone. */
static void sync_send(struct kube_sync *s, enum kube_method method, char *path, const json_t *body,
                      kube_done_fn *then)
{
    bool is_gone = s->is_known && !s->existing;
    bool waits = method == KUBE_GET && !is_gone;
    const struct kube_request request = {
        .method = method,
        .channel = KUBE_CONTROL,
        .priority = s->config.is_urgent && !waits ? KUBE_URGENT : KUBE_ORDINARY,
        .path = path,
        .body = body,
        .least_version = then == on_read ? kube_object_version(s->existing) : 0,
        .deadline_ms = s->config.deadline_ms};
    s->method = method;
    boot_timer_arm(s->timer, MONO_NEVER); /* the answer decides what comes next */
    s->call = kube_client_start(s->config.client, &request, then, s);
    free(path);
}

static void on_owner(void *user, const struct kube_response *r)
{
    struct kube_sync *s = user;
    const char *uid = kube_object_uid(r->body);
    s->call = NULL;
    if (r->code != 0 || !uid) {
        sync_fail(s, "reading the Node that owns",
                  r->code == ERR_NOTFOUND ? "it does not exist yet: check --node-name"
                  : r->code != 0          ? r->message
                                          : "it has no usable uid",
                  r);
        return;
    }
    text_format(s->owner_uid, sizeof(s->owner_uid), "%s", uid);
    sync_step(s, r->received_at);
}

static void on_read(void *user, const struct kube_response *r)
{
    struct kube_sync *s = user;
    s->call = NULL;
    if (r->code == 0) {
        sync_take_answer(s, r->body);
    } else if (sync_is_absent(s, r) && !s->config.part) {
        sync_take(s, NULL);
    } else {
        sync_fail(s, "reading", r->message, r);
        return;
    }
    s->is_known = true;
    s->checked_at = r->received_at;
    sync_step(s, r->received_at);
}

/* ---- who undoes what we write ---------------------------------------------------------------- */

static int64_t pause_ns(const struct kube_sync_pace *pace, uint32_t undone)
{
    return undone < pace->free
               ? 0
               : mono_ns_doubled(pace->base_ns, undone - pace->free + 1, pace->max_ns);
}

static void sync_count(struct sync_track *track, const struct kube_sync_pace *pace, bool is_new,
                       struct mono now)
{
    int64_t quiet_ns = mono_ns_max(mono_ns_mul(pause_ns(pace, track->undone), 2), pace->quiet_ns);
    if (is_new || track->wrote_at.ns == 0 || mono_since(now, track->wrote_at) >= quiet_ns) {
        track->undone = 0;
    } else if (track->undone < UNDONE_MOST) {
        track->undone++;
    }
    track->wrote_at = now;
}

static const char *uid_of(const json_t *object)
{
    const char *uid = kube_object_uid(object);
    return uid ? uid : "";
}

/* Our last write is `existing` now. */
static void sync_note_write(struct kube_sync *s, struct mono now)
{
    const struct kube_sync_config *c = &s->config;
    bool is_altered = s->progress != SYNC_CHANGED && sync_differs(s);
    struct sync_track *r = &s->repaired;
    if (s->method == KUBE_POST) {
        sync_count(&s->created, &c->create, false, now);
        int64_t wait_ns = pause_ns(&c->create, s->created.undone);
        s->created.next = mono_add(now, wait_ns - prng_next(&s->backoff.random, wait_ns / 4));
    }
    if (is_altered) {
        r->undone = UNDONE_MOST;
        r->wrote_at = now;
    } else if (!s->is_change) {
        sync_count(r, &c->repair, !text_equal(uid_of(s->existing), s->wrote_uid), now);
    }
    r->next = mono_add(now, pause_ns(&c->repair, r->undone));
    text_format(s->wrote_uid, sizeof(s->wrote_uid), "%s", uid_of(s->existing));
    if (r->undone > 1) {
        log_limited(&s->fight, LOG_SELDOM_NS, LOG_WARN, c->mod,
                    "%s: %s; it is repaired at most every %d s until that ends", c->what,
                    is_altered ? "the API server stores something else than is written: "
                                 "check admission webhooks"
                               : "another writer undoes the repairs: check for a program "
                                 "with other options",
                    (int)(c->repair.max_ns / NS_PER_SEC));
    }
}

/* The time when the same may be written again. An object that somebody made anew is none that
 * our repair was taken back from. */
static struct mono sync_repeat_at(const struct kube_sync *s)
{
    if (!s->existing && !s->config.part) {
        return s->created.next;
    }
    return text_equal(uid_of(s->existing), s->wrote_uid) ? s->repaired.next : (struct mono){0};
}

static struct mono sync_write_at(const struct kube_sync *s, int64_t gap_ns)
{
    struct mono change_at = mono_add(s->changed_at, gap_ns);
    bool retries_before = s->retry_at.ns != 0 && mono_before(s->retry_at, change_at);
    if (s->progress == SYNC_STANDS) {
        return sync_repeat_at(s);
    }
    return s->progress == SYNC_CHANGED && !retries_before ? mono_max(change_at, s->told_until)
                                                          : s->retry_at;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool sync_tell(struct kube_sync *s, const struct kube_response *r)
{
    const struct kube_sync_config *c = &s->config;
    s->is_telling = true;
    bool is_news = c->on_written && c->on_written(c->user, s->method, r);
    s->is_telling = false;
    return is_news;
}

static void on_write(void *user, const struct kube_response *r)
{
    struct kube_sync *s = user;
    s->call = NULL;
    if (r->code != 0) {
        if (sync_is_absent(s, r) && s->method != KUBE_POST) {
            sync_take(s, NULL);
        }
        sync_fail(s, "writing", r->message, r);
        (void)sync_tell(s, r);
        return;
    }
    /* A state that a watch has shown meanwhile may be this very write. */
    s->look_again = s->look_again && s->method != KUBE_POST && !json_equal(r->body, s->existing);
    s->stats.written++;
    s->progress = s->progress == SYNC_TRIED ? SYNC_STANDS : s->progress;
    sync_works(s);
    sync_take_answer(s, r->body);
    bool is_news = sync_tell(s, r);
    if (is_news) {
        s->progress = SYNC_TRIED;
    } else {
        sync_note_write(s, r->received_at);
    }
    s->is_change = is_news || s->progress == SYNC_CHANGED;
    sync_step(s, r->received_at);
}

static void sync_write(struct kube_sync *s, const struct kube_sync_want *want, struct mono now)
{
    const struct kube_sync_config *c = &s->config;
    bool is_new = !s->existing && !c->part;
    char *path = is_new ? mem_strdup(s->config.collection)
                        : mem_format("%s/%s%s%s", s->config.collection, c->name, c->part ? "/" : "",
                                     c->part ? c->part : "");
    if (is_new || s->progress == SYNC_STANDS) {
        log_limited(&s->undone[is_new], LOG_AGAIN_NS, LOG_INFO, c->mod, "%s %s", c->what,
                    is_new ? "is missing, creating it"
                           : "was changed by another writer, repairing it");
    }
    if (s->progress == SYNC_CHANGED) {
        s->changed_at = now;
    }
    s->progress = SYNC_TRIED;
    sync_send(s,
              c->part          ? KUBE_STRATEGIC_PATCH
              : is_new         ? KUBE_POST
              : want->is_patch ? KUBE_MERGE_PATCH
                               : KUBE_PUT,
              path, want->body, on_write);
}

/* ---- deciding -------------------------------------------------------------------------------- */

static void sync_rest(struct kube_sync *s, struct mono now)
{
    const struct kube_sync_config *c = &s->config;
    s->is_resting = true;
    s->is_change = false;
    s->progress = SYNC_STANDS;
    sync_works(s);
    if (s->has_complained) {
        s->has_complained = false;
        log_info(c->mod, "%s is as it should be again", c->what);
    }
    boot_timer_arm(s->timer, c->check_ns > 0 ? mono_add(s->checked_at, c->check_ns) : MONO_NEVER);
    if (s->look_again) {
        s->look_again = false;
        s->is_known = false;
        sync_step(s, now);
    }
}

static void sync_reconcile(struct kube_sync *s, struct mono now)
{
    struct kube_sync_want want = sync_desired(s);
    CLEANUP(json) json_t *body = want.body;
    struct mono due = sync_write_at(s, want.gap_ns);
    if (want.trouble) {
        const struct kube_response none = {.received_at = now};
        sync_fail(s, "repairing", want.trouble, &none);
    } else if (!body) {
        sync_rest(s, now);
    } else if (mono_reached(now, due)) {
        sync_write(s, &want, now);
    } else {
        boot_timer_arm(s->timer, due);
    }
}

/* Then it is the Node that is asked for, before anything else. */
static bool sync_lacks_owner(const struct kube_sync *s)
{
    return s->config.owner_node && s->owner_uid[0] == '\0';
}

/* The next thing to do, if nothing is under way. */
static void sync_step(struct kube_sync *s, struct mono now)
{
    if (s->call || s->is_telling) {
        return;
    }
    s->is_resting = false;
    bool lacks_owner = sync_lacks_owner(s);
    if (lacks_owner && !mono_before(now, s->retry_at)) {
        char *node = mem_format(KUBE_NODES "/%s", s->config.owner_node);
        sync_send(s, KUBE_GET, node, NULL, on_owner);
    } else if (!lacks_owner && s->is_known) {
        sync_reconcile(s, now);
    } else if (!lacks_owner) {
        char *path = mem_format("%s/%s", s->config.collection, s->config.name);
        sync_send(s, KUBE_GET, path, NULL, on_read);
    }
}

static void on_timer(void *user)
{
    struct kube_sync *s = user;
    if (s->is_resting) {
        s->is_known = false;
    }
    sync_step(s, clock_mono_now());
}

/* ---- life ------------------------------------------------------------------------------------ */

struct kube_sync *kube_sync_new(const struct kube_sync_config *c)
{
    struct kube_sync *s = MEM_NEW(struct kube_sync);
    s->config = *c;
    backoff_init(&s->backoff, c->retry_ns, c->retry_max_ns, (uint64_t)clock_wall_now().ns);
    s->timer = boot_timer_new(c->loop, on_timer, s);
    return s;
}

void kube_sync_free(struct kube_sync *s)
{
    if (s) {
        kube_call_cancel(s->call);
        boot_timer_free(s->timer);
        json_decref(s->existing);
        free(s->config.what);
        free(s->config.collection);
        free(s);
    }
}

void kube_sync_changed(struct kube_sync *s)
{
    struct mono now = clock_mono_now();
    bool is_first = s->progress == SYNC_IDLE;
    if (is_first) {
        s->progress = SYNC_FIRST;
    } else if (s->progress != SYNC_FIRST) {
        s->progress = SYNC_CHANGED;
        s->is_change = true;
    }
    if (is_first && s->config.settle_ns > 0) {
        boot_timer_arm(s->timer, mono_add(now, s->config.settle_ns));
    } else if (is_first || s->is_known) { /* what is to be read waits for its own time */
        sync_step(s, now);
    }
}

void kube_sync_saw(struct kube_sync *s, const json_t *object)
{
    if (s->is_telling) {
        return;
    }
    s->look_again |= s->call && !sync_lacks_owner(s);
    sync_take(s, json_incref((json_t *)(uintptr_t)object)); /* nobody changes it */
    s->is_known |= !s->call;
    if (s->progress == SYNC_IDLE) {
        s->checked_at = clock_mono_now();
    } else if (s->is_known) {
        sync_step(s, clock_mono_now());
    }
}

void kube_sync_look(struct kube_sync *s)
{
    if (s->is_resting) {
        on_timer(s);
    }
}

const struct kube_sync_stats *kube_sync_stats(const struct kube_sync *s)
{
    return &s->stats;
}
