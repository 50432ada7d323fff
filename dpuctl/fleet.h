/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be said of a node's DPU from outside, by the API server's objects alone. Pure.
 *
 * Nobody out here observes renewals: the stamp of the last one, which is the DPU's clock, is held
 * against the Date of the answer that brought it, which is the API server's. What the host itself
 * has said (dpu-gate's refusal in the Node's condition Ready, the condition DPUReady, the taint of
 * the ResourceSlice) counts more than that, except that it cannot make a silent DPU Ready.
 */
#ifndef DPUCTL_FLEET_H
#define DPUCTL_FLEET_H

#include "contract/lease.h"
#include "contract/readiness.h"

#include <stdbool.h>
#include <stddef.h>

enum { FLEET_WORD_BYTES = 64, FLEET_MESSAGE_BYTES = 256 };

/* Who speaks for the host, the more telling last. */
enum fleet_teller { FLEET_NOBODY, FLEET_TAINT, FLEET_CONDITION, FLEET_GATE };

struct fleet_word {
    enum fleet_teller teller;
    enum readiness_state state;
    char reason[FLEET_WORD_BYTES]; /* sanitized, as all texts here */
    char message[FLEET_MESSAGE_BYTES];
    struct wall since; /* 0: not said */
};

struct fleet_row {
    char node[NAMES_K8S_NAME_BYTES]; /* of a further DPU of a Node: NODE--DPU, as in its lease */
    size_t node_bytes;               /* of the Node's name in it */
    struct wall now; /* the API server's clock when it answered; 0: it gave no Date */
    bool has_lease;
    struct lease_view lease;
    char boot_id[FLEET_WORD_BYTES]; /* of the DPU; "": not said; as is lease.agent_version */
    bool has_node;
    bool is_marked; /* the Node has the label of a host with a DPU */
    struct fleet_word word;
    bool has_gate;                        /* the agent's pod has put dpu-gate in; or it refuses */
    char agent_pod[NAMES_K8S_NAME_BYTES]; /* of dpu-host-agent; "": none was seen */
    char agent_version[FLEET_WORD_BYTES]; /* the tag of its image */
    bool is_agent_ready;                  /* that pod is */
    bool has_rolling_names;               /* it serves DRA by sockets with names of its own */

    /* The judgement. */
    enum readiness_state state;
    char reason[FLEET_WORD_BYTES];
    char message[FLEET_MESSAGE_BYTES];
    struct wall since; /* 0: cannot be known from here */
};

/* Keeps the more telling of both words. */
void fleet_hear(struct fleet_row *row, const struct fleet_word *word);

/* Fills the judgement. `holder`: whose renewals count. */
void fleet_judge(struct fleet_row *row, const char *holder);

/* How long ago the last renewal is stamped; negative where the DPU's clock is ahead of the API
 * server's. False if there is none, or no Date to compare with. */
bool fleet_renewal_age(const struct fleet_row *row, int64_t *out_ns);

/* NotReady, Unknown, Ready; of the same state by reason, then by name. For qsort. */
int fleet_compare(const void *a, const void *b);

#endif
