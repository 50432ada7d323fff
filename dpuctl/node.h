/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be seen on this node without any agent: the readiness record and what dpu-gate makes of
 * it, the CNI configuration as a runtime meets it, and the pods as the container runtime and the
 * kernel show them. What comes from outside is kept as it came, but for the CNI's texts: sanitize
 * it.
 */
#ifndef DPUCTL_NODE_H
#define DPUCTL_NODE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mem.h"
#include "contract/record.h"
#include "cri/cri_message.h"
#include "cri/pod_net.h"
#include "dpuctl/options.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The answer to "is the DPU ready?", and the exit status of dpuctl status. */
enum node_answer { NODE_READY, NODE_NOT_READY, NODE_UNKNOWN };

struct node_snapshot {
    struct mono now;
    struct wall wall;
    char path[PATH_MAX]; /* of the record, below --root */
    bool has_record;     /* it was read whole; `record` counts */
    char problem[200];   /* why not */
    struct record record;
    struct gate_decision gate; /* what dpu-gate would decide now */
    enum node_answer answer;
    struct mono since;    /* from when on that holds; 0 if it cannot be known */
    bool writer_exists;   /* the process that wrote it, and it is dpu-host-agent */
    struct mono flips_at; /* when time alone changes the gate's decision; or MONO_NEVER */
};

/* Judges the record that was last read. */
void node_snapshot_take(const struct admin_config *config, struct node_snapshot *out);

/* One sentence: why it is refused, why it is admitted nonetheless, or what the record says.
 * Borrowed from `seen`. */
const char *node_message(const struct node_snapshot *seen);

/* The DPU's clock against ours: the stamp of its last renewal, and when that was observed. The time
 * that the news took is in it, well below a second. False if it cannot be known. */
bool node_dpu_skew(const struct node_snapshot *seen, int64_t *out_ns);

/* "Ready", "NotReady", "Unknown": the reader's own state, which may differ from the record's. */
const char *node_answer_name(enum node_answer answer);

/* ---- CNI ------------------------------------------------------------------------------------- */

enum {
    CNI_SCAN_MAX = 32, /* files; more are counted, not read */
    CNI_SCAN_TEXT_BYTES = 256,
    CNI_SCAN_FILE_MAX_BYTES = 3 << 20, /* install-cni writes no larger one */
    CNI_PROBE_ANSWER_MAX_BYTES = 64 << 10,
    CNI_PROBE_DEADLINE_MS = 2000,
};

struct cni_entry {
    char file[CNI_SCAN_TEXT_BYTES];    /* its name in the directory */
    char problem[CNI_SCAN_TEXT_BYTES]; /* why a runtime cannot take it; "" if it can */
    char network[CNI_SCAN_TEXT_BYTES];
    char types[CNI_SCAN_TEXT_BYTES]; /* "dpu-gate, bridge" */
    size_t plugin_count;
    char version[32];   /* the highest that it declares */
    bool is_forbidden;  /* only we may not read it; `problem` says so */
    bool is_list;       /* it has `plugins` */
    bool is_gated;      /* its first plugin is dpu-gate */
    bool is_multus;     /* its first plugin is Multus */
    bool speaks_status; /* it declares 1.1.0 */
    /* Of the gate, where it is gated. */
    bool is_wrapping;                         /* it calls a plugin, instead of the runtime */
    char delegate_conf[CNI_SCAN_TEXT_BYTES];  /* "": inline or chained */
    char delegate_type[CNI_SCAN_TEXT_BYTES];  /* inline, or the next in the chain; "": unknown */
    char readiness_file[CNI_SCAN_TEXT_BYTES]; /* "": the default */
    /* Of Multus. */
    char cluster_network[CNI_SCAN_TEXT_BYTES]; /* "": its first delegate is called */
    char first_delegate[CNI_SCAN_TEXT_BYTES];  /* its first plugin's type; "": there is none */
};

/* The files in the order of their names. */
struct cni_scan {
    char problem[CNI_SCAN_TEXT_BYTES]; /* the directory cannot be read */
    size_t count;
    size_t more; /* files beyond the bound */
    struct cni_entry entries[CNI_SCAN_MAX];
};

/* What one file says. Pure; `file` is filled by the caller. Texts are sanitized and cut. */
void cni_entry_read(const char *text, size_t len, struct cni_entry *out);

/* Reads a directory; what is wrong with it or its files is in the result. */
void cni_scan_directory(const char *dir, struct cni_scan *out);

/* The first that a runtime can take, and so does; the first of those that calls dpu-gate. NULL:
 * none. */
const struct cni_entry *cni_scan_first(const struct cni_scan *scan);
const struct cni_entry *cni_scan_gated(const struct cni_scan *scan);

/* Asks an installed plugin which versions it speaks, as a runtime would (CNI_COMMAND=VERSION), with
 * nothing on its standard input and no other environment, and ends it if it takes longer than the
 * deadline. Returns 0 if it speaks 1.1.0; ERR_NOTFOUND if its answer does not name that; another
 * error if there is no answer. */
NODISCARD int cni_probe_version(const char *path, struct err *e);

/* The same judgement of an answer. Pure. */
NODISCARD int cni_probe_judge(const char *text, size_t len, struct err *e);

/* A DRA driver's sockets in the kubelet's directories. */
struct dra_sockets {
    size_t offered; /* for registration */
    size_t serving;
    size_t rolling; /* of those, with an instance's own name, for a rolling update */
    size_t unheard; /* of all, those at which nobody listens */
};

/* Returns `dir`: where they register, below --root. */
const char *dra_sockets_find(const struct admin_config *config, char dir[static PATH_MAX],
                             struct dra_sockets *out);

struct pods_pod {
    struct cri_sandbox sandbox;
    bool has_host_network;
    struct pod_net_finding net;
};

struct pods_snapshot {
    struct pods_pod *pods; /* owned; oldest first */
    size_t count;
    size_t lost;
    size_t unseen; /* could not be looked at */
};

/* The runtime's socket: as given, else the first known one that is there. Returns false if there is
 * none. */
bool pods_find_runtime(const struct admin_config *config, char out[static PATH_MAX]);

/* One call of the runtime, for what is left of --api-timeout; `answer` is emptied first. Errors: as
 * grpc_unary_ask, ERR_LIMIT. */
NODISCARD int pods_ask_runtime(const struct admin_config *config, const char *socket,
                               const struct cri_request *request, struct buf *answer,
                               struct err *e);

/* Errors: those, and of the list; a pod that cannot be asked about is UNSEEN. */
NODISCARD int pods_snapshot_take(const struct admin_config *config, const char *socket,
                                 struct pods_snapshot *out, struct err *e);
void pods_snapshot_fini(struct pods_snapshot *seen); /* accepts a zeroed one */

#endif
