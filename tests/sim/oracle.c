/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/oracle.h"

#include "tests/sim/retry.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEC_NS INT64_C(1000000000)
#define MS_NS  INT64_C(1000000)
/* A renewal or an answer, from one agent to the other, with both awake and nothing broken. */
#define LATENCY_NS (250 * MS_NS)
/* A record that could not be written is tried again each second. */
#define REWRITE_NS (SEC_NS + LATENCY_NS)

/* ---- the record ------------------------------------------------------------------------------ */

enum { PAGE_BYTES = 4096 };

/* Four bits at a time: what the polynomial makes of each of their values. */
static uint32_t crc32c(const char *bytes, size_t len)
{
    static const uint32_t of_bits[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                         0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                         0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                         0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < len; i++) {
        crc ^= (uint8_t)bytes[i];
        crc = (crc >> 4) ^ of_bits[crc & 15];
        crc = (crc >> 4) ^ of_bits[crc & 15];
    }
    return ~crc;
}

static void take_text(const json_t *page, const char *name, char *out)
{
    const char *text = json_string_value(json_object_get(page, name));
    (void)snprintf(out, RECORD_READER_TEXT_BYTES, "%s", text ? text : "");
}

static int64_t take_time(const json_t *page, const char *name)
{
    const json_t *value = json_object_get(page, name);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
}

static const char *check(const json_t *page, const struct record_read *r)
{
    bool is_ready = strcmp(r->state, "Ready") == 0;
    bool is_refused = strcmp(r->state, "NotReady") == 0;
    if (json_integer_value(json_object_get(page, "version")) != 1) {
        return "it is not of version 1";
    }
    if (!is_ready && !is_refused && strcmp(r->state, "Unknown") != 0) {
        return "its state is no state";
    }
    if (r->reason[0] == '\0' || r->boot_id[0] == '\0') {
        return "it has no reason, or no boot id";
    }
    if ((is_ready && !r->admit) || (is_refused && r->admit)) {
        return "state and admission contradict each other";
    }
    if (r->observed_ns < 0 || r->lease_until_ns < 0 || r->writer_until_ns <= 0 ||
        r->hold_until_ns < r->writer_until_ns) {
        return "its times make no sense";
    }
    if (r->admit && r->observed_ns == 0) {
        return "it admits, and nothing was ever observed";
    }
    return NULL;
}

const char *record_reader_decode(const char *page, size_t len, struct record_read *out)
{
    static const char member[] = ",\"crc32c\":\"";
    const char *at = len == PAGE_BYTES ? memmem(page, len, member, strlen(member)) : NULL;
    if (!at || page[PAGE_BYTES - 1] != '\n') {
        return "it is no page of 4096 bytes that ends in a newline, with a checksum";
    }
    if (strtoul(at + strlen(member), NULL, 16) != crc32c(page, (size_t)(at - page))) {
        return "its checksum is wrong";
    }
    len = PAGE_BYTES - 1;
    while (page[len - 1] == ' ') { /* most of the page: a parser is slow to pass it */
        len--;
    }
    json_t *tree = json_loadb(page, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(tree)) {
        json_decref(tree);
        return "it is no JSON object";
    }
    take_text(tree, "state", out->state);
    take_text(tree, "reason", out->reason);
    take_text(tree, "bootId", out->boot_id);
    take_text(tree, "dpuBootId", out->dpu_boot_id);
    take_text(tree, "dpuRebootTime", out->dpu_reboot_time);
    out->admit = json_is_true(json_object_get(tree, "admit"));
    out->observed_ns = take_time(tree, "observedBoottimeNs");
    out->lease_until_ns = take_time(tree, "leaseUntilBoottimeNs");
    out->writer_until_ns = take_time(tree, "writerUntilBoottimeNs");
    out->hold_until_ns = take_time(tree, "holdUntilBoottimeNs");
    const char *wrong = check(tree, out);
    json_decref(tree);
    return wrong;
}

