/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/lease_writer.h"

#include "contract/lease.h"
#include "tests/support/case.h"
#include "tests/unit/api_world.h"

#define LEASES     "/apis/coordination.k8s.io/v1/namespaces/ovn/leases"
#define LEASE      LEASES "/ovn-dpu-w1"
#define FORMER     "2023-11-14T22:00:00.000000Z"
#define SECONDS(n) ((int64_t)((n)*1e9))

static struct {
    struct lease_writer *writer;
    int renewed;
    int stopped;
} t;

static void on_renewed(void *user)
{
    assert_ptr_equal(user, &t);
    t.renewed++;
}

static void on_stopped(void *user)
{
    assert_ptr_equal(user, &t);
    t.stopped++;
}

static struct renewer_config config(void)
{
    return (struct renewer_config){.lease_ns = "ovn",
                                   .lease_name = "ovn-dpu-w1",
                                   .holder = "ovnkube-dpu-node",
                                   .node_name = "w1",
                                   .boot_id = "0f3c1f00-1111-2222-3333-444455556666",
                                   .version = "7.0",
                                   .interval_ns = SECONDS(10),
                                   .duration_ns = SECONDS(40),
                                   .seed = 7};
}

static void start_with(const struct renewer_config *c)
{
    const struct lease_writer_handlers handlers = {
        .renewed = on_renewed, .stopped = on_stopped, .user = &t};
    memset(&t, 0, sizeof(t));
    loop_world_start();
    world.client.may_be_fresh = true;
    t.writer = lease_writer_start(LOOP_WORLD, &world.client, c, &handlers);
    assert_string_equal(lease_writer_phase(t.writer), "Starting");
    world_expect(KUBE_GET, LEASE);
    assert_int_equal(world.client.priority, KUBE_URGENT);
}

static void stop(void)
{
    lease_writer_free(t.writer);
    t.writer = NULL;
    assert_false(world.client.is_busy || world.timer.fire);
}

/* Of each case the last one. */
static int stop_last(void **state)
{
    stop();
    return 0;
}

#define CASE(name) TEST_WITH(name, NULL, stop_last)

/* As the host made it, with something that we do not know. */
static json_t *lease(const char *stamp)
{
    return json_pack("{s:{s:s, s:s, s:s, s:s, s:{s:s}}, s:{s:s, s:s, s:i}}", "metadata", "name",
                     "ovn-dpu-w1", "namespace", "ovn", "uid", "u1", "resourceVersion", "5",
                     "labels", "a", "b", "spec", "renewTime", stamp, "holderIdentity",
                     "ovnkube-dpu-node", "leaseDurationSeconds", 40);
}

static void answer(int http_status, json_t *body)
{
    CLEANUP(json) json_t *owned = body;
    struct kube_response r = loop_world_response(http_status, owned);
    client_answer(&world.client, &r);
}

static const char *sent(const char *half, const char *key)
{
    return json_text_get(json_object_get(world.client.body, half), key);
}

static const char *sent_annotation(const char *key)
{
    const json_t *meta = json_object_get(world.client.body, "metadata");
    return json_text_get(json_object_get(meta, "annotations"), key);
}

static void accept_put(void)
{
    world_expect(KUBE_PUT, LEASE);
    answer(200, json_deep_copy(world.client.body));
}

/* The lease was read, and the DPU is well. */
static void start_healthy(const struct renewer_config *c)
{
    start_with(c);
    answer(200, lease(FORMER));
    assert_false(world.client.is_busy); /* nobody has judged yet */
    lease_writer_judge(t.writer, PROBE_HEALTHY, "");
}

/* Its first renewal is answered. */
static void start_renewing(void)
{
    const struct renewer_config c = config();
    start_healthy(&c);
    accept_put();
    assert_int_equal(t.renewed, 1);
}

static const struct lease_writer_stats *stats(void)
{
    return lease_writer_stats(t.writer);
}

