/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/lease_watch.h"

#include "host-agent/lease_keeper.h"
#include "tests/unit/loop_world.h"

#define LEASES     "/apis/coordination.k8s.io/v1/namespaces/ovn/leases"
#define LEASE      LEASES "/ovn-dpu-w1"
#define CONTROL    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/w1"
#define SECONDS(n) ((int64_t)((n)*1e9))

enum { EVENTS_MAX = 8, DEADLINE_MS = 5000 };

static struct {
    struct lease_watch *watch;
    struct expiry_event events[EVENTS_MAX];
    struct lease_view lease; /* of the last event that has one */
    char failure[EXPIRY_FAILURE_BYTES];
    size_t count;
    size_t kept; /* states that the keeper saw */
} t;

void lease_keeper_look(struct lease_keeper *k, const json_t *lease)
{
    assert_ptr_equal(k, &t);
    assert_non_null(lease);
    assert_true(t.count == 0 || t.events[t.count - 1].kind != EXPIRY_LEASE_OBSERVED);
    t.kept++;
}

uint64_t kube_watch_opened(const struct kube_watch *watch)
{
    assert_non_null(watch);
    return 3;
}

static void on_event(void *user, struct expiry_event event)
{
    assert_ptr_equal(user, &t);
    assert_true(t.count < EVENTS_MAX);
    t.events[t.count++] = event;
    if (event.lease) {
        t.lease = *event.lease;
    }
    (void)text_copy(t.failure, sizeof(t.failure), event.failure ? event.failure : "");
}

static void start(void)
{
    const struct lease_watch_config config = {.ns = "ovn",
                                              .name = "ovn-dpu-w1",
                                              .node = "w1",
                                              .renew_interval_ns = SECONDS(10),
                                              .confirm_deadline_ms = DEADLINE_MS,
                                              .keeper = (struct lease_keeper *)&t,
                                              .on_event = on_event,
                                              .user = &t};
    memset(&t, 0, sizeof(t));
    loop_world_start();
    world.client.may_be_fresh = true;
    assert_int_equal(lease_watch_start(LOOP_WORLD, &world.client, &config, &t.watch, NULL), 0);
    assert_true(world.client.is_watching);
    assert_string_equal(world.client.watch.collection_path, LEASES);
    assert_string_equal(world.client.watch.name, "ovn-dpu-w1");
    /* one bookmark a minute may be late, and no second one is waited for */
    assert_in_range(world.client.watch.silence_ns, SECONDS(61), SECONDS(119));
}

static void stop(void)
{
    lease_watch_stop(t.watch);
    assert_false(world.client.is_busy || world.client.is_watching);
    assert_true(loop_world_wait_ns() < 0);
}

static json_t *lease(const char *ns, const char *name)
{
    return json_pack("{s:{s:s, s:s, s:s, s:s}, s:{s:s, s:s, s:i}}", "metadata", "name", name,
                     "namespace", ns, "uid", "u1", "resourceVersion", "5", "spec", "renewTime",
                     "2023-11-14T22:13:20.000000Z", "holderIdentity", "h", "leaseDurationSeconds",
                     40);
}

static json_t *ours(void)
{
    return lease("ovn", "ovn-dpu-w1");
}

static void answer(int http_status, json_t *body)
{
    CLEANUP(json) json_t *owned = body;
    struct kube_response r = loop_world_response(http_status, owned);
    client_answer(&world.client, &r);
}

static void show(json_t *object, bool listed)
{
    CLEANUP(json) json_t *owned = object;
    const struct kube_watch_config *watch = &world.client.watch;
    watch->on_object(watch->user, object ? KUBE_WATCH_PRESENT : KUBE_WATCH_ABSENT, owned, listed,
                     listed ? world.now : (struct mono){0});
}

static void contact(void)
{
    world.client.watch.on_contact(world.client.watch.user);
}

