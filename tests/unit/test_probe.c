/* SPDX-License-Identifier: Apache-2.0 */
/* Probes with real commands, sockets on loopback, and network interfaces and PCI functions: on
 * made-up trees, and as the kernel of a network namespace of our own has them. */
#include "probe/probe_set.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "tests/support/case.h"
#include "tests/unit/netns_process.h"
#include "tests/unit/probe_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- exec ----------------------------------------------------------------------------------- */

TEST_IN(command_is_judged_by_its_status_and_last_line)
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
        const char *failure = probe_world_try(w, rows[i].text, 10000);
        if (!text_equal(failure, rows[i].failure)) {
            fail_msg("'%s' gave '%s'", rows[i].text, failure ? failure : "");
        }
    }
}

TEST_IN(command_starts_without_our_signals_and_descriptors)
{
    int kept = dup(STDOUT_FILENO); /* not close-on-exec */
    char text[128];
    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    (void)snprintf(text, sizeof(text), "exec:test ! -e /proc/self/fd/%d", kept);
    assert_null(probe_world_try(w, text, 10000));
    assert_null(probe_world_try(w, "exec:grep -q '^SigIgn:.*0000000$' /proc/self/status", 10000));
    assert_null(probe_world_try(w, "exec:test $(cut -d' ' -f5 /proc/$$/stat) = $$", 10000));
    (void)close(kept);
}

/* Gone or a zombie (nobody here may have reaped it) before ten seconds are over: a signal takes
 * its time on a busy machine. */
static bool first_child_dies(const struct world *w)
{
    return scratch_run("p=$(cat %s/first) && [ $p -gt 1 ] && for i in $(seq 1000); do "
                       "grep -qs '^State:[^Z]*$' /proc/$p/status || exit 0; sleep 0.01; "
                       "done; exit 1",
                       w->dir);
}

TEST_IN(command_that_ends_or_hangs_takes_its_children_with_it)
{
    static const char *const ends[] = {"exit 0", "exit 1", "kill -9 $$", "wait"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char text[COMMAND_BYTES];
        (void)snprintf(text, sizeof(text), "exec:sleep 1000 & echo $! > %s/pid; %s", w->dir,
                       ends[i]);
        const char *failure = probe_world_try(w, text, i == 3 ? 1000 : 10000);
        assert_int_equal(failure == NULL, i == 0);
        assert_true(i < 3 || text_equal(failure, "no result within 1s"));
        assert_true(scratch_run("cp %s/pid %s/first", w->dir, w->dir));
        probe_world_await(w, 2, PROBE_UNKNOWN);
        probe_free(TAKE(w->probe));
        assert_true(first_child_dies(w));
    }
}

TEST_IN(probe_may_be_freed_during_a_run)
{
    probe_world_start(w, "exec:sleep 1000", NS_PER_MS, 10 * NS_PER_SEC);
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

TEST_IN(socket_is_well_if_somebody_listens)
{
    char text[128];
    int clients[3];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct sockaddr *at = (const struct sockaddr *)&address;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", w->dir);
    (void)snprintf(text, sizeof(text), "unix:%s", address.sun_path);
    assert_ends_with(probe_world_try(w, text, 1000), "s': No such file or directory");
    CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, at, sizeof(address)), 0);
    assert_ends_with(probe_world_try(w, text, 1000), "s': Connection refused");
    assert_int_equal(listen(fd, 0), 0);
    assert_null(probe_world_try(w, text, 1000));
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], at, sizeof(address)); /* fill it */
    }
    assert_ends_with(probe_world_try(w, text, 1000), "s': its backlog is full");
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        (void)close(clients[i]);
    }
}

/* ---- http ----------------------------------------------------------------------------------- */

static void ask(struct world *w, struct peer *p, const char *path)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    char text[128];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    peer_open(w, p, fd);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(text, sizeof(text), "http://127.0.0.1:%d%s", ntohs(address.sin_port), path);
    (void)probe_world_try(w, text, p->answer || p->hangs_up ? 10000 : 100);
    peer_close(w, p);
}

