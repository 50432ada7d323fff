/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of this node without any agent: the readiness record and dpu-gate's decision by it, the
 * CNI configuration as a runtime reads it, and the Pods as the container runtime and the kernel
 * show them.
 */
#ifndef DPUCTL_NODE_H
#define DPUCTL_NODE_H

#include "base/err.h"
#include "base/mem.h"
#include "contract/record.h"
#include "dpuctl/options.h"
#include "grpc/cri_message.h"

#include <jansson.h>

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct node_snapshot {
    struct mono now;
    struct wall wall;
    char path[PATH_MAX]; /* of the record, below --root */
    bool has_record;     /* it was read whole; `record` counts */
    struct err problem;  /* why not */
    struct record record;
    struct gate_decision gate;   /* what dpu-gate would decide now */
    enum readiness_state answer; /* is the DPU ready? */
    struct mono since;           /* from when on that holds; 0 if it cannot be known */
    bool writer_exists;          /* the process that wrote it, and it is dpu-host-agent */
};

/* Reads the record, and judges it as dpu-gate does. */
void node_snapshot_take(const struct admin_config *config, struct node_snapshot *out);

/* ---- CNI ------------------------------------------------------------------------------------- */

enum {
    CNI_SCAN_MAX = 32,                 /* files; more are counted, not read */
    CNI_SCAN_FILE_MAX_BYTES = 3 << 20, /* install-cni writes no larger one */
    CNI_PROBE_ANSWER_MAX_BYTES = 64 << 10,
    CNI_PROBE_DEADLINE_MS = 2000,
};

/* A file of CNI configuration. Its members, texts sanitized:
 *   file, problem            its name; why a runtime cannot take it, null if it can
 *   isForbidden              only we may not read it; `problem` says so
 *   network, types, version  its plugins' types in order; the highest version that it declares
 *   isList, speaksStatus     it has `plugins`; it declares 1.1.0
 *   isGated, isMultus        its first plugin is dpu-gate, or Multus
 * of the gate: isWrapping (it calls a plugin, instead of the runtime), delegateConf (null: inline
 * or chained), delegateType (inline, or the next in the chain), readinessFile (null: the default)
 * of Multus: clusterNetwork (null: its first delegate is called), firstDelegate (its first plugin)
 */
json_t *cni_entry_json(const char *text, size_t len); /* all but `file` */

/* A directory: `problem` if it cannot be read, `files` in the order of their names, the number of
 * `more` beyond the bound; the `first` that a runtime can take, and so does, and the first of those
 * that calls dpu-gate: `gate`. */
json_t *cni_scan_json(const char *dir);

/* Asks an installed plugin which versions it speaks, as a runtime would (CNI_COMMAND=VERSION), with
 * nothing on its standard input and no other environment, and ends it if it takes longer than the
 * deadline. Returns 0 if it speaks 1.1.0; ERR_NOTFOUND if its answer does not name that; another
 * error if there is no answer. */
NODISCARD int cni_probe_version(const char *path, struct err *e);

/* A DRA driver's sockets in the kubelet's directories: the `directory` where they register, below
 * --root, and whether it `isThere`; how many are `offered` there and are `serving`, `sockets` in
 * all; at how many of these nobody listens: `unheard`; whether a driver of ours has noted that a
 * kubelet has `registered` it. */
json_t *dra_sockets_json(const struct admin_config *config);

/* The runtime's socket: as given, else the first known one that is there. Returns false if there is
 * none. */
bool pods_find_runtime(const struct admin_config *config, char out[static PATH_MAX]);

/* One call of the runtime, for what is left of --api-timeout; `answer` is emptied first. `id` is
 * NULL where the call has none. Errors: as grpc_unary_ask, ERR_LIMIT. */
NODISCARD int pods_ask_runtime(const struct admin_config *config, const char *socket,
                               enum cri_call call, const char *id, struct buf *answer,
                               struct err *e);

/* ---- the document of this node ---------------------------------------------------------------
 *
 * deploy/man/dpuctl.h2m describes it; members are only ever added. Texts in it are sanitized. All
 * are returned owned. */

struct api;
struct api_answer;

/* The document of this node, made without asking anybody. */
json_t *node_document(const struct admin_config *config, const struct node_snapshot *seen);

/* Its members "api" (by the answer about the lease), "lease" and "pods" (by the runtime at
 * `socket`). */
json_t *node_api_json(const struct api *api, const struct api_answer *lease);
json_t *node_lease_json(const struct agent_config *a, const struct node_snapshot *seen,
                        const struct api_answer *answer);
json_t *node_pods_json(const struct admin_config *config, const char *socket);

#endif
