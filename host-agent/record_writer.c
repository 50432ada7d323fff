/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/record_writer.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/dir_watch.h"

#include <ev.h>

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define RETRY_SECONDS    1.0
#define AGAIN_NS         NS_PER_SEC /* between two that mend what others change */
#define RECORD_FILE_MODE 0644       /* the CNI binary and admins read it, only we write it */
#define RECORD_DIR_MODE  0755

struct record_writer {
    struct ev_loop *loop;
    char path[PATH_MAX];
    char dir[PATH_MAX];
    int64_t stale_hold_ns;
    struct record record; /* as last asked for */
    bool has_record;
    int fd; /* the page, or -1 */
    struct dir_watch watch;
    ev_timer retry;
    struct log_repeat complaint;
    struct log_repeat lost;
    struct mono made_at; /* anew, of what was lost */
    record_writer_guard_fn *may_write;
    void *user;
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
    text_format(path, sizeof(path), "%s", dir);
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

/* A file as we make it: nobody else may write it, and all may read it. */
static bool is_of_our_shape(int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
           found.st_size == RECORD_PAGE_BYTES && (found.st_mode & 07777) == RECORD_FILE_MODE &&
           found.st_nlink == 1;
}

static bool is_in_place(const struct record_writer *w)
{
    return file_is_at(w->fd, w->path) && is_of_our_shape(w->fd);
}

/* Its readers can take it, whoever wrote it last. */
static bool is_intact(const struct record_writer *w)
{
    char page[RECORD_PAGE_BYTES];
    struct record ignored;
    return is_in_place(w) && pread(w->fd, page, sizeof(page), 0) == (ssize_t)sizeof(page) &&
           record_decode(page, sizeof(page), &ignored, NULL) == 0;
}

/* A former agent's page is written on in place, so that readers never miss it. */
static bool adopt_page(struct record_writer *w)
{
    CLEANUP(fd) int fd = open(w->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || !is_of_our_shape(fd)) {
        return false;
    }
    if (w->fd >= 0) {
        (void)close(w->fd); /* nobody finds the former page any more */
    }
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
    int rc = make_directories(w->dir, e);
    if (rc != 0) {
        return rc;
    }
    rc = file_replace(w->path, page, RECORD_PAGE_BYTES, RECORD_FILE_MODE, e);
    if (rc != 0) {
        return rc;
    }
    return adopt_page(w) ? 0 : err_set(e, ERR_IO, "'%s' was replaced at once", w->path);
}

static void watch_directory(struct record_writer *w)
{
    if (!dir_watch_add(&w->watch, w->dir, DIR_WATCH_NAMES | IN_ATTRIB | IN_MODIFY)) {
        log_debug("record", "watching '%s': %s", w->dir, strerrordesc_np(errno));
    }
}

/* What was written is gone, or its readers would refuse it. */
static bool is_lost(struct record_writer *w, struct mono now)
{
    if (!w->stats.is_current || is_intact(w)) {
        return false;
    }
    log_limited(&w->lost, LOG_AGAIN_NS, LOG_WARN, "record",
                "'%s' was removed, replaced or changed by somebody, making it anew", w->path);
    w->made_at = now;
    return true;
}

static void write_now(struct record_writer *w)
{
    char page[RECORD_PAGE_BYTES];
    struct err e = ERR_INIT;
    struct mono now = clock_mono_now();
    if (w->may_write && !w->may_write(w->user)) {
        ev_timer_again(w->loop, &w->retry);
        return;
    }
    w->record.written = clock_wall_now();
    int rc = record_encode(&w->record, page, &e);
    if (rc == 0) {
        bool in_place = !is_lost(w, now) && (is_in_place(w) || (w->fd < 0 && adopt_page(w)));
        rc = in_place ? write_page(w->fd, page, w->path, &e) : create_page(w, page, &e);
    }
    w->stats.is_current = rc == 0;
    w->stats.writes += rc == 0;
    w->stats.failures += rc != 0;
    if (rc != 0) {
        log_limited(&w->complaint, LOG_AGAIN_NS, LOG_ERROR, "record",
                    "%s: CNI cannot see the readiness, will retry each second", e.msg);
        ev_timer_again(w->loop, &w->retry);
        return;
    }
    if (w->complaint.next.ns != 0) {
        log_info("record", "'%s' is written again", w->path);
        log_repeat_reset(&w->complaint);
    }
    ev_timer_stop(w->loop, &w->retry);
    watch_directory(w);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    write_now(timer->data);
}

static void on_dir_changed(void *user)
{
    struct record_writer *w = user;
    if (!w->has_record || ev_is_active(&w->retry) || is_intact(w)) {
        return;
    }
    bool is_there = file_is_at(w->fd, w->path); /* another shape or page */
    if (is_there && mono_since(clock_mono_now(), w->made_at) < AGAIN_NS) {
        ev_timer_again(w->loop, &w->retry); /* whoever changes it might go on for ever */
    } else {
        write_now(w);
    }
}

int record_writer_new(struct ev_loop *loop, const struct record_writer_config *config,
                      struct record_writer **out, struct err *e)
{
    CLEANUP(free) struct record_writer *w = calloc(1, sizeof(*w));
    const char *slash = strrchr(config->path, '/');
    if (!w) {
        return err_no_memory(e);
    }
    if (!slash || slash == config->path || !text_copy(w->path, sizeof(w->path) - 8, config->path)) {
        return err_set(e, ERR_LIMIT,
                       "readiness file '%s' is not an absolute path to a file in a "
                       "directory",
                       config->path);
    }
    memcpy(w->dir, config->path, (size_t)(slash - config->path));
    w->loop = loop;
    w->fd = -1;
    w->stale_hold_ns = config->stale_hold_ns;
    w->record.pid = (int32_t)getpid();
    text_format(w->record.node, sizeof(w->record.node), "%s", config->node);
    int rc = clock_boot_id(w->record.boot_id, e);
    if (rc != 0) {
        return rc;
    }
    dir_watch_start(&w->watch, loop, on_dir_changed, w);
    ev_timer_init(&w->retry, on_retry, 0., RETRY_SECONDS);
    w->retry.data = w;
    *out = TAKE(w);
    return 0;
}

void record_writer_guard(struct record_writer *w, record_writer_guard_fn *may_write, void *user)
{
    w->may_write = may_write;
    w->user = user;
}

void record_writer_free(struct record_writer *w)
{
    if (!w) {
        return;
    }
    dir_watch_stop(&w->watch);
    ev_timer_stop(w->loop, &w->retry);
    if (w->fd >= 0) {
        (void)close(w->fd); /* a tmpfs page needs no flush */
    }
    free(w);
}

struct record_writer_stats record_writer_stats(const struct record_writer *w)
{
    return w->stats;
}

void record_writer_write(struct record_writer *w, const struct readiness *verdict,
                         struct mono writer_until)
{
    w->record.verdict = *verdict;
    w->record.writer_until = writer_until;
    w->record.hold_until = mono_add(mono_max(verdict->lease_until, writer_until), w->stale_hold_ns);
    w->has_record = true;
    write_now(w);
}
