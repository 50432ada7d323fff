/* SPDX-License-Identifier: Apache-2.0 */
/* Signals are sent to ourselves; the loop runs for milliseconds. */
#include "loop/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>

struct fixture {
    struct daemon *daemon;
    struct boot_timer *timer;
    struct mono fired_at;
    int stops;
    int looks;
    int fires;
    bool quit_on_stop;
    bool free_on_fire;
};

static void on_stop(void *user)
{
    struct fixture *f = user;
    f->stops++;
    if (f->quit_on_stop) {
        daemon_quit(f->daemon, 7);
    }
}

struct blow {
    int signo;
    int left;
};

static void kill_ourselves(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct blow *blow = w->data;
    (void)raise(blow->signo);
    if (--blow->left == 0) { /* libev would hand what is left over to the next test's loop */
        ev_timer_stop(loop, w);
    }
}

/* Sends `signo` once the loop runs, `times` times, each 5 ms. */
static int run_with_signal(struct fixture *f, int signo, int times)
{
    ev_timer timer;
    struct blow blow = {.signo = signo, .left = times};
    ev_timer_init(&timer, kill_ourselves, 0.001, 0.005);
    timer.data = &blow;
    ev_timer_start(daemon_loop(f->daemon), &timer);
    int status = daemon_run(f->daemon);
    ev_timer_stop(daemon_loop(f->daemon), &timer);
    return status;
}