static void break_off(void)
{
    struct kube_response r = loop_world_response(500, NULL);
    world.client.watch.on_failure(world.client.watch.user, &r);
}

static void deny(void)
{
    struct kube_response r = loop_world_response(403, NULL);
    world.client.watch.on_denied(world.client.watch.user, &r);
}

/* These, in this order, all by `source`; and forgets them. */
static void expect(enum expiry_source source, enum expiry_event_kind first, int second)
{
    assert_int_equal(t.count, second >= 0 ? 2 : 1);
    assert_int_equal(t.events[0].kind, first);
    assert_int_equal(t.events[0].source, source);
    if (second >= 0) {
        assert_int_equal(t.events[1].kind, second);
        assert_int_equal(t.events[1].source, source);
    }
    t.count = 0;
}

enum { NONE = -1 };

/* ---- list and watch -------------------------------------------------------------------------- */

static void a_list_is_a_read_and_a_watch_is_none(void **state)
{
    (void)state;
    start();
    show(ours(), true);
    assert_int_equal(t.events[1].started_at.ns, world.now.ns);
    expect(EXPIRY_BY_READ, EXPIRY_LEASE_OBSERVED, EXPIRY_READ_OK);
    assert_string_equal(t.lease.name, "ovn-dpu-w1");
    show(NULL, true);
    expect(EXPIRY_BY_READ, EXPIRY_LEASE_ABSENT, EXPIRY_READ_OK);
    assert_int_equal(t.kept, 1);
    show(ours(), false);
    expect(EXPIRY_BY_WATCH, EXPIRY_LEASE_OBSERVED, NONE);
    show(NULL, false);
    expect(EXPIRY_BY_WATCH, EXPIRY_LEASE_ABSENT, NONE);
    assert_int_equal(t.kept, 2);
    stop();
}

static void what_is_no_lease_of_ours_is_told_as_unreadable(void **state)
{
    json_t *const objects[] = {json_object(), lease("ovn", "ovn-dpu-w2"), lease("o", "ovn-dpu-w1")};
    (void)state;
    start();
    for (size_t i = 0; i < ARRAY_LEN(objects); i++) {
        show(objects[i], false);
        assert_true(strlen(t.failure) > 0);
        expect(EXPIRY_BY_WATCH, EXPIRY_LEASE_UNREADABLE, NONE);
    }
    assert_int_equal(t.kept, 0);
    assert_int_equal(loop_world_said("cannot be read"), 1); /* a minute */
    stop();
}

static void what_the_keeper_wrote_is_a_read(void **state)
{
    CLEANUP(json) json_t *written = ours();
    (void)state;
    start();
    lease_watch_saw(t.watch, written);
    expect(EXPIRY_BY_READ, EXPIRY_LEASE_OBSERVED, NONE);
    stop();
}

static void a_watch_that_fails_is_told_and_its_return_once(void **state)
{
    (void)state;
    start();
    contact();
    assert_int_equal(t.count, 0); /* nothing has failed */
    for (int i = 0; i < 2; i++) {
        break_off();
        expect(EXPIRY_BY_WATCH, EXPIRY_WATCH_BROKEN, NONE);
    }
    assert_int_equal(loop_world_said("reading it instead"), 1);
    contact();
    expect(EXPIRY_BY_WATCH, EXPIRY_WATCH_WORKS, NONE);
    contact();
    assert_int_equal(t.count, 0);
    assert_int_equal(loop_world_said("again"), 1);
    break_off(); /* too soon to be said, and then its end is not either */
    contact();
    assert_int_equal(loop_world_said("again"), 1);
    stop();
}

/* A list alone does not mean that we may watch. */
static void what_the_watch_shows_means_that_it_works(void **state)
{
    (void)state;
    start();
    break_off();
    t.count = 0;
    show(ours(), true);
    t.count = 0;
    contact();
    expect(EXPIRY_BY_WATCH, EXPIRY_WATCH_WORKS, NONE);
    break_off();
    t.count = 0;
    show(ours(), false);
    t.count = 0;
    contact();
    assert_int_equal(t.count, 0);
    stop();
}

