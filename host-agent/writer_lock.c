/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/writer_lock.h"

#include "base/file.h"
#include "base/mem.h"
#include "host-agent/record_writer.h"

#include <stdio.h>
#include <unistd.h>

int writer_lock_init(struct writer_lock *l, const char *readiness_file, struct err *e)
{
    l->fd = -1;
    int len = snprintf(l->path, sizeof(l->path), "%s.lock", readiness_file);
    if (len < 0 || len >= (int)sizeof(l->path)) {
        return err_set(e, ERR_LIMIT, "the path of readiness file '%.64s...' has %d bytes, too many",
                       readiness_file, len);
    }
    return 0;
}

void writer_lock_fini(struct writer_lock *l)
{
    if (l->fd >= 0) {
        (void)close(l->fd); /* which unlocks */
        l->fd = -1;
    }
}

int writer_lock_take(struct writer_lock *l, struct err *e)
{
    if (record_writer_is_at(l->fd, l->path)) { /* a lock on a removed file keeps nobody out */
        return 0;
    }
    int rc = record_writer_make_directory(l->path, e);
    if (rc != 0) {
        return rc;
    }
    CLEANUP(fd)
    int fd = -1;
    rc = file_lock(l->path, &fd, e);
    if (rc != 0) {
        return rc;
    }
    if (!record_writer_is_at(fd, l->path)) {
        return err_set(e, ERR_IO, "'%s' was replaced while it was locked", l->path);
    }
    writer_lock_fini(l);
    l->fd = fd;
    fd = -1; /* moved */
    return 0;
}
