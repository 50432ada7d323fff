/* SPDX-License-Identifier: Apache-2.0 */
/* The way into the verdict: the linker brings its callers here (--wrap). What comes is counted, and
 * handed on. */
#include "host-agent/verdict.h"
#include "tests/sim/agents.h"
#include "tests/sim/tally.h"

void __real_verdict_step(struct verdict *x, const struct verdict_event *event,
                         struct verdict_update *out);
void __wrap_verdict_step(struct verdict *x, const struct verdict_event *event,
                         struct verdict_update *out);

static const struct {
    const char *name;
    bool has_source;
} kinds[] = {
    [VERDICT_LEASE_OBSERVED] = {"lease observed", true},
    [VERDICT_LEASE_ABSENT] = {"lease absent", true},
    [VERDICT_LEASE_UNREADABLE] = {"lease unreadable", true},
    [VERDICT_READ_OK] = {"read answered", true},
    [VERDICT_READ_FAILED] = {"read failed", true},
    [VERDICT_WATCH_BROKEN] = {"watch broken", false},
    [VERDICT_WATCH_WORKS] = {"watch works", false},
    [VERDICT_MARK] = {"mark", false},
    [VERDICT_PODS] = {"pods", false},
    [VERDICT_HOST_PROBES] = {"host probes", false},
    [VERDICT_TICK] = {"tick", false},
};

static const char *const sources[] = {
    [VERDICT_BY_WATCH] = ", by watch",
    [VERDICT_BY_READ] = ", by read",
    [VERDICT_BY_CONFIRM] = ", by confirming read",
    [VERDICT_BY_WRITE] = ", by write",
};

void __wrap_verdict_step(struct verdict *x, const struct verdict_event *event,
                         struct verdict_update *out)
{
    if (world_get()->current == agents_host()) {
        bool is_mark = event->kind == VERDICT_MARK;
        tally_note("verdict: %s%s%s", kinds[event->kind].name,
                   kinds[event->kind].has_source ? sources[event->source]
                   : is_mark                     ? " "
                                                 : "",
                   is_mark ? chain_outcome_name(event->outcome) : "");
    }
    __real_verdict_step(x, event, out);
}
