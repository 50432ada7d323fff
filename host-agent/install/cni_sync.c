/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_sync.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "host-agent/install/conflist.h"
#include "host-agent/install/contest.h"
#include "host-agent/install/wiring.h"
#include "loop/daemon.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOD "cni"

#define SETTLE_NS (100 * NS_PER_MS) /* an owner that writes in two steps is looked at once */
#define AGAIN_NS  NS_PER_SEC        /* between two writes of ours; while another agent keeps it */
#define RETRY_NS  (30 * NS_PER_SEC) /* after a failure, or while the directory is not there */

enum { CONTEST_MODE = 0644, SENTENCE_BYTES = CONTEST_WORDS_BYTES + 300 };

struct cni_sync {
    struct cni_sync_config config;
    struct dir_watch watch;
    struct file_lock lock; /* of the directory */
    struct boot_timer *timer;
    struct mono look_at;
    struct wiring last;     /* owned */
    struct mono written_at; /* 0: there was no look yet */
    struct mono failed_at;  /* the last write, which failed; 0: it did not */
    struct contest contest;
    struct log_repeat complaint;
    struct log_repeat repaired;
    struct log_repeat undone;
    struct log_repeat kept_by_another;
};

/* An earlier look that is due already stays: who writes all the time does not put it off. */
static void look_in(struct cni_sync *s, int64_t wait_ns)
{
    s->look_at = mono_min(s->look_at, mono_add(clock_mono_now(), wait_ns));
    boot_timer_arm(s->timer, s->look_at);
}

/* ---- a contest ------------------------------------------------------------------------------- */

static void name_contest_file(const char *readiness_file, char out[static PATH_MAX])
{
    text_format(out, PATH_MAX, "%s" NAMES_CNI_CONTEST, readiness_file);
}

void cni_sync_forget(const char *readiness_file)
{
    char path[PATH_MAX];
    name_contest_file(readiness_file, path);
    (void)unlink(path); /* most often there is none */
}

static void put_contest_file(const struct cni_sync *s, const char *sentence)
{
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *body = json_pack("{s:s}", "message", sentence);
    CLEANUP(free) char *text = body ? json_text_dump(body) : NULL;
    char path[PATH_MAX];
    name_contest_file(s->config.readiness_file, path);
    if (text && file_replace(path, text, strlen(text), CONTEST_MODE, &e) != 0) {
        log_warn(MOD, "dpuctl cannot be told: %s", e.msg);
    }
}

static void tell(struct cni_sync *s, const char *words)
{
    char sentence[SENTENCE_BYTES];
    char clean[SENTENCE_BYTES]; /* names of files are anybody's */
    text_format(sentence, sizeof(sentence),
                "another program undoes dpu-gate's CNI configuration: %s; dpu-host-agent has "
                "restored it %d times and now tries every 10 min, so Pods may start without the "
                "gate (docs/cni.md, Neighbours)",
                words, CONTEST_TRIES);
    text_sanitize(clean, sizeof(clean), sentence, strlen(sentence));
    log_warn(MOD, "%s", clean);
    put_contest_file(s, clean);
    s->config.on_contested(s->config.user, clean);
}

/* Ours stood as it is wanted, and does not now. */
static bool may_restore(struct cni_sync *s, const struct wiring *w)
{
    struct mono now = clock_mono_now();
    struct mono again = now;
    enum contest_answer answer = contest_undone(&s->contest, w->differs, now, &again);
    if (answer == CONTEST_RESTORE) {
        log_limited(&s->undone, LOG_AGAIN_NS, LOG_WARN, MOD, "%s; dpu-host-agent restores it",
                    w->differs);
        return true;
    }
    if (answer == CONTEST_TELL) {
        tell(s, w->differs);
    }
    look_in(s, mono_since(again, now));
    return false;
}