static void a_watch_that_is_mistrusted_is_opened_anew(void **state)
{
    (void)state;
    start();
    lease_watch_restart(t.watch);
    lease_watch_restart(t.watch);
    assert_int_equal(world.client.watch_restarts, 2);
    assert_int_equal(loop_world_said("watching anew"), 1);
    deny();
    lease_watch_restart(t.watch); /* there is none */
    assert_int_equal(world.client.watch_restarts, 2);
    assert_int_equal(lease_watch_stats(t.watch).watches, 3);
    stop();
}

/* ---- reads ----------------------------------------------------------------------------------- */

static void an_answer_is_an_answer_whatever_it_is_worth(void **state)
{
    static const struct {
        int http_status;
        const char *body;
        const char *reason;
        enum expiry_event_kind told;
    } rows[] = {
        {404, NULL, "NotFound", EXPIRY_LEASE_ABSENT},
        {404, NULL, "", EXPIRY_LEASE_UNREADABLE}, /* a proxy's */
        {403, NULL, "NotFound", EXPIRY_LEASE_UNREADABLE},
        {500, NULL, "", EXPIRY_LEASE_UNREADABLE},
        {200, "{}", "", EXPIRY_LEASE_UNREADABLE},
        {200, NULL, "", EXPIRY_LEASE_UNREADABLE},
    };
    (void)state;
    start();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *body = rows[i].body ? json_loads(rows[i].body, 0, NULL) : NULL;
        lease_watch_confirm(t.watch);
        world_expect(KUBE_GET, LEASE);
        struct kube_response r = loop_world_response(rows[i].http_status, body);
        (void)text_copy(r.reason, sizeof(r.reason), rows[i].reason);
        loop_world_pass(SECONDS(1));
        client_answer(&world.client, &r);
        assert_int_equal(t.events[1].started_at.ns, world.now.ns - SECONDS(1));
        expect(EXPIRY_BY_CONFIRM, rows[i].told, EXPIRY_READ_OK);
        assert_int_equal(lease_watch_stats(t.watch).confirmed, i + 1);
    }
    lease_watch_confirm(t.watch);
    answer(200, ours());
    expect(EXPIRY_BY_CONFIRM, EXPIRY_LEASE_OBSERVED, EXPIRY_READ_OK);
    assert_int_equal(lease_watch_stats(t.watch).confirm_failed, 0);
    stop();
}

static void only_no_answer_is_lost_contact(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < 2; i++) {
        lease_watch_confirm(t.watch);
        answer(0, NULL);
        assert_string_equal(t.failure, "told by the test");
        expect(EXPIRY_BY_CONFIRM, EXPIRY_READ_FAILED, NONE);
    }
    assert_int_equal(lease_watch_stats(t.watch).confirm_failed, 2);
    assert_int_equal(lease_watch_stats(t.watch).confirmed, 0);
    assert_int_equal(loop_world_said("told by the test"), 1);
    stop();
}

/* Evidence: on a connection of its own, without waiting, with its deadline; one at a time. */
static void evidence_is_read_afresh(void **state)
{
    static void (*const asks[])(struct lease_watch *) = {lease_watch_confirm, lease_watch_look};
    static const char *const paths[] = {LEASE, CONTROL};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        start();
        asks[i](t.watch);
        asks[i](t.watch); /* it goes on */
        world_expect(KUBE_GET, paths[i]);
        assert_int_equal(world.client.channel, KUBE_FRESH);
        assert_int_equal(world.client.priority, KUBE_URGENT);
        assert_true(world.client.deadline_ms >= DEADLINE_MS);
        answer(200, ours());
        world.client.refuses = true;
        assert_int_equal(loop_world_said("reading /apis"), 0);
        asks[i](t.watch); /* cannot start: the next one may */
        assert_false(world.client.is_busy);
        assert_int_equal(loop_world_said("reading /apis"), 1);
        world.client.refuses = false;
        asks[i](t.watch);
        world_expect(KUBE_GET, paths[i]);
        stop(); /* ends it */
    }
}

