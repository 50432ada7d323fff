/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of CRI (runtime.v1.RuntimeService) as plain values: what we ask a container runtime,
 * and what we take from its answers. No I/O; the transport is grpc/grpc_unary.h. Texts come from
 * outside: sanitize what is shown.
 */
#ifndef GRPC_CRI_MESSAGE_H
#define GRPC_CRI_MESSAGE_H

#include "base/err.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CRI_ID_BYTES = 128,   /* runtimes use 64 hexadecimal digits */
    CRI_NAME_BYTES = 254, /* a DNS-1123 subdomain and its terminator */
    CRI_UID_BYTES = 64,
    CRI_WORD_BYTES = 64,
    CRI_TEXT_BYTES = 512,
    CRI_PATH_BYTES = 256,
    CRI_REQUEST_BYTES = CRI_ID_BYTES + 4,
    CRI_SANDBOXES_MAX = 1024, /* of one node; a kubelet runs 110 by default */
};

enum cri_call {
    CRI_VERSION,
    CRI_STATUS,
    CRI_LIST,    /* of the sandboxes that are ready */
    CRI_INSPECT, /* one sandbox */
    CRI_STOP,    /* one sandbox */
};

struct cri_request {
    const char *method; /* static */
    size_t len;
    uint8_t bytes[CRI_REQUEST_BYTES];
};

struct cri_version {
    char name[CRI_WORD_BYTES]; /* "containerd", "cri-o" */
    char version[CRI_WORD_BYTES];
};

/* The condition NetworkReady. */
struct cri_network {
    bool is_ready;
    char reason[CRI_WORD_BYTES];
    char message[CRI_TEXT_BYTES];
};

struct cri_sandbox {
    char id[CRI_ID_BYTES];
    char ns[CRI_NAME_BYTES]; /* the pod's */
    char name[CRI_NAME_BYTES];
    char uid[CRI_UID_BYTES];
    struct wall made;
};

struct cri_detail {
    bool has_host_network;
    int32_t pid; /* of the process that holds its namespaces, in the host's; 0: not told */
    char netns[CRI_PATH_BYTES]; /* path of its network namespace on the host; "": not told */
};

/* `id` names the sandbox, and is NULL for calls that are about none. */
void cri_ask(enum cri_call call, const char *id, struct cri_request *out);

/* ---- answers; errors: ERR_PARSE, ERR_LIMIT --------------------------------------------------- */

NODISCARD int cri_read_version(const uint8_t *message, size_t len, struct cri_version *out,
                               struct err *e);
/* ERR_NOTFOUND where the runtime does not speak of its network. */
NODISCARD int cri_read_network(const uint8_t *message, size_t len, struct cri_network *out,
                               struct err *e);

/* Borrowed. */
typedef void cri_sandbox_fn(void *user, const struct cri_sandbox *sandbox);

/* Calls `each` for those that are ready; what has no usable id or pod is left out. ERR_LIMIT beyond
 * CRI_SANDBOXES_MAX, before the first call. */
NODISCARD int cri_read_list(const uint8_t *message, size_t len, cri_sandbox_fn *each, void *user,
                            struct err *e);

NODISCARD int cri_read_detail(const uint8_t *message, size_t len, struct cri_detail *out,
                              struct err *e);

#endif
