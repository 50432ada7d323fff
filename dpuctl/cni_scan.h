/* SPDX-License-Identifier: Apache-2.0 */
/* The node's CNI configuration as a runtime meets it: files in the order of their names. */
#ifndef DPUCTL_CNI_SCAN_H
#define DPUCTL_CNI_SCAN_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    CNI_SCAN_MAX = 32, /* files; more are counted, not read */
    CNI_SCAN_TEXT_BYTES = 256,
    CNI_SCAN_FILE_MAX_BYTES = 3 << 20, /* install-cni writes no larger one */
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

/* The one a runtime takes: the first that it can. NULL: none. */
const struct cni_entry *cni_scan_first(const struct cni_scan *scan);

/* The first of those that a runtime can take that calls dpu-gate. NULL: none. */
const struct cni_entry *cni_scan_gated(const struct cni_scan *scan);

#endif
