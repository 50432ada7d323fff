/* SPDX-License-Identifier: Apache-2.0 */
/* The way into the verdict: the linker brings its callers here (--wrap). What comes is counted, and
 * handed on. */
#include "host-agent/expiry.h"
#include "tests/sim/agents.h"
#include "tests/sim/tally.h"

void __real_expiry_step(struct expiry *x, const struct expiry_event *event,
                        struct expiry_update *out);
void __wrap_expiry_step(struct expiry *x, const struct expiry_event *event,
                        struct expiry_update *out);

static const struct {
    const char *name;
    bool has_source;
} kinds[] = {
    [EXPIRY_LEASE_OBSERVED] = {"lease observed", true},
    [EXPIRY_LEASE_ABSENT] = {"lease absent", true},
    [EXPIRY_LEASE_UNREADABLE] = {"lease unreadable", true},
    [EXPIRY_READ_OK] = {"read answered", true},
    [EXPIRY_READ_FAILED] = {"read failed", true},
    [EXPIRY_WATCH_BROKEN] = {"watch broken", false},
    [EXPIRY_WATCH_WORKS] = {"watch works", false},
    [EXPIRY_MARK] = {"mark", false},
    [EXPIRY_PODS] = {"pods", false},
    [EXPIRY_HOST_PROBES] = {"host probes", false},
    [EXPIRY_TICK] = {"tick", false},
};

static const char *const sources[] = {
    [EXPIRY_BY_WATCH] = ", by watch",
    [EXPIRY_BY_READ] = ", by read",
    [EXPIRY_BY_CONFIRM] = ", by confirming read",
    [EXPIRY_BY_WRITE] = ", by write",
};

void __wrap_expiry_step(struct expiry *x, const struct expiry_event *event,
                        struct expiry_update *out)
{
    if (world_get()->current == agents_host()) {
        bool is_mark = event->kind == EXPIRY_MARK;
        tally_note("verdict: %s%s%s", kinds[event->kind].name,
                   kinds[event->kind].has_source ? sources[event->source]
                   : is_mark                     ? " "
                                                 : "",
                   is_mark ? chain_outcome_name(event->outcome) : "");
    }
    __real_expiry_step(x, event, out);
}
