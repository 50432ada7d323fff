/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/daemon.h"

#include <ev.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct boot_timer {
    struct boot_timers *all;
    struct boot_timer *next;
    struct mono deadline; /* MONO_NEVER: disarmed */
    boot_timer_fn *fire;
    void *user;
};

/* All of one loop; lives while there is one. */
struct boot_timers {
    struct ev_loop *loop; /* borrowed; has this as its user data */
    ev_io readable;       /* the timerfd, owned */
    struct mono armed_for;
    struct boot_timer *first;
};

static struct boot_timer *earliest_of(const struct boot_timers *all)
{
    struct boot_timer *earliest = all->first;
    for (struct boot_timer *t = all->first; t; t = t->next) {
        earliest = t->deadline.ns < earliest->deadline.ns ? t : earliest;
    }
    return earliest;
}

static void arm_descriptor(struct boot_timers *all)
{
    const struct boot_timer *earliest = earliest_of(all);
    struct mono deadline = earliest ? earliest->deadline : MONO_NEVER;
    struct itimerspec when = {0}; /* zero disarms */
    if (deadline.ns == all->armed_for.ns) {
        return;
    }
    if (!mono_is_never(deadline)) {
        /* timerfd counts in the caller's time namespace, mono in the initial one. */
        int64_t ns = mono_ns_add(deadline.ns, clock_boottime_offset_ns());
        if (ns < 1) {
            ns = 1; /* long past: at once, not never */
        }
        when.it_value = (struct timespec){.tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC};
    }
    int rc = timerfd_settime(all->readable.fd, TFD_TIMER_ABSTIME, &when, NULL);
    assert(rc == 0);
    (void)rc;
    all->armed_for = deadline;
}

/* One at a time: whatever else is due has its turn between two. */
static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
    (void)loop;
    (void)revents;
    struct boot_timers *all = w->data;
    struct boot_timer *due = earliest_of(all);
    uint64_t expirations;
    /* Nothing to read: it was armed anew after the loop had seen it ready. */
    if (read(w->fd, &expirations, sizeof(expirations)) != (ssize_t)sizeof(expirations)) {
        return;
    }
    all->armed_for = MONO_NEVER; /* it has expired */
    bool is_due = due && mono_reached(clock_mono_now(), due->deadline);
    if (is_due) {
        due->deadline = MONO_NEVER;
    }
    arm_descriptor(all);
    if (is_due) {
        due->fire(due->user); /* may free it, and all */
    }
}

static struct boot_timers *timers_of(struct ev_loop *loop)
{
    struct boot_timers *all = ev_userdata(loop);
    if (all) {
        return all;
    }
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0) {
        log_error("daemon", "creating a boot-time timer: %s; exiting", strerror(errno));
        exit(EXIT_FAILURE);
    }
    all = MEM_NEW(struct boot_timers);
    all->loop = loop;
    all->armed_for = MONO_NEVER;
    ev_io_init(&all->readable, on_readable, fd, EV_READ);
    all->readable.data = all;
    ev_io_start(loop, &all->readable);
    ev_set_userdata(loop, all);
    return all;
}

struct boot_timer *boot_timer_new(struct ev_loop *loop, boot_timer_fn *fire, void *user)
{
    struct boot_timers *all = timers_of(loop);
    struct boot_timer *t = MEM_NEW(struct boot_timer);
    *t = (struct boot_timer){
        .all = all, .next = all->first, .deadline = MONO_NEVER, .fire = fire, .user = user};
    all->first = t;
    return t;
}

void boot_timer_arm(struct boot_timer *t, struct mono deadline)
{
    t->deadline = deadline;
    arm_descriptor(t->all);
}

void boot_timer_free(struct boot_timer *t)
{
    if (!t) {
        return;
    }
    struct boot_timers *all = t->all;
    struct boot_timer **at = &all->first;
    while (*at != t) {
        at = &(*at)->next;
    }
    *at = t->next;
    free(t);
    if (all->first) {
        arm_descriptor(all);
        return;
    }
    ev_set_userdata(all->loop, NULL);
    ev_io_stop(all->loop, &all->readable);
    (void)close(all->readable.fd); /* a timer holds nothing back */
    free(all);
}
