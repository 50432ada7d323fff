/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a pod sandbox still the networks that CNI gave it? Evidence of state, from the node's own
 * files: what its network namespace holds, what libcni's cache says was given to it, and where its
 * devices are now (sysfs). Nothing is kept but in struct pod_net, so events that were missed, and a
 * restart of ours, change nothing.
 *
 * Its interfaces are "eth0" and those that CNI's results name beside it: a secondary network has a
 * result of its own (by Multus), a user-defined one may share that of eth0. Each is judged alike;
 * the sandbox is what eth0 is, unless one of them is lost.
 *
 * An interface is lost if it was there, is gone from its namespace, the namespace holds nothing
 * that it could be by another name, and
 *  - its device is known, and has a netdev more in this namespace than beside it, or is no PCI
 *    function any more. While it is neither, as in a reset, nothing is said: it may come back;
 *  - or its device is not known, and the host's end of it, which CNI's result names, is gone, too.
 *    While that is there, the pod itself has moved the interface.
 * A pod that may change its network can make the second look so: see is_by_device.
 *
 * Must run in the host's network namespace: sysfs shows the netdevs of its reader's. Single thread.
 */
#ifndef PROBE_POD_NET_H
#define PROBE_POD_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POD_NET_INTERFACE "eth0" /* so is a pod's network named by containerd and by CRI-O */

enum {
    POD_NET_LINKS_MAX = 8, /* that are looked at, of a sandbox; a pod has rarely more than three */
    POD_NET_NAMES_MAX = 8,
    POD_NET_ID_BYTES = 128,    /* of a sandbox's id */
    POD_NET_NAME_BYTES = 16,   /* IFNAMSIZ */
    POD_NET_DEVICE_BYTES = 16, /* "0000:03:00.2" */
    POD_NET_WORDS_BYTES = 160,
    POD_NET_PATH_BYTES = 256,
    POD_NET_FILE_MAX_BYTES = 1 << 20, /* of CNI's cache, and of a namespace's interfaces */
    POD_NET_CACHE_MAX = 16384,        /* files looked at by name */
};

enum pod_net_evidence {
    POD_NET_UNSEEN,  /* could not be looked at; `words` say why */
    POD_NET_UNKNOWN, /* nothing can be said: it never had one, or has one by another name */
    POD_NET_WHOLE,
    POD_NET_AWAY, /* gone from its namespace, but not lost */
    POD_NET_LOST,
};

struct pod_net_finding {
    enum pod_net_evidence evidence;
    bool is_by_device; /* LOST: its device is gone, or made its netdev anew: no pod can do that */
    char words[POD_NET_WORDS_BYTES]; /* of UNSEEN, AWAY and LOST: what was seen, else "" */
};

/* Where a sandbox's network is; zeroed: its runtime does not tell. */
struct pod_net_place {
    int32_t pid;      /* of the process that holds its namespaces; 0: not told */
    uint64_t started; /* that process, in clock ticks: a number that is used again is another's */
    char netns[POD_NET_PATH_BYTES]; /* without a pid: path of its network namespace */
    uint64_t netns_inode;           /* likewise: a path that is used again is another's */
};

struct pod_net_names {
    size_t count;
    char each[POD_NET_NAMES_MAX][POD_NET_NAME_BYTES];
};

/* An interface that CNI gave. */
struct pod_net_link {
    char name[POD_NET_NAME_BYTES];
    bool has_testified;                /* it was once there */
    char device[POD_NET_DEVICE_BYTES]; /* PCI address; "": not known */
    struct pod_net_names ends;         /* interfaces on the host that were made with it */
    uint64_t index;                    /* of the interface, while it was there; 0: not known */
    size_t neighbours; /* netdevs that its device had on the host beside it: a second port, say */
};

struct pod_net {
    struct pod_net_place place; /* may change; the rest is what was learned */
    char sandbox[POD_NET_ID_BYTES];
    size_t count;                                 /* of links */
    struct pod_net_link links[POD_NET_LINKS_MAX]; /* the first is POD_NET_INTERFACE */
};

/* `root` stands before /proc, /sys, /var/lib/cni and the namespace's path; "" for none. `pid` is of
 * the process that holds the sandbox's namespaces; 0: not told, then `netns` is the path of its
 * network namespace, "" if that is not told either. False if there is no such process or namespace:
 * then a look says so, too. Reads CNI's cache for the sandbox. */
bool pod_net_open(const char *root, const char *sandbox_id, int32_t pid, const char *netns,
                  struct pod_net *out);

/* What CNI's results alone say counts no longer: each interface has to be seen first. For a sandbox
 * that may not be whole yet. */
void pod_net_distrust_results(struct pod_net *p);

/* By path it enters the namespace and comes back, which needs CAP_SYS_ADMIN. */
void pod_net_look(struct pod_net *p, const char *root, struct pod_net_finding *out);

#endif
