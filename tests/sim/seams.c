/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "host-agent/verdict.h"
#include "loop/daemon.h"
#include "tests/sim/agents.h"
#include "tests/sim/faults.h"
#include "tests/sim/world.h"

#include <ev.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* base/clock.h on virtual time: the clocks of the machine whose process runs. */

int64_t clock_boottime_offset_ns(void)
{
    return 0;
}

struct mono clock_mono_now(void)
{
    const struct world *w = world_get();
    return (struct mono){machine_boot_ns(w, w->current->machine)};
}

struct wall clock_wall_now(void)
{
    const struct world *w = world_get();
    return (struct wall){machine_wall_ns(w, w->current->machine)};
}

int clock_boot_id(char out_id[static CLOCK_BOOT_ID_BYTES], struct err *e)
{
    memcpy(out_id, world_get()->current->machine->boot_id, CLOCK_BOOT_ID_BYTES);
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/*
 * The calls by which an agent makes, reads and rewrites its record: the linker brings them here
 * (--wrap), and they are passed on to the real ones, or fail as FAULT_FILES says. Whoever is no
 * agent meets no fault.
 */

enum { TORN_MOST_BYTES = 300 }; /* what differs between two pages is after them, too */

int __real_open(const char *path, int flags, ...);
int __real_mkostemp(char *path, int flags);
int __real_rename(const char *from, const char *to);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __real_pwrite(int fd, const void *bytes, size_t len, off_t at);

int __wrap_open(const char *path, int flags, ...);
int __wrap_mkostemp(char *path, int flags);
int __wrap_rename(const char *from, const char *to);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);

static int made_fd = -1; /* by the last mkostemp: other writes are the log's; as the world's */

/* What is wrong, for whoever runs. */
static enum seam_file_fault fault(void)
{
    const struct world *w = world_get();
    return w && w->current && w->current->loop ? seam_file_fault() : SEAM_FILE_NONE;
}

enum seam_file_fault seam_file_fault(void)
{
    return faults_on(FAULT_FILES)
               ? (enum seam_file_fault)(SEAM_FILE_FULL + faults_param(FAULT_FILES) % 4)
               : SEAM_FILE_NONE;
}

/* The steps by which something new is made: a full file system ends it at any of them. */
enum step { STEP_NONE, STEP_MAKE, STEP_WRITE, STEP_RENAME };

/* 0, or why a call fails. */
static int find_error(bool is_write, enum step step)
{
    switch (fault()) {
    case SEAM_FILE_NONE:
        break;
    case SEAM_FILE_SHORT:
        return step == STEP_RENAME ? ENOSPC : 0;
    case SEAM_FILE_FULL:
        return faults_param(FAULT_FILES) / 4 % 3 + STEP_MAKE == (int)step ? ENOSPC : 0;
    case SEAM_FILE_READ_ONLY:
        return is_write ? EROFS : 0;
    case SEAM_FILE_BROKEN:
        return EIO;
    }
    return 0;
}

static int error_of(bool is_write, enum step step)
{
    int error = find_error(is_write, step);
    if (error != 0) {
        faults_struck(FAULT_FILES);
    }
    return error;
}

int __wrap_open(const char *path, int flags, ...)
{
    bool is_write = (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
    mode_t mode = 0;
    va_list ap;
    va_start(ap, flags);
    if ((flags & O_CREAT) != 0) {
        mode = va_arg(ap, mode_t);
    }
    va_end(ap);
    errno = error_of(is_write, STEP_NONE);
    return errno != 0 ? -1 : __real_open(path, flags, mode);
}

int __wrap_mkostemp(char *path, int flags)
{
    errno = error_of(true, STEP_MAKE);
    made_fd = errno != 0 ? -1 : __real_mkostemp(path, flags);
    return made_fd;
}

int __wrap_rename(const char *from, const char *to)
{
    errno = error_of(true, STEP_RENAME);
    return errno != 0 ? -1 : __real_rename(from, to);
}

/* To a new file, perhaps in pieces. */
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    if (fd != made_fd) {
        return __real_write(fd, bytes, len);
    }
    if (fault() == SEAM_FILE_SHORT && len > 1) {
        len /= 2;
    }
    errno = error_of(true, STEP_WRITE);
    return errno != 0 ? -1 : __real_write(fd, bytes, len);
}

