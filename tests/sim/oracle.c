/* SPDX-License-Identifier: Apache-2.0 */
/* What the oracle knows; what it says is in oracle_rules.c. */
#include "tests/sim/oracle.h"

#include "tests/sim/oracle_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one agent may ask for: a burst, and then a steady rate. The host's ordinary requests share a
 * bucket of one a second; beside them it may read and mark the lease in each interval. The
 * DPU tries a renewal that fails again, with a pause of up to 5 s or an interval each time, and
 * reads the lease where somebody else wrote it. Where it is not told what it wrote itself, each try
 * is a conflict, a read and a write. */
enum { REQUESTS_BURST = 30, WRITES_BURST = 20, MARK_REQUESTS = 4, MARK_WRITES = 2 };

static const char *const agents[ORACLE_AGENTS] = {"host", "dpu", "second"};
static const char holder[] = "ovnkube-dpu-node";

struct oracle *oracle_new(const struct oracle_config *config)
{
    struct oracle *o = calloc(1, sizeof(*o));
    if (o) {
        o->config = *config;
    }
    return o;
}

void oracle_free(struct oracle *o)
{
    free(o);
}

const char *oracle_failure(const struct oracle *o)
{
    return o->failure;
}

const char *oracle_rule(const struct oracle *o)
{
    return o->rule;
}

uint64_t oracle_renewals(const struct oracle *o)
{
    return o->renewals;
}

uint64_t oracle_flips(const struct oracle *o)
{
    return o->flips;
}

uint64_t oracle_requests(const struct oracle *o)
{
    return o->requests;
}

static double ago(int64_t now, int64_t then)
{
    return then == 0 ? -1 : (double)(now - then) / 1e9;
}

void oracle_fail(struct oracle *o, const struct oracle_truth *t, const struct record_read *r,
                 const char *rule, const char *what)
{
    if (o->failure[0] != '\0') {
        return;
    }
    (void)snprintf(o->rule, sizeof(o->rule), "%s", rule);
    (void)snprintf(o->failure, sizeof(o->failure),
                   "%s: %s; seconds ago: renewal %.3f, counted %.3f, blind %.3f, without watch "
                   "%.3f, edited %.3f, broken %.3f, regular since %.3f; interval %.0f s, duration "
                   "%.0f s; record %s/%s",
                   rule, what, ago(t->now, o->renewed_at), ago(t->now, o->counted_at),
                   ago(t->now, o->blind_at), ago(t->now, o->murky_at), ago(t->now, o->edited_at),
                   ago(t->now, o->broken_at), ago(t->now, o->regular_since),
                   (double)o->config.interval_ns / 1e9, (double)o->config.duration_ns / 1e9,
                   r ? r->state : "-", r ? r->reason : "-");
}

/* ---- the API server's log ---------------------------------------------------------------------
 */

static const char *text_at(const json_t *lease, const char *outer, const char *inner)
{
    const char *text = json_string_value(json_object_get(json_object_get(lease, outer), inner));
    return text ? text : "";
}

static bool says_unwell(const json_t *lease)
{
    const char *health = json_string_value(
        json_object_get(json_object_get(json_object_get(lease, "metadata"), "annotations"),
                        "dpu.k8s.ovn.org/health"));
    return health && (strcmp(health, "unhealthy") == 0 || strcmp(health, "shutdown") == 0);
}

static int64_t longest_gap_ns(const struct oracle *o)
{
    return o->config.interval_ns + o->config.interval_ns / 10;
}

bool oracle_is_regular(const struct oracle *o, int64_t now)
{
    return o->renewed_at != 0 && now - o->renewed_at <= longest_gap_ns(o);
}

/* A renewal counts for whoever has seen the one before it on the same lease, unless its stamp went
 * back: then the next one does. */
static void note_renewal(struct oracle *o, int64_t now, const json_t *lease)
{
    const char *uid = text_at(lease, "metadata", "uid");
    const char *stamp = text_at(lease, "spec", "renewTime");
    bool is_same = strcmp(uid, o->uid) == 0;
    bool is_later = strcmp(stamp, o->stamp) > 0;
    o->renewals++;
    if (!is_same || !is_later || now - o->renewed_at > longest_gap_ns(o)) {
        o->regular_since = now;
        o->was_ready = false;
    }
    if (is_same && is_later) {
        o->counted_at = now;
        o->before_at = o->renewed_at;
        o->shortest_ns = o->config.duration_ns;
    }
    o->renewed_at = now;
    (void)snprintf(o->uid, sizeof(o->uid), "%s", uid);
    (void)snprintf(o->stamp, sizeof(o->stamp), "%s", stamp);
}

