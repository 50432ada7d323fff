/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/lease_keeper.h"

#include "tests/support/case.h"
#include "tests/unit/api_world.h"

#define NODE       "/api/v1/nodes/w1"
#define LEASES     "/apis/coordination.k8s.io/v1/namespaces/ovn/leases"
#define LEASE      LEASES "/ovn-dpu-w1"
#define DURATION_S 40
#define LONG_UID   "0123456789012345678901234567890123456789012345678901234567890123" /* too long */
#define SECONDS(n) ((int64_t)((n)*1e9))

static struct world {
    struct lease_keeper *keeper;
    int told; /* leases that came back from a write */
} * t;

static void on_written(void *user, const json_t *lease, struct mono sent_at, bool is_patch)
{
    assert_int_equal(is_patch, world.client.method == KUBE_MERGE_PATCH);
    assert_true(user == t && lease && sent_at.ns > 0 && mono_reached(world.now, sent_at));
    t->told++;
}

/* Until the timer fires; negative: it does not. */
static int64_t wait_ns(void)
{
    return mono_is_never(world.timer.deadline) ? -1 : mono_since(world.timer.deadline, world.now);
}

static void start_for(struct world *w, uint32_t duration_s)
{
    const struct lease_keeper_config config = {.ns = "ovn",
                                               .name = "ovn-dpu-w1",
                                               .node = "w1",
                                               .holder = "ovnkube-dpu-node",
                                               .duration_s = duration_s,
                                               .on_written = on_written,
                                               .user = w};
    t = w;
    lease_keeper_stop(w->keeper);
    loop_world_start();
    w->keeper = lease_keeper_start(LOOP_WORLD, &world.client, &config);
}

static void start(struct world *w)
{
    start_for(w, DURATION_S);
}

static void stop(struct world *w)
{
    lease_keeper_stop(w->keeper);
    assert_false(world.client.is_busy || world.timer.fire);
}

WORLD(start, stop)

static void answer(int http_status, json_t *body)
{
    CLEANUP(json) json_t *owned = body;
    struct kube_response r = loop_world_response(http_status, owned);
    client_answer(&world.client, &r);
}

static json_t *node(const char *uid)
{
    return json_pack("{s:{s:s}}", "metadata", "uid", uid);
}

/* In shape, unless the case changes it. */
static json_t *lease(const char *uid)
{
    const struct lease_owner owner = {.node_name = "w1", .node_uid = "n1"};
    json_t *lease = lease_new("ovn", "ovn-dpu-w1", "ovnkube-dpu-node", DURATION_S, owner);
    json_t *meta = json_object_get(lease, "metadata");
    assert_int_equal(json_object_set_new(meta, "uid", json_string(uid)), 0);
    assert_int_equal(json_object_set_new(meta, "resourceVersion", json_string("1")), 0);
    return lease;
}

static json_t *with_duration(json_t *lease, int seconds)
{
    json_t *spec = json_object_get(lease, "spec");
    assert_int_equal(json_object_set_new(spec, "leaseDurationSeconds", json_integer(seconds)), 0);
    return lease;
}

/* NULL: it is gone. */
static void look(json_t *lease)
{
    CLEANUP(json) json_t *owned = lease;
    lease_keeper_saw(t->keeper, owned);
}

static bool is_idle(void)
{
    return !world.client.is_busy && wait_ns() < 0;
}

/* The world as it should be: one look at the Node, and then nothing. */
static void settle(void)
{
    look(lease("l1"));
    world_expect(KUBE_GET, NODE);
    answer(200, node("n1"));
    assert_true(is_idle());
}

/* There is no lease, and it is about to be made. */
static void settle_without(void)
{
    look(NULL);
    answer(200, node("n1"));
}

/* From the reading of the Node on: the lease is made anew. */
static void create(void)
{
    world_expect(KUBE_GET, NODE);
    answer(200, node("n1"));
    world_expect(KUBE_POST, LEASES);
    answer(201, lease("l1"));
    assert_true(is_idle());
}

/* The lease is being written over another one. */
static void repair(const char *uid)
{
    world_expect(KUBE_MERGE_PATCH, LEASE);
    assert_int_equal(world.client.priority, KUBE_URGENT);
    answer(200, lease(uid));
}

static const json_t *sent(const char *half)
{
    return json_object_get(world.client.body, half);
}

TEST_IN(a_lease_in_shape_is_left_alone)
{
    assert_true(is_idle()); /* until a state is seen */
    look(lease("l1"));
    assert_int_equal(world.client.priority, KUBE_ORDINARY);
    look(lease("l1")); /* while the Node is read: no reason to read it again */
    answer(200, node("n1"));
    look(lease("l1"));
    assert_true(is_idle());
    assert_int_equal(lease_keeper_stats(t->keeper)->written, 0);
    assert_int_equal(t->told, 0);
}

