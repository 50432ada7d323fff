/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "dpuctl/api.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"

#include <jansson.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A fleet for people and for programs. Whether it could be written is seen by ferror, where a
 * function does not tell. */

enum { FLEET_SPAN_BYTES = 32 };

struct fleet_screen {
    bool is_wide;
    bool has_color;
};

bool fleet_shows(enum fleet_filter filter, const struct fleet_row *row);

/* "12s", "4m10s", "3h2m", "5d1h": one word; the sign is dropped. Returns `out`. */
const char *fleet_span(int64_t ns, char out[static FLEET_SPAN_BYTES]);

/* The rows of the filter in columns, and a line that counts them all. */
void fleet_print_table(const struct fleet *fleet, enum fleet_filter filter,
                       struct fleet_screen screen, FILE *out);

/* All that is known of one row, a line each. */
void fleet_print_row(const struct fleet_row *row, struct wall now, FILE *out);

/* docs/dpuctl.md describes both; members are only ever added. Return owned, NULL when out of
 * memory. */
json_t *fleet_json(const struct fleet *fleet, enum fleet_filter filter);
json_t *fleet_row_json(const struct fleet_row *row);

static const char nodes_summary[] =
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
    if (!fleet_options_parse("dpuctl nodes", nodes_summary, argc, argv, &config, &status)) {
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

enum { COLUMN_MAX = 10, CELL_BYTES = NAMES_HOLDER_BYTES };

static const char *const heads[COLUMN_MAX] = {"NODE",       "STATE",  "REASON", "SINCE",
                                              "RENEWED",    "HOLDER", "BOOT",   "DPU-AGENT",
                                              "HOST-AGENT", "GATE"};
enum { STATE_COLUMN = 1, NARROW = 5 /* columns without -o wide */ };

bool fleet_shows(enum fleet_filter filter, const struct fleet_row *row)
{
    switch (filter) {
    case FLEET_ALL:
        return true;
    case FLEET_BROKEN:
        return row->state != READINESS_READY;
    case FLEET_NOT_READY:
        return row->state == READINESS_NOT_READY;
    case FLEET_UNKNOWN:
        return row->state == READINESS_UNKNOWN;
    case FLEET_READY:
        return row->state == READINESS_READY;
    }
    return true;
}

const char *fleet_span(int64_t ns, char out[static FLEET_SPAN_BYTES])
{
    long long s = (ns < 0 ? mono_ns_sub(0, ns) : ns) / NS_PER_SEC;
    if (s < 120) {
        text_format(out, FLEET_SPAN_BYTES, "%llds", s);
    } else if (s < 7200) {
        text_format(out, FLEET_SPAN_BYTES, "%lldm%llds", s / 60, s % 60);
    } else if (s < 172800) {
        text_format(out, FLEET_SPAN_BYTES, "%lldh%lldm", s / 3600, s / 60 % 60);
    } else {
        text_format(out, FLEET_SPAN_BYTES, "%lldd%lldh", s / 86400, s / 3600 % 24);
    }
    return out;
}

static void put_cell(char out[static CELL_BYTES], const char *text)
{
    text_format(out, CELL_BYTES, "%s", text[0] != '\0' ? text : "-");
}

static void fill_cells(const struct fleet_row *row, struct wall now,
                       char cells[static COLUMN_MAX][CELL_BYTES])
{
    char span[FLEET_SPAN_BYTES];
    int64_t age_ns;
    bool has_age = fleet_renewal_age(row, &age_ns);
    put_cell(cells[0], row->node);
    put_cell(cells[STATE_COLUMN], readiness_state_name(row->state));
    put_cell(cells[2], row->reason);
    put_cell(cells[3],
             row->since.ns > 0 && now.ns > 0 ? fleet_span(wall_since(now, row->since), span) : "");
    put_cell(cells[4], has_age ? fleet_span(age_ns > 0 ? age_ns : 0, span) : "");
    put_cell(cells[5], row->has_lease ? row->lease.holder : "");
    put_cell(cells[6], row->boot_id);
    put_cell(cells[7], row->has_lease ? row->lease.agent_version : "");
    put_cell(cells[8], row->agent_version);
    if (row->agent_pod[0] != '\0' && !row->is_agent_ready) {
        text_format(cells[8], CELL_BYTES, "%.60s(unready)", row->agent_version);
    }
    put_cell(cells[9], row->has_gate ? "in" : "");
}

static void put_line(char cells[static COLUMN_MAX][CELL_BYTES], const size_t *widths, size_t count,
                     const char *color, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        bool is_colored = i == STATE_COLUMN && color[0] != '\0';
        int gap = i + 1 < count ? (int)(widths[i] - strlen(cells[i]) + 2) : 0;
        (void)fprintf(out, "%s%s%s%*s", is_colored ? color : "", cells[i],
                      is_colored ? screen_off(true) : "", gap, "");
    }
    (void)fputc('\n', out);
}

