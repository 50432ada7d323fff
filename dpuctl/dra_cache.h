/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device health as a kubelet keeps it (KEP-4680): what a plugin last said, and for how long that
 * counts. CORE.
 *
 *  - Each message is the full state of the plugin. What it says is new, or confirms.
 *  - A state is believed for the device's own timeout (default 30 s) and is Unknown after that,
 *    when somebody looks. A device that a message leaves out keeps its state until then; the next
 *    message after that makes it Unknown for good.
 *  - The end of a stream makes the plugin's word void: whoever reads it sets `count` to 0.
 */
#ifndef DPUCTL_DRA_CACHE_H
#define DPUCTL_DRA_CACHE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mono.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRA_CACHE_DEVICES_MAX = 64,
    DRA_CACHE_POOL_BYTES = 254,
    DRA_CACHE_DEVICE_BYTES = 64,
    DRA_CACHE_MESSAGE_BYTES = 1025,
    DRA_CACHE_LINE_BYTES = 2048, /* all of an entry, and the driver */
};
#define DRA_CACHE_TIMEOUT_NS (30 * NS_PER_SEC) /* of a device that names none */

/* The numbers of the wire. */
enum dra_health { DRA_UNKNOWN = 0, DRA_HEALTHY = 1, DRA_UNHEALTHY = 2 };

/* One device in a message. Texts are borrowed. */
struct dra_report {
    const char *pool;
    const char *device;
    int health; /* as on the wire: any other number is Unknown */
    const char *message;
    int64_t timeout_s; /* 0 or less: the default */
};

struct dra_entry {
    char pool[DRA_CACHE_POOL_BYTES];
    char device[DRA_CACHE_DEVICE_BYTES];
    enum dra_health health; /* as said; dra_cache_health tells what it counts for */
    char message[DRA_CACHE_MESSAGE_BYTES];
    struct mono updated;
    int64_t timeout_ns;
    bool has_changed; /* by the last update */
};

/* Caller-owned, large. Zero-initialise. */
struct dra_cache {
    size_t count;
    struct dra_entry entries[DRA_CACHE_DEVICES_MAX];
};

/* Takes one message: `has_changed` tells per entry what is different now. Returns the number of
 * changed devices. What does not fit (names too long, too many devices) is left out and counted in
 * `out_left_out`. A message over 1024 bytes is cut and ends in "...". */
size_t dra_cache_update(struct dra_cache *c, const struct dra_report *said, size_t count,
                        struct mono now, size_t *out_left_out);

/* What an entry counts for now. */
enum dra_health dra_cache_health(const struct dra_entry *entry, struct mono now);

/* "Healthy    driver/pool/device  3 s of 30 s ago  message": the plugin's words sanitized, and as
 * long as they count. */
void dra_cache_describe(const struct dra_entry *entry, const char *driver, struct mono now,
                        char out[static DRA_CACHE_LINE_BYTES]);

#endif
