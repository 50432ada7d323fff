/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim.h"

#include "base/rfc3339.h"
#include "base/text.h"

#include <stdio.h>

#define EPOCH_NS (INT64_C(1790000000) * NS_PER_SEC)

static struct wall wall_of_dpu(const struct sim *s)
{
    return (struct wall){EPOCH_NS + s->now.ns + s->dpu.wall_offset_ns};
}

/* The shell's half of lease_set_renewal: a stamp by the DPU's own clock, and no report any more. */
static void stamp(struct sim *s, struct lease_view *lease)
{
    struct sim_dpu *d = &s->dpu;
    lease->renew_time = wall_of_dpu(s);
    lease->renew_time_valid = true;
    rfc3339_format_micro(lease->renew_time, lease->renew_stamp);
    (void)text_copy(d->sent_stamp, sizeof(d->sent_stamp), lease->renew_stamp); /* same bound */
    lease->health = LEASE_HEALTH_NONE;
    lease->health_message[0] = '\0';
    lease->health_stamp[0] = '\0';
}

static void send(struct sim *s, const struct renewer_update *update)
{
    struct sim_put *call = &s->dpu.call;
    *call = (struct sim_put){.action = update->action, .lease = s->dpu.tree};
    call->arrives = sim_soon(s, 1, 20);
    call->returns =
        mono_add(call->arrives, sim_random_between(&s->random, NS_PER_MS, 20 * NS_PER_MS));
    call->deadline = mono_add(s->now, (int64_t)update->deadline_ms * NS_PER_MS);
    s->dpu.sent_stamp[0] = '\0';
    if (update->action == RENEWER_PUT_RENEWAL) {
        stamp(s, &call->lease);
    } else if (update->action == RENEWER_PUT_HEALTH) {
        call->lease.health = update->health;
        (void)text_copy(call->lease.health_message, sizeof(call->lease.health_message),
                        update->message); /* same bound */
        rfc3339_format_micro(wall_of_dpu(s), call->lease.health_stamp);
    }
}

static void step(struct sim *s, struct renewer_event event)
{
    struct renewer_update update;
    event.now = s->now;
    renewer_step(&s->dpu.renewer, &event, &update);
    for (size_t i = 0; i < update.note_count; i++) {
        sim_tell(s, "dpu: %.120s", update.notes[i].text);
    }
    if (update.cancel) {
        s->dpu.call.action = RENEWER_NONE;
    }
    if (update.action != RENEWER_NONE) {
        send(s, &update);
    }
    s->dpu.wake_at = update.wake_at;
}

/* The other half of it is the Node's UID, which no fault here touches. */
static void decide_creation(struct sim *s, struct sim_put *call)
{
    if (!s->api.takes_writes || s->api.lease_present) {
        call->code = s->api.takes_writes ? ERR_CONFLICT : ERR_RETRY;
        call->http_status = s->api.takes_writes ? 409 : 500;
        return;
    }
    sim_api_create_lease(s);
    stamp(s, &s->api.lease);
    call->http_status = 201;
    call->lease = s->api.lease;
    /* No renewal for the host, which has seen nobody alive by the first sight of a lease. */
    sim_tell(s, "dpu: created the lease, %s", call->lease.renew_stamp);
}

/* What the API server makes of a request that has reached it. */
static void decide(struct sim *s, struct sim_put *call)
{
    call->decided = true;
    if (!s->dpu.link_up || !s->api.up) {
        call->code = ERR_RETRY;
        if (sim_random_one_in(&s->random, 2)) {
            call->returns = call->deadline; /* it hangs instead of being refused */
        }
        return;
    }
    bool same = s->api.lease_present && text_equal(call->lease.uid, s->api.lease.uid) &&
                text_equal(call->lease.resource_version, s->api.lease.resource_version);
    if (call->action == RENEWER_CREATE) {
        decide_creation(s, call);
    } else if (!s->api.lease_present) {
        call->code = ERR_NOTFOUND;
        call->http_status = 404;
    } else if (call->action == RENEWER_GET) {
        call->http_status = 200;
        call->lease = s->api.lease;
    } else if (!s->api.takes_writes) {
        call->code = ERR_RETRY;
        call->http_status = 500;
    } else if (!same) {
        call->code = ERR_CONFLICT;
        call->http_status = 409;
    } else {
        call->http_status = 200;
        s->api.lease = call->lease;
        sim_api_touch(s);
        call->lease = s->api.lease;
        if (call->action == RENEWER_PUT_RENEWAL) {
            sim_tell(s, "dpu: renewed %s", call->lease.renew_stamp);
            sim_note_renewal(s);
        }
    }
}

static void answer(struct sim *s, struct sim_put call)
{
    bool cut_off = !s->dpu.link_up || !s->api.up;
    if (call.code == 0 && cut_off) { /* it was done, but nobody can tell us */
        call.code = ERR_RETRY;
        call.http_status = 0;
    }
    s->dpu.call.action = RENEWER_NONE;
    if (call.code == 0) {
        s->dpu.tree = call.lease;
    }
    step(s, (struct renewer_event){.kind = RENEWER_ANSWER,
                                   .code = call.code,
                                   .http_status = call.http_status,
                                   .retry_after_ms = -1,
                                   .message = call.code ? "failed" : NULL,
                                   .lease = call.code ? NULL : &call.lease,
                                   .sent_stamp = s->dpu.sent_stamp});
}

void sim_dpu_start(struct sim *s)
{
    struct renewer_config config = {.lease_ns = "ovn-kubernetes",
                                    .lease_name = "ovn-dpu-w1",
                                    .holder = NAMES_HOLDER_IDENTITY,
                                    .interval_ns = s->timers.interval_ns,
                                    .duration_ns = s->timers.duration_ns,
                                    .seed = sim_random_next(&s->random)};
    s->dpu.alive = true;
    s->dpu.call.action = RENEWER_NONE;
    renewer_init(&s->dpu.renewer, &config);
    step(s, (struct renewer_event){.kind = RENEWER_TICK});
    sim_dpu_verdict(s, true);
}

void sim_dpu_verdict(struct sim *s, bool healthy)
{
    s->dpu.healthy = healthy;
    if (s->dpu.alive) {
        step(s, (struct renewer_event){.kind = RENEWER_VERDICT,
                                       .verdict = healthy ? VERDICT_HEALTHY : VERDICT_UNHEALTHY,
                                       .message = healthy ? "" : "probe ovs fails"});
    }
}

void sim_dpu_step(struct sim *s)
{
    struct sim_put *call = &s->dpu.call;
    if (!s->dpu.alive) {
        return;
    }
    if (call->action != RENEWER_NONE && !call->decided && mono_reached(s->now, call->arrives)) {
        decide(s, call);
    }
    if (call->action != RENEWER_NONE && call->decided && mono_reached(s->now, call->returns)) {
        answer(s, *call);
    }
    if (mono_reached(s->now, s->dpu.wake_at)) {
        step(s, (struct renewer_event){.kind = RENEWER_TICK});
    }
}
