/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/grpc/unix_socket.h"

#include "base/mem.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { BACKLOG = 16, NAME_TRIES = 4 };

static int code_of(int sys_errno)
{
    switch (sys_errno) {
    case EACCES:
    case EPERM:
        return ERR_AUTH;
    case ENOENT:
    case ENOTDIR:
        return ERR_NOTFOUND;
    default:
        return ERR_IO;
    }
}

static int check_target(const char *path, struct err *e)
{
    struct stat st;
    if (strlen(path) > UNIX_SOCKET_PATH_MAX_BYTES) {
        return err_set(e, ERR_LIMIT, "socket path '%s' has %zu bytes, more than %d", path,
                       strlen(path), UNIX_SOCKET_PATH_MAX_BYTES);
    }
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        return err_set(e, ERR_CONFLICT, "'%s' exists and is not a socket", path);
    }
    return 0;
}

/* Binds `fd` to a hidden name in the directory of `path`. The name is shorter than any of ours, so
 * it fits where `path` does; it is random because two containers may share the directory and not
 * their process ids. */
static int bind_hidden(int fd, const char *path, struct sockaddr_un *out_address, struct err *e)
{
    const char *slash = strrchr(path, '/');
    int dir_len = slash ? (int)(slash - path) + 1 : 0;
    for (int i = 0; i < NAME_TRIES; i++) {
        uint8_t random[3];
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
            return err_set_errno(e, ERR_IO, errno, "reading random bytes");
        }
        int len = snprintf(address.sun_path, sizeof(address.sun_path), "%.*s.%02x%02x%02x", dir_len,
                           path, random[0], random[1], random[2]);
        if (len < 0 || (size_t)len >= sizeof(address.sun_path)) {
            return err_set(e, ERR_LIMIT, "no room for a hidden name beside '%s'", path);
        }
        if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
            *out_address = address;
            return 0;
        }
        if (errno != EADDRINUSE) {
            break;
        }
    }
    return err_set_errno(e, code_of(errno), errno, "binding a socket beside '%s'", path);
}

/* From the hidden name to the listening socket under its own. */
static int publish(int fd, const char *hidden, mode_t mode, struct unix_socket *s, struct err *e)
{
    struct stat st;
    /* chmod because the umask may have taken bits away that the admin asked for. */
    if (chmod(hidden, mode) != 0 || lstat(hidden, &st) != 0) {
        return err_set_errno(e, code_of(errno), errno, "setting the mode of '%s'", hidden);
    }
    if (listen(fd, BACKLOG) != 0) {
        return err_set_errno(e, ERR_IO, errno, "listening on '%s'", s->path);
    }
    if (rename(hidden, s->path) != 0) {
        return err_set_errno(e, code_of(errno), errno, "renaming '%s' to '%s'", hidden, s->path);
    }
    s->device = st.st_dev;
    s->inode = st.st_ino;
    return 0;
}

int unix_socket_listen(const char *path, mode_t mode, struct unix_socket *out, struct err *e)
{
    struct sockaddr_un hidden;
    struct unix_socket s = {.fd = -1};
    int rc = check_target(path, e);
    if (rc != 0) {
        return rc;
    }
    text_format(s.path, sizeof(s.path), "%s", path);
    CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The mode of the socket becomes that of the name, so it is never wider than asked for. */
    if (fd < 0 || fchmod(fd, mode) != 0) {
        return err_set_errno(e, ERR_IO, errno, "making a socket for '%s'", path);
    }
    rc = bind_hidden(fd, path, &hidden, e);
    if (rc != 0) {
        return rc;
    }
    rc = publish(fd, hidden.sun_path, mode, &s, e);
    if (rc != 0) {
        (void)unlink(hidden.sun_path); /* the first error is the one to tell */
        return rc;
    }
    s.fd = fd;
    fd = -1;
    *out = s;
    return 0;
}

bool unix_socket_is_in_place(const struct unix_socket *s)
{
    struct stat st;
    return s->fd >= 0 && lstat(s->path, &st) == 0 && st.st_dev == s->device &&
           st.st_ino == s->inode;
}

void unix_socket_close(struct unix_socket *s)
{
    if (s->fd < 0) {
        return;
    }
    if (unix_socket_is_in_place(s)) {
        (void)unlink(s->path); /* gone already: just as well */
    }
    (void)close(s->fd); /* nothing was buffered */
    s->fd = -1;
}

int unix_socket_peer_uid(int fd, uid_t *out, struct err *e)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || len != sizeof(peer)) {
        return err_set_errno(e, ERR_IO, errno, "asking for the peer's credentials");
    }
    *out = peer.uid;
    return 0;
}
