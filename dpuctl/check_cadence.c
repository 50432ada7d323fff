/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/check.h"

#include "base/clock.h"
#include "base/text.h"
#include "contract/lease.h"
#include "dpuctl/api_read.h"
#include "dpuctl/screen.h"

#include <time.h>

#define POLL_MAX_NS NS_PER_SEC
#define POLL_MIN_NS (50 * NS_PER_MS)

void check_judge_cadence(const struct check_cadence *seen, struct check_list *out)
{
    char span[SCREEN_SPAN_BYTES];
    char gap[SCREEN_SPAN_BYTES];
    char interval[SCREEN_SPAN_BYTES];
    int64_t late_ns = seen->interval_ns + seen->interval_ns / 2 + 2 * seen->poll_ns;
    bool is_over = seen->longest_gap_ns > seen->duration_ns;
    bool is_late = seen->longest_gap_ns > late_ns;
    screen_span(seen->span_ns, span);
    screen_span(seen->longest_gap_ns, gap);
    screen_span(seen->interval_ns, interval);
    if (seen->failures == seen->readings) {
        check_add(out, CHECK_SKIP, "cadence", "", "the lease could not be read in %s", span);
    } else if (is_late && seen->failures > 0) {
        check_add(out, CHECK_WARN, "cadence", "mend the way to the API server, then count again",
                  "%zu renewals within %s, up to %s without one, but %zu of %zu readings failed",
                  seen->renewals, span, gap, seen->failures, seen->readings);
    } else if (is_over || is_late) {
        check_add(out, is_over ? CHECK_FAIL : CHECK_WARN, "cadence",
                  is_over ? "look at the DPU: power, network, 'systemctl status dpu-agent' there"
                          : "set --dpu-node-lease-renew-interval alike on both sides; look for "
                            "retries in dpu-agent's log and metrics",
                  "%zu renewals within %s, up to %s without one; one each %s is expected",
                  seen->renewals, span, gap, interval);
    } else if (seen->renewals == 0) {
        check_add(out, CHECK_SKIP, "cadence", "give --cadence at least two renew intervals",
                  "%s were too short to see a renewal; one each %s is expected", span, interval);
    } else {
        check_add(out, CHECK_PASS, "cadence", "",
                  "%zu renewals within %s, never more than %s without one", seen->renewals, span,
                  gap);
    }
}

/* What is known while the lease is being watched. */
struct watching {
    struct check_cadence seen;
    struct mono changed; /* when a new stamp was last seen, at first when this began */
    char stamp[NAMES_STAMP_BYTES];
    bool has_stamp;
};

static void note_gap(struct watching *w, struct mono now)
{
    int64_t gap_ns = mono_since(now, w->changed);
    w->seen.longest_gap_ns = gap_ns > w->seen.longest_gap_ns ? gap_ns : w->seen.longest_gap_ns;
}

static void take(struct watching *w, const struct api_answer *answer, struct mono now)
{
    struct lease_view lease;
    w->seen.readings++;
    if (!answer->body || lease_read(answer->body, &lease, NULL) != 0) {
        w->seen.failures++;
        return;
    }
    if (w->has_stamp && !text_equal(w->stamp, lease.renew_stamp)) {
        note_gap(w, now);
        w->seen.renewals++;
        w->changed = now;
    }
    (void)text_copy(w->stamp, sizeof(w->stamp), lease.renew_stamp); /* same size */
    w->has_stamp = true;
}

static void nap(int64_t ns)
{
    const struct timespec span = {.tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC};
    (void)nanosleep(&span, NULL); /* a signal only makes it shorter */
}

/* As many readings as one reader takes. False: no reader. */
static bool watch_some(struct watching *w, const struct admin_config *config, struct mono until)
{
    struct api_read *api = NULL;
    if (api_read_open(config, &api, NULL) != 0) {
        return false;
    }
    for (size_t i = 0; i < API_READ_MAX && mono_before(clock_mono_now(), until); i++) {
        size_t number =
            api_read_ask(api, NULL, "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s",
                         config->agent.lease_namespace, config->agent.lease_name);
        api_read_wait(api, config->api_timeout_ns);
        take(w, api_read_answer(api, number), clock_mono_now());
        nap(w->seen.poll_ns);
    }
    api_read_close(api);
    return true;
}

void check_renewals(const struct admin_config *config, struct check_list *out)
{
    struct mono began = clock_mono_now();
    struct mono until = mono_add(began, config->cadence_ns);
    struct watching w = {.changed = began,
                         .seen = {.interval_ns = config->agent.renew_interval_ns,
                                  .duration_ns = config->agent.lease_duration_ns}};
    int64_t poll_ns = w.seen.interval_ns / 8;
    if (config->cadence_ns == 0 || w.seen.interval_ns == 0) {
        return; /* not asked for; or nobody renews */
    }
    w.seen.poll_ns = poll_ns < POLL_MIN_NS   ? POLL_MIN_NS
                     : poll_ns > POLL_MAX_NS ? POLL_MAX_NS
                                             : poll_ns;
    while (mono_before(clock_mono_now(), until)) {
        if (!watch_some(&w, config, until)) {
            check_add(out, CHECK_SKIP, "cadence", "give --kubeconfig",
                      "renewals cannot be counted without the API server");
            return;
        }
    }
    struct mono now = clock_mono_now();
    note_gap(&w, now);
    w.seen.span_ns = mono_since(now, began);
    check_judge_cadence(&w.seen, out);
}