TEST_IN(http_is_judged_by_its_status)
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
        struct peer p = {.answer = rows[i].answer, .hangs_up = rows[i].hang_up};
        ask(w, &p, "/healthz?a=b#c");
        if ((w->outcome == PROBE_PASSED) != !rows[i].failure ||
            (rows[i].failure && !text_equal(w->words, rows[i].failure))) {
            fail_msg("row %zu gave '%s'", i, w->words);
        }
        assert_ptr_equal(strstr(p.heard, "GET /healthz?a=b HTTP/1.1\r\nHost: 127.0.0.1:"), p.heard);
    }
}

TEST_IN(http_without_a_server_is_refused)
{
    /* Port 1 (tcpmux) is served by nobody. */
    const char *said = probe_world_try(w, "http://127.0.0.1:1", 10000);
    assert_non_null(strstr(said, "onnect")); /* the words of any curl's */
    assert_non_null(probe_world_try(w, "http://[::1]:1/", 10000));
}

/* ---- what we lack --------------------------------------------------------------------------- */

TEST_IN(a_lack_of_descriptors_is_nobodys_answer)
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
    assert_true(scratch_run("ln -s /sys %s/sys", w->dir));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err e = ERR_INIT;
        assert_int_equal(probe_world_parse(w, texts[i], NS_PER_MS, 10 * NS_PER_SEC, &e), 0);
        ev_run(w->loop, EVRUN_NOWAIT);                           /* has what it needs */
        for (rlim_t left = 0; left < (i == 0 ? 2 : 1); left++) { /* a pipe takes two */
            int next = dup(STDERR_FILENO);
            assert_int_equal(close(next), 0);
            struct rlimit none = {.rlim_cur = (rlim_t)next + left, .rlim_max = before.rlim_max};
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
            w->runs = 0;
            probe_start(w->probe);
            probe_world_await(w, 1, PROBE_UNKNOWN);
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
            if (w->outcome != PROBE_UNABLE) {
                fail_msg("'%s', %d left: %s: %s", texts[i], (int)left,
                         probe_outcome_name(w->outcome), w->words);
            }
        }
    }
}

/* ---- what makes no sense -------------------------------------------------------------------- */

#define NO_PASSWORD                                                                                \
    "probe 'http://...': it is not HOST[:PORT][/PATH]; a user and a password are not supported"

TEST_IN(targets_that_make_no_sense_are_refused_at_the_start)
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
        {"http://127.0.0.1:70000/", "not HOST[:PORT][/PATH]: "},
        {"http:///path", "host 'path' is neither"},
        {"http://[::1/", "not HOST[:PORT][/PATH]: "},
        {"http://[::1]x/", "not HOST[:PORT][/PATH]: "},
        {"http://127.0.0.1/a b", "not HOST[:PORT][/PATH]"},
        {"http://127.0.0.1/a\r\nX: y", "not HOST[:PORT][/PATH]"},
        {"http://user:S3CRET@127.0.0.1/", NO_PASSWORD},
        {"http://user:S3/CRET@127.0.0.1/", NO_PASSWORD},
        {"http://S3CRET@127.0.0.1/", NO_PASSWORD},
        {"http://user:S3 CRET@127.0.0.1:80/", NO_PASSWORD},
        {"http://user:70000@127.0.0.1/", NO_PASSWORD},
        {"netdev:sixteenletters16", "netdev:sixteenletters16': it is not a valid name"},
        {"netdev:..", "netdev:..': it is not a valid name"},
        {"netdev:a/b", "netdev:a/b': it is not a valid name"},
        {"netdev:a b", "netdev:a b': it is not a valid name"},
        {"netdev:a:b", "netdev:a:b': it is not a valid name"},
        {"netdev:a,", "netdev:a,': it is not a valid name"},
        {"netdev:,a", "netdev:,a': it is not a valid name"},
        {"netdev:a,,b", "netdev:a,,b': it is not a valid name"},
        {"netdev:a,sixteenletters16", "it is not a valid name"},
        {"least=3;netdev:a,b", "netdev:a,b': it names 2 interfaces, and 'least' wants 3"},
        {"pci:03:00.0", "it is not an address"},
        {"pci:0000:03:00", "it is not an address"},
        {"pci:0000:03:00.8", "it is not an address"},
        {"pci:0000:03:00.0/net", "it is not an address"},
        {"pci:0000:3:00.0", "it is not an address"},
        {"pci:0000-03:00.0", "it is not an address"},
        {"pci:0000:0A:00.0", "it is not an address"},
        {"pci:../../0000:03:00.0", "it is not an address"},
        {"pci:000:03:00.0", "it is not an address"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        if (probe_world_parse(w, rows[i].text, NS_PER_SEC, NS_PER_SEC, &e) != ERR_PARSE ||
            !strstr(e.msg, rows[i].words) || !strstr(e.msg, "probe '") || strstr(e.msg, "CRET")) {
            fail_msg("row %zu: %s", i, e.msg);
        }
    }
}