TEST(a_signal_asks_once_and_a_second_one_or_the_grace_period_ends)
{
    static const struct {
        uint32_t grace_ms;
        daemon_stop_fn *on_stop;
        bool quit_on_stop;
        int signo;
        int times;
        int status;
    } rows[] = {
        {10000, on_stop, true, SIGTERM, 1, 7},
        {10000, on_stop, false, SIGINT, 2, 128 + SIGINT},
        {20, on_stop, false, SIGTERM, 1, 0},
        {10000, NULL, false, SIGTERM, 1, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture f = {.quit_on_stop = rows[i].quit_on_stop};
        f.daemon = daemon_new(rows[i].grace_ms, rows[i].on_stop, NULL, &f);
        assert_int_equal(run_with_signal(&f, rows[i].signo, rows[i].times), rows[i].status);
        assert_int_equal(f.stops, rows[i].on_stop != NULL);
        daemon_free(f.daemon);
    }
}

TEST(quitting_before_the_loop_runs_is_remembered)
{
    struct fixture f = {0};
    f.daemon = daemon_new(10000, NULL, NULL, NULL);
    daemon_quit(f.daemon, 3);
    daemon_quit(f.daemon, 4);
    assert_int_equal(daemon_run(f.daemon), 3);
    daemon_free(f.daemon);
    daemon_free(NULL);
}

TEST(a_closed_pipe_does_not_kill)
{
    int fds[2];
    struct fixture f = {0};
    f.daemon = daemon_new(10000, NULL, NULL, NULL);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    (void)close(fds[0]);
    assert_int_equal(write(fds[1], "x", 1), -1);
    (void)close(fds[1]);
    daemon_free(f.daemon);
}

TEST(what_a_parent_ignored_or_blocked_counts_no_more)
{
    static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGALRM};
    struct sigaction had;
    sigset_t mask;
    struct fixture f = {.quit_on_stop = true};
    assert_ptr_not_equal(signal(SIGCHLD, SIG_IGN), SIG_ERR);
    assert_ptr_not_equal(signal(SIGTERM, SIG_IGN), SIG_ERR);
    assert_int_equal(sigfillset(&mask), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &mask, NULL), 0);
    f.daemon = daemon_new(10000, on_stop, NULL, &f);
    assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        assert_int_equal(sigismember(&mask, signals[i]), 0);
    }
    assert_int_equal(sigaction(SIGCHLD, NULL, &had), 0);
    assert_ptr_equal(had.sa_handler, SIG_DFL);
    pid_t child = fork(); /* one whose end is ignored leaves no status behind */
    if (child == 0) {
        _exit(3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_int_equal(run_with_signal(&f, SIGTERM, 1), 7);
    daemon_free(f.daemon);
}

/* The service manager's side of $NOTIFY_SOCKET. */
static int listen_for_notes(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    memcpy(address.sun_path, name, strlen(name));
    if (name[0] == '@') {
        address.sun_path[0] = '\0';
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    return fd;
}

static const char *next_note(int fd)
{
    static char text[1024];
    ssize_t got = recv(fd, text, sizeof(text) - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

TEST(ready_is_said_once_and_later_only_the_status)
{
    char dir[SCRATCH_BYTES];
    char path[64];
    char abstract[64];
    scratch_make(dir);
    (void)snprintf(path, sizeof(path), "%s/notify", dir);
    (void)snprintf(abstract, sizeof(abstract), "@dpu-test-daemon-%d", (int)getpid());
    const char *const names[] = {path, abstract};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct fixture f = {.quit_on_stop = true};
        int fd = listen_for_notes(names[i]);
        assert_int_equal(setenv("NOTIFY_SOCKET", names[i], 1), 0);
        f.daemon = daemon_new(1000, on_stop, NULL, &f);
        daemon_notify_ready(f.daemon, "Ready: DPU\nrenewed");
        assert_string_equal(next_note(fd), "READY=1\nSTATUS=Ready: DPU renewed");
        daemon_notify_ready(f.daemon, "NotReady");
        assert_string_equal(next_note(fd), "STATUS=NotReady");
        assert_int_equal(run_with_signal(&f, SIGTERM, 1), 7);
        assert_string_equal(next_note(fd), "STOPPING=1");
        assert_string_equal(next_note(fd), "");
        daemon_free(f.daemon);
        (void)close(fd);
    }
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    scratch_remove(dir);
}

TEST(nobody_listening_is_no_error)
{
    char too_long[200];
    memset(too_long, '/', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    const char *const names[] = {"", "@", "relative", "vsock:2:1234", "/nonexistent/x", too_long};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct daemon *d = NULL;
        assert_int_equal(setenv("NOTIFY_SOCKET", names[i], 1), 0);
        d = daemon_new(1000, NULL, NULL, NULL);
        daemon_notify_ready(d, "here");
        daemon_free(d);
    }
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
}

TEST(the_watchdog_is_fed_at_a_quarter_of_its_period_if_it_is_for_us)
{
    assert_int_equal(daemon_watchdog_ns("30000000", "42", 42), 30 * NS_PER_SEC / 4);
    assert_int_equal(daemon_watchdog_ns("30000000", NULL, 42), 30 * NS_PER_SEC / 4);
    assert_int_equal(daemon_watchdog_ns("30000000", "41", 42), 0);
    assert_int_equal(daemon_watchdog_ns("30000000", "x", 42), 0);
    assert_int_equal(daemon_watchdog_ns(NULL, NULL, 42), 0);
    assert_int_equal(daemon_watchdog_ns("soon", NULL, 42), 0);
    assert_int_equal(daemon_watchdog_ns("18446744073709551615", NULL, 42), 0);
}

/* Works twice, then no more, then again. */
static bool works_at_times(void *user, struct mono now)
{
    struct fixture *f = user;
    assert_true(now.ns > 0);
    f->looks++;
    if (f->looks == 10) {
        daemon_quit(f->daemon, 0);
    }
    return f->looks <= 2 || f->looks == 10;
}

TEST(the_watchdog_goes_hungry_while_the_work_is_not_done)
{
    char name[64];
    struct fixture f = {0};
    (void)snprintf(name, sizeof(name), "@dpu-test-hungry-%d", (int)getpid());
    int fd = listen_for_notes(name);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "4000", 1), 0);
    f.daemon = daemon_new(1000, on_stop, works_at_times, &f);
    assert_int_equal(daemon_run(f.daemon), 0);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(next_note(fd), "WATCHDOG=1");
    }
    assert_string_equal(next_note(fd), "");
    daemon_free(f.daemon);
    (void)close(fd);
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
}

static void on_fire(void *user)
{
    struct fixture *f = user;
    f->fires++;
    f->fired_at = clock_mono_now();
    if (f->free_on_fire) {
        boot_timer_free(f->timer);
        f->timer = NULL;
    }
    daemon_quit(f->daemon, 0);
}

