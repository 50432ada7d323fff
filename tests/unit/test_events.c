/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/events.h"

#include "base/mem.h"
#include "tests/unit/api_world.h"

#define EVENTS "/apis/events.k8s.io/v1/namespaces/default/events"

static struct events *start(const struct readiness *carried)
{
    struct events *s;
    world_start();
    assert_int_equal(events_new(NULL, &world.client, "w1", carried, &s, NULL), 0);
    return s;
}

static struct events *start_ready(void)
{
    world_start();
    const struct readiness ready = world_verdict(READINESS_READY, REASON_LEASE_RENEWED, "renews");
    struct events *s = start(&ready);
    events_publish(s, &ready);
    world_pass(10 * NS_PER_SEC);
    assert_int_equal(world.client.requests, 0);
    return s;
}

static void publish(struct events *s, enum readiness_state state, enum readiness_reason reason)
{
    const struct readiness v = world_verdict(state, reason, "because");
    events_publish(s, &v);
}

static void expire(struct events *s)
{
    publish(s, READINESS_NOT_READY, REASON_LEASE_EXPIRED);
}

static void renew(struct events *s)
{
    publish(s, READINESS_READY, REASON_LEASE_RENEWED);
}

static void a_change_is_one_request(void **state)
{
    (void)state;
    struct events *s = start_ready();
    expire(s);
    world_expect(KUBE_POST, EVENTS);
    world_answer(201, "{}");
    assert_false(world.client.is_busy);
    assert_int_equal(events_stats(s).created, 1);
    renew(s);
    events_free(s); /* ends what is under way */
    assert_false(world.client.is_busy);
    assert_false(world.has_timer);
}

static void count(void *user, const struct event_change *change)
{
    int *counted = user;
    assert_int_equal(change->reason, REASON_LEASE_EXPIRED);
    (*counted)++;
}

static void what_each_answer_leads_to(void **state)
{
    (void)state;
    static const struct {
        int http_status;
        const char *reason;
        int64_t quiet_s; /* no further request for so long */
        int64_t again_s; /* but one by then; 0: never */
        int written;
    } rows[] = {
        {201, "", 1000, 0, 1},           {409, "AlreadyExists", 1000, 0, 1},
        {409, "Conflict", 0, 2, 0},      {0, "", 0, 2, 0},
        {401, "Unauthorized", 0, 2, 0},  {403, "Forbidden", 299, 301, 0},
        {404, "NotFound", 299, 301, 0},  {422, "Invalid", 1000, 0, 0},
        {400, "BadRequest", 1000, 0, 0}, {429, "TooManyRequests", 0, 2, 0},
        {500, "InternalError", 0, 2, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int written = 0;
        struct events *s = start_ready();
        events_on_written(s, count, &written);
        expire(s);
        world_answer_reason(rows[i].http_status, NULL, rows[i].reason);
        assert_false(world.client.is_busy);
        assert_int_equal(written, rows[i].written);
        world_pass(rows[i].quiet_s * NS_PER_SEC);
        assert_false(world.client.is_busy);
        if (rows[i].again_s > 0) {
            world_pass((rows[i].again_s - rows[i].quiet_s) * NS_PER_SEC);
            world_expect(KUBE_POST, EVENTS);
        }
        events_free(s);
    }
}

static void a_server_that_stays_away_is_asked_less_and_less_often(void **state)
{
    (void)state;
    struct events *s = start_ready();
    expire(s);
    for (int second = 0; second < 3600; second++) {
        if (world.client.is_busy) {
            world_answer(0, NULL);
        }
        world_pass(NS_PER_SEC);
    }
    assert_in_range(world.client.requests, 3600 / 30, 3600 / 3);
    if (!world.client.is_busy) {
        world_pass(31 * NS_PER_SEC);
    }
    world_answer(201, "{}");
    assert_int_equal(events_stats(s).created, 1);
    events_free(s);
}

static void a_request_that_cannot_start_is_tried_again(void **state)
{
    (void)state;
    struct events *s = start_ready();
    world.client.refuses = true;
    expire(s);
    assert_int_equal(events_stats(s).failed, 1);
    world.client.refuses = false;
    world_pass(2 * NS_PER_SEC);
    world_expect(KUBE_POST, EVENTS);
    events_free(s);
}

static void changes_while_a_request_hangs_are_written_after_it(void **state)
{
    (void)state;
    struct events *s = start_ready();
    expire(s);
    renew(s);
    expire(s);
    assert_int_equal(world.client.requests, 1);
    world_answer(201, "{}"); /* the first LeaseExpired */
    assert_string_equal(json_text_get(world.client.body, "reason"), "LeaseRenewed");
    world_answer(201, "{}");
    world_answer(201, "{}"); /* the second LeaseExpired */
    assert_false(world.client.is_busy);
    assert_int_equal(events_stats(s).created, 3);
    events_free(s);
}

static void without_memory_for_a_body_it_is_tried_again(void **state)
{
    (void)state;
    for (int left = 0; left < 60; left++) {
        struct events *s = start_ready();
        json_set_alloc_funcs(world_json_malloc, free);
        world.json_left = left;
        expire(s);
        world.json_left = -1;
        for (int i = 0; i < 10 && events_stats(s).created == 0; i++) {
            if (world.client.is_busy) {
                world_answer(201, NULL);
            }
            world_pass(2 * NS_PER_SEC);
        }
        assert_int_equal(events_stats(s).created, 1);
        events_free(s);
        json_set_alloc_funcs(malloc, free);
    }
}

static void a_node_name_that_is_too_long_is_refused(void **state)
{
    (void)state;
    char name[NAMES_K8S_NAME_BYTES + 1];
    struct events *s = NULL;
    struct err e = ERR_INIT;
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    world_start();
    assert_int_equal(events_new(NULL, &world.client, name, NULL, &s, &e), ERR_LIMIT);
    events_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_one_request),
        cmocka_unit_test(what_each_answer_leads_to),
        cmocka_unit_test(a_server_that_stays_away_is_asked_less_and_less_often),
        cmocka_unit_test(a_request_that_cannot_start_is_tried_again),
        cmocka_unit_test(changes_while_a_request_hangs_are_written_after_it),
        cmocka_unit_test(without_memory_for_a_body_it_is_tried_again),
        cmocka_unit_test(a_node_name_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