TEST_IN(a_lease_that_is_missing_is_made_for_the_node)
{
    settle_without();
    world_expect(KUBE_POST, LEASES);
    const json_t *owners = json_object_get(sent("metadata"), "ownerReferences");
    assert_string_equal(json_text_get(json_array_get(owners, 0), "uid"), "n1");
    assert_null(json_object_get(sent("spec"), "renewTime"));
    assert_int_equal(loop_world_said("lease ovn/ovn-dpu-w1 is missing, creating it"), 1);
    answer(201, lease("l1"));
    assert_true(is_idle());
    assert_int_equal(lease_keeper_stats(t->keeper)->written, 1);
    assert_int_equal(t->told, 1);
}

TEST_IN(a_lease_that_nobody_holds_gets_its_holder)
{
    json_t *unheld = lease("l1");
    settle();
    assert_int_equal(json_object_del(json_object_get(unheld, "spec"), "holderIdentity"), 0);
    look(json_incref(unheld));
    json_decref(unheld);
    world_expect(KUBE_MERGE_PATCH, LEASE);
    assert_string_equal(json_text_get(sent("spec"), "holderIdentity"), "ovnkube-dpu-node");
    assert_null(json_object_get(sent("spec"), "renewTime"));
    assert_non_null(json_object_get(sent("metadata"), "resourceVersion"));
}

TEST_IN(the_lease_of_somebody_else_is_left_alone)
{
    json_t *foreign = with_duration(lease("l1"), 15);
    settle();
    json_t *spec = json_object_get(foreign, "spec");
    assert_int_equal(json_object_set_new(spec, "holderIdentity", json_string("another")), 0);
    look(json_incref(foreign));
    look(json_incref(foreign));
    assert_true(is_idle());
    assert_int_equal(loop_world_said("is held by 'another'"), 1); /* a minute */
    world_pass(SECONDS(61));
    look(foreign);
    assert_int_equal(loop_world_said("is held by 'another'"), 2);
}

/* It needs the Node's UID. */
TEST_IN(another_duration_is_told_once)
{
    static const int durations_s[] = {15, 15, 0, 15, 20};
    static const int told[] = {1, 1, 1, 1, 2};
    settle();
    for (size_t i = 0; i < ARRAY_LEN(durations_s); i++) {
        world_pass(SECONDS(301));
        look(with_duration(lease("l1"), durations_s[i]));
        repair("l1");
        assert_int_equal(loop_world_said("the duration on lease"), told[i]);
        assert_int_equal(lease_keeper_stats(t->keeper)->written, i + 1);
        assert_int_equal(t->told, i + 1);
        assert_true(is_idle());
    }
}

TEST_IN(trouble_is_told_and_its_end)
{
    look(lease("l1"));
    answer(200, NULL);
    assert_int_equal(loop_world_said("it has no usable uid"), 1);
    world_pass(SECONDS(0.5));
    answer(500, NULL);
    world_pass(SECONDS(61));
    answer(500, NULL);
    assert_int_equal(loop_world_said("told by the test"), 1);
    world_pass(SECONDS(2));
    answer(200, node("n1"));
    assert_int_equal(loop_world_said("is as it should be again"), 1);
    look(NULL);
    create();
    assert_int_equal(loop_world_said("is as it should be again"), 1);
}

TEST_IN(what_fails_is_tried_again_ever_more_rarely)
{
    static const struct {
        int http_status;
        const char *uid;
    } rows[] = {{404, NULL}, {500, NULL}, {0, NULL}, {200, NULL}, {200, ""}, {200, LONG_UID}};
    look(lease("l1"));
    for (size_t i = 0; i < 12; i++) {
        size_t row = i % ARRAY_LEN(rows);
        int64_t most_ns = i < 5 ? SECONDS(0.5) << i : SECONDS(15);
        world_expect(KUBE_GET, NODE);
        answer(rows[row].http_status, rows[row].uid ? node(rows[row].uid) : NULL);
        assert_false(world.client.is_busy);
        assert_true(wait_ns() >= most_ns / 10 && wait_ns() <= most_ns);
        world_pass(wait_ns());
    }
    answer(200, node("n1"));
    look(with_duration(lease("l1"), 15));
    answer(500, NULL);
    assert_true(wait_ns() <= SECONDS(0.5)); /* it begins anew */
}

