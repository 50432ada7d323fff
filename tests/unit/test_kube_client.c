/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "kube/kube_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SENT = KUBE_BUCKET_BURST, ALL = KUBE_BUCKET_BURST + KUBE_WAITING_MAX };

struct done {
    struct kube_response last;
    int count;
    struct mono at[2 * ALL];
};

/* Nobody listens there. */
static struct kube_client *new_client(void)
{
    struct kube_conf conf = {.server = strdup("http://127.0.0.1:1")};
    struct kube_client *client = NULL;
    assert_int_equal(kube_client_new(ev_default_loop(0), &conf, &client, NULL), 0);
    return client;
}

static void on_done(void *user, const struct kube_response *response)
{
    struct done *d = user;
    d->at[d->count++] = response->sent_at;
    d->last = *response;
}

static struct kube_call *start(struct kube_client *client, enum kube_priority priority,
                               struct done *done, struct err *e)
{
    struct kube_call *call = NULL;
    const struct kube_request request = {.method = KUBE_GET, .priority = priority, .path = "/x"};
    return kube_client_start(client, &request, on_done, done, &call, e) == 0 ? call : NULL;
}

static void what_is_too_much_waits_and_the_queue_is_bounded(void **state)
{
    struct kube_call *call = NULL;
    struct err e = ERR_INIT;
    struct done done = {.count = 0};
    (void)state;
    struct kube_client *client = new_client();
    for (int i = 0; i < SENT; i++) {
        assert_non_null(start(client, KUBE_ORDINARY, &done, &e));
    }
    assert_int_equal(kube_client_delayed(client), 0);
    assert_false(ev_is_active(&client->pace));
    for (int i = SENT; i < ALL; i++) {
        call = start(client, KUBE_ORDINARY, &done, &e);
        assert_non_null(call);
    }
    assert_int_equal(kube_client_delayed(client), KUBE_WAITING_MAX);
    assert_true(ev_is_active(&client->pace));
    assert_null(start(client, KUBE_ORDINARY, &done, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    assert_string_equal(e.msg, "32 requests wait for their turn already");
    assert_non_null(start(client, KUBE_URGENT, &done, &e));
    assert_int_equal(kube_client_delayed(client), KUBE_WAITING_MAX);
    kube_call_cancel(call); /* makes room */
    assert_non_null(start(client, KUBE_ORDINARY, &done, &e));
    kube_client_free(client);
    assert_int_equal(done.count, 0);
}

/* The deadline and the evidence count from when a request is really sent. */
static void who_waits_is_sent_in_its_turn(void **state)
{
    struct err e = ERR_INIT;
    struct done early = {.count = 0};
    struct done late = {.count = 0};
    struct done urgent = {.count = 0};
    (void)state;
    struct kube_client *client = new_client();
    struct mono begin = clock_mono_now();
    for (int i = 0; i < SENT; i++) {
        assert_non_null(start(client, KUBE_ORDINARY, &early, &e));
    }
    assert_non_null(start(client, KUBE_ORDINARY, &late, &e));
    assert_non_null(start(client, KUBE_URGENT, &urgent, &e));
    while (late.count == 0) {
        (void)ev_run(client->loop, EVRUN_ONCE);
        assert_true(mono_since(clock_mono_now(), begin) < 30 * NS_PER_SEC);
    }
    assert_int_equal(early.count, SENT);
    assert_int_equal(urgent.count, 1);
    assert_true(mono_since(urgent.at[0], begin) < mono_since(late.at[0], begin));
    assert_true(mono_since(late.at[0], begin) >= KUBE_BUCKET_REFILL_NS);
    assert_int_equal(late.last.loss, KUBE_LOSS_CONNECT);
    assert_int_equal(late.last.outcome, KUBE_NO_CONTACT);
    kube_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_too_much_waits_and_the_queue_is_bounded),
        cmocka_unit_test(who_waits_is_sent_in_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
