/* SPDX-License-Identifier: Apache-2.0 */
/* Which Events are written, when, in what order, and what stands in them. */
#include "outputs/events.h"

#include "base/err.h"
#include "tests/support/case.h"
#include "tests/unit/api_world.h"

#define EVENTS     "/apis/events.k8s.io/v1/namespaces/default/events"
#define POD_EVENTS "/apis/events.k8s.io/v1/namespaces/shop/events"

/* The verdicts that the core gives. */
static const struct readiness READY = {
    .state = READINESS_READY, .reason = REASON_LEASE_RENEWED, .admit = true, .message = "renews"};
static const struct readiness EXPIRED = {
    .state = READINESS_NOT_READY, .reason = REASON_LEASE_EXPIRED, .message = "silent"};
static const struct readiness UNHEALTHY = {.state = READINESS_NOT_READY,
                                           .reason = REASON_DPU_REPORTED_UNHEALTHY,
                                           .message = "ovs is down"};
static const struct readiness HELD = {.state = READINESS_UNKNOWN,
                                      .reason = REASON_API_SERVER_UNREACHABLE,
                                      .admit = true,
                                      .message = "unreadable"};
static const struct readiness GIVEN_UP = {.state = READINESS_UNKNOWN,
                                          .reason = REASON_API_SERVER_UNREACHABLE,
                                          .message = "unreadable for too long"};
static const struct readiness AWAITING = {
    .state = READINESS_UNKNOWN, .reason = REASON_AWAITING_FIRST_RENEWAL, .message = "none yet"};

struct world {
    struct events *x;
};

/* In place of the former one. */
static void start(struct world *w, const struct readiness *carried)
{
    events_free(w->x);
    loop_world_start();
    w->x = events_new(NULL, &world.client, "w1");
    events_begin(w->x, carried);
}

/* As most cases find it. */
static void up(struct world *w)
{
    start(w, &READY);
    events_publish(w->x, &READY);
    world_pass(10 * NS_PER_SEC);
    assert_int_equal(world.client.requests, 0);
}

static void down(struct world *w)
{
    events_free(w->x);
}

WORLD(up, down)

static void publish(struct world *w, const struct readiness *verdict)
{
    struct readiness v = *verdict;
    v.transition = clock_wall_now();
    events_publish(w->x, &v);
}

/* One after the other, a second apart: expired, ready, expired ... */
static void flap(struct world *w, int count)
{
    for (int i = 0; i < count; i++) {
        publish(w, i % 2 == 0 ? &EXPIRED : &READY);
        world_pass(NS_PER_SEC);
    }
}

static const char *sent(const char *key)
{
    assert_true(world.client.is_busy);
    return json_text_get(world.client.body, key);
}

#define REPAIR_DPU                                                                                 \
    ". Next step: check the DPU's power and network, and run 'systemctl status dpu-agent' there; " \
    "docs/reasons.md has the causes of each reason"
#define REPAIR_CONNECTION ". Next step: repair the host's connection to the API server"

static const char *sent_in(const char *object, const char *key)
{
    assert_true(world.client.is_busy);
    return json_text_get(json_object_get(world.client.body, object), key);
}

static void expect_reason(enum readiness_reason reason)
{
    assert_string_equal(sent("reason"), readiness_reason_name(reason));
}

/* Writes what is due and says how many Events that took. */
static int drain(void)
{
    int count = 0;
    for (; world.client.is_busy; count++) {
        world_answer(201, "{}");
    }
    return count;
}

