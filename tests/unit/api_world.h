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

#include <sys/mman.h>
#include <unistd.h>

#define WORLD_BOOT_NS (1000 * NS_PER_SEC)
#define WORLD_WALL_NS (INT64_C(1700000000) * NS_PER_SEC)

struct boot_timer {
    boot_timer_fn *fire; /* NULL: it is free */
    void *user;
    struct mono deadline;
};

/* cmocka's cases have no other way to reach it from the functions that are replaced. */
static struct api_world {
    struct mono now;
    struct boot_timer timer;  /* the first that was made */
    struct boot_timer second; /* of a module beside */
    struct kube_client client;
    int log_fd; /* what was said; 0: it is not kept */
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
    struct boot_timer *t = world.timer.fire ? &world.second : &world.timer;
    assert_null(t->fire);
    *t = (struct boot_timer){.fire = fire, .user = user, .deadline = MONO_NEVER};
    return t;
}

void boot_timer_arm(struct boot_timer *t, struct mono deadline)
{
    t->deadline = deadline;
}

void boot_timer_free(struct boot_timer *t)
{
    if (t) {
        assert_non_null(t->fire);
        *t = (struct boot_timer){.deadline = MONO_NEVER};
    }
}

static inline void world_start(void)
{
    world = (struct api_world){.now = {WORLD_BOOT_NS}, .timer.deadline = MONO_NEVER};
    log_setup(LOG_ERROR, LOG_TEXT, "");
}

/* The timer that is due first, by then; or NULL. */
static inline struct boot_timer *world_due(struct mono end)
{
    bool is_second = world.second.fire && mono_before(world.second.deadline, world.timer.deadline);
    struct boot_timer *t = is_second ? &world.second : &world.timer;
    return t->fire && mono_reached(end, t->deadline) ? t : NULL;
}

/* Lets time pass and timers fire, as often as they want to. */
static inline void world_pass(int64_t span_ns)
{
    struct mono end = mono_add(world.now, span_ns);
    struct boot_timer *t;
    while ((t = world_due(end)) != NULL) {
        world.now = mono_max(world.now, t->deadline);
        t->deadline = MONO_NEVER;
        t->fire(t->user);
    }
    world.now = end;
}

/* What the client makes of an answer; `body` is borrowed. */
static inline struct kube_response loop_world_response(int http_status, json_t *body)
{
    bool is_well = http_status >= 200 && http_status < 300;
    struct kube_response r = {.http_status = http_status,
                              .body = body,
                              .outcome = http_status == 0 ? KUBE_NO_CONTACT : KUBE_ANSWERED,
                              .sent_at = world.now,
                              .received_at = world.now,
                              .received_wall = clock_wall_now()};
    r.code = is_well              ? 0
             : http_status == 404 ? ERR_NOTFOUND
             : http_status == 409 ? ERR_CONFLICT
             : http_status == 403 ? ERR_AUTH
                                  : ERR_RETRY;
    (void)text_copy(r.reason, sizeof(r.reason), http_status == 404 ? "NotFound" : "");
    (void)text_copy(r.message, sizeof(r.message), is_well ? "" : "told by the test");
    return r;
}

/* Answers the request under way; `body` as JSON, or NULL. */
static inline void world_answer_reason(int http_status, const char *body, const char *reason)
{
    CLEANUP(json) json_t *json = body ? json_loads(body, 0, NULL) : NULL;
    struct kube_response r = loop_world_response(http_status, json);
    (void)text_copy(r.reason, sizeof(r.reason), reason);
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

static inline struct readiness world_health(enum readiness_state state,
                                            enum readiness_reason reason, const char *message)
{
    struct readiness v = {.state = state,
                          .admit = state == READINESS_READY,
                          .reason = reason,
                          .transition = clock_wall_now()};
    (void)text_copy(v.message, sizeof(v.message), message);
    return v;
}

/* ---- what is said, and requests that time out ------------------------------------------------ */

#define LOOP_WORLD ((struct ev_loop *)&world)

/* As world_start(); what is said is kept, and requests are told of as timed out. */
static inline void loop_world_start(void)
{
    int log_fd = world.log_fd;
    world_start();
    if (log_fd > 0) {
        (void)close(log_fd);
    }
    world.log_fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(world.log_fd > 0);
    log_setup(LOG_INFO, LOG_TEXT, "");
    log_set_fd(world.log_fd);
}

/* How often it was said. */
static inline int loop_world_said(const char *words)
{
    static char text[1 << 16];
    ssize_t len = pread(world.log_fd, text, sizeof(text) - 1, 0);
    int count = 0;
    assert_true(len >= 0 && len < (ssize_t)sizeof(text) - 1);
    text[len] = '\0';
    for (const char *at = strstr(text, words); at; at = strstr(at + 1, words)) {
        count++;
    }
    return count;
}

/* The request that times out first, by then; or NULL. */
static inline struct kube_call *loop_world_due(struct mono end)
{
    struct kube_call *first = NULL;
    for (size_t i = 0; i < ARRAY_LEN(world.client.calls); i++) {
        struct kube_call *call = &world.client.calls[i];
        if (call->client && mono_reached(end, call->due) &&
            (!first || mono_before(call->due, first->due))) {
            first = call;
        }
    }
    return first;
}

/* Lets time pass and requests time out. */
static inline void loop_world_pass(int64_t span_ns)
{
    struct mono end = mono_add(world.now, span_ns);
    struct kube_call *call;
    while ((call = loop_world_due(end)) != NULL) {
        world.now = mono_max(world.now, call->due);
        client_expire(call);
    }
    world.now = end;
}

#endif
