/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "base/mem.h"
#include "tests/support/case.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

struct bench {
    char dir[64];
    char record[80];
    char memory[80];
    char plugin[96];
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    (void)snprintf(b->dir, sizeof(b->dir), "/tmp/test-delegate-versions.XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    (void)snprintf(b->record, sizeof(b->record), "%s/record", b->dir);
    (void)snprintf(b->memory, sizeof(b->memory), "%s/" DELEGATE_VERSIONS_NAME, b->dir);
    (void)snprintf(b->plugin, sizeof(b->plugin), "%s/plugin", b->dir);
    write_file(b->plugin, "one");
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    (void)unlink(b->plugin);
    (void)unlink(b->memory);
    assert_int_equal(rmdir(b->dir), 0);
    free(b);
    return 0;
}

static void keep(const struct bench *b, bool knows)
{
    struct delegate_identity id;
    delegate_versions_identify(b->plugin, &id);
    delegate_versions_keep(b->record, &id, knows);
}

/* -1: nothing is known. */
static int recall(const struct bench *b)
{
    struct delegate_identity id;
    bool knows = false;
    delegate_versions_identify(b->plugin, &id);
    return delegate_versions_recall(b->record, &id, &knows) ? knows : -1;
}

TEST_WITH(what_was_kept_is_recalled, set_up, tear_down)
{
    const struct bench *b = *state;
    struct stat found;
    assert_int_equal(recall(b), -1);
    keep(b, true);
    assert_int_equal(recall(b), 1);
    keep(b, false);
    assert_int_equal(recall(b), 0);
    assert_int_equal(stat(b->memory, &found), 0);
    assert_int_equal(found.st_mode & 07777, 0600);
}

TEST_WITH(another_program_in_its_place_is_asked_anew, set_up, tear_down)
{
    const struct bench *b = *state;
    static const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct delegate_identity before;
    keep(b, true);
    assert_int_equal(chmod(b->plugin, 0700), 0); /* its ctime */
    assert_int_equal(recall(b), -1);
    keep(b, true);
    assert_int_equal(utimensat(AT_FDCWD, b->plugin, old, 0), 0);
    assert_int_equal(recall(b), -1);
    keep(b, true);
    delegate_versions_identify(b->plugin, &before);
    assert_int_equal(unlink(b->plugin), 0);
    assert_int_equal(recall(b), -1);
    write_file(b->plugin, "two");
    assert_int_equal(recall(b), -1);
    delegate_versions_keep(b->record, &before, true); /* it was replaced while it was asked */
    assert_int_equal(recall(b), -1);
}

TEST_WITH(only_what_we_alone_can_have_written_is_believed, set_up, tear_down)
{
    const struct bench *b = *state;
    char real[128];
    keep(b, true);
    assert_int_equal(chmod(b->memory, 0620), 0);
    assert_int_equal(recall(b), -1);
    assert_int_equal(chmod(b->memory, 0602), 0);
    assert_int_equal(recall(b), -1);
    assert_int_equal(chmod(b->memory, 0644), 0);
    assert_int_equal(recall(b), 1);
    if (geteuid() == 0) {
        assert_int_equal(chown(b->memory, 65534, 0), 0);
        assert_int_equal(recall(b), -1);
    }
    keep(b, true); /* takes its place */
    assert_int_equal(recall(b), 1);
    (void)snprintf(real, sizeof(real), "%s.real", b->plugin);
    assert_int_equal(rename(b->memory, real), 0);
    assert_int_equal(symlink(real, b->memory), 0);
    assert_int_equal(recall(b), -1);
    assert_int_equal(unlink(real), 0);
}

TEST_WITH(broken_lines_are_no_answers, set_up, tear_down)
{
    const struct bench *b = *state;
    struct delegate_identity id;
    char text[DELEGATE_IDENTITY_BYTES + 100];
    static const struct {
        const char *before;
        int cut; /* bytes of the end */
    } rows[] = {{"", 0}, {"2", 0}, {"1 ", 0}, {"1", 1}, {"1", 2}, {"\n\n 1\n0 1\n", 0}};
    delegate_versions_identify(b->plugin, &id);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s%.*s", rows[i].before,
                       (int)strlen(id.text) - rows[i].cut, id.text);
        write_file(b->memory, text);
        assert_int_equal(chmod(b->memory, 0600), 0);
        assert_int_equal(recall(b), -1);
        keep(b, true);
        assert_int_equal(recall(b), 1);
    }
}

TEST_WITH(many_programs_keep_the_latest, set_up, tear_down)
{
    struct bench *b = *state;
    char first[sizeof(b->plugin)];
    (void)snprintf(first, sizeof(first), "%s", b->plugin);
    keep(b, true);
    for (int i = 0; i < 2 * DELEGATE_VERSIONS_ENTRIES; i++) {
        (void)snprintf(b->plugin, sizeof(b->plugin), "%s/plugin-%d", b->dir, i);
        write_file(b->plugin, "x");
        keep(b, i % 2 == 0);
        keep(b, i % 2 == 0); /* a second time takes no more room */
    }
    for (int i = 0; i < 2 * DELEGATE_VERSIONS_ENTRIES; i++) {
        (void)snprintf(b->plugin, sizeof(b->plugin), "%s/plugin-%d", b->dir, i);
        assert_int_equal(recall(b), i < DELEGATE_VERSIONS_ENTRIES ? -1 : i % 2 == 0);
        assert_int_equal(unlink(b->plugin), 0);
    }
    (void)snprintf(b->plugin, sizeof(b->plugin), "%s", first);
    assert_int_equal(recall(b), -1);
}

TEST_WITH(what_cannot_be_written_is_no_error_and_leaves_nothing, set_up, tear_down)
{
    struct bench *b = *state;
    keep(b, true);
    assert_int_equal(recall(b), 1);
    assert_int_equal(unlink(b->memory), 0);
    assert_int_equal(mkdir(b->memory, 0700), 0);
    keep(b, true);
    assert_int_equal(recall(b), -1);
    assert_int_equal(rmdir(b->memory), 0);
    (void)snprintf(b->record, sizeof(b->record), "%s/none/record", b->dir);
    keep(b, true);
    assert_int_equal(recall(b), -1);
}
