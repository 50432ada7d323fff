/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an admin names for DRA: sockets in the kubelet's directories, attributes of the device.
 * Pure.
 *
 * The sockets are <root>/plugins_registry/<driver>-reg.sock and <root>/plugins/<driver>/dra.sock.
 * In a rolling update two instances of us share both directories, so each has its pod's UID in its
 * names. A unix socket's path has at most 107 bytes: where that does not fit, a hash stands in.
 *
 * Attributes are strings that a claim's selector can ask for. The API server refuses a slice with
 * one attribute it does not like, so each is checked by its rules here, at start, where somebody
 * reads the message (resource/v1 validation).
 */
#ifndef DRA_DRA_NAMES_H
#define DRA_DRA_NAMES_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>

enum {
    SOCKET_NAMES_PATH_BYTES = 108, /* of sockaddr_un, terminator included */
    SOCKET_NAMES_DRIVER_MAX = 63,  /* Kubernetes' limit for a driver name */
    ATTRIBUTES_MAX = 32,
    ATTRIBUTE_NAME_BYTES = 97, /* a domain of 63, '/', an identifier of 32 */
    ATTRIBUTE_TEXT_BYTES = 65,
};

/* All absolute. */
struct socket_dirs {
    char *kubelet_root;
    char *registry; /* NULL or "": plugins_registry in there */
    char *plugin;   /* NULL or "": plugins/<driver> in there */
};

struct socket_names {
    char registry_dir[SOCKET_NAMES_PATH_BYTES];
    char plugin_dir[SOCKET_NAMES_PATH_BYTES];
    char registration[SOCKET_NAMES_PATH_BYTES];
    char dra[SOCKET_NAMES_PATH_BYTES];
};

/* `rolling_uid` NULL or "": no rolling updates. Errors: ERR_PARSE (a name that Kubernetes refuses,
 * a directory that is not absolute), ERR_LIMIT (no form fits). */
NODISCARD int socket_names_make(const struct socket_dirs *dirs, const char *driver,
                                const char *rolling_uid, struct socket_names *out, struct err *e);

/* Zero-initialise. */
struct attribute_list {
    struct attribute {
        char name[ATTRIBUTE_NAME_BYTES];
        char text[ATTRIBUTE_TEXT_BYTES];
    } items[ATTRIBUTES_MAX];
    size_t count;
};

/* NAME=VALUE; replaces one of that name. Errors: ERR_PARSE, ERR_LIMIT. */
NODISCARD int attribute_list_add(struct attribute_list *list, const char *text, struct err *e);

#endif
