/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>
#include <time.h>

/* From the line "boottime <seconds> <nanoseconds>", columns padded with blanks: time_namespaces(7).
 * 0 also where the kernel has no time namespaces. */
static int64_t read_own_offset_ns(void)
{
    CLEANUP(buf) struct buf text = {.max_bytes = 4096};
    int64_t fields[2] = {0}; /* seconds, nanoseconds */
    int rc = file_read("/proc/self/timens_offsets", &text, NULL);
    const char *at = strstr(buf_text(&text), "boottime");
    if (rc != 0 || !at) {
        return 0;
    }
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(fields); i++) {
        at += strcspn(at, " \t");
        at += strspn(at, " \t");
        rc = text_to_i64(at, strcspn(at, " \t\n"), &fields[i], NULL);
    }
    return rc == 0 ? mono_ns_add(mono_ns_mul(fields[0], NS_PER_SEC), fields[1]) : 0;
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
    struct timespec ts = {0};
    (void)clock_gettime(CLOCK_BOOTTIME, &ts); /* fails for an unknown clock only */
    return (struct mono){(int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec - clock_boottime_offset_ns()};
}

struct wall clock_wall_now(void)
{
    struct timespec ts = {0};
    (void)clock_gettime(CLOCK_REALTIME, &ts); /* fails for an unknown clock only */
    return (struct wall){(int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec};
}

int clock_boot_id(char out_id[static CLOCK_BOOT_ID_BYTES], struct err *e)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    CLEANUP(buf) struct buf text = {.max_bytes = 64};
    if (file_read(path, &text, NULL) != 0 || text.len < CLOCK_BOOT_ID_BYTES - 1) {
        return err_set(e, ERR_IO, "'%s' cannot be read", path);
    }
    text_format(out_id, CLOCK_BOOT_ID_BYTES, "%s", text.data);
    return 0;
}
