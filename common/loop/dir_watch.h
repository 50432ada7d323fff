/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells that something changed in a directory (inotify), not what: whoever is told looks at what it
 * cares for. A user has few inotify instances (128): who gets none looks from time to time, and
 * asks for one again with each dir_watch_add. Loop thread only.
 */
#ifndef LOOP_DIR_WATCH_H
#define LOOP_DIR_WATCH_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/inotify.h>

/* A name in it went or came by rename, or the directory itself went. */
#define DIR_WATCH_NAMES (IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF)

typedef void dir_watch_fn(void *user);

struct dir_watch {
    struct ev_loop *loop;
    ev_io io;
    int fd; /* owned; -1: none yet */
    dir_watch_fn *changed;
    void *user;
};

/* Watches nothing yet. */
void dir_watch_start(struct dir_watch *w, struct ev_loop *loop, dir_watch_fn *changed, void *user);
void dir_watch_stop(struct dir_watch *w); /* accepts a zeroed one */

/* `mask` as inotify(7) has it; the same directory again only renews that. False if the directory
 * cannot be watched, or is not there; errno says why. One that was made anew has to be added again.
 */
bool dir_watch_add(struct dir_watch *w, const char *dir, uint32_t mask);

#endif
