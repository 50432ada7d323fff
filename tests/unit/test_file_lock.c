/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct world {
    char dir[64];
    char file[128];
    struct file_lock first;
    struct file_lock second;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/dpu-lock-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->file, sizeof(w->file), "%s/record.json", w->dir);
    assert_int_equal(file_lock_init(&w->first, w->file, ".lock", NULL), 0);
    assert_int_equal(file_lock_init(&w->second, w->file, ".lock", NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    file_lock_release(&w->first);
    file_lock_release(&w->second);
    (void)unlink(w->first.path);
    (void)rmdir(w->first.path);
    assert_int_equal(rmdir(w->dir), 0);
    free(w);
    return 0;
}

TEST_WITH(one_has_it_until_it_gives_it_back, setup, teardown)
{
    struct world *w = *state;
    assert_int_equal(file_lock_take(&w->first, NULL), 0);
    assert_int_equal(file_lock_take(&w->second, NULL), ERR_CONFLICT);
    assert_int_equal(file_lock_take(&w->first, NULL), 0);
    file_lock_release(&w->first);
    assert_int_equal(file_lock_take(&w->second, NULL), 0);
    assert_int_equal(file_lock_take(&w->first, NULL), ERR_CONFLICT);
}

TEST_WITH(lock_on_a_removed_file_is_none, setup, teardown)
{
    struct world *w = *state;
    assert_int_equal(file_lock_take(&w->first, NULL), 0);
    assert_int_equal(unlink(w->first.path), 0);
    assert_int_equal(file_lock_take(&w->first, NULL), 0); /* made anew */
    assert_int_equal(file_lock_take(&w->second, NULL), ERR_CONFLICT);
    assert_int_equal(unlink(w->first.path), 0);
    assert_int_equal(file_lock_take(&w->second, NULL), 0);
    assert_int_equal(file_lock_take(&w->first, NULL), ERR_CONFLICT);
}

TEST_WITH(file_system_that_refuses_is_no_other_writer, setup, teardown)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    assert_int_equal(file_lock_take(&w->first, NULL), 0);
    file_lock_release(&w->first);
    assert_int_equal(unlink(w->first.path), 0);
    assert_int_equal(mkdir(w->first.path, 0755), 0);
    assert_int_equal(file_lock_take(&w->first, &e), ERR_IO);
    assert_non_null(strstr(e.msg, w->first.path));
    struct file_lock l;
    assert_int_equal(file_lock_init(&l, "/proc/nonexistent/record.json", ".lock", NULL), 0);
    assert_int_equal(file_lock_take(&l, NULL), ERR_IO);
    char path[PATH_MAX];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(file_lock_init(&l, path, ".lock", NULL), ERR_LIMIT);
}