/* A slow name server: what comes after its time is a read all the same, and the next one has more.
 */
static void a_read_that_comes_late_is_told_and_gives_the_next_one_more_time(void **state)
{
    CLEANUP(json) json_t *body = ours();
    (void)state;
    start();
    for (int deadline_s = DEADLINE_MS / 1000; deadline_s < 20; deadline_s *= 2) {
        lease_watch_confirm(t.watch);
        struct kube_call *first = world.client.newest;
        struct kube_response r = loop_world_response(200, body);
        loop_world_pass(SECONDS(deadline_s) - 1);
        assert_int_equal(t.count, 0);
        loop_world_pass(1);
        expect(EXPIRY_BY_CONFIRM, EXPIRY_READ_FAILED, NONE);
        client_answer_call(first, &r);
        assert_int_equal(t.events[1].started_at.ns, r.sent_at.ns);
        expect(EXPIRY_BY_READ, EXPIRY_LEASE_OBSERVED, EXPIRY_READ_OK);
    }
    lease_watch_confirm(t.watch);
    loop_world_pass(SECONDS(7));
    lease_watch_confirm(t.watch); /* one under way goes on, and another follows it */
    answer(200, ours());
    expect(EXPIRY_BY_CONFIRM, EXPIRY_LEASE_OBSERVED, EXPIRY_READ_OK);
    world_expect(KUBE_GET, LEASE);
    answer(200, ours()); /* fast again */
    expect(EXPIRY_BY_CONFIRM, EXPIRY_LEASE_OBSERVED, EXPIRY_READ_OK);
    lease_watch_confirm(t.watch);
    loop_world_pass(DEADLINE_MS * NS_PER_MS);
    expect(EXPIRY_BY_CONFIRM, EXPIRY_READ_FAILED, NONE);
    stop();
}

static void what_a_look_at_the_control_is_worth(void **state)
{
    static const struct {
        int http_status;
        bool has_lease;
        enum expiry_control outcome;
    } rows[] = {
        {200, true, EXPIRY_CONTROL_SEEN},       {200, false, EXPIRY_CONTROL_UNREADABLE},
        {403, false, EXPIRY_CONTROL_NONE},      {404, false, EXPIRY_CONTROL_NONE},
        {0, false, EXPIRY_CONTROL_LOST},        {503, false, EXPIRY_CONTROL_UNREADABLE},
        {500, true, EXPIRY_CONTROL_UNREADABLE},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        start();
        loop_world_pass(SECONDS(2)); /* the clock was not set: what stands there has a date */
        lease_watch_look(t.watch);
        answer(rows[i].http_status, rows[i].has_lease ? lease("kube-node-lease", "w1") : NULL);
        assert_int_equal(t.events[0].control, rows[i].outcome);
        bool is_seen = rows[i].outcome == EXPIRY_CONTROL_SEEN;
        assert_int_equal(t.lease.duration_s, is_seen ? 40 : 0);
        if (is_seen) {
            assert_int_equal(t.events[0].control_at.ns, WORLD_BOOT_NS); /* its stamp */
        }
        assert_int_equal(loop_world_said("no control can be had"), is_seen ? 0 : 1);
        expect(EXPIRY_BY_WATCH, EXPIRY_CONTROL, NONE);
        stop();
    }
}

/* A namespace that forbids it is no news in each silence. */
static void a_control_that_cannot_be_had_is_told_of_each_ten_minutes(void **state)
{
    static const struct {
        double later_s;
        int told;
    } rows[] = {{0, 1}, {590, 1}, {20, 2}, {60, 2}};
    (void)state;
    start();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        loop_world_pass(SECONDS(rows[i].later_s));
        lease_watch_look(t.watch);
        answer(403, NULL);
        t.count = 0;
        assert_int_equal(loop_world_said("no control can be had"), rows[i].told);
    }
    stop();
}

