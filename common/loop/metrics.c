/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/metrics.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const int64_t bounds_ns[METRICS_BUCKETS] = {
    1 * NS_PER_MS,    2 * NS_PER_MS,    5 * NS_PER_MS,     10 * NS_PER_MS,
    25 * NS_PER_MS,   100 * NS_PER_MS,  250 * NS_PER_MS,   500 * NS_PER_MS,
    1000 * NS_PER_MS, 5000 * NS_PER_MS, 10000 * NS_PER_MS,
};

void metrics_page_init(struct metrics_page *page)
{
    *page = (struct metrics_page){.failed = false};
    buf_init(&page->text, METRICS_PAGE_MAX_BYTES);
}

void metrics_page_fini(struct metrics_page *page)
{
    buf_fini(&page->text);
}

void metrics_family(struct metrics_page *page, const char *name, const char *type, const char *help)
{
    if (buf_appendf(&page->text, NULL, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type) !=
        0) {
        page->failed = true;
    }
}

static void put_sample(struct metrics_page *page, const char *name, const char *labels,
                       const char *value)
{
    bool has_labels = !text_is_empty(labels);
    if (buf_appendf(&page->text, NULL, "%s%s%s%s %s\n", name, has_labels ? "{" : "",
                    has_labels ? labels : "", has_labels ? "}" : "", value) != 0) {
        page->failed = true;
    }
}

void metrics_sample(struct metrics_page *page, const char *name, const char *labels, double value)
{
    char text[40];
    text_format(text, sizeof(text), "%.15g", value);
    put_sample(page, name, labels, text);
}

void metrics_sample_u64(struct metrics_page *page, const char *name, const char *labels,
                        uint64_t value)
{
    char text[24];
    text_format(text, sizeof(text), "%llu", (unsigned long long)value);
    put_sample(page, name, labels, text);
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

static void put_value(struct metrics_page *page, const char *name, const struct metrics_row *row,
                      const void *value)
{
    switch (row->kind) {
    case METRICS_COUNT:
        metrics_sample_u64(page, name, row->labels, *(const uint64_t *)value);
        break;
    case METRICS_FLAG:
        metrics_sample_u64(page, name, row->labels, *(const bool *)value);
        break;
    case METRICS_SPAN:
        metrics_sample(page, name, row->labels,
                       (double)*(const int64_t *)value / (double)NS_PER_SEC);
        break;
    }
}

void metrics_rows(struct metrics_page *page, const struct metrics_row *rows, size_t count,
                  const void *of)
{
    const char *base = of;
    for (size_t i = 0; i < count; i++) {
        const struct metrics_row *row = &rows[i];
        size_t len = strlen(row->name);
        bool is_counter = len > 6 && text_equal(row->name + len - 6, "_total");
        char name[128];
        text_format(name, sizeof(name), "dpu_heartbeat_%s", row->name);
        if (row->when != METRICS_ALWAYS && !*(const bool *)(base + row->when)) {
            continue;
        }
        if (row->help) {
            metrics_family(page, name, is_counter ? "counter" : "gauge", row->help);
        }
        put_value(page, name, row, base + row->at);
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

void metrics_histogram_write(struct metrics_page *page, const char *name, const char *labels,
                             const struct metrics_histogram *h)
{
    char sample_name[128];
    char sample_labels[256];
    uint64_t count = 0;
    const char *comma = text_is_empty(labels) ? "" : ",";
    const char *given = labels ? labels : "";
    text_format(sample_name, sizeof(sample_name), "%s_bucket", name);
    for (size_t i = 0; i <= METRICS_BUCKETS; i++) {
        count += h->buckets[i];
        if (i < METRICS_BUCKETS) {
            text_format(sample_labels, sizeof(sample_labels), "%s%sle=\"%g\"", given, comma,
                        (double)bounds_ns[i] / 1e9);
        } else {
            text_format(sample_labels, sizeof(sample_labels), "%s%sle=\"+Inf\"", given, comma);
        }
        metrics_sample_u64(page, sample_name, sample_labels, count);
    }
    text_format(sample_name, sizeof(sample_name), "%s_sum", name);
    metrics_sample(page, sample_name, labels, (double)h->sum_ns / 1e9);
    text_format(sample_name, sizeof(sample_name), "%s_count", name);
    metrics_sample_u64(page, sample_name, labels, count);
}

/* Field `index` (from 0) after the command name of /proc/self/stat, see proc_pid_stat(5). */
static uint64_t stat_field(const char *stat, size_t index)
{
    const char *at = strrchr(stat, ')');
    uint64_t value = 0;
    for (size_t i = 0; at && i <= index; i++) {
        at = strchr(at + 1, ' ');
    }
    if (at && text_to_u64(at + 1, strcspn(at + 1, " "), &value, NULL) != 0) {
        value = 0;
    }
    return value;
}

static uint64_t count_open_fds(void)
{
    uint64_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) {
        return 0;
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(dir); /* read-only */
    return count - 1;    /* the directory itself */
}

static void process_metrics(struct metrics_page *page)
{
    enum { STAT_STARTTIME = 19, STAT_VSIZE = 20, STAT_RSS = 21 };
    char stat[1024] = "";
    struct rusage usage = {0};
    CLEANUP(file) FILE *file = fopen("/proc/self/stat", "re");
    if (file && fgets(stat, sizeof(stat), file) == NULL) {
        stat[0] = '\0';
    }
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail with these arguments */
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    double since_boot = (double)stat_field(stat, STAT_STARTTIME) / (double)sysconf(_SC_CLK_TCK);
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
         (double)stat_field(stat, STAT_RSS) * (double)sysconf(_SC_PAGESIZE)},
        {"process_virtual_memory_bytes", "Virtual memory.", (double)stat_field(stat, STAT_VSIZE)},
        {"process_open_fds", "Open file descriptors.", (double)count_open_fds()},
        {"process_start_time_seconds", "Start time since the epoch.", started},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        metrics_family(page, rows[i].name, i == 0 ? "counter" : "gauge", rows[i].help);
        metrics_sample(page, rows[i].name, NULL, rows[i].value);
    }
}

void metrics_common(struct metrics_page *page)
{
    static const char name[] = "dpu_heartbeat_build_info";
    metrics_family(page, name, "gauge", "The version that runs; always 1.");
    metrics_sample_u64(page, name, "version=\"" DPU_VERSION "\"", 1);
    process_metrics(page);
}
