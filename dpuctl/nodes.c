/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl nodes, and dpuctl status NODE: what the API server tells of DPUs. */
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "dpuctl/api.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_NOT_READY = 1, EXIT_UNKNOWN = 2 };

/* By enum readiness_state. */
static const enum print_color state_colors[] = {PRINT_DOUBT, PRINT_BAD, PRINT_GOOD};

static const struct {
    const char *word; /* in JSON */
    const char *text;
} tellers[] = {
    [FLEET_NOBODY] = {"lease", "the lease alone"},
    [FLEET_TAINT] = {"taint", "its host, by a taint of the ResourceSlice"},
    [FLEET_CONDITION] = {"condition", "its host, by the condition DPUReady"},
    [FLEET_GATE] = {"gate", "dpu-gate, by the Node's condition Ready"},
};

static bool is_shown(const struct admin_config *config, const struct fleet_row *row)
{
    static const enum readiness_state only[] = {[ADMIN_NOT_READY] = READINESS_NOT_READY,
                                                [ADMIN_UNKNOWN] = READINESS_UNKNOWN,
                                                [ADMIN_READY] = READINESS_READY};
    return config->filter == ADMIN_ALL ||
           (config->filter == ADMIN_BROKEN ? row->state != READINESS_READY
                                           : row->state == only[config->filter]);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

/* docs/dpuctl.md describes it; members are only ever added. Returns owned. */
static json_t *row_json(const struct fleet_row *row)
{
    int64_t age_ns;
    json_t *age = fleet_renewal_age(row, &age_ns) ? print_json_seconds(age_ns) : json_null();
    const struct lease_view *lease = &row->lease; /* zeroed where there is none */
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:s, s:b, s:b, s:s?, s:i, s:s?, s:o, s:s?, s:s?, s:s?, s:s?, "
        "s:b, s:b}",
        "node", row->node, "state", readiness_state_name(row->state), "reason", row->reason,
        "message", row->message, "since", print_json_stamp(row->since), "toldBy",
        tellers[row->word.teller].word, "hasLease", (int)row->has_lease, "hasNode",
        (int)row->has_node, "holder", text_or_null(lease->holder), "durationSeconds",
        (int)lease->duration_s, "renewTime", text_or_null(lease->renew_stamp), "renewalAgeSeconds",
        age, "dpuBootId", text_or_null(row->boot_id), "dpuAgentVersion",
        text_or_null(lease->agent_version), "hostAgentPod", text_or_null(row->agent_pod),
        "hostAgentVersion", text_or_null(row->agent_version), "hostAgentReady",
        (int)row->is_agent_ready, "gateIn", (int)row->has_gate);
}

static json_t *fleet_json(const struct admin_config *config, const struct fleet *fleet)
{
    json_t *nodes = json_array();
    json_t *notes = json_array();
    json_int_t counts[3] = {0}; /* by enum readiness_state */
    for (size_t i = 0; i < fleet->count; i++) {
        counts[fleet->rows[i].state]++;
        if (is_shown(config, &fleet->rows[i])) {
            (void)json_array_append_new(nodes, row_json(&fleet->rows[i]));
        }
    }
    for (size_t i = 0; i < fleet->note_count; i++) {
        (void)json_array_append_new(notes, json_string(fleet->notes[i]));
    }
    return json_pack("{s:s, s:o, s:{s:I, s:I, s:I}, s:o, s:o}", "version", DPU_VERSION, "time",
                     print_json_stamp(fleet->now), "counts", "NotReady",
                     counts[READINESS_NOT_READY], "Unknown", counts[READINESS_UNKNOWN], "Ready",
                     counts[READINESS_READY], "notes", notes, "nodes", nodes);
}

/* ---- for people ------------------------------------------------------------------------------ */

enum { COLUMNS = 10, NARROW = 5 /* without -o wide */, STATE_COLUMN = 1 };
enum { CELL_BYTES = NAMES_HOLDER_BYTES };

