/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agents as processes of the world: each start is that of the real program's main, with the
 * real shells. The oracle knows nothing of what is behind this header.
 */
#ifndef TESTS_SIM_AGENTS_H
#define TESTS_SIM_AGENTS_H

#include "tests/sim/world.h"

enum { AGENTS_PATH_BYTES = 256, AGENTS_TEXT_BYTES = 600 };

#define AGENTS_HOST   "host"
#define AGENTS_DPU    "dpu"
#define AGENTS_SECOND "second"

struct agents_config {
    int64_t interval_ns;
    int64_t duration_ns;
    int64_t stale_hold_ns;
    bool is_companion;     /* another program also renews the lease */
    const char *directory; /* of the records; exists */
};

struct api;
struct daemon;
struct proc *agent_of_daemon(struct daemon *d);

void agents_init(struct world *w, const struct agents_config *config);
void agents_fini(void);

struct proc *agents_host(void);
struct proc *agents_dpu(void);
const char *agents_record_path(void);
int64_t agents_interval_ns(void);    /* between renewals, as configured */
bool agents_host_found_record(void); /* one of use, when it last started */

/* Each does nothing to what is there, or not there, already. */
void agents_start_host(void);
void agents_start_second(void);
void agents_start_dpu(void);
void agents_kill(struct proc *proc); /* at once */
void agents_kill_second(void);

/* What the probes say; it is kept for the next start. */
void agents_set_healthy(bool is_healthy);
bool agents_are_healthy(void);
void agents_shut_dpu_down(void); /* SIGTERM */
bool agents_dpu_ends(void);      /* it came, and the process is still there */

/* What the host's own probe sees: a look each second, and at each change. */
void agents_set_host_probe(bool is_failing);
/* It says no, and was well before in this boot, as far as is remembered. */
bool agents_host_probe_accuses(void);

void agents_forget_host_probe(void); /* another boot */

/* What dpu-gate says now, as text: "admit" or "refuse", and the reason. */
bool agents_ask_gate(char reason[static AGENTS_TEXT_BYTES]);

/*
 * ovn-kubernetes' own health check on the DPU, as whose companion our agent runs in some worlds: it
 * renews the lease once an interval, and knows nothing of probes and boots.
 */
#define OVNKUBE "ovnkube"

/* Renews from now on, whenever it can. */
void ovnkube_start(struct api *api, int64_t interval_ns);
bool ovnkube_runs(void);

#endif
