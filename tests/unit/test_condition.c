/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/condition.h"

#include "base/mem.h"
#include "tests/support/case.h"
#include "tests/unit/api_world.h"

#define NODE   "/api/v1/nodes/w1"
#define STATUS "/api/v1/nodes/w1/status"

#define NODE_SAYS(status, reason, message, since)                                                  \
    "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},{\"type\":"             \
    "\"DPUReady\",\"status\":\"" status "\",\"reason\":\"" reason "\",\"message\":\"" message      \
    "\",\"lastTransitionTime\":\"" since "\"}]}}"
#define NODE_SAYS_READY NODE_SAYS("True", "LeaseRenewed", "renews", "2020-01-02T03:04:05Z")

static struct world {
    struct condition *condition;
} * t;

static void start_for(const char *dpu, bool is_firm)
{
    condition_free(t->condition);
    world_start();
    t->condition = condition_new(NULL, &world.client, "w1", dpu, is_firm);
}

static void start(struct world *w)
{
    t = w;
    start_for("", false);
}

static void stop(struct world *w)
{
    condition_free(w->condition);
}

WORLD(start, stop)

static void publish(enum readiness_state state, enum readiness_reason reason, const char *message)
{
    const struct readiness v = world_health(state, reason, message);
    condition_publish(t->condition, &v);
}

static void ready(void)
{
    publish(READINESS_READY, REASON_LEASE_RENEWED, "renews");
}

static void expired(void)
{
    publish(READINESS_NOT_READY, REASON_LEASE_EXPIRED, "silent");
}

/* A member of the condition in the patch under way. */
static const char *sent(const char *key)
{
    const json_t *status = json_object_get(world.client.body, "status");
    return json_text_get(json_array_get(json_object_get(status, "conditions"), 0), key);
}

/* A Node without conditions, or what was sent. */
static void answer_well(void)
{
    CLEANUP(free) char *text = world.client.body ? json_dumps(world.client.body, 0) : NULL;
    world_answer(200, text ? text : "{}");
}

/* Settled on a Node that already says so. */
static void settle_ready(void)
{
    ready();
    world_pass(CONDITION_SETTLE_NS);
    world_expect(KUBE_GET, NODE);
    world_answer(200, NODE_SAYS_READY);
    assert_false(world.client.is_busy);
}

TEST_IN(at_start_only_the_outcome_counts)
{
    publish(READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, "none yet");
    world_pass(NS_PER_SEC);
    ready();
    assert_int_equal(world.client.requests, 0);
    world_pass(2 * NS_PER_SEC);
    answer_well();
    world_expect(KUBE_STRATEGIC_PATCH, STATUS);
    assert_string_equal(sent("status"), "True");
    assert_string_equal(sent("lastTransitionTime"), "2023-11-14T22:13:21Z");
    assert_string_equal(sent("lastHeartbeatTime"), "2023-11-14T22:13:23Z");
    answer_well();
    assert_int_equal(condition_stats(t->condition)->written, 1);
}