static void fill_cells(const struct fleet_row *row, struct wall now,
                       char cells[static COLUMNS][CELL_BYTES])
{
    char since[PRINT_SPAN_BYTES] = "";
    char renewed[PRINT_SPAN_BYTES] = "";
    char agent[CELL_BYTES];
    int64_t age_ns;
    bool is_unready = row->agent_pod[0] != '\0' && !row->is_agent_ready;
    if (row->since.ns > 0 && now.ns > 0) {
        (void)print_span_word(wall_since(now, row->since), since);
    }
    if (fleet_renewal_age(row, &age_ns)) {
        (void)print_span_word(age_ns > 0 ? age_ns : 0, renewed);
    }
    text_format(agent, sizeof(agent), "%.60s%s", row->agent_version, is_unready ? "(unready)" : "");
    const char *const texts[COLUMNS] = {row->node,    readiness_state_name(row->state),
                                        row->reason,  since,
                                        renewed,      row->lease.holder,
                                        row->boot_id, row->lease.agent_version,
                                        agent,        row->has_gate ? "in" : ""};
    for (size_t i = 0; i < COLUMNS; i++) {
        text_format(cells[i], CELL_BYTES, "%s", texts[i][0] != '\0' ? texts[i] : "-");
    }
}

static void put_line(char cells[static COLUMNS][CELL_BYTES], const size_t *widths, size_t count,
                     const char *color)
{
    for (size_t i = 0; i < count; i++) {
        bool is_colored = i == STATE_COLUMN && color[0] != '\0';
        int gap = i + 1 < count ? (int)(widths[i] - strlen(cells[i]) + 2) : 0;
        (void)printf("%s%s%s%*s", is_colored ? color : "", cells[i], print_off(is_colored), gap,
                     "");
    }
    (void)putchar('\n');
}

static void print_table(const struct admin_config *config, const struct fleet *fleet)
{
    char heads[COLUMNS][CELL_BYTES] = {"NODE",   "STATE", "REASON",    "SINCE",      "RENEWED",
                                       "HOLDER", "BOOT",  "DPU-AGENT", "HOST-AGENT", "GATE"};
    char cells[COLUMNS][CELL_BYTES];
    size_t widths[COLUMNS];
    size_t counts[3] = {0}; /* by enum readiness_state */
    size_t columns = config->output == ADMIN_WIDE ? COLUMNS : NARROW;
    bool has_color = print_has_color(config->color);
    for (size_t i = 0; i < COLUMNS; i++) {
        widths[i] = strlen(heads[i]);
    }
    for (size_t k = 0; k < fleet->count; k++) {
        counts[fleet->rows[k].state]++;
        fill_cells(&fleet->rows[k], fleet->now, cells);
        for (size_t i = 0; i < COLUMNS && is_shown(config, &fleet->rows[k]); i++) {
            size_t len = strlen(cells[i]);
            widths[i] = len > widths[i] ? len : widths[i];
        }
    }
    if (fleet->count > 0) {
        put_line(heads, widths, columns, "");
    }
    for (size_t k = 0; k < fleet->count; k++) {
        const struct fleet_row *row = &fleet->rows[k];
        if (is_shown(config, row)) {
            fill_cells(row, fleet->now, cells);
            put_line(cells, widths, columns, print_on(has_color, state_colors[row->state]));
        }
    }
    (void)printf("%s%zu with a DPU: %zu NotReady, %zu Unknown, %zu Ready\n",
                 fleet->count > 0 ? "\n" : "", fleet->count, counts[READINESS_NOT_READY],
                 counts[READINESS_UNKNOWN], counts[READINESS_READY]);
}

/* As kubectl has it. */
static void print_name(const struct fleet_row *row)
{
    (void)printf("node/%.*s\n", (int)row->node_bytes, row->node);
}

