/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_sync.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/daemon.h"

#include <stdlib.h>
#include <string.h>

#define LASTING_LOG_NS (3600 * NS_PER_SEC)

enum {
    PATH_BYTES = 1024,
    UID_BYTES = 64,   /* a UUID with room to spare */
    UNDONE_MOST = 32, /* doubled so often, any pause is at its most */
    UNSERVED = 10,    /* what is not served at all is asked for so much more rarely */
};

/* How far the present want has come. */
enum sync_progress {
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
    struct kube_sync_config config; /* its texts are ours */
    struct boot_timer *timer;
    struct mono due;
    struct kube_call *call; /* the one request under way */
    enum kube_method method;
    bool is_telling; /* within on_written */

    bool has_owner;
    char owner_uid[UID_BYTES]; /* "": unknown */
    bool is_listed;
    bool is_known;
    json_t *existing; /* owned; as last read, answered or shown; NULL: absent */
    bool is_gone;     /* as we were told last */
    bool look_again;  /* it changed while we were at work */

    enum sync_progress progress;
    bool is_change; /* what is to be written is no repetition */
    bool is_resting;
    struct mono changed_at; /* the last write of another want */
    struct mono retry_at;   /* after a failure; 0: none */
    struct mono told_until; /* by Retry-After */
    struct backoff backoff;

    struct sync_track repaired;
    struct sync_track created;
    char wrote_uid[UID_BYTES]; /* of the object that was last written */
    int64_t check_ns;
    struct mono check_at; /* MONO_NEVER: not planned yet */

    struct log_repeat trouble;
    struct log_repeat denied;
    struct log_repeat undone;
    struct log_repeat fight;
    struct log_repeat wrote;
    bool has_complained;
    struct kube_sync_stats stats;
};

static void sync_step(struct kube_sync *s, struct mono now);

static void sync_arm(struct kube_sync *s, struct mono due)
{
    s->due = due;
    boot_timer_arm(s->timer, due);
}

static void sync_take(struct kube_sync *s, json_t *object)
{
    if (!object && s->existing && s->config.is_watched) {
        s->has_owner = false; /* it may have gone with its Node */
    }
    json_decref(s->existing);
    s->existing = object;
    s->is_gone = !object;
}

static json_t *sync_pick(const struct kube_sync *s, json_t *answer)
{
    return json_incref(s->config.pick ? s->config.pick(s->config.user, answer) : answer);
}

/* All is read anew before the next write. */
static void sync_forget(struct kube_sync *s)
{
    s->is_known = false;
    s->is_listed = false;
    s->has_owner = s->has_owner && s->config.is_watched;
}

static int sync_desired(struct kube_sync *s, const json_t *object, struct kube_sync_want *out,
                        struct err *e)
{
    const char *uid = s->owner_uid[0] != '\0' ? s->owner_uid : NULL;
    return s->config.desired(s->config.user, object, uid, out, e);
}

static bool sync_differs(struct kube_sync *s, const json_t *object)
{
    struct kube_sync_want want = {.body = NULL};
    bool differs = sync_desired(s, object, &want, NULL) != 0 || want.body;
    json_decref(want.body);
    return differs;
}

/* ---- trouble --------------------------------------------------------------------------------- */

static bool is_not_found(const struct kube_response *r)
{
    return r->http_status == 404 && text_equal(r->reason, "NotFound");
}

