/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <curl/curl.h>
#include <jansson.h>

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    STATUS_BYTES = 512,
    EXIT_BY_SIGNAL = 128,
    DIR_EVENTS_BYTES = 4096,
    DIR_EVENT_MAX_BYTES = sizeof(struct inotify_event) + NAME_MAX + 1,
};

struct daemon {
    struct ev_loop *loop; /* owned */
    ev_signal on_term;
    ev_signal on_int;
    ev_timer grace;
    ev_timer watchdog;
    ev_prepare before_sleep;
    int notify_fd;          /* to the service manager, if there is one */
    daemon_works_fn *works; /* NULL: the loop's turning is all there is */
    struct log_repeat hungry;
    daemon_stop_fn *on_stop;
    void *user;
    double grace_s;
    int exit_status;
    bool is_ready;
    bool is_stopping;
    bool has_quit; /* before or during daemon_run */
};

/* sd_watchdog_enabled(3) advises half; with four, one look at a bad moment ends nothing. */
enum { FEEDS_PER_PERIOD = 4 };

/* sd_notify(3)'s protocol: $NOTIFY_SOCKET is a path or, with a leading '@', an abstract name. */
static void notify_send(const struct daemon *d, const char *text)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = name ? strlen(name) : 0;
    if (len < 2 || (name[0] != '/' && name[0] != '@') || len >= sizeof(to.sun_path)) {
        return; /* nobody to tell, or nobody we know how to */
    }
    memcpy(to.sun_path, name[0] == '@' ? "" : name, 1);
    memcpy(to.sun_path + 1, name + 1, len - 1);
    ssize_t sent =
        sendto(d->notify_fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    (void)sent; /* nobody may stop because the manager does not listen */
}

int64_t daemon_watchdog_ns(const char *usec_text, const char *pid_text, pid_t pid)
{
    uint64_t usec = 0;
    uint64_t for_pid = 0;
    if (!usec_text || text_to_u64(usec_text, strlen(usec_text), &usec, NULL) != 0 ||
        usec > (uint64_t)(INT64_MAX / 1000) ||
        (pid_text && (text_to_u64(pid_text, strlen(pid_text), &for_pid, NULL) != 0 ||
                      for_pid != (uint64_t)pid))) {
        return 0;
    }
    return (int64_t)usec * 1000 / FEEDS_PER_PERIOD;
}

/* libev frees by asking for nothing. */
static void *reallocate(void *p, long bytes)
{
    if (bytes <= 0) {
        free(p);
        return NULL;
    }
    return mem_realloc(p, (size_t)bytes);
}

void daemon_use_memory(void)
{
    ev_set_allocator(reallocate);
    json_set_alloc_funcs(mem_alloc, free);
    CURLcode rc = curl_global_init_mem(CURL_GLOBAL_DEFAULT, mem_alloc, free, mem_realloc,
                                       mem_strdup, mem_calloc);
    if (rc != CURLE_OK) { /* the memory of a library below libcurl: nothing else makes it fail */
        mem_exhausted();
    }
}

static void on_grace_over(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct daemon *d = w->data;
    log_warn("daemon", "shutdown took longer than %.1f s, exiting now", d->grace_s);
    daemon_quit(d, EXIT_SUCCESS);
}

static void on_signal(struct ev_loop *loop, ev_signal *w, int revents)
{
    struct daemon *d = w->data;
    if (d->is_stopping) {
        daemon_quit(d, EXIT_BY_SIGNAL + w->signum);
        return;
    }
    d->is_stopping = true;
    log_info("daemon", "stopping on %s", w->signum == SIGINT ? "SIGINT" : "SIGTERM");
    notify_send(d, "STOPPING=1");
    ev_timer_set(&d->grace, d->grace_s, 0);
    ev_timer_start(loop, &d->grace);
    if (d->on_stop) {
        d->on_stop(d->user);
    } else {
        daemon_quit(d, EXIT_SUCCESS);
    }
}

static void on_watchdog(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct daemon *d = w->data;
    struct mono now = clock_mono_now();
    if (!d->works || d->works(d->user, now)) {
        notify_send(d, "WATCHDOG=1");
    } else {
        log_limited(&d->hungry, LOG_AGAIN_NS, LOG_ERROR, "daemon",
                    "a wake-up or an answer is overdue, so this process does not notify systemd's "
                    "watchdog, which will end it unless the work continues");
    }
}

static void on_before_sleep(struct ev_loop *loop, ev_prepare *w, int revents)
{
    log_tell_dropped(); /* a reader that came back must not wait for the next event */
}

/* The process that started us may have ignored or blocked what we need: the end of a child whose
 * SIGCHLD is ignored leaves no status. */
