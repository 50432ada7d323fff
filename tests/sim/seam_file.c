/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls by which an agent makes, reads and rewrites its record: the linker brings them here
 * (--wrap), and they are passed on to the real ones, or fail as FAULT_FILES says. Whoever is no
 * agent meets no fault.
 */
#include "tests/sim/seam_file.h"

#include "tests/sim/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { TORN_MOST_BYTES = 300 }; /* what differs between two pages is after them, too */

int __real_open(const char *path, int flags, ...);
int __real_mkostemp(char *path, int flags);
int __real_rename(const char *from, const char *to);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __real_pwrite(int fd, const void *bytes, size_t len, off_t at);

int __wrap_open(const char *path, int flags, ...);
int __wrap_mkostemp(char *path, int flags);
int __wrap_rename(const char *from, const char *to);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);

static int made_fd = -1; /* by the last mkostemp: other writes are the log's; as the world's */

/* What is wrong, for whoever runs. */
static enum seam_file_fault fault(void)
{
    const struct world *w = world_get();
    return w && w->current && w->current->loop ? seam_file_fault() : SEAM_FILE_NONE;
}

enum seam_file_fault seam_file_fault(void)
{
    return faults_on(FAULT_FILES)
               ? (enum seam_file_fault)(SEAM_FILE_FULL + faults_param(FAULT_FILES) % 4)
               : SEAM_FILE_NONE;
}

/* The steps by which something new is made: a full file system ends it at any of them. */
enum step { STEP_NONE, STEP_MAKE, STEP_WRITE, STEP_RENAME };

/* 0, or why a call fails. */
static int find_error(bool is_write, enum step step)
{
    switch (fault()) {
    case SEAM_FILE_NONE:
        break;
    case SEAM_FILE_SHORT:
        return step == STEP_RENAME ? ENOSPC : 0;
    case SEAM_FILE_FULL:
        return faults_param(FAULT_FILES) / 4 % 3 + STEP_MAKE == (int)step ? ENOSPC : 0;
    case SEAM_FILE_READ_ONLY:
        return is_write ? EROFS : 0;
    case SEAM_FILE_BROKEN:
        return EIO;
    }
    return 0;
}

static int error_of(bool is_write, enum step step)
{
    int error = find_error(is_write, step);
    if (error != 0) {
        faults_struck(FAULT_FILES);
    }
    return error;
}

int __wrap_open(const char *path, int flags, ...)
{
    bool is_write = (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
    mode_t mode = 0;
    va_list ap;
    va_start(ap, flags);
    if ((flags & O_CREAT) != 0) {
        mode = va_arg(ap, mode_t);
    }
    va_end(ap);
    errno = error_of(is_write, STEP_NONE);
    return errno != 0 ? -1 : __real_open(path, flags, mode);
}

int __wrap_mkostemp(char *path, int flags)
{
    errno = error_of(true, STEP_MAKE);
    made_fd = errno != 0 ? -1 : __real_mkostemp(path, flags);
    return made_fd;
}

int __wrap_rename(const char *from, const char *to)
{
    errno = error_of(true, STEP_RENAME);
    return errno != 0 ? -1 : __real_rename(from, to);
}

/* To a new file, perhaps in pieces. */
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    if (fd != made_fd) {
        return __real_write(fd, bytes, len);
    }
    if (fault() == SEAM_FILE_SHORT && len > 1) {
        len /= 2;
    }
    errno = error_of(true, STEP_WRITE);
    return errno != 0 ? -1 : __real_write(fd, bytes, len);
}

/* In place: a full file system does not mind. What comes short tears the page. */
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    if (fault() == SEAM_FILE_SHORT) {
        faults_struck(FAULT_FILES);
        len = (size_t)world_between(world_get(), 1, TORN_MOST_BYTES);
    }
    errno = error_of(true, STEP_NONE);
    return errno != 0 ? -1 : __real_pwrite(fd, bytes, len, at);
}

/* Between two looks at a torn page: no time passes here. */
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)wanted;
    (void)left;
    return 0;
}
