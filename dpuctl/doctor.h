/* SPDX-License-Identifier: Apache-2.0 */
/* The links of the chain from the DPU to a pod, each with what was found and how to mend it. */
#ifndef DPUCTL_DOCTOR_H
#define DPUCTL_DOCTOR_H

#include "base/attr.h"
#include "dpuctl/node.h"
#include "dpuctl/options.h"

#include <stdbool.h>
#include <stddef.h>

enum { CHECK_MAX = 128, CHECK_TEXT_BYTES = 320 };

enum check_outcome {
    CHECK_PASS,
    CHECK_WARN, /* works, but not as well as it could, or not by everybody's settings */
    CHECK_FAIL,
    CHECK_SKIP, /* could not be looked at */
};

struct check_result {
    enum check_outcome outcome;
    const char *link; /* static: "record", "lease" ... */
    char found[CHECK_TEXT_BYTES];
    char mend[CHECK_TEXT_BYTES]; /* "" where there is nothing to do */
};

/* What was looked at, and what was found. Large. */
struct doctor {
    struct admin_config config;
    struct node_snapshot seen;
    struct cni_scan cni;
    char runtime_version[64]; /* as the Node reports it: "containerd://2.1.4"; "": unknown */
    char kubelet_version[64]; /* "v1.36.3" */
    size_t count;
    struct check_result results[CHECK_MAX];
};

/* Appends; beyond the bound only a failure is kept, in the place of another result. Texts are
 * sanitized, since much of them comes from outside. */
void check_add(struct doctor *d, enum check_outcome outcome, const char *link, const char *mend,
               const char *found_format, ...) PRINTF_LIKE(5, 6);

/* ---- on the node itself, in the order of the chain ------------------------------------------- */

void check_record(struct doctor *d);
void check_cni(struct doctor *d);
void check_cri(struct doctor *d); /* gives the runtime's version, where the Node did not */
void check_runtime(struct doctor *d);
void check_kubelet(struct doctor *d);
/* Sockets with names for a rolling update, which not every kubelet knows. */
void check_rolling_names(struct doctor *d);

/* ---- judgements on texts from outside, pure -------------------------------------------------- */

/* "containerd://2.0.3" or "cri-o://1.36.3"; `grace` is CRI-O's cni_status_grace_period as it was
 * found, "" if not set, NULL if it cannot be seen. */
void check_judge_runtime(struct doctor *d, const char *version, const char *grace);

/* The last value of `key` in TOML-like text ("key = value", comments and quotes removed). Returns
 * false if it is not set. */
bool check_find_setting(const char *text, const char *key, char *out, size_t out_bytes);

#endif
