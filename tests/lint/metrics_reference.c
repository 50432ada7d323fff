/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/metrics.md from what the agents would serve; a test compares the two. */
#include "base/mem.h"
#include "dpu-agent/dpu_metrics.h"
#include "dra-driver/driver.h"
#include "host-agent/host_page.h"
#include "kube/kube_answer.h"
#include "outputs/kube_sync.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128, LABELS_BYTES = 128 };

static const char intro[] =
    "# Metrics\n"
    "\n"
    "This page lists every metric of the programs, generated from their own help (`./dev fmt`). "
    "[monitoring.md](monitoring.md) tells how to\n"
    "scrape them, and has alerts and queries.\n"
    "\n"
    "- Names that end in `_total` are counters, which start at 0 with the program. All others are "
    "gauges, unless *histogram* is said.\n"
    "- Ages and remaining times are computed when they are read, on the boot-time clock. A step of "
    "the wall clock moves none.\n"
    "- A value that was never seen has no sample, rather than 0.\n"
    "- Labels come from fixed sets, and the names of probes from the configuration, so the number "
    "of series has a bound.\n"
    "- Families of parts that are off are absent: those of the lease with "
    "`--dpu-node-lease-renew-interval=0`, `events_total`\n"
    "  with `--events=off`, `node_condition_writes_total` without `--node-condition`.\n";

/* The names of a sample's labels, as "{a,b}"; "" if it has none. */
static void label_names(const char *sample, char out[static LABELS_BYTES])
{
    size_t used = 0;
    const char *at = strchr(sample, '{');
    const char *end = strchr(sample, '\n');
    out[0] = '\0';
    for (; at && at < end && *at != ' '; at = strchr(at, '"') ? strchr(at + 2, '"') + 1 : NULL) {
        size_t len = strcspn(++at, "=");
        if (len == 0 || *at == ' ' || strncmp(at, "le=", 3) == 0) {
            break;
        }
        int more =
            snprintf(out + used, LABELS_BYTES - used, "%c%.*s", used > 0 ? ',' : '{', (int)len, at);
        used += more > 0 ? (size_t)more : 0;
        at += len;
    }
    if (used > 0) {
        (void)snprintf(out + used, LABELS_BYTES - used, "}"); /* ours: fits */
    }
}

/* One line of each family: HELP, TYPE, and the first sample below them. */
static void print_rows(struct buf *page)
{
    (void)fputs("\n", stdout);
    for (const char *line = strstr(buf_text(page), "# HELP "); line;
         line = strstr(line + 1, "# HELP ")) {
        char name[NAME_BYTES];
        char type[NAME_BYTES];
        char labels[LABELS_BYTES];
        const char *help = strchr(line + 7, ' ') + 1;
        const char *next = strchr(line, '\n') + 1;
        if (sscanf(next, "# TYPE %127s %127s", name, type) != 2) {
            abort(); /* no page of ours */
        }
        label_names(strchr(next, '\n') + 1, labels);
        (void)printf("- `%s%s`%s: %.*s\n", name, labels,
                     strcmp(type, "histogram") == 0 ? " (histogram)" : "", (int)strcspn(help, "\n"),
                     help);
    }
    buf_fini(page);
}

/* All that a client can have seen. */
static void print_common(void)
{
    struct kube_metrics metrics = {.has_skew = true, .has_expiry = true};
    const struct kube_response answer = {.http_status = 200};
    struct buf page;
    kube_metrics_count(&metrics, "GET", &answer);
    page = (struct buf){.max_bytes = METRICS_PAGE_MAX_BYTES};
    metrics_common(&page);
    kube_metrics_write(&metrics, &page);
    print_rows(&page);
}

static void print_host(void)
{
    const struct readiness verdict = {.observed = {.ns = 1},
                                      .lease_until = {.ns = 1},
                                      .dpu_rebooted = {.ns = 1},
                                      .host_probes = {.count = 1}};
    const struct host_snapshot s = {
        .verdict = &verdict,
        .monitor = {.has_skew = true},
        .record = &(struct record_writer_stats){0},
        .watch = &(struct lease_watch_stats){0},
        .keeper = &(struct kube_sync_stats){0},
        .events = &(struct event_stats){0},
        .condition = &(struct kube_sync_stats){0},
        .pods = &(struct podnet_stats){0},
    };
    struct buf page = {.max_bytes = METRICS_PAGE_MAX_BYTES};
    host_metrics_write(&s, &page);
    print_rows(&page);
}

static void print_driver(void)
{
    const struct dra_stats stats = {.slice = &(struct kube_sync_stats){0}};
    const struct readiness verdict = {.admit = false};
    struct buf page = {.max_bytes = METRICS_PAGE_MAX_BYTES};
    driver_metrics_write(&stats, &verdict, &page);
    print_rows(&page);
}

static void print_dpu(void)
{
    const struct probe_state verdict = {
        .state = PROBE_HEALTHY, .probe_count = 1, .probes = {{.ran = true, .last_ns = 1}}};
    const struct lease_writer_stats lease = {.renewals = 1};
    struct buf page = {.max_bytes = METRICS_PAGE_MAX_BYTES};
    dpu_metrics_write(&verdict, &lease, (struct mono){0}, &page);
    print_rows(&page);
}

int main(void)
{
    (void)fputs(intro, stdout);
    (void)fputs("\n## All programs\n", stdout);
    print_common();
    (void)fputs("\n## dpu-host-agent\n", stdout);
    print_host();
    (void)fputs("\n## dpu-dra-driver\n", stdout);
    print_driver();
    (void)fputs("\n## dpu-agent\n", stdout);
    print_dpu();
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
