/* SPDX-License-Identifier: Apache-2.0 */
/* Probes with real commands and sockets on loopback. */
#include "probe/probe_set.h"

#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "tests/support/case.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { GUARD_S = 20 };

struct seen {
    struct ev_loop *loop;
    int runs;
    int wanted;
    bool passed;
    enum probe_outcome outcome;
    char failure[400];
};

static void on_result(void *user, const struct probe_result *result)
{
    struct seen *seen = user;
    assert_int_equal(result->probe, 3);
    seen->outcome = result->outcome;
    seen->passed = result->outcome == PROBE_PASSED;
    (void)text_copy(seen->failure, sizeof(seen->failure), seen->passed ? "" : result->reason);
    if (++seen->runs >= seen->wanted) {
        ev_break(seen->loop, EVBREAK_ALL);
    }
}

static void on_guard(struct ev_loop *loop, ev_timer *w, int revents)
{
    (void)w;
    (void)revents;
    ev_break(loop, EVBREAK_ALL);
}

static void run_loop(struct seen *seen, int wanted)
{
    ev_timer guard;
    ev_timer_init(&guard, on_guard, GUARD_S, 0);
    ev_timer_start(seen->loop, &guard);
    seen->wanted = wanted;
    while (seen->runs < wanted && ev_is_active(&guard)) {
        ev_run(seen->loop, 0);
    }
    ev_timer_stop(seen->loop, &guard);
    assert_int_equal(seen->runs, wanted);
}

