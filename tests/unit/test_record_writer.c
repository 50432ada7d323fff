/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/record.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <ev.h>

#include <fcntl.h>
#include <limits.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define STALE_HOLD_NS (300 * NS_PER_SEC)
#define VALID_UNTIL   ((struct mono){5040 * NS_PER_SEC})
#define WRITER_UNTIL  ((struct mono){5015 * NS_PER_SEC})

struct world {
    struct ev_loop *loop;
    struct record_writer *writer;
    struct record *record; /* what it writes */
    char top[SCRATCH_BYTES];
    char dir[80];
    char path[96];
    char other[96]; /* beside the record */
    int log_fd;
    int open_files; /* when all began */
};

#define READ_ONLY (SIZE_MAX - 1)

/* In place of the C library's: a file system with so much room left, or READ_ONLY. */
static size_t page_room = SIZE_MAX;

/* What somebody else does right after a write of ours; NULL: nothing. */
static const char *done_after_write;
static const char *page_path;
static int pages_read;

ssize_t pread(int fd, void *bytes, size_t len, off_t offset)
{
    pages_read += len == RECORD_PAGE_BYTES;
    return syscall(SYS_pread64, fd, bytes, len, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    if (page_room == READ_ONLY) {
        errno = EROFS;
        return -1;
    }
    assert_int_equal(lseek(fd, offset, SEEK_SET), offset);
    ssize_t written = len <= page_room ? write(fd, bytes, len) : (ssize_t)page_room;
    const char *command = TAKE(done_after_write);
    assert_true(!command || scratch_run("f=%s; %s", page_path, command));
    return written;
}

static bool has_inotify = true;

int inotify_init1(int flags)
{
    if (!has_inotify) {
        errno = EMFILE; /* all instances of this user are taken */
        return -1;
    }
    return (int)syscall(SYS_inotify_init1, flags);
}

static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static void begin(struct world *w)
{
    const struct record_writer_config config = {
        .path = w->path, .node = "w1", .stale_hold_ns = STALE_HOLD_NS, .record = w->record};
    w->writer = record_writer_new(w->loop, &config);
}

static void up(struct world *w)
{
    scratch_make(w->top);
    (void)snprintf(w->dir, sizeof(w->dir), "%s/run", w->top);
    (void)snprintf(w->path, sizeof(w->path), "%s/readiness.json", w->dir);
    (void)snprintf(w->other, sizeof(w->other), "%s/other", w->dir);
    w->open_files = open_files();
    w->log_fd = memfd_create("log", MFD_CLOEXEC);
    log_set_fd(w->log_fd);
    w->loop = ev_loop_new(0);
    assert_non_null(w->loop);
    w->record = calloc(1, sizeof(*w->record));
    assert_non_null(w->record);
    begin(w);
}

static void down(struct world *w)
{
    record_writer_free(w->writer);
    free(w->record);
    assert_false(ev_run(w->loop, EVRUN_NOWAIT)); /* nothing waits any more */
    ev_loop_destroy(w->loop);
    (void)unlink(w->path); /* not every test has them */
    (void)unlink(w->other);
    (void)rmdir(w->dir);
    assert_int_equal(rmdir(w->top), 0); /* nothing else was left */
    log_set_fd(STDERR_FILENO);
    assert_int_equal(close(w->log_fd), 0);
    assert_int_equal(open_files(), w->open_files);
    page_room = SIZE_MAX;
}

WORLD(up, down)

static void write_verdict(const struct world *w, struct mono lease_until, struct mono writer_until)
{
    w->record->readiness = (struct readiness){.state = READINESS_READY,
                                              .admit = true,
                                              .reason = REASON_LEASE_RENEWED,
                                              .observed = {5000 * NS_PER_SEC},
                                              .lease_until = lease_until};
    record_writer_write(w->writer, writer_until, MONO_NEVER);
}

/* The one that most cases write. */
static void write_again(const struct world *w)
{
    write_verdict(w, VALID_UNTIL, WRITER_UNTIL);
}

static struct record_writer_stats stats(const struct world *w)
{
    return *record_writer_stats(w->writer);
}

/* How often the log says so. */
static int logged(const struct world *w, const char *words)
{
    char text[8192];
    int count = 0;
    ssize_t got = pread(w->log_fd, text, sizeof(text) - 1, 0);
    assert_true(got >= 0);
    text[got] = '\0';
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        count++;
    }
    return count;
}

static ino_t inode(const char *path)
{
    struct stat found;
    assert_int_equal(lstat(path, &found), 0);
    return found.st_ino;
}