static void note_duration(struct oracle *o, const json_t *lease)
{
    int64_t duration_ns = json_integer_value(json_object_get(json_object_get(lease, "spec"),
                                                             "leaseDurationSeconds")) *
                          ORACLE_SEC;
    o->longest_ns = duration_ns > o->longest_ns ? duration_ns : o->longest_ns;
    if (duration_ns > 0 && duration_ns < o->shortest_ns) {
        o->shortest_ns = duration_ns;
    }
}

/* A report is a lease of its own: it counts while the DPU's agent renews it. */
static void note_report(struct oracle *o, int64_t now, const json_t *lease)
{
    const char *stamp = json_string_value(
        json_object_get(json_object_get(json_object_get(lease, "metadata"), "annotations"),
                        "dpu.k8s.ovn.org/health-renew-time"));
    if (stamp && strcmp(stamp, o->report_stamp) != 0) {
        (void)snprintf(o->report_stamp, sizeof(o->report_stamp), "%s", stamp);
        o->report_renewed_at = now;
    }
}

static void check_writer(struct oracle *o, int64_t now, const char *who, const json_t *before,
                         const json_t *after)
{
    const struct oracle_truth t = {.now = now};
    bool is_host = strcmp(who, agents[0]) == 0 || strcmp(who, agents[2]) == 0;
    if (is_host && after &&
        strcmp(text_at(before, "spec", "renewTime"), text_at(after, "spec", "renewTime")) != 0) {
        oracle_fail(o, &t, NULL, "forged", "a host agent wrote a renewTime");
    }
    if (o->config.is_companion && strcmp(who, agents[1]) == 0 && before && after &&
        strcmp(text_at(before, "spec", "renewTime"), text_at(after, "spec", "renewTime")) != 0) {
        oracle_fail(o, &t, NULL, "forged", "a companion wrote a renewTime");
    }
}

void oracle_lease(struct oracle *o, int64_t now, const char *who, const json_t *before,
                  const json_t *after)
{
    bool is_dpu = strcmp(who, agents[1]) == 0 || strcmp(who, "ovnkube") == 0;
    bool is_agent = is_dpu || strcmp(who, agents[0]) == 0;
    bool is_renewal = after && strcmp(text_at(before, "spec", "renewTime"),
                                      text_at(after, "spec", "renewTime")) != 0;
    check_writer(o, now, who, before, after);
    if (!after || strcmp(who, "etcd") == 0) {
        bool was_seen = o->blind_at + ORACLE_LATENCY_NS < o->renewed_at &&
                        o->murky_at + ORACLE_LATENCY_NS < o->renewed_at &&
                        now - o->renewed_at > ORACLE_LATENCY_NS;
        o->gone_at = now;
        o->was_ready = o->was_ready && was_seen; /* else nobody will ever see it */
    }
    if (!before && after) { /* on a lease that was made anew a DPU gets the time of a retry */
        o->gone_at = now;
    }
    if (!is_agent && after && strcmp(who, "admin") != 0) {
        o->edited_at = now;
    }
    if (is_renewal && is_dpu && strcmp(text_at(after, "spec", "holderIdentity"), holder) == 0) {
        note_renewal(o, now, after);
    }
    note_duration(o, after);
    bool is_unwell =
        says_unwell(after) && strcmp(text_at(after, "spec", "holderIdentity"), holder) == 0;
    note_report(o, now, after);
    if (is_unwell && !o->is_reported) {
        o->reported_since = now;
        o->report_renewed_at = now;
    }
    o->reported_at = is_unwell || o->is_reported ? now : o->reported_at;
    o->is_reported = is_unwell;
}

static bool runs_over(struct oracle_bucket *b, int64_t now, int64_t cost_ns, int64_t burst)
{
    b->level_ns -= now - b->at;
    b->level_ns = (b->level_ns > 0 ? b->level_ns : 0) + cost_ns;
    b->at = now;
    return b->level_ns > burst * cost_ns;
}

