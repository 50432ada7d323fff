/* SPDX-License-Identifier: Apache-2.0 */
/* One probe in a loop of its own, beside a directory for what it looks at. */
#ifndef TESTS_UNIT_PROBE_WORLD_H
#define TESTS_UNIT_PROBE_WORLD_H

#include "base/text.h"
#include "probe/probe_set.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <sys/mount.h>

enum { GUARD_S = 20, PROBE_INDEX = 3, COMMAND_BYTES = SCRATCH_PATH_BYTES };

struct world {
    struct ev_loop *loop;
    char dir[SCRATCH_BYTES];
    struct probe *probe; /* or NULL */
    int runs;
    enum probe_outcome outcome; /* of the last one */
    char words[PROBE_WORDS_BYTES];
};

static inline void probe_world_init(struct world *w)
{
    *w = (struct world){.loop = ev_loop_new(0)};
    assert_non_null(w->loop);
    scratch_make(w->dir);
}

static inline void probe_world_fini(struct world *w)
{
    probe_free(w->probe);
    ev_loop_destroy(w->loop);
    (void)umount2(w->dir, MNT_DETACH); /* some tests mount there */
    scratch_remove(w->dir);
}

WORLD(probe_world_init, probe_world_fini)

static inline void probe_world_result(void *user, const struct probe_result *result)
{
    struct world *w = user;
    assert_int_equal(result->probe, PROBE_INDEX);
    w->runs++;
    w->outcome = result->outcome;
    (void)text_copy(w->words, sizeof(w->words), result->reason);
}

/* Makes it in place of the former one. */
static inline int probe_world_make(struct world *w, const struct probe_spec *spec, struct err *e)
{
    probe_free(w->probe);
    w->probe = NULL;
    w->runs = 0;
    return probe_new(w->loop, spec, PROBE_INDEX, probe_world_result, w, &w->probe, e);
}

/* The same by its text, with sysfs in the directory. */
static inline int probe_world_parse(struct world *w, const char *text, int64_t interval_ns,
                                    int64_t timeout_ns, struct err *e)
{
    struct probe_spec spec = {.timeout_ns = timeout_ns,
                              .root = w->dir,
                              .ovs_run_dir = "/nowhere",
                              .ovn_run_dir = "/nowhere"};
    int rc = probe_spec_parse(text, 0, &spec, &spec, e);
    spec.interval_ns = interval_ns;
    spec.retry_ns = interval_ns;
    return rc != 0 ? rc : probe_world_make(w, &spec, e);
}

static inline void probe_world_start(struct world *w, const char *text, int64_t interval_ns,
                                     int64_t timeout_ns)
{
    struct err e = ERR_INIT;
    if (probe_world_parse(w, text, interval_ns, timeout_ns, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    probe_start(w->probe);
}

static inline void probe_world_on_guard(struct ev_loop *loop, ev_timer *timer, int revents)
{
}

/* Passes the time until there were so many runs, and the last one ended so (PROBE_UNKNOWN: however
 * it did). */
static inline void probe_world_await(struct world *w, int runs, enum probe_outcome wanted)
{
    ev_timer guard;
    ev_timer_init(&guard, probe_world_on_guard, GUARD_S, 0);
    ev_timer_start(w->loop, &guard);
    while (ev_is_active(&guard) &&
           (w->runs < runs || (wanted != PROBE_UNKNOWN && w->outcome != wanted))) {
        ev_run(w->loop, EVRUN_ONCE);
    }
    ev_timer_stop(w->loop, &guard);
    assert_true(w->runs >= runs);
}

static inline void probe_world_expect(struct world *w, enum probe_outcome wanted, const char *words)
{
    probe_world_await(w, 1, wanted);
    if (w->outcome != wanted || !text_equal(w->words, words)) {
        fail_msg("%s: '%s'", probe_outcome_name(w->outcome), w->words);
    }
}

#endif