/* In place: a full file system does not mind. What comes short tears the page. */
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    if (fault() == SEAM_FILE_SHORT) {
        faults_struck(FAULT_FILES);
        len = (size_t)world_between(world_get(), 1, TORN_MOST_BYTES);
    }
    errno = error_of(true, STEP_NONE);
    return errno != 0 ? -1 : __real_pwrite(fd, bytes, len, at);
}

/* Between two looks at a torn page: no time passes here. */
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    return 0;
}

/* ---- loop ------------------------------------------------------------------------------------ */

/*
 * libev, the boot-time timer and the daemon on virtual time. As with the real ones, libev's timers
 * stand still in suspend, unlike the boot-time timer; what is due at once comes in any order.
 */

enum {
    WATCHERS_MAX = 64, /* of a kind */
    SPIN_MAX = 20000,  /* callbacks at one moment: it feeds itself */
};

struct boot_timer {
    struct ev_loop *loop;
    boot_timer_fn *fire;
    void *user;
    int64_t due; /* by the machine's boot clock; NEVER: disarmed */
};

struct ev_loop {
    struct proc *proc;
    ev_timer *timers[WATCHERS_MAX];
    int64_t timers_due[WATCHERS_MAX]; /* by the machine's monotonic clock */
    size_t timer_count;
    ev_io *ios[WATCHERS_MAX];
    bool ios_ready[WATCHERS_MAX];
    size_t io_count;
    struct boot_timer *boots[WATCHERS_MAX];
    size_t boot_count;
};

struct ev_loop *loop_new(struct proc *proc)
{
    struct ev_loop *loop = calloc(1, sizeof(*loop));
    assert(loop);
    loop->proc = proc;
    proc->starts++;
    return loop;
}

void loop_free(struct ev_loop *loop)
{
    /* Whoever ends takes his watchers along. */
    assert(!loop || (loop->timer_count == 0 && loop->io_count == 0 && loop->boot_count == 0));
    free(loop);
}

/* ---- libev ----------------------------------------------------------------------------------- */

/* `active` is the watcher's place + 1. */
static void start_timer(struct ev_loop *loop, ev_timer *w, ev_tstamp after)
{
    assert(loop->timer_count < WATCHERS_MAX);
    int64_t wait_ns = after > 0. ? (int64_t)(after * 1e9 + 0.5) : 0;
    loop->timers_due[loop->timer_count] =
        machine_monotonic_ns(world_get(), loop->proc->machine) + wait_ns;
    loop->timers[loop->timer_count++] = w;
    w->active = (int)loop->timer_count;
}

void ev_timer_start(struct ev_loop *loop, ev_timer *w)
{
    if (!w->active) {
        start_timer(loop, w, w->at);
    }
}

void ev_timer_stop(struct ev_loop *loop, ev_timer *w)
{
    if (w->active) {
        size_t i = (size_t)w->active - 1;
        loop->timers[i] = loop->timers[--loop->timer_count];
        loop->timers_due[i] = loop->timers_due[loop->timer_count];
        loop->timers[i]->active = (int)i + 1;
        w->active = 0;
    }
}

void ev_timer_again(struct ev_loop *loop, ev_timer *w)
{
    ev_timer_stop(loop, w);
    if (w->repeat > 0.) {
        start_timer(loop, w, w->repeat);
    }
}

void ev_io_start(struct ev_loop *loop, ev_io *w)
{
    if (!w->active) {
        assert(loop->io_count < WATCHERS_MAX);
        loop->ios_ready[loop->io_count] = false;
        loop->ios[loop->io_count++] = w;
        w->active = (int)loop->io_count;
    }
}

void ev_io_stop(struct ev_loop *loop, ev_io *w)
{
    if (w->active) {
        size_t i = (size_t)w->active - 1;
        loop->ios[i] = loop->ios[--loop->io_count];
        loop->ios_ready[i] = loop->ios_ready[loop->io_count];
        loop->ios[i]->active = (int)i + 1;
        w->active = 0;
    }
}

void ev_now_update(struct ev_loop *loop)
{
}

