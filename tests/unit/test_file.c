/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/err.h"
#include "base/mem.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>

enum { MAX_BYTES = 16 };

static char directory[SCRATCH_BYTES];
static char path_of_file[80];

static int enter(void **state)
{
    scratch_make(directory);
    (void)snprintf(path_of_file, sizeof(path_of_file), "%s/file", directory);
    return chdir(directory);
}

/* No attempt to write is left. */
static int leave(void **state)
{
    bool is_clean = scratch_run("! ls -A %s | grep -q dpu-new", directory);
    scratch_remove(directory);
    return is_clean ? 0 : -1;
}

/* ---- reading --------------------------------------------------------------------------------- */

TEST_WITH(what_can_be_read_is_read_whole, enter, leave)
{
    static const struct {
        const char *path;
        int code;
        const char *text; /* or a part of what is said */
    } rows[] = {
        {"full", 0, "0123456789abcdef"},  {"empty", 0, ""},
        {"link", 0, "0123456789abcdef"},  {"/proc/sys/kernel/ostype", 0, "Linux\n"},
        {"long", ERR_LIMIT, "'long'"},    {"none", ERR_NOTFOUND, "'none'"},
        {"full/x", ERR_NOTFOUND, "full"}, {"loop", ERR_IO, "'loop'"},
        {".", ERR_IO, "regular"},         {"/dev/zero", ERR_IO, "regular"},
        {"fifo", ERR_IO, "regular"},
    };
    scratch_put(directory, "full", "0123456789abcdef");
    scratch_put(directory, "long", "0123456789abcdefg");
    scratch_put(directory, "empty", "");
    assert_int_equal(symlink("full", "link"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        CLEANUP(buf) struct buf out = {.max_bytes = MAX_BYTES};
        assert_int_equal(file_read(rows[i].path, &out, &e), rows[i].code);
        if (rows[i].code == 0) {
            assert_string_equal(buf_text(&out), rows[i].text);
        } else {
            assert_non_null(strstr(e.msg, rows[i].text));
        }
    }
}

/* ---- locking --------------------------------------------------------------------------------- */

static struct file_lock lock_on(const char *where, const char *name)
{
    struct file_lock l;
    assert_int_equal(file_lock_init(&l, where, name, NULL), 0);
    return l;
}

static struct file_lock new_lock(void)
{
    return lock_on(path_of_file, ".lock");
}

TEST_WITH(one_has_it_until_it_gives_it_back, enter, leave)
{
    for (int is_directory = 0; is_directory < 2; is_directory++) {
        struct file_lock first = is_directory ? lock_on(directory, "/.") : new_lock();
        struct file_lock second = first;
        assert_int_equal(file_lock_take(&first, NULL), 0);
        assert_int_equal(file_lock_take(&second, NULL), ERR_CONFLICT);
        assert_int_equal(file_lock_take(&first, NULL), 0);
        file_lock_release(&first);
        assert_int_equal(file_lock_take(&second, NULL), 0);
        assert_int_equal(file_lock_take(&first, NULL), ERR_CONFLICT);
        file_lock_release(&first);
        file_lock_release(&second);
    }
}

TEST_WITH(lock_on_a_removed_file_is_none, enter, leave)
{
    struct file_lock first = new_lock();
    struct file_lock second = new_lock();
    assert_int_equal(file_lock_take(&first, NULL), 0);
    assert_int_equal(unlink(first.path), 0);
    assert_int_equal(file_lock_take(&first, NULL), 0); /* made anew */
    assert_int_equal(file_lock_take(&second, NULL), ERR_CONFLICT);
    assert_int_equal(unlink(first.path), 0);
    assert_int_equal(file_lock_take(&second, NULL), 0);
    assert_int_equal(file_lock_take(&first, NULL), ERR_CONFLICT);
    file_lock_release(&first);
    file_lock_release(&second);
}

TEST_WITH(file_system_that_refuses_is_no_other_writer, enter, leave)
{
    struct file_lock first = new_lock();
    struct file_lock second = new_lock();
    struct err e = ERR_INIT;
    assert_int_equal(file_lock_take(&first, NULL), 0);
    file_lock_release(&first);
    assert_int_equal(unlink(first.path), 0);
    assert_int_equal(symlink("file", first.path), 0);
    assert_int_equal(file_lock_take(&first, &e), ERR_IO);
    assert_non_null(strstr(e.msg, first.path));
    struct file_lock l = lock_on("/proc/nonexistent/record.json", ".lock");
    assert_int_equal(file_lock_take(&l, NULL), ERR_IO);
    char path[PATH_MAX];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(file_lock_init(&l, path, ".lock", NULL), ERR_LIMIT);
    file_lock_release(&first);
    file_lock_release(&second);
}

/* ---- replacing ------------------------------------------------------------------------------- */

static int put(const char *text, mode_t mode, struct err *e)
{
    return file_replace(path_of_file, text, strlen(text), mode, e);
}

static void assert_file(const char *text, mode_t mode)
{
    struct stat found;
    CLEANUP(buf) struct buf content = {.max_bytes = 64};
    assert_int_equal(file_read(path_of_file, &content, NULL), 0);
    assert_string_equal(buf_text(&content), text);
    assert_int_equal(stat(path_of_file, &found), 0);
    assert_int_equal(found.st_mode & 07777, mode);
}

TEST_WITH(who_holds_the_old_file_keeps_it_whole, enter, leave)
{
    assert_int_equal(put("old", 0600, NULL), 0);
    CLEANUP(fd) int fd = open(path_of_file, O_RDONLY | O_CLOEXEC);
    assert_int_equal(put("another", 0644, NULL), 0);
    assert_file("another", 0644);
    CLEANUP(buf) struct buf held = {.max_bytes = 64};
    assert_int_equal(file_read_fd(fd, path_of_file, &held, NULL), 0);
    assert_string_equal(buf_text(&held), "old");
}

TEST_WITH(the_mode_is_the_one_asked_for_whatever_the_umask, enter, leave)
{
    mode_t before = umask(0077);
    assert_int_equal(put("", 0644, NULL), 0);
    (void)umask(before);
    assert_file("", 0644);
}

TEST_WITH(what_cannot_be_placed_is_an_error_and_leaves_nothing, enter, leave)
{
    struct err e = ERR_INIT;
    char path[PATH_MAX];
    assert_int_equal(mkdir(path_of_file, 0700), 0);
    assert_int_equal(put("text", 0600, &e), ERR_IO);
    assert_non_null(strstr(e.msg, path_of_file));
    assert_int_equal(rmdir(path_of_file), 0);
    (void)snprintf(path, sizeof(path), "%s/none/file", directory);
    assert_int_equal(file_replace(path, "x", 1, 0600, &e), ERR_IO);
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(file_replace(path, "x", 1, 0600, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "too long"));
}

TEST_WITH(killed_attempts_are_cleared_away_once_they_are_old, enter, leave)
{
    static const struct {
        const char *name;
        int age_s;
        bool stays;
    } rows[] = {
        {".file.dpu-new.a1B2c3", 120, false}, {".file.dpu-new.a1B2c4", 10, true},
        {".file.dpu-new.a1B2c", 120, true},   {".other.dpu-new.a1B2c3", 120, true},
        {"file.dpu-new.a1B2c3", 120, true},   {".file.backup", 3600, true}, /* an administrator's */
        {".file.a1B2c3", 3600, true},
    };
    char path[128];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", directory, rows[i].name);
        CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        const struct timespec at = {.tv_sec = time(NULL) - rows[i].age_s};
        assert_int_equal(futimens(fd, (const struct timespec[]){at, at}), 0);
    }
    assert_int_equal(put("x", 0600, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", directory, rows[i].name);
        assert_int_equal(unlink(path) == 0, rows[i].stays);
    }
}