static struct probe *open_probe(struct seen *seen, const char *text, int64_t timeout_ms)
{
    struct probe_spec spec = {.ovs_run_dir = "/nowhere",
                              .ovn_run_dir = "/nowhere",
                              .interval_ns = NS_PER_MS,
                              .retry_ns = NS_PER_MS,
                              .timeout_ns = timeout_ms * NS_PER_MS};
    struct probe *probe = NULL;
    struct err e = ERR_INIT;
    *seen = (struct seen){.loop = ev_loop_new(0)};
    assert_non_null(seen->loop);
    assert_int_equal(probe_spec_parse(text, 0, &spec, &spec, &e), 0);
    if (probe_new(seen->loop, &spec, 3, on_result, seen, &probe, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    return probe;
}

static void close_probe(struct seen *seen, struct probe *probe)
{
    probe_free(probe);
    ev_loop_destroy(seen->loop);
}

/* Runs it once. */
static struct seen try_once(const char *text, int64_t timeout_ms)
{
    struct seen seen;
    struct probe *probe = open_probe(&seen, text, timeout_ms);
    probe_start(probe);
    if (seen.runs == 0) {
        run_loop(&seen, 1);
    }
    close_probe(&seen, probe);
    return seen;
}

/* ---- exec ----------------------------------------------------------------------------------- */

TEST(command_is_judged_by_its_status_and_last_line)
{
    static const struct {
        const char *text;
        const char *failure; /* NULL: passes */
    } rows[] = {
        {"exec:true", NULL},
        {"exec:echo noise; exit 0", NULL},
        {"exec:false", "exit status 1"},
        {"exec:echo first; echo the reason >&2; echo; exit 7", "exit status 7: the reason"},
        {"exec:printf 'no\\001newline'; exit 2", "exit status 2: no newline"},
        {"exec:kill -9 $$", "killed by signal 9"},
        {"exec:no-such-command-here 2>/dev/null", "exit status 127"},
        {"exec:i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo end; exit 1",
         "exit status 1: end"},
        {"exec:test -t 0 || cat", NULL}, /* no input: no hang */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct seen seen = try_once(rows[i].text, 10000);
        if (seen.passed != !rows[i].failure ||
            (rows[i].failure && strcmp(seen.failure, rows[i].failure) != 0)) {
            fail_msg("'%s' gave '%s'", rows[i].text, seen.failure);
        }
    }
}

TEST(command_starts_without_our_signals_and_descriptors)
{
    int kept = dup(STDOUT_FILENO); /* not close-on-exec */
    char text[128];
    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    (void)snprintf(text, sizeof(text), "exec:test ! -e /proc/self/fd/%d", kept);
    assert_true(try_once(text, 10000).passed);
    assert_true(try_once("exec:grep -q '^SigIgn:.*0000000$' /proc/self/status", 10000).passed);
    assert_true(try_once("exec:test $(cut -d' ' -f5 /proc/$$/stat) = $$", 10000).passed);
    (void)close(kept);
}

/* Gone or a zombie (nobody here may have reaped it) before ten seconds are over: a signal takes
 * its time on a busy machine. */
static bool dies(int pid)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    for (int i = 0; i < 1000; i++) {
        char line[256] = "gone Z";
        const struct timespec pause = {.tv_nsec = 10 * NS_PER_MS};
        CLEANUP(file) FILE *file = fopen(path, "r");
        if (!file || !fgets(line, sizeof(line), file) || strstr(line, ") Z")) {
            return true;
        }
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

static int pid_in(const char *path)
{
    char line[32];
    int pid = 0;
    CLEANUP(file) FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    for (const char *c = line; *c >= '0' && *c <= '9'; c++) {
        pid = pid * 10 + (*c - '0');
    }
    return pid;
}

TEST(command_that_hangs_is_killed_with_all_its_children)
{
    char path[] = "/tmp/dpu-probe-XXXXXX";
    char text[200];
    struct seen seen;
    CLEANUP(fd) int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)snprintf(text, sizeof(text), "exec:sleep 1000 & echo $! > %s; wait", path);
    struct probe *probe = open_probe(&seen, text, 1000);
    probe_start(probe);
    run_loop(&seen, 1);
    assert_string_equal(seen.failure, "no result within 1s");
    int pid = pid_in(path);
    assert_true(pid > 1);
    run_loop(&seen, 2); /* the next run fails as well, in its own way on a busy machine */
    assert_false(seen.passed);
    close_probe(&seen, probe);
    (void)unlink(path);
    assert_true(dies(pid));
}

TEST(command_that_ends_takes_its_children_with_it)
{
    static const char *const ends[] = {"exit 0", "exit 1", "kill -9 $$"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char path[] = "/tmp/dpu-probe-XXXXXX";
        char text[200];
        CLEANUP(fd) int fd = mkstemp(path);
        assert_true(fd >= 0);
        (void)snprintf(text, sizeof(text), "exec:sleep 30 & echo $! > %s; %s", path, ends[i]);
        assert_int_equal(try_once(text, 10000).passed, i == 0);
        int pid = pid_in(path);
        (void)unlink(path);
        assert_true(pid > 1);
        assert_true(dies(pid));
    }
}

TEST(command_whose_status_is_lost_has_failed)
{
    struct rusage before;
    struct rusage after;
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    assert_ptr_not_equal(signal(SIGCHLD, SIG_IGN), SIG_ERR); /* then nobody can wait for it */
    struct seen seen = try_once("exec:sleep 0.1", 5000);
    assert_ptr_not_equal(signal(SIGCHLD, SIG_DFL), SIG_ERR);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_false(seen.passed);
    assert_non_null(strstr(seen.failure, "exit status was lost"));
    assert_true(after.ru_utime.tv_sec - before.ru_utime.tv_sec < 3); /* it did not spin */
}

TEST(probe_runs_again_and_again)
{
    struct seen seen;
    struct probe *probe = open_probe(&seen, "exec:true", 10000);
    probe_start(probe);
    run_loop(&seen, 5);
    assert_true(seen.passed);
    close_probe(&seen, probe);
}

TEST(probe_may_be_freed_during_a_run)
{
    struct seen seen;
    struct probe *probe = open_probe(&seen, "exec:sleep 1000", 10000);
    probe_start(probe);
    close_probe(&seen, probe);
    probe_free(NULL);
}

/* ---- unix ----------------------------------------------------------------------------------- */

static void assert_ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t end_len = strlen(end);
    if (len < end_len || strcmp(text + len - end_len, end) != 0) {
        fail_msg("'%s' does not end with '%s'", text, end);
    }
}

TEST(socket_is_well_if_somebody_listens)
{
    char dir[] = "/tmp/dpu-probe-XXXXXX";
    char text[128];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(dir));
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", dir);
    (void)snprintf(text, sizeof(text), "unix:%s", address.sun_path);
    assert_ends_with(try_once(text, 1000).failure, "s': No such file or directory");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_ends_with(try_once(text, 1000).failure, "s': Connection refused");
    assert_int_equal(listen(fd, 0), 0);
    assert_true(try_once(text, 1000).passed);
    (void)close(fd);
    (void)unlink(address.sun_path);
    (void)rmdir(dir);
}