static unsigned mode(const char *path)
{
    struct stat found;
    assert_int_equal(lstat(path, &found), 0);
    return found.st_mode & 07777;
}

static void read_record(const struct world *w, struct record *out)
{
    char page[RECORD_PAGE_BYTES + 1];
    CLEANUP(fd) int fd = open(w->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, page, sizeof(page)), RECORD_PAGE_BYTES);
    assert_int_equal(record_decode(page, RECORD_PAGE_BYTES, out, NULL), 0);
}

static void assert_in_shape(const struct world *w)
{
    struct stat found;
    struct record r;
    read_record(w, &r);
    assert_int_equal(lstat(w->path, &found), 0);
    assert_int_equal(found.st_uid, geteuid());
    assert_int_equal(found.st_mode & 07777, 0644);
}

/* A file of that many letters. */
static void make_file(const char *path, size_t bytes, mode_t file_mode)
{
    char letters[2 * RECORD_PAGE_BYTES];
    memset(letters, 'x', sizeof(letters));
    CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, letters, bytes), (ssize_t)bytes);
    assert_int_equal(fchmod(fd, file_mode), 0);
}

static bool is_untouched(const char *path)
{
    char first = '\0';
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &first, 1) == 1 && first == 'x';
}

static void run_for(const struct world *w, double seconds)
{
    ev_tstamp end = ev_time() + seconds;
    while (ev_time() < end && !stats(w).is_current) {
        ev_run(w->loop, EVRUN_NOWAIT);
        ev_sleep(0.005);
    }
}

/* ---- what stands in it ----------------------------------------------------------------------- */

TEST_IN(it_says_who_wrote_it_and_when)
{
    struct record r;
    char boot_id[CLOCK_BOOT_ID_BYTES];
    struct wall before = clock_wall_now();
    write_again(w);
    read_record(w, &r);
    assert_int_equal(clock_boot_id(boot_id, NULL), 0);
    assert_string_equal(r.boot_id, boot_id);
    assert_string_equal(r.node, "w1");
    assert_int_equal(r.pid, getpid());
    assert_true(r.written.ns >= before.ns - NS_PER_SEC && r.written.ns <= clock_wall_now().ns);
    assert_int_equal(r.readiness.lease_until.ns, VALID_UNTIL.ns);
    assert_int_equal(r.writer_until.ns, WRITER_UNTIL.ns);
    assert_int_equal(stats(w).failures, 0);
}

TEST_IN(the_hold_begins_when_both_promises_are_over)
{
    struct record r;
    write_again(w);
    read_record(w, &r);
    assert_int_equal(r.hold_until.ns, mono_add(VALID_UNTIL, STALE_HOLD_NS).ns);
    write_verdict(w, WRITER_UNTIL, VALID_UNTIL); /* Ready for less than the writer's promise */
    read_record(w, &r);
    assert_int_equal(r.hold_until.ns, mono_add(VALID_UNTIL, STALE_HOLD_NS).ns);
    struct mono predecessors = mono_add(WRITER_UNTIL, -NS_PER_SEC);
    record_writer_write(w->writer, WRITER_UNTIL, predecessors);
    read_record(w, &r);
    assert_int_equal(r.hold_until.ns, predecessors.ns);
    assert_int_equal(r.writer_until.ns, predecessors.ns);
}

TEST_IN(directory_and_file_have_their_modes_whatever_the_umask)
{
    mode_t before = umask(0077);
    write_again(w);
    (void)umask(before);
    assert_int_equal(mode(w->dir), 0755);
    assert_int_equal(mode(w->path), 0644);
}

/* ---- whose page is it? ----------------------------------------------------------------------- */

TEST_IN(a_former_agents_page_is_written_on_in_place)
{
    assert_int_equal(mkdir(w->dir, 0755), 0);
    make_file(w->path, RECORD_PAGE_BYTES, 0644);
    CLEANUP(fd) int fd = open(w->path, O_RDONLY | O_CLOEXEC); /* keeps the inode in use */
    ino_t was = inode(w->path);
    write_again(w);
    write_again(w);
    assert_int_equal(inode(w->path), was);
    assert_int_equal(stats(w).failures, 0);
    assert_in_shape(w);
}

/* What else happens in its directory is none of our business. */
TEST_IN(a_page_in_place_is_not_written_anew)
{
    write_again(w);
    make_file(w->other, 1, 0644);
    assert_int_equal(unlink(w->other), 0);
    ev_run(w->loop, EVRUN_NOWAIT);
    assert_int_equal(stats(w).writes, 1);
    assert_int_equal(logged(w, "somebody removed, replaced or changed"), 0);
}