/* ---- pauses ---------------------------------------------------------------------------------- */

/* How far from a full second of the clock the pause ends that follows a run. */
static int64_t end_of_pause(struct world *w, int64_t interval_ns)
{
    probe_world_start(w, "unix:/nowhere", interval_ns, NS_PER_SEC);
    double left_s = ev_timer_remaining(w->loop, &w->probe->pause);
    int64_t left_ns = (int64_t)(left_s * (double)NS_PER_SEC);
    assert_true(left_ns <= interval_ns && left_ns > interval_ns - NS_PER_SEC - 100 * NS_PER_MS);
    return (clock_mono_now().ns + left_ns) % NS_PER_SEC;
}

TEST_IN(pauses_of_some_seconds_end_with_a_full_second)
{
    for (int i = 0; i < 4; i++) {
        int64_t off_ns = end_of_pause(w, 5 * NS_PER_SEC);
        assert_true(off_ns < 50 * NS_PER_MS || off_ns > 950 * NS_PER_MS);
        (void)usleep(150000);
    }
    struct mono now = clock_mono_now();
    (void)usleep((useconds_t)((NS_PER_SEC + NS_PER_SEC / 2 - now.ns % NS_PER_SEC) / 1000));
    int64_t off_ns = end_of_pause(w, 4 * NS_PER_SEC); /* a shorter one is kept */
    assert_true(off_ns > 450 * NS_PER_MS && off_ns < 950 * NS_PER_MS);
}

/* ---- all together --------------------------------------------------------------------------- */

static const struct probe_spec defaults = {.interval_ns = 10 * NS_PER_MS,
                                           .timeout_ns = 10 * NS_PER_SEC,
                                           .thresholds = {.failures = 2, .successes = 1}};

/* As a run of its own. */
static void on_change(void *user, enum probe_health state, const char *message)
{
    const struct probe_result result = {.probe = PROBE_INDEX,
                                        .outcome = state == PROBE_HEALTHY     ? PROBE_PASSED
                                                   : state == PROBE_UNHEALTHY ? PROBE_WRONG
                                                                              : PROBE_UNKNOWN,
                                        .reason = message};
    probe_world_result(user, &result);
}

static int make_set(struct world *w, char **probes, size_t count, struct probe_set **out)
{
    const struct probe_set_config config = {
        .probes = probes, .count = count, .defaults = &defaults, .change = on_change, .user = w};
    return probe_set_new(w->loop, &config, out, NULL);
}

TEST_IN(health_changes_with_the_probes)
{
    static const char *const steps[] = {"true", "mkdir", "rmdir"};
    char first[128];
    char *probes[] = {first, "exec:true"};
    struct probe_set *set = NULL;
    (void)snprintf(first, sizeof(first), "exec:test -e %s/flag", w->dir);
    assert_int_equal(make_set(w, probes, 2, &set), 0);
    probe_set_start(set);
    for (int i = 0; i < (int)ARRAY_LEN(steps); i++) {
        assert_true(scratch_run("%s %s/flag", steps[i], w->dir));
        probe_world_await(w, i + 1, PROBE_UNKNOWN);
        assert_int_equal(w->runs, i + 1);
        assert_int_equal(w->outcome, i == 1 ? PROBE_PASSED : PROBE_WRONG);
        assert_true(i == 1 || (strstr(w->words, "exit status 1") && strstr(w->words, first)));
    }
    probe_set_free(set);
}