static uint64_t failed(const char *cause)
{
    size_t i = 0;
    while (!text_equal(lease_failure_cause(i), cause)) {
        i++;
    }
    return stats()->failures[i];
}

/* Renewals whose duration was measured. */
static uint64_t measured(void)
{
    uint64_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(stats()->durations.buckets); i++) {
        count += stats()->durations.buckets[i];
    }
    return count;
}

/* ---- writing --------------------------------------------------------------------------------- */

CASE(a_renewal_is_an_edited_copy_of_what_was_read)
{
    const struct renewer_config c = config();
    start_healthy(&c);
    world_expect(KUBE_PUT, LEASE);
    struct mono begun = world.now;
    assert_int_equal(world.client.channel, KUBE_CONTROL);
    assert_int_equal(world.client.priority, KUBE_URGENT);
    assert_true(world.client.deadline_ms > 0);
    assert_string_equal(sent("spec", "renewTime"), "2023-11-14T22:13:20.000000Z");
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_BOOT_ID), c.boot_id);
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_VERSION), "7.0");
    assert_null(sent_annotation(NAMES_ANNOTATION_PROBES));
    assert_non_null(json_object_get(json_object_get(world.client.body, "metadata"), "labels"));
    world.now = mono_add(world.now, SECONDS(0.2));
    accept_put();
    assert_int_equal(t.renewed, 1);
    assert_int_equal(stats()->renewals, 1);
    assert_int_equal(stats()->renewed_at.ns, begun.ns);
    assert_int_equal(stats()->interval_ns, SECONDS(10));
    assert_string_equal(lease_writer_phase(t.writer), "Renewing");
    world_pass(SECONDS(10));
    accept_put();
    assert_int_equal(stats()->renewals, 2);
}

/* The answers of a server that counts: each has the version of the one before, and one more. */
static void accept_as(const char *version)
{
    world_expect(KUBE_PUT, LEASE);
    json_t *stored = json_deep_copy(world.client.body);
    assert_int_equal(json_object_set_new(json_object_get(stored, "metadata"), "resourceVersion",
                                         json_string(version)),
                     0);
    answer(200, stored);
}

CASE(answers_that_differ_in_version_and_time_alone_are_not_parsed)
{
    static const char *const versions[] = {"10", "11", "12", "13"};
    start_renewing(); /* acquireTime was set */
    world_pass(SECONDS(10));
    accept_as(versions[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(world.client.known, i);
        world_pass(SECONDS(10));
        assert_string_equal(sent("metadata", "resourceVersion"), versions[i]);
        assert_non_null(json_object_get(json_object_get(world.client.body, "metadata"), "labels"));
        accept_as(versions[i + 1]);
        assert_int_equal(t.renewed, 3 + i);
    }
    world_pass(SECONDS(10));
    accept_as("100"); /* longer */
    assert_int_equal(world.client.known, 3);
    world_pass(SECONDS(10));
    assert_string_equal(sent("metadata", "resourceVersion"), "100");
    accept_as("101");
    assert_int_equal(world.client.known, 4);
    assert_int_equal(t.renewed, 7);
}

/* Somebody writes in between, or a webhook does: the next renewal has it, too. */
CASE(what_others_change_between_two_renewals_rides_along)
{
    start_renewing();
    for (int i = 0; i < 3; i++) {
        world_pass(SECONDS(10));
        accept_put();
    }
    assert_int_equal(world.client.known, 3);
    world_pass(SECONDS(10));
    json_t *stored = json_deep_copy(world.client.body);
    json_t *labels = json_object_get(json_object_get(stored, "metadata"), "labels");
    assert_int_equal(json_object_set_new(labels, "new", json_string("x")), 0);
    answer(200, stored);
    assert_int_equal(world.client.known, 3);
    world_pass(SECONDS(10));
    const json_t *sent_meta = json_object_get(world.client.body, "metadata");
    assert_string_equal(json_text_get(json_object_get(sent_meta, "labels"), "new"), "x");
    answer(409, NULL);
    world_expect(KUBE_GET, LEASE);
    answer(200, lease(FORMER)); /* and gone again */
    sent_meta = json_object_get(world.client.body, "metadata");
    assert_null(json_text_get(json_object_get(sent_meta, "labels"), "new"));
    accept_put();
}

/* It would renew the lease. */
CASE(a_report_carries_no_renewal_that_was_lost)
{
    start_renewing();
    world_pass(SECONDS(10));
    world_expect(KUBE_PUT, LEASE);
    answer(0, NULL);
    lease_writer_judge(t.writer, PROBE_UNHEALTHY, "ovs-vswitchd");
    world_pass(SECONDS(10));
    world_expect(KUBE_PUT, LEASE);
    assert_string_equal(sent("spec", "renewTime"), "2023-11-14T22:13:20.000000Z");
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_HEALTH), NAMES_HEALTH_UNHEALTHY);
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_HEALTH_MESSAGE), "ovs-vswitchd");
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_VERSION), "7.0");
    accept_put();
    assert_int_equal(stats()->renewals, 1); /* that was none */
    assert_string_equal(lease_writer_phase(t.writer), "Reporting");
}

