/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/text.h"
#include "contract/lease.h"
#include "dpuctl/screen.h"
#include "json/json_text.h"

#include <string.h>
#include <unistd.h>

#define SLACK_NS        (1 * NS_PER_SEC) /* a renewal's way to us, and a busy machine */
#define SKEW_NOTABLE_NS (5 * NS_PER_SEC)

void check_clock(struct doctor *d, const char *whose, int64_t skew_ns, const char *mend)
{
    char span[SCREEN_SPAN_BYTES];
    if (skew_ns > SKEW_NOTABLE_NS || skew_ns < -SKEW_NOTABLE_NS) {
        check_add(d, CHECK_WARN, "clocks", mend, "%s clock is %s %s of this host's", whose,
                  screen_span(skew_ns, span), skew_ns > 0 ? "ahead" : "behind");
    }
}

static void check_owner(struct doctor *d, const json_t *lease, const json_t *node)
{
    const json_t *owners = json_object_get(json_object_get(lease, "metadata"), "ownerReferences");
    const char *uid = json_text_get(json_object_get(node, "metadata"), "uid");
    const char *owner_uid = NULL; /* of the first Node among them */
    for (size_t i = 0; !owner_uid && i < json_array_size(owners); i++) {
        const json_t *owner = json_array_get(owners, i);
        if (text_equal(json_text_get(owner, "kind"), "Node")) {
            owner_uid = json_text_get(owner, "uid");
        }
    }
    if (uid && !text_equal(owner_uid, uid)) {
        check_add(d, CHECK_WARN, "lease", "the agent repairs that within moments if it may update",
                  owner_uid
                      ? "it belongs to an earlier Node of that name, and will be deleted with it"
                      : "it does not belong to its Node: nobody removes it with the Node");
    }
}

static void check_timers(struct doctor *d, const struct lease_view *lease)
{
    const struct agent_config *a = &d->config.agent;
    char interval[SCREEN_SPAN_BYTES];
    int64_t ours_s = a->lease_duration_ns / NS_PER_SEC;
    int64_t lasts_ns = (int64_t)lease->duration_s * NS_PER_SEC;
    if (lease->duration_s == 0) {
        check_add(d, CHECK_FAIL, "lease", "the agent repairs that if it may update",
                  "it has no duration");
        return;
    }
    if (a->renew_interval_ns == 0) {
        return; /* the health check is off here */
    }
    if (lasts_ns <= a->renew_interval_ns) {
        text_from_duration(a->renew_interval_ns, interval, sizeof(interval));
        check_add(d, CHECK_WARN, "lease",
                  "set --dpu-node-lease-renew-interval alike on both sides and for dpuctl",
                  "it lasts %u s, but here a renewal is expected each %s", lease->duration_s,
                  interval);
    }
    if (lease->duration_s != ours_s) {
        check_add(d, CHECK_WARN, "lease",
                  "set --dpu-node-lease-duration alike on both sides and for dpuctl",
                  "it lasts %u s, but --dpu-node-lease-duration here is %lld s", lease->duration_s,
                  (long long)ours_s);
    }
}

/* Without the record's observation there is but the DPU's own clock, which may be off. */
static void check_stamp(struct doctor *d, const struct lease_view *lease)
{
    char span[SCREEN_SPAN_BYTES];
    int64_t age_ns = lease->renew_time_valid ? wall_since(d->look.wall, lease->renew_time) : 0;
    if (age_ns > (int64_t)lease->duration_s * NS_PER_SEC) {
        check_add(d, CHECK_WARN, "DPU", "look at the DPU: power, network, clock",
                  "it renewed the lease at %s by its own clock: %s ago, but it lasts %u s",
                  lease->renew_stamp, screen_span(age_ns, span), lease->duration_s);
    } else {
        check_add(d, CHECK_PASS, "DPU", "", "it renewed the lease at %s by its own clock",
                  lease->renew_stamp);
    }
}

/* Only a renewal that is overdue for our interval shows that the DPU keeps another one. */
static void check_interval(struct doctor *d, int64_t age_ns)
{
    char span[SCREEN_SPAN_BYTES];
    char interval[SCREEN_SPAN_BYTES];
    int64_t interval_ns = d->config.agent.renew_interval_ns;
    if (interval_ns == 0 || age_ns <= interval_ns + interval_ns / 2 + SLACK_NS) {
        return;
    }
    text_from_duration(interval_ns, interval, sizeof(interval));
    check_add(d, CHECK_WARN, "DPU",
              "set --dpu-node-lease-renew-interval alike on both sides; if it is, look for retries "
              "in dpu-agent's log and metrics",
              "it renewed the lease %s ago, but here a renewal is expected each %s",
              screen_span(age_ns, span), interval);
}