TEST_IN(health_without_probes_is_healthy_at_once)
{
    struct probe_set *set = NULL;
    assert_int_equal(make_set(w, NULL, 0, &set), 0);
    probe_set_start(set);
    assert_int_equal(w->runs, 1);
    assert_int_equal(w->outcome, PROBE_PASSED);
    assert_string_equal(w->words, "");
    probe_set_free(set);
    probe_set_free(NULL);
}

TEST_IN(too_many_probes_are_refused)
{
    char *probes[PROBES_MAX + 1];
    struct probe_set *set = NULL;
    for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
        probes[i] = "exec:true";
    }
    assert_int_equal(make_set(w, probes, ARRAY_LEN(probes), &set), ERR_LIMIT);
}

/* ---- what sysfs has -------------------------------------------------------------------------- */

#define PF "0000:03:00.0"

static void look(struct world *w, const char *text, enum probe_outcome wanted, const char *words)
{
    probe_world_start(w, text, 3600 * NS_PER_SEC, GUARD_S * NS_PER_SEC);
    assert_int_equal(w->outcome, wanted); /* at once */
    probe_world_expect(w, wanted, words);
}

TEST_IN(what_is_there_is_well)
{
    assert_true(
        scratch_run("cd %s && mkdir -p sys/class/net/p0 sys/bus/pci/devices/" PF
                    " && echo 4 > sys/class/net/p0/ifindex && echo 1 > sys/class/net/p0/carrier",
                    w->dir));
    look(w, "pci:" PF, PROBE_PASSED, "");
    look(w, "netdev:p0", PROBE_PASSED, "");
    look(w, "carrier=up;netdev:p0", PROBE_PASSED, "");
    assert_true(scratch_run("echo 0 > %s/sys/class/net/p0/carrier", w->dir));
    look(w, "netdev:p0", PROBE_PASSED, ""); /* a pulled cable is no dead DPU */
    look(w, "carrier=up;netdev:p0", PROBE_WRONG, "network interface 'p0' has no carrier");
    look(w, "pci:0000:03:00.1", PROBE_MISSING, "there is no PCI function '0000:03:00.1'");
    look(w, "netdev:p1", PROBE_MISSING, "there is no network interface 'p1'");
    assert_true(scratch_run("touch %s/sys/class/net/bonding_masters", w->dir));
    look(w, "netdev:bonding_masters", PROBE_MISSING,
         "there is no network interface 'bonding_masters'");
}

TEST_IN(of_several_interfaces_so_many_must_be_well)
{
    static const char some[] = "least=1,carrier=up;netdev:p0,p1,p2";
    static const char most[] = "least=2,carrier=up;netdev:p0,p1,p2";
    assert_true(
        scratch_run("cd %s && mkdir -p sys/class/net/p0 sys/class/net/p1 && cd sys/class/net && "
                    "echo 4 | tee p0/ifindex > p1/ifindex && echo 1 | tee p0/carrier > p1/carrier",
                    w->dir));
    look(w, "netdev:p0,p1", PROBE_PASSED, "");
    look(w, "netdev:p0,p2,p1", PROBE_MISSING,
         "2 of 3 network interfaces are well: there is no network interface 'p2'");
    look(w, some, PROBE_PASSED, "");
    look(w, most, PROBE_PASSED, "");
    assert_true(scratch_run("echo 0 > %s/sys/class/net/p0/carrier", w->dir));
    look(w, some, PROBE_PASSED, "");
    look(w, most, PROBE_WRONG,
         "1 of 3 network interfaces is well: network interface 'p0' has no carrier");
    assert_true(scratch_run("rm -r %s/sys/class/net/p1", w->dir));
    look(w, some, PROBE_WRONG,
         "0 of 3 network interfaces are well: network interface 'p0' has no carrier");
}

TEST_IN(who_cannot_look_has_not_seen_that_it_is_missing)
{
    char words[COMMAND_BYTES];
    (void)snprintf(words, sizeof(words),
                   "cannot check '%s/sys/bus/pci/devices': No such file or directory", w->dir);
    look(w, "pci:" PF, PROBE_DENIED, words);
}