static void sync_fail(struct kube_sync *s, const char *doing, const char *why,
                      const struct kube_response *r)
{
    struct mono now = r->received_at;
    int status = r->http_status;
    bool is_conflict = status == 409;
    bool is_unserved = status == 404 && s->config.list_query && !is_not_found(r);
    bool is_denied = status == 400 || status == 403 || status == 422;
    bool lasts = (is_denied || (is_unserved && !s->is_listed)) && s->config.denied_retry_ns > 0;
    int64_t told_ns = r->retry_after_ms > 0 ? mono_ns_mul(r->retry_after_ms, NS_PER_MS) : 0;
    int64_t wait_ns = backoff_next_ns(&s->backoff, told_ns);
    if (lasts) {
        wait_ns = mono_ns_mul(s->config.denied_retry_ns, is_unserved ? UNSERVED : 1);
    }
    s->stats.failed++;
    s->is_listed = s->is_listed && !is_unserved;
    s->is_known = s->is_known && s->config.is_watched && !is_conflict && !is_unserved;
    s->has_owner = s->has_owner && (s->config.is_watched || is_conflict);
    s->told_until = told_ns > 0 ? mono_add(now, wait_ns) : (struct mono){0};
    s->retry_at = mono_add(now, wait_ns);
    sync_arm(s, s->retry_at);
    if (log_limited(lasts ? &s->denied : &s->trouble, lasts ? LASTING_LOG_NS : LOG_AGAIN_NS,
                    LOG_WARN, s->config.mod, "%s %s: %s%s%s, will retry", doing, s->config.what,
                    why, lasts && status == 403 ? s->config.denied_advice : "",
                    lasts ? s->config.advice : "")) {
        s->has_complained = true;
    }
}

/* Not by a read alone: writes may go on failing. */
static void sync_works(struct kube_sync *s)
{
    s->retry_at = (struct mono){0};
    s->told_until = (struct mono){0};
    backoff_reset(&s->backoff);
}

static void sync_fail_unsent(struct kube_sync *s, const char *doing, const char *why)
{
    const struct kube_response r = {.received_at = clock_mono_now()};
    sync_fail(s, doing, why, &r);
}

/* A write does not wait for its turn: the reads before it did, and what they showed would be old.
 * Nor does a read while the object is gone, unless something has failed. */
static struct kube_request sync_request(const struct kube_sync *s, enum kube_method method)
{
    bool waits = method == KUBE_GET && (!s->is_gone || s->backoff.failures > 0);
    return (struct kube_request){.method = method,
                                 .channel = KUBE_CONTROL,
                                 .priority =
                                     s->config.is_urgent && !waits ? KUBE_URGENT : KUBE_ORDINARY,
                                 .deadline_ms = s->config.deadline_ms};
}