/* ---- denials --------------------------------------------------------------------------------- */

static void deny_for(double seconds)
{
    deny();
    expect(EXPIRY_BY_WATCH, EXPIRY_WATCH_BROKEN, NONE);
    loop_world_pass(SECONDS(seconds));
    deny();
    expect(EXPIRY_BY_WATCH, EXPIRY_WATCH_BROKEN, NONE);
}

static void a_denial_is_a_broken_watch_and_asks_for_no_reads_of_its_own(void **state)
{
    (void)state;
    start();
    deny_for(60);
    assert_true(loop_world_wait_ns() < 0);
    assert_false(world.client.is_busy);
    assert_true(lease_watch_stats(t.watch).is_polling);
    assert_int_equal(loop_world_said("polling each 10s"), 1);
    deny_for(60);
    assert_int_equal(loop_world_said("polling each 10s"), 1);
    contact();
    expect(EXPIRY_BY_WATCH, EXPIRY_WATCH_WORKS, NONE);
    assert_false(lease_watch_stats(t.watch).is_polling);
    assert_int_equal(loop_world_said("again"), 1);
    stop();
}

/* An API server denies everything until it has read its rules. */
static void a_denial_is_believed_only_when_it_lasts(void **state)
{
    (void)state;
    for (int interrupted = 0; interrupted < 3; interrupted++) {
        start();
        deny_for(2);
        if (interrupted == 1) {
            contact();
        } else if (interrupted == 2) {
            break_off(); /* another server may answer next */
        }
        t.count = 0;
        deny_for(4);
        assert_int_equal(loop_world_said("grant list and watch"), !interrupted);
        assert_true(lease_watch_stats(t.watch).is_polling == !interrupted);
        assert_int_equal(loop_world_said("will retry"), 1);
        stop();
    }
}

static void a_read_that_works_again_lets_the_watch_hope(void **state)
{
    static const int statuses[] = {0, 200, 200, 0, 0, 404};
    (void)state;
    start();
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        lease_watch_confirm(t.watch);
        answer(statuses[i], statuses[i] == 200 ? ours() : NULL);
        t.count = 0;
        assert_int_equal(world.client.watch_hopes, i < 1 ? 0 : i < 5 ? 1 : 2);
    }
    stop();
}

static void what_is_under_way_ends_with_it(void **state)
{
    (void)state;
    start();
    lease_watch_confirm(t.watch);
    world_expect(KUBE_GET, LEASE);
    stop();
    lease_watch_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_a_read_and_a_watch_is_none),
        cmocka_unit_test(what_is_no_lease_of_ours_is_told_as_unreadable),
        cmocka_unit_test(what_the_keeper_wrote_is_a_read),
        cmocka_unit_test(a_watch_that_fails_is_told_and_its_return_once),
        cmocka_unit_test(what_the_watch_shows_means_that_it_works),
        cmocka_unit_test(a_watch_that_is_mistrusted_is_opened_anew),
        cmocka_unit_test(an_answer_is_an_answer_whatever_it_is_worth),
        cmocka_unit_test(only_no_answer_is_lost_contact),
        cmocka_unit_test(evidence_is_read_afresh),
        cmocka_unit_test(a_read_that_comes_late_is_told_and_gives_the_next_one_more_time),
        cmocka_unit_test(what_a_look_at_the_control_is_worth),
        cmocka_unit_test(a_control_that_cannot_be_had_is_told_of_each_ten_minutes),
        cmocka_unit_test(a_denial_is_a_broken_watch_and_asks_for_no_reads_of_its_own),
        cmocka_unit_test(a_denial_is_believed_only_when_it_lasts),
        cmocka_unit_test(a_read_that_works_again_lets_the_watch_hope),
        cmocka_unit_test(what_is_under_way_ends_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
