/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More of the world of api_world.h: requests time out when a case lets time pass, what is said is
 * kept, and answers are as the client gives them. Include it in one test program only.
 */
#ifndef TESTS_UNIT_LOOP_WORLD_H
#define TESTS_UNIT_LOOP_WORLD_H

#include "tests/unit/api_world.h"

#include <sys/mman.h>
#include <unistd.h>

static struct loop_world {
    int log_fd; /* what was said */
} loop_world;

#define LOOP_WORLD ((struct ev_loop *)&loop_world)

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

#endif