/* Somebody else could go on reading, or writing, what is ours. */
TEST_IN(a_page_that_is_not_ours_alone_is_replaced)
{
    static const struct {
        size_t bytes;
        mode_t mode;
        int (*link)(const char *other, const char *path); /* NULL: it is the file itself */
    } rows[] = {
        {RECORD_PAGE_BYTES, 0600, NULL},     {RECORD_PAGE_BYTES, 0664, NULL},
        {RECORD_PAGE_BYTES, 04644, NULL},    {RECORD_PAGE_BYTES - 1, 0644, NULL},
        {RECORD_PAGE_BYTES + 1, 0644, NULL}, {RECORD_PAGE_BYTES, 0644, link},
        {RECORD_PAGE_BYTES, 0644, symlink},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        print_message("row %zu\n", i);
        assert_int_equal(mkdir(w->dir, 0755), 0);
        make_file(rows[i].link ? w->other : w->path, rows[i].bytes, rows[i].mode);
        assert_true(!rows[i].link || rows[i].link(w->other, w->path) == 0);
        int fd = open(w->path, O_RDONLY | O_CLOEXEC); /* keeps the inode in use */
        ino_t was = inode(w->path);
        write_again(w);
        assert_int_not_equal(inode(w->path), was);
        assert_in_shape(w);
        assert_true(!rows[i].link || is_untouched(w->other));
        assert_int_equal(close(fd), 0);
        world_renew(w);
    }
}

TEST_IN(a_page_of_another_owner_is_replaced)
{
    struct stat found;
    assert_int_equal(mkdir(w->dir, 0755), 0);
    make_file(w->path, RECORD_PAGE_BYTES, 0644);
    assert_int_equal(chown(w->path, 65534, 65534), 0);
    write_again(w);
    assert_int_equal(lstat(w->path, &found), 0);
    assert_int_equal(found.st_uid, 0);
}

/* ---- what happens to it ---------------------------------------------------------------------- */

TEST_IN(a_page_that_was_swapped_is_taken_back_at_the_next_write)
{
    write_again(w);
    make_file(w->other, RECORD_PAGE_BYTES, 0644);
    ino_t swapped = inode(w->other);
    CLEANUP(fd) int fd = open(w->other, O_RDONLY | O_CLOEXEC); /* keeps the inode in use */
    assert_int_equal(rename(w->other, w->path), 0);
    write_again(w);
    assert_int_not_equal(inode(w->path), swapped);
    assert_in_shape(w);
}

/* Each write reads the page once, and its own event is no reason to look again. */
TEST_IN(a_write_of_our_own_wakes_nobody)
{
    write_again(w);
    write_again(w);
    pages_read = 0;
    write_again(w);
    ev_run(w->loop, EVRUN_NOWAIT);
    assert_int_equal(pages_read, 1);
    assert_int_equal(stats(w).writes, 3);
}

/* The kernel tells of two writes in a row as if they were one. */
TEST_IN(a_change_right_after_our_write_is_mended_at_once)
{
    static const char *const changes[] = {"printf spoilt | dd conv=notrunc status=none of=$f",
                                          "printf x >>$f",
                                          "chmod 0666 $f",
                                          "cp $f $f.new; mv $f.new $f",
                                          "rm $f",
                                          "ln $f ${f%/*}/other"};
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        print_message("%s\n", changes[i]);
        write_again(w);
        write_again(w);
        page_path = w->path;
        done_after_write = changes[i];
        write_again(w);
        assert_null(done_after_write);
        ev_run(w->loop, EVRUN_NOWAIT);
        assert_in_shape(w);
        assert_int_equal(stats(w).writes, 4);
        assert_int_equal(logged(w, "somebody removed, replaced or changed"), 1);
        world_renew(w);
    }
}

TEST_IN(a_page_that_vanished_is_made_again_without_a_verdict)
{
    write_again(w);
    assert_int_equal(unlink(w->path), 0);
    ev_run(w->loop, EVRUN_ONCE);
    assert_in_shape(w);
    assert_int_equal(stats(w).writes, 2);
    assert_int_equal(logged(w, "somebody removed, replaced or changed"), 1);
    assert_int_equal(unlink(w->path), 0);
    assert_int_equal(rmdir(w->dir), 0);
    ev_run(w->loop, EVRUN_ONCE);
    assert_in_shape(w);
    assert_int_equal(logged(w, "somebody removed, replaced or changed"), 1); /* once a minute */
}

/* By a command of the shell on "$f". */
static void change(const struct world *w, const char *command)
{
    assert_true(scratch_run("f=%s; %s", w->path, command));
}

