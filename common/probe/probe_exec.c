/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_exec.h"

#include "base/text.h"
#include "probe/probe_spec.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct exec_probe {
    struct ev_loop *loop; /* borrowed */
    char *command;        /* owned */
    probe_done_fn *done;
    void *user;
    pid_t pid;      /* also the process group; 0: none */
    bool cancelled; /* killed; nobody waits for its result */
    ev_io exited;   /* on the pidfd */
    ev_io readable; /* on the read end of its output; fd -1 once closed */
    char output[PROBE_EXEC_OUTPUT_BYTES];
    size_t output_len;
};

/* ---- output --------------------------------------------------------------------------------- */

/* Makes room by dropping the older half: only the last line matters. */
static void keep_tail(struct exec_probe *p)
{
    size_t half = sizeof(p->output) / 2;
    if (p->output_len == sizeof(p->output)) {
        memmove(p->output, p->output + half, sizeof(p->output) - half);
        p->output_len -= half;
    }
}

static void close_output(struct exec_probe *p)
{
    if (p->readable.fd >= 0) {
        ev_io_stop(p->loop, &p->readable);
        (void)close(p->readable.fd); /* reading only */
        ev_io_set(&p->readable, -1, EV_READ);
    }
}

/* Reads what is there; a bounded number of times, for a command that never stops writing. */
static void read_output(struct exec_probe *p)
{
    for (int i = 0; i < 64 && p->readable.fd >= 0; i++) {
        keep_tail(p);
        ssize_t got =
            read(p->readable.fd, p->output + p->output_len, sizeof(p->output) - p->output_len);
        if (got > 0) {
            p->output_len += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_output(p);
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
    (void)loop;
    (void)revents;
    read_output(w->data);
}

/* The last line that is not empty; `len` 0 if there is none. */
static const char *last_line(const struct exec_probe *p, size_t *out_len)
{
    size_t end = p->output_len;
    while (end > 0 && (p->output[end - 1] == '\n' || p->output[end - 1] == '\r' ||
                       p->output[end - 1] == ' ')) {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && p->output[begin - 1] != '\n') {
        begin--;
    }
    *out_len = end - begin;
    return p->output + begin;
}

/* ---- end ------------------------------------------------------------------------------------ */

static void report(struct exec_probe *p, const siginfo_t *info)
{
    char failure[300];
    char line[200];
    size_t line_len;
    const char *last = last_line(p, &line_len);
    if (info->si_code == CLD_EXITED && info->si_status == 0) {
        p->done(p->user, PROBE_PASSED, "");
        return;
    }
    text_sanitize(line, sizeof(line), last, line_len);
    text_format(failure, sizeof(failure), "%s %d%s%s",
                info->si_code == CLD_EXITED ? "exit status" : "killed by signal", info->si_status,
                line[0] ? ": " : "", line);
    p->done(p->user, PROBE_WRONG, failure);
}

/* While the leader is not reaped its id is not reused. */
static void kill_group(struct exec_probe *p)
{
    (void)kill(-p->pid, SIGKILL); /* ESRCH: it is gone already */
}

/* The command is dead and reaped. */
static void forget(struct exec_probe *p)
{
    ev_io_stop(p->loop, &p->exited);
    (void)close(p->exited.fd); /* a pidfd holds nothing back */
    close_output(p);
    p->pid = 0;
}

static void on_exited(struct ev_loop *loop, ev_io *w, int revents)
{
    (void)loop;
    (void)revents;
    struct exec_probe *p = w->data;
    siginfo_t info = {0};
    bool lost = waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0;
    if (!lost && info.si_pid == 0) {
        return; /* not yet */
    }
    if (!lost) {
        kill_group(p);                        /* what it left in the background */
        (void)waitpid(p->pid, NULL, WNOHANG); /* it has ended */
    }
    bool cancelled = p->cancelled;
    read_output(p);
    forget(p);
    if (cancelled) {
        return;
    }
    if (lost) { /* somebody waited for it in our place; the descriptor would stay readable */
        p->done(p->user, PROBE_SILENT, "its exit status was lost");
    } else {
        report(p, &info); /* may start the next run */
    }
}

/* ---- run ------------------------------------------------------------------------------------ */

/* Starts /bin/sh with its output on `out_fd`: own group, no signal blocked or ignored, no other
 * descriptor of ours. Returns 0 or an errno. */
static int spawn(const char *command, int out_fd, pid_t *out_pid)
{
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t all;
    int rc = posix_spawn_file_actions_init(&files);
    if (rc != 0) {
        return rc;
    }
    rc = posix_spawnattr_init(&attr);
    if (rc != 0) {
        (void)posix_spawn_file_actions_destroy(&files); /* cannot fail in glibc */
        return rc;
    }
    sigemptyset(&none);
    sigfillset(&all);
    const int steps[] = {
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0),
        posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO),
        posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO),
        posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1),
        posix_spawnattr_setpgroup(&attr, 0),
        posix_spawnattr_setsigmask(&attr, &none),
        posix_spawnattr_setsigdefault(&attr, &all),
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF),
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && rc == 0; i++) {
        rc = steps[i];
    }
    if (rc == 0) {
        rc = posix_spawn(out_pid, "/bin/sh", &files, &attr, argv, environ);
    }
    (void)posix_spawnattr_destroy(&attr);           /* cannot fail in glibc */
    (void)posix_spawn_file_actions_destroy(&files); /* cannot fail in glibc */
    return rc;
}

