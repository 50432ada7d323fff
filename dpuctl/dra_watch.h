/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `dpuctl dra watch`: plays the kubelet's part against a DRA plugin and shows what it would know.
 * Registers, opens the health stream, keeps the cache of dra_cache.h, tries again when the stream
 * ends. For people without a kubelet at hand, and for finding out which side is wrong.
 */
#ifndef DPUCTL_DRA_WATCH_H
#define DPUCTL_DRA_WATCH_H

/* argv[0] is the command itself. Returns the exit status: 0, 1 (failed, or with --once: not
 * Healthy) or 64 (usage). */
int dra_watch_main(int argc, char **argv);

#endif
