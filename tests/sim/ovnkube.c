/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/ovnkube.h"

#include "tests/sim/agents.h"
#include "tests/sim/faults.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct ovnkube {
    struct api *api;
    int64_t interval_ns;
} ovnkube; /* as the world's */

/* With the whole DPU, or while our agent lives on. */
bool ovnkube_runs(void)
{
    return !faults_on(FAULT_DPU_REBOOT) &&
           !(faults_on(FAULT_DPU_DEAD) && faults_param(FAULT_DPU_DEAD) % 2 == 0) &&
           !(faults_on(FAULT_DPU_STOPPED) && faults_param(FAULT_DPU_STOPPED) % 2 == 0);
}

static bool can_write(void)
{
    return ovnkube_runs() && !faults_on(FAULT_API_DOWN) && !faults_on(FAULT_DPU_CUT) &&
           !faults_on(FAULT_NO_WRITES);
}

static bool is_foreign(const json_t *lease)
{
    const char *holder =
        json_string_value(json_object_get(json_object_get(lease, "spec"), "holderIdentity"));
    return holder && strcmp(holder, "somebody-else") == 0;
}

static void renew(void *user)
{
    struct world *w = world_get();
    const json_t *stored = api_find(ovnkube.api, API_LEASE);
    (void)user;
    if (stored && can_write() && !is_foreign(stored)) {
        int64_t wall_ns = machine_wall_ns(w, agents_dpu_machine());
        time_t seconds = (time_t)(wall_ns / SEC);
        char stamp[64];
        struct tm tm;
        size_t used = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
        (void)snprintf(stamp + used, sizeof(stamp) - used, ".%06dZ", (int)(wall_ns % SEC / 1000));
        json_t *lease = json_deep_copy(stored);
        json_t *spec = json_object_get(lease, "spec");
        if (!spec) {
            spec = json_object();
            json_object_set_new(lease, "spec", spec);
        }
        json_object_set_new(spec, "holderIdentity", json_string("ovnkube-dpu-node"));
        json_object_set_new(spec, "renewTime", json_string(stamp));
        (void)api_store(ovnkube.api, OVNKUBE, API_LEASE, lease);
    }
    world_at(w, w->now + ovnkube.interval_ns + world_between(w, 0, ovnkube.interval_ns / 20), renew,
             NULL);
}

void ovnkube_start(struct api *api, int64_t interval_ns)
{
    ovnkube = (struct ovnkube){.api = api, .interval_ns = interval_ns};
    renew(NULL);
}
