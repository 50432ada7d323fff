/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world around what writes to the API server: the clock, the timer and the client
 * are ours, put in place of the real ones when linking, so that time passes when a case says so and
 * requests are answered by hand. Include it in one test program only.
 */
#ifndef TESTS_UNIT_API_WORLD_H
#define TESTS_UNIT_API_WORLD_H

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "contract/readiness.h"
#include "loop/daemon.h"
#include "tests/unit/api_client.h"

#define WORLD_BOOT_NS (1000 * NS_PER_SEC)
#define WORLD_WALL_NS (INT64_C(1700000000) * NS_PER_SEC)

struct boot_timer {
    boot_timer_fn *fire;
    void *user;
    struct mono deadline;
};

/* cmocka's cases have no other way to reach it from the functions that are replaced. */
static struct api_world {
    struct mono now;
    struct boot_timer timer;
    bool has_timer;
    struct kube_client client;
} world;

struct mono clock_mono_now(void)
{
    return world.now;
}

struct wall clock_wall_now(void)
{
    return (struct wall){WORLD_WALL_NS + world.now.ns - WORLD_BOOT_NS};
}

int64_t clock_boottime_offset_ns(void)
{
    return 0;
}

struct boot_timer *boot_timer_new(struct ev_loop *loop, boot_timer_fn *fire, void *user)
{
    assert_false(world.has_timer);
    world.has_timer = true;
    world.timer = (struct boot_timer){.fire = fire, .user = user, .deadline = MONO_NEVER};
    return &world.timer;
}

void boot_timer_arm(struct boot_timer *t, struct mono deadline)
{
    t->deadline = deadline;
}

void boot_timer_free(struct boot_timer *t)
{
    assert_true(!t || world.has_timer);
    world.has_timer = false;
}

static inline void world_start(void)
{
    world = (struct api_world){.now = {WORLD_BOOT_NS}};
    log_setup(LOG_ERROR, LOG_TEXT, "");
}

/* Lets time pass and the timer fire, as often as it wants to. */
static inline void world_pass(int64_t span_ns)
{
    struct mono end = mono_add(world.now, span_ns);
    while (world.has_timer && mono_reached(end, world.timer.deadline)) {
        world.now = mono_max(world.now, world.timer.deadline);
        world.timer.deadline = MONO_NEVER;
        world.timer.fire(world.timer.user);
    }
    world.now = end;
}

/* Answers the request under way; `body` as JSON, or NULL. */
static inline void world_answer_reason(int http_status, const char *body, const char *reason)
{
    CLEANUP(json) json_t *json = body ? json_loads(body, 0, NULL) : NULL;
    struct kube_response r = {
        .http_status = http_status, .body = json, .sent_at = world.now, .received_at = world.now};
    r.code = http_status >= 200 && http_status < 300 ? 0 : ERR_RETRY;
    (void)text_copy(r.reason, sizeof(r.reason), reason);
    (void)text_copy(r.message, sizeof(r.message), r.code == 0 ? "" : "told by the test");
    client_answer(&world.client, &r);
}

static inline void world_answer(int http_status, const char *body)
{
    world_answer_reason(http_status, body, "");
}

static inline void world_expect(enum kube_method method, const char *path)
{
    assert_true(world.client.is_busy);
    assert_int_equal(world.client.method, method);
    assert_string_equal(world.client.path, path);
}

static inline struct readiness world_verdict(enum readiness_state state,
                                             enum readiness_reason reason, const char *message)
{
    struct readiness v = {.state = state,
                          .admit = state == READINESS_READY,
                          .reason = reason,
                          .transition = clock_wall_now()};
    (void)text_copy(v.message, sizeof(v.message), message);
    return v;
}

#endif
