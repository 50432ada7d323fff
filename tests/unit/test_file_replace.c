/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/attr.h"
#include "base/mem.h"
#include "tests/support/case.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct bench {
    char dir[64];
    char path[80];
};

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    (void)snprintf(b->dir, sizeof(b->dir), "/tmp/test-file-replace.XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    (void)snprintf(b->path, sizeof(b->path), "%s/file", b->dir);
    *state = b;
    return 0;
}

/* Whatever a test leaves there but the file itself is an attempt that was not cleared away. */
static int tear_down(void **state)
{
    struct bench *b = *state;
    (void)unlink(b->path);
    assert_int_equal(rmdir(b->dir), 0);
    free(b);
    return 0;
}

static int put(const struct bench *b, const char *text, mode_t mode, struct err *e)
{
    return file_replace(b->path, text, strlen(text), mode, e);
}

static void assert_file(const struct bench *b, const char *text, mode_t mode)
{
    struct stat found;
    CLEANUP(buf) struct buf content;
    buf_init(&content, 64);
    assert_int_equal(file_read(b->path, &content, NULL), 0);
    assert_string_equal(buf_text(&content), text);
    assert_int_equal(stat(b->path, &found), 0);
    assert_int_equal(found.st_mode & 07777, mode);
}

TEST_WITH(who_holds_the_old_file_keeps_it_whole, set_up, tear_down)
{
    const struct bench *b = *state;
    assert_int_equal(put(b, "old", 0600, NULL), 0);
    CLEANUP(fd) int fd = open(b->path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(put(b, "another", 0644, NULL), 0);
    assert_file(b, "another", 0644);
    CLEANUP(buf) struct buf held;
    buf_init(&held, 64);
    assert_int_equal(file_read_fd(fd, b->path, &held, NULL), 0);
    assert_string_equal(buf_text(&held), "old");
}

TEST_WITH(the_mode_is_the_one_asked_for_whatever_the_umask, set_up, tear_down)
{
    const struct bench *b = *state;
    mode_t before = umask(0077);
    assert_int_equal(put(b, "", 0644, NULL), 0);
    (void)umask(before);
    assert_file(b, "", 0644);
}

TEST_WITH(what_cannot_be_placed_is_an_error_and_leaves_nothing, set_up, tear_down)
{
    const struct bench *b = *state;
    struct err e = ERR_INIT;
    char path[PATH_MAX];
    assert_int_equal(mkdir(b->path, 0700), 0);
    assert_int_equal(put(b, "text", 0600, &e), ERR_IO);
    assert_non_null(strstr(e.msg, b->path));
    assert_int_equal(rmdir(b->path), 0);
    (void)snprintf(path, sizeof(path), "%s/none/file", b->dir);
    assert_int_equal(file_replace(path, "x", 1, 0600, &e), ERR_IO);
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(file_replace(path, "x", 1, 0600, &e), ERR_IO);
    assert_non_null(strstr(e.msg, "too long"));
}

TEST_WITH(killed_attempts_are_cleared_away_once_they_are_old, set_up, tear_down)
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
    const struct bench *b = *state;
    char path[128];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", b->dir, rows[i].name);
        CLEANUP(fd) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        const struct timespec at = {.tv_sec = time(NULL) - rows[i].age_s};
        assert_int_equal(futimens(fd, (const struct timespec[]){at, at}), 0);
    }
    assert_int_equal(put(b, "x", 0600, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", b->dir, rows[i].name);
        assert_int_equal(unlink(path) == 0, rows[i].stays);
    }
}
