/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_question.h"

#include "tests/unit/loop_world.h"

enum { DUE_MS = 5000, LASTS_MS = 30000, TOLD_MAX = 4 };

#define DUE_NS (DUE_MS * NS_PER_MS)

static struct {
    struct kube_question question;
    struct kube_response told[TOLD_MAX];
    int count;
    int late;
} t;

static void on_done(void *user, const struct kube_response *r)
{
    assert_ptr_equal(user, &t);
    assert_false(kube_question_is_awaited(&t.question));
    t.told[t.count++ % TOLD_MAX] = *r;
}

static void on_late(void *user, const struct kube_response *r)
{
    assert_ptr_equal(user, &t);
    assert_int_equal(r->http_status, 200);
    t.late++;
}

static void ask(void)
{
    const struct kube_request request = {
        .method = KUBE_PUT, .channel = KUBE_FRESH, .path = "/x", .deadline_ms = LASTS_MS};
    assert_int_equal(kube_question_ask(&t.question, &request, DUE_MS, NULL), 0);
    assert_true(kube_question_is_awaited(&t.question));
    assert_int_equal(world.client.deadline_ms, LASTS_MS);
}

static void start(void)
{
    memset(&t, 0, sizeof(t));
    loop_world_start();
    world.client.may_be_fresh = true;
    kube_question_init(&t.question, LOOP_WORLD, &world.client, on_done, on_late, &t);
    ask();
}

static void stop(void)
{
    kube_question_drop(&t.question);
    assert_true(!world.client.calls[0].client && !world.client.calls[1].client);
    assert_true(loop_world_wait_ns() < 0);
}

static void answer(struct kube_call *call, int http_status)
{
    struct kube_response r = loop_world_response(http_status, NULL);
    client_answer_call(call, &r);
}

static void an_answer_in_time_is_all(void **state)
{
    (void)state;
    start();
    loop_world_pass(DUE_NS - 1);
    answer(world.client.newest, 200);
    assert_int_equal(t.told[0].http_status, 200);
    loop_world_pass(DUE_NS);
    assert_int_equal(t.count, 1);
    stop();
}

static void what_is_not_answered_in_time_goes_on_beside_the_next(void **state)
{
    (void)state;
    start();
    struct mono asked = world.now;
    loop_world_pass(DUE_NS);
    assert_int_equal(t.told[0].transport_error, KUBE_TRANSPORT_TIMEOUT);
    assert_int_equal(t.told[0].outcome, KUBE_NO_CONTACT);
    assert_int_equal(t.told[0].code, ERR_RETRY);
    assert_int_equal(t.told[0].sent_at.ns, asked.ns);
    assert_string_equal(t.told[0].message, "no answer within 5s");
    ask();
    answer(&world.client.calls[0], 200);
    assert_int_equal(t.late, 1);
    assert_int_equal(t.count, 1);
    answer(&world.client.calls[1], 200); /* it is waited for still */
    assert_int_equal(t.count, 2);
    stop();
}

static void there_is_one_late_one_the_oldest(void **state)
{
    (void)state;
    start();
    for (int i = 1; i < 4; i++) {
        loop_world_pass(DUE_NS);
        assert_int_equal(t.count, i);
        assert_non_null(world.client.calls[0].client);
        assert_null(world.client.calls[1].client);
        ask();
    }
    answer(&world.client.calls[0], 200);
    assert_int_equal(t.late, 1);
    stop();
}

static void an_answer_ends_the_late_one_and_a_failure_does_not(void **state)
{
    static const struct {
        int http_status;
        bool is_left;
    } rows[] = {{200, false}, {409, false}, {404, false}, {0, true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        start();
        loop_world_pass(DUE_NS);
        ask();
        answer(&world.client.calls[1], rows[i].http_status);
        assert_int_equal(t.count, 2);
        assert_true((world.client.calls[0].client != NULL) == rows[i].is_left);
        stop();
        assert_int_equal(t.late, 0);
    }
}

static void a_late_failure_is_no_news(void **state)
{
    (void)state;
    start();
    loop_world_pass(DUE_NS);
    answer(&world.client.calls[0], 0);
    assert_int_equal(t.late, 0);
    assert_int_equal(t.count, 1);
    ask();
    loop_world_pass(DUE_NS);
    answer(&world.client.calls[0], 200); /* there is room for a late one again */
    assert_int_equal(t.late, 1);
    stop();
}

static void one_that_cannot_start_is_none(void **state)
{
    const struct kube_request request = {.path = "/x"};
    (void)state;
    start();
    loop_world_pass(DUE_NS);
    world.client.refuses = true;
    assert_int_not_equal(kube_question_ask(&t.question, &request, DUE_MS, NULL), 0);
    assert_false(kube_question_is_awaited(&t.question));
    loop_world_pass(DUE_NS);
    assert_int_equal(t.count, 1);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_in_time_is_all),
        cmocka_unit_test(what_is_not_answered_in_time_goes_on_beside_the_next),
        cmocka_unit_test(there_is_one_late_one_the_oldest),
        cmocka_unit_test(an_answer_ends_the_late_one_and_a_failure_does_not),
        cmocka_unit_test(a_late_failure_is_no_news),
        cmocka_unit_test(one_that_cannot_start_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
