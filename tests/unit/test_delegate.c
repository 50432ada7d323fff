/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "tests/unit/cni_bench.h"

#include <sys/wait.h>

static void plugin_is_found_along_absolute_directories(void **state)
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

static void only_a_regular_file_is_a_plugin(void **state)
{
    const struct bench *b = *state;
    char file[PATH_MAX];
    struct cni_error error = {.code = 0};
    assert_int_equal(mkdir(b->plugin, 0755), 0);
    assert_int_equal(delegate_find("plugin", b->dir, file, &error), CNI_IO_FAILURE);
}

static void we_are_not_our_own_delegate(void **state)
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

static void path_that_is_too_long_is_passed_over(void **state)
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

static void exec_becomes_the_plugin_with_its_configuration_on_stdin(void **state)
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

static void exec_that_fails_says_why(void **state)
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

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        ROW(plugin_is_found_along_absolute_directories),
        ROW(only_a_regular_file_is_a_plugin),
        ROW(we_are_not_our_own_delegate),
        ROW(path_that_is_too_long_is_passed_over),
        ROW(exec_becomes_the_plugin_with_its_configuration_on_stdin),
        ROW(exec_that_fails_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
