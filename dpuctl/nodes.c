/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl nodes, and dpuctl status NODE: what the API server tells of DPUs. */
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "dpuctl/api.h"
#include "dpuctl/fleet.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_NOT_READY = 1, EXIT_UNKNOWN = 2 };

static bool is_shown(const struct admin_config *config, const json_t *row)
{
    static const char *const filters[] = {[ADMIN_ALL] = "",
                                          [ADMIN_BROKEN] = "!state=Ready",
                                          [ADMIN_NOT_READY] = "state=NotReady",
                                          [ADMIN_UNKNOWN] = "state=Unknown",
                                          [ADMIN_READY] = "state=Ready"};
    return print_holds(row, filters[config->filter]);
}

/* ---- for people ------------------------------------------------------------------------------ */

static const char *const columns[][2] = {
    {"NODE", "{node}"},
    {"STATE", "{state}"},
    {"REASON", "{reason}"},
    {"SINCE", "{sinceSeconds-}"},
    {"RENEWED", "{renewalAgeSeconds-}"},
    {"HOLDER", "{holder}"},
    {"BOOT", "{dpuBootId}"},
    {"DPU-AGENT", "{dpuAgentVersion}"},
    {"HOST-AGENT", "{hostAgentVersion}"},
    {"AGENT-READY", "{hostAgentReady}"},
    {"GATE", "{gateIn}"},
};

enum { NARROW = 5 /* without -o wide */, STATE_COLUMN = 1, CELL_BYTES = 256 };

static void fill_cell(const json_t *row, size_t column, char cell[static CELL_BYTES])
{
    print_fill(row, columns[column][1], cell, CELL_BYTES);
    if (cell[0] == '\0') {
        text_format(cell, CELL_BYTES, "-");
    }
}

static enum print_color color_of(const json_t *row)
{
    return print_holds(row, "state=Ready")     ? PRINT_GOOD
           : print_holds(row, "state=Unknown") ? PRINT_DOUBT
                                               : PRINT_BAD;
}

static void print_table(const struct admin_config *config, const json_t *rows)
{
    char cell[CELL_BYTES];
    size_t widths[ARRAY_LEN(columns)];
    size_t count = config->output == ADMIN_WIDE ? ARRAY_LEN(columns) : NARROW;
    bool has_color = print_has_color(config->color);
    size_t i;
    const json_t *row;
    for (size_t k = 0; k < count; k++) {
        widths[k] = strlen(columns[k][0]);
        json_array_foreach(rows, i, row)
        {
            fill_cell(row, k, cell);
            widths[k] = strlen(cell) > widths[k] ? strlen(cell) : widths[k];
        }
        (void)printf(k + 1 < count ? "%-*s  " : "%*s\n", k + 1 < count ? (int)widths[k] : 0,
                     columns[k][0]);
    }
    json_array_foreach(rows, i, row)
    {
        for (size_t k = 0; k < count; k++) {
            bool is_colored = has_color && k == STATE_COLUMN;
            fill_cell(row, k, cell);
            (void)printf("%s%s%s%*s", print_on(is_colored, color_of(row)), cell,
                         print_off(is_colored),
                         k + 1 < count ? (int)(widths[k] - strlen(cell)) + 2 : 0, "");
        }
        (void)putchar('\n');
    }
}

/* As kubectl has it. */
static void print_name(const json_t *row)
{
    (void)printf("node/%s\n", json_text_get(row, "nodeName"));
}