static enum screen_color color_of_row(const struct fleet_row *row)
{
    return row->state == READINESS_READY       ? SCREEN_GOOD
           : row->state == READINESS_NOT_READY ? SCREEN_BAD
                                               : SCREEN_DOUBT;
}

static void put_counts(const struct fleet *fleet, FILE *out)
{
    size_t counts[3] = {0}; /* by enum readiness_state */
    for (size_t i = 0; i < fleet->count; i++) {
        counts[fleet->rows[i].state]++;
    }
    (void)fprintf(out, "%s%zu with a DPU: %zu NotReady, %zu Unknown, %zu Ready\n",
                  fleet->count > 0 ? "\n" : "", fleet->count, counts[READINESS_NOT_READY],
                  counts[READINESS_UNKNOWN], counts[READINESS_READY]);
}

void fleet_print_table(const struct fleet *fleet, enum fleet_filter filter,
                       struct fleet_screen screen, FILE *out)
{
    char cells[COLUMN_MAX][CELL_BYTES];
    size_t widths[COLUMN_MAX];
    size_t count = screen.is_wide ? COLUMN_MAX : NARROW;
    for (size_t i = 0; i < COLUMN_MAX; i++) {
        widths[i] = strlen(heads[i]);
    }
    for (size_t k = 0; k < fleet->count; k++) {
        fill_cells(&fleet->rows[k], fleet->now, cells);
        for (size_t i = 0; i < COLUMN_MAX && fleet_shows(filter, &fleet->rows[k]); i++) {
            size_t len = strlen(cells[i]);
            widths[i] = len > widths[i] ? len : widths[i];
        }
    }
    for (size_t i = 0; i < COLUMN_MAX; i++) {
        put_cell(cells[i], heads[i]);
    }
    if (fleet->count > 0) {
        put_line(cells, widths, count, "", out);
    }
    for (size_t k = 0; k < fleet->count; k++) {
        if (fleet_shows(filter, &fleet->rows[k])) {
            fill_cells(&fleet->rows[k], fleet->now, cells);
            put_line(cells, widths, count,
                     screen_on(screen.has_color, color_of_row(&fleet->rows[k])), out);
        }
    }
    put_counts(fleet, out);
}

static const char *teller_words(const struct fleet_row *row)
{
    static const char *const words[] = {[FLEET_NOBODY] = "the lease alone",
                                        [FLEET_TAINT] = "its host, by a taint of the ResourceSlice",
                                        [FLEET_CONDITION] = "its host, by the condition DPUReady",
                                        [FLEET_GATE] = "dpu-gate, by the Node's condition Ready"};
    return words[row->word.teller];
}

