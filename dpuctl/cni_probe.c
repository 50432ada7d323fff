/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/cni_probe.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "json/json_text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>

int cni_probe_judge(const char *text, size_t len, struct err *e)
{
    CLEANUP(json) json_t *answer = json_text_parse(text, len, CNI_PROBE_ANSWER_MAX_BYTES, e);
    const json_t *versions = json_object_get(answer, "supportedVersions");
    if (!answer) {
        return err_wrap(e, "its answer to VERSION");
    }
    for (size_t i = 0; i < json_array_size(versions); i++) {
        if (text_equal(json_string_value(json_array_get(versions, i)), "1.1.0")) {
            return 0;
        }
    }
    return err_set(e, ERR_NOTFOUND, "it does not speak CNI 1.1.0, so nobody asks it for STATUS");
}

/* 0 or an errno. */
static int spawn(const char *path, int out_fd, pid_t *out_pid)
{
    char *const argv[] = {(char *)(uintptr_t)path, NULL};
    char question[] = "CNI_COMMAND=VERSION";
    char *const env[] = {question, NULL};
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0) {
        return rc;
    }
    if ((rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) == 0 &&
        (rc = posix_spawn_file_actions_adddup2(&actions, out_fd, 1)) == 0 &&
        (rc = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)) == 0) {
        rc = posix_spawn(out_pid, path, &actions, NULL, argv, env);
    }
    (void)posix_spawn_file_actions_destroy(&actions); /* cannot fail */
    return rc;
}

/* Gives its pid and the end from which its output is read. */
static int start(const char *path, pid_t *out_pid, int *out_fd, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_set_errno(e, ERR_IO, errno, "making a pipe");
    }
    int rc = spawn(path, ends[1], out_pid);
    (void)close(ends[1]); /* the child has its own */
    if (rc != 0) {
        (void)close(ends[0]); /* nothing was written */
        return err_set_errno(e, ERR_IO, rc, "running it");
    }
    *out_fd = ends[0];
    return 0;
}

static int collect(int fd, struct buf *out, struct err *e)
{
    char chunk[4096];
    struct mono until = mono_add(clock_mono_now(), CNI_PROBE_DEADLINE_MS * NS_PER_MS);
    for (;;) {
        int64_t left_ms = mono_since(until, clock_mono_now()) / NS_PER_MS;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = left_ms > 0 ? poll(&wait, 1, (int)left_ms) : 0;
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return err_set(e, ERR_IO, "it did not answer VERSION within %d ms",
                           CNI_PROBE_DEADLINE_MS);
        }
        ssize_t got = read(fd, chunk, sizeof(chunk));
        if (got < 0) {
            return err_set_errno(e, ERR_IO, errno, "reading its answer to VERSION");
        }
        if (got == 0) {
            return 0;
        }
        if (buf_append(out, chunk, (size_t)got, NULL) != 0) {
            return err_set(e, ERR_LIMIT, "its answer to VERSION is larger than %d bytes",
                           CNI_PROBE_ANSWER_MAX_BYTES);
        }
    }
}

int cni_probe_version(const char *path, struct err *e)
{
    pid_t pid = -1;
    int status = 0;
    CLEANUP(fd) int fd = -1;
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, CNI_PROBE_ANSWER_MAX_BYTES);
    int rc = start(path, &pid, &fd, e);
    if (rc != 0) {
        return rc;
    }
    assert(pid > 0); /* of this one child: 0 and -1 would mean others */
    rc = collect(fd, &answer, e);
    (void)kill(pid, SIGKILL); /* it has said all, or too much, or too late */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return rc != 0 ? rc : cni_probe_judge(buf_text(&answer), answer.len, e);
}