/* As ovn-kubernetes' own check does on the host at each of its starts. */
static bool check_writer(struct doctor *d, const json_t *lease)
{
    char host[256] = "";
    if (gethostname(host, sizeof(host) - 1) != 0 || !text_equal(lease_renewed_by(lease), host)) {
        return false;
    }
    check_add(
        d, CHECK_WARN, "lease",
        "turn off ovn-kubernetes' own health check on the host "
        "(dpu-node-lease-renew-interval=0); where the DPU has the host's name, give it another",
        "'%s', which is this host's name, wrote its renewTime last: a start of ovn-kubernetes' "
        "own health check is no sign of life of the DPU",
        host);
    return true;
}

static void check_renewal(struct doctor *d, const struct lease_view *lease, bool is_by_host)
{
    const struct node_look *look = &d->look;
    const struct readiness *v = &look->record.verdict;
    char span[SCREEN_SPAN_BYTES];
    bool is_seen = look->has_record && look->gate.reason != REASON_RECORD_INVALID &&
                   v->observed.ns > 0 &&
                   (is_by_host || text_equal(v->lease.renew_stamp, lease->renew_stamp));
    if (lease->health != LEASE_HEALTH_NONE) {
        check_add(d, CHECK_FAIL, "DPU",
                  "mend what its probes found; 'journalctl -u dpu-agent' there",
                  "it says on the lease that it is %s: %s",
                  lease->health == LEASE_HEALTH_SHUTDOWN ? "shutting down" : "unhealthy",
                  lease->health_message);
    }
    if (lease->renew_stamp[0] == '\0') {
        check_add(d, CHECK_FAIL, "DPU",
                  "start dpu-agent on the DPU, with this node's name and its credential "
                  "(deploy/dpu-kubeconfig makes one)",
                  "it has never renewed the lease");
        return;
    }
    if (!is_seen) {
        if (!is_by_host) {
            check_stamp(d, lease);
        }
        return;
    }
    int64_t age_ns = mono_since(look->now, v->observed);
    bool is_late = age_ns > (int64_t)lease->duration_s * NS_PER_SEC;
    check_add(d, is_late ? CHECK_FAIL : CHECK_PASS, "DPU",
              is_late ? "look at the DPU: power, network, 'systemctl status dpu-agent' there" : "",
              "it renewed the lease %s ago; it lasts %u s", screen_span(age_ns, span),
              lease->duration_s);
    if (!is_late) {
        check_interval(d, age_ns);
    }
    int64_t skew_ns;
    if (!is_by_host && lease->renew_time_valid && node_look_dpu_skew(look, &skew_ns)) {
        check_clock(d, "the DPU's", skew_ns,
                    "set the DPU's clock: the readiness does not mind, but certificates and "
                    "tokens do");
    }
}

static void check_probes(struct doctor *d, const struct lease_view *lease)
{
    if (lease->has_no_probe) {
        check_add(d, CHECK_WARN, "DPU", "set --probe=ovn-kubernetes there, or probes of your own",
                  "its dpu-agent asks no service: each renewal proves only that dpu-agent runs");
    }
}

void check_lease(struct doctor *d, const struct api_answer *answer, const json_t *node)
{
    const struct agent_config *a = &d->config.agent;
    struct lease_view lease;
    struct err e = ERR_INIT;
    if (!answer->body || lease_read(answer->body, &lease, &e) != 0) {
        check_add(d, answer->http_status == 403 ? CHECK_SKIP : CHECK_FAIL, "lease",
                  answer->http_status == 404
                      ? "the host's agent makes it: is it running, with this "
                        "node name and namespace?"
                      : "",
                  "%s/%s: %s", a->lease_namespace, a->lease_name,
                  answer->http_status == 404 ? "it does not exist"
                  : answer->body             ? e.msg
                                             : answer->message);
        return;
    }
    if (!text_equal(lease.holder, a->holder_identity)) {
        check_add(d, CHECK_FAIL, "lease",
                  "find out who that is; only renewals of the expected holder count "
                  "(--holder-identity)",
                  "%s/%s is held by '%s', not by '%s'", a->lease_namespace, a->lease_name,
                  lease.holder, a->holder_identity);
    } else {
        check_add(d, CHECK_PASS, "lease", "", "%s/%s is held by %s, for %u s", a->lease_namespace,
                  a->lease_name, lease.holder, lease.duration_s);
    }
    check_owner(d, answer->body, node);
    check_timers(d, &lease);
    check_renewal(d, &lease, check_writer(d, answer->body));
    check_probes(d, &lease);
}
