/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_state.h"

#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

const char *probe_outcome_name(enum probe_outcome outcome)
{
    static const char *const names[PROBE_OUTCOME_COUNT] = {
        [PROBE_UNKNOWN] = "unknown", [PROBE_PASSED] = "passed", [PROBE_REFUSED] = "refused",
        [PROBE_SILENT] = "silent",   [PROBE_DENIED] = "denied", [PROBE_MISSING] = "missing",
        [PROBE_WRONG] = "wrong",     [PROBE_UNABLE] = "unable",
    };
    return names[outcome];
}

bool probe_outcome_is_our_lack(int sys_errno)
{
    return sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == ENOMEM ||
           sys_errno == ENOBUFS;
}

struct probe_answer probe_answer_make(enum probe_outcome outcome, const char *format, ...)
{
    struct probe_answer answer = {.outcome = outcome};
    va_list args;
    va_start(args, format);
    text_vformat(answer.words, sizeof(answer.words), format, args);
    va_end(args);
    return answer;
}

void probe_state_add_probe(struct probe_state *v, const char *name,
                           const struct probe_thresholds *thresholds)
{
    assert(v->probe_count < PROBES_MAX);
    struct probe_history *probe = &v->probes[v->probe_count++];
    probe->thresholds = *thresholds;
    text_sanitize(probe->name, sizeof(probe->name), name, strlen(name));
}

/* One that never passed, and then does, is well at once. */
static void probe_passed(struct probe_history *probe)
{
    if (!probe->failing || !probe->passed_once || ++probe->streak >= probe->thresholds.successes) {
        probe->failing = false;
        probe->streak = 0;
    }
    probe->passed_once = true;
    probe->ran = true;
}

static int64_t longest_patience_ns(const struct probe_thresholds *t)
{
    int64_t longest_ns = 0;
    for (size_t i = 0; i < PROBE_OUTCOME_COUNT; i++) {
        longest_ns = t->patience_ns[i] > longest_ns ? t->patience_ns[i] : longest_ns;
    }
    return longest_ns;
}

static bool is_out_of_patience(const struct probe_history *probe, struct mono now)
{
    const struct probe_thresholds *t = &probe->thresholds;
    return mono_since(now, probe->outcome_since) >= t->patience_ns[probe->outcome] ||
           mono_since(now, probe->streak_since) >= mono_ns_mul(longest_patience_ns(t), 2);
}

static void probe_failed(const struct probe_state *v, struct probe_history *probe,
                         const struct probe_result *result)
{
    const char *reason = text_is_empty(result->reason) ? "failed" : result->reason;
    bool is_unheard = v->is_of_host && !probe->passed_once;
    if (probe->failing || is_unheard) {
        probe->streak = 0;
    } else {
        if (probe->streak++ == 0) {
            probe->streak_since = result->started;
        }
        if (probe->streak >= probe->thresholds.failures && is_out_of_patience(probe, result->now)) {
            probe->failing = true;
            probe->streak = 0;
        }
    }
    text_sanitize(probe->reason, sizeof(probe->reason), reason, strlen(reason));
    probe->ran = probe->ran || probe->failing || is_unheard;
}

/* "probe 'a': why (and 'b', 'c')"; what is cut off is the end. */
static void write_message(const struct probe_state *v, char *message, size_t message_bytes)
{
    size_t failing = 0;
    for (size_t i = 0; i < v->probe_count; i++) {
        const struct probe_history *probe = &v->probes[i];
        if (!probe->failing) {
            continue;
        }
        if (failing++ == 0) {
            text_format(message, message_bytes, "probe '%s': %s", probe->name, probe->reason);
        } else {
            text_append(message, message_bytes, "%s'%s'", failing == 2 ? " (and " : ", ",
                        probe->name);
        }
    }
    if (failing > 1) {
        text_append(message, message_bytes, ")");
    }
}

static enum probe_health judge(const struct probe_state *v)
{
    enum probe_health state = PROBE_HEALTHY;
    for (size_t i = 0; i < v->probe_count; i++) {
        if (!v->probes[i].ran && !v->is_of_host) {
            return PROBE_HEALTH_UNKNOWN;
        }
        if (v->probes[i].failing) {
            state = PROBE_UNHEALTHY;
        }
    }
    return state;
}

bool probe_state_settle(struct probe_state *v)
{
    char message[NAMES_MESSAGE_BYTES] = "";
    enum probe_health state = judge(v);
    if (state == PROBE_HEALTH_UNKNOWN) {
        return false;
    }
    write_message(v, message, sizeof(message));
    bool changed = state != v->state || !text_equal(message, v->message);
    v->state = state;
    memcpy(v->message, message, sizeof(message));
    return changed;
}

void probe_state_restore(struct probe_state *v, size_t probe, bool failing)
{
    struct probe_history *p = &v->probes[probe];
    assert(probe < v->probe_count);
    p->passed_once = true;
    p->failing = failing;
    if (failing) {
        text_format(p->reason, sizeof(p->reason), "it failed before this agent started");
    }
}

bool probe_state_step(struct probe_state *v, const struct probe_result *result)
{
    assert(result->probe < v->probe_count);
    struct probe_history *probe = &v->probes[result->probe];
    probe->runs[result->outcome]++;
    probe->last_ns = mono_since(result->now, result->started);
    bool is_our_stall = v->is_of_host && result->is_late && result->outcome != PROBE_PASSED;
    if (result->outcome == PROBE_UNKNOWN || result->outcome == PROBE_UNABLE || is_our_stall) {
        return false;
    }
    if (result->outcome != probe->outcome) {
        probe->outcome = result->outcome;
        probe->outcome_since = result->started;
    }
    const struct probe_history was = *probe;
    if (result->outcome == PROBE_PASSED) {
        probe_passed(probe);
    } else if (result->outcome != PROBE_DENIED || !v->is_of_host) {
        probe_failed(v, probe, result);
    }
    bool is_news = was.passed_once != probe->passed_once || was.failing != probe->failing;
    return probe_state_settle(v) || (v->is_of_host && is_news);
}
