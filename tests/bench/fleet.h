/* SPDX-License-Identifier: Apache-2.0 */
/* Many sides of one kind, each made of the agents' own shells, with a client of its own. */
#ifndef BENCH_FLEET_H
#define BENCH_FLEET_H

#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct err;
struct fleet;

struct fleet_config {
    struct daemon *daemon;
    bool is_host;
    const char *kubeconfig;
    const char *dir; /* of the records */
    size_t first;    /* of the nodes w-0, w-1 and so on */
    size_t count;
    int64_t interval_ns;
    int64_t duration_ns;
    int64_t spread_ns; /* within which they start; 0: as fast as one thread can connect them */
};

enum { FLEET_SAMPLES_MAX = 1 << 20, FLEET_ROLLOUT_S = 25 };

/* Since the last one; only the first is of now. */
struct fleet_report {
    size_t ready;
    uint64_t fell;    /* hosts: verdicts that turned NotReady */
    uint64_t late;    /* DPUs: more than one and a half intervals after the one before */
    int64_t failures; /* DPUs: requests; below 0 where some were answered after all */
    size_t samples;   /* hosts: from a renewal's stamp to its verdict */
    int64_t p50_ns;
    int64_t p99_ns;
};

/* Starts all of them, or begins to. Borrows the texts for its life. */
struct fleet *fleet_start(const struct fleet_config *config);
void fleet_free(struct fleet *f);

/* Restarts all sides, one by one, within FLEET_ROLLOUT_S, with another lease duration. A host finds
 * its record again, a DPU its lease. */
void fleet_roll(struct fleet *f, int64_t duration_ns);

void fleet_report(struct fleet *f, struct fleet_report *out);

#endif
