/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services of a DPU that runs ovn-kubernetes: where each listens, what it is asked, what it has
 * to say, and how much patience it deserves. CORE.
 *
 * A connect proves nothing (the kernel accepts for a stopped daemon), the database outlives its
 * daemon, and who is connected to a frozen database still says so: hence one question to each.
 */
#ifndef PROBE_SERVICE_H
#define PROBE_SERVICE_H

#include "base/time.h"
#include "probe/outcome.h"
#include "probe/rpc_message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SERVICE_COUNT = 7, SERVICE_BRIDGE_BYTES = 64 };

/* The pause after a run that failed: what is certain shows soon, and so does that it is over. */
#define SERVICE_RETRY_NS NS_PER_SEC

struct service {
    const char *name;
    bool is_of_ovs;     /* its socket is in the directory of OVS, else in that of OVN */
    bool has_beat;      /* judged by service_beat_step, not by its answer alone */
    const char *socket; /* NULL: NAME.PID.ctl by the pid file of `daemon` */
    const char *daemon;
    const char *database; /* that has to be among those served; NULL: none is asked for */
    struct rpc_question questions[RPC_QUESTIONS_MAX];
    int64_t interval_ns;
    int64_t timeout_ns; /* of one run */
    int64_t patience_ns[PROBE_OUTCOME_COUNT];
};

/* In the order in which one needs the other. Static. `index` < SERVICE_COUNT. */
const struct service *service_at(size_t index);
/* NULL if none is called so. Static. */
const struct service *service_find(const char *name, size_t name_len);

/* The answer to question `index`: PROBE_PASSED, or PROBE_WRONG with `words`. `bridge`: what
 * ovs-vswitchd must have. */
enum probe_outcome service_judge(const struct service *service, size_t index, const char *bridge,
                                 const struct rpc_message *reply,
                                 char words[static PROBE_WORDS_BYTES]);

/* ---- the beat of ovnkube --------------------------------------------------------------------- */

enum { SERVICE_BEAT_BYTES = 32 };

/* ovnkube writes the time to its northbound database every 30 s, northd copies it to the southbound
 * one: while it changes, all of them work. It is judged by its changes on our own clock; only the
 * first value may vouch by its age, so that a restart of ours waits for no change. */
struct service_beat {
    int64_t limit_ns; /* without a change */
    char last[SERVICE_BEAT_BYTES];
    bool has_begun;       /* to be watched */
    bool was_alive;       /* it changed, or was young when it was first seen */
    struct mono alive_at; /* or when it was first looked at */
};

/* `reply` is the answer of the southbound database. PROBE_UNKNOWN until the first value has changed
 * or had its time to. */
enum probe_outcome service_beat_step(struct service_beat *beat, const struct rpc_message *reply,
                                     struct mono now, struct wall wall_now,
                                     char words[static PROBE_WORDS_BYTES]);

#endif
