/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/record.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/daemon.h"

#include <ev.h>

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define RETRY_SECONDS    1.0
#define AGAIN_NS         NS_PER_SEC /* between two that mend what others change */
#define RECORD_FILE_MODE 0644       /* the CNI binary and admins read it, only we write it */
#define RECORD_DIR_MODE  0755
#define MARK_SUFFIX      ".crashed"

/* ---- its directory --------------------------------------------------------------------------- */

/* That a file goes into, parents too. Whatever the umask: readers of other users have to get in. */
static int make_directories(const char *file, struct err *e)
{
    char path[PATH_MAX];
    for (const char *slash = strchr(file + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        text_format(path, sizeof(path), "%.*s", (int)(slash - file), file);
        bool is_made = mkdir(path, RECORD_DIR_MODE) == 0;
        if (is_made ? chmod(path, RECORD_DIR_MODE) != 0 : errno != EEXIST) {
            return err_set_errno(e, ERR_IO, errno, "creating directory '%s'", path);
        }
    }
    return 0;
}

static int check_path(const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    if (path[0] == '/' && slash != path && strlen(path) + strlen(MARK_SUFFIX) < PATH_MAX) {
        return 0;
    }
    return err_set(e, ERR_LIMIT,
                   "readiness file '%s' is not an absolute path to a file in a directory", path);
}

/* ---- whose turn it is ------------------------------------------------------------------------ */

struct record_turn {
    struct record_turn_config config;
    struct file_lock lock;
    char boot_id[CLOCK_BOOT_ID_BYTES];
    bool is_waiting;
    bool is_lost;
    struct boot_timer *timer; /* while waiting */
    bool has_others;
    struct record others; /* what the writer wrote last in this boot */
    int64_t overdue_ns;   /* the writer, as far as we looked on */
    struct log_repeat unlocked;
};

/* False if another process has the lock. */
static bool turn_take(struct record_turn *t)
{
    struct err e = ERR_INIT;
    if (file_lock_is_ours(&t->lock)) {
        return true;
    }
    int rc = make_directories(t->config.path, &e);
    if (rc == 0) {
        rc = file_lock_take(&t->lock, &e);
    }
    if (rc == 0) {
        log_repeat_reset(&t->unlocked);
    } else if (rc != ERR_CONFLICT) {
        log_limited(&t->unlocked, LOG_SELDOM_NS, LOG_WARN, "record",
                    "%s: writing the record without a lock; a second dpu-host-agent on this node "
                    "would write it too",
                    e.msg);
    }
    return rc != ERR_CONFLICT;
}

/* Asked by the writer. */
static bool turn_lasts(struct record_turn *t)
{
    if (turn_take(t)) {
        return true;
    }
    if (!t->is_lost) {
        t->is_lost = true;
        log_error("record",
                  "somebody removed '%s', and another dpu-host-agent now holds it: this one stops "
                  "writing the record",
                  t->lock.path);
        t->config.on_lost(t->config.user);
    }
    return false;
}

/* Nothing is learned while it is not written yet: what there was ends by its own time. */
static int follow_writer(struct record_turn *t, struct err *e)
{
    const struct record_turn_config *c = &t->config;
    struct record found;
    const struct readiness_lease *lease = &found.readiness.lease;
    if (record_file_read(c->path, &found, NULL) != 0 || !text_equal(found.boot_id, t->boot_id)) {
        return 0;
    }
    if (!text_equal(lease->ns, c->lease_ns) || !text_equal(lease->name, c->lease_name)) {
        return err_set(e, ERR_CONFLICT,
                       "'%.64s' belongs to the dpu-host-agent of lease '%.40s/%.64s': each DPU of "
                       "a node needs its own --readiness-file",
                       c->path, lease->ns, lease->name);
    }
    t->others = found;
    t->has_others = true;
    return 0;
}

/* The writer has its lock and does not write. Our own looks count its time: none is taken while the
 * whole machine stands still, which is not its fault. */
static bool is_writer_frozen(struct record_turn *t, struct mono now)
{
    int64_t half_ns = mono_since(t->others.hold_until, t->others.writer_until) / 2;
    int64_t most_ns = t->has_others ? mono_ns_min(half_ns, RECORD_FROZEN_NS) : RECORD_FROZEN_NS;
    bool is_alive = t->has_others && mono_before(now, t->others.writer_until);
    t->overdue_ns = is_alive ? 0 : t->overdue_ns + RECORD_TURN_POLL_NS;
    return t->overdue_ns > most_ns;
}

static void turn_await(void *user)
{
    struct record_turn *t = user;
    struct mono now = clock_mono_now();
    struct err e = ERR_INIT;
    if (turn_take(t)) {
        t->is_waiting = false;
        log_info("record", "the other dpu-host-agent has ended, taking over");
        t->config.on_turn(t->config.user);
        return;
    }
    if (follow_writer(t, &e) != 0) {
        log_error("record", "%s", e.msg);
        t->config.on_lost(t->config.user);
        return;
    }
    if (is_writer_frozen(t, now)) {
        /* A lock on a removed file keeps nobody out: if the other one ever wakes it sees that, and
         * yields. */
        log_warn("record",
                 "the other dpu-host-agent (pid %d) holds '%s' and has stopped writing, so it may "
                 "be frozen: taking over",
                 (int)t->others.pid, t->lock.path);
        (void)unlink(t->lock.path); /* if that fails there is nothing else to try */
        t->overdue_ns = 0;
    }
    boot_timer_arm(t->timer, mono_add(now, RECORD_TURN_POLL_NS));
}

static int await_turn(struct record_turn *t, struct err *e)
{
    t->is_waiting = true;
    int rc = follow_writer(t, e);
    if (rc != 0) {
        return rc;
    }
    boot_timer_arm(t->timer, clock_mono_now());
    log_info("record", "another dpu-host-agent holds '%s': waiting until it ends", t->lock.path);
    return 0;
}

int record_turn_start(const struct record_turn_config *config, struct record_turn **out,
                      struct err *e)
{
    struct record_turn *t = MEM_NEW(struct record_turn);
    t->config = *config;
    t->timer = boot_timer_new(config->loop, turn_await, t);
    int rc = file_lock_init(&t->lock, config->path, ".lock", e);
    if (rc == 0) {
        rc = check_path(config->path, e);
    }
    if (rc == 0) {
        rc = clock_boot_id(t->boot_id, e);
    }
    if (rc == 0 && !turn_take(t)) {
        rc = await_turn(t, e);
    }
    if (rc != 0) {
        record_turn_stop(t);
        return rc;
    }
    *out = t;
    return 0;
}

void record_turn_stop(struct record_turn *t)
{
    if (t) {
        boot_timer_free(t->timer);
        file_lock_release(&t->lock);
        free(t);
    }
}

bool record_turn_is_waiting(const struct record_turn *t)
{
    return t->is_waiting;
}

/* ---- what a former agent left ---------------------------------------------------------------- */

static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

/* Read by the signal handler only; "" while none is armed. */
static char armed_mark[PATH_MAX];

/* Only what signal-safety(7) allows. The signal itself comes again, with its default. */
static void leave_mark_and_die(int signal_number)
{
    int fd = open(armed_mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    (void)raise(signal_number);
}

static void arm_mark(const char *mark)
{
    text_format(armed_mark, sizeof(armed_mark), "%s", mark);
    for (size_t i = 0; i < ARRAY_LEN(crashes); i++) {
        struct sigaction action = {.sa_handler = leave_mark_and_die, .sa_flags = (int)SA_RESETHAND};
        (void)sigaction(crashes[i], &action, NULL); /* these signals exist */
    }
}

void record_carry_settled(void)
{
    if (armed_mark[0] == '\0') {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(crashes); i++) {
        (void)signal(crashes[i], SIG_DFL); /* same */
    }
    armed_mark[0] = '\0';
}

int record_carry_read(const char *path, const char *node, const struct verdict_config *config,
                      struct record *out, struct err *e)
{
    struct record record;
    char boot_id[CLOCK_BOOT_ID_BYTES];
    char mark[PATH_MAX];
    text_format(mark, sizeof(mark), "%s" MARK_SUFFIX, path); /* it fits: check_path() */
    if (unlink(mark) == 0) {
        return err_set(e, ERR_GONE, "the agent that last read '%s' crashed, so this one ignores it",
                       path);
    }
    int rc = record_file_read(path, &record, e);
    if (rc == 0) {
        rc = clock_boot_id(boot_id, e);
    }
    if (rc != 0) {
        (void)err_wrap(e, "reading '%s'", path);
        return rc;
    }
    if (!text_equal(record.boot_id, boot_id)) {
        return err_set(e, ERR_GONE, "'%s' was written before this boot", path);
    }
    if (!text_equal(record.node, node)) {
        return err_set(e, ERR_GONE, "'%s' is about node '%s'", path, record.node);
    }
    if (!text_equal(record.readiness.lease.ns, config->lease_ns) ||
        !text_equal(record.readiness.lease.name, config->lease_name)) {
        return err_set(e, ERR_GONE, "'%s' is about lease '%s/%s'", path, record.readiness.lease.ns,
                       record.readiness.lease.name);
    }
    *out = record;
    arm_mark(mark);
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct record_writer {
    struct ev_loop *loop;
    struct record_writer_config config;
    char dir[PATH_MAX];
    int fd;              /* the page, or -1 */
    struct stat adopted; /* that page, as it was opened */
    struct dir_watch watch;
    bool is_undisturbed; /* the watch works, and after the last write the page was as written */
    ev_timer retry;
    struct log_repeat complaint;
    struct log_repeat lost;
    struct mono made_at; /* anew, of what was lost */
    struct record_writer_stats stats;
};

/* A file as we make it: nobody else may write it, and all may read it. */
static bool is_of_our_shape(const struct stat *found)
{
    return S_ISREG(found->st_mode) && found->st_uid == geteuid() &&
           found->st_size == RECORD_PAGE_BYTES && (found->st_mode & 07777) == RECORD_FILE_MODE &&
           found->st_nlink == 1;
}

/* Whether the page that we write is the file that `path` names, and of our shape: one look at the
 * path tells both, since a file that we hold keeps its number. */
static bool is_in_place(const struct record_writer *w)
{
    struct stat found;
    return w->fd >= 0 && lstat(w->config.path, &found) == 0 && found.st_dev == w->adopted.st_dev &&
           found.st_ino == w->adopted.st_ino && is_of_our_shape(&found);
}

/* What readers find; false if that is not our page. */
static bool read_page(const struct record_writer *w, char out_page[static RECORD_PAGE_BYTES])
{
    return is_in_place(w) && pread(w->fd, out_page, RECORD_PAGE_BYTES, 0) == RECORD_PAGE_BYTES;
}

/* Its readers can take it, whoever wrote it last. */
static bool is_intact(const struct record_writer *w)
{
    char page[RECORD_PAGE_BYTES];
    struct record ignored;
    return read_page(w, page) && record_decode(page, sizeof(page), &ignored, NULL) == 0;
}

/* A former agent's page is written on in place, so that readers never miss it. */
static bool adopt_page(struct record_writer *w)
{
    CLEANUP(fd) int fd = open(w->config.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat found;
    if (fd < 0 || fstat(fd, &found) != 0 || !is_of_our_shape(&found)) {
        return false;
    }
    w->adopted = found;
    cleanup_fd(&w->fd); /* nobody finds the former page any more */
    w->fd = fd;
    fd = -1; /* moved */
    return true;
}

static int write_page(int fd, const char *page, const char *path, struct err *e)
{
    ssize_t written = pwrite(fd, page, RECORD_PAGE_BYTES, 0);
    if (written != RECORD_PAGE_BYTES) {
        return err_set_errno(e, ERR_IO, written < 0 ? errno : ENOSPC, "writing '%s'", path);
    }
    return 0;
}

static int create_page(struct record_writer *w, const char *page, struct err *e)
{
    int rc = make_directories(w->config.path, e);
    if (rc != 0) {
        return rc;
    }
    rc = file_replace(w->config.path, page, RECORD_PAGE_BYTES, RECORD_FILE_MODE, e);
    if (rc != 0) {
        return rc;
    }
    return adopt_page(w) ? 0 : err_set(e, ERR_IO, "somebody replaced '%s' at once", w->config.path);
}

/* From the first write on: before it there is nothing to be lost. */
static bool watch_directory(struct record_writer *w)
{
    bool is_watched = dir_watch_add(&w->watch, w->dir, DIR_WATCH_NAMES | IN_ATTRIB | IN_MODIFY);
    if (!is_watched) {
        log_debug("record", "watching '%s': %s", w->dir, strerrordesc_np(errno));
    }
    return is_watched;
}

/*
 * What the page is spared while nobody but us touches its directory, or the lock in it: the watch
 * would have told. A beat then costs one look before the write and one after it.
 */
static bool is_quiet(struct record_writer *w)
{
    w->is_undisturbed = w->is_undisturbed && dir_watch_take(&w->watch, NULL);
    return w->is_undisturbed && (!w->config.turn || file_lock_is_held(&w->config.turn->lock));
}

/* Our write needs no wake-up of its own: its event is taken here. One of somebody else's write
 * between ours and this look may be the same event, so the page is read once, after that: a later
 * change has an event of its own. */
static void look_back(struct record_writer *w, const char *page)
{
    char found[RECORD_PAGE_BYTES];
    const char *name = strrchr(w->config.path, '/') + 1;
    w->is_undisturbed = dir_watch_take(&w->watch, name) && read_page(w, found) &&
                        memcmp(found, page, sizeof(found)) == 0;
    if (!w->is_undisturbed) {
        dir_watch_suspect(&w->watch);
    }
}

/* The record is gone, or its readers would refuse it. */
static bool is_lost(struct record_writer *w, struct mono now)
{
    if (!w->stats.is_current || is_intact(w)) {
        return false;
    }
    log_limited(&w->lost, LOG_AGAIN_NS, LOG_WARN, "record",
                "somebody removed, replaced or changed '%s': writing a new one", w->config.path);
    w->made_at = now;
    return true;
}

static void write_now(struct record_writer *w)
{
    char page[RECORD_PAGE_BYTES];
    struct err e = ERR_INIT;
    struct mono now = clock_mono_now();
    bool quiet = is_quiet(w);
    if (!quiet && w->config.turn && !turn_lasts(w->config.turn)) {
        return;
    }
    struct record *r = w->config.record;
    r->written = clock_wall_now();
    int rc = r->boot_id[0] == '\0' ? clock_boot_id(r->boot_id, &e) : 0;
    if (rc == 0) {
        rc = record_encode(r, page, &e);
    }
    if (rc == 0) {
        bool in_place =
            quiet || (!is_lost(w, now) && (is_in_place(w) || (w->fd < 0 && adopt_page(w))));
        rc = in_place ? write_page(w->fd, page, w->config.path, &e) : create_page(w, page, &e);
    }
    w->stats.is_current = rc == 0;
    w->stats.writes += rc == 0;
    w->stats.failures += rc != 0;
    if (rc != 0) {
        w->is_undisturbed = false;
        log_limited(&w->complaint, LOG_AGAIN_NS, LOG_ERROR, "record",
                    "%s: CNI uses the old verdict; will retry every second", e.msg);
        ev_timer_again(w->loop, &w->retry);
        return;
    }
    if (w->complaint.next.ns != 0) {
        log_info("record", "writing '%s' works again", w->config.path);
        log_repeat_reset(&w->complaint);
    }
    ev_timer_stop(w->loop, &w->retry);
    if (quiet || watch_directory(w)) {
        look_back(w, page);
    }
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    write_now(timer->data);
}

static void on_dir_changed(void *user)
{
    struct record_writer *w = user;
    w->is_undisturbed = false; /* what has come is taken, and the next write looks again */
    if ((w->config.turn && !turn_lasts(w->config.turn)) || ev_is_active(&w->retry) ||
        is_intact(w)) {
        return;
    }
    bool is_there = file_is_at(w->fd, w->config.path); /* another shape or page */
    if (is_there && mono_since(clock_mono_now(), w->made_at) < AGAIN_NS) {
        ev_timer_again(w->loop, &w->retry); /* whoever changes it might go on for ever */
    } else {
        write_now(w);
    }
}

struct record_writer *record_writer_new(struct ev_loop *loop,
                                        const struct record_writer_config *config)
{
    struct record_writer *w = MEM_NEW(struct record_writer);
    w->loop = loop;
    w->config = *config;
    w->fd = -1;
    text_format(w->dir, sizeof(w->dir), "%.*s", (int)(strrchr(config->path, '/') - config->path),
                config->path);
    config->record->pid = (int32_t)getpid();
    text_format(config->record->node, sizeof(config->record->node), "%s", config->node);
    dir_watch_start(&w->watch, loop, on_dir_changed, w);
    ev_timer_init(&w->retry, on_retry, 0., RETRY_SECONDS);
    w->retry.data = w;
    return w;
}

void record_writer_free(struct record_writer *w)
{
    if (!w) {
        return;
    }
    dir_watch_stop(&w->watch);
    ev_timer_stop(w->loop, &w->retry);
    cleanup_fd(&w->fd); /* a tmpfs page needs no flush */
    free(w);
}

const struct record_writer_stats *record_writer_stats(const struct record_writer *w)
{
    return &w->stats;
}

void record_writer_write(struct record_writer *w, struct mono writer_until, struct mono hold_most)
{
    struct record *r = w->config.record;
    struct mono hold_from = mono_max(r->readiness.lease_until, writer_until);
    r->hold_until = mono_min(mono_add(hold_from, w->config.stale_hold_ns), hold_most);
    r->writer_until = mono_min(writer_until, r->hold_until);
    write_now(w);
}
