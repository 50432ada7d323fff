/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/record_writer.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

#include <ev.h>

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define RETRY_SECONDS    1.0
#define LOG_AGAIN_NS     (60 * NS_PER_SEC)
#define RECORD_FILE_MODE 0644 /* the CNI binary and admins read it, only we write it */
#define RECORD_DIR_MODE  0755

struct record_writer {
    struct ev_loop *loop;
    char path[PATH_MAX];
    char dir[PATH_MAX];
    int64_t stale_hold_ns;
    struct record record; /* as last asked for */
    bool has_record;
    int fd; /* the page, or -1 */
    int inotify_fd;
    ev_io dir_changed;
    ev_timer retry;
    struct log_repeat complaint;
    struct log_repeat lost;
    struct record_writer_stats stats;
};

/* Whatever the umask is: readers of other users have to get in. */
static int make_directory(const char *path, struct err *e)
{
    if (mkdir(path, RECORD_DIR_MODE) == 0) {
        return chmod(path, RECORD_DIR_MODE) == 0
                   ? 0
                   : err_set_errno(e, ERR_IO, errno, "setting the mode of directory '%s'", path);
    }
    return errno == EEXIST ? 0 : err_set_errno(e, ERR_IO, errno, "creating directory '%s'", path);
}

static int make_directories(const char *dir, struct err *e)
{
    char path[PATH_MAX];
    (void)text_copy(path, sizeof(path), dir); /* same bound */
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash) {
            *slash = '\0';
        }
        int rc = make_directory(path, e);
        if (rc != 0 || !slash) {
            return rc;
        }
        *slash = '/';
    }
}

int record_writer_make_directory(const char *path, struct err *e)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path || !text_copy(dir, sizeof(dir), path)) {
        return err_set(e, ERR_LIMIT, "'%s' is not an absolute path to a file in a directory", path);
    }
    dir[slash - path] = '\0';
    return make_directories(dir, e);
}

/* The file at the path is the one we hold open. */
static bool still_ours(const struct record_writer *s)
{
    struct stat held;
    struct stat at_path;
    return s->fd >= 0 && fstat(s->fd, &held) == 0 && lstat(s->path, &at_path) == 0 &&
           held.st_dev == at_path.st_dev && held.st_ino == at_path.st_ino;
}

/* A former agent's page is written on in place, so that readers never miss it. */
static bool adopt_page(struct record_writer *s)
{
    struct stat found;
    CLEANUP(fd) int fd = open(s->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid() ||
        found.st_size != RECORD_PAGE_BYTES || (found.st_mode & 07777) != RECORD_FILE_MODE ||
        found.st_nlink != 1) {
        return false;
    }
    s->fd = fd;
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

/* Makes the page under another name and moves it into place. */
static int create_page(struct record_writer *s, const char *page, struct err *e)
{
    char temporary[PATH_MAX + 8];
    int rc = make_directories(s->dir, e);
    if (rc != 0) {
        return rc;
    }
    (void)snprintf(temporary, sizeof(temporary), "%s.XXXXXX", s->path); /* sized for it */
    CLEANUP(fd) int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "creating '%s'", temporary);
    }
    rc = write_page(fd, page, temporary, e);
    if (rc == 0 && fchmod(fd, RECORD_FILE_MODE) != 0) {
        rc = err_set_errno(e, ERR_IO, errno, "setting the mode of '%s'", temporary);
    }
    if (rc == 0 && rename(temporary, s->path) != 0) {
        rc = err_set_errno(e, ERR_IO, errno, "moving '%s' to '%s'", temporary, s->path);
    }
    if (rc != 0) {
        (void)unlink(temporary); /* what is left of the attempt */
        return rc;
    }
    if (s->fd >= 0) {
        (void)close(s->fd); /* nobody finds the old page any more */
    }
    s->fd = fd;
    fd = -1; /* moved */
    return 0;
}

static void watch_directory(struct record_writer *s)
{
    /* Adding the same directory twice only renews the mask. */
    if (inotify_add_watch(s->inotify_fd, s->dir,
                          IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF) <
        0) {
        log_debug("record", "watching '%s': %s", s->dir, strerrordesc_np(errno));
    }
}