CASE(who_asks_nobody_says_so)
{
    struct renewer_config c = config();
    c.has_no_probe = true;
    start_healthy(&c);
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_PROBES), NAMES_PROBES_NONE);
}

/* A read shows a lease whose writers the API server keeps track of. */
static void read_managed(const struct renewer_config *c)
{
    json_t *read = lease(FORMER);
    assert_int_equal(json_object_set_new(json_object_get(read, "metadata"), "managedFields",
                                         json_pack("[{s:s}]", "manager", "kubectl")),
                     0);
    start_with(c);
    answer(200, read);
}

static json_t *sent_managers(void)
{
    return json_object_get(json_object_get(world.client.body, "metadata"), "managedFields");
}

CASE(who_manages_which_field_is_cleared_once)
{
    const struct renewer_config c = config();
    read_managed(&c);
    lease_writer_judge(t.writer, PROBE_HEALTHY, "");
    world_expect(KUBE_PUT, LEASE);
    CLEANUP(json) json_t *cleared = json_pack("[{}]");
    assert_true(json_equal(sent_managers(), cleared));
    assert_string_equal(sent("metadata", "uid"), "u1");
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_RENEW), sent("spec", "renewTime"));
    json_t *shown = json_deep_copy(world.client.body);
    assert_int_equal(json_object_del(json_object_get(shown, "metadata"), "managedFields"), 0);
    answer(200, shown);
    world_pass(SECONDS(10));
    world_expect(KUBE_PUT, LEASE);
    assert_null(sent_managers());
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_RENEW), sent("spec", "renewTime"));
}

/* Upstream's DPU side renews, and the host may need to know it by its name. */
CASE(a_companion_leaves_who_manages_which_field)
{
    struct renewer_config c = config();
    c.is_companion = true;
    read_managed(&c);
    lease_writer_judge(t.writer, PROBE_UNHEALTHY, "ovs");
    world_expect(KUBE_PUT, LEASE);
    assert_null(sent_managers());
    assert_null(sent_annotation(NAMES_ANNOTATION_RENEW));
}

/* ---- answers --------------------------------------------------------------------------------- */