void fleet_print_row(const struct fleet_row *row, struct wall now, FILE *out)
{
    char span[FLEET_SPAN_BYTES];
    int64_t age_ns;
    (void)fprintf(out, "%s: %s (%s)", row->node, readiness_state_name(row->state), row->reason);
    if (row->since.ns > 0 && now.ns > 0) {
        (void)fprintf(out, " for %s", fleet_span(wall_since(now, row->since), span));
    }
    (void)fprintf(out, ", as seen through the API server\n  %s\n", row->message);
    if (row->state != READINESS_READY) {
        (void)fprintf(out, "  -> %s\n", readiness_reason_fix(row->reason));
    }
    (void)fputc('\n', out);
    (void)fprintf(out, "  told by  %s\n", teller_words(row));
    if (row->has_lease) {
        (void)fprintf(out, "  lease    %s/%s: held by %s, %u s\n", row->lease.ns, row->lease.name,
                      row->lease.holder[0] != '\0' ? row->lease.holder : "nobody",
                      row->lease.duration_s);
    }
    if (fleet_renewal_age(row, &age_ns)) {
        (void)fprintf(out, "           renewed %s, %s %s the API server's clock\n",
                      row->lease.renew_stamp, fleet_span(age_ns, span),
                      age_ns < 0 ? "ahead of" : "before");
    }
    if (row->boot_id[0] != '\0') {
        (void)fprintf(out, "  DPU      boot %s\n", row->boot_id);
    }
    if (row->has_lease && row->lease.agent_version[0] != '\0') {
        (void)fprintf(out, "           dpu-agent %s\n", row->lease.agent_version);
    }
    if (row->agent_pod[0] != '\0') {
        (void)fprintf(out, "  agent    pod %s, image %s%s\n", row->agent_pod, row->agent_version,
                      row->is_agent_ready ? "" : ", not ready");
    }
    (void)fprintf(out, "  gate     %s\n", row->has_gate ? "in" : "not seen from here");
}

static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static json_t *stamp(struct wall at)
{
    char text[RFC3339_BYTES];
    rfc3339_format_seconds(at, text);
    return at.ns > 0 ? json_string(text) : json_null();
}

static json_t *age_of(const struct fleet_row *row)
{
    int64_t age_ns;
    if (!fleet_renewal_age(row, &age_ns)) {
        return json_null();
    }
    int64_t age_ms = age_ns / NS_PER_MS; /* enough, and read better */
    return json_real((double)age_ms / 1000);
}

json_t *fleet_row_json(const struct fleet_row *row)
{
    static const char *const tellers[] = {[FLEET_NOBODY] = "lease",
                                          [FLEET_TAINT] = "taint",
                                          [FLEET_CONDITION] = "condition",
                                          [FLEET_GATE] = "gate"};
    const struct lease_view *lease = &row->lease; /* zeroed where there is none */
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:s, s:b, s:b, s:s?, s:i, s:s?, s:o, s:s?, s:s?, s:s?, s:s?, "
        "s:b, s:b}",
        "node", row->node, "state", readiness_state_name(row->state), "reason", row->reason,
        "message", row->message, "since", stamp(row->since), "toldBy", tellers[row->word.teller],
        "hasLease", (int)row->has_lease, "hasNode", (int)row->has_node, "holder",
        text_or_null(lease->holder), "durationSeconds", (int)lease->duration_s, "renewTime",
        text_or_null(lease->renew_stamp), "renewalAgeSeconds", age_of(row), "dpuBootId",
        text_or_null(row->boot_id), "dpuAgentVersion", text_or_null(lease->agent_version),
        "hostAgentPod", text_or_null(row->agent_pod), "hostAgentVersion",
        text_or_null(row->agent_version), "hostAgentReady", (int)row->is_agent_ready, "gateIn",
        (int)row->has_gate);
}

json_t *fleet_json(const struct fleet *fleet, enum fleet_filter filter)
{
    CLEANUP(json) json_t *nodes = json_array();
    CLEANUP(json) json_t *notes = json_array();
    size_t counts[3] = {0}; /* by enum readiness_state */
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_row *row = &fleet->rows[i];
        counts[row->state]++;
        if (fleet_shows(filter, row) && json_array_append_new(nodes, fleet_row_json(row)) != 0) {
            return NULL;
        }
    }
    for (size_t i = 0; i < fleet->note_count; i++) {
        if (json_array_append_new(notes, json_string(fleet->notes[i])) != 0) {
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:{s:I, s:I, s:I}, s:O, s:O}", "version", DPU_VERSION, "time",
                     stamp(fleet->now), "counts", "NotReady",
                     (json_int_t)counts[READINESS_NOT_READY], "Unknown",
                     (json_int_t)counts[READINESS_UNKNOWN], "Ready",
                     (json_int_t)counts[READINESS_READY], "notes", notes, "nodes", nodes);
}
