/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "base/clock.h"
#include "tests/support/case.h"
#include "tests/unit/cni_bench.h"

#include <signal.h>
#include <sys/wait.h>

TEST_WITH(version_tells_whether_status_is_known, set_up, tear_down)
{
    const struct bench *b = *state;
    static const struct {
        const char *script;
        bool knows;
    } rows[] = {
        {"echo '{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"1.0.0\",\"1.1.0\"]}'", true},
        {"echo '{\"supportedVersions\":[\"1.1.0\"]}'; exit 3", true},
        {"echo '{\"supportedVersions\":[\"2.0.0\"]}'", true},
        {"echo '{\"supportedVersions\":[\"1.0.0\",\"0.9\"]}'", false},
        {"echo '{\"supportedVersions\":[]}'", false},
        {"echo '{\"supportedVersions\":[7,null,\"x\"]}'", false},
        {"echo '{\"supportedVersions\":{\"1.1.0\":1}}'", false},
        {"echo '[\"1.1.0\"]'", false},
        {"echo 1.1.0", false},
        {"true", false},
        {"exit 1", false},
        {"exec yes", false}, /* without end: bounded */
        /* It gets the verb and something to read. */
        {"read q; [ \"$CNI_COMMAND $q\" = 'VERSION {\"cniVersion\":\"1.1.0\"}' ] &&"
         "echo '{\"supportedVersions\":[\"1.1.0\"]}'",
         true},
        {"read q || echo '{\"supportedVersions\":[\"1.1.0\"]}' >&2", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_error error = {.code = 0};
        bool knows = !rows[i].knows;
        write_plugin(b, rows[i].script);
        print_message("%s\n", rows[i].script);
        assert_int_equal(delegate_ask_versions(b->plugin, b->record, &knows, &error), 0);
        assert_int_equal(knows, rows[i].knows);
    }
}

TEST_WITH(plugin_that_crashes_is_no_old_one, set_up, tear_down)
{
    const struct bench *b = *state;
    struct cni_error error = {.code = 0};
    bool knows = false;
    write_plugin(b, "kill -9 $$");
    assert_int_equal(delegate_ask_versions(b->plugin, b->record, &knows, &error), CNI_IO_FAILURE);
    assert_non_null(strstr(error.msg, "plugin' was ended by signal 9"));
}

TEST_WITH(plugin_that_cannot_run_is_an_error, set_up, tear_down)
{
    const struct bench *b = *state;
    struct cni_error error = {.code = 0};
    bool knows = false;
    write_plugin(b, "");
    assert_int_equal(chmod(b->plugin, 0644), 0);
    assert_int_equal(delegate_ask_versions(b->plugin, b->record, &knows, &error), CNI_IO_FAILURE);
    assert_non_null(strstr(error.msg, "Permission denied"));
    CLEANUP(fd) int writer = open(b->plugin, O_WRONLY | O_CLOEXEC);
    assert_int_equal(chmod(b->plugin, 0755), 0);
    assert_int_equal(delegate_ask_versions(b->plugin, b->record, &knows, &error),
                     CNI_TRY_AGAIN_LATER);
    assert_non_null(strstr(error.msg, "Text file busy"));
}

TEST_WITH(probe_leaves_no_descriptor_and_no_child, set_up, tear_down)
{
    const struct bench *b = *state;
    struct cni_error error = {.code = 0};
    bool knows = false;
    write_plugin(b, "exit 0");
    int before = dup(STDERR_FILENO);
    assert_int_equal(close(before), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(delegate_ask_versions(b->plugin, b->record, &knows, &error), 0);
    }
    int after = dup(STDERR_FILENO);
    assert_int_equal(close(after), 0);
    assert_int_equal(before, after);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* What is passed on of an answer to STATUS. */
static int ask_status(const struct bench *b, char out[static 200], int *exit_status,
                      struct cni_error *error)
{
    CLEANUP(buf) struct buf config;
    int ends[2];
    buf_init(&config, 100);
    assert_int_equal(buf_append_text(&config, "{\"type\":\"plugin\"}", NULL), 0);
    assert_int_equal(fflush(stdout), 0);
    int saved = dup(STDOUT_FILENO);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(dup2(ends[1], STDOUT_FILENO) >= 0);
    assert_int_equal(close(ends[1]), 0);
    *error = (struct cni_error){.code = 0};
    int code = delegate_ask_status(b->plugin, &config, exit_status, error);
    assert_int_equal(fflush(stdout), 0);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    assert_int_equal(close(saved), 0);
    ssize_t got = read(ends[0], out, 199);
    assert_true(got >= 0);
    out[got] = '\0';
    assert_int_equal(close(ends[0]), 0);
    return code;
}

TEST_WITH(status_is_passed_on_with_its_exit_status, set_up, tear_down)
{
    const struct bench *b = *state;
    static const struct {
        const char *script;
        const char *out;
        int exit_status;
        int code;
        const char *msg;
    } rows[] = {
        {"cat >&2; exit 0", "", 0, 0, ""},
        {"echo $CNI_COMMAND; cat; exit 0", "STATUS\n{\"type\":\"plugin\"}", 0, 0, ""},
        {"echo '{\"code\":51}'; exit 1", "{\"code\":51}\n", 1, 0, ""},
        {"exit 7", "", 7, 0, ""},
        {"exec >&-; sleep 0.2; exit 3", "", 3, 0, ""},
        {"kill -9 $$", "", 0, CNI_IO_FAILURE, "was ended by signal 9"},
        {"exec yes", "", 0, CNI_IO_FAILURE, "with 65536 bytes or more"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[200];
        struct cni_error error;
        int exit_status = 0;
        write_plugin(b, rows[i].script);
        print_message("%s\n", rows[i].script);
        assert_int_equal(ask_status(b, out, &exit_status, &error), rows[i].code);
        assert_string_equal(out, rows[i].out);
        assert_int_equal(exit_status, rows[i].exit_status);
        assert_non_null(strstr(error.msg, rows[i].msg));
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    }
}

TEST_WITH(ignored_children_are_awaited_all_the_same, set_up, tear_down)
{
    const struct bench *b = *state;
    char out[200];
    struct cni_error error;
    int exit_status = 0;
    write_plugin(b, "exit 5");
    assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    assert_int_equal(ask_status(b, out, &exit_status, &error), 0);
    assert_int_equal(exit_status, 5);
}

static pid_t pid_of_child(const struct bench *b)
{
    char pid_file[100];
    char text[20] = "";
    (void)snprintf(pid_file, sizeof(pid_file), "%s.pid", b->plugin);
    CLEANUP(fd) int fd = open(pid_file, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    assert_int_equal(unlink(pid_file), 0);
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    assert_true(pid > 1);
    return pid;
}

/* As a daemon that a plugin starts does it: of its own session, and with the plugin's pipes. */
TEST_WITH(what_a_plugin_leaves_behind_keeps_nobody_waiting, set_up, tear_down)
{
    const struct bench *b = *state;
    static const struct {
        const char *script; /* behind the start of the daemon */
        int exit_status;
        int code;
        const char *stderr_text;
    } rows[] = {
        {"echo why >&2; exit 3", 3, 0, "why\n"},
        {"sleep 60", 0, CNI_TRY_AGAIN_LATER, ""},
    };
    CLEANUP(buf) struct buf config;
    buf_init(&config, 100);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char script[200];
        char heard[20] = "";
        int ends[2];
        struct cni_error error = {.code = 0};
        struct delegate_answer answer = {.len = 0};
        const struct delegate_question q = {
            .file = b->plugin, .verb = "STATUS", .config = &config, .deadline_ms = 1000};
        (void)snprintf(script, sizeof(script), "setsid sleep 30 & echo $! >$0.pid; %s",
                       rows[i].script);
        write_plugin(b, script);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        int saved = dup(STDERR_FILENO);
        assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
        int code = delegate_run(&q, &answer, &error);
        assert_true(dup2(saved, STDERR_FILENO) >= 0);
        assert_int_equal(close(saved) + close(ends[1]), 0);
        pid_t daemon = pid_of_child(b);
        struct mono began = clock_mono_now();
        ssize_t len = read(ends[0], heard, sizeof(heard) - 1);
        assert_int_equal(read(ends[0], heard + len, 1), 0); /* as a caller reads: to the end */
        assert_int_equal(kill(daemon, SIGKILL), 0);
        assert_true(mono_since(clock_mono_now(), began) < 5 * NS_PER_SEC);
        assert_int_equal(close(ends[0]), 0);
        assert_int_equal(code, rows[i].code);
        assert_string_equal(heard, rows[i].stderr_text);
        assert_int_equal(code == 0 ? WEXITSTATUS(answer.wait_status) : 0, rows[i].exit_status);
    }
}

TEST_WITH(stderr_is_passed_on_up_to_its_bound, set_up, tear_down)
{
    const struct bench *b = *state;
    struct cni_error error = {.code = 0};
    struct delegate_answer answer;
    CLEANUP(buf) struct buf config;
    const struct delegate_question q = {
        .file = b->plugin, .verb = "STATUS", .config = &config, .deadline_ms = 5000};
    buf_init(&config, 100);
    CLEANUP(fd) int file = memfd_create("stderr", MFD_CLOEXEC);
    write_plugin(b, "head -c 200000 /dev/zero >&2; echo done");
    int saved = dup(STDERR_FILENO);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    int code = delegate_run(&q, &answer, &error);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_int_equal(close(saved), 0);
    assert_int_equal(code, 0);
    assert_int_equal(answer.len, strlen("done\n"));
    assert_int_equal(lseek(file, 0, SEEK_END), DELEGATE_WORDS_MAX_BYTES);
}

/* With what it has started, whether or not that holds its stdout. */
TEST_WITH(plugin_that_hangs_is_ended_at_its_deadline, set_up, tear_down)
{
    const struct bench *b = *state;
    static const char *const scripts[] = {"sleep 60 & echo $! >$0.pid; sleep 60",
                                          "exec >&-; sleep 60 & echo $! >$0.pid; sleep 60",
                                          "trap '' TERM INT; sleep 60 & echo $! >$0.pid; wait"};
    CLEANUP(buf) struct buf config;
    buf_init(&config, 100);
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        struct cni_error error = {.code = 0};
        struct delegate_answer answer;
        const struct delegate_question q = {
            .file = b->plugin, .verb = "STATUS", .config = &config, .deadline_ms = 400};
        write_plugin(b, scripts[i]);
        struct mono began = clock_mono_now();
        assert_int_equal(delegate_run(&q, &answer, &error), CNI_TRY_AGAIN_LATER);
        int64_t took_ms = mono_since(clock_mono_now(), began) / NS_PER_MS;
        assert_non_null(strstr(error.msg, "did not answer STATUS within 400 ms"));
        assert_true(took_ms >= 399 && took_ms < 5000);
        pid_t grandchild = pid_of_child(b);
        for (int tries = 0; tries < 100 && kill(grandchild, 0) == 0; tries++) {
            (void)usleep(20000); /* until its new parent has taken note */
        }
        assert_int_equal(kill(grandchild, 0), -1);
    }
}
