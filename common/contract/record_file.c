/* SPDX-License-Identifier: Apache-2.0 */
/* The shell of contract/record.h. */
#include "contract/record.h"

#include "base/clock.h"
#include "base/mem.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

/* A page is written in far less; but its writer may have been taken off the CPU meanwhile, so each
 * pause is four times the one before: 17 ms in all. */
#define TORN_PAUSE_NS (NS_PER_MS / 5)

#define REMOVE_IT "remove it; dpu-host-agent writes a new one"

static int open_safely(const char *path, struct err *e)
{
    struct stat found;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        bool is_missing = errno == ENOENT || errno == ENOTDIR;
        return err_set_errno(e, is_missing ? ERR_NOTFOUND : ERR_IO, errno, "opening it");
    }
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        return err_set(e, ERR_IO, "it is not a regular file: " REMOVE_IT);
    }
    if (geteuid() == 0 && (found.st_uid != 0 || (found.st_mode & (S_IWGRP | S_IWOTH)) != 0)) {
        return err_set(e, ERR_AUTH,
                       "its owner is %u and its mode %04o, but only root may write it: " REMOVE_IT,
                       (unsigned)found.st_uid, (unsigned)(found.st_mode & 07777));
    }
    if (found.st_size > RECORD_FILE_MAX_BYTES) {
        return err_set(e, ERR_LIMIT, "it has %lld bytes, and dpu-gate reads at most %d: " REMOVE_IT,
                       (long long)found.st_size, (int)RECORD_FILE_MAX_BYTES);
    }
    return take_fd(&fd);
}

static int read_page(int fd, struct record *out, struct err *e)
{
    char text[RECORD_FILE_MAX_BYTES];
    struct err why = ERR_INIT;
    struct timespec pause = {.tv_nsec = TORN_PAUSE_NS};
    int rc = ERR_IO;
    for (int i = 0; i < RECORD_FILE_TRIES; i++) {
        if (i > 0) {                       /* perhaps it was being rewritten: look again */
            (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
            pause.tv_nsec *= 4;
        }
        ssize_t got = pread(fd, text, sizeof(text), 0);
        if (got < 0) {
            return err_set_errno(e, ERR_IO, errno, "reading it");
        }
        rc = record_decode(text, (size_t)got, out, &why);
        if (rc == 0) {
            return 0;
        }
    }
    return err_set(e, rc, "%.120s; if that stays, " REMOVE_IT, why.msg);
}

int record_file_read(const char *path, struct record *out, struct err *e)
{
    CLEANUP(fd) int fd = open_safely(path, e);
    return fd < 0 ? fd : read_page(fd, out, e);
}

int record_file_judge(const char *path, struct record *out_record, struct gate_decision *out,
                      struct err *e)
{
    char boot_id[CLOCK_BOOT_ID_BYTES];
    int rc = record_file_read(path, out_record, e);
    if (rc == 0) {
        rc = clock_boot_id(boot_id, e);
    }
    if (rc == 0) {
        gate_judge(out_record, boot_id, clock_mono_now(), path, out);
    } else {
        gate_refuse(rc == ERR_NOTFOUND ? REASON_RECORD_MISSING : REASON_RECORD_INVALID, e->msg,
                    path, out);
    }
    return rc;
}