/* All that is known of one row, a line each. */
static void print_row(const struct fleet_row *row, struct wall now)
{
    char span[PRINT_SPAN_BYTES];
    int64_t age_ns;
    const struct lease_view *lease = &row->lease;
    (void)printf("%s: %s (%s)", row->node, readiness_state_name(row->state), row->reason);
    if (row->since.ns > 0 && now.ns > 0) {
        (void)printf(" for %s", print_span_word(wall_since(now, row->since), span));
    }
    (void)printf(", as seen through the API server\n  %s\n", row->message);
    if (row->state != READINESS_READY) {
        (void)printf("  -> %s\n", readiness_reason_fix(row->reason));
    }
    (void)printf("\n  told by  %s\n", tellers[row->word.teller].text);
    if (row->has_lease) {
        (void)printf("  lease    %s/%s: held by %s, %u s\n", lease->ns, lease->name,
                     lease->holder[0] != '\0' ? lease->holder : "nobody", lease->duration_s);
    }
    if (fleet_renewal_age(row, &age_ns)) {
        (void)printf("           renewed %s, %s %s the API server's clock\n", lease->renew_stamp,
                     print_span_word(age_ns, span), age_ns < 0 ? "ahead of" : "before");
    }
    if (row->boot_id[0] != '\0') {
        (void)printf("  DPU      boot %s\n", row->boot_id);
    }
    if (row->has_lease && lease->agent_version[0] != '\0') {
        (void)printf("           dpu-agent %s\n", lease->agent_version);
    }
    if (row->agent_pod[0] != '\0') {
        (void)printf("  agent    pod %s, image %s%s\n", row->agent_pod, row->agent_version,
                     row->is_agent_ready ? "" : ", not ready");
    }
    (void)printf("  gate     %s\n", row->has_gate ? "in" : "not seen from here");
}

static void print_way_in(const struct admin_config *config, const struct fleet_row *row)
{
    const char *ns = config->agent.lease_namespace;
    (void)printf("\nThe rest is known on the node itself:\n");
    if (row->agent_pod[0] != '\0') {
        (void)printf("  kubectl -n %s exec %s -- dpuctl status\n", ns, row->agent_pod);
        (void)printf("  kubectl -n %s exec %s -- dpuctl doctor\n", ns, row->agent_pod);
    } else {
        (void)printf("  kubectl debug node/%s -it --image=dpu-heartbeat-host:%s "
                     "--profile=sysadmin -- dpuctl doctor --root=/host\n",
                     row->node, DPU_VERSION);
    }
}

/* ---- one look -------------------------------------------------------------------------------- */

static int exit_status(const struct admin_config *config, const struct fleet *fleet)
{
    int status = EXIT_SUCCESS;
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_row *row = &fleet->rows[i];
        if (is_shown(config, row) && row->state == READINESS_NOT_READY) {
            return EXIT_NOT_READY;
        }
        if (is_shown(config, row) && row->state == READINESS_UNKNOWN) {
            status = EXIT_UNKNOWN;
        }
    }
    return status;
}

static bool print_fleet(const struct admin_config *config, const struct fleet *fleet)
{
    if (config->output == ADMIN_JSON || config->output == ADMIN_YAML) {
        return print_json(fleet_json(config, fleet), config->output == ADMIN_YAML, stdout);
    }
    if (config->output != ADMIN_NAME) {
        print_table(config, fleet);
    }
    for (size_t i = 0; i < fleet->count && config->output == ADMIN_NAME; i++) {
        if (is_shown(config, &fleet->rows[i])) {
            print_name(&fleet->rows[i]);
        }
    }
    return fflush(stdout) == 0;
}

static bool print_node(const struct admin_config *config, const struct fleet *fleet)
{
    const struct fleet_row *row = fleet->rows;
    if (fleet->count == 0) {
        (void)fprintf(
            stderr, "dpuctl status: Node '%s' has neither a lease nor the label of a DPU's host\n",
            config->node);
        return false;
    }
    if (config->output == ADMIN_JSON || config->output == ADMIN_YAML) {
        return print_json(row_json(row), config->output == ADMIN_YAML, stdout);
    }
    if (config->output == ADMIN_NAME) {
        return print_fleet(config, fleet);
    }
    print_row(row, fleet->now);
    print_way_in(config, row);
    return fflush(stdout) == 0;
}

