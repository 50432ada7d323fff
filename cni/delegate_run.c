/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate_run.h"

#include "base/clock.h"
#include "base/mem.h"
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
    int config;        /* its stdin */
    int answer[2];     /* its stdout */
    int words[2];      /* its stderr */
    size_t words_left; /* how much more of that is passed on */
    int failure[2];    /* closed by a successful exec; else errno comes through */
};

/* In the child. Never returns. */
static void become(const struct delegate_question *q, const struct child *c, pid_t parent)
{
    int sys_errno = 0;
    int words = q->is_quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : c->words[1];
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(EXIT_FAILURE);
    }
    if (setpgid(0, 0) != 0 || words < 0 || setenv("CNI_COMMAND", q->verb, 1) != 0 ||
        dup2(c->config, STDIN_FILENO) < 0 || dup2(c->answer[1], STDOUT_FILENO) < 0 ||
        dup2(words, STDERR_FILENO) < 0) {
        sys_errno = errno;
    } else {
        sys_errno = delegate_exec_patiently(q->file);
    }
    ssize_t told = write(c->failure[1], &sys_errno, sizeof(sys_errno));
    _exit(told == (ssize_t)sizeof(sys_errno) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* False if that does not come before the deadline. */
static bool await_event(int fd, short event, struct mono deadline)
{
    struct pollfd waiting = {.fd = fd, .events = event};
    int ready = -1;
    while (ready < 0) {
        int64_t left_ms = mono_since(deadline, clock_mono_now()) / NS_PER_MS;
        ready = left_ms > 0 ? poll(&waiting, 1, (int)left_ms) : 0;
        if (ready < 0 && errno != EINTR) {
            return false;
        }
    }
    return ready > 0;
}

static void close_end(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd); /* a pipe, or memory: nothing to lose */
    }
    *fd = -1;
}

/* What is in the pipe now, without waiting. */
static size_t read_some(int *fd, void *out, size_t out_bytes)
{
    ssize_t got = *fd >= 0 ? read(*fd, out, out_bytes) : -1;
    if (got == 0) {
        close_end(fd); /* nobody has its other end */
    }
    return got > 0 ? (size_t)got : 0;
}

/* Takes a piece of what the child says. Returns false if there was none, or none that counts. */
static bool hear(struct child *c, struct delegate_answer *out, struct mono deadline)
{
    char words[PIPE_BUF];
    size_t got = read_some(&c->answer[0], out->text + out->len, sizeof(out->text) - out->len);
    size_t said = read_some(&c->words[0], words, sizeof(words));
    size_t passed = said < c->words_left ? said : c->words_left;
    out->len += got;
    c->words_left -= passed;
    if (passed > 0 && await_event(STDERR_FILENO, POLLOUT, deadline)) {
        /* A pipe that has room takes so little whole. Nobody can be told that it failed. */
        (void)!write(STDERR_FILENO, words, passed);
    }
    return got > 0 || passed > 0;
}

/* Until the child has ended, and not until its pipes are closed: what it started in a session of
 * its own may hold them for as long as it likes. False if the deadline passes before that. */
static bool hear_out(struct child *c, struct delegate_answer *out, struct mono deadline)
{
    struct timespec pause = {.tv_nsec = FIRST_LOOK_NS};
    for (;;) {
        bool has_ended = waitpid(c->pid, &out->wait_status, WNOHANG) == c->pid;
        bool is_news = hear(c, out, deadline);
        while (has_ended && out->len < sizeof(out->text) && hear(c, out, deadline)) {
        }
        if (has_ended) {
            c->pid = -1;
        }
        if (has_ended || out->len == sizeof(out->text)) {
            return true; /* what it says beyond that is nobody's */
        }
        if (!mono_before(clock_mono_now(), deadline)) {
            return false;
        }
        struct pollfd waiting[] = {{.fd = c->answer[0], .events = POLLIN},
                                   {.fd = c->words[0], .events = POLLIN}};
        (void)ppoll(waiting, ARRAY_LEN(waiting), &pause, NULL); /* it is looked at anyway */
        pause.tv_nsec = is_news ? FIRST_LOOK_NS : 2 * pause.tv_nsec;
        pause.tv_nsec = pause.tv_nsec < LAST_LOOK_NS ? pause.tv_nsec : LAST_LOOK_NS;
    }
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

/* Waits for what the child has to say, and for its end. */
static int collect(const struct delegate_question *q, struct child *c, struct delegate_answer *out,
                   struct cni_error *error)
{
    int sys_errno = 0;
    struct mono deadline = mono_add(clock_mono_now(), q->deadline_ms * NS_PER_MS);
    bool is_run = await_event(c->failure[0], POLLIN, deadline);
    if (is_run && read(c->failure[0], &sys_errno, sizeof(sys_errno)) > 0) {
        return delegate_fail_to_run(q->file, sys_errno, error);
    }
    out->len = 0;
    if (!is_run || !hear_out(c, out, deadline)) {
        return cni_fail(error, CNI_TRY_AGAIN_LATER, "",
                        "the delegate '%s' did not answer %s within %d ms", q->file, q->verb,
                        q->deadline_ms);
    }
    return 0;
}

static void cleanup_child(struct child *c)
{
    if (c->pid > 0) {
        int ignored;
        (void)kill(-c->pid, SIGKILL); /* with all that it has started */
        (void)kill(c->pid, SIGKILL);  /* if it had no time to make a group */
        (void)await_end(c->pid, mono_add(clock_mono_now(), KILLED_MS * NS_PER_MS), &ignored);
    }
    int *const ends[] = {&c->config,   &c->answer[0],  &c->answer[1], &c->words[0],
                         &c->words[1], &c->failure[0], &c->failure[1]};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        close_end(ends[i]);
    }
}

/* Its first end does not block. */
static bool open_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

int delegate_run(const struct delegate_question *q, struct delegate_answer *out,
                 struct cni_error *error)
{
    pid_t parent = getpid();
    CLEANUP(child)
    struct child c = {.pid = -1,
                      .config = -1,
                      .answer = {-1, -1},
                      .words = {-1, -1},
                      .words_left = DELEGATE_WORDS_MAX_BYTES,
                      .failure = {-1, -1}};
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, as it may be inherited, no child could be awaited */
    c.config = delegate_config_fd(q->config);
    if (c.config >= 0 && open_pipe(c.answer) && open_pipe(c.words) && open_pipe(c.failure)) {
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
    close_end(&c.words[1]);
    close_end(&c.failure[1]);
    return collect(q, &c, out, error);
}
