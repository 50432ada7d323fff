/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/health.h"

#include "base/clock.h"
#include "base/log.h"
#include "probe/probe.h"

#include <stdlib.h>

struct health {
    struct verdict verdict;
    struct probe *probes[VERDICT_MAX_PROBES]; /* owned; verdict.probe_count of them */
    struct health_stats stats[VERDICT_MAX_PROBES];
    health_change_fn *change;
    void *user;
    struct log_repeat unable;
};

static void tell(const struct health *health)
{
    health->change(health->user, health->verdict.state, health->verdict.message);
}

/* A right that is missing will be missing tomorrow, and an option that is wrong will be wrong:
 * somebody has to act. */
static void log_failure(struct health *health, size_t index, const struct probe_result *result)
{
    const struct verdict_probe *probe = &health->verdict.probes[index];
    bool is_denied = result->outcome == PROBE_DENIED;
    bool is_unheard = health->verdict.is_of_witnesses && !probe->passed_once && !probe->ran;
    if (result->outcome == PROBE_UNABLE) {
        if (log_repeat_due(&health->unable, result->now, LOG_AGAIN_NS)) {
            log_warn("probe", "probe '%s' could not be run, which says nothing of the DPU: %s%s",
                     probe->name, result->words, health->unable.more);
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
    struct health *health = user;
    struct health_stats *stats = &health->stats[index];
    struct verdict_result step = {.started = result->started,
                                  .now = result->now,
                                  .probe = index,
                                  .outcome = result->outcome,
                                  .reason = result->words};
    if (health->verdict.is_of_witnesses && result->is_late && step.outcome != PROBE_PASSED) {
        step.outcome = PROBE_UNKNOWN; /* our own stall accuses nobody */
    }
    log_failure(health, index, result);
    stats->runs[result->outcome]++;
    stats->last_ns = mono_since(result->now, result->started);
    if (verdict_step(&health->verdict, &step)) {
        tell(health);
    }
}

static int add_probe(struct health *health, struct ev_loop *loop, const struct probe_spec *spec,
                     struct err *e)
{
    size_t index = health->verdict.probe_count;
    if (index == VERDICT_MAX_PROBES) {
        return err_set(e, ERR_LIMIT, "more than %d probes", VERDICT_MAX_PROBES);
    }
    int rc = probe_new(loop, spec, index, on_result, health, &health->probes[index], e);
    if (rc == 0 && !verdict_add_probe(&health->verdict, spec->name, &spec->thresholds)) {
        rc = err_set(e, ERR_BUG, "no room for probe '%s'", spec->name);
    }
    return rc;
}

/* All that one text stands for. */
static int add_probes(struct health *health, struct ev_loop *loop, const char *text,
                      const struct probe_spec *defaults, struct err *e)
{
    struct probe_spec spec;
    size_t count = probe_spec_count(text);
    for (size_t i = 0; i < count; i++) {
        int rc = probe_spec_parse(text, i, defaults, &spec, e);
        if (rc != 0) {
            return rc;
        }
        rc = add_probe(health, loop, &spec, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int health_new(struct ev_loop *loop, char *const *probes, size_t count,
               const struct probe_spec *defaults, health_change_fn *change, void *user,
               struct health **out, struct err *e)
{
    struct health *health = calloc(1, sizeof(*health));
    if (!health) {
        return err_no_memory(e);
    }
    health->change = change;
    health->user = user;
    verdict_init(&health->verdict);
    for (size_t i = 0; i < count; i++) {
        int rc = add_probes(health, loop, probes[i], defaults, e);
        if (rc != 0) {
            health_free(health);
            return rc;
        }
    }
    *out = health;
    return 0;
}

void health_make_witnesses(struct health *health)
{
    health->verdict.is_of_witnesses = true;
}

void health_restore(struct health *health, size_t index, bool failing)
{
    verdict_restore(&health->verdict, index, failing);
}

void health_start(struct health *health)
{
    bool is_known = health->verdict.probe_count == 0 || health->verdict.is_of_witnesses;
    if (is_known && verdict_settle(&health->verdict, clock_mono_now())) {
        tell(health);
    }
    for (size_t i = 0; i < health->verdict.probe_count; i++) {
        probe_start(health->probes[i]);
    }
}

const struct verdict *health_verdict(const struct health *health)
{
    return &health->verdict;
}

const struct health_stats *health_stats(const struct health *health)
{
    return health->stats;
}

void health_free(struct health *health)
{
    if (!health) {
        return;
    }
    for (size_t i = 0; i < VERDICT_MAX_PROBES; i++) {
        probe_free(health->probes[i]);
    }
    free(health);
}