static void write_now(struct record_writer *s)
{
    char page[RECORD_PAGE_BYTES];
    struct err e = ERR_INIT;
    struct mono now = clock_mono_now();
    s->record.written = clock_wall_now();
    int rc = record_encode(&s->record, page, &e);
    if (rc == 0) {
        bool in_place = still_ours(s) || (s->fd < 0 && adopt_page(s));
        rc = in_place ? write_page(s->fd, page, s->path, &e) : create_page(s, page, &e);
    }
    s->stats.is_current = rc == 0;
    s->stats.writes += rc == 0;
    s->stats.failures += rc != 0;
    if (rc != 0) {
        if (log_repeat_due(&s->complaint, now, LOG_AGAIN_NS)) {
            log_error("record", "%s: CNI cannot see the readiness, will retry each second%s", e.msg,
                      s->complaint.more);
        }
        ev_timer_again(s->loop, &s->retry);
        return;
    }
    if (s->complaint.next.ns != 0) {
        log_info("record", "'%s' is written again", s->path);
        log_repeat_reset(&s->complaint);
    }
    ev_timer_stop(s->loop, &s->retry);
    watch_directory(s);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    write_now(timer->data);
}

static void on_dir_changed(struct ev_loop *loop, ev_io *io, int events)
{
    struct record_writer *s = io->data;
    char ignored[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    (void)loop;
    (void)events;
    while (read(s->inotify_fd, ignored, sizeof(ignored)) > 0) {
        /* which file it was does not matter: we look at ours */
    }
    if (s->has_record && !still_ours(s)) {
        if (log_repeat_due(&s->lost, clock_mono_now(), LOG_AGAIN_NS)) {
            log_warn("record", "'%s' was removed or replaced, making it anew%s", s->path,
                     s->lost.more);
        }
        write_now(s);
    }
}

int record_writer_new(struct ev_loop *loop, const struct record_writer_config *config,
                      struct record_writer **out, struct err *e)
{
    CLEANUP(free) struct record_writer *s = calloc(1, sizeof(*s));
    const char *slash = strrchr(config->path, '/');
    if (!s) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    if (!slash || slash == config->path || !text_copy(s->path, sizeof(s->path) - 8, config->path)) {
        return err_set(e, ERR_LIMIT,
                       "readiness file '%s' is not an absolute path to a file in a "
                       "directory",
                       config->path);
    }
    memcpy(s->dir, config->path, (size_t)(slash - config->path));
    s->loop = loop;
    s->fd = -1;
    s->stale_hold_ns = config->stale_hold_ns;
    s->record.pid = (int32_t)getpid();
    (void)text_copy(s->record.node, sizeof(s->record.node), config->node); /* same bound */
    int rc = clock_boot_id(s->record.boot_id, e);
    if (rc != 0) {
        return rc;
    }
    s->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (s->inotify_fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "starting inotify");
    }
    ev_timer_init(&s->retry, on_retry, 0., RETRY_SECONDS);
    s->retry.data = s;
    ev_io_init(&s->dir_changed, on_dir_changed, s->inotify_fd, EV_READ);
    s->dir_changed.data = s;
    ev_io_start(loop, &s->dir_changed);
    *out = TAKE(s);
    return 0;
}

void record_writer_free(struct record_writer *s)
{
    if (!s) {
        return;
    }
    ev_io_stop(s->loop, &s->dir_changed);
    ev_timer_stop(s->loop, &s->retry);
    (void)close(s->inotify_fd); /* nothing is pending on either */
    if (s->fd >= 0) {
        (void)close(s->fd); /* a tmpfs page needs no flush */
    }
    free(s);
}

struct record_writer_stats record_writer_stats(const struct record_writer *s)
{
    return s->stats;
}

void record_writer_write(struct record_writer *s, const struct readiness *verdict,
                         struct mono writer_until)
{
    s->record.verdict = *verdict;
    s->record.writer_until = writer_until;
    s->record.hold_until = mono_add(mono_max(verdict->valid_until, writer_until), s->stale_hold_ns);
    s->has_record = true;
    write_now(s);
}