/* Whether a reader admits at `boot_ns`, by the rules of the page: `out_reason` says why (not). */
static bool record_reader_judge(const struct record_read *r, const char *boot_id, int64_t boot_ns,
                                const char **out_reason)
{
    *out_reason = r->reason;
    if (strcmp(r->boot_id, boot_id) != 0) {
        *out_reason = "RecordInvalid";
        return false;
    }
    if (!r->admit || boot_ns < r->hold_until_ns) {
        return r->admit;
    }
    *out_reason = "RecordStale";
    return false;
}

static double ago(int64_t now, int64_t then)
{
    return then == 0 ? -1 : (double)(now - then) / 1e9;
}

static int64_t longest_gap_ns(const struct oracle *o)
{
    return o->config.interval_ns + o->config.interval_ns / 10;
}

static void fail(struct oracle *o, const struct oracle_truth *t, const struct record_read *r,
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

static bool is_regular(const struct oracle *o, int64_t now)
{
    return o->renewed_at != 0 && now - o->renewed_at <= longest_gap_ns(o);
}

/*
 * The rules, each with its bound. What they excuse is said beside them, and nothing else is.
 *
 *   late      A DPU that renews no more is admitted no longer than its lease, once evidence can be
 *             had. A broken watch is no excuse: reads are answered.
 *   probe     A DPU that the host sees gone is refused at once, and nobody is refused for what no
 *             host probe says.
 *   report    A DPU that says it is unwell is refused at once.
 *   stale     The last word of a dead writer ends.
 *   early     A DPU whose renewal was there to be seen is not refused within the duration that
 *             stands on the lease, or ours, if that is shorter.
 *
 *   regular   A DPU that renews all along is not refused, whatever the host cannot see.
 *
 *   hold      Nobody is condemned by an API server that is not there, or takes no writes, nor
 * before there was time for a retry after it, if the host could know.
 *
 *   reboot    Another boot of the DPU is told once, and nothing else is told as one.
 *
 *   back      When all has been well for long enough, the DPU is admitted.
 */

/* A look at it is no later. */
#define HOST_PROBE_NS (SEC_NS + LATENCY_NS)
#define LOOK_NS       (2 * SEC_NS + LATENCY_NS) /* when its watch broke, by then the host looks again */

#define HANG_NS RETRY_HANG_NS

/* The host takes a longer duration from the lease, up to this. */
#define DURATION_MOST_NS (600 * SEC_NS)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t duration_ns(const struct oracle *o)
{
    return most(o->config.duration_ns, least(o->longest_ns, DURATION_MOST_NS));
}

/* ---- admitted -------------------------------------------------------------------------------- */

/* Once it can see again the host needs a read and a mark, and gives the DPU the time of a retry;
 * what it then sees for the first time counts from that moment. */
static int64_t settle_ns(const struct oracle *o)
{
    int64_t interval_ns = o->config.interval_ns;
    int64_t settle = retry_ns(o->config.interval_ns) + interval_ns + HANG_NS;
    return most(settle, duration_ns(o) + interval_ns);
}

static void check_late(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    int64_t interval_ns = o->config.interval_ns;
    int64_t duration = duration_ns(o);
    /* Without a watch a renewal is seen by a read, at most a duration after it was made. */
    int64_t unseen_ns = t->now - o->murky_at < 2 * duration ? duration : 0;
    int64_t limit = o->renewed_at + duration + unseen_ns;
    if (o->stepped_at != 0) { /* stamps that went back: a retry's time for the next */
        limit = most(limit, o->renewed_at + 2 * interval_ns + HANG_NS + SEC_NS);
    }
    limit = most(limit, o->blind_at + settle_ns(o));
    limit = most(limit, o->gone_at + settle_ns(o));
    if (o->edited_at != 0) { /* stamps that somebody else wrote may pass for the DPU's */
        limit = most(limit, o->edited_at + duration + settle_ns(o));
    }
    if (o->passed_at >=
        o->renewed_at) { /* marks that failed, until it was left: then as after an outage */
        limit = most(limit, o->renewed_at + duration + unseen_ns + interval_ns + settle_ns(o));
    }
    if (o->unsure_at != 0 && t->now - o->unsure_at < HANG_NS) {
        limit += most(o->config.duration_ns / 8, SEC_NS / 4); /* a mark's answer is waited for */
    }
    /* A trial fails whose answer is lost, or whose server fails: one more retry. */
    if (most(o->unsure_at, o->passed_at) > o->renewed_at) {
        limit += retry_ns(interval_ns) + interval_ns;
    }
    if (t->now > limit + 2 * LATENCY_NS) {
        fail(o, t, r, "late", "a dead DPU is admitted");
    }
}

static void check_report(struct oracle *o, const struct oracle_truth *t,
                         const struct record_read *r)
{
    int64_t seen_since = most(o->blind_at, o->murky_at);
    if (o->is_reported && o->reported_since > seen_since + LATENCY_NS &&
        t->now - o->reported_since > LATENCY_NS && t->now - o->edited_at > duration_ns(o) &&
        t->now - o->report_renewed_at < o->shortest_ns) {
        fail(o, t, r, "report", "a DPU that says it is unwell is admitted");
    }
}

static void check_stale(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    int64_t limit_ns = o->config.stale_hold_ns + duration_ns(o) + 2 * o->config.interval_ns;
    if (o->host_down_since != 0 && t->now - o->host_down_since > limit_ns) {
        fail(o, t, r, "stale", "the last word of a dead writer counts");
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

/* Neither said by the DPU itself, nor done to it by others. */
static bool is_undisturbed(const struct oracle *o, int64_t since)
{
    return !o->is_reported && o->reported_at < since && o->edited_at + 2 * duration_ns(o) < since &&
           (o->stepped_at == 0 || o->stepped_at + duration_ns(o) < since);
}

static void check_early(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    int64_t before = o->before_at;
    bool was_visible = before != 0 && most(o->blind_at, o->murky_at) + LATENCY_NS < before;
    int64_t age_ns = t->now - o->counted_at;
    if (was_visible && is_undisturbed(o, before) && o->gone_at + LATENCY_NS < before &&
        age_ns > LATENCY_NS && age_ns < o->shortest_ns - LATENCY_NS) {
        fail(o, t, r, "early", "a DPU whose renewal was visible is refused");
    }
}

static void check_regular(struct oracle *o, const struct oracle_truth *t,
                          const struct record_read *r)
{
    if (o->was_ready && is_regular(o, t->now) && is_undisturbed(o, o->regular_since) &&
        t->now - o->regular_since > 2 * o->config.duration_ns && r &&
        t->host_boot_ns < r->hold_until_ns) {
        fail(o, t, r, "regular", "a DPU that renewed all along is refused");
    }
}

static void check_hold(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    if ((o->is_held || t->now < o->held_until) && r && t->host_boot_ns < r->hold_until_ns) {
        fail(o, t, r, "hold", "a DPU is refused while nobody can know");
    }
}

static void check_back(struct oracle *o, const struct oracle_truth *t, const struct record_read *r)
{
    int64_t bound_ns = 60 * SEC_NS + 4 * o->config.interval_ns + o->config.duration_ns;
    int64_t edited_ns = bound_ns + 10 * o->config.duration_ns;
    if (t->now - o->broken_at > bound_ns && t->now - o->edited_at > edited_ns) {
        fail(o, t, r, "back", "all has been well, and the DPU is refused");
    }
}

/* Of what a host probe takes away nothing else is asked. */
static bool check_accused(struct oracle *o, const struct oracle_truth *t,
                          const struct record_read *r)
{
    /* An agent that has the CPU now and then only asks its probes an interval later, and hears what
     * they say when it has it again. */
    int64_t look_ns = HOST_PROBE_NS + (t->host_starves ? 3 * o->config.interval_ns : 0);
    bool is_accused = o->accused_at != 0 && t->now - o->accused_at <= look_ns;
    bool has_looked = t->now - o->host_down_at > HOST_PROBE_NS;
    if (!is_accused && r && has_looked && strcmp(o->reason, "HostProbeFailed") == 0) {
        fail(o, t, r, "host probe", "a DPU is refused that no host probe accuses");
    }
    return is_accused;
}

/* ---- boots ----------------------------------------------------------------------------------- */

static size_t find_boot(const struct oracle *o, const char *id)
{
    size_t i = 0;
    while (i < o->boot_count && strcmp(o->boots[i], id) != 0) {
        i++;
    }
    return i;
}

void oracle_check_boot(struct oracle *o, const struct oracle_truth *t,
                       const struct record_read *before, const struct record_read *now)
{
    bool is_told = now->dpu_reboot_time[0] != '\0' &&
                   strcmp(before->dpu_reboot_time, now->dpu_reboot_time) != 0;
    bool is_known = before->dpu_boot_id[0] != '\0' && now->dpu_boot_id[0] != '\0';
    bool is_other = is_known && strcmp(before->dpu_boot_id, now->dpu_boot_id) != 0;
    size_t boot = find_boot(o, now->dpu_boot_id);
    if (is_known && strcmp(now->dpu_boot_id, o->renewed_boot) == 0) {
        return; /* as far as anybody can know */
    }
    if (is_told && !is_other && (is_known || boot == 0)) { /* the record does not show each boot */
        fail(o, t, now, "reboot", "a reboot is told that was none");
    } else if (is_other && (boot == o->boot_count || boot <= find_boot(o, before->dpu_boot_id))) {
        fail(o, t, now, "reboot", "a boot is told that is not later than the last");
    } else if (is_other && !is_told && !o->is_clock_set && t->now - o->told_at > SEC_NS) {
        fail(o, t, now, "reboot", "a reboot is not told"); /* the record tells whole seconds */
    }
    o->told_at = is_told ? t->now : o->told_at;
    o->is_clock_set = o->is_clock_set && !is_told;
}

/* All has been well for long enough: it is the boot that renews. */
static void check_boot_now(struct oracle *o, const struct oracle_truth *t,
                           const struct record_read *r)
{
    int64_t bound_ns = 60 * SEC_NS + 4 * o->config.interval_ns + o->config.duration_ns;
    if (r && t->now - o->broken_at > bound_ns && strcmp(r->dpu_boot_id, t->dpu_boot_id) != 0) {
        fail(o, t, r, "reboot", "a boot of the DPU was not noticed");
    }
}

void oracle_check(struct oracle *o, const struct oracle_truth *t, const struct record_read *r,
                  bool admits)
{
    if (!r || t->host_boot_ns >= r->hold_until_ns) { /* all starts anew */
        o->was_ready = false;
        o->is_held = false;
    }
    if (admits) {
        bool sees = most(o->blind_at, o->murky_at) < o->regular_since;
        o->was_ready |= sees && is_regular(o, t->now) && t->now - o->regular_since > LATENCY_NS &&
                        strcmp(r->state, "Ready") == 0;
        if (o->accused_since != 0 && t->now - o->accused_since > HOST_PROBE_NS) {
            fail(o, t, r, "host probe", "a DPU is admitted that the host sees gone");
        }
        check_late(o, t, r);
        check_report(o, t, r);
        check_stale(o, t, r);
        check_boot_now(o, t, r);
        return;
    }
    if (!check_accused(o, t, r)) {
        check_early(o, t, r);
        check_regular(o, t, r);
        check_hold(o, t, r);
        check_back(o, t, r);
    }
    o->was_ready = false; /* it has to be earned again */
    o->is_held = false;
}

/* What the oracle knows; what it says is above. */

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

/* ---- the API server's log -------------------------------------------------------------------- */

static const char *text_at(const json_t *lease, const char *outer, const char *inner)
{
    const char *text = json_string_value(json_object_get(json_object_get(lease, outer), inner));
    return text ? text : "";
}

static const char *annotation(const json_t *lease, const char *name)
{
    const json_t *all = json_object_get(json_object_get(lease, "metadata"), "annotations");
    const char *text = json_string_value(json_object_get(all, name));
    return text ? text : "";
}

static bool says_unwell(const json_t *lease)
{
    const char *health = annotation(lease, "dpu.k8s.ovn.org/health");
    return (strcmp(health, "unhealthy") == 0 || strcmp(health, "shutdown") == 0);
}

/* A renewal counts for whoever has seen the one before it on the same lease, unless its stamp went
 * back: then the next one does. */
static void note_renewal(struct oracle *o, int64_t now, const json_t *lease)
{
    const char *uid = text_at(lease, "metadata", "uid");
    const char *stamp = text_at(lease, "spec", "renewTime");
    bool is_same = strcmp(uid, o->uid) == 0;
    bool is_later = strcmp(stamp, o->stamp) > 0;
    o->held_until = 0;  /* it came in time, */
    o->tried_since = 0; /* and so did one that was made in an outage of the host's alone */
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

enum { OLD_BOOT_RENEWALS = 4 };

/* ovnkube renews an old state's boot with the rest of it. Whoever has not seen that state before
 * has to take it for the DPU's; and so has everybody, where no agent of the DPU corrects it. */
static void note_renewed_boot(struct oracle *o, int64_t now, const json_t *lease)
{
    const char *boot = annotation(lease, "dpu.k8s.ovn.org/boot-id");
    bool is_old = find_boot(o, boot) + 1 < o->boot_count;
    bool is_unseen = now - o->gone_at < LOOK_NS || o->blind_at >= o->gone_at;
    o->old_boot_renewals = is_old ? o->old_boot_renewals + 1 : 0;
    if (is_old && (is_unseen || o->old_boot_renewals >= OLD_BOOT_RENEWALS)) {
        (void)snprintf(o->renewed_boot, sizeof(o->renewed_boot), "%s", boot);
    }
}

static void note_duration(struct oracle *o, const json_t *lease)
{
    int64_t duration_ns = json_integer_value(json_object_get(json_object_get(lease, "spec"),
                                                             "leaseDurationSeconds")) *
                          SEC_NS;
    o->longest_ns = duration_ns > o->longest_ns ? duration_ns : o->longest_ns;
    if (duration_ns > 0 && duration_ns < o->shortest_ns) {
        o->shortest_ns = duration_ns;
    }
}

/* A report is a lease of its own: it counts while the DPU's agent renews it. */
static void note_report(struct oracle *o, int64_t now, const json_t *lease)
{
    const char *stamp = annotation(lease, "dpu.k8s.ovn.org/health-renew-time");
    if (stamp[0] != '\0' && strcmp(stamp, o->report_stamp) != 0) {
        (void)snprintf(o->report_stamp, sizeof(o->report_stamp), "%s", stamp);
        if (now - o->report_renewed_at >= o->shortest_ns) { /* it had ended, and begins anew */
            o->reported_since = now;
        }
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
        fail(o, &t, NULL, "forged", "a host agent wrote a renewTime");
    }
    if (o->config.is_companion && strcmp(who, agents[1]) == 0 && before && after &&
        strcmp(text_at(before, "spec", "renewTime"), text_at(after, "spec", "renewTime")) != 0) {
        fail(o, &t, NULL, "forged", "a companion wrote a renewTime");
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
        bool was_seen = o->blind_at + LATENCY_NS < o->renewed_at &&
                        o->murky_at + LATENCY_NS < o->renewed_at &&
                        now - o->renewed_at > LATENCY_NS;
        o->gone_at = now;
        o->was_ready = o->was_ready && was_seen; /* else nobody will ever see it */
        if (strcmp(text_at(before, "spec", "renewTime"), text_at(after, "spec", "renewTime")) < 0) {
            note_renewed_boot(o, now, after); /* stamped later: the clock was set back */
        }
    }
    if (!before && after) { /* on a lease that was made anew a DPU gets the time of a retry */
        o->gone_at = now;
    }
    if (!is_agent && after && strcmp(who, "admin") != 0) {
        o->edited_at = now;
    }
    if (is_renewal && is_dpu && strcmp(text_at(after, "spec", "holderIdentity"), holder) == 0) {
        note_renewal(o, now, after);
        note_renewed_boot(o, now, after);
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
    int64_t host_ns = interval_ns / (interval_ns / SEC_NS + 1 + MARK_REQUESTS);
    bool is_unsure = o->unsure_at != 0 && now - o->unsure_at < 5 * SEC_NS;
    int64_t dpu_ns = is_unsure ? interval_ns / 12 : interval_ns / 8;
    int64_t dpu_write_ns = interval_ns / 5;
    int64_t host_write_ns = interval_ns / (interval_ns / SEC_NS + MARK_WRITES);
    bool is_write = strcmp(method, "GET") != 0 && strcmp(method, "WATCH") != 0;
    for (size_t i = 0; i < ORACLE_AGENTS; i++) {
        bool is_dpu = i == 1;
        if (strcmp(who, agents[i]) != 0) {
            continue;
        }
        if (runs_over(&o->all[i], now, is_dpu ? dpu_ns : host_ns, REQUESTS_BURST)) {
            fail(o, &t, NULL, "requests", who);
        }
        if (is_write &&
            runs_over(&o->writes[i], now, is_dpu ? dpu_write_ns : host_write_ns, WRITES_BURST)) {
            fail(o, &t, NULL, "writes", who);
        }
    }
}

/* ---- the truth ------------------------------------------------------------------------------- */

void oracle_started(struct oracle *o, int64_t now, bool is_host, bool has_record)
{
    o->broken_at = now;
    if (is_host) {
        o->blind_at = now;
    }
    if (is_host && (o->is_unwritten || !has_record)) { /* nor can what is there be read */
        o->held_until = 0;
        o->was_ready = false;
        o->is_held = false;
        o->is_forgotten = true;
    }
}

void oracle_clock(struct oracle *o, int64_t now, bool is_host)
{
    o->stepped_at = is_host ? o->stepped_at : now;
    o->is_clock_set = o->is_clock_set || is_host;
    o->broken_at = now;
}

/* Nobody can know how the DPU is: it must not be accused of what the others cannot do either. */
static bool is_outage(const struct oracle_truth *t)
{
    return !t->api_up || !t->host_link || (!t->api_writes && !t->api_forbids);
}

/* Of a lease that is shorter than the pause between two marks, a part has passed before the first
 * attempt can fail. */
static int64_t unmet_ns(const struct oracle *o)
{
    int64_t pause_ns = 2 * o->config.interval_ns + o->config.duration_ns / 8 + SEC_NS;
    return most(0, pause_ns - o->config.duration_ns);
}

static void note_outage(struct oracle *o, const struct oracle_truth *t, bool is_heard)
{
    bool is_tried = o->is_held && is_outage(t) && is_heard && !t->lease_is_edited &&
                    o->gone_at < o->renewed_at && t->now - o->renewed_at > o->shortest_ns;
    bool was_tried = o->tried_since != 0 && t->now - o->tried_since > HANG_NS + LATENCY_NS;
    if (!is_outage(t) && o->is_held && was_tried) {
        o->held_until = t->now + retry_ns(o->config.interval_ns) - unmet_ns(o) - LATENCY_NS;
    } else if (o->is_reported || t->lease_is_edited || o->gone_at == t->now) {
        o->held_until = 0;
    }
    if (!is_tried) {
        o->tried_since = was_tried && is_outage(t) ? o->tried_since : 0;
    } else if (o->tried_since == 0) {
        o->tried_since = t->now;
    }
    if (!is_outage(t) || (o->is_reported && o->outage_since != 0)) {
        o->outage_since = is_outage(t) ? o->outage_since : 0;
        o->is_held = false;
    } else if (o->outage_since == 0) {
        int64_t quiet_ns = 2 * o->config.duration_ns;
        o->outage_since = t->now;
        o->is_held = o->last_admitted && o->was_ready && is_regular(o, t->now) && !o->is_reported &&
                     t->now - o->reported_at > quiet_ns && t->now - o->edited_at > quiet_ns &&
                     t->now - o->stepped_at > quiet_ns;
    }
}

/* Since when it is so; 0: it is not. */
static void note_since(int64_t *since, bool is_so, int64_t now)
{
    *since = !is_so ? 0 : *since != 0 ? *since : now;
}

/* Whether the host runs and is heard by the readers of the record. */
static bool note_writing(struct oracle *o, const struct oracle_truth *t)
{
    note_since(&o->writes_since, t->host_writes && t->host_runs, t->now);
    bool is_rewritten = o->writes_since != 0 && t->now - o->writes_since > REWRITE_NS;
    o->is_unwritten = !t->host_writes || (o->is_unwritten && !is_rewritten);
    return t->host_runs && !o->is_unwritten;
}

/* A denial counts anew after an outage, and where one server of several fails. */
static void note_forbidden(struct oracle *o, const struct oracle_truth *t, bool can_see)
{
    if (!t->api_forbids) {
        o->forbidden_since = 0;
    } else if (o->forbidden_since == 0 || !can_see || t->api_server_fails) {
        o->forbidden_since = t->now;
    }
}

/* A refusal holds for one more duration past the end of the lease, at least for the time of a
 * retry; then a read is the proof. While the DPU renews nobody marks, so that nobody knows of the
 * refusal. */
static bool is_forbidden_anew(const struct oracle *o, const struct oracle_truth *t)
{
    int64_t since = o->forbidden_since > o->renewed_at ? o->forbidden_since : o->renewed_at;
    int64_t lasting_ns = most(duration_ns(o), retry_ns(o->config.interval_ns));
    return t->api_forbids && t->now - since < duration_ns(o) + lasting_ns;
}

/* A step of the DPU's clock that no renewal has shown yet counts from when the host sees again: the
 * stamps of before and after tell no distance. */
static void note_sight(struct oracle *o, int64_t now)
{
    if (most(o->blind_at, o->murky_at) < now) {
        o->seen_at = o->renewed_at;
    } else if (o->stepped_at > o->seen_at) {
        o->stepped_at = now;
    }
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
    note_sight(o, t->now);
    if (!t->api_tells) {
        o->unsure_at = t->now;
    }
    if (t->api_server_fails) {
        o->passed_at = t->now;
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
    note_since(&o->accused_since, t->host_probe_accuses && is_heard, t->now);
    o->host_down_at = is_heard ? o->host_down_at : t->now;
    note_since(&o->host_down_since, !t->host_runs || !t->host_writes, t->now);
    if (strcmp(o->boot_id, t->host_boot_id) != 0) { /* nothing is left of the last boot */
        (void)snprintf(o->boot_id, sizeof(o->boot_id), "%s", t->host_boot_id);
        o->held_until = 0;
        o->was_ready = false;
        o->is_held = false;
    }
    bool has_record = o->record.hold_until_ns != 0;
    if (has_record && t->host_boot_ns >= o->record.hold_until_ns) { /* nobody believes it now */
        o->was_ready = false;
        o->is_held = false;
    }
    const char *last = o->boot_count > 0 ? o->boots[o->boot_count - 1] : "";
    if (o->boot_count < ORACLE_BOOTS && strcmp(last, t->dpu_boot_id) != 0) {
        (void)snprintf(o->boots[o->boot_count++], ORACLE_TEXT_BYTES, "%s", t->dpu_boot_id);
    }
    note_outage(o, t, is_heard);
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
        fail(o, t, NULL, "illegal", wrong);
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
        fail(o, t, NULL, "gate", what);
    }
}