static void reset_signals(void)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t none;
    (void)sigemptyset(&none); /* these fail for wrong arguments only */
    (void)sigaction(SIGPIPE, &ignored, NULL);
    (void)sigaction(SIGCHLD, &usual, NULL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void start_watchers(struct daemon *d)
{
    ev_signal_init(&d->on_term, on_signal, SIGTERM);
    ev_signal_init(&d->on_int, on_signal, SIGINT);
    d->on_term.data = d;
    d->on_int.data = d;
    ev_signal_start(d->loop, &d->on_term);
    ev_signal_start(d->loop, &d->on_int);

    ev_prepare_init(&d->before_sleep, on_before_sleep);
    ev_prepare_start(d->loop, &d->before_sleep);

    ev_timer_init(&d->grace, on_grace_over, 0, 0);
    d->grace.data = d;

    int64_t period_ns =
        daemon_watchdog_ns(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"), getpid());
    double period_s = (double)period_ns / (double)NS_PER_SEC;
    ev_timer_init(&d->watchdog, on_watchdog, 0, period_s);
    ev_set_priority(&d->watchdog, EV_MINPRI); /* after a stop of all, the work has the first turn */
    d->watchdog.data = d;
    if (period_ns > 0) {
        ev_timer_start(d->loop, &d->watchdog);
    }
}

struct daemon *daemon_new(uint32_t grace_ms, daemon_stop_fn *on_stop, daemon_works_fn *works,
                          void *user)
{
    struct daemon *d = MEM_NEW(struct daemon);
    d->loop = ev_loop_new(EVFLAG_NOENV);
    if (!d->loop) {
        log_error("daemon", "cannot create an event loop (epoll, poll or select); exiting");
        exit(EXIT_FAILURE);
    }
    d->on_stop = on_stop;
    d->works = works;
    d->user = user;
    d->grace_s = (double)grace_ms / 1000;
    d->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    reset_signals();
    start_watchers(d);
    return d;
}

void daemon_free(struct daemon *d)
{
    if (!d) {
        return;
    }
    ev_signal_stop(d->loop, &d->on_term);
    ev_signal_stop(d->loop, &d->on_int);
    ev_prepare_stop(d->loop, &d->before_sleep);
    ev_timer_stop(d->loop, &d->grace);
    ev_timer_stop(d->loop, &d->watchdog);
    ev_loop_destroy(d->loop);
    (void)close(d->notify_fd); /* a datagram socket holds nothing back */
    free(d);
}

struct ev_loop *daemon_loop(struct daemon *d)
{
    return d->loop;
}

int daemon_run(struct daemon *d)
{
    while (!d->has_quit) {
        ev_run(d->loop, 0);
    }
    return d->exit_status;
}

void daemon_quit(struct daemon *d, int exit_status)
{
    if (!d->has_quit) {
        d->has_quit = true;
        d->exit_status = exit_status;
    }
    ev_break(d->loop, EVBREAK_ALL);
}

void daemon_notify_ready(struct daemon *d, const char *fmt, ...)
{
    char status[STATUS_BYTES];
    char clean[STATUS_BYTES];
    char text[STATUS_BYTES + 32];
    va_list args;
    va_start(args, fmt);
    text_vformat(status, sizeof(status), fmt, args);
    va_end(args);
    text_sanitize(clean, sizeof(clean), status, strlen(status));
    text_format(text, sizeof(text), "%sSTATUS=%s", d->is_ready ? "" : "READY=1\n", clean);
    d->is_ready = true;
    notify_send(d, text);
}

/* ---- timers on the clock that goes on in suspend ----------------------------------------------
 */

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
    struct mono armed;    /* when it goes off; MONO_NEVER: it does not */
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
    if (deadline.ns == all->armed.ns) {
        return;
    }
    all->armed = deadline;
    if (!mono_is_never(deadline)) {
        /* timerfd counts in the caller's time namespace, mono in the initial one. */
        int64_t ns = mono_ns_add(deadline.ns, clock_boottime_offset_ns());
        ns = mono_ns_max(ns, 1); /* long past: at once, not never */
        when.it_value = (struct timespec){.tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC};
    }
    int rc = timerfd_settime(all->readable.fd, TFD_TIMER_ABSTIME, &when, NULL);
    assert(rc == 0);
}

/* One at a time: whatever else is due has its turn between two. */
static void on_expired(struct ev_loop *loop, ev_io *w, int revents)
{
    struct boot_timers *all = w->data;
    struct boot_timer *due = earliest_of(all);
    uint64_t expirations;
    /* Nothing to read: it was armed anew after the loop had seen it ready. */
    if (read(w->fd, &expirations, sizeof(expirations)) != (ssize_t)sizeof(expirations)) {
        return;
    }
    all->armed = MONO_NEVER; /* it goes off once */
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
    all->armed = MONO_NEVER;
    ev_io_init(&all->readable, on_expired, fd, EV_READ);
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
    bool was_next = t->deadline.ns == t->all->armed.ns;
    t->deadline = deadline;
    if (was_next || mono_before(deadline, t->all->armed)) {
        arm_descriptor(t->all);
    }
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

/* ---- directories ----------------------------------------------------------------------------- */

/* Each of them is a write to `own`. */
static bool are_own(const char *events, size_t len, const char *own)
{
    struct inotify_event event;
    for (size_t at = 0; at < len; at += sizeof(event) + event.len) {
        memcpy(&event, events + at, sizeof(event));
        if (event.mask != IN_MODIFY || event.len == 0 || !own ||
            !text_equal(events + at + sizeof(event), own)) {
            return false;
        }
    }
    return true;
}

bool dir_watch_take(struct dir_watch *w, const char *own)
{
    char events[DIR_EVENTS_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t len;
    bool are_all_own = true;
    do {
        len = read(w->fd, events, sizeof(events));
        are_all_own = are_all_own && (len <= 0 || are_own(events, (size_t)len, own));
    } while (len > (ssize_t)(sizeof(events) - DIR_EVENT_MAX_BYTES)); /* else that was all */
    return are_all_own;
}

void dir_watch_suspect(struct dir_watch *w)
{
    ev_feed_event(w->loop, &w->io, EV_READ);
}

static void on_dir_event(struct ev_loop *loop, ev_io *io, int events)
{
    struct dir_watch *w = io->data;
    (void)dir_watch_take(w, NULL); /* one call for all that has come */
    w->changed(w->user);
}

void dir_watch_start(struct dir_watch *w, struct ev_loop *loop, dir_watch_fn *changed, void *user)
{
    *w = (struct dir_watch){.loop = loop, .fd = -1, .changed = changed, .user = user};
    ev_init(&w->io, on_dir_event);
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