/* So many, one after the other. */
static void write_changes(struct world *w, int count)
{
    for (int i = 0; i < count; i++) {
        publish(w, i % 2 == 0 ? &EXPIRED : &READY);
        assert_int_equal(drain(), 1);
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

TEST_IN(a_change_makes_one_event_with_its_own_time)
{
    struct readiness v = EXPIRED;
    v.transition = (struct wall){INT64_C(1700000000) * NS_PER_SEC};
    v.lease =
        (struct readiness_lease){.ns = "ovn-kubernetes", .name = "ovn-dpu-w1", .uid = "lease-uid"};
    events_publish(w->x, &v);
    world_expect(KUBE_POST, EVENTS);
    CLEANUP(free) char *text = json_dumps(world.client.body, JSON_COMPACT);
    assert_string_equal(
        text,
        "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\",\"metadata\":{\"name\":"
        "\"w1.17979cfe362a0000\",\"namespace\":\"default\"},\"eventTime\":"
        "\"2023-11-14T22:13:20.000000Z\",\"reportingController\":\"dpu-host-agent\","
        "\"reportingInstance\":\"w1\",\"action\":\"ReadinessChanged\",\"reason\":"
        "\"LeaseExpired\",\"type\":\"Warning\",\"note\":\"silent" REPAIR_DPU "\",\"regarding\":{"
        "\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"w1\",\"uid\":\"w1\"},"
        "\"related\":{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
        "\"namespace\":\"ovn-kubernetes\",\"name\":\"ovn-dpu-w1\",\"uid\":\"lease-uid\"}}");
    world_answer(201, "{}");
    assert_false(world.client.is_busy);
    assert_true(mono_is_never(world.timer.deadline));
    assert_int_equal(events_stats(w->x)->created, 1);
    publish(w, &READY);
    assert_null(json_object_get(world.client.body, "related")); /* it names no lease */
    assert_string_equal(sent("type"), "Normal");
    events_free(TAKE(w->x)); /* ends what is under way */
    assert_false(world.client.is_busy);
    assert_false(world.timer.fire);
}

TEST_IN(a_reboot_is_an_event_beside_the_changes)
{
    start(w, &READY);
    const struct wall at = {INT64_C(1700000000) * NS_PER_SEC};
    events_tell_reboot(w->x, at); /* however short it was; a restart's settling is no matter */
    assert_string_equal(sent("reason"), "DPURebooted");
    assert_string_equal(sent("action"), "RebootNoticed");
    assert_string_equal(sent("type"), "Warning");
    assert_string_equal(sent("eventTime"), "2023-11-14T22:13:20.000000Z");
    assert_non_null(strstr(sent("note"), "rebooted: "));
    assert_null(strstr(sent("note"), "new Pods"));
    (void)drain();
    world_pass(10 * NS_PER_SEC);
    publish(w, &EXPIRED);
    events_tell_reboot(w->x, clock_wall_now());
    publish(w, &READY);
    expect_reason(REASON_LEASE_EXPIRED);
    world_answer(201, "{}");
    assert_string_equal(sent("reason"), "DPURebooted");
    world_answer(201, "{}");
    expect_reason(REASON_LEASE_RENEWED);
    for (int i = 0; i < 100; i++) { /* bounded as they are */
        events_tell_reboot(w->x, (struct wall){i});
    }
    assert_int_equal(drain(), 1 + EVENT_NODE_QUEUE);
}

TEST_IN(another_message_alone_is_no_change)
{
    struct readiness other = UNHEALTHY;
    publish(w, &UNHEALTHY);
    assert_int_equal(drain(), 1);
    (void)text_copy(other.message, sizeof(other.message), "the bridge is down");
    publish(w, &other);
    assert_int_equal(drain(), 0);
}

TEST_IN(a_changed_admission_is_a_change_and_the_note_says_which_way_and_the_cure)
{
    publish(w, &HELD);
    world_pass(EVENT_UNKNOWN_NS);
    assert_string_equal(sent("note"), "unreadable; new Pods are admitted" REPAIR_CONNECTION);
    (void)drain();
    publish(w, &GIVEN_UP);
    assert_string_equal(sent("note"),
                        "unreadable for too long; new Pods are rejected" REPAIR_CONNECTION);
}

static void count(void *user, const struct readiness *told)
{
    int *counted = user;
    assert_int_equal(told->reason, REASON_LEASE_EXPIRED);
    assert_int_equal(told->state, READINESS_NOT_READY);
    assert_string_equal(told->message, "silent");
    assert_true(told->transition.ns != 0);
    (*counted)++;
}

TEST_IN(a_written_change_is_told_on_and_a_reboot_is_not)
{
    int written = 0;
    events_on_written(w->x, count, &written);
    events_tell_reboot(w->x, clock_wall_now());
    (void)drain();
    assert_int_equal(written, 0);
    publish(w, &EXPIRED);
    assert_int_equal(written, 0);
    (void)drain();
    assert_int_equal(written, 1);
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST_IN(every_name_is_one_that_the_server_takes)
{
    char longest[NAMES_K8S_NAME_BYTES];
    for (size_t i = 400; i < 2 * sizeof(longest) - 4; i++) { /* each of both at each place */
        memset(longest, 'a', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        longest[i / 2] = i % 2 == 0 ? '.' : '-';
        events_free(w->x);
        world_start();
        w->x = events_new(NULL, &world.client, longest);
        events_tell_reboot(w->x, (struct wall){INT64_MAX});
        assert_true(text_is_dns1123_subdomain(sent_in("metadata", "name")));
        assert_int_equal(strlen(sent("reportingInstance")), 128); /* cut to what is allowed */
        CLEANUP(free) char *first = mem_strdup(sent_in("metadata", "name"));
        (void)drain();
        events_tell_reboot(w->x, (struct wall){INT64_MAX - 1});
        assert_string_not_equal(first, sent_in("metadata", "name"));
    }
}

/* ---- start ----------------------------------------------------------------------------------- */

TEST_IN(an_unknown_that_ends_where_it_began_writes_nothing)
{
    for (int restarts = 0; restarts < 2; restarts++) {
        publish(w, &HELD);
        assert_int_equal(world.timer.deadline.ns, world.now.ns + EVENT_UNKNOWN_NS);
        world_pass(EVENT_UNKNOWN_NS - 1);
        publish(w, &READY);
        world_pass(2 * EVENT_UNKNOWN_NS);
        assert_int_equal(world.client.requests, 0);
        assert_true(mono_is_never(world.timer.deadline));
        start(w, &READY);
    }
}

TEST_IN(a_restart_tells_what_changed_meanwhile)
{
    start(w, &READY);
    publish(w, &HELD);
    world_pass(NS_PER_SEC);
    publish(w, &EXPIRED);
    expect_reason(REASON_LEASE_EXPIRED);
    assert_string_equal(sent("eventTime"), "2023-11-14T22:13:21.000000Z");
}

TEST_IN(the_first_start_tells_only_how_it_ends)
{
    start(w, NULL);
    publish(w, &AWAITING);
    world_pass(EVENT_UNKNOWN_NS - 1);
    assert_false(world.client.is_busy);
    publish(w, &READY);
    expect_reason(REASON_LEASE_RENEWED);
    assert_int_equal(drain(), 1);
    publish(w, &READY);
    assert_false(world.client.is_busy);
}

TEST_IN(an_unknown_that_lasts_is_told)
{
    start(w, NULL);
    publish(w, &AWAITING);
    world.now = mono_add(world.now, EVENT_UNKNOWN_NS); /* and the timer came late */
    publish(w, &READY);
    expect_reason(REASON_AWAITING_FIRST_RENEWAL);
    world_answer(201, "{}");
    expect_reason(REASON_LEASE_RENEWED);
}

/* ---- failures -------------------------------------------------------------------------------- */

TEST_IN(what_each_answer_leads_to)
{
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
        events_on_written(w->x, count, &written);
        publish(w, &EXPIRED);
        CLEANUP(free) char *name = mem_strdup(sent_in("metadata", "name"));
        world_answer_reason(rows[i].http_status, NULL, rows[i].reason);
        assert_false(world.client.is_busy);
        assert_int_equal(written, rows[i].written);
        assert_int_equal(events_stats(w->x)->created, rows[i].written);
        assert_int_equal(events_stats(w->x)->failed, 1 - rows[i].written);
        world_pass(rows[i].quiet_s * NS_PER_SEC);
        assert_false(world.client.is_busy);
        if (rows[i].again_s > 0) {
            world_pass((rows[i].again_s - rows[i].quiet_s) * NS_PER_SEC);
            world_expect(KUBE_POST, EVENTS);
            assert_string_equal(sent_in("metadata", "name"), name);
        }
        world_renew(w);
    }
}

TEST_IN(a_server_that_stays_away_is_asked_less_and_less_often)
{
    publish(w, &EXPIRED);
    for (int second = 0; second < 3600; second++) {
        if (world.client.is_busy) {
            world_answer(0, NULL);
        }
        world_pass(NS_PER_SEC);
    }
    assert_between(world.client.requests, 3600 / 30, 3600 / 3);
    if (!world.client.is_busy) {
        world_pass(31 * NS_PER_SEC);
    }
    world_answer(201, "{}");
    assert_int_equal(events_stats(w->x)->created, 1);
    for (int i = 0; i < 2; i++) {
        int said = loop_world_said("will retry");
        publish(w, i == 0 ? &READY : &EXPIRED);
        world_answer(0, NULL); /* each fails for the first time */
        assert_int_equal(loop_world_said("will retry"), said + 1);
        world_pass(2 * NS_PER_SEC);
        world_answer(201, "{}");
    }
}

TEST_IN(failures_cost_no_token)
{
    write_changes(w, EVENT_BURST - 1);
    publish(w, &UNHEALTHY); /* has the last token */
    struct mono begun = world.now;
    for (int failures = 0; failures < 4;) {
        if (world.client.is_busy) {
            world_answer(500, NULL);
            failures++;
        }
        world_pass(NS_PER_SEC);
    }
    assert_true(world.client.is_busy || world.timer.deadline.ns < begun.ns + EVENT_REFILL_NS);
}

TEST_IN(what_an_outage_holds_up_is_written_after_it)
{
    static const struct readiness *const ALL[] = {&EXPIRED, &READY, &UNHEALTHY, &READY, &EXPIRED};
    for (size_t i = 0; i < ARRAY_LEN(ALL); i++) {
        publish(w, ALL[i]);
        world_pass(NS_PER_SEC);
    }
    assert_int_equal(world.client.requests, 1);
    world_answer(0, NULL);
    world_pass(2 * NS_PER_SEC);
    for (size_t i = 0; i < ARRAY_LEN(ALL); i++) {
        const struct wall at = {WORLD_WALL_NS + (10 + (int64_t)i) * NS_PER_SEC};
        expect_reason(ALL[i]->reason);
        assert_string_equal(sent("eventTime"), rfc3339_text(at, true).text);
        assert_null(strstr(sent("note"), "without an Event"));
        world_answer(201, "{}");
    }
    assert_false(world.client.is_busy);
    assert_int_equal(events_stats(w->x)->created, 5);
}

TEST_IN(of_more_than_the_queue_holds_the_oldest_are_left_out_and_counted)
{
    publish(w, &UNHEALTHY);
    flap(w, EVENT_NODE_QUEUE + 3);
    world_answer(201, "{}"); /* it was begun before */
    assert_string_equal(sent("eventTime"), "2023-11-14T22:13:33.000000Z");
    assert_string_equal(sent("note"), "renews; earlier changes without an Event: 3");
    world_answer(201, "{}");
    assert_string_equal(sent("note"), "silent" REPAIR_DPU);
    assert_int_equal(drain(), EVENT_NODE_QUEUE - 1);
    assert_int_equal(events_stats(w->x)->suppressed, 3);
}

TEST_IN(what_is_refused_is_left_out_and_the_next_tells_of_it)
{
    publish(w, &EXPIRED);
    world_answer(422, NULL);
    assert_false(world.client.is_busy);
    publish(w, &READY);
    assert_string_equal(sent("note"), "renews; earlier changes without an Event: 1");
    world_answer(422, NULL);
    publish(w, &EXPIRED);
    assert_string_equal(sent("note"), "silent" REPAIR_DPU "; earlier changes without an Event: 2");
    assert_int_equal(events_stats(w->x)->failed, 2);
    assert_int_equal(events_stats(w->x)->suppressed, 2);
}

/* ---- the bound ------------------------------------------------------------------------------- */

TEST_IN(a_storm_is_cut_to_the_burst_and_then_to_one_a_minute)
{
    enum { STORM_S = 3600 };
    int writes = 0;
    for (int s = 0; s < STORM_S; s++) {
        publish(w, s % 2 == 0 ? &EXPIRED : &READY);
        writes += drain();
        world_pass(NS_PER_SEC);
    }
    assert_between(writes, EVENT_BURST + STORM_S / 60 - 1, EVENT_BURST + STORM_S / 60);
    for (int s = 0; s < EVENT_NODE_QUEUE * 60; s++) {
        if (world.client.is_busy) {
            expect_reason(writes % 2 == 0 ? REASON_LEASE_RENEWED : REASON_LEASE_EXPIRED);
        }
        writes += drain();
        world_pass(NS_PER_SEC);
    }
    assert_int_equal(events_stats(w->x)->suppressed + (uint64_t)writes, STORM_S);
}

TEST_IN(a_clock_that_stands_still_or_runs_back_gives_no_token)
{
    struct mono spent_at = mono_add(world.now, 90 * NS_PER_SEC);
    world.now = spent_at;
    write_changes(w, EVENT_BURST);
    publish(w, &UNHEALTHY);
    assert_int_equal(world.timer.deadline.ns, world.now.ns + EVENT_REFILL_NS);
    for (int i = 0; i < 90; i++) {
        world.now = mono_add(world.now, -NS_PER_SEC);
        world.timer.fire(world.timer.user);
        assert_false(world.client.is_busy);
    }
    world.now = spent_at;
    world_pass(EVENT_REFILL_NS - 1);
    assert_false(world.client.is_busy);
    world_pass(1);
    assert_int_equal(drain(), 1);
    publish(w, &READY); /* that was the only one */
    assert_false(world.client.is_busy);
}

enum { RANDOM_RUNS = 200, RANDOM_STEPS = 400 };

static uint32_t next_random(uint32_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    return *random;
}

/* Any changes, any outcomes, pods between: what is written stays within the bound, and in the end
 * the last change has been written, whatever went before. */
static void random_life(struct world *w, uint32_t seed)
{
    static const struct readiness *const ALL[] = {&READY, &EXPIRED,  &UNHEALTHY,
                                                  &HELD,  &GIVEN_UP, &AWAITING};
    static const int statuses[] = {201, 201, 0, 500, 422};
    const struct event pod = {
        .ns = "shop", .pod = "web", .uid = "u", .action = "A", .reason = "R", .rights = "f"};
    start(w, seed % 3 == 0 ? NULL : ALL[seed % ARRAY_LEN(ALL)]);
    uint32_t random = seed * 2654435761U + 1;
    struct mono begun = world.now;
    for (int i = 0; i < RANDOM_STEPS; i++) {
        world_pass(next_random(&random) % (seed % 2 == 0 ? 3 : 200) * NS_PER_SEC);
        if (next_random(&random) % 2 == 0) {
            publish(w, ALL[next_random(&random) % ARRAY_LEN(ALL)]);
        }
        if (next_random(&random) % 4 == 0) {
            events_tell_pod(w->x, &pod);
        }
        if (world.client.is_busy) {
            world_answer(statuses[next_random(&random) % ARRAY_LEN(statuses)], NULL);
        }
        uint64_t most = EVENT_BURST + (uint64_t)((world.now.ns - begun.ns) / EVENT_REFILL_NS);
        assert_true(events_stats(w->x)->created <= most);
    }
    publish(w, &UNHEALTHY);
    publish(w, &READY);
    char last[64] = "";
    for (int i = 0; i < 20; i++) {
        while (world.client.is_busy) {
            if (strcmp(sent_in("regarding", "kind"), "Node") == 0) {
                text_format(last, sizeof(last), "%s", sent("reason"));
            }
            world_answer(201, NULL);
        }
        world_pass(60 * NS_PER_SEC);
    }
    assert_string_equal(last, "LeaseRenewed");
    assert_true(mono_is_never(world.timer.deadline));
}

TEST_IN(writes_are_bounded_and_the_last_change_is_written_in_the_end)
{
    for (uint32_t seed = 1; seed <= RANDOM_RUNS; seed++) {
        random_life(w, seed);
    }
}

/* ---- pods ------------------------------------------------------------------------------------ */

static void tell_pod(struct world *w, const char *action, const char *pod)
{
    struct event event = {.at = {INT64_C(1700000000) * NS_PER_SEC},
                          .key = 10,
                          .action = action,
                          .reason = "PodNetworkLost",
                          .rights = "f",
                          .is_warning = true,
                          .note = "it is gone",
                          .ns = "shop",
                          .uid = "pod-uid"};
    text_format(event.pod, sizeof(event.pod), "%s", pod);
    events_tell_pod(w->x, &event);
}

TEST_IN(an_event_about_a_pod_is_in_its_namespace)
{
    tell_pod(w, "NetworkLost", "web");
    world_expect(KUBE_POST, POD_EVENTS);
    CLEANUP(free) char *text = json_dumps(world.client.body, JSON_COMPACT);
    assert_string_equal(
        text, "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\",\"metadata\":{\"name\":"
              "\"web.a\",\"namespace\":\"shop\"},\"eventTime\":"
              "\"2023-11-14T22:13:20.000000Z\",\"reportingController\":\"dpu-host-agent\","
              "\"reportingInstance\":\"w1\",\"action\":\"NetworkLost\",\"reason\":"
              "\"PodNetworkLost\",\"type\":\"Warning\",\"note\":\"it is gone\",\"regarding\":{"
              "\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"namespace\":\"shop\",\"name\":\"web\","
              "\"uid\":\"pod-uid\"}}");
    assert_int_equal(drain(), 1);
    assert_int_equal(events_stats(w->x)->created, 0); /* these count those about the Node */
}

TEST_IN(pods_wait_behind_the_node_and_one_that_fails_is_dropped)
{
    static const int statuses[] = {403, 0, 409, 422, 500};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        tell_pod(w, "NetworkLost", "a");
        tell_pod(w, "NetworkLost", "b");
        publish(w, i % 2 == 0 ? &EXPIRED : &READY);
        assert_string_equal(sent_in("regarding", "name"), "a");
        world_answer(statuses[i], NULL);
        assert_string_equal(sent_in("regarding", "kind"), "Node");
        world_answer(201, NULL);
        assert_string_equal(sent_in("regarding", "name"), "b");
        assert_int_equal(drain(), 1);
    }
    assert_int_equal(loop_world_said("Pod 'shop/a': told by the test; apply rbac/f"), 1);
    publish(w, &READY);
    world_answer(403, NULL); /* while that waits for a right */
    tell_pod(w, "NetworkLost", "c");
    assert_string_equal(sent_in("regarding", "name"), "c");
    tell_pod(w, "NetworkLost", "d");
    world_answer(201, NULL);
    assert_string_equal(sent_in("regarding", "name"), "d");
}

TEST_IN(what_waits_about_pods_is_bounded_and_can_be_taken_back)
{
    events_withdraw(w->x, "HealthChanged"); /* of none */
    publish(w, &EXPIRED);
    publish(w, &READY);
    for (int i = 0; i < EVENT_POD_QUEUE + 10; i++) {
        tell_pod(w, i % 2 == 0 ? "NetworkLost" : "HealthChanged", "web");
    }
    events_withdraw(w->x, "HealthChanged");
    tell_pod(w, "HealthChanged", "last");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(sent_in("regarding", "kind"), "Node");
        world_answer(201, NULL);
    }
    for (int i = 0; i < EVENT_POD_QUEUE / 2; i++) {
        assert_string_equal(sent("action"), "NetworkLost");
        world_answer(201, NULL);
    }
    assert_string_equal(sent_in("regarding", "name"), "last");
    tell_pod(w, "NetworkLost", "web"); /* is freed while it waits */
}
