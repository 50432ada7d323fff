/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus text exposition, written at scrape time from plain counters that their owners keep.
 * There is no registry: a program's metrics are rows that say where each counter stands.
 *
 * Names and units follow the Prometheus conventions: base units (seconds, bytes), counters end in
 * _total, label values are escaped. Cardinality is bounded by construction: label values come from
 * our enums, never from outside. An append that does not fit marks the page as failed.
 */
#ifndef LOOP_METRICS_TEXT_H
#define LOOP_METRICS_TEXT_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum { METRICS_PAGE_MAX_BYTES = 128 << 10, METRICS_BUCKETS = 11 };

struct metrics_page {
    struct buf text;
    bool failed;
};

/* A histogram of durations with fixed bounds: 1 ms to 10 s, and infinity. Zero-initialise. */
struct metrics_histogram {
    uint64_t buckets[METRICS_BUCKETS + 1]; /* not cumulative */
    int64_t sum_ns;
};

void metrics_page_init(struct metrics_page *page);
void metrics_page_fini(struct metrics_page *page);

/* "# HELP" and "# TYPE" of a family; its samples follow. `type` is "counter", "gauge", "histogram".
 */
void metrics_family(struct metrics_page *page, const char *name, const char *type,
                    const char *help);

/* One sample. `labels` is ready text like `reason="LeaseRenewed"`, or NULL. */
void metrics_sample(struct metrics_page *page, const char *name, const char *labels, double value);
void metrics_sample_u64(struct metrics_page *page, const char *name, const char *labels,
                        uint64_t value);

/* `text` as a label's value: backslash and quote escaped, what is no printable ASCII a '?', cut to
 * fit. */
void metrics_escape(const char *text, char *out, size_t out_bytes);

enum metrics_kind {
    METRICS_COUNT, /* uint64_t */
    METRICS_FLAG,  /* bool */
    METRICS_SPAN,  /* int64_t ns, shown in seconds */
};

/* One sample, and where its value stands in the struct that has it. */
struct metrics_row {
    const char
        *name; /* behind "dpu_heartbeat_"; one in "_total" is a counter, else it is a gauge */
    const char *labels; /* as of a sample */
    enum metrics_kind kind;
    size_t at;
    size_t when;      /* of a bool, without which there is no sample; METRICS_ALWAYS */
    const char *help; /* NULL: the family is that of the row before */
};

#define METRICS_ALWAYS SIZE_MAX

void metrics_rows(struct metrics_page *page, const struct metrics_row *rows, size_t count,
                  const void *of);

void metrics_histogram_observe(struct metrics_histogram *h, int64_t ns);
void metrics_histogram_write(struct metrics_page *page, const char *name, const char *labels,
                             const struct metrics_histogram *h);

/* dpu_heartbeat_build_info{version="..."} 1, and the process_* metrics of this process. */
void metrics_common(struct metrics_page *page);

#endif