TEST_IN(a_patch_names_our_condition_alone)
{
    static const struct {
        enum readiness_state state;
        const char *status;
    } rows[] = {
        {READINESS_READY, "True"}, {READINESS_NOT_READY, "False"}, {READINESS_UNKNOWN, "Unknown"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char wanted[400];
        publish(rows[i].state, REASON_LEASE_EXPIRED, "because");
        world_pass(CONDITION_SETTLE_NS);
        answer_well();
        CLEANUP(free) char *text = json_dumps(world.client.body, JSON_COMPACT);
        (void)snprintf(wanted, sizeof(wanted),
                       "{\"status\":{\"conditions\":[{\"type\":\"DPUReady\",\"status\":\"%s\","
                       "\"reason\":\"LeaseExpired\",\"message\":\"because\",\"lastHeartbeatTime\":"
                       "\"2023-11-14T22:13:23Z\",\"lastTransitionTime\":\"2023-11-14T22:13:20Z\""
                       "}]}}",
                       rows[i].status);
        assert_string_equal(text, wanted);
        world_renew(w);
    }
}

/* While it is held, pods are let in as before. */
TEST_IN(a_firm_condition_says_whether_pods_are_admitted)
{
    static const struct {
        enum readiness_state state;
        bool admit;
        const char *status;
    } rows[] = {{READINESS_READY, true, "True"},
                {READINESS_UNKNOWN, true, "True"},
                {READINESS_UNKNOWN, false, "False"},
                {READINESS_NOT_READY, false, "False"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        start_for("", true);
        struct readiness v = world_health(rows[i].state, REASON_API_SERVER_NOT_WRITING, "held");
        v.admit = rows[i].admit;
        condition_publish(t->condition, &v);
        world_pass(CONDITION_SETTLE_NS);
        world_answer(200, NODE_SAYS_READY);
        assert_string_equal(sent("status"), rows[i].status);
        assert_string_equal(sent("reason"), "ApiServerNotWriting");
        bool is_kept = text_equal(rows[i].status, "True");
        assert_int_equal(text_equal(sent("lastTransitionTime"), "2020-01-02T03:04:05Z"), is_kept);
        world_renew(w);
    }
}

TEST_IN(a_further_dpu_has_a_condition_of_its_own)
{
    start_for("dpu1", false);
    ready();
    world_pass(CONDITION_SETTLE_NS);
    world_answer(200, NODE_SAYS_READY);
    world_expect(KUBE_STRATEGIC_PATCH, STATUS); /* that one is the first DPU's */
    assert_string_equal(sent("type"), "dpu1.dpu.k8s.ovn.org/DPUReady");
}

TEST_IN(a_node_that_talks_nonsense_is_put_right)
{
    static const char *const rows[] = {
        "{\"status\":{\"conditions\":[{\"type\":\"DPUReady\",\"status\":7}]}}",
        "{\"status\":7}",
        NODE_SAYS("True", "LeaseRenewed", "another", "yesterday"),
        "{}",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ready();
        world_pass(CONDITION_SETTLE_NS);
        world_answer(200, rows[i]);
        world_expect(KUBE_STRATEGIC_PATCH, STATUS);
        assert_string_equal(sent("lastTransitionTime"), "2023-11-14T22:13:20Z");
        world_renew(w);
    }
}

TEST_IN(writes_keep_a_distance_and_tell_the_latest)
{
    settle_ready();
    expired();
    world_expect(KUBE_STRATEGIC_PATCH, STATUS);
    world_answer(500, NULL);
    world_pass(2 * NS_PER_SEC);
    world_answer(200, NODE_SAYS_READY);
    ready(); /* while it is under way */
    answer_well();
    world_pass(NS_PER_SEC);
    expired();
    world_pass(NS_PER_SEC);
    publish(READINESS_NOT_READY, REASON_DPU_SHUTDOWN, "bye");
    assert_int_equal(world.client.requests, 4);
    world_pass(CONDITION_GAP_NS - 2 * NS_PER_SEC);
    world_expect(KUBE_STRATEGIC_PATCH, STATUS);
    assert_string_equal(sent("reason"), "DPUShutdown");
    answer_well();
    world_pass(NS_PER_SEC);
    assert_int_equal(world.client.requests, 5);
}

TEST_IN(words_alone_are_written_once_a_minute_and_delay_no_change)
{
    char words[32];
    settle_ready();
    expired();
    answer_well();
    for (int i = 0; i < 120; i++) {
        (void)snprintf(words, sizeof(words), "for %d s", i);
        publish(READINESS_NOT_READY, REASON_LEASE_EXPIRED, words);
        if (world.client.is_busy) {
            answer_well();
        }
        world_pass(NS_PER_SEC);
        if (world.client.is_busy) {
            assert_string_equal(sent("message"), words);
            answer_well();
        }
    }
    assert_int_equal(condition_stats(t->condition)->written, 3);
    world_pass(CONDITION_GAP_NS);
    publish(READINESS_NOT_READY, REASON_DPU_SHUTDOWN, "bye");
    world_expect(KUBE_STRATEGIC_PATCH, STATUS);
}

TEST_IN(a_condition_that_somebody_took_away_is_put_back)
{
    settle_ready();
    world_pass(CONDITION_CHECK_NS - NS_PER_SEC);
    assert_int_equal(world.client.requests, 1);
    world_pass(NS_PER_SEC);
    world_expect(KUBE_GET, NODE);
    answer_well();
    world_expect(KUBE_STRATEGIC_PATCH, STATUS);
    assert_string_equal(sent("status"), "True");
    answer_well();
    world_pass(CONDITION_CHECK_NS);
    world_expect(KUBE_GET, NODE);
}

TEST_IN(what_fails_is_tried_again_at_its_pace)
{
    static const struct {
        int http_status;
        int64_t quiet_s;
        int64_t again_s;
    } rows[] = {{0, 0, 2},   {400, 299, 301}, {401, 0, 2}, {403, 299, 301}, {404, 0, 2},
                {409, 0, 2}, {422, 299, 301}, {429, 0, 2}, {500, 0, 2}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        settle_ready();
        expired();
        world_answer(rows[i].http_status, NULL);
        ready(); /* does not cut the wait short */
        expired();
        world_pass(rows[i].quiet_s * NS_PER_SEC);
        assert_false(world.client.is_busy);
        world_pass((rows[i].again_s - rows[i].quiet_s) * NS_PER_SEC);
        world_expect(KUBE_GET, NODE); /* the write may have arrived */
        world_answer(200, NODE_SAYS_READY);
        world_expect(KUBE_STRATEGIC_PATCH, STATUS);
        assert_int_equal(condition_stats(t->condition)->failed, 1);
        world_renew(w);
    }
}

TEST_IN(reads_that_succeed_do_not_speed_up_writes_that_fail)
{
    settle_ready();
    expired();
    for (int i = 0; i < 6000; i++) {
        if (world.client.is_busy && world.client.method == KUBE_GET) {
            world_answer(200, NODE_SAYS_READY);
        }
        if (world.client.is_busy) {
            world_answer(500, NULL);
        }
        world_pass(100 * NS_PER_MS);
    }
    assert_between(condition_stats(t->condition)->failed, 20,
                   100); /* ten minutes, up to 30 s apart */
}

TEST_IN(broken_text_of_others_is_made_printable)
{
    settle_ready();
    publish(READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, "ovs\n\xff down");
    assert_string_equal(sent("message"), "ovs ? down");
    answer_well();
    world_pass(CONDITION_GAP_NS);
    assert_false(world.client.is_busy); /* and counts as what was meant */
}