void oracle_request(struct oracle *o, int64_t now, const char *who, const char *method)
{
    const struct oracle_truth t = {.now = now};
    int64_t interval_ns = o->config.interval_ns;
    int64_t host_ns = interval_ns / (interval_ns / ORACLE_SEC + 1 + MARK_REQUESTS);
    bool is_unsure = o->unsure_at != 0 && now - o->unsure_at < 5 * ORACLE_SEC;
    int64_t dpu_ns = is_unsure ? interval_ns / 12 : interval_ns / 8;
    int64_t dpu_write_ns = interval_ns / 5;
    int64_t host_write_ns = interval_ns / (interval_ns / ORACLE_SEC + MARK_WRITES);
    bool is_write = strcmp(method, "GET") != 0 && strcmp(method, "WATCH") != 0;
    o->requests++;
    for (size_t i = 0; i < ORACLE_AGENTS; i++) {
        bool is_dpu = i == 1;
        if (strcmp(who, agents[i]) != 0) {
            continue;
        }
        if (runs_over(&o->all[i], now, is_dpu ? dpu_ns : host_ns, REQUESTS_BURST)) {
            oracle_fail(o, &t, NULL, "requests", who);
        }
        if (is_write &&
            runs_over(&o->writes[i], now, is_dpu ? dpu_write_ns : host_write_ns, WRITES_BURST)) {
            oracle_fail(o, &t, NULL, "writes", who);
        }
    }
}

/* ---- the truth --------------------------------------------------------------------------------
 */

void oracle_started(struct oracle *o, int64_t now, bool is_host, bool has_record)
{
    o->broken_at = now;
    if (is_host) {
        o->blind_at = now;
    }
    if (is_host && (o->is_unwritten || !has_record)) { /* nor can what is there be read */
        o->was_ready = false;
        o->is_held = false;
        o->is_forgotten = true;
    }
}

void oracle_clock(struct oracle *o, int64_t now, bool is_host)
{
    o->stepped_at = is_host ? o->stepped_at : now;
    o->broken_at = now;
}

/* Nobody can know how the DPU is: it must not be accused of what the others cannot do either. */
static bool is_outage(const struct oracle_truth *t)
{
    return !t->api_up || !t->host_link || (!t->api_writes && !t->api_forbids);
}

static void note_outage(struct oracle *o, const struct oracle_truth *t)
{
    if (!is_outage(t) || (o->is_reported && o->outage_since != 0)) {
        o->outage_since = is_outage(t) ? o->outage_since : 0;
        o->is_held = false;
    } else if (o->outage_since == 0) {
        int64_t quiet_ns = 2 * o->config.duration_ns;
        o->outage_since = t->now;
        o->is_held = o->last_admitted && o->was_ready && oracle_is_regular(o, t->now) &&
                     !o->is_reported && t->now - o->reported_at > quiet_ns &&
                     t->now - o->edited_at > quiet_ns && t->now - o->stepped_at > quiet_ns;
    }
}

/* Whether the host runs and is heard by the readers of the record. */
static bool note_writing(struct oracle *o, const struct oracle_truth *t)
{
    if (!t->host_writes || !t->host_runs) {
        o->is_unwritten = o->is_unwritten || !t->host_writes;
        o->writes_since = 0;
    } else if (o->writes_since == 0) {
        o->writes_since = t->now;
    } else if (t->now - o->writes_since > ORACLE_REWRITE_NS) {
        o->is_unwritten = false;
    }
    return t->host_runs && !o->is_unwritten;
}

/* A denial counts anew after an outage. */
static void note_forbidden(struct oracle *o, const struct oracle_truth *t, bool can_see)
{
    if (!t->api_forbids) {
        o->forbidden_since = 0;
    } else if (o->forbidden_since == 0 || !can_see) {
        o->forbidden_since = t->now;
    }
}

/* A refusal holds for one more duration past the end of the lease; then a read is the proof. While
 * the DPU renews nobody marks, so that nobody knows of the refusal. */
static bool is_forbidden_anew(const struct oracle *o, const struct oracle_truth *t)
{
    int64_t since = o->forbidden_since > o->renewed_at ? o->forbidden_since : o->renewed_at;
    return t->api_forbids && t->now - since < 2 * o->config.duration_ns;
}