void loop_feed(struct ev_loop *loop, int fd)
{
    for (size_t i = 0; i < loop->io_count; i++) {
        if (fd < 0 || loop->ios[i]->fd == fd) {
            loop->ios_ready[i] = true;
        }
    }
}

/* ---- loop/daemon.h --------------------------------------------------------------------------- */

struct ev_loop *daemon_loop(struct daemon *d)
{
    return agent_of_daemon(d)->loop;
}

void daemon_notify_ready(struct daemon *d, const char *fmt, ...)
{
    char status[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(status, sizeof(status), fmt, args);
    va_end(args);
    world_tell(world_get(), "%s: %s", agent_of_daemon(d)->name, status);
}

struct boot_timer *boot_timer_new(struct ev_loop *loop, boot_timer_fn *fire, void *user)
{
    struct boot_timer *t = calloc(1, sizeof(*t));
    assert(t && loop->boot_count < WATCHERS_MAX);
    *t = (struct boot_timer){.loop = loop, .fire = fire, .user = user, .due = NEVER};
    loop->boots[loop->boot_count++] = t;
    return t;
}

void boot_timer_arm(struct boot_timer *t, struct mono deadline)
{
    t->due = deadline.ns;
}

void boot_timer_free(struct boot_timer *t)
{
    if (!t) {
        return;
    }
    struct ev_loop *loop = t->loop;
    for (size_t i = 0; i < loop->boot_count; i++) {
        if (loop->boots[i] == t) {
            loop->boots[i] = loop->boots[--loop->boot_count];
            break;
        }
    }
    free(t);
}

/* A change of the record's directory is told by loop_feed(). */
static void on_dir_changed(struct ev_loop *loop, ev_io *io, int events)
{
    struct dir_watch *w = io->data;
    w->changed(w->user);
}

void dir_watch_start(struct dir_watch *w, struct ev_loop *loop, dir_watch_fn *changed, void *user)
{
    *w = (struct dir_watch){.loop = loop, .fd = -1, .changed = changed, .user = user};
    ev_init(&w->io, on_dir_changed);
    w->io.data = w;
}

void dir_watch_stop(struct dir_watch *w)
{
    if (w->loop) {
        ev_io_stop(w->loop, &w->io);
    }
    w->loop = NULL;
}

bool dir_watch_add(struct dir_watch *w, const char *dir, uint32_t mask)
{
    if (w->fd < 0) {
        w->fd = INT_MAX; /* no descriptor of anybody's */
        ev_io_set(&w->io, w->fd, EV_READ);
        ev_io_start(w->loop, &w->io);
    }
    return true;
}

bool dir_watch_take(struct dir_watch *w, const char *own)
{
    bool is_quiet = true;
    for (size_t i = 0; i < w->loop->io_count; i++) {
        if (w->loop->ios[i] == &w->io) {
            is_quiet = !w->loop->ios_ready[i];
            w->loop->ios_ready[i] = false;
        }
    }
    return is_quiet;
}

void dir_watch_suspect(struct dir_watch *w)
{
    loop_feed(w->loop, w->fd);
}

/* ---- running --------------------------------------------------------------------------------- */

int64_t loop_due(const struct ev_loop *loop)
{
    const struct world *w = world_get();
    const struct machine *m = loop->proc->machine;
    int64_t boot_offset = m->booted_at;
    int64_t monotonic_offset = w->now - machine_monotonic_ns(w, m);
    int64_t due = NEVER;
    for (size_t i = 0; i < loop->timer_count; i++) {
        int64_t at = loop->timers_due[i] + monotonic_offset;
        due = at < due ? at : due;
    }
    for (size_t i = 0; i < loop->boot_count; i++) {
        if (loop->boots[i]->due != NEVER) {
            int64_t at = loop->boots[i]->due + boot_offset;
            due = at < due ? at : due;
        }
    }
    for (size_t i = 0; i < loop->io_count; i++) {
        due = loop->ios_ready[i] ? w->now : due;
    }
    return due;
}

enum due_kind { DUE_TIMER, DUE_BOOT, DUE_IO };

struct due {
    enum due_kind kind;
    size_t index;
};

static size_t find_due(const struct ev_loop *loop, struct due out[static 3 * WATCHERS_MAX])
{
    const struct world *w = world_get();
    int64_t monotonic = machine_monotonic_ns(w, loop->proc->machine);
    int64_t boot = machine_boot_ns(w, loop->proc->machine);
    size_t count = 0;
    for (size_t i = 0; i < loop->timer_count; i++) {
        if (loop->timers_due[i] <= monotonic) {
            out[count++] = (struct due){DUE_TIMER, i};
        }
    }
    for (size_t i = 0; i < loop->boot_count; i++) {
        if (loop->boots[i]->due <= boot) {
            out[count++] = (struct due){DUE_BOOT, i};
        }
    }
    for (size_t i = 0; i < loop->io_count; i++) {
        if (loop->ios_ready[i]) {
            out[count++] = (struct due){DUE_IO, i};
        }
    }
    return count;
}

static void call(struct ev_loop *loop, struct due due)
{
    if (due.kind == DUE_TIMER) {
        ev_timer *timer = loop->timers[due.index];
        ev_timer_stop(loop, timer);
        if (timer->repeat > 0.) {
            start_timer(loop, timer, timer->repeat);
        }
        timer->cb(loop, timer, EV_TIMER);
    } else if (due.kind == DUE_BOOT) {
        struct boot_timer *timer = loop->boots[due.index];
        timer->due = NEVER;
        timer->fire(timer->user);
    } else {
        ev_io *io = loop->ios[due.index];
        loop->ios_ready[due.index] = false;
        io->cb(loop, io, EV_READ);
    }
}

void loop_run(struct ev_loop *loop)
{
    struct world *w = world_get();
    struct proc *proc = loop->proc;
    struct due due[3 * WATCHERS_MAX];
    size_t count;
    int turns = 0;
    while ((count = find_due(loop, due)) > 0) {
        if (++turns > SPIN_MAX) {
            world_fail(w, "%s spins: %d callbacks at one moment", proc->name, turns);
            return;
        }
        call(loop, due[count == 1 ? 0 : (size_t)world_between(w, 0, (int64_t)count - 1)]);
        if (proc->kill_after >= 0 && proc->kill_after-- == 0) {
            proc->kill(proc);
            return;
        }
    }
}

/* ---- verdict --------------------------------------------------------------------------------- */

/* The way into the verdict: the linker brings its callers here (--wrap), to count. */

void __real_verdict_step(struct verdict *x, const struct verdict_event *event,
                         struct verdict_update *out);
void __wrap_verdict_step(struct verdict *x, const struct verdict_event *event,
                         struct verdict_update *out);

static const struct {
    const char *name;
    bool has_source;
} kinds[] = {
    [VERDICT_LEASE_OBSERVED] = {"lease observed", true},
    [VERDICT_LEASE_ABSENT] = {"lease absent", true},
    [VERDICT_LEASE_UNREADABLE] = {"lease unreadable", true},
    [VERDICT_READ_FAILED] = {"read failed", true},
    [VERDICT_WATCH_BROKEN] = {"watch broken", false},
    [VERDICT_WATCH_WORKS] = {"watch works", false},
    [VERDICT_MARK] = {"mark", false},
    [VERDICT_PODS] = {"pods", false},
    [VERDICT_HOST_PROBES] = {"host probes", false},
    [VERDICT_TICK] = {"tick", false},
};

static const char *const sources[] = {
    [VERDICT_BY_WATCH] = ", by watch",
    [VERDICT_BY_READ] = ", by read",
    [VERDICT_BY_CONFIRM] = ", by confirming read",
    [VERDICT_BY_MARK] = ", by mark",
    [VERDICT_BY_KEEPER] = ", by the keeper",
};

void __wrap_verdict_step(struct verdict *x, const struct verdict_event *event,
                         struct verdict_update *out)
{
    if (world_get()->current == agents_host()) {
        bool is_mark = event->kind == VERDICT_MARK;
        tally_note("verdict: %s%s%s", kinds[event->kind].name,
                   kinds[event->kind].has_source ? sources[event->source]
                   : is_mark                     ? " "
                                                 : "",
                   is_mark ? mark_outcome_name(event->outcome) : "");
    }
    __real_verdict_step(x, event, out);
}
