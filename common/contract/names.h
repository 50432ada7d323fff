/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of the contract: names, keys and defaults that cross a machine or process border.
 * Lease name, namespace, holder and timers are those of upstream ovn-kubernetes (OKEP-5674), so
 * that either half can be replaced by upstream's own.
 */
#ifndef CONTRACT_NAMES_H
#define CONTRACT_NAMES_H

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

#define NAMES_LEASE_NAMESPACE "ovn-kubernetes"
#define NAMES_LEASE_PREFIX    "ovn-dpu-" /* followed by the node name */
#define NAMES_HOLDER_IDENTITY "ovnkube-dpu-node"

#define NAMES_ANNOTATION_HEALTH         "dpu.k8s.ovn.org/health"
#define NAMES_ANNOTATION_HEALTH_MESSAGE "dpu.k8s.ovn.org/health-message"
/* A report is a lease of its own: this stamp changes once an interval while the report stands. */
#define NAMES_ANNOTATION_HEALTH_RENEW "dpu.k8s.ovn.org/health-renew-time"
/* dpu-agent's sign: the renewTime that it wrote, whoever has written another one since. */
#define NAMES_ANNOTATION_RENEW "dpu.k8s.ovn.org/renew-time"
/* The boot of the DPU's kernel that writes the lease. */
#define NAMES_ANNOTATION_BOOT_ID "dpu.k8s.ovn.org/boot-id"
/* The version of the dpu-agent that writes it. */
#define NAMES_ANNOTATION_VERSION "dpu.k8s.ovn.org/agent-version"
/* The host's: the text of its last mark (host-agent/mark.h). */
#define NAMES_ANNOTATION_HOST_CHECKED "dpu.k8s.ovn.org/host-checked"
/* "none": no probe stands behind the renewals. */
#define NAMES_ANNOTATION_PROBES "dpu.k8s.ovn.org/probes"
#define NAMES_PROBES_NONE       "none"
#define NAMES_HEALTH_UNHEALTHY  "unhealthy"
#define NAMES_HEALTH_SHUTDOWN   "shutdown"

#define NAMES_DRA_DRIVER     "dpu.k8s.ovn.org" /* of the first DPU of a node */
#define NAMES_READINESS_FILE "/run/dpu-heartbeat/readiness.json"
/* Its options are also those of the commands beside the agent. */
#define NAMES_HOST_AGENT_CONFIG "/etc/dpu-heartbeat/dpu-host-agent.yaml"

/* dpu-dra-driver's note beside its socket, a file that is called so and by its UID, once a kubelet
 * has registered it. */
#define NAMES_DRA_INSTANCE   "instance-"
#define NAMES_DRA_REGISTERED "registered"

/* What CNI, the kubelet and the admin read when the DPU is not ready; upstream's words. */
#define NAMES_NOT_READY_PREFIX "DPU Not Ready: "

enum {
    NAMES_K8S_NAME_BYTES = 254, /* a DNS-1123 subdomain and its terminator */
    NAMES_UID_BYTES = 64,       /* a UUID with room to spare */
    NAMES_VERSION_BYTES = 64,   /* a resourceVersion */
    NAMES_HOLDER_BYTES = 256,   /* a holderIdentity we compare with */
    NAMES_BOOT_ID_BYTES = 37,   /* a kernel's boot id, a UUID */
    NAMES_AGENT_VERSION_BYTES = 48,
    NAMES_STAMP_BYTES = 64,    /* the text of a renewTime */
    NAMES_REASON_BYTES = 64,   /* a word */
    NAMES_MESSAGE_BYTES = 512, /* the sentence of a verdict */
};

/* Behind the name of the readiness record: a file that is there while another program undoes
 * dpu-gate's CNI configuration. */
#define NAMES_CNI_CONTEST ".cni"

/* Whether a runtime takes a file of that name for a CNI configuration: by its ending alone (libcni,
 * ConfFiles), so that a hidden file counts, too. */
static inline bool names_is_cni_configuration(const char *file)
{
    const char *dot = strrchr(file, '.');
    return text_equal(dot, ".conf") || text_equal(dot, ".conflist") || text_equal(dot, ".json");
}

#endif
