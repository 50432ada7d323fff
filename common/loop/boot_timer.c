/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "loop/daemon.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct boot_timer {
    struct ev_loop *loop; /* borrowed */
    ev_io readable;
    boot_timer_fn *fire;
    void *user;
};

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
    (void)loop;
    (void)revents;
    struct boot_timer *t = w->data;
    uint64_t expirations;
    /* Nothing to read: it was armed anew after the loop had seen it ready. */
    if (read(w->fd, &expirations, sizeof(expirations)) == (ssize_t)sizeof(expirations)) {
        t->fire(t->user); /* may free t */
    }
}

int boot_timer_new(struct ev_loop *loop, boot_timer_fn *fire, void *user, struct boot_timer **out,
                   struct err *e)
{
    struct boot_timer *t = calloc(1, sizeof(*t));
    if (!t) {
        return err_no_memory(e);
    }
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0) {
        int saved = errno;
        free(t);
        return err_set_errno(e, ERR_IO, saved, "creating a boot-time timer");
    }
    t->loop = loop;
    t->fire = fire;
    t->user = user;
    ev_io_init(&t->readable, on_readable, fd, EV_READ);
    t->readable.data = t;
    ev_io_start(loop, &t->readable);
    *out = t;
    return 0;
}

void boot_timer_arm(struct boot_timer *t, struct mono deadline)
{
    struct itimerspec when = {0}; /* zero disarms */
    if (!mono_is_never(deadline)) {
        /* timerfd counts in the caller's time namespace, mono in the initial one. */
        int64_t ns = mono_ns_add(deadline.ns, clock_boottime_offset_ns());
        if (ns < 1) {
            ns = 1; /* long past: at once, not never */
        }
        when.it_value = (struct timespec){.tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC};
    }
    int rc = timerfd_settime(t->readable.fd, TFD_TIMER_ABSTIME, &when, NULL);
    assert(rc == 0);
    (void)rc;
}

void boot_timer_free(struct boot_timer *t)
{
    if (t) {
        ev_io_stop(t->loop, &t->readable);
        (void)close(t->readable.fd); /* a timer holds nothing back */
        free(t);
    }
}