/* All that is known of one row. */
static const struct print_row page[] = {
    {"", "", "{node}: {state} ({reason})"},
    {" for ", "sinceSeconds", "{sinceSeconds}"},
    {"", "", ", as seen through the API server\n  {message}\n"},
    {"  -> ", "advice", "{advice}\n"},
    {"\n  source   ", "toldBy=lease", "the lease alone"},
    {"\n  source   ", "toldBy=taint", "its host, by a taint of the ResourceSlice"},
    {"\n  source   ", "toldBy=condition", "its host, by the condition DPUReady"},
    {"\n  source   ", "toldBy=gate", "dpu-gate, by the Node's condition Ready"},
    {"\n  lease    ", "hasLease", "{namespace}/" NAMES_LEASE_PREFIX "{node}: held by "},
    {"", "hasLease", "{holder}"},
    {"", "hasLease !holder", "no one"},
    {", ", "hasLease", "{durationSeconds} s"},
    {"\n           ", "renewalAgeSeconds !renewalAgeSeconds<0",
     "renewed {renewTime}, {renewalAgeSeconds} before the API server's clock"},
    {"\n           ", "renewalAgeSeconds<0",
     "renewed {renewTime}, {renewalAgeSeconds} ahead of the API server's clock"},
    {"\n  DPU      ", "dpuBootId", "boot {dpuBootId}"},
    {"\n           ", "dpuAgentVersion", "dpu-agent {dpuAgentVersion}"},
    {"\n  agent    ", "hostAgentPod", "pod {hostAgentPod}, image {hostAgentVersion}"},
    {", ", "hostAgentPod !hostAgentReady", "not ready"},
    {"\n  gate     ", "gateIn", "in"},
    {"\n  gate     ", "!gateIn", "not seen from here"},
    {"\n\n", "", "For the rest, run on the node:\n"},
    {"  kubectl ", "hostAgentPod", "-n {namespace} exec {hostAgentPod} -- dpuctl status\n"},
    {"  kubectl ", "hostAgentPod", "-n {namespace} exec {hostAgentPod} -- dpuctl doctor\n"},
    {"  kubectl ", "!hostAgentPod",
     "debug node/{nodeName} -it --image=dpu-heartbeat-host:" DPU_VERSION
     " --profile=sysadmin -- dpuctl doctor --root=/host\n"},
};

/* ---- one look -------------------------------------------------------------------------------- */

/* Takes away what is not to be shown. */
static void filter_rows(const struct admin_config *config, json_t *rows)
{
    for (size_t i = json_array_size(rows); i-- > 0;) {
        if (!is_shown(config, json_array_get(rows, i))) {
            (void)json_array_remove(rows, i);
        }
    }
}

/* What is broken comes first. */
static int exit_status(const json_t *rows)
{
    int status = EXIT_SUCCESS;
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (print_holds(row, "state=NotReady")) {
            return EXIT_NOT_READY;
        }
        status = print_holds(row, "state=Unknown") ? EXIT_UNKNOWN : status;
    }
    return status;
}

static bool print_fleet(const struct admin_config *config, json_t *fleet)
{
    static const struct print_row sum[] = {
        {"", "",
         "{total} with a DPU: {counts.NotReady} NotReady, {counts.Unknown} Unknown, "
         "{counts.Ready} Ready\n"}};
    const json_t *rows = json_object_get(fleet, "nodes");
    size_t i;
    const json_t *row;
    if (config->output == ADMIN_JSON || config->output == ADMIN_YAML) {
        return print_json(json_incref(fleet), config->output == ADMIN_YAML, stdout);
    }
    if (config->output == ADMIN_NAME) {
        json_array_foreach(rows, i, row)
        {
            print_name(row);
        }
    } else {
        if (print_holds(fleet, "total")) {
            print_table(config, rows);
            (void)putchar('\n');
        }
        print_rows(fleet, sum, 1, false);
    }
    return fflush(stdout) == 0;
}

static bool print_node(const struct admin_config *config, json_t *fleet)
{
    json_t *row = json_array_get(json_object_get(fleet, "nodes"), 0);
    if (!row) {
        (void)fprintf(
            stderr, "dpuctl status: Node '%s' has neither a lease nor the label of a DPU's host\n",
            config->node);
        return false;
    }
    if (config->output == ADMIN_JSON || config->output == ADMIN_YAML) {
        return print_json(json_incref(row), config->output == ADMIN_YAML, stdout);
    }
    if (config->output == ADMIN_NAME) {
        return print_fleet(config, fleet);
    }
    print_rows(row, page, ARRAY_LEN(page), print_has_color(config->color));
    return fflush(stdout) == 0;
}

