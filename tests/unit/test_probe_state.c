/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_state.h"

#include "base/text.h"
#include "tests/support/case.h"

#define AT(n) ((struct mono){(n)*NS_PER_SEC})

static bool step(struct probe_state *v, int64_t at_s, size_t probe, const char *reason)
{
    struct probe_result result = {.started = AT(at_s),
                                  .now = AT(at_s),
                                  .probe = probe,
                                  .outcome = reason ? PROBE_WRONG : PROBE_PASSED,
                                  .reason = reason};
    return probe_state_step(v, &result);
}

static void start(struct probe_state *v, size_t probes, uint32_t failures, uint32_t successes)
{
    static const char *const names[] = {"ovs", "ovn", "link"};
    struct probe_thresholds thresholds = {.failures = failures, .successes = successes};
    *v = (struct probe_state){.probe_count = 0};
    for (size_t i = 0; i < probes; i++) {
        probe_state_add_probe(v, names[i], &thresholds);
    }
}

/* A letter per result and second: '.' passed, 'x' wrong, 'r' refused, 's' silent (asked for 2 s
 * before it came), 'm' missing, 'd' denied, 'u' not to be asked, '?' nothing known. */
static const enum probe_outcome outcomes['z'] = {
    ['.'] = PROBE_PASSED,  ['x'] = PROBE_WRONG,  ['r'] = PROBE_REFUSED, ['s'] = PROBE_SILENT,
    ['m'] = PROBE_MISSING, ['d'] = PROBE_DENIED, ['u'] = PROBE_UNABLE};

/* What is expected after each: H healthy, U unhealthy, '?' not known, '+' told though the same. */
static void follow(struct probe_state *v, const char *results, const char *expected)
{
    for (size_t n = 0; results[n]; n++) {
        const struct probe_result result = {.started = AT((int64_t)n - (results[n] == 's' ? 2 : 0)),
                                            .now = AT((int64_t)n),
                                            .outcome = outcomes[(unsigned char)results[n]],
                                            .reason = "down"};
        enum probe_health before = v->state;
        bool is_told = probe_state_step(v, &result) && v->state == before && v->is_of_host;
        char got = v->state == PROBE_UNHEALTHY ? 'U'
                   : is_told                   ? '+'
                   : v->state == PROBE_HEALTHY ? 'H'
                                               : '?';
        if (got != expected[n]) {
            fail_msg("'%s', result %zu: %c, expected %c", results, n, got, expected[n]);
        }
    }
}

TEST(hysteresis_follows_the_table)
{
    static const struct {
        uint32_t failures;
        uint32_t successes;
        const char *results;
        const char *expected;
    } rows[] = {
        {3, 1, "....", "HHHH"},
        {3, 1, ".xx.xx.xxx", "HHHHHHHHHU"},
        {3, 1, ".xxx.x", "HHHUHH"},
        {3, 1, "xx", "??"}, /* never passed: neither well nor failing yet */
        {3, 1, "xxxx.", "??UUH"},
        {3, 1, "xx.xxx", "??HHHU"},
        {3, 5, "xxx.", "??UH"}, /* the first pass ever counts at once */
        {1, 1, "x.", "UH"},
        {1, 1, ".x.x", "HUHU"},
        {0, 0, ".x.x", "HUHU"}, /* 0 counts as 1 */
        {2, 2, ".xx.x..x", "HHUUUUHH"},
        {2, 3, ".xx...x", "HHUUUHH"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct probe_state v;
        start(&v, 1, rows[i].failures, rows[i].successes);
        follow(&v, rows[i].results, rows[i].expected);
    }
}

/* Patience: refused 2 s, silent 6 s, missing 4 s, in all 12 s. */
TEST(patience_depends_on_the_way_of_failing)
{
    static const struct {
        const char *results;
        const char *expected;
    } rows[] = {
        {".rr.rr.rrr", "HHHHHHHHHU"},         /* a restart within two seconds */
        {".mmmm.mmmmm", "HHHHHHHHHHU"},       /* of which each second counts from the first */
        {".sssss", "HHHHHU"},                 /* silence counts from the question */
        {".ssss.sss", "HHHHHHHHH"},           /* and a word ends it */
        {".mmmrrsss", "HHHHHHHHH"},           /* each kind has its own patience */
        {".mmmrrr", "HHHHHHU"},               /* and only one has to end */
        {".mmrmmrmmrmmrr", "HHHHHHHHHHHHHU"}, /* but a quarter of a minute of all kinds is enough */
        {".r??r", "HHHHU"},                   /* what is not known is no news */
        {".uuuuuuuuuuuuuuu.", "HHHHHHHHHHHHHHHHH"}, /* nor what could not be asked */
        {"?", "?"},
        {"?rrr", "???U"}, /* the same before the first success, but that it is not well then */
        {"mm.mmmmm", "??HHHHHU"},
        {"mrmrmrmrmrmrm", "????????????U"},
        {"?.?", "?HH"},
    };
    static const struct probe_thresholds thresholds = {.patience_ns = {
                                                           [PROBE_REFUSED] = 2 * NS_PER_SEC,
                                                           [PROBE_SILENT] = 6 * NS_PER_SEC,
                                                           [PROBE_MISSING] = 4 * NS_PER_SEC,
                                                       }};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct probe_state v = {.probe_count = 0};
        probe_state_add_probe(&v, "ovs", &thresholds);
        follow(&v, rows[i].results, rows[i].expected);
    }
}

