/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_sync.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "host-agent/install/cni_wiring.h"
#include "loop/dir_watch.h"

#include <ev.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOD "cni"

#define SETTLE_SECONDS 0.1 /* an owner that writes in two steps is looked at once */
#define AGAIN_SECONDS  1.  /* between two writes of ours, and while another agent keeps it */
#define RETRY_SECONDS  30. /* after a failure, or while the directory is not there */

struct cni_sync {
    struct ev_loop *loop;
    const struct cni_options *options;
    const char *readiness_file;
    struct dir_watch watch;
    int lock_fd; /* of the directory; -1: not locked */
    ev_timer look;
    struct cni_wiring last;
    struct mono written_at;
    struct log_repeat complaint;
    struct log_repeat repaired;
    struct log_repeat kept_by_another;
};

/* An earlier look that is due already stays: who writes all the time does not put it off. */
static void look_in(struct cni_sync *s, double seconds)
{
    ev_now_update(s->loop); /* the loop's time may be old after a long callback */
    if (ev_is_active(&s->look) && ev_timer_remaining(s->loop, &s->look) <= seconds) {
        return;
    }
    ev_timer_stop(s->loop, &s->look);
    ev_timer_set(&s->look, seconds, 0.);
    ev_timer_start(s->loop, &s->look);
}

static bool watch_directory(struct cni_sync *s)
{
    return dir_watch_add(&s->watch, s->options->conf_dir,
                         DIR_WATCH_NAMES | IN_CREATE /* a link */ | IN_CLOSE_WRITE | IN_ONLYDIR);
}

static void unlock_directory(struct cni_sync *s)
{
    cleanup_fd(&s->lock_fd);
    s->lock_fd = -1;
}

/* Of two agents that write one conflist, each by its own options, the gate would follow both in
 * turn. False while another one has the directory's lock; one that is not there is locked later. */
static bool lock_directory(struct cni_sync *s)
{
    struct stat locked;
    struct stat now;
    const char *path = s->options->conf_dir;
    if (s->lock_fd >= 0 && fstat(s->lock_fd, &locked) == 0 && stat(path, &now) == 0 &&
        locked.st_dev == now.st_dev && locked.st_ino == now.st_ino) {
        return true;
    }
    unlock_directory(s);
    s->lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock_fd < 0 || flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0) {
        return true;
    }
    bool is_taken = errno == EWOULDBLOCK;
    unlock_directory(s);
    return !is_taken;
}

static void wait_for_lock(struct cni_sync *s)
{
    if (log_repeat_due(&s->kept_by_another, clock_mono_now(), LOG_AGAIN_NS)) {
        log_warn(MOD,
                 "another dpu-host-agent keeps '%s/%s' in step, so this one waits until that ends; "
                 "set cni-sync for the agent of one DPU only%s",
                 s->options->conf_dir, s->options->conflist, s->kept_by_another.more);
    }
    look_in(s, AGAIN_SECONDS);
}

static void report(struct cni_sync *s, const struct cni_wiring *now)
{
    const struct cni_options *o = s->options;
    if (now->changed && log_repeat_due(&s->repaired, clock_mono_now(), LOG_AGAIN_NS)) {
        log_info(MOD, "'%s/%s' was written anew%s", o->conf_dir, o->conflist,
                 s->repaired.held_back > 0 ? ", and more than once: does somebody change it?" : "");
    }
    if (!now->has_source && (s->last.has_source || s->written_at.ns == 0)) {
        log_warn(MOD, "'%s/%s' is gone: the node's network counts as not ready until it is back",
                 o->conf_dir, o->source);
    } else if (now->has_source && !s->last.has_source && s->written_at.ns != 0) {
        log_info(MOD, "'%s/%s' is there", o->conf_dir, o->source);
    }
    if (!text_equal(now->bypass, s->last.bypass)) {
        cni_wiring_warn(o, now);
    }
}

static void on_look(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct cni_sync *s = timer->data;
    struct cni_wiring now;
    struct err e = ERR_INIT;
    (void)loop;
    (void)events;
    if (!lock_directory(s)) {
        wait_for_lock(s);
        return;
    }
    bool is_watched = watch_directory(s); /* before looking, so that nothing is missed */
    int rc = cni_wiring_put_conflist(s->options, s->readiness_file, &now, &e);
    if (rc != 0) {
        if (log_repeat_due(&s->complaint, clock_mono_now(), LOG_AGAIN_NS)) {
            log_warn(MOD, "%s; what dpu-gate has stays as it is, will look again%s", e.msg,
                     s->complaint.more);
        }
        look_in(s, RETRY_SECONDS);
        return;
    }
    log_repeat_reset(&s->complaint);
    report(s, &now);
    s->last = now;
    if (now.changed || s->written_at.ns == 0) {
        s->written_at = clock_mono_now();
    }
    if (!is_watched) {
        look_in(s, RETRY_SECONDS);
    }
}

static void on_changed(void *user)
{
    struct cni_sync *s = user;
    bool is_recent = mono_since(clock_mono_now(), s->written_at) < NS_PER_SEC;
    look_in(s, is_recent ? AGAIN_SECONDS : SETTLE_SECONDS);
}

int cni_sync_start(struct ev_loop *loop, const struct cni_options *options,
                   const char *readiness_file, struct cni_sync **out, struct err *e)
{
    CLEANUP(free) struct cni_sync *s = calloc(1, sizeof(*s));
    if (!s) {
        return err_no_memory(e);
    }
    s->lock_fd = -1;
    s->loop = loop;
    s->options = options;
    s->readiness_file = readiness_file;
    dir_watch_start(&s->watch, loop, on_changed, s);
    ev_timer_init(&s->look, on_look, 0., 0.);
    s->look.data = s;
    look_in(s, 0.);
    *out = TAKE(s);
    return 0;
}

void cni_sync_stop(struct cni_sync *s)
{
    if (s) {
        dir_watch_stop(&s->watch);
        ev_timer_stop(s->loop, &s->look);
        unlock_directory(s);
        free(s);
    }
}