static void tell_notes(const char *name, const json_t *fleet)
{
    size_t i;
    const json_t *note;
    json_array_foreach(json_object_get(fleet, "notes"), i, note)
    {
        (void)fprintf(stderr, "%s: not looked at: %s\n", name, json_string_value(note));
    }
}

/* Returns owned; NULL: said why. */
static json_t *read_fleet(const char *name, struct admin_config *config)
{
    struct api *api = NULL;
    struct err e = ERR_INIT;
    json_t *fleet = NULL;
    config->started_at = clock_mono_now();
    int rc = api_open(config, &api, &e);
    const char *hint = api_hint(config, rc);
    if (rc == 0) {
        rc = fleet_read(api, &fleet, &e);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "%s: %s%s\n", name, e.msg, hint);
    }
    api_close(api);
    return fleet;
}

static int look_once(const char *name, struct admin_config *config, bool is_one)
{
    bool is_for_people = config->output != ADMIN_JSON && config->output != ADMIN_YAML;
    CLEANUP(json) json_t *fleet = read_fleet(name, config);
    json_t *rows = json_object_get(fleet, "nodes");
    if (!fleet) {
        return EXIT_UNKNOWN;
    }
    filter_rows(config, rows);
    bool is_written = is_one ? print_node(config, fleet) : print_fleet(config, fleet);
    if (is_one || is_for_people) { /* elsewhere the answer has a place for them */
        tell_notes(name, fleet);
    }
    return is_written ? exit_status(rows) : EXIT_UNKNOWN;
}

/* ---- again and again ------------------------------------------------------------------------- */

static void print_change(const struct admin_config *config, json_t *row, const char *time,
                         const char *former)
{
    static const struct print_row line[] = {{"  ", "", "{node}  {state}  {reason}: {message}"}};
    if (config->output == ADMIN_JSON) {
        print_json_line(json_incref(row));
    } else if (config->output == ADMIN_NAME) {
        print_name(row);
    } else {
        (void)fputs(time ? time : "", stdout);
        print_rows(row, line, 1, false);
        (void)printf("%s%s\n", former ? "; was " : "", former ? former : "");
    }
}

/* Prints the rows whose state or reason is not the one in `known`, which it brings up to date. */
static bool print_changes(const struct admin_config *config, const json_t *fleet, json_t *known,
                          bool is_first)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(fleet, "nodes"), i, row)
    {
        char word[CELL_BYTES];
        const char *node = json_text_get(row, "node");
        const char *former = json_text_get(known, node);
        print_fill(row, "{state} {reason}", word, sizeof(word));
        if (text_equal(word, former)) {
            continue;
        }
        if (is_shown(config, row) || former) {
            print_change(config, row, json_text_get(fleet, "time"),
                         is_first ? NULL
                         : former ? former
                                  : "not there");
        }
        print_json_put(known, node, json_string(word));
    }
    return fflush(stdout) == 0;
}

static int look_on(struct admin_config *config)
{
    CLEANUP(json) json_t *known = json_object();
    CLEANUP(fd) int stop_fd = admin_stop_signals();
    bool is_first = true;
    do {
        CLEANUP(json) json_t *fleet = read_fleet("dpuctl nodes", config);
        if (!fleet) {
            continue; /* said; it may come back */
        }
        bool is_written = print_changes(config, fleet, known, is_first);
        if (is_first) {
            tell_notes("dpuctl nodes", fleet);
        }
        is_first = false;
        if (!is_written) {
            return errno == EPIPE ? EXIT_SUCCESS : EXIT_UNKNOWN;
        }
    } while (admin_wait(stop_fd, config->interval_ns));
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