CASE(each_failure_is_counted_under_its_name)
{
    static const struct {
        int http_status;
        enum kube_transport_error error;
        const char *cause;
    } rows[] = {
        {0, KUBE_TRANSPORT_OK, "no_answer"},      {0, KUBE_TRANSPORT_OTHER, "no_answer"},
        {0, KUBE_TRANSPORT_TIMEOUT, "timeout"},   {0, KUBE_TRANSPORT_RESOLVE, "resolve"},
        {0, KUBE_TRANSPORT_CONNECT, "connect"},   {0, KUBE_TRANSPORT_TLS, "tls"},
        {401, KUBE_TRANSPORT_OK, "unauthorized"}, {403, KUBE_TRANSPORT_OK, "forbidden"},
        {404, KUBE_TRANSPORT_OK, "not_found"},    {409, KUBE_TRANSPORT_OK, "conflict"},
        {429, KUBE_TRANSPORT_OK, "throttled"},    {499, KUBE_TRANSPORT_OK, "other"},
        {500, KUBE_TRANSPORT_OK, "server_error"}, {503, KUBE_TRANSPORT_OK, "server_error"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        start_renewing();
        world_pass(SECONDS(10));
        struct kube_response r = loop_world_response(rows[i].http_status, NULL);
        r.transport_error = rows[i].error;
        client_answer(&world.client, &r);
        for (size_t kind = 0; kind < LEASE_FAILURES; kind++) {
            bool is_it = text_equal(lease_failure_cause(kind), rows[i].cause);
            assert_int_equal(stats()->failures[kind], is_it ? 1 : 0);
        }
        assert_int_equal(stats()->renewals, 1);
        stop();
    }
}

CASE(a_renewal_whose_answer_was_lost_counts_once_it_is_seen)
{
    start_renewing();
    struct mono first = stats()->renewed_at;
    world_pass(SECONDS(10));
    world_expect(KUBE_PUT, LEASE);
    json_t *committed = json_deep_copy(world.client.body);
    struct mono lost_at = world.now;
    answer(504, NULL);
    world_pass(SECONDS(1));
    world_expect(KUBE_PUT, LEASE);
    answer(409, NULL);
    world_expect(KUBE_GET, LEASE);
    answer(200, committed);
    assert_false(world.client.is_busy);
    assert_int_equal(t.renewed, 2);
    assert_int_equal(stats()->renewals, 2);
    assert_true(mono_before(first, stats()->renewed_at));
    assert_true(mono_reached(lost_at, stats()->renewed_at));
}

/* What the metric lease_renewal_duration_seconds shows. */
CASE(durations_are_those_of_answered_renewals)
{
    start_renewing(); /* it was read before, */
    assert_int_equal(measured(), 1);
    world_pass(SECONDS(10));
    answer(503, NULL); /* fails, */
    assert_int_equal(measured(), 1);
    world_pass(SECONDS(1));
    CLEANUP(json) json_t *body = json_deep_copy(world.client.body);
    struct kube_response r = loop_world_response(200, body);
    r.received_at = mono_add(r.sent_at, SECONDS(0.25));
    client_answer(&world.client, &r); /* is renewed, */
    assert_int_equal(measured(), 2);
    assert_int_equal(stats()->durations.sum_ns, SECONDS(0.25));
    lease_writer_judge(t.writer, PROBE_UNHEALTHY, "ovs-vswitchd");
    assert_non_null(sent_annotation(NAMES_ANNOTATION_HEALTH));
    accept_put(); /* and says that it is not well */
    assert_int_equal(measured(), 2);
}

CASE(what_follows_a_failure_is_a_retry)
{
    start_renewing();
    assert_int_equal(stats()->retries, 0);
    world_pass(SECONDS(10));
    answer(503, NULL);
    world_pass(SECONDS(10));
    assert_int_equal(stats()->retries, 1);
    assert_int_equal(world.client.channel, KUBE_FRESH); /* the old connection may be at fault */
    accept_put();
    world_pass(SECONDS(10));
    assert_int_equal(stats()->retries, 1);
    assert_int_equal(world.client.channel, KUBE_CONTROL);
}

CASE(an_answer_without_a_lease_is_no_success)
{
    static const char *const bodies[] = {NULL, "{}"};
    static const char *const said[] = {"the answer is not a lease", "lease without metadata"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        start_renewing();
        world_pass(SECONDS(10));
        answer(200, bodies[i] ? json_loads(bodies[i], 0, NULL) : NULL);
        assert_int_equal(loop_world_said(said[i]), 1);
        assert_int_equal(t.renewed, 1);
        assert_int_equal(failed("other"), 1);
        assert_int_equal(loop_world_said("failed: "), 1);
        world_pass(SECONDS(10));
        world_expect(KUBE_GET, LEASE); /* what is there now? */
        stop();
    }
}

/* What a webhook may do. */
CASE(a_write_that_leaves_the_old_renew_time_is_no_renewal)
{
    for (int is_dropped = 0; is_dropped < 2; is_dropped++) {
        start_renewing();
        CLEANUP(json) json_t *kept = lease("2023-11-14T22:13:20.000000Z"); /* the first renewal's */
        if (is_dropped) {
            assert_int_equal(json_object_del(json_object_get(kept, "spec"), "renewTime"), 0);
        }
        for (int i = 1; i <= 3; i++) {
            world_pass(SECONDS(10));
            answer(200, json_deep_copy(kept));
            assert_int_equal(failed("other"), i);
            world_pass(SECONDS(10));
            world_expect(KUBE_GET, LEASE);
            answer(200, json_deep_copy(kept));
            world_expect(KUBE_PUT, LEASE);
        }
        assert_int_equal(loop_world_said("but the API server stored '2"), !is_dropped);
        assert_int_equal(t.renewed, 1);
        accept_put();
        assert_int_equal(t.renewed, 2);
        assert_int_equal(loop_world_said("succeed again"), 1);
        stop();
    }
}

/* The API server's clock, ahead of ours by so much. */
static void answer_dated(int64_t ahead_ns)
{
    CLEANUP(json) json_t *body = json_deep_copy(world.client.body);
    struct kube_response r = loop_world_response(200, body);
    r.has_server_date = true;
    r.server_date = (struct wall){r.received_wall.ns + ahead_ns};
    client_answer(&world.client, &r);
    world_pass(SECONDS(10));
    world_expect(KUBE_PUT, LEASE);
}

CASE(a_clock_that_disagrees_is_told_of_when_it_changes)
{
    static const struct {
        double ahead_s;
        int told_behind;
        int told_ahead;
        int told_agrees;
    } rows[] = {{5, 0, 0, 0},  {5.5, 1, 0, 0}, {10.5, 1, 0, 0}, {11, 2, 0, 0},
                {6, 2, 0, 0},  {5.5, 3, 0, 0}, {0, 3, 0, 1},    {0, 3, 0, 1},
                {-6, 3, 1, 1}, {-12, 3, 2, 1}, {-1, 3, 2, 2}};
    start_renewing();
    world_pass(SECONDS(10));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        answer_dated(SECONDS(rows[i].ahead_s));
        assert_int_equal(loop_world_said("behind the API server"), rows[i].told_behind);
        assert_int_equal(loop_world_said("ahead of the API server"), rows[i].told_ahead);
        assert_int_equal(loop_world_said("agrees with"), rows[i].told_agrees);
    }
    assert_int_equal(loop_world_said("12s ahead of"), 1);
    accept_put(); /* without a Date nothing is known */
    assert_int_equal(loop_world_said("agrees with"), 2);
}

