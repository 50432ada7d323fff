/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the clocks: the only place that does. The offset of our time namespace
 * (/proc/self/timens_offsets) is taken off, so that a container in one and the host agree.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/err.h"
#include "base/time.h"

enum { CLOCK_BOOT_ID_BYTES = 37 }; /* UUID text and its terminator */

/* CLOCK_BOOTTIME of the initial time namespace. Cannot fail on Linux. */
struct mono clock_mono_now(void);

/* The offset that our time namespace adds to boot time: system calls that take a CLOCK_BOOTTIME of
 * the caller (timerfd) get mono + this. 0 in the initial time namespace. */
int64_t clock_boottime_offset_ns(void);

/* CLOCK_REALTIME. */
struct wall clock_wall_now(void);

/* The kernel's random id of this boot. Errors: ERR_IO if /proc cannot be read. */
NODISCARD int clock_boot_id(char out_id[static CLOCK_BOOT_ID_BYTES], struct err *e);

#endif
