/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that dpuctl status knows of a node, gathered once and printed as text or as JSON. What comes
 * from outside is kept as it came: printers sanitize it.
 */
#ifndef DPUCTL_STATUS_H
#define DPUCTL_STATUS_H

#include "base/err.h"
#include "contract/lease_view.h"
#include "dpuctl/cni_scan.h"
#include "dpuctl/node_look.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* An object that the API server was asked for. */
struct status_object {
    bool is_asked;
    bool is_found;
    char problem[ERR_MSG_BYTES]; /* why it is not found; "" where nobody said */
};

struct status {
    const struct admin_config *config; /* borrowed */
    struct node_look look;
    char cni_dir[PATH_MAX];
    struct cni_scan cni;
    /* Sockets in the kubelet's directories. */
    bool offers_device;
    bool serves_device;
    struct status_object lease;
    struct lease_view lease_view; /* where it is found */
    struct status_object slice;
    size_t slice_devices;
    bool is_tainted;
    char taint[NAMES_MESSAGE_BYTES]; /* the first: "key=value:effect" */
    bool has_pods;                   /* the runtime was asked: the next two count */
    size_t pods;
    size_t pods_lost;
    size_t pods_unseen;    /* cannot be told */
    char server[PATH_MAX]; /* "" without credentials */
    bool is_reached;
    char api_problem[ERR_MSG_BYTES + 32]; /* and what to do */
    bool has_api_skew;
    int64_t api_skew_ns;
};

/* docs/dpuctl.md describes it; members are only ever added. Returns owned, NULL when out of memory.
 */
json_t *status_json(const struct status *s);

struct status_screen {
    bool has_color;
    size_t columns; /* where lines are wrapped */
};

/* Without `s` only what the node itself knows: the head of dpuctl watch. False when out of memory;
 * whether it could be written is seen by ferror. */
NODISCARD bool status_print(const struct node_look *look, const char *node, const struct status *s,
                            struct status_screen screen, FILE *out);

#endif
