/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/dir_watch.h"

#include <errno.h>
#include <unistd.h>

static void on_event(struct ev_loop *loop, ev_io *io, int events)
{
    struct dir_watch *w = io->data;
    char ignored[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    (void)loop;
    (void)events;
    while (read(w->fd, ignored, sizeof(ignored)) > 0) {
        /* one call for all that has come */
    }
    w->changed(w->user);
}

void dir_watch_start(struct dir_watch *w, struct ev_loop *loop, dir_watch_fn *changed, void *user)
{
    *w = (struct dir_watch){.loop = loop, .fd = -1, .changed = changed, .user = user};
    ev_init(&w->io, on_event);
    w->io.data = w;
}

void dir_watch_stop(struct dir_watch *w)
{
    if (w->loop && w->fd >= 0) {
        ev_io_stop(w->loop, &w->io);
        (void)close(w->fd); /* nothing is pending */
    }
    w->loop = NULL;
}

bool dir_watch_add(struct dir_watch *w, const char *dir, uint32_t mask)
{
    if (w->fd < 0) {
        w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (w->fd < 0) {
            return false;
        }
        ev_io_set(&w->io, w->fd, EV_READ);
        ev_io_start(w->loop, &w->io);
    }
    return inotify_add_watch(w->fd, dir, mask) >= 0;
}
