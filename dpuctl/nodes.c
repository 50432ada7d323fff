/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/commands.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "dpuctl/admin_options.h"
#include "dpuctl/fleet_options.h"
#include "dpuctl/fleet_print.h"
#include "dpuctl/json_print.h"
#include "dpuctl/screen.h"
#include "json/json_text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const char summary[] =
    "Every DPU of the cluster in one table, what is broken first, by what the API server can tell: "
    "leases, Nodes, ResourceSlices and pods. Ages are counted on the API server's clock from the "
    "DPU's own stamps. Exit status: 0 all shown are Ready, 1 at least one is NotReady, 2 at least "
    "one is Unknown or the cluster could not be read, 64 wrong usage.";

static const char status_summary[] =
    "One node's DPU as the API server tells of it, and the command that tells the rest from the "
    "node itself. Exit status: 0 Ready, 1 NotReady, 2 Unknown, 64 wrong usage.";

enum { EXIT_NOT_READY = 1, EXIT_UNKNOWN = 2 };

/* ---- one look -------------------------------------------------------------------------------- */

static int exit_status(const struct fleet *fleet, enum fleet_filter filter)
{
    int status = EXIT_SUCCESS;
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_row *row = &fleet->rows[i];
        if (!fleet_shows(filter, row) || row->state == READINESS_READY) {
            continue;
        }
        if (row->state == READINESS_NOT_READY) {
            return EXIT_NOT_READY;
        }
        status = EXIT_UNKNOWN;
    }
    return status;
}

static struct fleet_screen screen_for(const struct fleet_config *config)
{
    return (struct fleet_screen){.is_wide = config->output == FLEET_WIDE,
                                 .has_color = screen_has_color((enum admin_color)config->color)};
}

static void print_names(const struct fleet *fleet, enum fleet_filter filter)
{
    for (size_t i = 0; i < fleet->count; i++) {
        if (fleet_shows(filter, &fleet->rows[i])) {
            const struct fleet_row *row = &fleet->rows[i]; /* as kubectl has it */
            (void)printf("node/%.*s\n", (int)row->node_bytes, row->node);
        }
    }
}

static bool print(const struct fleet_config *config, const struct fleet *fleet)
{
    enum fleet_filter filter = (enum fleet_filter)config->filter;
    switch ((enum fleet_output)config->output) {
    case FLEET_JSON:
    case FLEET_YAML:
        return json_print(fleet_json(fleet, filter), config->output == FLEET_YAML, stdout);
    case FLEET_NAME:
        print_names(fleet, filter);
        break;
    case FLEET_TEXT:
    case FLEET_WIDE:
        fleet_print_table(fleet, filter, screen_for(config), stdout);
        break;
    }
    return fflush(stdout) == 0;
}

/* Where the answer has a place for them they are in it. */
static void tell_notes(const char *name, const struct fleet *fleet, enum fleet_output output)
{
    bool is_told = output == FLEET_JSON || output == FLEET_YAML;
    for (size_t i = 0; i < fleet->note_count && !is_told; i++) {
        (void)fprintf(stderr, "%s: not looked at: %s\n", name, fleet->notes[i]);
    }
}

static int read_fleet(const char *name, const struct fleet_config *config, struct fleet *out)
{
    struct err e = ERR_INIT;
    int rc = fleet_read(config, out, &e);
    if (rc != 0) {
        bool is_none = rc == ERR_NOTFOUND && text_is_empty(config->kubeconfig);
        (void)fprintf(stderr, "%s: %s%s\n", name, e.msg, is_none ? ": give --kubeconfig=FILE" : "");
    }
    return rc;
}

static int look_once(const struct fleet_config *config)
{
    struct fleet fleet;
    if (read_fleet("dpuctl nodes", config, &fleet) != 0) {
        return EXIT_UNKNOWN;
    }
    bool is_written = print(config, &fleet);
    tell_notes("dpuctl nodes", &fleet, (enum fleet_output)config->output);
    int status = is_written ? exit_status(&fleet, (enum fleet_filter)config->filter) : EXIT_UNKNOWN;
    fleet_fini(&fleet);
    return status;
}

/* ---- again and again ------------------------------------------------------------------------- */

static void print_change(const struct fleet_config *config, const struct fleet_row *row,
                         struct wall now, const char *former)
{
    char time[RFC3339_BYTES];
    rfc3339_format_seconds(now, time);
    if (config->output == FLEET_JSON) {
        CLEANUP(json) json_t *line = fleet_row_json(row);
        if (line) { /* whether it was written is seen at the flush */
            (void)json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
            (void)putchar('\n');
        }
    } else if (config->output == FLEET_NAME) {
        (void)printf("node/%.*s\n", (int)row->node_bytes, row->node);
    } else {
        (void)printf("%s  %s  %s  %s: %s%s%s\n", time, row->node, readiness_state_name(row->state),
                     row->reason, row->message, former ? "; was " : "", former ? former : "");
    }
}

