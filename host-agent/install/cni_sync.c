/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_sync.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "host-agent/install/wiring.h"
#include "loop/daemon.h"

#include <assert.h>
#include <stdlib.h>

#define MOD "cni"

#define SETTLE_NS (100 * NS_PER_MS) /* an owner that writes in two steps is looked at once */
#define AGAIN_NS  NS_PER_SEC        /* between two writes of ours; while another agent keeps it */
#define RETRY_NS  (30 * NS_PER_SEC) /* after a failure, or while the directory is not there */

struct cni_sync {
    const struct cni_options *options;
    const char *readiness_file;
    struct dir_watch watch;
    struct file_lock lock; /* of the directory */
    struct boot_timer *timer;
    struct mono look_at;
    struct wiring last;
    struct mono written_at; /* 0: there was no look yet */
    struct log_repeat complaint;
    struct log_repeat repaired;
    struct log_repeat kept_by_another;
};

/* An earlier look that is due already stays: who writes all the time does not put it off. */
static void look_in(struct cni_sync *s, int64_t wait_ns)
{
    s->look_at = mono_min(s->look_at, mono_add(clock_mono_now(), wait_ns));
    boot_timer_arm(s->timer, s->look_at);
}

static void sync_report(struct cni_sync *s, const struct wiring *now)
{
    const struct cni_options *o = s->options;
    bool is_first = s->written_at.ns == 0;
    if (now->changed) {
        log_limited(&s->repaired, LOG_AGAIN_NS, LOG_INFO, MOD, "wrote '%s/%s' anew", o->conf_dir,
                    wiring_name(o));
    }
    if (!now->has_source && (s->last.has_source || is_first)) {
        log_warn(MOD, "'%s/%s' is gone: the node's network is not ready until it is back",
                 o->conf_dir, o->source);
    } else if (now->has_source && !s->last.has_source && !is_first) {
        log_info(MOD, "'%s/%s' is there", o->conf_dir, o->source);
    }
    if (!text_equal(now->bypass, s->last.bypass)) {
        wiring_warn_of_bypass(o, now->bypass);
    }
}

static void on_look(void *user)
{
    struct cni_sync *s = user;
    const struct cni_options *o = s->options;
    struct wiring now = {.changed = false};
    struct err e = ERR_INIT;
    s->look_at = MONO_NEVER;
    /* Of two agents that write one conflist, each by its own options, the gate would follow both in
     * turn. A directory that is not there is locked later. */
    if (file_lock_take(&s->lock, NULL) == ERR_CONFLICT) {
        log_limited(&s->kept_by_another, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "another dpu-host-agent keeps '%s/%s' in sync, so this one waits until that "
                    "agent ends; set cni-sync for only one agent of a node",
                    o->conf_dir, wiring_name(o));
        look_in(s, AGAIN_NS);
        return;
    }
    /* Before looking, so that nothing is missed. */
    bool is_watched =
        dir_watch_add(&s->watch, o->conf_dir,
                      DIR_WATCH_NAMES | IN_CREATE /* a link */ | IN_CLOSE_WRITE | IN_ONLYDIR);
    if (wiring_put(o, s->readiness_file, &now, &e) != 0) {
        log_limited(&s->complaint, LOG_AGAIN_NS, LOG_WARN, MOD,
                    "%s; keeping dpu-gate's configuration as it is, will check again", e.msg);
        look_in(s, RETRY_NS);
        return;
    }
    log_repeat_reset(&s->complaint);
    sync_report(s, &now);
    s->last = now;
    if (now.changed || s->written_at.ns == 0) {
        s->written_at = clock_mono_now();
    }
    if (!is_watched) {
        look_in(s, RETRY_NS);
    }
}

static void on_changed(void *user)
{
    struct cni_sync *s = user;
    bool is_recent = mono_since(clock_mono_now(), s->written_at) < AGAIN_NS;
    look_in(s, is_recent ? AGAIN_NS : SETTLE_NS);
}

struct cni_sync *cni_sync_start(struct ev_loop *loop, const struct cni_options *options,
                                const char *readiness_file)
{
    struct cni_sync *s = MEM_NEW(struct cni_sync);
    int rc = file_lock_init(&s->lock, options->conf_dir, "/.", NULL);
    assert(rc == 0); /* the options bound it */
    s->options = options;
    s->readiness_file = readiness_file;
    s->look_at = MONO_NEVER;
    s->timer = boot_timer_new(loop, on_look, s);
    dir_watch_start(&s->watch, loop, on_changed, s);
    look_in(s, 0);
    return s;
}

void cni_sync_stop(struct cni_sync *s)
{
    if (s) {
        dir_watch_stop(&s->watch);
        boot_timer_free(s->timer);
        file_lock_release(&s->lock);
        free(s);
    }
}