TEST_IN(without_word_from_the_kernel_the_next_look_shows_it)
{
    assert_true(scratch_run("mkdir -p %s/sys/bus/pci/devices/" PF, w->dir));
    probe_world_start(w, "pci:" PF, 10 * NS_PER_MS, GUARD_S * NS_PER_SEC);
    probe_world_expect(w, PROBE_PASSED, "");
    assert_true(scratch_run("rmdir %s/sys/bus/pci/devices/" PF, w->dir));
    probe_world_expect(w, PROBE_MISSING, "there is no PCI function '" PF "'");
    assert_true(scratch_run("mkdir %s/sys/bus/pci/devices/" PF, w->dir));
    probe_world_expect(w, PROBE_PASSED, "");
}

/* ---- the kernel's ---------------------------------------------------------------------------- */

/* From here on this process is in a namespace of its own, with the sysfs of that. */
static bool enter_namespace(const struct world *w)
{
    return geteuid() == 0 && unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", w->dir, "tmpfs", 0, NULL) == 0 && scratch_run("mkdir %s/sys", w->dir) &&
           scratch_run("mount -t sysfs none %s/sys", w->dir) &&
           scratch_run("ip link add p0 type veth peer name p1");
}

/* There is no next look within the test: what it sees it was told to look at. */
TEST_IN(the_kernel_tells_when_to_look)
{
    static const char gone[] = "there is no network interface 'p0'";
    assert_true(enter_namespace(w));
    pid_t other = netns_process_start();
    assert_true(other > 0);
    probe_world_start(w, "netdev:p0", 3600 * NS_PER_SEC, GUARD_S * NS_PER_SEC);
    probe_world_expect(w, PROBE_PASSED, "");
    assert_true(scratch_run("ip link set p0 name lan0"));
    probe_world_expect(w, PROBE_MISSING, gone);
    assert_true(scratch_run("ip link set lan0 name p0"));
    probe_world_expect(w, PROBE_PASSED, "");
    assert_true(scratch_run("ip link set p0 netns %d", (int)other));
    probe_world_expect(w, PROBE_MISSING, gone);
    assert_true(scratch_run("nsenter -t %d -n ip link set p0 netns %d", (int)other, (int)getpid()));
    probe_world_expect(w, PROBE_PASSED, "");

    probe_world_start(w, "carrier=up;netdev:p0", 3600 * NS_PER_SEC, GUARD_S * NS_PER_SEC);
    probe_world_expect(w, PROBE_WRONG, "network interface 'p0' is down");
    assert_true(scratch_run("ip link set p0 up && ip link set p1 up"));
    probe_world_expect(w, PROBE_PASSED, "");
    assert_true(scratch_run("ip link set p1 down"));
    probe_world_expect(w, PROBE_WRONG, "network interface 'p0' has no carrier");
    assert_true(scratch_run("ip link set p1 up"));
    probe_world_expect(w, PROBE_PASSED, "");
    assert_true(scratch_run("ip link del p0"));
    probe_world_expect(w, PROBE_MISSING, gone);
    netns_process_kill(other);
}

TEST_IN(a_flood_of_changes_leads_to_few_looks)
{
    assert_true(enter_namespace(w));
    probe_world_start(w, "netdev:p0", 3600 * NS_PER_SEC, GUARD_S * NS_PER_SEC);
    for (int i = 0; i < 100; i++) {
        assert_true(scratch_run("ip link set p1 alias %d", i));
    }
    assert_true(scratch_run("ip link del p0"));
    probe_world_expect(w, PROBE_MISSING, "there is no network interface 'p0'");
    assert_true(w->runs < 10); /* the words of the kernel waited together */
}

TEST_IN(a_device_that_is_removed_is_looked_at)
{
    assert_true(enter_namespace(w));
    assert_true(
        scratch_run("umount %s/sys && mkdir -p %s/sys/bus/pci/devices/" PF, w->dir, w->dir));
    probe_world_start(w, "pci:" PF, 3600 * NS_PER_SEC, GUARD_S * NS_PER_SEC);
    probe_world_expect(w, PROBE_PASSED, "");
    assert_true(scratch_run("rmdir %s/sys/bus/pci/devices/" PF, w->dir));
    assert_true(scratch_run("ip link del p0")); /* a uevent, of whatever */
    probe_world_expect(w, PROBE_MISSING, "there is no PCI function '" PF "'");
}
