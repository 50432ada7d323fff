/* SPDX-License-Identifier: Apache-2.0 */
/* Network interfaces and PCI functions: on made-up trees, and as the kernel of a network namespace
 * of our own has them. */
#include "base/text.h"
#include "base/time.h"
#include "probe/probe_set.h"

#include <errno.h>
#include <ev.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/case.h"
#include "tests/unit/netns_process.h"

#define PF "0000:03:00.0"

enum { GUARD_S = 20, PATH_BYTES = 512 };

struct world {
    char root[32];
    struct ev_loop *loop;
    struct probe *probe;
    enum probe_outcome wanted;
    enum probe_outcome outcome;
    int runs;
    char words[PROBE_WORDS_BYTES];
};

static bool run(const char *format, ...) PRINTF_LIKE(1, 2);

static bool run(const char *format, ...)
{
    char command[PATH_BYTES];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(command, sizeof(command), format, ap); /* sized for ours */
    va_end(ap);
    return system(command) == 0;
}

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    (void)snprintf(w->root, sizeof(w->root), "/tmp/dpu-sysfs-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    w->loop = ev_loop_new(0);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    probe_free(w->probe);
    ev_loop_destroy(w->loop);
    (void)umount2(w->root, MNT_DETACH); /* one test mounts there */
    assert_true(run("rm -r %s", w->root));
    free(w);
    return 0;
}

static void on_result(void *user, const struct probe_result *result)
{
    struct world *w = user;
    w->runs++;
    w->outcome = result->outcome;
    (void)text_copy(w->words, sizeof(w->words), result->reason);
    if (w->outcome == w->wanted) {
        ev_break(w->loop, EVBREAK_ALL);
    }
}

static int make(struct world *w, const char *text, int64_t interval_ns, struct err *e)
{
    const struct probe_spec defaults = {.timeout_ns = GUARD_S * NS_PER_SEC, .root = w->root};
    struct probe_spec spec;
    int rc = probe_spec_parse(text, 0, &defaults, &spec, e);
    spec.interval_ns = interval_ns;
    spec.retry_ns = interval_ns;
    probe_free(w->probe);
    w->probe = NULL;
    return rc != 0 ? rc : probe_new(w->loop, &spec, 0, on_result, w, &w->probe, e);
}

