/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening unix socket that appears under its name only when it listens.
 *
 * It is bound to a hidden name beside it and renamed, which also replaces a stale socket in one
 * step. The kubelet watches the directory: it ignores names with a leading dot, takes a rename for
 * a new socket, and may connect in the same instant.
 */
#ifndef GRPC_UNIX_SOCKET_H
#define GRPC_UNIX_SOCKET_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

enum { UNIX_SOCKET_PATH_MAX_BYTES = 107 }; /* sockaddr_un has room for it and a terminator */

struct unix_socket {
    int fd; /* owned; -1 when closed */
    char path[UNIX_SOCKET_PATH_MAX_BYTES + 1];
    dev_t device; /* of the name in the file system, to tell it from a successor's */
    ino_t inode;
};

/* Non-blocking, close-on-exec. Replaces a socket of that name, but no other kind of file. The
 * directory has to exist. Errors: ERR_LIMIT (path too long), ERR_CONFLICT (the name is taken by
 * something that is no socket), ERR_AUTH, ERR_NOTFOUND, ERR_IO. */
NODISCARD int unix_socket_listen(const char *path, mode_t mode, struct unix_socket *out,
                                 struct err *e);

/* False if somebody removed or replaced the name. */
bool unix_socket_is_in_place(const struct unix_socket *s);

/* Closes it; removes the name if it is still ours. */
void unix_socket_close(struct unix_socket *s);

/* Errors: ERR_LIMIT, ERR_IO. */
NODISCARD int unix_socket_peer_uid(int fd, uid_t *out, struct err *e);

#endif