TEST(full_backlog_is_a_failure)
{
    char dir[] = "/tmp/dpu-probe-XXXXXX";
    char text[128];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int clients[3];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", dir);
    (void)snprintf(text, sizeof(text), "unix:%s", address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 0), 0);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], (struct sockaddr *)&address, sizeof(address)); /* fill it */
    }
    assert_ends_with(try_once(text, 1000).failure, "s': its backlog is full");
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        (void)close(clients[i]);
    }
    (void)close(fd);
    (void)unlink(address.sun_path);
    (void)rmdir(dir);
}

/* ---- http ----------------------------------------------------------------------------------- */

struct server {
    ev_io acceptable;
    ev_io readable;
    int port;
    const char *answer; /* NULL: say nothing */
    bool hang_up;
    char request[1024];
};

static void on_request(struct ev_loop *loop, ev_io *w, int revents)
{
    (void)revents;
    struct server *s = w->data;
    ssize_t got = recv(w->fd, s->request, sizeof(s->request) - 1, 0);
    s->request[got > 0 ? got : 0] = '\0';
    if (s->answer) {
        assert_true(send(w->fd, s->answer, strlen(s->answer), MSG_NOSIGNAL) > 0);
    }
    ev_io_stop(loop, w);
    if (s->hang_up) {
        (void)close(w->fd);
        ev_io_set(w, -1, EV_READ);
    }
}

static void on_connection(struct ev_loop *loop, ev_io *w, int revents)
{
    (void)revents;
    struct server *s = w->data;
    int fd = accept(w->fd, NULL, NULL);
    assert_true(fd >= 0);
    ev_io_init(&s->readable, on_request, fd, EV_READ);
    s->readable.data = s;
    ev_io_start(loop, &s->readable);
}

static struct seen ask(struct server *s, const char *path)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    struct seen seen;
    char text[128];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    s->port = ntohs(address.sin_port);
    (void)snprintf(text, sizeof(text), "http://127.0.0.1:%d%s", s->port, path);
    struct probe *probe = open_probe(&seen, text, s->answer || s->hang_up ? 10000 : 100);
    ev_io_init(&s->acceptable, on_connection, fd, EV_READ);
    ev_io_init(&s->readable, on_request, -1, EV_READ);
    s->acceptable.data = s;
    ev_io_start(seen.loop, &s->acceptable);
    probe_start(probe);
    run_loop(&seen, 1);
    ev_io_stop(seen.loop, &s->acceptable);
    if (s->readable.fd >= 0) {
        ev_io_stop(seen.loop, &s->readable);
        (void)close(s->readable.fd);
    }
    (void)close(fd);
    close_probe(&seen, probe);
    return seen;
}