/* ---- trouble of our own ---------------------------------------------------------------------- */

CASE(it_makes_progress_while_it_is_woken_in_time)
{
    start_renewing();
    struct mono due = world.timer.deadline;
    assert_true(lease_writer_makes_progress(t.writer, mono_add(due, SECONDS(9.9))));
    assert_false(lease_writer_makes_progress(t.writer, mono_add(due, SECONDS(10.1))));
}

/* ---- the end --------------------------------------------------------------------------------- */

CASE(a_stop_leaves_the_lease_alone)
{
    start_renewing();
    world_pass(SECONDS(10));
    world_expect(KUBE_PUT, LEASE);
    lease_writer_stop(t.writer);
    assert_false(world.client.is_busy); /* it is cancelled */
    assert_int_equal(t.stopped, 1);
    assert_string_equal(lease_writer_phase(t.writer), "Stopped");
    lease_writer_free(NULL);
}

CASE(a_shutdown_is_announced_first)
{
    struct renewer_config c = config();
    c.announce_shutdown = true;
    start_with(&c);
    answer(200, lease(FORMER));
    lease_writer_stop(t.writer);
    world_expect(KUBE_PUT, LEASE);
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_HEALTH), NAMES_HEALTH_SHUTDOWN);
    assert_string_equal(sent("spec", "renewTime"), FORMER);
    assert_int_equal(t.stopped, 0);
    assert_string_equal(lease_writer_phase(t.writer), "Stopping");
    accept_put();
    assert_int_equal(t.stopped, 1);
}

