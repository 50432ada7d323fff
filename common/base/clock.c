/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static ssize_t read_small_file(const char *path, char *buf, size_t buf_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t got = read(fd, buf, buf_bytes - 1);
    int saved = errno;
    (void)close(fd); /* read-only: nothing to lose */
    errno = saved;
    if (got >= 0) {
        buf[got] = '\0';
    }
    return got;
}

int clock_parse_timens_offsets(const char *text, int64_t *out_boottime_ns, struct err *e)
{
    /* Lines "<clock> <seconds> <nanoseconds>", columns padded with blanks. */
    const char *line = strstr(text, "boottime");
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    if (!line) {
        return err_set(e, ERR_PARSE, "timens_offsets has no boottime line");
    }
    const char *at = line + strlen("boottime");
    int64_t *const fields[] = {&seconds, &nanoseconds};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        at += strspn(at, " \t");
        size_t len = strcspn(at, " \t\n");
        if (text_to_i64(at, len, fields[i], e) != 0) {
            return err_wrap(e, "timens_offsets");
        }
        at += len;
    }
    *out_boottime_ns = mono_ns_add(mono_ns_mul(seconds, NS_PER_SEC), nanoseconds);
    return 0;
}

static int64_t read_own_offset_ns(void)
{
    char text[256];
    int64_t offset_ns = 0;
    if (read_small_file("/proc/self/timens_offsets", text, sizeof(text)) < 0) {
        return 0; /* kernel without time namespaces: there is only the initial one */
    }
    if (clock_parse_timens_offsets(text, &offset_ns, NULL) != 0) {
        return 0;
    }
    return offset_ns;
}

int64_t clock_boottime_offset_ns(void)
{
    /* A process cannot change its own offset once it runs, so it is read once. */
    static int64_t offset_ns = INT64_MIN;
    if (offset_ns == INT64_MIN) {
        offset_ns = read_own_offset_ns();
    }
    return offset_ns;
}

struct mono clock_mono_now(void)
{
    struct timespec ts;
    int rc = clock_gettime(CLOCK_BOOTTIME, &ts);
    assert(rc == 0);
    (void)rc;
    return (struct mono){(int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec - clock_boottime_offset_ns()};
}

struct wall clock_wall_now(void)
{
    struct timespec ts;
    int rc = clock_gettime(CLOCK_REALTIME, &ts);
    assert(rc == 0);
    (void)rc;
    return (struct wall){(int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec};
}

int clock_boot_id(char out_id[static CLOCK_BOOT_ID_BYTES], struct err *e)
{
    const char *path = "/proc/sys/kernel/random/boot_id";
    char text[64];
    ssize_t got = read_small_file(path, text, sizeof(text));
    if (got < 0) {
        return err_set_errno(e, ERR_IO, errno, "reading '%s'", path);
    }
    if (got < CLOCK_BOOT_ID_BYTES - 1) {
        return err_set(e, ERR_IO, "'%s' is too short", path);
    }
    memcpy(out_id, text, CLOCK_BOOT_ID_BYTES - 1);
    out_id[CLOCK_BOOT_ID_BYTES - 1] = '\0';
    return 0;
}
