/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ovn-kubernetes' own health check on the DPU, as whose companion our agent runs in some worlds: it
 * renews the lease once an interval, and knows nothing of probes and boots.
 */
#ifndef TESTS_SIM_OVNKUBE_H
#define TESTS_SIM_OVNKUBE_H

#include "tests/sim/api.h"

#define OVNKUBE "ovnkube"

/* Renews from now on, whenever it can. */
void ovnkube_start(struct api *api, int64_t interval_ns);
bool ovnkube_runs(void);

#endif
