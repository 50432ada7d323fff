/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a pod sandbox still the network that CNI gave it? Evidence of state, from the node's own
 * files: what its network namespace holds (/proc/PID/net/dev), what CNI remembers to have given it
 * (libcni's cache), and where its device is now (sysfs). Nothing is kept but in struct pod_net, so
 * events that were missed, and a restart of ours, change nothing.
 *
 * An interface is lost if it is gone from its namespace and
 *  - its device is known, and has its netdev in this namespace again, or is no PCI function any
 *    more. While it is neither, as in a reset, nothing is said (POD_NET_AWAY): it may come back;
 *  - or its device is not known, and the namespace holds nothing that it could be by another name.
 * A sandbox that was never seen with its interface, neither by us nor in CNI's cache, lost nothing.
 *
 * Must run in the host's network namespace: sysfs shows the netdevs of its reader's.
 */
#ifndef CRI_POD_NET_H
#define CRI_POD_NET_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POD_NET_INTERFACE "eth0" /* so is a pod's network named by containerd and by CRI-O */

enum {
    POD_NET_OTHERS_MAX = 8,    /* further interfaces that CNI gave */
    POD_NET_NAME_BYTES = 16,   /* IFNAMSIZ */
    POD_NET_DEVICE_BYTES = 16, /* "0000:03:00.2" */
    POD_NET_WORDS_BYTES = 120,
    POD_NET_FILE_MAX_BYTES = 1 << 20, /* of CNI's cache, and of a namespace's interfaces */
    POD_NET_CACHE_MAX = 16384,        /* files looked at by name */
};

enum pod_net_evidence {
    POD_NET_UNKNOWN, /* cannot be told */
    POD_NET_WHOLE,
    POD_NET_AWAY, /* gone from its namespace; its device is nowhere to be seen */
    POD_NET_LOST,
};

struct pod_net {
    int32_t pid;        /* of the process that holds its namespaces */
    uint64_t started;   /* that process, in clock ticks: a number that is used again is another's */
    bool has_testified; /* it once had its interface */
    char device[POD_NET_DEVICE_BYTES]; /* PCI address; "": not known */
    char others[POD_NET_OTHERS_MAX][POD_NET_NAME_BYTES];
    size_t other_count;
};

/* `root` stands before /proc, /sys and /var/lib/cni; "" for none. False if there is no such
 * process. Reads CNI's cache for the sandbox. */
NODISCARD bool pod_net_open(const char *root, const char *sandbox_id, int32_t pid,
                            struct pod_net *out);

/* `words` say of POD_NET_AWAY and POD_NET_LOST what was seen, else "". */
enum pod_net_evidence pod_net_look(struct pod_net *p, const char *root,
                                   char words[static POD_NET_WORDS_BYTES]);

/* What a file of libcni's cache (cniCacheV1) says, into `p`: for the fuzzer. `text` is not
 * terminated. */
void pod_net_take_cache(struct pod_net *p, const char *text, size_t len, const char *sandbox_id);

/* Is there an interface of that name in the text of /proc/PID/net/dev, and is there one that is
 * neither it, nor the kernel's own, nor one of `p`'s others? */
struct pod_net_names {
    bool has_own;
    bool has_stranger;
};
struct pod_net_names pod_net_read_names(const struct pod_net *p, const char *text);

#endif