static void tell_notes(const char *name, const struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->note_count; i++) {
        (void)fprintf(stderr, "%s: not looked at: %s\n", name, fleet->notes[i]);
    }
}

static bool read_fleet(const char *name, struct admin_config *config, struct fleet *out)
{
    struct api *api = NULL;
    struct err e = ERR_INIT;
    config->started_at = clock_mono_now();
    int rc = api_open(config, &api, &e);
    const char *hint = api_hint(config, rc);
    if (rc == 0) {
        rc = fleet_read(api, out, &e);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "%s: %s%s\n", name, e.msg, hint);
    }
    api_close(api);
    return rc == 0;
}

static int look_once(const char *name, struct admin_config *config, bool is_one)
{
    struct fleet fleet;
    bool is_for_people = config->output != ADMIN_JSON && config->output != ADMIN_YAML;
    if (!read_fleet(name, config, &fleet)) {
        return EXIT_UNKNOWN;
    }
    bool is_written = is_one ? print_node(config, &fleet) : print_fleet(config, &fleet);
    if (is_one || is_for_people) { /* elsewhere the answer has a place for them */
        tell_notes(name, &fleet);
    }
    int status = is_written ? exit_status(config, &fleet) : EXIT_UNKNOWN;
    fleet_fini(&fleet);
    return status;
}

/* ---- again and again ------------------------------------------------------------------------- */

static void print_change(const struct admin_config *config, const struct fleet_row *row,
                         struct wall now, const char *former)
{
    char time[RFC3339_BYTES];
    if (config->output == ADMIN_JSON) {
        print_json_line(row_json(row));
    } else if (config->output == ADMIN_NAME) {
        print_name(row);
    } else {
        rfc3339_format_seconds(now, time);
        (void)printf("%s  %s  %s  %s: %s%s%s\n", time, row->node, readiness_state_name(row->state),
                     row->reason, row->message, former ? "; was " : "", former ? former : "");
    }
}

/* Prints the rows whose state or reason is not the one in `known`, which it brings up to date. */
static bool print_changes(const struct admin_config *config, const struct fleet *fleet,
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
        if (is_shown(config, row) || former) {
            print_change(config, row, fleet->now, is_first ? NULL : former ? former : "not there");
        }
        (void)json_object_set_new(known, row->node, json_string(word));
    }
    return fflush(stdout) == 0;
}

/* False: time to go. */
static bool wait_for_next_look(int signal_fd, int64_t interval_ns)
{
    struct pollfd fds[] = {{.fd = signal_fd, .events = POLLIN},
                           {.fd = STDOUT_FILENO}}; /* the reader has gone: told without asking */
    int got = poll(fds, ARRAY_LEN(fds), (int)(interval_ns / NS_PER_MS));
    return got == 0 || (got < 0 && errno == EINTR);
}

static int look_on(struct admin_config *config)
{
    CLEANUP(json) json_t *known = json_object();
    CLEANUP(fd) int signal_fd = admin_stop_signals();
    bool is_first = true;
    do {
        struct fleet fleet;
        if (!read_fleet("dpuctl nodes", config, &fleet)) {
            continue; /* said; it may come back */
        }
        bool is_written = print_changes(config, &fleet, known, is_first);
        if (is_first) {
            tell_notes("dpuctl nodes", &fleet);
        }
        fleet_fini(&fleet);
        is_first = false;
        if (!is_written) {
            return errno == EPIPE ? EXIT_SUCCESS : EXIT_UNKNOWN;
        }
    } while (wait_for_next_look(signal_fd, config->interval_ns));
    return EXIT_SUCCESS;
}

int nodes_run(struct admin_config *config)
{
    return config->watch ? look_on(config) : look_once("dpuctl nodes", config, false);
}

int status_of_node_run(struct admin_config *config)
{
    config->filter = ADMIN_ALL;
    return look_once("dpuctl status", config, true);
}