void oracle_look(struct oracle *o, const struct oracle_truth *t)
{
    bool is_heard = note_writing(o, t);
    bool can_see = is_heard && t->host_link && t->api_up && t->api_reads_well;
    bool hears = t->api_writes;
    bool is_well = can_see && hears && !t->api_forbids && t->api_serves_watches && t->dpu_runs &&
                   t->dpu_link && t->dpu_healthy && t->is_calm && !o->is_reported;
    note_forbidden(o, t, can_see);
    if (!can_see || !hears || is_forbidden_anew(o, t)) {
        o->blind_at = t->now;
    }
    if (!t->host_watches || !t->api_serves_watches) {
        o->murky_at = t->now;
        o->was_ready = o->was_ready && !t->api_lags; /* no way is left to see a renewal */
    }
    if (!is_well) {
        o->broken_at = t->now;
    }
    if (!t->api_tells) {
        o->unsure_at = t->now;
    }
    if (t->lease_is_edited) {
        o->edited_at = t->now;
    }
    if (o->gone_at == t->now) {
        o->broken_at = t->now;
    }
    if (t->now - o->edited_at > 10 * o->config.duration_ns) {
        o->longest_ns = o->config.duration_ns;
    }
    if (t->host_probe_accuses || (!is_heard && strcmp(o->reason, "HostProbeFailed") == 0)) {
        o->accused_at = t->now;
    }
    if (!t->host_probe_accuses || !is_heard) {
        o->accused_since = 0;
    } else if (o->accused_since == 0) {
        o->accused_since = t->now;
    }
    o->host_down_at = is_heard ? o->host_down_at : t->now;
    if (t->host_runs && t->host_writes) {
        o->host_down_since = 0;
    } else if (o->host_down_since == 0) {
        o->host_down_since = t->now;
    }
    if (strcmp(o->boot_id, t->host_boot_id) != 0) { /* nothing is left of the last boot */
        (void)snprintf(o->boot_id, sizeof(o->boot_id), "%s", t->host_boot_id);
        o->was_ready = false;
        o->is_held = false;
    }
    const char *last = o->boot_count > 0 ? o->boots[o->boot_count - 1] : "";
    if (o->boot_count < ORACLE_BOOTS && strcmp(last, t->dpu_boot_id) != 0) {
        (void)snprintf(o->boots[o->boot_count++], ORACLE_TEXT_BYTES, "%s", t->dpu_boot_id);
    }
    note_outage(o, t);
}

/* Most readings find the page as it was. */
static const char *decode(struct oracle *o, const struct oracle_truth *t, const char *page,
                          size_t len)
{
    struct record_read record;
    if (len == sizeof(o->page) && memcmp(page, o->page, len) == 0) {
        return NULL;
    }
    const char *wrong = record_reader_decode(page, len, &record);
    if (!wrong) {
        if (!o->is_forgotten && strcmp(o->record.boot_id, record.boot_id) == 0) {
            oracle_check_boot(o, t, &o->record, &record);
        }
        memcpy(o->page, page, len);
        o->record = record;
        o->is_forgotten = false;
    }
    return wrong;
}

bool oracle_read(struct oracle *o, const struct oracle_truth *t, const char *page, size_t len)
{
    const char *reason = "RecordMissing";
    const char *wrong = page ? decode(o, t, page, len) : NULL;
    const struct record_read *record = page ? &o->record : NULL;
    if (wrong && !o->is_unwritten) {
        oracle_fail(o, t, NULL, "illegal", wrong);
        return false;
    }
    if (wrong) { /* torn: it says nothing */
        reason = "RecordInvalid";
        page = NULL;
        record = NULL;
    }
    o->is_forgotten = o->is_forgotten || !page;
    bool admits = page && record_reader_judge(record, t->host_boot_id, t->host_boot_ns, &reason);
    (void)snprintf(o->reason, sizeof(o->reason), "%s", reason);
    o->flips += admits != o->last_admitted;
    oracle_check(o, t, record, admits);
    o->last_admitted = admits;
    return o->failure[0] == '\0';
}

struct oracle_told oracle_told(const struct oracle *o)
{
    return (struct oracle_told){
        .state = strcmp(o->reason, o->record.reason) == 0 ? o->record.state : "-",
        .reason = o->reason,
        .admits = o->last_admitted,
    };
}

void oracle_gate(struct oracle *o, const struct oracle_truth *t, bool admits, const char *reason)
{
    if (admits != o->last_admitted || strcmp(reason, o->reason) != 0) {
        char what[200];
        (void)snprintf(what, sizeof(what), "dpu-gate says %s (%s), the record %s (%s)",
                       admits ? "admit" : "refuse", reason, o->last_admitted ? "admit" : "refuse",
                       o->reason);
        oracle_fail(o, t, NULL, "gate", what);
    }
}
