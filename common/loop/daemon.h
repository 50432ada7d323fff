/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon's loop with signals, timers, directories and the service manager. SIGTERM and SIGINT ask
 * to stop; a second one within the grace period exits at once. SIGPIPE is ignored, SIGCHLD is not,
 * and nothing is blocked, whatever was inherited. Loop thread only.
 */
#ifndef LOOP_DAEMON_H
#define LOOP_DAEMON_H

#include "base/time.h"

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/inotify.h>
#include <sys/types.h>

struct daemon;

/* Gives jansson, curl and libev the allocator of base/mem.h: what they make is never NULL. The
 * first call of a program, before it has used any of them. */
void daemon_use_memory(void);

/* Called once on the first SIGTERM or SIGINT. The loop ends with daemon_quit(), or after `grace_ms`
 * with status 0. NULL: at once, with status 0. */
typedef void daemon_stop_fn(void *user);

/* Whether the work is done that this daemon is for. Asked when the watchdog is due, after whatever
 * else is due then: while it says no, WATCHDOG=1 is not sent. NULL: always. */
typedef bool daemon_works_fn(void *user, struct mono now);

/* Call it before there is a second thread: it sets the signal mask. Without a usable event loop it
 * ends the process with a sentence. */
struct daemon *daemon_new(uint32_t grace_ms, daemon_stop_fn *on_stop, daemon_works_fn *works,
                          void *user);
void daemon_free(struct daemon *d); /* accepts NULL */

/* Borrowed. Not libev's default loop: ev_child does not work on it (children are waited for by
 * pidfd), and children inherit the ignored SIGPIPE unless they reset it. */
struct ev_loop *daemon_loop(struct daemon *d);
/* Returns the status of the first daemon_quit. */
int daemon_run(struct daemon *d);
void daemon_quit(struct daemon *d, int exit_status);

/* Sends READY=1 once, and STATUS=, to $NOTIFY_SOCKET (sd_notify(3)), if there is one. */
void daemon_notify_ready(struct daemon *d, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* A quarter of the watchdog period that systemd asks of process `pid`; 0: no watchdog. Arguments
 * are the values of $WATCHDOG_USEC and $WATCHDOG_PID. */
int64_t daemon_watchdog_ns(const char *usec_text, const char *pid_text, pid_t pid);

/*
 * A one-shot timer on CLOCK_BOOTTIME with an absolute deadline, because libev's own timers run on
 * CLOCK_MONOTONIC, which stands still in suspend. Fires at or after the deadline, never before.
 * MONO_NEVER disarms. `fire` may arm or free any timer. A loop's timers share one descriptor, which
 * the first one opens: where none is left, that ends the process with a sentence.
 */
struct boot_timer;
typedef void boot_timer_fn(void *user);

struct boot_timer *boot_timer_new(struct ev_loop *loop, boot_timer_fn *fire, void *user);
void boot_timer_arm(struct boot_timer *t, struct mono deadline);
void boot_timer_free(struct boot_timer *t); /* accepts NULL */

/* A name in it went or came by rename, or the directory itself went. */
#define DIR_WATCH_NAMES (IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF)

typedef void dir_watch_fn(void *user);

/* Tells that something changed in a directory (inotify), not what. A user has few inotify instances
 * (128): without one the caller looks from time to time, and dir_watch_add asks for one again. */
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

/* Takes what has come and is not told yet. True if that is nothing, or nothing but writes to the
 * file `own` in the directory (NULL: to none). */
bool dir_watch_take(struct dir_watch *w, const char *own);
/* Has the loop tell that something changed. */
void dir_watch_suspect(struct dir_watch *w);

#endif
