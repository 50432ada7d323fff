/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_probes.h"

#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "probe/probe_set.h"

#include <stdlib.h>
#include <string.h>

struct host_probes {
    struct host_probes_config config;
    struct probe_set *probes;
    struct readiness_host_probes said; /* in the order of the verdict's probes */
};

static void on_change(void *user, enum probe_health state, const char *message)
{
    struct host_probes *w = user;
    for (size_t i = 0; i < w->said.count; i++) {
        const struct probe_history *probe = &probe_set_state(w->probes)->probes[i];
        w->said.each[i].says = probe->failing       ? HOST_PROBE_FAILED
                               : probe->passed_once ? HOST_PROBE_WELL
                                                    : HOST_PROBE_NEVER_WELL;
    }
    w->config.on_change(w->config.user, &w->said, message);
}

/* Index, or the count. */
static size_t find(const struct readiness_host_probes *all, const char *probe)
{
    size_t i = 0;
    while (i < all->count && !text_equal(all->each[i].probe, probe)) {
        i++;
    }
    return i;
}

/* By its text the record tells it from others: so it has to fit there, and be the only one. */
static int name_host_probe(struct readiness_host_probes *all, const char *text, struct err *e)
{
    struct readiness_host_probe *next = &all->each[all->count];
    if (all->count == HOST_PROBES_MAX) {
        return err_set(e, ERR_LIMIT, "a host has at most %d probes", HOST_PROBES_MAX);
    }
    if (strlen(text) >= sizeof(next->probe)) {
        return err_set(e, ERR_LIMIT,
                       "a host probe has at most %d bytes; put a long command into a file",
                       HOST_PROBE_BYTES - 1);
    }
    text_sanitize(next->probe, sizeof(next->probe), text, strlen(text));
    if (find(all, next->probe) < all->count) {
        return err_set(e, ERR_PARSE, "it is configured twice");
    }
    all->count++;
    return 0;
}

int host_probes_new(const struct host_probes_config *config, struct host_probes **out,
                    struct err *e)
{
    CLEANUP(free) struct host_probes *w = MEM_NEW(struct host_probes);
    /* For what a probe's own settings do not say: as dpu-agent has it by default. */
    const struct probe_spec defaults = {.interval_ns = 5 * NS_PER_SEC,
                                        .timeout_ns = 2 * NS_PER_SEC,
                                        .thresholds = {.failures = 3, .successes = 1},
                                        .root = config->root};
    w->config = *config;
    for (size_t i = 0; i < config->count; i++) {
        int rc = name_host_probe(&w->said, config->probes[i], e);
        if (rc != 0) {
            return probe_spec_refuse(config->probes[i], rc, e);
        }
    }
    const struct probe_set_config set = {.probes = config->probes,
                                         .count = config->count,
                                         .defaults = &defaults,
                                         .is_of_host = true,
                                         .change = on_change,
                                         .user = w};
    int rc = probe_set_new(config->loop, &set, &w->probes, e);
    if (rc != 0) {
        return rc;
    }
    *out = TAKE(w);
    return 0;
}

void host_probes_recall(struct host_probes *w, const struct readiness_host_probes *known)
{
    for (size_t i = 0; i < w->said.count; i++) {
        size_t at = find(known, w->said.each[i].probe);
        if (at < known->count && known->each[at].says != HOST_PROBE_NEVER_WELL) {
            bool has_failed = known->each[at].says == HOST_PROBE_FAILED;
            probe_state_restore(probe_set_state(w->probes), i, has_failed);
        }
    }
}

void host_probes_start(struct host_probes *w)
{
    probe_set_start(w->probes);
}

void host_probes_free(struct host_probes *w)
{
    if (w) {
        probe_set_free(w->probes);
        free(w);
    }
}
