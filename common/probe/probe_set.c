/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_set.h"

#include "base/clock.h"
#include "base/log.h"
#include "probe/probe.h"

#include <stdlib.h>

struct probe_set {
    struct probe_state state;
    struct probe *probes[PROBES_MAX]; /* owned; verdict.probe_count of them */
    struct probe_stats stats[PROBES_MAX];
    probe_set_change_fn *change;
    void *user;
    struct log_repeat unable;
};

static void tell(const struct probe_set *set)
{
    set->change(set->user, set->state.state, set->state.message);
}

/* A right that is missing will be missing tomorrow, and an option that is wrong will be wrong:
 * somebody has to act. */
static void log_failure(struct probe_set *set, size_t index, const struct probe_result *result)
{
    const struct probe_history *probe = &set->state.probes[index];
    bool is_denied = result->outcome == PROBE_DENIED;
    bool is_unheard = set->state.is_of_host && !probe->passed_once && !probe->ran;
    if (result->outcome == PROBE_UNABLE) {
        if (log_repeat_due(&set->unable, result->now, LOG_AGAIN_NS)) {
            log_warn("probe", "probe '%s' could not be run, which says nothing of the DPU: %s%s",
                     probe->name, result->words, set->unable.more);
        }
        return;
    }
    if (is_denied && probe->outcome != PROBE_DENIED) {
        log_error("probe", "probe '%s': %s", probe->name, result->words);
    } else if (result->outcome != PROBE_PASSED && is_unheard && !is_denied) {
        log_warn("probe",
                 "probe '%s' has not been well since this host was started, so its failures prove "
                 "nothing: %s",
                 probe->name, result->words);
    } else if (result->outcome != PROBE_PASSED) {
        log_debug("probe", "probe '%s': %s: %s", probe->name, probe_outcome_name(result->outcome),
                  result->words);
    }
}

static void on_result(void *user, size_t index, const struct probe_result *result)
{
    struct probe_set *set = user;
    struct probe_stats *stats = &set->stats[index];
    struct probe_state_result step = {.started = result->started,
                                      .now = result->now,
                                      .probe = index,
                                      .outcome = result->outcome,
                                      .reason = result->words};
    if (set->state.is_of_host && result->is_late && step.outcome != PROBE_PASSED) {
        step.outcome = PROBE_UNKNOWN; /* our own stall accuses nobody */
    }
    log_failure(set, index, result);
    stats->runs[result->outcome]++;
    stats->last_ns = mono_since(result->now, result->started);
    if (probe_state_step(&set->state, &step)) {
        tell(set);
    }
}

static int add_probe(struct probe_set *set, struct ev_loop *loop, const struct probe_spec *spec,
                     struct err *e)
{
    size_t index = set->state.probe_count;
    if (index == PROBES_MAX) {
        return err_set(e, ERR_LIMIT, "more than %d probes", PROBES_MAX);
    }
    int rc = probe_new(loop, spec, index, on_result, set, &set->probes[index], e);
    if (rc == 0 && !probe_state_add_probe(&set->state, spec->name, &spec->thresholds)) {
        rc = err_set(e, ERR_BUG, "no room for probe '%s'", spec->name);
    }
    return rc;
}

/* All that one text stands for. */
static int add_probes(struct probe_set *set, struct ev_loop *loop, const char *text,
                      const struct probe_spec *defaults, struct err *e)
{
    struct probe_spec spec;
    size_t count = probe_spec_count(text);
    for (size_t i = 0; i < count; i++) {
        int rc = probe_spec_parse(text, i, defaults, &spec, e);
        if (rc != 0) {
            return rc;
        }
        rc = add_probe(set, loop, &spec, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int probe_set_new(struct ev_loop *loop, char *const *probes, size_t count,
                  const struct probe_spec *defaults, probe_set_change_fn *change, void *user,
                  struct probe_set **out, struct err *e)
{
    struct probe_set *set = calloc(1, sizeof(*set));
    if (!set) {
        return err_no_memory(e);
    }
    set->change = change;
    set->user = user;
    probe_state_init(&set->state);
    for (size_t i = 0; i < count; i++) {
        int rc = add_probes(set, loop, probes[i], defaults, e);
        if (rc != 0) {
            probe_set_free(set);
            return rc;
        }
    }
    *out = set;
    return 0;
}

void probe_set_make_host_probes(struct probe_set *set)
{
    set->state.is_of_host = true;
}

void probe_set_restore(struct probe_set *set, size_t index, bool failing)
{
    probe_state_restore(&set->state, index, failing);
}

void probe_set_start(struct probe_set *set)
{
    bool is_known = set->state.probe_count == 0 || set->state.is_of_host;
    if (is_known && probe_state_settle(&set->state, clock_mono_now())) {
        tell(set);
    }
    for (size_t i = 0; i < set->state.probe_count; i++) {
        probe_start(set->probes[i]);
    }
}

const struct probe_state *probe_set_state(const struct probe_set *set)
{
    return &set->state;
}

const struct probe_stats *probe_set_stats(const struct probe_set *set)
{
    return set->stats;
}

void probe_set_free(struct probe_set *set)
{
    if (!set) {
        return;
    }
    for (size_t i = 0; i < PROBES_MAX; i++) {
        probe_free(set->probes[i]);
    }
    free(set);
}
