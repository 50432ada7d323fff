/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a kubelet looks for us, and under which names. Pure.
 *
 * Normally <root>/plugins_registry/<driver>-reg.sock and <root>/plugins/<driver>/dra.sock. In a
 * rolling update two instances of us run side by side and share both directories, so each has its
 * pod's UID in its names. A unix socket's path has at most 107 bytes: where the UID does not fit,
 * a hash of it stands in, and at last one of driver and UID together.
 */
#ifndef DRA_SOCKET_NAMES_H
#define DRA_SOCKET_NAMES_H

#include "base/attr.h"
#include "base/err.h"

enum {
    SOCKET_NAMES_PATH_BYTES = 108, /* of sockaddr_un, terminator included */
    SOCKET_NAMES_DRIVER_MAX = 63,  /* Kubernetes' limit for a driver name */
};

struct socket_names {
    char registry_dir[SOCKET_NAMES_PATH_BYTES];
    char plugin_dir[SOCKET_NAMES_PATH_BYTES];
    char registration[SOCKET_NAMES_PATH_BYTES];
    char dra[SOCKET_NAMES_PATH_BYTES];
};

/* All absolute. */
struct socket_dirs {
    const char *kubelet_root;
    const char *registry; /* NULL or "": plugins_registry in there */
    const char *plugin;   /* NULL or "": plugins/<driver> in there */
};

/* `rolling_uid` NULL or "": no rolling updates. Errors: ERR_PARSE (a name that Kubernetes refuses,
 * a directory that is not absolute), ERR_LIMIT (no form fits). */
NODISCARD int socket_names_make(const struct socket_dirs *dirs, const char *driver,
                                const char *rolling_uid, struct socket_names *out, struct err *e);

#endif
