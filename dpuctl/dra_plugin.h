/* SPDX-License-Identifier: Apache-2.0 */
/* A DRA plugin as a kubelet comes to know it: by the registration sockets in its directory. */
#ifndef DPUCTL_DRA_PLUGIN_H
#define DPUCTL_DRA_PLUGIN_H

#include "base/attr.h"
#include "base/err.h"

#include <limits.h>
#include <time.h>

struct dra_plugin {
    char socket[PATH_MAX]; /* where it registers */
    struct timespec made;  /* that socket */
    char endpoint[PATH_MAX];
    const char *service; /* of its health: "v1" or "v1alpha1"; NULL: none that we know */
};

/* The newest that is of `driver`, so that in a rolling update it is the one that stays. Gives up
 * when `stop_fd` is readable. Errors: ERR_GONE (stopped), ERR_NOTFOUND, ERR_IO. */
NODISCARD int dra_plugin_find(const char *kubelet_root, const char *driver, int stop_fd,
                              struct dra_plugin *out, struct err *e);

/* Tells it that it is registered. Errors: as unix_call_make. */
NODISCARD int dra_plugin_accept(const struct dra_plugin *plugin, int stop_fd, struct err *e);

#endif