/* A slow server's answer counts although the next try is under way, and ends that. */
CASE(an_answer_that_comes_late_is_a_renewal)
{
    start_renewing();
    world_pass(SECONDS(10));
    world_expect(KUBE_PUT, LEASE);
    struct kube_call *first = world.client.newest;
    struct kube_response r = loop_world_response(200, NULL);
    r.body = lease(sent("spec", "renewTime"));
    struct mono begun = world.now;
    loop_world_pass(SECONDS(5));
    assert_int_equal(failed("timeout"), 1);
    assert_false(world.client.newest->client == NULL); /* it goes on */
    world_pass(SECONDS(1));
    world_expect(KUBE_PUT, LEASE);
    assert_int_equal(world.client.channel, KUBE_FRESH);
    assert_ptr_not_equal(world.client.newest, first);
    uint64_t before = measured();
    r.received_at = world.now;
    client_answer_call(first, &r);
    json_decref(r.body);
    assert_false(world.client.is_busy);
    assert_int_equal(t.renewed, 2);
    assert_between(stats()->renewed_at.ns, begun.ns - SECONDS(1), begun.ns); /* its start */
    assert_int_equal(measured(), before + 1);
    assert_int_equal(stats()->late, 1);
}

CASE(a_late_answer_without_a_lease_is_nothing)
{
    static const int statuses[] = {503, 200};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        start_renewing();
        world_pass(SECONDS(10));
        struct kube_call *first = world.client.newest;
        loop_world_pass(SECONDS(5));
        struct kube_response r = loop_world_response(statuses[i], NULL);
        client_answer_call(first, &r);
        assert_int_equal(t.renewed, 1);
        world_pass(SECONDS(1));
        accept_put();
        assert_int_equal(t.renewed, 2);
        stop();
    }
}

/* What is written beside it has the same version: each try of a slow server would be refused. */
CASE(a_conflict_that_comes_late_is_read_at_once)
{
    start_renewing();
    world_pass(SECONDS(10));
    struct kube_call *first = world.client.newest;
    loop_world_pass(SECONDS(5));
    world_pass(SECONDS(1));
    world_expect(KUBE_PUT, LEASE);
    struct kube_response r = loop_world_response(409, NULL);
    r.code = ERR_CONFLICT;
    client_answer_call(first, &r);
    world_expect(KUBE_GET, LEASE);
    answer(200, lease(FORMER));
    accept_put();
    assert_int_equal(t.renewed, 2);
}

/* ---- a lease that nobody made ---------------------------------------------------------------- */

static void start_missing(void)
{
    const struct renewer_config c = config();
    start_with(&c);
    lease_writer_judge(t.writer, PROBE_HEALTHY, "");
    for (int i = 0; i < 100 && strcmp(world.client.path, "/api/v1/nodes/w1") != 0; i++) {
        world_expect(KUBE_GET, LEASE);
        answer(404, NULL);
        world_pass(world.client.is_busy ? 0 : mono_since(world.timer.deadline, world.now));
    }
    world_expect(KUBE_GET, "/api/v1/nodes/w1");
    assert_true(mono_since(world.now, (struct mono){WORLD_BOOT_NS}) >= SECONDS(40));
}