/* In place of the C library's. */
static int times_set;

int timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *former)
{
    times_set++;
    return (int)syscall(SYS_timerfd_settime, fd, flags, when, former);
}

static void new_timer(struct fixture *f)
{
    f->daemon = daemon_new(1000, NULL, NULL, NULL);
    f->timer = boot_timer_new(daemon_loop(f->daemon), on_fire, f);
}

static void fini(struct fixture *f)
{
    boot_timer_free(f->timer);
    daemon_free(f->daemon);
}

TEST(a_timer_fires_once_and_never_before_its_deadline)
{
    struct fixture f = {0};
    new_timer(&f);
    struct mono deadline = mono_add(clock_mono_now(), 10 * NS_PER_MS);
    boot_timer_arm(f.timer, deadline);
    (void)daemon_run(f.daemon);
    assert_int_equal(f.fires, 1);
    assert_true(mono_reached(f.fired_at, deadline));
    ev_run(daemon_loop(f.daemon), EVRUN_NOWAIT);
    assert_int_equal(f.fires, 1);
    fini(&f);
}

TEST(a_deadline_in_the_past_fires_at_once_and_its_function_may_free_the_timer)
{
    static const int64_t past_ns[] = {INT64_MIN, -1, 0, 1};
    for (size_t i = 0; i < ARRAY_LEN(past_ns); i++) {
        struct fixture f = {.free_on_fire = i % 2 == 1};
        new_timer(&f);
        boot_timer_arm(f.timer, (struct mono){past_ns[i]});
        (void)daemon_run(f.daemon);
        assert_int_equal(f.fires, 1);
        fini(&f);
    }
}

TEST(a_disarmed_timer_does_not_fire)
{
    struct fixture f = {0};
    new_timer(&f);
    boot_timer_arm(f.timer, (struct mono){1});
    boot_timer_arm(f.timer, MONO_NEVER);
    ev_run(daemon_loop(f.daemon), EVRUN_NOWAIT);
    assert_int_equal(f.fires, 0);
    boot_timer_arm(f.timer, (struct mono){INT64_MAX - 1}); /* far, not overflowing into the past */
    ev_run(daemon_loop(f.daemon), EVRUN_NOWAIT);
    assert_int_equal(f.fires, 0);
    fini(&f);
}

/* One that has gone off, or was never set, is not disarmed. */
TEST(the_kernel_is_told_of_a_deadline_and_of_nothing_else)
{
    struct fixture f = {0};
    times_set = 0;
    new_timer(&f);
    boot_timer_arm(f.timer, MONO_NEVER);
    assert_int_equal(times_set, 0);
    boot_timer_arm(f.timer, mono_add(clock_mono_now(), NS_PER_MS));
    (void)daemon_run(f.daemon);
    assert_int_equal(f.fires, 1);
    boot_timer_arm(f.timer, MONO_NEVER);
    assert_int_equal(times_set, 1);
    fini(&f);
}

struct named_timer {
    struct boot_timer *timer;
    char *fired;
    char name;
};

static void add_name(void *user)
{
    const struct named_timer *t = user;
    t->fired[strlen(t->fired)] = t->name;
}

TEST(timers_of_one_loop_fire_in_the_order_of_their_deadlines)
{
    struct named_timer timers[] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};
    static const int64_t after_ms[] = {30, 10, 20};
    char fired[ARRAY_LEN(timers) + 1] = "";
    struct daemon *d = daemon_new(1000, NULL, NULL, NULL);
    struct mono now = clock_mono_now();
    for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
        timers[i].fired = fired;
        timers[i].timer = boot_timer_new(daemon_loop(d), add_name, &timers[i]);
        boot_timer_arm(timers[i].timer, mono_add(now, after_ms[i] * NS_PER_MS));
    }
    while (strlen(fired) < ARRAY_LEN(timers)) {
        ev_run(daemon_loop(d), EVRUN_ONCE);
    }
    assert_string_equal(fired, "bca");
    for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
        boot_timer_free(timers[i].timer);
    }
    daemon_free(d);
}

static int be_quiet(void **state)
{
    log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    return 0;
}

TEST_GROUP(be_quiet, NULL)
