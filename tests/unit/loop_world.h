/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libev's timers in the world of api_world.h: they fire when a case lets time pass. What is
 * said is kept, and answers are as the client gives them. Include it in one test program only.
 */
#ifndef TESTS_UNIT_LOOP_WORLD_H
#define TESTS_UNIT_LOOP_WORLD_H

#include "tests/unit/api_world.h"

#include <ev.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LOOP_TIMERS_MAX = 4 };

static struct loop_world {
    int log_fd;                        /* what was said */
    ev_timer *timers[LOOP_TIMERS_MAX]; /* `active` is the place + 1 */
    struct mono due[LOOP_TIMERS_MAX];
} loop_world;

#define LOOP_WORLD ((struct ev_loop *)&loop_world)

void ev_timer_start(struct ev_loop *loop, ev_timer *timer)
{
    assert_ptr_equal(loop, LOOP_WORLD);
    for (int i = 0; i < LOOP_TIMERS_MAX && !timer->active; i++) {
        if (!loop_world.timers[i]) {
            loop_world.timers[i] = timer;
            loop_world.due[i] = mono_add(world.now, (int64_t)(timer->at * 1e9));
            timer->active = i + 1;
        }
    }
    assert_true(timer->active);
}

void ev_timer_stop(struct ev_loop *loop, ev_timer *timer)
{
    assert_ptr_equal(loop, LOOP_WORLD);
    if (timer->active) {
        loop_world.timers[timer->active - 1] = NULL;
        timer->active = 0;
    }
}

void ev_now_update(struct ev_loop *loop)
{
    (void)loop;
}

static inline void loop_world_start(void)
{
    world_start();
    if (loop_world.log_fd > 0) {
        (void)close(loop_world.log_fd);
    }
    loop_world = (struct loop_world){.log_fd = memfd_create("log", MFD_CLOEXEC)};
    assert_true(loop_world.log_fd > 0);
    log_setup(LOG_INFO, LOG_TEXT, "");
    log_set_fd(loop_world.log_fd);
}

/* How often it was said. */
static inline int loop_world_said(const char *words)
{
    static char text[1 << 16];
    ssize_t len = pread(loop_world.log_fd, text, sizeof(text) - 1, 0);
    int count = 0;
    assert_true(len >= 0 && len < (ssize_t)sizeof(text) - 1);
    text[len] = '\0';
    for (const char *at = strstr(text, words); at; at = strstr(at + 1, words)) {
        count++;
    }
    return count;
}

/* Until the next timer; negative: none runs. */
static inline int64_t loop_world_wait_ns(void)
{
    int64_t wait_ns = -1;
    for (size_t i = 0; i < LOOP_TIMERS_MAX; i++) {
        int64_t left_ns = mono_since(loop_world.due[i], world.now);
        if (loop_world.timers[i] && (wait_ns < 0 || left_ns < wait_ns)) {
            wait_ns = left_ns < 0 ? 0 : left_ns;
        }
    }
    return wait_ns;
}

/* Lets time pass and the timers fire. */
static inline void loop_world_pass(int64_t span_ns)
{
    struct mono end = mono_add(world.now, span_ns);
    for (int64_t wait_ns = loop_world_wait_ns();
         wait_ns >= 0 && !mono_before(end, mono_add(world.now, wait_ns));
         wait_ns = loop_world_wait_ns()) {
        world.now = mono_add(world.now, wait_ns);
        for (size_t i = 0; i < LOOP_TIMERS_MAX; i++) {
            ev_timer *timer = loop_world.timers[i];
            if (timer && !mono_before(world.now, loop_world.due[i])) {
                ev_timer_stop(LOOP_WORLD, timer);
                timer->cb(LOOP_WORLD, timer, EV_TIMER);
            }
        }
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
                              .retry_after_ms = -1,
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

#endif