static void fail(struct exec_probe *p, const char *what, int sys_errno)
{
    char failure[160];
    const char *why = strerrordesc_np(sys_errno);
    bool is_our_lack =
        sys_errno == EAGAIN /* of processes */ || probe_outcome_is_our_lack(sys_errno);
    text_format(failure, sizeof(failure), "%s: %s", what, why ? why : "unknown error");
    p->done(p->user, is_our_lack ? PROBE_UNABLE : PROBE_SILENT, failure);
}

static void watch(struct exec_probe *p, int pidfd, int out_fd)
{
    p->cancelled = false;
    p->output_len = 0;
    ev_io_set(&p->exited, pidfd, EV_READ);
    ev_io_set(&p->readable, out_fd, EV_READ);
    ev_io_start(p->loop, &p->exited);
    ev_io_start(p->loop, &p->readable);
}

static void start(void *self)
{
    struct exec_probe *p = self;
    int ends[2];
    if (p->pid != 0) {
        p->done(p->user, PROBE_SILENT, "its former run cannot be killed");
        return;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fail(p, "cannot make a pipe", errno);
        return;
    }
    int rc = spawn(p->command, ends[1], &p->pid);
    (void)close(ends[1]); /* the child has its own */
    if (rc != 0) {
        (void)close(ends[0]); /* nothing was read */
        p->pid = 0;
        fail(p, "cannot start /bin/sh", rc);
        return;
    }
    int pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (pidfd < 0) {
        rc = errno;
        kill_group(p);
        (void)waitpid(p->pid, NULL, 0); /* just killed, and young */
        (void)close(ends[0]);           /* nothing was read */
        p->pid = 0;
        fail(p, "cannot watch the command", rc);
        return;
    }
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK); /* a pipe takes this always */
    watch(p, pidfd, ends[0]);
}

static const char *cancel(void *self)
{
    struct exec_probe *p = self;
    if (p->pid != 0) {
        kill_group(p);
        p->cancelled = true; /* on_exited reaps it */
    }
    return NULL;
}

static int create(struct ev_loop *loop, const struct probe_spec *spec, probe_done_fn *done,
                  void *user, void **out, struct err *e)
{
    struct exec_probe *p = calloc(1, sizeof(*p));
    char *command = strdup(spec->target);
    if (!p || !command) {
        free(p);
        free(command);
        return err_no_memory(e);
    }
    p->loop = loop;
    p->command = command;
    p->done = done;
    p->user = user;
    ev_io_init(&p->exited, on_exited, -1, EV_READ);
    ev_io_init(&p->readable, on_readable, -1, EV_READ);
    p->exited.data = p;
    p->readable.data = p;
    *out = p;
    return 0;
}

static void destroy(void *self)
{
    struct exec_probe *p = self;
    if (!p) {
        return;
    }
    if (p->pid != 0) {
        kill_group(p);
        (void)waitpid(p->pid, NULL, WNOHANG); /* our own end must not wait for a stuck child */
        forget(p);
    }
    free(p->command);
    free(p);
}

const struct probe_method *probe_exec_method(void)
{
    static const struct probe_method method = {
        .create = create, .start = start, .cancel = cancel, .destroy = destroy};
    return &method;
}