TEST(http_is_judged_by_its_status)
{
    static const struct {
        const char *answer;
        bool hang_up;
        const char *failure; /* NULL: passes */
    } rows[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", false, NULL},
        {"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", true, NULL},
        {"HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n", false, "HTTP status 301"},
        {"HTTP/1.1 503 Down\r\n\r\n", false, "HTTP status 503"},
        {"SSH-2.0-OpenSSH\r\n", false, "Received HTTP/0.9 when not allowed"},
        {"HTTP/1.1 2", true, "Empty reply from server"},
        {NULL, false, "no result within 100ms"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct server s = {.answer = rows[i].answer, .hang_up = rows[i].hang_up};
        struct seen seen = ask(&s, "/healthz?a=b#c");
        if (seen.passed != !rows[i].failure ||
            (rows[i].failure && strcmp(seen.failure, rows[i].failure) != 0)) {
            fail_msg("row %zu gave '%s'", i, seen.failure);
        }
        assert_ptr_equal(strstr(s.request, "GET /healthz?a=b HTTP/1.1\r\nHost: 127.0.0.1:"),
                         s.request);
    }
}

TEST(http_without_a_server_is_refused)
{
    /* Port 1 (tcpmux) is served by nobody. */
    assert_non_null(
        strstr(try_once("http://127.0.0.1:1", 10000).failure, "Couldn't connect to server"));
    assert_false(try_once("http://[::1]:1/", 10000).passed);
}

/* ---- what we lack --------------------------------------------------------------------------- */

TEST(a_lack_of_descriptors_is_nobodys_answer)
{
    static const char *const texts[] = {
        "exec:true",
        "unix:/nowhere",
        "http://127.0.0.1:1",
        "http://localhost:1",
        "carrier=up;netdev:lo",
        "vswitchd",
        "ovsdb",
    };
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct seen seen;
        struct probe *probe = open_probe(&seen, texts[i], 10000);
        ev_run(seen.loop, EVRUN_NOWAIT);                         /* has what it needs */
        for (rlim_t left = 0; left < (i == 0 ? 2 : 1); left++) { /* a pipe takes two */
            int next = dup(STDERR_FILENO);
            assert_int_equal(close(next), 0);
            struct rlimit none = {.rlim_cur = (rlim_t)next + left, .rlim_max = before.rlim_max};
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
            seen.runs = 0;
            probe_start(probe);
            if (seen.runs == 0) {
                run_loop(&seen, 1);
            }
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
            if (seen.outcome != PROBE_UNABLE) {
                fail_msg("'%s', %d left: %s: %s", texts[i], (int)left,
                         probe_outcome_name(seen.outcome), seen.failure);
            }
        }
        close_probe(&seen, probe);
    }
}

/* ---- what makes no sense -------------------------------------------------------------------- */

TEST(targets_that_make_no_sense_are_refused_at_the_start)
{
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"unix:relative", "begin with '/'"},
        {"unix:/0123456789012345678901234567890123456789012345678901234567890123456789012345678901"
         "23456789012345678901234567890",
         "at most 107 bytes"},
        {"http://example.com/", "neither an IP address nor 'localhost'"},
        {"https://kubernetes.default.svc/", "neither an IP address nor 'localhost'"},
        {"http://127.0.0.1:70000/", "not HOST[:PORT][/PATH]: Port number"},
        {"http:///path", "host 'path' is neither"},
        {"http://[::1/", "not HOST[:PORT][/PATH]: Bad IPv6 address"},
        {"http://[::1]x/", "not HOST[:PORT][/PATH]: Port number"},
        {"http://127.0.0.1/a b", "not HOST[:PORT][/PATH]"},
        {"http://127.0.0.1/a\r\nX: y", "not HOST[:PORT][/PATH]"},
    };
    struct ev_loop *loop = ev_loop_new(0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct probe_spec spec = {.interval_ns = NS_PER_SEC, .timeout_ns = NS_PER_SEC};
        struct probe *probe = NULL;
        struct err e = ERR_INIT;
        assert_int_equal(probe_spec_parse(rows[i].text, 0, &spec, &spec, &e), 0);
        if (probe_new(loop, &spec, 0, on_result, NULL, &probe, &e) != ERR_PARSE ||
            !strstr(e.msg, rows[i].words) || !strstr(e.msg, "probe '")) {
            fail_msg("row %zu: %s", i, e.msg);
        }
    }
    ev_loop_destroy(loop);
}

TEST(a_refused_url_shows_no_password)
{
    static const char *const texts[] = {
        "http://user:S3CRET@127.0.0.1/", "http://user:S3/CRET@127.0.0.1/",
        "http://S3CRET@127.0.0.1/",      "http://user:S3 CRET@127.0.0.1:80/",
        "http://user:70000@127.0.0.1/",
    };
    struct ev_loop *loop = ev_loop_new(0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct probe_spec spec = {.interval_ns = NS_PER_SEC, .timeout_ns = NS_PER_SEC};
        struct probe *probe = NULL;
        struct err e = ERR_INIT;
        assert_int_equal(probe_spec_parse(texts[i], 0, &spec, &spec, &e), 0);
        assert_int_equal(probe_new(loop, &spec, 0, on_result, NULL, &probe, &e), ERR_PARSE);
        assert_string_equal(e.msg, "probe 'http://...': it is not HOST[:PORT][/PATH]; a user and a "
                                   "password are not supported");
    }
    ev_loop_destroy(loop);
}

