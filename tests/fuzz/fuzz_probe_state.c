/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any results of any probes, in any order: the verdict is the one of a model that counts passes and
 * failures in a row. The first bytes are the probes' thresholds, each four after them one result.
 */
#include "base/text.h"
#include "probe/probe_state.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MODELS_MAX = 4, PROBE_BYTES = 5, STEP_BYTES = 4 };

struct model {
    int64_t failures;
    int64_t successes;
    int64_t patience_ns[PROBE_OUTCOME_COUNT];
    bool has_run;
    bool has_passed;
    bool is_failing;
    uint32_t passes; /* in a row */
    uint32_t fails;
    struct mono first_fail;
    enum probe_outcome outcome;
    struct mono outcome_since;
};

static bool is_over(const struct model *m, struct mono now)
{
    int64_t longest_ns = 0;
    for (size_t i = 0; i < PROBE_OUTCOME_COUNT; i++) {
        longest_ns = m->patience_ns[i] > longest_ns ? m->patience_ns[i] : longest_ns;
    }
    return mono_since(now, m->outcome_since) >= m->patience_ns[m->outcome] ||
           mono_since(now, m->first_fail) >= 2 * longest_ns;
}

static void model_step(struct model *m, const struct probe_result *r, bool is_host_probe)
{
    if (r->outcome != m->outcome) {
        m->outcome = r->outcome;
        m->outcome_since = r->started;
    }
    if (r->outcome == PROBE_DENIED && is_host_probe) {
        return;
    }
    if (r->outcome == PROBE_PASSED) {
        m->has_run = true;
        m->fails = 0;
        m->passes++;
        m->is_failing = m->is_failing && m->has_passed && m->passes < m->successes;
        m->has_passed = true;
        return;
    }
    m->passes = 0;
    if (is_host_probe && !m->has_passed) { /* proves nothing */
        m->has_run = true;
        return;
    }
    m->first_fail = m->fails == 0 ? r->started : m->first_fail;
    m->fails++;
    m->is_failing = m->is_failing || (m->fails >= m->failures && is_over(m, r->now));
    m->has_run = m->has_run || m->is_failing;
}

static void check_verdict(const struct probe_state *v, const struct model *models)
{
    bool is_known = true;
    const struct probe_history *first = NULL;
    for (size_t i = v->probe_count; i-- > 0;) {
        const struct probe_history *p = &v->probes[i];
        check(p->failing == models[i].is_failing && p->passed_once == models[i].has_passed);
        first = p->failing ? p : first;
        is_known = is_known && (models[i].has_run || v->is_of_host);
    }
    check(strnlen(v->message, sizeof(v->message)) < sizeof(v->message));
    check(v->state == (!is_known ? PROBE_HEALTH_UNKNOWN : first ? PROBE_UNHEALTHY : PROBE_HEALTHY));
    check((v->message[0] != '\0') == (v->state == PROBE_UNHEALTHY));
    check(v->message[0] == '\0' || strstr(v->message, first->name));
}

static void step(struct probe_state *v, struct model *models, const struct probe_result *r)
{
    struct probe_state before = *v;
    struct model *m = &models[r->probe];
    const struct model was = *m;
    bool is_news = probe_state_step(v, r);
    before.probes[r->probe].runs[r->outcome]++;
    before.probes[r->probe].last_ns = mono_since(r->now, r->started);
    if (r->outcome == PROBE_UNKNOWN || r->outcome == PROBE_UNABLE) {
        check(!is_news && memcmp(&before, v, sizeof(before)) == 0);
        return;
    }
    model_step(m, r, v->is_of_host);
    check_verdict(v, models);
    bool has_testified = was.has_passed != m->has_passed || was.is_failing != m->is_failing;
    bool has_changed = v->state != before.state || !text_equal(v->message, before.message);
    check(is_news == (has_changed || (v->is_of_host && has_testified)));
    check(v->state == before.state || v->since.ns == r->now.ns);
}

static void add_probe(struct probe_state *v, struct model *m, const uint8_t *data)
{
    char name[2] = {(char)('a' + v->probe_count), '\0'};
    struct probe_thresholds t = {.failures = data[0] % 5, .successes = data[1] % 5};
    for (size_t i = 0; i < PROBE_OUTCOME_COUNT; i++) {
        t.patience_ns[i] = (data[2 + i % 3] % 16) * NS_PER_SEC;
    }
    *m = (struct model){.failures = t.failures, .successes = t.successes};
    memcpy(m->patience_ns, t.patience_ns, sizeof(m->patience_ns));
    probe_state_add_probe(v, name, &t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct probe_state v;
    struct model models[MODELS_MAX];
    struct mono now = {.ns = NS_PER_SEC};
    size_t used = 1;
    int turns = 0;
    size_t count = size > 0 ? data[0] % MODELS_MAX + 1 : 0;
    if (count == 0 || size < 1 + count * PROBE_BYTES) {
        return 0;
    }
    v = (struct probe_state){.probe_count = 0};
    v.is_of_host = data[0] >= 128;
    for (; v.probe_count < count; used += PROBE_BYTES) {
        add_probe(&v, &models[v.probe_count], data + used);
    }
    for (; used + STEP_BYTES <= size; used += STEP_BYTES) {
        enum probe_health was = v.state;
        struct probe_result r = {.probe = data[used] % count,
                                 .outcome = data[used + 1] % PROBE_OUTCOME_COUNT,
                                 .reason = data[used + 1] < 128 ? "why" : NULL};
        now = mono_add(now, data[used + 2] * NS_PER_SEC / 8);
        r.now = now;
        r.started = mono_add(now, -(int64_t)(data[used + 3] % 8) * NS_PER_SEC / 8);
        step(&v, models, &r);
        turns += was != v.state;
    }
    fuzz_tell(turns > 1);
    return 0;
}
