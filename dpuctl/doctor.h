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

/* ---- judgements on texts from outside, pure -------------------------------------------------- */

/* "containerd://2.0.3" or "cri-o://1.36.3"; `grace` is CRI-O's cni_status_grace_period as it was
 * found, "" if not set, NULL if it cannot be seen. */
void check_judge_runtime(struct doctor *d, const char *version, const char *grace);

/* The last value of `key` in TOML-like text ("key = value", comments and quotes removed). Returns
 * false if it is not set. */
bool check_find_setting(const char *text, const char *key, char *out, size_t out_bytes);

#endif
