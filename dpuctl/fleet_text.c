/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/fleet_print.h"

#include "base/rfc3339.h"
#include "base/text.h"
#include "dpuctl/screen.h"

#include <string.h>

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

static enum screen_color color_of(const struct fleet_row *row)
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
            put_line(cells, widths, count, screen_on(screen.has_color, color_of(&fleet->rows[k])),
                     out);
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
        (void)fprintf(out, "  -> %s\n", fleet_cure(row->reason));
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
