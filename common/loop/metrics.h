/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text format, written at scrape time from plain counters that their owners keep. Names
 * and units follow its conventions. Label values come from our enums, never from outside, which
 * bounds the series: a page of METRICS_PAGE_MAX_BYTES holds them all.
 */
#ifndef LOOP_METRICS_TEXT_H
#define LOOP_METRICS_TEXT_H

#include "base/mem.h"

#include <stdint.h>

enum { METRICS_PAGE_MAX_BYTES = 1 << 20, METRICS_BUCKETS = 11 };

/* A histogram of durations with fixed bounds: 1 ms to 10 s, and infinity. Zero-initialise. */
struct metrics_histogram {
    uint64_t buckets[METRICS_BUCKETS + 1]; /* not cumulative */
    int64_t sum_ns;
};

/* "# HELP" and "# TYPE" of a family; its samples follow. */
void metrics_family(struct buf *page, const char *name, const char *type, const char *help);

/* One sample. `labels` formats text like `reason="LeaseRenewed"`, or nothing. */
void metrics_sample(struct buf *page, const char *name, double value, const char *labels, ...)
    PRINTF_LIKE(4, 5);

/* `text` as a label's value: backslash and quote escaped, what is no printable ASCII a '?', cut to
 * fit. */
void metrics_escape(const char *text, char *out, size_t out_bytes);

enum metrics_kind {
    METRICS_COUNT, /* uint64_t */
    METRICS_FLAG,  /* bool */
    METRICS_SPAN,  /* int64_t ns, shown in seconds */
};

/* One sample. */
struct metrics_row {
    const char *name;   /* behind "dpu_heartbeat_"; a counter ends in "_total" */
    const char *labels; /* NULL: none */
    enum metrics_kind kind;
    const void *value; /* of that kind; NULL: no sample is better than a made-up one */
    const char *help;  /* NULL: the family is that of the row before */
};

void metrics_rows(struct buf *page, const struct metrics_row *rows, size_t count);

void metrics_histogram_observe(struct metrics_histogram *h, int64_t ns);
void metrics_histogram_write(struct buf *page, const char *name, const char *labels,
                             const struct metrics_histogram *h);

/* dpu_heartbeat_build_info{version="..."} 1, and the process_* metrics of this process. */
void metrics_common(struct buf *page);

#endif
