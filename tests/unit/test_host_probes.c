/* SPDX-License-Identifier: Apache-2.0 */
/* The host's own probes: which may be, what they have said, and what is known of them after a
 * restart. On a made-up sysfs. */
#include "host-agent/host_probes.h"

#include "base/text.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <ev.h>
#include <sys/stat.h>

#define PF  "pci:0000:03:00.0"
#define OWN "pci:0000:03:00.1"

struct world {
    char root[SCRATCH_BYTES];
    struct ev_loop *loop;
    struct host_probes *host_probes;
    struct readiness_host_probes said;
    char accusation[NAMES_MESSAGE_BYTES];
    char words[16]; /* a letter per report of the first: '-', 'w' or 'f' */
};

static void on_change(void *user, const struct readiness_host_probes *said, const char *accusation)
{
    static const char letters[] = {
        [HOST_PROBE_NEVER_WELL] = '-', [HOST_PROBE_WELL] = 'w', [HOST_PROBE_FAILED] = 'f'};
    struct world *w = user;
    w->said = *said;
    (void)text_copy(w->accusation, sizeof(w->accusation), accusation);
    w->words[strlen(w->words)] = letters[said->each[0].says];
    ev_break(w->loop, EVBREAK_ALL);
}

static int make(struct world *w, char *const *probes, size_t count, struct err *e)
{
    const struct host_probes_config config = {.loop = w->loop,
                                              .probes = probes,
                                              .count = count,
                                              .root = w->root,
                                              .on_change = on_change,
                                              .user = w};
    host_probes_free(w->host_probes);
    w->host_probes = NULL;
    memset(w->words, 0, sizeof(w->words));
    return host_probes_new(&config, &w->host_probes, e);
}

static void make_one(struct world *w, char *text)
{
    assert_int_equal(make(w, &text, 1, NULL), 0);
}

static void run(const struct world *w, const char *command)
{
    assert_true(scratch_run("cd %s && %s", w->root, command));
}

static void up(struct world *w)
{
    scratch_make(w->root);
    w->loop = ev_loop_new(0);
    run(w, "mkdir -p sys/bus/pci/devices/0000:03:00.0");
}

static void down(struct world *w)
{
    host_probes_free(w->host_probes);
    ev_loop_destroy(w->loop);
    scratch_remove(w->root);
}

WORLD(up, down)

TEST_IN(function_that_vanishes_is_told_and_that_it_is_back)
{
    char *probes[] = {"interval=100ms;" PF, OWN};
    assert_int_equal(make(w, probes, 2, NULL), 0);
    host_probes_start(w->host_probes);
    assert_string_equal(w->words, "-w"); /* at once */
    assert_string_equal(w->said.each[0].probe, "interval=100ms;" PF);
    assert_int_equal(w->said.each[1].says, HOST_PROBE_NEVER_WELL); /* there is no such function */
    assert_string_equal(w->accusation, "");
    run(w, "rmdir sys/bus/pci/devices/0000:03:00.0");
    ev_run(w->loop, 0);
    assert_string_equal(w->words, "-wf");
    assert_string_equal(w->accusation, "probe '" PF "': there is no PCI function '0000:03:00.0'");
    run(w, "mkdir sys/bus/pci/devices/0000:03:00.0");
    ev_run(w->loop, 0);
    assert_string_equal(w->words, "-wfw");
    assert_string_equal(w->accusation, "");
}

/* By its defaults the third failure in a row counts. */
TEST_IN(command_is_given_its_time_and_two_more_runs)
{
    char probe[HOST_PROBE_BYTES];
    (void)snprintf(probe, sizeof(probe), "interval=100ms;exec:cd %s; echo >>runs; [ -d sys ]",
                   w->root);
    make_one(w, probe);
    host_probes_start(w->host_probes);
    ev_run(w->loop, 0);
    assert_string_equal(w->words, "-w");
    run(w, "rm -r sys runs");
    ev_run(w->loop, 0);
    assert_string_equal(w->words, "-wf");
    run(w, "[ $(wc -l <runs) = 3 ]");
}

TEST_IN(restart_remembers_who_has_testified)
{
    static const struct {
        char *probe;
        const char *known; /* its text in the record */
        enum host_probe_state said;
        const char *words;
    } rows[] = {
        {OWN, OWN, HOST_PROBE_NEVER_WELL, "-"},
        {OWN, OWN, HOST_PROBE_WELL, "wf"},   /* it vanished meanwhile */
        {OWN, OWN, HOST_PROBE_FAILED, "ff"}, /* the second knows why */
        {PF, PF, HOST_PROBE_FAILED, "fw"},
        {OWN, PF, HOST_PROBE_WELL, "-"}, /* another function */
        {"successes=2;" PF, PF, HOST_PROBE_FAILED,
         "-w"}, /* written otherwise: another host probe */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct readiness_host_probes known = {
            .count = 1, .each = {{.says = rows[i].said}, {.says = HOST_PROBE_FAILED}}};
        (void)text_copy(known.each[0].probe, sizeof(known.each[0].probe), rows[i].known);
        make_one(w, rows[i].probe);
        host_probes_recall(w->host_probes, &known);
        host_probes_start(w->host_probes);
        if (strcmp(w->words, rows[i].words) != 0) {
            fail_msg("row %zu: %s", i, w->words);
        }
    }
}

TEST_IN(host_probes_that_make_no_sense_are_refused)
{
    static char longest[] = "exec:0123456789012345678901234567890123456789012345678901234567890123"
                            "456789012345678901234567890";
    static const struct {
        char *probes[9];
        size_t count;
        int code;
        const char *words;
    } rows[] = {
        {{"nonsense"}, 1, ERR_PARSE, "does not begin with"},
        {{"ovn-kubernetes"}, 1, ERR_PARSE, "only dpu-agent can probe that service"},
        {{"refused=5s;vswitchd:br-ex"}, 1, ERR_PARSE, "only dpu-agent can probe"},
        {{"pci:3:0.0"}, 1, ERR_PARSE, "not an address"},
        {{PF, OWN, PF}, 3, ERR_PARSE, "configured twice"},
        {{longest}, 1, ERR_LIMIT, "at most 95 bytes"},
        {{"exec:1", "exec:2", "exec:3", "exec:4", "exec:5", "exec:6", "exec:7", "exec:8", "exec:9"},
         9,
         ERR_LIMIT,
         "at most 8"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        int rc = make(w, rows[i].probes, rows[i].count, &e);
        if (rc != rows[i].code || !strstr(e.msg, rows[i].words) || !strstr(e.msg, "probe '")) {
            fail_msg("row %zu: %d %s", i, rc, e.msg);
        }
    }
    assert_int_equal(strlen(longest), HOST_PROBE_BYTES);
    longest[HOST_PROBE_BYTES - 1] = '\0';
    make_one(w, longest); /* one byte less will do */
}
