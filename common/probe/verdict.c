/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/verdict.h"

#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void verdict_init(struct verdict *v)
{
    *v = (struct verdict){.state = VERDICT_UNKNOWN};
}

bool verdict_add_probe(struct verdict *v, const char *name, struct verdict_thresholds thresholds)
{
    if (v->probe_count == VERDICT_MAX_PROBES) {
        return false;
    }
    struct verdict_probe *probe = &v->probes[v->probe_count++];
    probe->thresholds = thresholds;
    text_sanitize(probe->name, sizeof(probe->name), name, strlen(name));
    return true;
}

static bool streak_reached(uint32_t streak, uint32_t threshold)
{
    return streak >= (threshold > 0 ? threshold : 1);
}

static void probe_passed(struct verdict_probe *probe)
{
    if (!probe->passed_once) {
        probe->failing = false;
        probe->streak = 0;
    } else if (!probe->failing) {
        probe->streak = 0;
    } else if (streak_reached(++probe->streak, probe->thresholds.successes)) {
        probe->failing = false;
        probe->streak = 0;
    }
    probe->passed_once = true;
    probe->ran = true;
}

static void probe_failed(struct verdict_probe *probe, const char *reason)
{
    if (!probe->passed_once) {
        probe->failing = true;
        probe->streak = 0;
    } else if (probe->failing) {
        probe->streak = 0;
    } else if (streak_reached(++probe->streak, probe->thresholds.failures)) {
        probe->failing = true;
        probe->streak = 0;
    }
    if (text_is_empty(reason)) {
        reason = "failed";
    }
    text_sanitize(probe->reason, sizeof(probe->reason), reason, strlen(reason));
    probe->ran = true;
}

/* Also writes the message that belongs to the state. */
static enum verdict_state judge(const struct verdict *v, char *message, size_t message_bytes)
{
    const struct verdict_probe *first = NULL;
    size_t failing = 0;
    message[0] = '\0';
    for (size_t i = 0; i < v->probe_count; i++) {
        if (!v->probes[i].ran) {
            return VERDICT_UNKNOWN;
        }
        if (v->probes[i].failing) {
            first = first ? first : &v->probes[i];
            failing++;
        }
    }
    if (!first) {
        return VERDICT_HEALTHY;
    }
    int used = snprintf(message, message_bytes, "probe '%s': %s", first->name, first->reason);
    if (failing > 1 && used > 0 && (size_t)used < message_bytes) {
        text_format(message + used, message_bytes - (size_t)used, " (and %zu more)",
                    failing - 1); /* what is cut off is the count alone */
    }
    return VERDICT_UNHEALTHY;
}

bool verdict_settle(struct verdict *v, struct mono now)
{
    char message[NAMES_MESSAGE_BYTES];
    enum verdict_state state = judge(v, message, sizeof(message));
    if (state == VERDICT_UNKNOWN) {
        return false;
    }
    bool changed = state != v->state || !text_equal(message, v->message);
    if (state != v->state) {
        v->since = now;
    }
    v->state = state;
    memcpy(v->message, message, sizeof(message));
    return changed;
}

bool verdict_step(struct verdict *v, const struct verdict_result *result)
{
    assert(result->probe < v->probe_count);
    struct verdict_probe *probe = &v->probes[result->probe];
    if (result->passed) {
        probe_passed(probe);
    } else {
        probe_failed(probe, result->reason);
    }
    return verdict_settle(v, result->now);
}
