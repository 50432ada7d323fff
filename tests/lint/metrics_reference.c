/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/metrics.md from what the agents would serve; a test compares the two. */
#include "base/mem.h"
#include "dpu-agent/dpu_page.h"
#include "host-agent/host_page.h"
#include "kube/kube_metrics.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128, LABELS_BYTES = 128 };

static const char intro[] =
    "# Metrics\n"
    "\n"
    "Generated from the agents' own help (`./dev fmt` writes it, a test keeps it current). How to "
    "scrape them, alerts, questions\n"
    "and their queries: [monitoring.md](monitoring.md).\n"
    "\n"
    "- Ages and remaining times are counted when they are read, on the boot-time clock: a step of "
    "the wall clock moves none.\n"
    "- What was never seen has no sample, rather than 0. Counters start at 0 with the agent.\n"
    "- The number of series has a bound: labels come from fixed sets, and the names of probes from "
    "the configuration.\n"
    "- Families of parts that are off are absent: those of the lease with "
    "`--dpu-node-lease-renew-interval=0`, `dra_*` with\n"
    "  `--dra=off`, `events_total` with `--events=off`, `node_condition_writes_total` without "
    "`--node-condition`.\n";

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

/* One row of each family: HELP, TYPE, and the first sample below them. */
static void print_rows(struct metrics_page *page)
{
    (void)fputs("\n| metric | type | |\n|---|---|---|\n", stdout);
    for (const char *line = strstr(buf_text(&page->text), "# HELP "); line;
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
        (void)printf("| `%s%s` | %s | %.*s |\n", name, labels, type, (int)strcspn(help, "\n"),
                     help);
    }
    metrics_page_fini(page);
}

/* All that a client can have seen. */
static void print_common(void)
{
    static const char token[] = "x.eyJpYXQiOjEsImV4cCI6Mn0.x"; /* {"iat":1,"exp":2} */
    struct kube_conf conf = {.server = mem_strdup("http://127.0.0.1:1"),
                             .token = mem_strdup(token)};
    struct kube_client *client;
    struct metrics_page page;
    const struct kube_response answer = {.http_status = 200, .has_server_date = true};
    if (kube_client_new(ev_default_loop(0), &conf, &client, NULL) != 0) {
        abort();
    }
    kube_client_observe(client, "GET", &answer);
    metrics_page_init(&page);
    metrics_common(&page);
    kube_metrics_write(client, &page);
    print_rows(&page);
    kube_client_free(client);
}

static void print_host(void)
{
    const struct host_snapshot s = {
        .verdict = {.observed = {.ns = 1},
                    .lease_until = {.ns = 1},
                    .dpu_rebooted = {.ns = 1},
                    .host_probes = {.count = 1}},
        .monitor = {.has_skew = true},
        .has_lease = true,
        .has_dra = true,
        .has_events = true,
        .has_condition = true,
        .has_pods = true,
    };
    struct metrics_page page;
    metrics_page_init(&page);
    host_metrics_write(&s, &page);
    print_rows(&page);
}

static void print_dpu(void)
{
    const struct probe_state verdict = {
        .state = PROBE_HEALTHY, .probe_count = 1, .probes = {{.ran = true}}};
    const struct probe_stats probes = {.last_ns = 1};
    const struct lease_writer_stats lease = {.renewals = 1};
    const struct dpu_snapshot s = {.verdict = &verdict, .probes = &probes, .lease = &lease};
    struct metrics_page page;
    metrics_page_init(&page);
    dpu_metrics_write(&s, &page);
    print_rows(&page);
}

int main(void)
{
    (void)fputs(intro, stdout);
    (void)fputs("\n## Both agents\n", stdout);
    print_common();
    (void)fputs("\n## dpu-host-agent\n", stdout);
    print_host();
    (void)fputs("\n## dpu-agent\n", stdout);
    print_dpu();
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
