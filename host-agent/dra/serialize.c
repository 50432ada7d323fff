/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/serialize.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

int serialize_open(struct serialize *s, const char *dir, struct err *e)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof(path), "%s/serialize.lock", dir);
    if (len < 0 || len >= (int)sizeof(path)) {
        return err_set(e, ERR_LIMIT, "path of the lock in '%s' is too long", dir);
    }
    s->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600); /* only drivers need it */
    if (s->fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "opening '%s'", path);
    }
    return 0;
}

void serialize_close(struct serialize *s)
{
    if (s->fd >= 0) {
        (void)close(s->fd); /* gives the lock back, too */
        s->fd = -1;
    }
}

bool serialize_begin(struct serialize *s)
{
    return !s || flock(s->fd, LOCK_EX | LOCK_NB) == 0;
}

void serialize_end(struct serialize *s)
{
    if (s) {
        (void)flock(s->fd, LOCK_UN); /* cannot fail on what we hold */
    }
}