static void sync_send(struct kube_sync *s, enum kube_method method, const char *path,
                      const json_t *body, kube_done_fn *then)
{
    struct err e = ERR_INIT;
    struct kube_request request = sync_request(s, method);
    request.path = path;
    request.body = body;
    s->method = method;
    sync_arm(s, MONO_NEVER); /* the answer decides what comes next */
    if (kube_client_start(s->config.client, &request, then, s, &s->call, &e) != 0) {
        sync_fail_unsent(s, "asking for", e.msg);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static void on_owner(void *user, const struct kube_response *r)
{
    struct kube_sync *s = user;
    const char *uid = kube_object_uid(r->body);
    s->call = NULL;
    s->has_owner = r->code == 0 && uid;
    if (r->code == ERR_AUTH && s->config.is_owner_optional) {
        log_warn(
            s->config.mod,
            "reading Node '%s' is forbidden (%s): %s gets no owner and outlives it, continuing",
            s->config.owner_node, r->message, s->config.what);
        s->has_owner = true;
        uid = "";
    } else if (!s->has_owner) {
        sync_fail(s, "reading the Node that owns",
                  r->code == ERR_NOTFOUND ? "it does not exist yet (is --node-name right?)"
                  : r->code != 0          ? r->message
                                          : "it has no usable uid",
                  r);
        return;
    }
    text_format(s->owner_uid, sizeof(s->owner_uid), "%s", uid);
    sync_step(s, r->received_at);
}

static void sync_read_owner(struct kube_sync *s)
{
    struct err e = ERR_INIT;
    sync_arm(s, MONO_NEVER);
    if (kube_node_read(s->config.client, s->config.owner_node, sync_request(s, KUBE_GET), on_owner,
                       s, &s->call, &e) != 0) {
        sync_fail_unsent(s, "reading the Node that owns", e.msg);
    }
}

static void on_read(void *user, const struct kube_response *r)
{
    struct kube_sync *s = user;
    bool is_list = s->config.list_query && !s->is_listed;
    s->call = NULL;
    if (is_not_found(r) && !is_list && !s->config.part) {
        sync_take(s, NULL);
    } else if (r->code != 0) {
        if (is_list && r->http_status == 404) {
            (void)s->config.pick(s->config.user, NULL);
        }
        sync_fail(s, is_list ? "listing" : "reading", r->message, r);
        return;
    } else {
        sync_take(s, sync_pick(s, r->body));
    }
    s->is_listed = s->is_listed || is_list;
    s->is_known = true;
    s->check_at = MONO_NEVER;
    sync_step(s, r->received_at);
}

static void sync_read(struct kube_sync *s)
{
    char path[PATH_BYTES];
    bool is_list = s->config.list_query && !s->is_listed;
    text_format(path, sizeof(path), "%s%s%s", s->config.collection, is_list ? "?" : "/",
                is_list ? s->config.list_query : s->config.name);
    sync_send(s, KUBE_GET, path, NULL, on_read);
}

/* ---- who undoes what we write ---------------------------------------------------------------- */

static int64_t pause_ns(const struct kube_sync_pace *pace, uint32_t undone)
{
    int64_t wait_ns = undone < pace->free ? 0 : pace->base_ns;
    for (uint32_t i = pace->free; i < undone && wait_ns < pace->max_ns; i++) {
        wait_ns = mono_ns_mul(wait_ns, 2);
    }
    return wait_ns < pace->max_ns ? wait_ns : pace->max_ns;
}

static void sync_note(struct sync_track *track, const struct kube_sync_pace *pace, bool is_new,
                      struct mono now)
{
    int64_t quiet_ns = mono_ns_mul(pause_ns(pace, track->undone), 2);
    quiet_ns = quiet_ns > pace->quiet_ns ? quiet_ns : pace->quiet_ns;
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

/* What was written is `existing` now. */
static void sync_note_write(struct kube_sync *s, struct mono now)
{
    const struct kube_sync_config *c = &s->config;
    bool is_created = s->method == KUBE_POST;
    bool is_altered = sync_differs(s, s->existing);
    struct sync_track *r = &s->repaired;
    if (is_created) {
        sync_note(&s->created, &c->create, false, now);
        int64_t wait_ns = pause_ns(&c->create, s->created.undone);
        s->created.next = mono_add(now, wait_ns - prng_next(&s->backoff.random, wait_ns / 4));
    }
    if (is_altered) {
        r->undone = UNDONE_MOST;
        r->wrote_at = now;
    } else if (!s->is_change) {
        sync_note(r, &c->repair, !text_equal(uid_of(s->existing), s->wrote_uid), now);
    }
    text_format(s->wrote_uid, sizeof(s->wrote_uid), "%s", uid_of(s->existing));
    r->next = mono_add(now, pause_ns(&c->repair, r->undone));
    if (is_created || !s->is_change) {
        log_limited(&s->wrote, LOG_AGAIN_NS, LOG_INFO, c->mod, "%s was %s", c->what,
                    is_created ? "created" : "repaired");
    }
    if (r->undone > 1) {
        log_limited(&s->fight, LASTING_LOG_NS, LOG_WARN, c->mod,
                    "%s: %s; it is repaired at most every %d s while that lasts", c->what,
                    is_altered ? "the API server stores something else than we write (an "
                                 "admission webhook?)"
                               : "somebody takes our repairs back (an agent with other options?)",
                    (int)(c->repair.max_ns / NS_PER_SEC));
    }
}

/* What was written before may be written again then. An object that somebody made anew is none that
 * our repair was taken back from. */
static struct mono sync_repeat_at(const struct kube_sync *s, const json_t *object)
{
    if (!object && !s->config.part) {
        return s->created.next;
    }
    return text_equal(uid_of(object), s->wrote_uid) ? s->repaired.next : (struct mono){0};
}

static struct mono sync_write_at(const struct kube_sync *s, int64_t gap_ns)
{
    struct mono change_at = mono_add(s->changed_at, gap_ns);
    switch (s->progress) {
    case SYNC_FIRST:
    case SYNC_TRIED:
        break;
    case SYNC_CHANGED:
        if (s->retry_at.ns != 0 && mono_before(s->retry_at, change_at)) {
            break;
        }
        return mono_max(change_at, s->told_until);
    case SYNC_STANDS:
        return mono_max(sync_repeat_at(s, s->existing), s->retry_at);
    }
    return s->retry_at;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void on_write(void *user, const struct kube_response *r)
{
    struct kube_sync *s = user;
    const struct kube_sync_config *c = &s->config;
    s->call = NULL;
    if (r->code != 0) {
        if (is_not_found(r) && s->method != KUBE_POST) {
            sync_take(s, NULL);
        }
        sync_fail(s, "writing", r->message, r);
    } else {
        /* What a watch has shown meanwhile may be this very write. */
        s->look_again = s->look_again && s->method != KUBE_POST &&
                        !(c->is_watched && json_equal(r->body, s->existing));
        s->stats.written++;
        s->progress = s->progress == SYNC_TRIED ? SYNC_STANDS : s->progress;
        sync_works(s);
        sync_take(s, sync_pick(s, r->body));
    }
    s->is_telling = true;
    bool is_news = c->on_written && c->on_written(c->user, s->method, r);
    s->is_telling = false;
    if (r->code != 0) {
        return;
    }
    if (is_news) {
        s->progress = SYNC_TRIED;
    } else {
        sync_note_write(s, r->received_at);
    }
    s->is_change = is_news || s->progress == SYNC_CHANGED;
    sync_step(s, r->received_at);
}

static void sync_write(struct kube_sync *s, const json_t *body, struct mono now)
{
    const struct kube_sync_config *c = &s->config;
    char path[PATH_BYTES];
    enum kube_method method = c->part ? KUBE_STRATEGIC_PATCH : s->existing ? KUBE_PUT : KUBE_POST;
    text_format(path, sizeof(path), "%s%s%s%s%s", c->collection, method == KUBE_POST ? "" : "/",
                method == KUBE_POST ? "" : c->name, c->part ? "/" : "", c->part ? c->part : "");
    if (s->progress == SYNC_STANDS) {
        log_limited(&s->undone, LOG_AGAIN_NS, LOG_INFO, c->mod,
                    "%s was %s by somebody, repairing it", c->what,
                    s->existing ? "changed" : "removed");
    }
    if (s->progress == SYNC_CHANGED) {
        s->changed_at = now;
    }
    s->progress = SYNC_TRIED;
    sync_send(s, method, path, body, on_write);
}

/* ---- deciding -------------------------------------------------------------------------------- */

static void sync_arm_check(struct kube_sync *s, struct mono now)
{
    if (mono_is_never(s->check_at) && s->check_ns > 0) {
        s->check_at = mono_add(now, s->check_ns);
    }
    sync_arm(s, s->check_at);
}

static void sync_rest(struct kube_sync *s, struct mono now)
{
    s->is_resting = true;
    s->is_change = false;
    s->progress = SYNC_STANDS;
    sync_works(s);
    if (s->has_complained) {
        s->has_complained = false;
        log_info(s->config.mod, "%s is in shape again", s->config.what);
    }
    sync_arm_check(s, now);
    if (s->look_again) {
        s->look_again = false;
        s->is_known = false;
        s->has_owner = s->has_owner && s->config.is_watched;
        sync_step(s, now);
    }
}

static void sync_reconcile(struct kube_sync *s, struct mono now)
{
    struct kube_sync_want want = {.body = NULL};
    struct err e = ERR_INIT;
    if (sync_desired(s, s->existing, &want, &e) != 0) {
        sync_fail_unsent(s, "repairing", e.msg);
        return;
    }
    CLEANUP(json) json_t *body = want.body;
    struct mono due = sync_write_at(s, want.gap_ns);
    if (!body) {
        sync_rest(s, now);
    } else if (mono_reached(now, due)) {
        sync_write(s, body, now);
    } else {
        sync_arm(s, due);
    }
}

/* The next thing to do, if nothing is under way. */
static void sync_step(struct kube_sync *s, struct mono now)
{
    if (s->call || s->is_telling) {
        return;
    }
    s->is_resting = false;
    if (s->config.owner_node && !s->has_owner) {
        sync_read_owner(s);
    } else if (!s->is_known) {
        sync_read(s);
    } else {
        sync_reconcile(s, now);
    }
}

static void on_timer(void *user)
{
    struct kube_sync *s = user;
    bool repeats = s->progress == SYNC_STANDS && !s->config.is_watched;
    if (s->is_resting || (s->is_known && repeats)) {
        sync_forget(s);
    }
    sync_step(s, clock_mono_now());
}

/* ---- life ------------------------------------------------------------------------------------ */

static const char *copy_of(const char *text)
{
    return text ? mem_strdup(text) : NULL;
}

struct kube_sync *kube_sync_new(const struct kube_sync_config *config)
{
    struct kube_sync *s = MEM_NEW(struct kube_sync);
    s->config = *config;
    s->config.what = copy_of(config->what);
    s->config.collection = copy_of(config->collection);
    s->config.name = copy_of(config->name);
    s->config.list_query = copy_of(config->list_query);
    s->config.owner_node = copy_of(config->owner_node);
    s->due = MONO_NEVER;
    s->check_at = MONO_NEVER;
    backoff_init(&s->backoff, config->retry_ns, config->retry_max_ns,
                 (uint64_t)clock_wall_now().ns);
    s->timer = boot_timer_new(config->loop, on_timer, s);
    return s;
}

void kube_sync_free(struct kube_sync *s)
{
    if (!s) {
        return;
    }
    kube_call_cancel(s->call);
    boot_timer_free(s->timer);
    json_decref(s->existing);
    free((char *)s->config.what);
    free((char *)s->config.collection);
    free((char *)s->config.name);
    free((char *)s->config.list_query);
    free((char *)s->config.owner_node);
    free(s);
}

void kube_sync_start(struct kube_sync *s, int64_t wait_ns)
{
    struct mono now = clock_mono_now();
    if (wait_ns > 0) {
        sync_arm(s, mono_add(now, wait_ns));
    } else {
        sync_step(s, now);
    }
}

void kube_sync_changed(struct kube_sync *s)
{
    if (s->progress != SYNC_FIRST) {
        s->progress = SYNC_CHANGED;
        s->is_change = true;
    }
    if (s->is_known) { /* what is to be read waits for its own time */
        sync_step(s, clock_mono_now());
    }
}

void kube_sync_saw(struct kube_sync *s, const json_t *object)
{
    struct mono now = clock_mono_now();
    if (s->is_telling) {
        return;
    }
    if (s->config.is_watched) {
        sync_take(s, json_deep_copy(object));
        s->look_again = s->call != NULL;
        if (s->is_known) {
            sync_step(s, now);
        }
        return;
    }
    s->is_gone = s->is_gone || !object;
    if (s->call) {
        s->look_again = s->look_again || !object;
        return;
    }
    if (mono_before(now, s->retry_at) || (object && !sync_differs(s, object))) {
        return;
    }
    struct mono due = sync_repeat_at(s, object);
    if (mono_reached(now, due)) {
        sync_forget(s);
        sync_step(s, now);
    } else {
        sync_arm(s, mono_min(s->due, due));
    }
}

void kube_sync_set_check(struct kube_sync *s, int64_t check_ns)
{
    if (check_ns != s->check_ns) {
        s->check_ns = check_ns;
        s->check_at = MONO_NEVER;
        if (s->is_resting) {
            sync_arm_check(s, clock_mono_now());
        }
    }
}

struct kube_sync_stats kube_sync_stats(const struct kube_sync *s)
{
    return s->stats;
}

/* ---- a Node ---------------------------------------------------------------------------------- */

int kube_node_read(struct kube_client *client, const char *node, struct kube_request request,
                   kube_done_fn *done, void *user, struct kube_call **out, struct err *e)
{
    char path[PATH_BYTES];
    text_format(path, sizeof(path), KUBE_NODES "/%s", node);
    request.method = KUBE_GET;
    request.channel = KUBE_CONTROL;
    request.path = path;
    return kube_client_start(client, &request, done, user, out, e);
}

const char *kube_object_uid(const json_t *object)
{
    const char *uid = json_text_get(json_object_get(object, "metadata"), "uid");
    return text_is_empty(uid) || strlen(uid) >= UID_BYTES ? NULL : uid;
}