/* Prints the rows whose state or reason is not the one in `known`, which it brings up to date. */
static bool print_changes(const struct fleet_config *config, const struct fleet *fleet,
                          json_t *known, bool is_first)
{
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_row *row = &fleet->rows[i];
        char word[FLEET_WORD_BYTES + 16];
        const char *former = json_text_get(known, row->node);
        text_format(word, sizeof(word), "%s %s", readiness_state_name(row->state), row->reason);
        if (text_equal(word, former)) {
            continue;
        }
        if (fleet_shows((enum fleet_filter)config->filter, row) || former) {
            print_change(config, row, fleet->now, is_first ? NULL : former ? former : "not there");
        }
        if (json_object_set_new(known, row->node, json_string(word)) != 0) {
            return false;
        }
    }
    return fflush(stdout) == 0;
}

/* False: time to go. */
static bool wait_for_next(int signal_fd, int64_t interval_ns)
{
    struct pollfd fds[] = {{.fd = signal_fd, .events = POLLIN},
                           {.fd = STDOUT_FILENO}}; /* the reader has gone: told without asking */
    int got = poll(fds, ARRAY_LEN(fds), (int)(interval_ns / NS_PER_MS));
    return got == 0 || (got < 0 && errno == EINTR);
}

static int look_on(const struct fleet_config *config)
{
    sigset_t set;
    CLEANUP(json) json_t *known = json_object();
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* none of these fails with such arguments */
    CLEANUP(fd) int signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (!known || signal_fd < 0) {
        perror("dpuctl nodes");
        return EXIT_UNKNOWN;
    }
    bool is_first = true;
    do {
        struct fleet fleet;
        if (read_fleet("dpuctl nodes", config, &fleet) != 0) {
            continue; /* said; it may come back */
        }
        bool is_written = print_changes(config, &fleet, known, is_first);
        if (is_first) {
            tell_notes("dpuctl nodes", &fleet, FLEET_TEXT);
        }
        fleet_fini(&fleet);
        is_first = false;
        if (!is_written) {
            return errno == EPIPE ? EXIT_SUCCESS : EXIT_UNKNOWN;
        }
    } while (wait_for_next(signal_fd, config->interval_ns));
    return EXIT_SUCCESS;
}

int nodes_main(int argc, char **argv)
{
    struct fleet_config config;
    int status;
    (void)signal(SIGPIPE, SIG_IGN); /* seen by the flush */
    if (!fleet_options_parse("dpuctl nodes", summary, argc, argv, &config, &status)) {
        return status;
    }
    log_setup(LOG_ERROR, LOG_TEXT, "");
    if (config.watch && config.output == FLEET_YAML) {
        status = admin_wrong_usage("dpuctl nodes", "--output=yaml has no lines; use json");
    } else {
        status = config.watch ? look_on(&config) : look_once(&config);
    }
    fleet_options_fini(&config);
    return status;
}

/* ---- one node -------------------------------------------------------------------------------- */

static void print_way_in(const struct fleet_config *config, const struct fleet_row *row)
{
    (void)printf("\nThe rest is known on the node itself:\n");
    if (row->agent_pod[0] != '\0') {
        (void)printf("  kubectl -n %s exec %s -- dpuctl status\n", config->ns, row->agent_pod);
        (void)printf("  kubectl -n %s exec %s -- dpuctl doctor\n", config->ns, row->agent_pod);
    } else {
        (void)printf("  kubectl debug node/%s -it --image=dpu-heartbeat-host:%s "
                     "--profile=sysadmin -- dpuctl doctor --root=/host\n",
                     row->node, DPU_VERSION);
    }
}

static bool print_node(const struct fleet_config *config, const struct fleet *fleet)
{
    const struct fleet_row *row = fleet->rows;
    if (fleet->count == 0) {
        (void)fprintf(
            stderr, "dpuctl status: Node '%s' has neither a lease nor the label of a DPU's host\n",
            config->node);
        return false;
    }
    if (config->output == FLEET_JSON || config->output == FLEET_YAML) {
        return json_print(fleet_row_json(row), config->output == FLEET_YAML, stdout);
    }
    if (config->output == FLEET_NAME) {
        return print(config, fleet);
    }
    fleet_print_row(row, fleet->now, stdout);
    print_way_in(config, row);
    return fflush(stdout) == 0;
}

int status_of_node(int argc, char **argv)
{
    struct fleet_config config;
    struct fleet fleet;
    int status;
    (void)signal(SIGPIPE, SIG_IGN); /* seen by the flush */
    if (!fleet_options_parse("dpuctl status", status_summary, argc, argv, &config, &status)) {
        return status;
    }
    log_setup(LOG_ERROR, LOG_TEXT, "");
    status = EXIT_UNKNOWN;
    if (read_fleet("dpuctl status", &config, &fleet) == 0) {
        bool is_written = print_node(&config, &fleet);
        tell_notes("dpuctl status", &fleet, FLEET_TEXT);
        status = is_written ? exit_status(&fleet, FLEET_ALL) : EXIT_UNKNOWN;
        fleet_fini(&fleet);
    }
    fleet_options_fini(&config);
    return status;
}