/* Failures in a row: 2. */
TEST(host_probe_accuses_only_after_it_has_been_well)
{
    static const struct {
        const char *known; /* of a former process: "" nothing, "." passed, "x" and fails */
        const char *results;
        const char *expected;
    } rows[] = {
        {"", "xxxxxx", "HHHHHH"},   /* a wrong option condemns nobody */
        {"", "xxx.xx.", "HHH+HUH"}, /* from its first word on it counts */
        {"", ".x.xx", "+HHHU"},
        {"", ".dddd", "+HHHH"}, /* who may not look has seen nothing */
        {"", ".xdx", "+HHU"},
        {"", ".xxd", "+HUU"}, /* nor that it is well again */
        {"", "?", "H"},
        {".", "xx", "HU"}, /* a restart forgets no word */
        {"x", "xx", "UU"}, /* and no accusation */
        {"x", "d?", "UU"},
        {"x", ".", "H"},
    };
    static const struct probe_thresholds thresholds = {.failures = 2};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct probe_state v = {.is_of_host = true};
        probe_state_add_probe(&v, "pci", &thresholds);
        if (rows[i].known[0]) {
            probe_state_restore(&v, 0, rows[i].known[0] == 'x');
        }
        assert_true(probe_state_settle(&v));
        follow(&v, rows[i].results, rows[i].expected);
    }
}

TEST(a_restored_accusation_has_words)
{
    struct probe_state v;
    start(&v, 1, 1, 1);
    v.is_of_host = true;
    probe_state_restore(&v, 0, true);
    assert_true(probe_state_settle(&v));
    assert_string_equal(v.message, "probe 'ovs': it failed before this agent started");
    assert_true(step(&v, 2, 0, "gone"));
    assert_string_equal(v.message, "probe 'ovs': gone");
}

TEST(verdict_waits_until_every_probe_ran_once)
{
    struct probe_state v;
    start(&v, 3, 1, 1);
    assert_false(step(&v, 1, 0, NULL));
    assert_false(step(&v, 2, 2, "down"));
    assert_int_equal(v.state, PROBE_HEALTH_UNKNOWN);
    assert_true(step(&v, 3, 1, NULL));
    assert_int_equal(v.state, PROBE_UNHEALTHY);
    assert_string_equal(v.message, "probe 'link': down");
}

TEST(message_names_the_failing_probes_and_why_the_first_fails)
{
    struct probe_state v;
    start(&v, 3, 1, 1);
    (void)step(&v, 1, 0, NULL);
    (void)step(&v, 1, 1, "no answer\nwithin 2s");
    (void)step(&v, 1, 2, "");
    assert_string_equal(v.message, "probe 'ovn': no answer within 2s (and 'link')");
    (void)step(&v, 2, 0, "down");
    assert_string_equal(v.message, "probe 'ovs': down (and 'ovn', 'link')");
    (void)step(&v, 3, 0, NULL);
    (void)step(&v, 3, 1, NULL);
    assert_string_equal(v.message, "probe 'link': failed");
}

TEST(same_failure_again_is_no_news)
{
    struct probe_state v;
    start(&v, 1, 1, 1);
    assert_true(step(&v, 1, 0, "down"));
    assert_false(step(&v, 2, 0, "down"));
    assert_true(step(&v, 3, 0, "gone"));
    assert_true(step(&v, 31, 0, NULL));
    assert_int_equal(v.probes[0].runs[PROBE_WRONG], 3);
    assert_int_equal(v.probes[0].runs[PROBE_PASSED], 1);
    follow(&v, "s", "U");
    assert_int_equal(v.probes[0].last_ns, AT(2).ns);
}

TEST(overlong_texts_are_cut_not_overrun)
{
    struct probe_state v;
    char longer[2000];
    memset(longer, 'r', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    v = (struct probe_state){.probe_count = 0};
    probe_state_add_probe(&v, longer, &(struct probe_thresholds){.failures = 1});
    (void)step(&v, 1, 0, longer);
    assert_true(strlen(v.message) < sizeof(v.message));
    assert_int_equal(v.state, PROBE_UNHEALTHY);
    for (size_t i = 1; i < PROBES_MAX; i++) { /* all names together are too long */
        probe_state_add_probe(&v, longer, &(struct probe_thresholds){.failures = 1});
        (void)step(&v, 1, i, longer);
    }
    assert_int_equal(strlen(v.message), sizeof(v.message) - 1);
}

/* Whatever it answered meanwhile, nobody was there to hear it. */
TEST(our_own_stall_accuses_nobody)
{
    struct probe_result result = {.outcome = PROBE_PASSED};
    for (int is_of_host = 0; is_of_host < 2; is_of_host++) {
        struct probe_state v = {.is_of_host = is_of_host};
        probe_state_add_probe(&v, "pci", &(struct probe_thresholds){.failures = 1});
        result.outcome = PROBE_PASSED;
        assert_true(probe_state_step(&v, &result));
        result.outcome = PROBE_SILENT;
        result.is_late = true;
        assert_int_equal(probe_state_step(&v, &result), !is_of_host);
        assert_int_equal(v.state, is_of_host ? PROBE_HEALTHY : PROBE_UNHEALTHY);
        result.outcome = PROBE_PASSED; /* is heard, however late */
        assert_int_equal(probe_state_step(&v, &result), !is_of_host);
        result.is_late = false;
    }
}
