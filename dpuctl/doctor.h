/* SPDX-License-Identifier: Apache-2.0 */
/* The links from the DPU to a Pod, each with what was found and how to repair it. */
#ifndef DPUCTL_DOCTOR_H
#define DPUCTL_DOCTOR_H

#include "base/err.h"
#include "dpuctl/node.h"
#include "dpuctl/options.h"

#include <stdbool.h>
#include <stddef.h>

enum check_outcome {
    CHECK_PASS,
    CHECK_WARN, /* works, but not as well as it could, or settings differ */
    CHECK_FAIL,
    CHECK_SKIP, /* could not be looked at */
};

/* The doctor's sources and findings. */
struct doctor {
    struct admin_config config;
    struct node_snapshot seen;
    json_t *doc;              /* owned: the node's document, and what only the checks need */
    json_t *cni;              /* owned: of cni_scan_json */
    char runtime_version[64]; /* as the Node reports it: "containerd://2.1.4"; "": unknown */
    char kubelet_version[64]; /* "v1.36.3" */
    json_t *checks;           /* owned: what was found; each has link, outcome, found and mend */
    size_t counts[CHECK_SKIP + 1]; /* of them, by outcome */
};

/* Appends a check. Texts are sanitized, since much of them comes from outside. */
void check_add(struct doctor *d, enum check_outcome outcome, const char *link, const char *mend,
               const char *found_format, ...) PRINTF_LIKE(5, 6);

/* A check: if `when` holds of the document, this was found. Texts are filled (dpuctl/print.h). */
struct check_row {
    const char *link;
    enum check_outcome outcome;
    const char *when;
    const char *found;
    const char *mend;
};

void check_rows(struct doctor *d, const json_t *doc, const struct check_row *rows, size_t count);

/* ---- on the node itself, in the order of the chain ------------------------------------------- */

void check_record(struct doctor *d);
void check_cni(struct doctor *d);
void check_cri(struct doctor *d); /* gives the runtime's version, where the Node did not */
void check_runtime(struct doctor *d);
void check_kubelet(struct doctor *d);

/* ---- what else is in the cluster, for another node's doctor ---------------------------------- */

struct api;
struct api_answer;

/* What may not be read is NULL, and not told. */
struct cluster_questions {
    const struct api_answer *roles;
    const struct api_answer *bindings;
    const struct api_answer *cluster_roles;
    const struct api_answer *cluster_bindings;
    const struct api_answer *daemon_sets; /* of ovn-kubernetes */
    const struct api_answer *config_map;
};

/* Asks of the leases' namespace; filled by api_wait. */
void cluster_ask(struct api *api, const char *ns, struct cluster_questions *q);
void check_cluster(struct doctor *d, const struct cluster_questions *q);

/* Arrays of RBAC's objects, borrowed; NULL: there are none. Roles and their bindings of the leases'
 * namespace. */
struct cluster_rights {
    const json_t *roles;
    const json_t *bindings;
    const json_t *cluster_roles;
    const json_t *cluster_bindings;
};

/* Names who may renew the leases of several DPUs, by what is granted to him: the admission policy
 * ties a DPU to its lease by its user, so it cannot where DPUs share one. */
void check_judge_rights(struct doctor *d, const struct cluster_rights *rights);

/* Names a DaemonSet of ovn-kubernetes that has its own check off on hosts, where that stops every
 * Pod's start (1.3.0, before its commit 0fe6e3d96). `config_map` is its ovnkube-config; or NULL. */
void check_judge_upstream(struct doctor *d, const json_t *daemon_sets, const json_t *config_map);

/* What keeps new Pods off this Node while its DPU is not ready, as far as the Node and the rules of
 * node-readiness-controller show; both borrowed, NULL where they cannot be seen. `may_see_rules`:
 * what is not in `rules` is not there. Keeps it for check_scheduling(). */
void check_note_scheduling(struct doctor *d, const json_t *node, const json_t *rules,
                           bool may_see_rules);
/* Which way of stopping the scheduler is in force; comes last, for STATUS is one if the checks of
 * CNI and runtime above say so. */
void check_scheduling(struct doctor *d);

/* ---- judgements on texts from outside, pure -------------------------------------------------- */

/* "containerd://2.0.3" or "cri-o://1.36.3"; `grace` is CRI-O's cni_status_grace_period as it was
 * found, "" if not set, NULL if it cannot be seen. */
void check_judge_runtime(struct doctor *d, const char *version, const char *grace);

/* The version of libcurl that dpuctl runs with, as the agents do that came with it: "7.81.0". Adds
 * a check only where that takes no names. */
void check_judge_libcurl(struct doctor *d, const char *version);

/* The last value of `key` in TOML-like text ("key = value", comments and quotes removed). Returns
 * false if it is not set. */
bool check_find_setting(const char *text, const char *key, char *out, size_t out_bytes);

#endif
