/* SPDX-License-Identifier: Apache-2.0 */
/* A small world around one renewer: an API server that answers as told, time passed in. */
#ifndef TESTS_UNIT_RENEWER_WORLD_H
#define TESTS_UNIT_RENEWER_WORLD_H

#include "dpu-agent/renewer.h"

#include "base/err.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BOOT_NS (1000 * NS_PER_SEC)
#define SEC(n)  ((struct mono){(int64_t)((n)*1e9) + BOOT_NS})

struct world {
    struct renewer r;
    struct renewer_update out;
    struct lease_view lease; /* on the server */
    char stamp[NAMES_STAMP_BYTES];
    unsigned puts;
};

static inline struct renewer_config world_config(void)
{
    return (struct renewer_config){.lease_ns = "ovn-kubernetes",
                                   .lease_name = "ovn-dpu-w1",
                                   .holder = "ovnkube-dpu-node",
                                   .interval_ns = 10 * NS_PER_SEC,
                                   .duration_ns = 40 * NS_PER_SEC,
                                   .seed = 7};
}

static inline void world_step(struct world *w, struct renewer_event event)
{
    enum renewer_action under_way = w->r.under_way;
    renewer_step(&w->r, &event, &w->out);
    assert_true(mono_before(event.now, w->out.wake_at) || w->out.stopped);
    assert_true(w->out.action != RENEWER_NONE || (w->out.deadline_ms == 0 && !w->out.fresh));
    assert_true(w->out.health != LEASE_HEALTH_NONE || text_is_empty(w->out.message));
    /* Never two requests at a time. */
    assert_false(w->out.action != RENEWER_NONE && under_way != RENEWER_NONE &&
                 event.kind != RENEWER_ANSWER && !w->out.cancel);
    if (w->out.action == RENEWER_PUT_RENEWAL || w->out.action == RENEWER_CREATE) {
        (void)snprintf(w->stamp, sizeof(w->stamp), "stamp-%u", ++w->puts);
    }
}

static inline void world_init(struct world *w, const struct renewer_config *config)
{
    *w = (struct world){.lease = {.ns = "ovn-kubernetes",
                                  .name = "ovn-dpu-w1",
                                  .uid = "uid-1",
                                  .resource_version = "1",
                                  .holder = "ovnkube-dpu-node",
                                  .duration_s = 40}};
    renewer_init(&w->r, config);
}

static inline void world_tick(struct world *w, struct mono now)
{
    world_step(w, (struct renewer_event){.kind = RENEWER_TICK, .now = now});
}

static inline void world_verdict(struct world *w, struct mono now, enum probe_health verdict,
                                 const char *message)
{
    world_step(w, (struct renewer_event){
                      .kind = RENEWER_VERDICT, .now = now, .verdict = verdict, .message = message});
}

static inline void world_healthy(struct world *w, struct mono now)
{
    world_verdict(w, now, PROBE_HEALTHY, "");
}

/* The request under way succeeds. */
static inline void world_ok(struct world *w, struct mono now)
{
    struct renewer_event event = {.kind = RENEWER_ANSWER,
                                  .now = now,
                                  .http_status = 200,
                                  .retry_after_ms = -1,
                                  .lease = &w->lease};
    assert_int_not_equal(w->r.under_way, RENEWER_NONE);
    if (w->r.under_way == RENEWER_PUT_RENEWAL) {
        event.sent_stamp = w->stamp;
        (void)text_copy(w->lease.renew_stamp, sizeof(w->lease.renew_stamp), w->stamp);
    }
    world_step(w, event);
}

/* The lease is made, with a renewal. */
static inline void world_created(struct world *w, struct mono now)
{
    assert_int_equal(w->r.under_way, RENEWER_CREATE);
    (void)text_copy(w->lease.renew_stamp, sizeof(w->lease.renew_stamp), w->stamp);
    world_step(w, (struct renewer_event){.kind = RENEWER_ANSWER,
                                         .now = now,
                                         .http_status = 201,
                                         .retry_after_ms = -1,
                                         .lease = &w->lease,
                                         .sent_stamp = w->stamp});
}

/* The request under way fails; `status` 0: no answer. */
static inline void world_fail(struct world *w, struct mono now, int code, int status,
                              int64_t retry_after_ms)
{
    assert_int_not_equal(w->r.under_way, RENEWER_NONE);
    world_step(w, (struct renewer_event){
                      .kind = RENEWER_ANSWER,
                      .now = now,
                      .code = code,
                      .http_status = status,
                      .retry_after_ms = retry_after_ms,
                      .message = "the server said no",
                      .sent_stamp = w->r.under_way == RENEWER_PUT_RENEWAL ? w->stamp : NULL});
}

static inline void world_conflict(struct world *w, struct mono now)
{
    world_fail(w, now, ERR_CONFLICT, 409, -1);
}

static inline void world_stop(struct world *w, struct mono now)
{
    world_step(w, (struct renewer_event){.kind = RENEWER_STOP, .now = now});
}

/* Healthy since 0, lease read at once, first renewal answered at 0.1. */
static inline void world_renewing(struct world *w)
{
    struct renewer_config config = world_config();
    world_init(w, &config);
    world_tick(w, SEC(0));
    world_healthy(w, SEC(0));
    world_ok(w, SEC(0.05));
    world_ok(w, SEC(0.1));
}

static inline void expect_action(const struct world *w, enum renewer_action action)
{
    static const char *const names[] = {"none", "GET", "PUT renewal", "PUT health", "create"};
    if (w->out.action != action) {
        fail_msg("action is '%s', expected '%s'", names[w->out.action], names[action]);
    }
}

static inline const char *world_note(const struct world *w, enum renewer_note_kind kind)
{
    for (size_t i = 0; i < w->out.note_count; i++) {
        if (w->out.notes[i].kind == kind) {
            return w->out.notes[i].text;
        }
    }
    return NULL;
}

static inline void announcing(struct world *w)
{
    struct renewer_config config = world_config();
    config.announce_shutdown = true;
    world_init(w, &config);
    world_healthy(w, SEC(0));
    world_ok(w, SEC(0.05));
    world_ok(w, SEC(0.1));
}

static inline void upstream_renews(struct world *w)
{
    (void)snprintf(w->lease.renew_stamp, sizeof(w->lease.renew_stamp), "upstream-%u", ++w->puts);
}

/* Healthy since 0, upstream's second renewal seen at 10. */
static inline void accompanying(struct world *w)
{
    struct renewer_config config = world_config();
    config.is_companion = true;
    config.announce_shutdown = true;
    world_init(w, &config);
    upstream_renews(w);
    world_tick(w, SEC(0));
    world_ok(w, SEC(0.05));
    world_healthy(w, SEC(0.1));
    expect_action(w, RENEWER_GET);
    world_ok(w, SEC(0.15));
    expect_action(w, RENEWER_NONE);
    assert_false(w->out.renewed); /* the first look is a baseline */
    upstream_renews(w);
    world_tick(w, SEC(10.2));
    expect_action(w, RENEWER_GET);
    world_ok(w, SEC(10.25));
    assert_true(w->out.renewed);
    assert_non_null(world_note(w, RENEWER_NOTE_RENEWING));
}

#endif
