/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fleet dpu|host KUBECONFIG FIRST COUNT INTERVAL DURATION SPREAD DIR
 *
 * So many DPUs, or hosts, in one process, each with the file KUBECONFIG.NODE. Each line on stdin is
 * answered by one of JSON on stdout: what there was since the line before (struct fleet_report). A
 * line with a duration restarts all of them, one by one, with that of the lease. Ends with its
 * stdin.
 */
#include "tests/bench/fleet.h"

#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "loop/daemon.h"

#include <ev.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ARGUMENTS = 9, GRACE_MS = 1000, LINE_BYTES = 64 };

struct run {
    struct daemon *daemon;
    struct fleet *fleet;
    ev_io input;
    char line[LINE_BYTES];
    size_t length;
};

static void print_report(struct fleet *f)
{
    struct fleet_report r;
    fleet_report(f, &r);
    (void)printf("{\"ready\":%zu,\"fell\":%" PRIu64 ",\"late\":%" PRIu64 ",\"failures\":%" PRId64
                 ",\"p50_ms\":%.3f,\"p99_ms\":%.3f}\n",
                 r.ready, r.fell, r.late, r.failures, (double)r.p50_ns / NS_PER_MS,
                 (double)r.p99_ns / NS_PER_MS);
    (void)fflush(stdout); /* a reader that is gone shows at stdin */
}

static void on_line(struct run *run)
{
    int64_t duration_ns;
    if (run->length > 0 && text_to_duration_ns(run->line, run->length, &duration_ns, NULL) == 0) {
        fleet_roll(run->fleet, duration_ns);
    }
    run->length = 0;
    print_report(run->fleet);
}

static void on_input(struct ev_loop *loop, ev_io *w, int revents)
{
    struct run *run = w->data;
    char bytes[LINE_BYTES];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            on_line(run);
        } else if (run->length < sizeof(run->line)) {
            run->line[run->length++] = bytes[i];
        }
    }
    if (n <= 0) {
        ev_io_stop(loop, w);
        daemon_quit(run->daemon, EXIT_SUCCESS);
    }
}

/* A watch and a connection for requests each, and timers. */
static void allow_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* what is missing shows when files are opened */
    }
}

static int read_arguments(char **argv, struct fleet_config *c, struct err *e)
{
    uint64_t first;
    uint64_t count;
    c->is_host = text_equal(argv[1], "host");
    c->kubeconfig = argv[2];
    c->dir = argv[8];
    if (text_to_u64(argv[3], strlen(argv[3]), &first, e) != 0 ||
        text_to_u64(argv[4], strlen(argv[4]), &count, e) != 0 ||
        text_to_duration_ns(argv[5], strlen(argv[5]), &c->interval_ns, e) != 0 ||
        text_to_duration_ns(argv[6], strlen(argv[6]), &c->duration_ns, e) != 0 ||
        text_to_duration_ns(argv[7], strlen(argv[7]), &c->spread_ns, e) != 0) {
        return e->code;
    }
    c->first = (size_t)first;
    c->count = (size_t)count;
    return 0;
}

static int start(struct run *run, char **argv, struct err *e)
{
    struct fleet_config config = {0};
    run->daemon = daemon_new(GRACE_MS, NULL, NULL, NULL);
    int rc = read_arguments(argv, &config, e);
    if (rc != 0) {
        return rc;
    }
    config.daemon = run->daemon;
    run->fleet = fleet_start(&config);
    ev_io_init(&run->input, on_input, STDIN_FILENO, EV_READ);
    run->input.data = run;
    ev_io_start(daemon_loop(run->daemon), &run->input);
    return 0;
}

int main(int argc, char **argv)
{
    struct run run = {0};
    struct err e = ERR_INIT;
    int status = EXIT_FAILURE;
    if (argc != ARGUMENTS) {
        (void)fprintf(
            stderr, "usage: fleet dpu|host KUBECONFIG FIRST COUNT INTERVAL DURATION SPREAD DIR\n");
        return status;
    }
    log_setup(LOG_ERROR, LOG_TEXT, "");
    allow_files();
    if (start(&run, argv, &e) == 0) {
        status = daemon_run(run.daemon);
        fleet_free(run.fleet);
    } else {
        (void)fprintf(stderr, "fleet: %s\n", e.msg);
    }
    daemon_free(run.daemon);
    return status;
}