static void settle(struct cni_sync *s)
{
    struct mono again;
    struct mono now = clock_mono_now();
    if (contest_stands(&s->contest, now, &again)) {
        cni_sync_forget(s->config.readiness_file);
        log_info(MOD, "nobody has undone dpu-gate's CNI configuration for 10 min");
    }
    if (!mono_is_never(again)) {
        look_in(s, mono_since(again, now));
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

static void report(struct cni_sync *s, const struct wiring *now)
{
    const struct cni_options *o = s->config.options;
    bool is_first = s->written_at.ns == 0;
    bool is_there = now->source[0] != '\0';
    if (!is_there && (s->last.source[0] != '\0' || is_first)) {
        log_warn(MOD, "'%s/%s' is gone: the node's network is not ready until it is back",
                 o->conf_dir, o->source);
    } else if (is_there && !text_equal(now->source, s->last.source)) {
        if (!text_equal(now->source, o->source)) {
            log_warn(MOD, CNI_SOURCE_MOVED, o->conf_dir, o->source, now->source);
        } else if (!is_first) {
            log_info(MOD, "'%s/%s' is there", o->conf_dir, o->source);
        }
    }
    if (!text_equal(now->bypass, s->last.bypass)) {
        wiring_warn_of_bypass(o, now);
    }
}

/* A configuration that calls a program which is not there would stop all Pods. One that was
 * installed once is kept, also if somebody removes only the program. */
static int check_program(const struct cni_sync *s, struct err *e)
{
    char name[WIRING_NAME_BYTES];
    char path[PATH_MAX];
    const struct cni_options *o = s->config.options;
    if (s->last.plan.len > 0) {
        return 0;
    }
    wiring_find_gate(o, name);
    wiring_join(o->bin_dir, "dpu-gate", path);
    return name[0] != '\0' || access(path, X_OK) == 0
               ? 0
               : err_set_errno(e, ERR_NOTFOUND, errno,
                               "running '%s', which 'dpu-host-agent install-cni' installs", path);
}

static int look(struct cni_sync *s, struct wiring *now, struct err *e)
{
    const struct cni_options *o = s->config.options;
    int rc = wiring_look(o, s->config.readiness_file, now, e);
    if (rc != 0 || (rc = check_program(s, e)) != 0) {
        return rc;
    }
    bool was_wanted = s->last.plan.len > 0 && conflist_says_same(&s->last.plan, &now->plan);
    bool writes = !now->stands && (!was_wanted || may_restore(s, now));
    if (writes || now->stands) {
        rc = wiring_write(o, now, e);
        s->failed_at = rc != 0 ? clock_mono_now() : (struct mono){0};
    }
    if (rc == 0 && writes && was_wanted) {
        contest_restored(&s->contest, now->differs, clock_mono_now());
    }
    if (rc == 0 && writes) {
        log_limited(&s->repaired, LOG_AGAIN_NS, LOG_INFO, MOD, "wrote '%s/%s' anew", o->conf_dir,
                    now->ours);
    }
    if (rc == 0 && (writes || now->stands)) {
        settle(s);
    }
    report(s, now);
    if (writes || s->written_at.ns == 0) {
        s->written_at = clock_mono_now();
    }
    return rc;
}

static void on_look(void *user)
{
    struct cni_sync *s = user;
    const struct cni_options *o = s->config.options;
    CLEANUP(wiring) struct wiring now = {.stands = false};
    struct err e = ERR_INIT;
    s->look_at = MONO_NEVER;
    /* Of two agents that write one conflist, each by its own options, the gate would follow both in
     * turn. A directory that is not there is locked later. */
    if (file_lock_take(&s->lock, NULL) == ERR_CONFLICT) {
        log_limited(&s->kept_by_another, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "another dpu-host-agent keeps dpu-gate's configuration in '%s' in sync, so "
                    "this one waits until that agent ends; set cni-sync for only one agent of a "
                    "node",
                    o->conf_dir);
        look_in(s, AGAIN_NS);
        return;
    }
    /* Before looking, so that nothing is missed. */
    bool is_watched =
        dir_watch_add(&s->watch, o->conf_dir,
                      DIR_WATCH_NAMES | IN_CREATE /* a link */ | IN_CLOSE_WRITE | IN_ONLYDIR);
    if (look(s, &now, &e) != 0) {
        log_limited(&s->complaint, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "%s; keeping dpu-gate's configuration as it is, will check again", e.msg);
        look_in(s, RETRY_NS);
        return;
    }
    log_repeat_reset(&s->complaint);
    wiring_fini(&s->last);
    s->last = now;
    now.plan = (struct buf){.data = NULL};
    if (!is_watched) {
        look_in(s, RETRY_NS);
    }
}

static void on_changed(void *user)
{
    struct cni_sync *s = user;
    struct mono now = clock_mono_now();
    if (s->failed_at.ns != 0 && mono_since(now, s->failed_at) < AGAIN_NS) {
        return; /* our own try, which left a file for a moment */
    }
    look_in(s, mono_since(now, s->written_at) < AGAIN_NS ? AGAIN_NS : SETTLE_NS);
}

struct cni_sync *cni_sync_start(const struct cni_sync_config *config)
{
    struct cni_sync *s = MEM_NEW(struct cni_sync);
    int rc = file_lock_init(&s->lock, config->options->conf_dir, "/.", NULL);
    assert(rc == 0); /* the options bound it */
    s->config = *config;
    s->look_at = MONO_NEVER;
    cni_sync_forget(s->config.readiness_file); /* a predecessor's: it shows anew, or it is over */
    s->timer = boot_timer_new(config->loop, on_look, s);
    dir_watch_start(&s->watch, config->loop, on_changed, s);
    look_in(s, 0);
    return s;
}

void cni_sync_stop(struct cni_sync *s)
{
    if (s) {
        dir_watch_stop(&s->watch);
        boot_timer_free(s->timer);
        file_lock_release(&s->lock);
        wiring_fini(&s->last);
        free(s);
    }
}
