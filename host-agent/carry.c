/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/carry.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "contract/record.h"

#include <fcntl.h>
#include <sys/stat.h>

static int read_page(const char *path, struct record *out, struct err *e)
{
    char page[RECORD_PAGE_BYTES];
    struct stat found;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return err_set_errno(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, errno, "opening '%s'",
                             path);
    }
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid() ||
        (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return err_set(e, ERR_IO, "'%s' is not a file that only we may write", path);
    }
    ssize_t got = read(fd, page, sizeof(page));
    if (got < 0) {
        return err_set_errno(e, ERR_IO, errno, "reading '%s'", path);
    }
    return record_decode(page, (size_t)got, out, e);
}

int carry_read(const char *path, const char *node, const struct expiry_config *config,
               struct expiry_carry *out, struct err *e)
{
    struct record record;
    char boot_id[CLOCK_BOOT_ID_BYTES];
    int rc = read_page(path, &record, e);
    rc = rc == 0 ? clock_boot_id(boot_id, e) : rc;
    if (rc != 0) {
        return rc;
    }
    if (!text_equal(record.boot_id, boot_id)) {
        return err_set(e, ERR_GONE, "'%s' was written before this boot", path);
    }
    if (!text_equal(record.node, node)) {
        return err_set(e, ERR_GONE, "'%s' is about node '%s'", path, record.node);
    }
    if (!text_equal(record.verdict.lease.ns, config->lease_ns) ||
        !text_equal(record.verdict.lease.name, config->lease_name)) {
        return err_set(e, ERR_GONE, "'%s' is about lease '%s/%s'", path, record.verdict.lease.ns,
                       record.verdict.lease.name);
    }
    *out = (struct expiry_carry){.verdict = record.verdict, .hold_until = record.hold_until};
    return 0;
}
