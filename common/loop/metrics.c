/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/metrics.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <dirent.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const int64_t bounds_ns[METRICS_BUCKETS] = {
    1 * NS_PER_MS,    2 * NS_PER_MS,    5 * NS_PER_MS,     10 * NS_PER_MS,
    25 * NS_PER_MS,   100 * NS_PER_MS,  250 * NS_PER_MS,   500 * NS_PER_MS,
    1000 * NS_PER_MS, 5000 * NS_PER_MS, 10000 * NS_PER_MS,
};

void metrics_family(struct buf *page, const char *name, const char *type, const char *help)
{
    int rc = buf_appendf(page, NULL, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
    assert(rc == 0);
}

void metrics_sample(struct buf *page, const char *name, double value, const char *labels, ...)
{
    char text[512]; /* that of a probe has 350 at most */
    va_list args;
    va_start(args, labels);
    text_vformat(text, sizeof(text), labels, args);
    va_end(args);
    int rc = buf_appendf(page, NULL, "%s%s%s%s %.15g\n", name, text[0] ? "{" : "", text,
                         text[0] ? "}" : "", value);
    assert(rc == 0);
}

void metrics_escape(const char *text, char *out, size_t out_bytes)
{
    size_t used = 0;
    for (const char *c = text; *c && used + 3 <= out_bytes; c++) {
        if (*c == '\\' || *c == '"') {
            out[used++] = '\\';
        }
        out[used++] = *c >= ' ' && *c <= '~' ? *c : '?';
    }
    out[used] = '\0';
}

static double value_of(const struct metrics_row *row)
{
    switch (row->kind) {
    case METRICS_COUNT:
        return (double)*(const uint64_t *)row->value;
    case METRICS_FLAG:
        return *(const bool *)row->value;
    case METRICS_SPAN:
        return (double)*(const int64_t *)row->value / (double)NS_PER_SEC;
    }
    return 0;
}

void metrics_rows(struct buf *page, const struct metrics_row *rows, size_t count)
{
    for (const struct metrics_row *row = rows; row < rows + count; row++) {
        size_t len = strlen(row->name);
        bool is_counter = len > 6 && text_equal(row->name + len - 6, "_total");
        char name[128];
        text_format(name, sizeof(name), "dpu_heartbeat_%s", row->name);
        if (row->value && row->help) {
            metrics_family(page, name, is_counter ? "counter" : "gauge", row->help);
        }
        if (row->value) {
            metrics_sample(page, name, value_of(row), "%s", row->labels ? row->labels : "");
        }
    }
}

void metrics_histogram_observe(struct metrics_histogram *h, int64_t ns)
{
    size_t i = 0;
    while (i < METRICS_BUCKETS && ns > bounds_ns[i]) {
        i++;
    }
    h->buckets[i]++;
    h->sum_ns = mono_ns_add(h->sum_ns, ns);
}

void metrics_histogram_write(struct buf *page, const char *name, const char *labels,
                             const struct metrics_histogram *h)
{
    char sample_name[128];
    uint64_t count = 0;
    text_format(sample_name, sizeof(sample_name), "%s_bucket", name);
    for (size_t i = 0; i <= METRICS_BUCKETS; i++) {
        char bound[16] = "+Inf";
        count += h->buckets[i];
        if (i < METRICS_BUCKETS) {
            text_format(bound, sizeof(bound), "%g", (double)bounds_ns[i] / 1e9);
        }
        metrics_sample(page, sample_name, (double)count, "%s%sle=\"%s\"", labels,
                       labels[0] ? "," : "", bound);
    }
    text_format(sample_name, sizeof(sample_name), "%s_sum", name);
    metrics_sample(page, sample_name, (double)h->sum_ns / 1e9, "%s", labels);
    text_format(sample_name, sizeof(sample_name), "%s_count", name);
    metrics_sample(page, sample_name, (double)count, "%s", labels);
}

static uint64_t count_open_fds(void)
{
    uint64_t count = 0;
    CLEANUP(dir) DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        count += entry->d_name[0] != '.';
    }
    return count - (count > 0); /* the directory itself */
}

void metrics_common(struct buf *page)
{
    static const char build[] = "dpu_heartbeat_build_info";
    enum { STAT_STARTTIME = 22, STAT_VSIZE = 23, STAT_RSS = 24 };
    CLEANUP(buf) struct buf file = {.max_bytes = 1024};
    struct rusage usage = {0};
    int rc = file_read("/proc/self/stat", &file, NULL);
    const char *stat = rc == 0 ? buf_text(&file) : "";
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail with these arguments */
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    double since_boot =
        (double)text_stat_field(stat, STAT_STARTTIME) / (double)sysconf(_SC_CLK_TCK);
    double boot_wall = (double)(clock_wall_now().ns - clock_mono_now().ns) / 1e9;
    /* Both are read anew each time. To the kernel's tick, or who counts changes of this value would
     * count restarts where there are none. */
    double started = (double)(int64_t)((boot_wall + since_boot) * 100 + 0.5) / 100;
    const struct {
        const char *name;
        const char *help;
        double value;
    } rows[] = {
        {"process_cpu_seconds_total", "CPU time used.", cpu},
        {"process_resident_memory_bytes", "Resident memory.",
         (double)text_stat_field(stat, STAT_RSS) * (double)sysconf(_SC_PAGESIZE)},
        {"process_virtual_memory_bytes", "Virtual memory.",
         (double)text_stat_field(stat, STAT_VSIZE)},
        {"process_open_fds", "Open file descriptors.", (double)count_open_fds()},
        {"process_start_time_seconds", "Start time since the epoch.", started},
    };
    metrics_family(page, build, "gauge", "The version that runs; always 1.");
    metrics_sample(page, build, 1, "version=\"%s\"", DPU_VERSION);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        metrics_family(page, rows[i].name, i == 0 ? "counter" : "gauge", rows[i].help);
        metrics_sample(page, rows[i].name, rows[i].value, "%s", "");
    }
}