/* ---- all together --------------------------------------------------------------------------- */

struct changes {
    struct ev_loop *loop;
    int count;
    enum probe_health state;
    char message[NAMES_MESSAGE_BYTES];
};

static void on_change(void *user, enum probe_health state, const char *message)
{
    struct changes *c = user;
    c->count++;
    c->state = state;
    (void)text_copy(c->message, sizeof(c->message), message);
    ev_break(c->loop, EVBREAK_ALL);
}

static void run_until_change(struct changes *c, int wanted)
{
    ev_timer guard;
    ev_timer_init(&guard, on_guard, GUARD_S, 0);
    ev_timer_start(c->loop, &guard);
    while (c->count < wanted && ev_is_active(&guard)) {
        ev_run(c->loop, 0);
    }
    ev_timer_stop(c->loop, &guard);
    assert_int_equal(c->count, wanted);
}

TEST_WITH(health_changes_with_the_probes, NULL, NULL)
{
    char dir[] = "/tmp/dpu-probe-XXXXXX";
    char flag[64];
    char first[128];
    char *probes[] = {first, "exec:true"};
    const struct probe_spec defaults = {.interval_ns = 10 * NS_PER_MS,
                                        .timeout_ns = 10 * NS_PER_SEC,
                                        .thresholds = {.failures = 2, .successes = 1}};
    struct changes c = {.loop = ev_loop_new(0)};
    const struct probe_set_config config = {
        .probes = probes, .count = 2, .defaults = &defaults, .change = on_change, .user = &c};
    struct probe_set *set = NULL;
    struct err e = ERR_INIT;
    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(flag, sizeof(flag), "%s/flag", dir);
    (void)snprintf(first, sizeof(first), "exec:test -e %s", flag);
    assert_int_equal(probe_set_new(c.loop, &config, &set, &e), 0);
    probe_set_start(set);
    run_until_change(&c, 1);
    assert_int_equal(c.state, PROBE_UNHEALTHY);
    assert_non_null(strstr(c.message, "exit status 1"));
    assert_non_null(strstr(c.message, flag));
    assert_int_equal(mkdir(flag, 0700), 0);
    run_until_change(&c, 2);
    assert_int_equal(c.state, PROBE_HEALTHY);
    assert_int_equal(rmdir(flag), 0);
    run_until_change(&c, 3);
    assert_int_equal(c.state, PROBE_UNHEALTHY);
    probe_set_free(set);
    ev_loop_destroy(c.loop);
    assert_int_equal(rmdir(dir), 0);
}

TEST_WITH(health_without_probes_is_healthy_at_once, NULL, NULL)
{
    struct changes c = {.loop = ev_loop_new(0)};
    const struct probe_spec defaults = {.interval_ns = NS_PER_SEC, .timeout_ns = NS_PER_SEC};
    const struct probe_set_config config = {.defaults = &defaults, .change = on_change, .user = &c};
    struct probe_set *set = NULL;
    (void)state;
    assert_int_equal(probe_set_new(c.loop, &config, &set, NULL), 0);
    probe_set_start(set);
    assert_int_equal(c.count, 1);
    assert_int_equal(c.state, PROBE_HEALTHY);
    probe_set_free(set);
    ev_loop_destroy(c.loop);
    probe_set_free(NULL);
}

TEST(too_many_probes_are_refused)
{
    char *probes[PROBES_MAX + 1];
    const struct probe_spec defaults = {.interval_ns = NS_PER_SEC, .timeout_ns = NS_PER_SEC};
    struct ev_loop *loop = ev_loop_new(0);
    struct probe_set *set = NULL;
    for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
        probes[i] = "exec:true";
    }
    const struct probe_set_config config = {
        .probes = probes, .count = ARRAY_LEN(probes), .defaults = &defaults, .change = on_change};
    assert_int_equal(probe_set_new(loop, &config, &set, NULL), ERR_LIMIT);
    ev_loop_destroy(loop);
}
