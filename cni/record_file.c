/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/record_file.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define TORN_PAUSE_NS (200 * 1000) /* a page is written in far less */

static int open_safely(const char *path, struct err *e)
{
    struct stat found;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return err_set_errno(e, errno == ENOENT || errno == ENOTDIR ? ERR_NOTFOUND : ERR_IO, errno,
                             "opening it");
    }
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        return err_set(e, ERR_IO, "it is not a regular file");
    }
    if (geteuid() == 0 && (found.st_uid != 0 || (found.st_mode & (S_IWGRP | S_IWOTH)) != 0)) {
        return err_set(e, ERR_AUTH, "it is not root's, or others may write it");
    }
    int opened = fd;
    fd = -1; /* moved */
    return opened;
}

static int read_record(int fd, struct record *out, struct err *e)
{
    static char text[RECORD_FILE_MAX_BYTES];
    int rc = ERR_IO;
    for (int i = 0; i < RECORD_FILE_TRIES; i++) {
        ssize_t got = pread(fd, text, sizeof(text), 0);
        if (got < 0) {
            return err_set_errno(e, ERR_IO, errno, "reading it");
        }
        rc = record_decode(text, (size_t)got, out, e);
        if (rc == 0) {
            return 0;
        }
        /* Perhaps it was being rewritten: look again. */
        const struct timespec pause = {.tv_nsec = TORN_PAUSE_NS};
        (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
    }
    return rc;
}

void record_file_judge(const char *path, struct gate_decision *out)
{
    struct record record;
    char boot_id[CLOCK_BOOT_ID_BYTES];
    struct err e = ERR_INIT;
    CLEANUP(fd) int fd = open_safely(path, &e);
    if (fd < 0) {
        gate_refuse(fd == ERR_NOTFOUND ? REASON_RECORD_MISSING : REASON_RECORD_INVALID, e.msg, path,
                    out);
        return;
    }
    if (read_record(fd, &record, &e) != 0 || clock_boot_id(boot_id, &e) != 0) {
        gate_refuse(REASON_RECORD_INVALID, e.msg, path, out);
        return;
    }
    gate_judge(&record, boot_id, clock_mono_now(), path, out);
}
