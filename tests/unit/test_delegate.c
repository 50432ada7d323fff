/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "tests/support/case.h"
#include "tests/unit/cni_bench.h"

#include <sys/wait.h>

TEST_WITH(plugin_is_found_along_absolute_directories, set_up, tear_down)
{
    const struct bench *b = *state;
    static const struct {
        const char *path; /* %1$s: the directory */
        int code;
        const char *msg;
    } rows[] = {
        {"%1$s", 0, ""},
        {"/nonexistent:%1$s", 0, ""},
        {"::%1$s:", 0, ""},
        {"tmp:%1$s", 0, ""},
        {"/nonexistent", CNI_IO_FAILURE, "failed to find plugin \"plugin\" in path [/nonexistent]"},
        {"/a:b:/c", CNI_IO_FAILURE, "failed to find plugin \"plugin\" in path [/a /c]"},
        {"", CNI_IO_FAILURE, "no paths provided"},
        {":", CNI_IO_FAILURE, "no paths provided"},
        {"relative:.", CNI_IO_FAILURE, "no paths provided"},
    };
    write_plugin(b, "");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char path[200];
        char file[PATH_MAX];
        struct cni_error error = {.code = 0};
        const char *mark = strstr(rows[i].path, "%1$s");
        int before = mark ? (int)(mark - rows[i].path) : (int)strlen(rows[i].path);
        (void)snprintf(path, sizeof(path), "%.*s%s%s", before, rows[i].path, mark ? b->dir : "",
                       mark ? mark + 4 : "");
        print_message("%s\n", path);
        assert_int_equal(delegate_find("plugin", path, file, &error), rows[i].code);
        if (rows[i].code == 0) {
            assert_string_equal(file, b->plugin);
        } else {
            assert_string_equal(error.msg, rows[i].msg);
        }
    }
}

TEST_WITH(only_a_regular_file_is_a_plugin, set_up, tear_down)
{
    const struct bench *b = *state;
    char file[PATH_MAX];
    struct cni_error error = {.code = 0};
    assert_int_equal(mkdir(b->plugin, 0755), 0);
    assert_int_equal(delegate_find("plugin", b->dir, file, &error), CNI_IO_FAILURE);
}

TEST_WITH(we_are_not_our_own_delegate, set_up, tear_down)
{
    const struct bench *b = *state;
    char file[PATH_MAX];
    char own[PATH_MAX] = "";
    struct cni_error error = {.code = 0};
    assert_true(readlink("/proc/self/exe", own, sizeof(own) - 1) > 0);
    assert_int_equal(symlink(own, b->plugin), 0);
    assert_int_equal(delegate_find("plugin", b->dir, file, &error), CNI_INVALID_CONFIG);
    assert_non_null(strstr(error.msg, "dpu-gate itself"));
}

TEST_WITH(path_that_is_too_long_is_passed_over, set_up, tear_down)
{
    const struct bench *b = *state;
    static char path[2 * PATH_MAX];
    char file[PATH_MAX];
    struct cni_error error = {.code = 0};
    write_plugin(b, "");
    memset(path, '/', PATH_MAX);
    (void)snprintf(path + PATH_MAX, PATH_MAX, ":%s", b->dir);
    assert_int_equal(delegate_find("plugin", path, file, &error), 0);
    path[PATH_MAX] = '\0';
    assert_int_equal(delegate_find("plugin", path, file, &error), CNI_IO_FAILURE);
    assert_true(strlen(error.msg) < CNI_MSG_BYTES);
}

TEST_WITH(exec_becomes_the_plugin_with_its_configuration_on_stdin, set_up, tear_down)
{
    const struct bench *b = *state;
    int ends[2];
    char got[200] = "";
    int status = 0;
    write_plugin(b, "cat; echo \" $$\"; exit 42");
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct cni_error error = {.code = 0};
        struct buf config;
        buf_init(&config, 100);
        int made = buf_append_text(&config, "{\"type\":\"plugin\"}", NULL);
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        _exit(made == 0 ? delegate_exec(b->plugin, &config, &error) : EXIT_FAILURE);
    }
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(read(ends[0], got, sizeof(got) - 1) > 0);
    assert_int_equal(close(ends[0]), 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    char expected[200];
    (void)snprintf(expected, sizeof(expected), "{\"type\":\"plugin\"} %d\n", (int)child);
    assert_string_equal(got, expected);
}

TEST_WITH(exec_that_fails_says_why, set_up, tear_down)
{
    const struct bench *b = *state;
    struct cni_error error = {.code = 0};
    struct buf config;
    buf_init(&config, 100);
    int saved_stdin = dup(STDIN_FILENO);
    assert_int_equal(delegate_exec(b->plugin, &config, &error), CNI_IO_FAILURE);
    assert_true(dup2(saved_stdin, STDIN_FILENO) >= 0);
    assert_int_equal(close(saved_stdin), 0);
    assert_non_null(strstr(error.msg, b->plugin));
    assert_non_null(strstr(error.msg, "No such file"));
}
