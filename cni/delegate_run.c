/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate_run.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "cni/delegate.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum {
    FIRST_LOOK_NS = 50000, /* between two looks whether a child has ended; it doubles */
    LAST_LOOK_NS = 10000000,
    KILLED_MS = 500, /* for a killed child to go; one that hangs in the kernel stays behind */
};

struct child {
    pid_t pid;
    int config;     /* its stdin */
    int answer[2];  /* its stdout */
    int failure[2]; /* closed by a successful exec; else errno comes through */
};

/* In the child. Never returns. */
static void become(const struct delegate_question *q, const struct child *c, pid_t parent)
{
    int sys_errno = 0;
    int quiet = q->is_quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : STDERR_FILENO;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(EXIT_FAILURE);
    }
    if (setpgid(0, 0) != 0 || quiet < 0 || setenv("CNI_COMMAND", q->verb, 1) != 0 ||
        dup2(c->config, STDIN_FILENO) < 0 || dup2(c->answer[1], STDOUT_FILENO) < 0 ||
        dup2(quiet, STDERR_FILENO) < 0) {
        sys_errno = errno;
    } else {
        sys_errno = delegate_exec_patiently(q->file);
    }
    ssize_t told = write(c->failure[1], &sys_errno, sizeof(sys_errno));
    _exit(told == (ssize_t)sizeof(sys_errno) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Reads until the writer closes or `out` is full; -1 if the deadline passes before that. */
static ssize_t read_until(int fd, void *out, size_t out_bytes, struct mono deadline)
{
    size_t used = 0;
    while (used < out_bytes) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        int64_t left_ms = mono_since(deadline, clock_mono_now()) / NS_PER_MS;
        int ready = left_ms > 0 ? poll(&waiting, 1, (int)left_ms) : 0;
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        ssize_t got = ready > 0 ? read(fd, (char *)out + used, out_bytes - used) : -1;
        if (got <= 0) {
            return got == 0 ? (ssize_t)used : -1;
        }
        used += (size_t)got;
    }
    return (ssize_t)used;
}

static bool await_end(pid_t pid, struct mono deadline, int *out_wait_status)
{
    struct timespec pause = {.tv_nsec = FIRST_LOOK_NS};
    while (waitpid(pid, out_wait_status, WNOHANG) != pid) {
        if (!mono_before(clock_mono_now(), deadline)) {
            return false;
        }
        (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
        pause.tv_nsec = pause.tv_nsec * 2 < LAST_LOOK_NS ? pause.tv_nsec * 2 : LAST_LOOK_NS;
    }
    return true;
}

/* Waits for what the child has to say, then for its end. */
static int collect(const struct delegate_question *q, struct child *c, struct delegate_answer *out,
                   struct cni_error *error)
{
    int sys_errno = 0;
    struct mono deadline = mono_add(clock_mono_now(), q->deadline_ms * NS_PER_MS);
    ssize_t failed = read_until(c->failure[0], &sys_errno, sizeof(sys_errno), deadline);
    if (failed == (ssize_t)sizeof(sys_errno)) {
        return delegate_fail_to_run(q->file, sys_errno, error);
    }
    ssize_t len =
        failed < 0 ? -1 : read_until(c->answer[0], out->text, sizeof(out->text), deadline);
    out->len = len < 0 ? 0 : (size_t)len;
    if (len == (ssize_t)sizeof(out->text)) {
        return 0; /* enough: what it says on is nobody's */
    }
    if (len < 0 || !await_end(c->pid, deadline, &out->wait_status)) {
        return cni_fail(error, CNI_TRY_AGAIN_LATER, "",
                        "the delegate '%s' did not answer %s within %d ms", q->file, q->verb,
                        q->deadline_ms);
    }
    c->pid = -1; /* it has been waited for */
    return 0;
}

static void close_end(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd); /* a pipe, or memory: nothing to lose */
    }
    *fd = -1;
}

static void cleanup_child(struct child *c)
{
    if (c->pid > 0) {
        int ignored;
        (void)kill(-c->pid, SIGKILL); /* with all that it has started */
        (void)kill(c->pid, SIGKILL);  /* if it had no time to make a group */
        (void)await_end(c->pid, mono_add(clock_mono_now(), KILLED_MS * NS_PER_MS), &ignored);
    }
    int *const ends[] = {&c->config, &c->answer[0], &c->answer[1], &c->failure[0], &c->failure[1]};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        close_end(ends[i]);
    }
}

int delegate_run(const struct delegate_question *q, struct delegate_answer *out,
                 struct cni_error *error)
{
    pid_t parent = getpid();
    CLEANUP(child)
    struct child c = {.pid = -1, .config = -1, .answer = {-1, -1}, .failure = {-1, -1}};
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, as it may be inherited, no child could be awaited */
    c.config = delegate_config_fd(q->config);
    if (c.config >= 0 && pipe2(c.answer, O_CLOEXEC) == 0 && pipe2(c.failure, O_CLOEXEC) == 0) {
        c.pid = fork();
    }
    if (c.pid == 0) {
        become(q, &c, parent);
    }
    if (c.pid < 0) {
        return cni_fail(error, CNI_IO_FAILURE, "", "asking the delegate '%s' for %s: %s", q->file,
                        q->verb, strerrordesc_np(errno));
    }
    close_end(&c.answer[1]); /* or their end would never be seen */
    close_end(&c.failure[1]);
    return collect(q, &c, out, error);
}