static void start(struct world *w, const char *text, int64_t interval_ns)
{
    struct err e = ERR_INIT;
    if (make(w, text, interval_ns, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    probe_start(w->probe);
}

static void on_guard(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)timer;
    (void)revents;
    ev_break(loop, EVBREAK_ALL);
}

static void expect(struct world *w, enum probe_outcome wanted, const char *words)
{
    ev_timer guard;
    ev_timer_init(&guard, on_guard, GUARD_S, 0);
    ev_timer_start(w->loop, &guard);
    w->wanted = wanted;
    if (w->outcome != wanted) {
        ev_run(w->loop, 0);
    }
    ev_timer_stop(w->loop, &guard);
    if (w->outcome != wanted || strcmp(w->words, words) != 0) {
        fail_msg("%s: '%s'", probe_outcome_name(w->outcome), w->words);
    }
}

static void look(struct world *w, const char *text, enum probe_outcome wanted, const char *words)
{
    start(w, text, 3600 * NS_PER_SEC);
    assert_int_equal(w->outcome, wanted); /* at once */
    expect(w, wanted, words);
}

/* ---- a made-up tree -------------------------------------------------------------------------- */

TEST_WITH(what_is_there_is_well, set_up, tear_down)
{
    struct world *w = *state;
    assert_true(run("cd %s && mkdir -p sys/class/net/p0 sys/bus/pci/devices/" PF
                    " && echo 4 > sys/class/net/p0/ifindex && echo 1 > sys/class/net/p0/carrier",
                    w->root));
    look(w, "pci:" PF, PROBE_PASSED, "");
    look(w, "netdev:p0", PROBE_PASSED, "");
    look(w, "carrier=up;netdev:p0", PROBE_PASSED, "");
    assert_true(run("echo 0 > %s/sys/class/net/p0/carrier", w->root));
    look(w, "netdev:p0", PROBE_PASSED, ""); /* a pulled cable is no dead DPU */
    look(w, "carrier=up;netdev:p0", PROBE_WRONG, "network interface 'p0' has no carrier");
    look(w, "pci:0000:03:00.1", PROBE_MISSING, "there is no PCI function '0000:03:00.1'");
    look(w, "netdev:p1", PROBE_MISSING, "there is no network interface 'p1'");
    assert_true(run("touch %s/sys/class/net/bonding_masters", w->root));
    look(w, "netdev:bonding_masters", PROBE_MISSING,
         "there is no network interface 'bonding_masters'");
}

TEST_WITH(who_cannot_look_has_not_seen_that_it_is_missing, set_up, tear_down)
{
    struct world *w = *state;
    char words[PATH_BYTES];
    (void)snprintf(words, sizeof(words),
                   "'%s/sys/bus/pci/devices' cannot be looked at: No such file or directory",
                   w->root);
    look(w, "pci:" PF, PROBE_DENIED, words);
}

TEST_WITH(without_word_from_the_kernel_the_next_look_shows_it, set_up, tear_down)
{
    struct world *w = *state;
    assert_true(run("mkdir -p %s/sys/bus/pci/devices/" PF, w->root));
    start(w, "pci:" PF, 10 * NS_PER_MS);
    expect(w, PROBE_PASSED, "");
    assert_true(run("rmdir %s/sys/bus/pci/devices/" PF, w->root));
    expect(w, PROBE_MISSING, "there is no PCI function '" PF "'");
    assert_true(run("mkdir %s/sys/bus/pci/devices/" PF, w->root));
    expect(w, PROBE_PASSED, "");
}

TEST_WITH(names_that_make_no_sense_are_refused, set_up, tear_down)
{
    static const char *const texts[] = {
        "netdev:sixteenletters16",
        "netdev:..",
        "netdev:a/b",
        "netdev:a b",
        "netdev:a:b",
        "pci:03:00.0",
        "pci:0000:03:00",
        "pci:0000:03:00.8",
        "pci:0000:03:00.0/net",
        "pci:0000:3:00.0",
        "pci:0000-03:00.0",
        "pci:0000:0A:00.0",
        "pci:../../0000:03:00.0",
        "pci:000:03:00.0",
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err e = ERR_INIT;
        if (make(w, texts[i], NS_PER_SEC, &e) != ERR_PARSE || !strstr(e.msg, texts[i]) ||
            !strstr(e.msg, "it is no ")) {
            fail_msg("'%s': %s", texts[i], e.msg);
        }
    }
}

/* ---- the kernel's ---------------------------------------------------------------------------- */

/* From here on this process is in a namespace of its own, with the sysfs of that. */
static bool enter_namespace(const struct world *w)
{
    return geteuid() == 0 && unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", w->root, "tmpfs", 0, NULL) == 0 && run("mkdir %s/sys", w->root) &&
           run("mount -t sysfs none %s/sys", w->root) &&
           run("ip link add p0 type veth peer name p1");
}

/* There is no next look within the test: what it sees it was told to look at. */
TEST_WITH(the_kernel_tells_when_to_look, set_up, tear_down)
{
    static const char gone[] = "there is no network interface 'p0'";
    struct world *w = *state;
    if (!enter_namespace(w)) {
        skip(); /* needs the right to make network namespaces, and veth */
    }
    pid_t other = netns_process_start();
    assert_true(other > 0);
    start(w, "netdev:p0", 3600 * NS_PER_SEC);
    expect(w, PROBE_PASSED, "");
    assert_true(run("ip link set p0 name lan0"));
    expect(w, PROBE_MISSING, gone);
    assert_true(run("ip link set lan0 name p0"));
    expect(w, PROBE_PASSED, "");
    assert_true(run("ip link set p0 netns %d", (int)other));
    expect(w, PROBE_MISSING, gone);
    assert_true(run("nsenter -t %d -n ip link set p0 netns %d", (int)other, (int)getpid()));
    expect(w, PROBE_PASSED, "");

    start(w, "carrier=up;netdev:p0", 3600 * NS_PER_SEC);
    expect(w, PROBE_WRONG, "network interface 'p0' is down");
    assert_true(run("ip link set p0 up && ip link set p1 up"));
    expect(w, PROBE_PASSED, "");
    assert_true(run("ip link set p1 down"));
    expect(w, PROBE_WRONG, "network interface 'p0' has no carrier");
    assert_true(run("ip link set p1 up"));
    expect(w, PROBE_PASSED, "");
    assert_true(run("ip link del p0"));
    expect(w, PROBE_MISSING, gone);
    netns_process_kill(other);
}

TEST_WITH(a_flood_of_changes_leads_to_few_looks, set_up, tear_down)
{
    struct world *w = *state;
    if (!enter_namespace(w)) {
        skip(); /* the same */
    }
    start(w, "netdev:p0", 3600 * NS_PER_SEC);
    for (int i = 0; i < 100; i++) {
        assert_true(run("ip link set p1 alias %d", i));
    }
    assert_true(run("ip link del p0"));
    expect(w, PROBE_MISSING, "there is no network interface 'p0'");
    assert_true(w->runs < 10); /* the words of the kernel waited together */
}

TEST_WITH(a_device_that_is_removed_is_looked_at, set_up, tear_down)
{
    struct world *w = *state;
    char function[PATH_BYTES];
    if (!enter_namespace(w)) {
        skip(); /* the same */
    }
    assert_true(run("umount %s/sys && mkdir -p %s/sys/bus/pci/devices/" PF, w->root, w->root));
    (void)snprintf(function, sizeof(function), "%s/sys/bus/pci/devices/" PF, w->root);
    start(w, "pci:" PF, 3600 * NS_PER_SEC);
    expect(w, PROBE_PASSED, "");
    assert_int_equal(rmdir(function), 0);
    assert_true(run("ip link del p0")); /* a uevent, of whatever */
    expect(w, PROBE_MISSING, "there is no PCI function '" PF "'");
}