TEST_IN(a_short_lease_has_no_time_to_wait)
{
    start_for(w, 4);
    look(lease("l1"));
    for (size_t i = 0; i < 10; i++) {
        answer(500, NULL);
        assert_true(wait_ns() <= SECONDS(2));
        world_pass(wait_ns());
    }
}

TEST_IN(what_forbids_to_make_a_lease_is_told)
{
    static const struct {
        int http_status;
        bool is_denied;
    } rows[] = {{400, true},  {499, true},  {401, false}, {404, true}, {409, false},
                {403, true},  {429, false}, {422, true},  {0, true}, /* no word */
                {500, false}, {403, true},  {201, false}};
    settle_without();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        world_expect(KUBE_POST, LEASES);
        answer(rows[i].http_status, rows[i].http_status == 201 ? lease("l1") : NULL);
        assert_int_equal(lease_keeper_is_denied(w->keeper), rows[i].is_denied);
        if (rows[i].http_status == 409) {
            world_pass(wait_ns());
            answer(404, NULL);
        } else if (rows[i].http_status != 201) {
            world_pass(wait_ns());
        }
    }
}

/* Somebody else wrote: the lease is old, unless a watch has shown it since. Or deleted it: with its
 * Node, maybe. */
TEST_IN(a_write_that_lost_the_race_reads_again)
{
    static const struct {
        int http_status;
        enum kube_method method;
        const char *next;
    } rows[] = {{409, KUBE_GET, LEASE}, {404, KUBE_GET, NODE}, {500, KUBE_MERGE_PATCH, LEASE}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        settle();
        look(with_duration(lease("l1"), 15));
        answer(rows[i].http_status, NULL);
        assert_int_equal(lease_keeper_stats(t->keeper)->written, 0);
        for (int tries = 0; tries < 2; tries++) {
            world_pass(SECONDS(2));
            world_expect(rows[i].method, rows[i].next);
            answer(500, NULL);
        }
        world_renew(w);
    }
    settle();
    look(with_duration(lease("l1"), 15));
    answer(409, NULL);
    look(with_duration(lease("l1"), 16));
    world_pass(wait_ns());
    repair("l1");
}

TEST_IN(nothing_waits_while_the_lease_is_gone)
{
    settle();
    look(NULL);
    world_expect(KUBE_GET, NODE);
    assert_int_equal(world.client.priority, KUBE_URGENT);
    answer(500, NULL);
    look(lease("l1"));
    assert_false(world.client.is_busy); /* what is seen does not cut the wait short */
    look(NULL);
    world_pass(wait_ns());
    world_expect(KUBE_GET, NODE);
    assert_int_equal(world.client.priority, KUBE_URGENT);
    answer(200, node("n1"));
    world_expect(KUBE_POST, LEASES);
    assert_int_equal(world.client.priority, KUBE_URGENT);
    answer(409, NULL); /* another one has made it */
    world_pass(wait_ns());
    world_expect(KUBE_GET, LEASE);
    assert_int_equal(world.client.priority, KUBE_ORDINARY);
    answer(200, lease("l1"));
    look(NULL);
    assert_int_equal(world.client.priority, KUBE_URGENT);
}

TEST_IN(a_lease_that_is_no_object_cannot_be_mended)
{
    look(json_pack("{s:s}", "kind", "Pod"));
    answer(200, node("n1"));
    assert_false(world.client.is_busy);
    assert_true(wait_ns() > 0);
}

/* ---- at its own pace ------------------------------------------------------------------------- */

static void look_drifted(void)
{
    look(with_duration(lease("l1"), 15));
}

/* People edit a few things at a time; two agents that disagree go on for ever. */
TEST_IN(repairs_that_are_taken_back_come_ever_more_rarely)
{
    static const int pauses_s[] = {0, 0, 40, 80, 160, 200, 200};
    settle();
    look_drifted();
    for (size_t i = 0; i < ARRAY_LEN(pauses_s); i++) {
        repair("l1");
        world_pass(SECONDS(1));
        look_drifted();
        if (pauses_s[i] > 0) {
            assert_false(world.client.is_busy);
            look_drifted(); /* again: the pause counts from the repair */
            world_pass(SECONDS(pauses_s[i] - 1) - 1000);
            assert_false(world.client.is_busy);
            world_pass(2000);
        }
    }
    world_expect(KUBE_MERGE_PATCH, LEASE);
    assert_int_equal(loop_world_said("undoes the repairs"), 1);
}

