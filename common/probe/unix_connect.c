/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/unix_connect.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

_Static_assert(sizeof(((struct sockaddr_un *)NULL)->sun_path) == UNIX_CONNECT_PATH_BYTES,
               "the bound of a path is the kernel's");

void unix_connect_denied(const char *path, char words[static PROBE_WORDS_BYTES])
{
    struct stat found;
    if (stat(path, &found) != 0) {
        text_format(words, PROBE_WORDS_BYTES,
                    "user %u may not look for '%s': it needs CAP_DAC_OVERRIDE, or to be the owner "
                    "of its directory",
                    (unsigned)geteuid(), path);
        return;
    }
    text_format(words, PROBE_WORDS_BYTES,
                "user %u may not open '%s' (of user %u, group %u, mode %04o): it needs "
                "CAP_DAC_OVERRIDE, or to be its owner",
                (unsigned)geteuid(), path, (unsigned)found.st_uid, (unsigned)found.st_gid,
                (unsigned)found.st_mode & 07777u);
}

static enum probe_outcome outcome_of(int sys_errno)
{
    if (probe_outcome_is_our_lack(sys_errno)) {
        return PROBE_UNABLE;
    }
    switch (sys_errno) {
    case ECONNREFUSED:
        return PROBE_REFUSED;
    case ENOENT:
    case ENOTDIR:
        return PROBE_MISSING;
    case EACCES:
    case EPERM:
        return PROBE_DENIED;
    default:
        return PROBE_SILENT;
    }
}

enum probe_outcome unix_connect(const char *path, int *out_fd, char words[static PROBE_WORDS_BYTES])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!text_copy(address.sun_path, sizeof(address.sun_path), path)) {
        text_format(words, PROBE_WORDS_BYTES, "the path of a socket has at most %zu bytes",
                    sizeof(address.sun_path) - 1);
        return PROBE_MISSING;
    }
    CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)&address, (socklen_t)sizeof(address)) == 0) {
        *out_fd = fd;
        fd = -1;
        return PROBE_PASSED;
    }
    int seen = errno;
    enum probe_outcome outcome = outcome_of(seen);
    if (outcome == PROBE_DENIED) {
        unix_connect_denied(path, words);
        return outcome;
    }
    const char *why = seen == EAGAIN ? "its backlog is full" : strerrordesc_np(seen);
    text_format(words, PROBE_WORDS_BYTES, "cannot connect to '%s': %s", path,
                why ? why : "unknown error");
    return outcome;
}
