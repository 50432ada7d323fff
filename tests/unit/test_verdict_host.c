/* SPDX-License-Identifier: Apache-2.0 */
/* What the host itself sees: lost pods and host probes take admission away, and never give it. */
#include "tests/support/case.h"
#include "tests/unit/verdict_world.h"

#define PODLESS(w) expect((w), READINESS_NOT_READY, REASON_POD_NETWORK_LOST, false)
#define ACCUSED(w) expect((w), READINESS_NOT_READY, REASON_HOST_PROBE_FAILED, false)

/* ---- pods that lost their network, where they count ------------------------------------------ */

static void pods(struct world *w, double at, const char *sentence)
{
    world_step(w, (struct verdict_event){.kind = VERDICT_PODS, .now = SEC(at), .pods = sentence});
}

TEST_READY(lost_pods_refuse_and_end_by_themselves)
{
    READY(w);
    pods(w, 2, "a/b has lost it");
    PODLESS(w);
    assert_true(w->out.verdict_changed && w->out.rewrite);
    assert_string_equal(w->x.readiness.message, "a/b has lost it");
    world_renew(w, 11);
    PODLESS(w); /* a renewal says nothing of them */
    pods(w, 12, NULL);
    READY(w);
}

TEST_READY(restart_makes_no_living_dpu_dead_nor_lost_pods_well)
{
    for (int counts = 0; counts <= 1; counts++) {
        world_ready(w);
        world_renew(w, 11);
        pods(w, 12, "a/b has lost it");
        w->config.pods_count = counts == 1;
        world_restart(w, 15, 300);
        world_tick(w, SEC(15));
        if (counts == 1) {
            PODLESS(w);
            assert_string_equal(w->x.readiness.message, "a/b has lost it");
            pods(w, 16, NULL);
        }
        READY(w);
    }
}

/* ---- host probes ----------------------------------------------------------------------------- */

static void says(struct world *w, double at, enum host_probe_state said)
{
    const struct readiness_host_probes host_probes = {
        .count = 2,
        .each = {{.probe = "pci:0000:03:00.0", .says = said},
                 {.probe = "netdev:p0", .says = HOST_PROBE_NEVER_WELL}}};
    world_step(w, (struct verdict_event){.kind = VERDICT_HOST_PROBES,
                                         .now = SEC(at),
                                         .host_probes = &host_probes,
                                         .accusation = "probe 'pci:0000:03:00.0': gone"});
}

TEST_READY(host_probe_refuses_at_once_and_then_the_lease_decides)
{
    says(w, 1.5, HOST_PROBE_NEVER_WELL); /* proves nothing, but is shown */
    READY(w);
    assert_int_equal(w->x.readiness.host_probes.count, 2);
    says(w, 2, HOST_PROBE_WELL);
    READY(w);
    assert_true(!w->out.verdict_changed && w->out.rewrite); /* a restart has to know its word */
    says(w, 3, HOST_PROBE_FAILED);
    ACCUSED(w);
    assert_true(w->out.verdict_changed && w->out.rewrite);
    assert_string_equal(w->x.readiness.message,
                        "a host probe fails: probe 'pci:0000:03:00.0': gone");
    world_renew(w, 11);
    ACCUSED(w); /* whatever the lease says */
    says(w, 12, HOST_PROBE_WELL);
    READY(w);
}

TEST_READY(host_probe_never_vouches)
{
    world_init(w, NULL, SEC(0));
    says(w, 0, HOST_PROBE_WELL);
    AWAITING(w);
    says(w, 0.5, HOST_PROBE_FAILED);
    AWAITING(w);
    world_ready(w);
    says(w, 2, HOST_PROBE_FAILED);
    world_silence_until(w, 60);
    EXPIRED(w);
    says(w, 61, HOST_PROBE_WELL);
    EXPIRED(w);
}

TEST_READY(host_probe_comes_before_the_pods_that_it_explains)
{
    says(w, 2, HOST_PROBE_FAILED);
    world_step(w, (struct verdict_event){.kind = VERDICT_PODS, .now = SEC(3), .pods = "a/b"});
    ACCUSED(w);
    says(w, 4, HOST_PROBE_WELL);
    PODLESS(w);
}

TEST_READY(without_a_health_check_lost_pods_alone_count)
{
    world_disabled(w);
    world_fail(w, SEC(1));
    world_absent(w, SEC(2));
    says(w, 3, HOST_PROBE_FAILED);
    world_tick(w, SEC(500));
    assert_false(w->out.confirm || w->out.mark);
    assert_true(w->out.rewrite);
    expect(w, READINESS_READY, REASON_HEALTH_CHECK_DISABLED, true);
    pods(w, 501, "a/b has lost it");
    PODLESS(w);
    pods(w, 502, NULL);
    expect(w, READINESS_READY, REASON_HEALTH_CHECK_DISABLED, true);
}

TEST_READY(restart_forgets_neither_the_accusation_nor_the_lease)
{
    world_renew(w, 11);
    says(w, 12, HOST_PROBE_FAILED);
    world_restart(w, 15, 300);
    says(w, 15, HOST_PROBE_FAILED); /* who asks it tells first what the record says of it */
    ACCUSED(w);
    says(w, 16, HOST_PROBE_WELL);
    READY(w);
    world_silence_until(w, 120); /* it was no renewal */
    EXPIRED(w);
}

TEST_READY(host_probe_that_is_asked_no_more_accuses_no_more)
{
    says(w, 2, HOST_PROBE_FAILED);
    world_restart(w, 15, 300);
    world_tick(w, SEC(15));
    READY(w);
    assert_int_equal(w->x.readiness.host_probes.count, 0);
}
