/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/fleet_print.h"

#include "base/cleanup.h"
#include "base/rfc3339.h"
#include "json/json_text.h"

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