CASE(a_lease_that_stays_missing_is_made_for_its_node)
{
    start_missing();
    answer(200, json_pack("{s:{s:s}}", "metadata", "uid", "n1"));
    world_expect(KUBE_POST, LEASES);
    assert_int_equal(world.client.channel, KUBE_CONTROL);
    assert_string_equal(sent("metadata", "name"), "ovn-dpu-w1");
    assert_string_equal(sent("spec", "holderIdentity"), "ovnkube-dpu-node");
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_BOOT_ID), config().boot_id);
    assert_string_equal(sent_annotation(NAMES_ANNOTATION_VERSION), "7.0");
    const json_t *meta = json_object_get(world.client.body, "metadata");
    assert_string_equal(
        json_text_get(json_array_get(json_object_get(meta, "ownerReferences"), 0), "uid"), "n1");
    const json_t *spec = json_object_get(world.client.body, "spec");
    assert_int_equal(json_integer_value(json_object_get(spec, "leaseDurationSeconds")), 40);
    json_t *made = lease(sent("spec", "renewTime"));
    answer(201, made);
    assert_int_equal(t.renewed, 1);
    assert_int_equal(stats()->renewals, 1); /* it is one */
    assert_int_equal(measured(), 1);
    world_pass(SECONDS(10));
    accept_put();
    assert_int_equal(t.renewed, 2);
}

/* Both requests together, so that the lease is looked for again as soon as after any other. */
CASE(making_a_lease_takes_no_longer_than_another_request)
{
    start_missing();
    assert_int_equal(world.client.deadline_ms, 4500);
    loop_world_pass(SECONDS(1));
    answer(200, json_pack("{s:{s:s}}", "metadata", "uid", "n1"));
    world_expect(KUBE_POST, LEASES);
    assert_int_equal(world.client.deadline_ms, 8000);
}

/* It would outlive its Node. */
CASE(without_a_node_none_is_made)
{
    static const struct {
        int http_status;
        const char *body;
        const char *cause;
    } rows[] = {{404, NULL, "not_found"},
                {403, NULL, "forbidden"},
                {200, "{}", "other"},
                {200, "{\"metadata\":{\"uid\":\"\"}}", "other"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        start_missing();
        uint64_t before = failed(rows[i].cause);
        answer(rows[i].http_status, rows[i].body ? json_loads(rows[i].body, 0, NULL) : NULL);
        assert_false(world.client.is_busy);
        assert_int_equal(failed(rows[i].cause), before + 1);
        assert_int_equal(loop_world_said("is not a Node with a UID"), rows[i].http_status == 200);
        assert_int_equal(stats()->renewals, 0);
        stop();
    }
}

CASE(its_making_ends_with_the_agent)
{
    for (int posts = 0; posts < 2; posts++) {
        start_missing();
        if (posts) {
            answer(200, json_pack("{s:{s:s}}", "metadata", "uid", "n1"));
            world_expect(KUBE_POST, LEASES);
        }
        lease_writer_stop(t.writer);
        assert_false(world.client.is_busy);
        assert_int_equal(t.stopped, 1);
        stop();
    }
    start_missing();
}

/* ---- beside another that renews -------------------------------------------------------------- */

CASE(a_companion_counts_the_renewals_that_it_sees)
{
    struct renewer_config c = config();
    c.is_companion = true;
    c.boot_id[0] = '\0';
    c.version[0] = '\0';
    start_healthy(&c);
    answer(200, lease(FORMER));
    assert_int_equal(stats()->renewals, 0); /* the first look is a baseline */
    assert_string_equal(lease_writer_phase(t.writer), "Accompanying");
    world_pass(SECONDS(10));
    world_expect(KUBE_GET, LEASE);
    answer(200, lease("2023-11-14T22:13:29.000000Z"));
    assert_int_equal(t.renewed, 1);
    assert_int_equal(stats()->renewals, 1);
    assert_int_equal(stats()->renewed_at.ns, world.now.ns);
}