TEST_IN(a_page_that_somebody_changed_is_made_anew_and_said_so_once)
{
    static const char *const changes[] = {"printf x >>$f",
                                          "truncate -s 81920 $f",
                                          "truncate -s 0 $f",
                                          "chmod 0666 $f",
                                          "chown 65534:65534 $f || chmod 0666 $f",
                                          "printf spoilt | dd conv=notrunc status=none of=$f"};
    for (size_t i = 0; i < 2 * ARRAY_LEN(changes); i++) {
        write_again(w);
        ev_run(w->loop, EVRUN_NOWAIT); /* the changes of our own */
        change(w, changes[i / 2]);
        if (i % 2 == 0) {
            ev_run(w->loop, EVRUN_ONCE); /* told by inotify */
        } else {
            write_again(w); /* or not */
        }
        assert_in_shape(w);
        assert_int_equal(stats(w).writes, 2);
        assert_int_equal(logged(w, "somebody removed, replaced or changed"), 1);
        ev_run(w->loop, EVRUN_NOWAIT); /* what we did is no news */
        assert_int_equal(stats(w).writes, 2);
        world_renew(w);
    }
}

/* As two that set the mode in turn would. */
TEST_IN(who_goes_on_changing_it_meets_a_pace)
{
    write_again(w);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(chmod(w->path, 0666), 0);
        ev_run(w->loop, EVRUN_NOWAIT);
    }
    assert_int_equal(stats(w).writes, 2);
    ev_tstamp end = ev_time() + 5;
    while (stats(w).writes < 3 && ev_time() < end) {
        ev_run(w->loop, EVRUN_ONCE);
    }
    assert_in_shape(w);
}

TEST_IN(without_inotify_it_writes_all_the_same)
{
    has_inotify = false;
    world_renew(w);
    write_again(w);
    assert_true(stats(w).is_current);
    has_inotify = true;
    write_again(w); /* and gets one when there is */
    ev_run(w->loop, EVRUN_NOWAIT);
    change(w, "printf x >>$f");
    ev_run(w->loop, EVRUN_ONCE);
    assert_in_shape(w);
}

TEST_IN(all_directories_on_the_way_are_made)
{
    (void)snprintf(w->dir, sizeof(w->dir), "%s/a/w", w->top);
    (void)snprintf(w->path, sizeof(w->path), "%s/readiness.json", w->dir);
    record_writer_free(TAKE(w->writer));
    begin(w);
    write_again(w);
    assert_in_shape(w);
    assert_int_equal(unlink(w->path), 0);
    assert_int_equal(rmdir(w->dir), 0);
    *strrchr(w->dir, '/') = '\0';
}

TEST_IN(before_the_first_verdict_nothing_is_written)
{
    ev_run(w->loop, EVRUN_NOWAIT);
    assert_int_equal(access(w->path, F_OK), -1);
    assert_int_equal(stats(w).writes, 0);
    assert_false(stats(w).is_current);
}

TEST_IN(a_place_that_cannot_be_written_is_tried_again_each_second)
{
    make_file(w->dir, 1, 0644); /* a file where the directory should be */
    write_again(w);
    write_again(w); /* a renewal meanwhile */
    assert_int_equal(stats(w).failures, 2);
    assert_int_equal(stats(w).writes, 0);
    assert_false(stats(w).is_current);
    run_for(w, 1.3);
    assert_int_equal(stats(w).failures, 3);
    assert_int_equal(logged(w, "CNI uses the old verdict"), 1);
    assert_int_equal(unlink(w->dir), 0);
    run_for(w, 1.3);
    assert_true(stats(w).is_current);
    assert_int_equal(stats(w).writes, 1);
    assert_in_shape(w);
    ev_run(w->loop, EVRUN_NOWAIT);
    assert_int_equal(stats(w).writes, 1); /* and that is it */
    write_again(w);
    assert_int_equal(logged(w, "works again"), 1);
    assert_int_equal(unlink(w->path), 0);
    assert_int_equal(mkdir(w->path, 0755), 0); /* new trouble is news again */
    write_again(w);
    assert_int_equal(logged(w, "CNI uses the old verdict"), 2);
    assert_int_equal(rmdir(w->path), 0);
}

TEST_IN(a_page_that_is_not_written_whole_is_no_write)
{
    static const struct {
        size_t room;
        const char *words;
    } rows[] = {{READ_ONLY, "Read-only file system"},
                {RECORD_PAGE_BYTES - 1, "No space left on device"},
                {0, "No space left on device"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        write_again(w);
        page_room = rows[i].room;
        write_again(w);
        assert_false(stats(w).is_current);
        assert_int_equal(logged(w, rows[i].words), 1);
        world_renew(w);
    }
}