/* Nobody took back what has lasted for two pauses. */
TEST_IN(a_repair_that_lasted_is_followed_at_once)
{
    static const struct {
        int lasted_s;
        bool is_forgotten;
    } rows[] = {{81, true}, {79, false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        settle();
        for (size_t repairs = 0; repairs < 3; repairs++) {
            look_drifted();
            repair("l1");
        }
        world_pass(SECONDS(rows[i].lasted_s));
        look_drifted();
        repair("l1");
        look_drifted();
        assert_true(world.client.is_busy == rows[i].is_forgotten);
        world_renew(w);
    }
}

TEST_IN(a_lease_made_anew_by_somebody_is_mended_at_once)
{
    settle();
    for (size_t i = 0; i < 3; i++) {
        look_drifted();
        repair("l1");
    }
    look_drifted();
    assert_false(world.client.is_busy); /* it pauses */
    look(with_duration(lease("l2"), 15));
    repair("l2");
    assert_true(is_idle());
}

/* A webhook that changes what is written: as rarely as it gets, from the first time on. */
TEST_IN(what_the_api_server_stores_otherwise_is_mended_rarely)
{
    for (int is_new = 0; is_new < 2; is_new++) {
        look(is_new ? NULL : with_duration(lease("l1"), 15));
        answer(200, node("n1"));
        answer(is_new ? 201 : 200, with_duration(lease("l1"), 15));
        assert_int_equal(t->told, 1);
        look_drifted();
        assert_false(world.client.is_busy);
        world_pass(SECONDS(200) - 1000);
        assert_false(world.client.is_busy);
        world_pass(2000);
        world_expect(KUBE_MERGE_PATCH, LEASE);
        assert_int_equal(loop_world_said("was changed by another writer"), 1);
        answer(200, lease("l1"));
        look_drifted(); /* it lasted no longer than the pause */
        assert_int_equal(wait_ns(), SECONDS(200));
        assert_int_equal(loop_world_said("check admission webhooks"), 1);
        world_renew(w);
    }
}

/* Deleted once, after long: the watch shows what was made before the answer to the write does. */
TEST_IN(a_lease_made_anew_is_stored_as_it_was_written)
{
    settle_without();
    answer(201, lease("l1"));
    world_pass(SECONDS(DURATION_S + 1));
    look(NULL);
    answer(200, node("n1"));
    json_t *stored = json_deep_copy(world.client.body);
    json_t *meta = json_object_get(stored, "metadata");
    assert_int_equal(json_object_set_new(meta, "uid", json_string("l2")), 0);
    look(json_incref(stored));
    answer(201, stored);
    assert_true(is_idle());
    assert_int_equal(loop_world_said("stores something else"), 0);
    look(with_duration(lease("l2"), 15));
    repair("l2"); /* at once */
}

/* ---- a lease that is gone --------------------------------------------------------------------
 */

TEST_IN(leases_that_do_not_last_are_made_ever_more_rarely)
{
    settle();
    world.now = (struct mono){SECONDS(1)}; /* soon after the boot, too */
    look(NULL);
    create();
    for (size_t i = 0; i < 8; i++) {
        int64_t most_ns = i < 5 ? SECONDS(0.5) << i : SECONDS(15);
        look(NULL);
        answer(200, node("n1"));
        assert_false(world.client.is_busy);
        assert_true(wait_ns() >= most_ns / 10 && wait_ns() <= most_ns);
        look(NULL); /* told once more: it is on its way */
        world_pass(wait_ns());
        world_expect(KUBE_POST, LEASES);
        answer(201, lease("l1"));
    }
    world_pass(SECONDS(DURATION_S) + 1); /* that one lasted */
    look(NULL);
    create();
    look(NULL);
    answer(200, node("n1"));
    assert_true(wait_ns() <= SECONDS(0.5));
}

TEST_IN(what_changes_during_the_work_is_looked_at_after_it)
{
    settle();
    look_drifted();
    world_expect(KUBE_MERGE_PATCH, LEASE);
    look(NULL);
    assert_int_equal(world.client.requests, 2);
    answer(200, lease("l1"));
    world_expect(KUBE_GET, NODE); /* it may have gone with its Node */
    answer(200, node("n1"));
    world_expect(KUBE_GET, LEASE);
    answer(200, lease("l1"));
    assert_true(is_idle());
}

TEST_IN(a_lease_that_was_just_made_answers_what_it_was_gone_for)
{
    settle_without();
    look(NULL);
    answer(201, lease("l1"));
    assert_true(is_idle());
}

TEST_IN(a_lease_that_is_gone_ends_the_pause)
{
    look_drifted();
    answer(200, node("n1"));
    answer(200, with_duration(lease("l1"), 15));
    look_drifted();
    assert_true(wait_ns() > SECONDS(199));
    look(NULL);
    create();
}
