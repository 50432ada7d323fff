/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/lease_watch.h"

#include "contract/lease.h"
#include "tests/support/case.h"
#include "tests/unit/api_world.h"

#define LEASES     "/apis/coordination.k8s.io/v1/namespaces/ovn/leases"
#define LEASE      LEASES "/ovn-dpu-w1"
#define SECONDS(n) ((int64_t)((n)*1e9))

enum { EVENTS_MAX = 8, DEADLINE_MS = 5000 };

static struct world {
    struct lease_watch *watch;
    struct verdict_event events[EVENTS_MAX];
    struct lease_view lease; /* of the last event that has one */
    char failure[VERDICT_FAILURE_BYTES];
    size_t count;
    bool asks_in_turn; /* the next event is answered by asking for a mark */
} * t;

static void ask_to_write(bool is_trial);

static void on_event(void *user, struct verdict_event event, const json_t *object)
{
    assert_ptr_equal(user, t);
    assert_true((object != NULL) == (event.lease != NULL));
    assert_true(t->count < EVENTS_MAX);
    t->events[t->count++] = event;
    if (event.lease) {
        t->lease = *event.lease;
    }
    (void)text_copy(t->failure, sizeof(t->failure), event.failure ? event.failure : "");
    if (t->asks_in_turn) { /* as the verdict does where a mark is due */
        t->asks_in_turn = false;
        ask_to_write(false);
    }
}

static void start(struct world *w)
{
    const struct lease_watch_config config = {.ns = "ovn",
                                              .name = "ovn-dpu-w1",
                                              .renew_interval_ns = SECONDS(10),
                                              .deadline_ms = DEADLINE_MS,
                                              .on_event = on_event,
                                              .user = w};
    t = w;
    loop_world_start();
    world.client.may_be_fresh = true;
    w->watch = lease_watch_start(&world.client, &config);
    assert_true(world.client.is_watching);
    assert_string_equal(world.client.watch.collection_path, LEASES);
    assert_string_equal(world.client.watch.name, "ovn-dpu-w1");
}

static void stop(struct world *w)
{
    lease_watch_stop(w->watch);
    lease_watch_stop(NULL);
    assert_false(world.client.is_busy || world.client.is_watching);
    assert_true(!world.client.calls[0].client && !world.client.calls[1].client);
}

WORLD(start, stop)

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

static void answer_reason(int http_status, json_t *body, const char *reason)
{
    CLEANUP(json) json_t *owned = body;
    struct kube_response r = loop_world_response(http_status, owned);
    (void)text_copy(r.reason, sizeof(r.reason), reason);
    client_answer(&world.client, &r);
}

/* Of our lease as it is. */
static void ask_to_write(bool is_trial)
{
    CLEANUP(json) json_t *object = ours();
    struct lease_view judged;
    assert_int_equal(lease_read(object, &judged, NULL), 0);
    lease_watch_mark(t->watch, &judged, is_trial);
}

static void show(json_t *object, bool listed)
{
    CLEANUP(json) json_t *owned = object;
    const struct kube_watch_config *watch = &world.client.watch;
    watch->on_object(watch->user, owned, listed ? world.now : (struct mono){0});
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
    world.client.watch.on_failure(world.client.watch.user, &r);
}

/* This alone; and forgets it. */
static void expect(enum verdict_source source, enum verdict_event_kind kind)
{
    assert_int_equal(t->count, 1);
    assert_int_equal(t->events[0].kind, kind);
    assert_int_equal(t->events[0].source, source);
    t->count = 0;
}

/* ---- list and watch -------------------------------------------------------------------------- */

TEST_IN(a_list_is_a_read_and_a_watch_is_none)
{
    show(ours(), true);
    assert_int_equal(t->events[0].started_at.ns, world.now.ns);
    expect(VERDICT_BY_READ, VERDICT_LEASE_OBSERVED);
    assert_string_equal(t->lease.name, "ovn-dpu-w1");
    show(NULL, true);
    expect(VERDICT_BY_READ, VERDICT_LEASE_ABSENT);
    show(ours(), false);
    expect(VERDICT_BY_WATCH, VERDICT_LEASE_OBSERVED);
    show(NULL, false);
    expect(VERDICT_BY_WATCH, VERDICT_LEASE_ABSENT);
}

TEST_IN(what_is_no_lease_of_ours_is_told_as_unreadable)
{
    json_t *const objects[] = {json_object(), lease("ovn", "ovn-dpu-w2"), lease("o", "ovn-dpu-w1")};
    for (size_t i = 0; i < ARRAY_LEN(objects); i++) {
        show(objects[i], false);
        assert_true(strlen(t->failure) > 0);
        expect(VERDICT_BY_WATCH, VERDICT_LEASE_UNREADABLE);
    }
    assert_int_equal(loop_world_said("cannot be read"), 1); /* a minute */
}

/* Its PATCH ends a trial, as it tells the same, and no mark. */
TEST_IN(what_the_keeper_wrote_is_a_mark)
{
    CLEANUP(json) json_t *written = ours();
    CLEANUP(json) json_t *other = lease("ovn", "ovn-dpu-w2");
    for (int row = 0; row < 6; row++) {
        bool is_patch = row % 2 == 1;
        if (row > 1) {
            ask_to_write(row < 4);
        }
        lease_watch_saw(t->watch, written, (struct mono){7}, is_patch);
        assert_int_equal(t->events[0].outcome, MARK_TAKEN);
        assert_int_equal(t->events[0].started_at.ns, 7);
        assert_non_null(t->events[0].lease);
        expect(is_patch && row < 4 ? VERDICT_BY_MARK : VERDICT_BY_KEEPER, VERDICT_MARK);
        assert_int_equal(world.client.is_busy, row > 3 || row == 2);
    }
    lease_watch_saw(t->watch, other, (struct mono){8}, false);
    expect(VERDICT_BY_KEEPER, VERDICT_LEASE_UNREADABLE);
}

TEST_IN(a_watch_that_fails_is_told_and_its_return_once)
{
    contact();
    assert_int_equal(t->count, 0); /* nothing has failed */
    for (int i = 0; i < 2; i++) {
        break_off();
        expect(VERDICT_BY_WATCH, VERDICT_WATCH_BROKEN);
    }
    assert_int_equal(loop_world_said("reading it instead"), 1);
    contact();
    expect(VERDICT_BY_WATCH, VERDICT_WATCH_WORKS);
    contact();
    assert_int_equal(t->count, 0);
    assert_int_equal(loop_world_said("again"), 1);
    break_off(); /* too soon to be said, and then its end is not either */
    contact();
    assert_int_equal(loop_world_said("again"), 1);
}

/* A list alone does not mean that we may watch. */
TEST_IN(what_the_watch_shows_means_that_it_works)
{
    break_off();
    t->count = 0;
    show(ours(), true);
    t->count = 0;
    contact();
    expect(VERDICT_BY_WATCH, VERDICT_WATCH_WORKS);
    break_off();
    t->count = 0;
    show(ours(), false);
    t->count = 0;
    contact();
    assert_int_equal(t->count, 0);
}

TEST_IN(a_watch_that_is_mistrusted_is_opened_anew)
{
    lease_watch_restart(t->watch);
    lease_watch_restart(t->watch);
    assert_int_equal(world.client.watch_restarts, 2);
    assert_int_equal(loop_world_said("opening a new watch"), 1);
    deny();
    lease_watch_restart(t->watch); /* there is none */
    assert_int_equal(world.client.watch_restarts, 2);
    ++*world.client.watch.opened;
    assert_int_equal(lease_watch_stats(t->watch)->watches, 1);
}

/* ---- reads ----------------------------------------------------------------------------------- */

TEST_IN(an_answer_is_an_answer_whatever_it_is_worth)
{
    static const struct {
        int http_status;
        const char *body;
        const char *reason;
        enum verdict_event_kind told;
    } rows[] = {
        {404, NULL, "NotFound", VERDICT_LEASE_ABSENT},
        {404, NULL, "", VERDICT_LEASE_UNREADABLE}, /* a proxy's */
        {403, NULL, "NotFound", VERDICT_LEASE_UNREADABLE},
        {500, NULL, "", VERDICT_LEASE_UNREADABLE},
        {200, "{}", "", VERDICT_LEASE_UNREADABLE},
        {200, NULL, "", VERDICT_LEASE_UNREADABLE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *body = rows[i].body ? json_loads(rows[i].body, 0, NULL) : NULL;
        lease_watch_confirm(t->watch);
        world_expect(KUBE_GET, LEASE);
        struct kube_response r = loop_world_response(rows[i].http_status, body);
        (void)text_copy(r.reason, sizeof(r.reason), rows[i].reason);
        loop_world_pass(SECONDS(1));
        client_answer(&world.client, &r);
        assert_int_equal(t->events[0].started_at.ns, world.now.ns - SECONDS(1));
        expect(VERDICT_BY_CONFIRM, rows[i].told);
        assert_int_equal(lease_watch_stats(t->watch)->confirmed, i + 1);
    }
    lease_watch_confirm(t->watch);
    answer(200, ours());
    expect(VERDICT_BY_CONFIRM, VERDICT_LEASE_OBSERVED);
    assert_int_equal(lease_watch_stats(t->watch)->confirm_failed, 0);
}

TEST_IN(only_no_answer_is_lost_contact)
{
    for (int i = 0; i < 2; i++) {
        lease_watch_confirm(t->watch);
        answer(0, NULL);
        assert_string_equal(t->failure, "told by the test");
        expect(VERDICT_BY_CONFIRM, VERDICT_READ_FAILED);
    }
    assert_int_equal(lease_watch_stats(t->watch)->confirm_failed, 2);
    assert_int_equal(lease_watch_stats(t->watch)->confirmed, 0);
    assert_int_equal(loop_world_said("told by the test"), 1);
}

/* Evidence: on a connection of its own, without waiting, with its deadline; one at a time. */
TEST_IN(evidence_is_had_afresh)
{
    static const enum kube_method methods[] = {KUBE_GET, KUBE_MERGE_PATCH};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        for (int asked = 0; asked < 3; asked++) { /* it goes on until it is answered */
            i == 0 ? lease_watch_confirm(t->watch) : ask_to_write(false);
            world_expect(methods[i], LEASE);
            assert_int_equal(world.client.channel, KUBE_FRESH);
            assert_int_equal(world.client.priority, KUBE_URGENT);
            assert_true(world.client.deadline_ms >= DEADLINE_MS);
            if (asked == 1) {
                answer(200, ours());
            }
        }
        world_renew(w); /* ends it */
    }
}

/* A slow name server: what comes after its time is a read all the same, and the next one has more.
 */
TEST_IN(a_read_that_comes_late_is_told_and_gives_the_next_one_more_time)
{
    CLEANUP(json) json_t *body = ours();
    for (int deadline_s = DEADLINE_MS / 1000; deadline_s < 20; deadline_s *= 2) {
        lease_watch_confirm(t->watch);
        struct kube_call *first = world.client.newest;
        struct kube_response r = loop_world_response(200, body);
        loop_world_pass(SECONDS(deadline_s) - 1);
        assert_int_equal(t->count, 0);
        loop_world_pass(1);
        expect(VERDICT_BY_CONFIRM, VERDICT_READ_FAILED);
        r.received_at = world.now;
        client_answer_call(first, &r);
        assert_int_equal(t->events[0].started_at.ns, r.sent_at.ns);
        expect(VERDICT_BY_READ, VERDICT_LEASE_OBSERVED);
    }
    lease_watch_confirm(t->watch);
    loop_world_pass(SECONDS(7));
    lease_watch_confirm(t->watch); /* one under way goes on */
    answer(200, ours());
    expect(VERDICT_BY_CONFIRM, VERDICT_LEASE_OBSERVED);
    lease_watch_confirm(t->watch);
    answer(200, ours()); /* fast again */
    expect(VERDICT_BY_CONFIRM, VERDICT_LEASE_OBSERVED);
    lease_watch_confirm(t->watch);
    loop_world_pass(DEADLINE_MS * NS_PER_MS);
    expect(VERDICT_BY_CONFIRM, VERDICT_READ_FAILED);
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* Of the PATCH under way; copied. */
static void take_text(char *out, size_t out_bytes)
{
    const json_t *metadata = json_object_get(world.client.body, "metadata");
    assert_int_equal(json_object_size(world.client.body), 1);
    assert_int_equal(json_object_size(metadata), 2);
    assert_string_equal(json_text_get(metadata, "resourceVersion"), "5");
    text_format(
        out, out_bytes, "%s",
        json_text_get(json_object_get(metadata, "annotations"), NAMES_ANNOTATION_HOST_CHECKED));
    assert_true(out[0] != '\0');
}

static json_t *ours_with(const char *text)
{
    json_t *object = ours();
    json_t *annotations = json_pack("{s:s}", NAMES_ANNOTATION_HOST_CHECKED, text);
    assert_int_equal(
        json_object_set_new(json_object_get(object, "metadata"), "annotations", annotations), 0);
    return object;
}

static void expect_mark(enum mark_outcome outcome, struct mono proof_at)
{
    const struct verdict_event *last = &t->events[t->count - 1];
    assert_true(t->count > 0 && !world.client.is_busy);
    assert_int_equal(last->kind, VERDICT_MARK);
    assert_string_equal(mark_outcome_name(last->outcome), mark_outcome_name(outcome));
    assert_int_equal(last->started_at.ns, proof_at.ns);
    t->count = 0;
}

TEST_IN(a_mark_patches_one_annotation_of_the_version_that_is_judged)
{
    char texts[2][64];
    for (int i = 0; i < 2; i++) {
        ask_to_write(false);
        take_text(texts[i], sizeof(texts[i]));
        loop_world_pass(SECONDS(1));
        answer(200, ours_with(texts[i]));
        assert_int_equal(t->count, 1);
        assert_non_null(t->events[0].lease);
        expect_mark(MARK_TAKEN, world.now);
    }
    assert_string_not_equal(texts[0], texts[1]);
    assert_int_equal(loop_world_said("takes marks on lease"), 0); /* no news */
    assert_int_equal(lease_watch_stats(t->watch)->marks[MARK_TAKEN], 2);
}

/* A webhook may not support dryRun: then it writes all the same. */
TEST_IN(a_trial_asks_the_same_and_writes_nothing)
{
    ask_to_write(true);
    world_expect(KUBE_MERGE_PATCH, LEASE "?dryRun=All");
    answer(200, ours_with("any"));
    assert_true(t->events[0].is_trial);
    assert_null(t->events[0].lease);
    expect_mark(MARK_TAKEN, world.now);
    ask_to_write(true);
    answer(400, NULL);
    answer(200, ours());
    world_expect(KUBE_MERGE_PATCH, LEASE);
    answer(200, ours_with("any"));
    assert_true(t->events[t->count - 1].is_trial);
    expect_mark(MARK_TAKEN, world.now);
    ask_to_write(true);
    ask_to_write(false); /* and does not keep it from being written */
    world_expect(KUBE_MERGE_PATCH, LEASE);
    answer(200, ours_with("any"));
    assert_false(t->events[0].is_trial);
}

/* The PATCH's answer, and a GET that shows the lease as it was judged. */
TEST_IN(what_the_answer_to_a_patch_is_worth)
{
    static const struct {
        int http_status;
        enum mark_outcome outcome;
    } rows[] = {{400, MARK_DENIED},    {403, MARK_DENIED},  {422, MARK_DENIED},
                {401, MARK_REFUSED},   {429, MARK_REFUSED}, {500, MARK_REFUSED},
                {504, MARK_UNANSWERED}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ask_to_write(false);
        answer(rows[i].http_status, NULL);
        assert_int_equal(t->count, 0); /* it is told with the mark's end */
        world_expect(KUBE_GET, LEASE);
        answer(200, ours());
        assert_null(t->events[t->count - 1].lease); /* the read has told it */
        assert_int_equal(t->events[0].source, VERDICT_BY_MARK);
        assert_int_equal(lease_watch_stats(t->watch)->marks[rows[i].outcome], 1);
        assert_string_equal(t->failure, "told by the test"); /* of the PATCH */
        expect_mark(rows[i].outcome, world.now);
        world_renew(w);
    }
}

/* Else the answer to the trial's read would pass for the answer to the mark's PATCH. */
TEST_IN(a_mark_that_is_asked_for_by_what_a_trial_shows_ends_the_trial)
{
    ask_to_write(true);
    answer(0, NULL);
    world_expect(KUBE_GET, LEASE);
    t->asks_in_turn = true;
    answer(200, ours());
    expect(VERDICT_BY_MARK, VERDICT_LEASE_OBSERVED); /* and no end of a mark */
    world_expect(KUBE_MERGE_PATCH, LEASE);
    answer(403, NULL);
    answer(200, ours());
    expect_mark(MARK_DENIED, world.now);
}

TEST_IN(a_mark_ends_with_what_its_chain_says)
{
    ask_to_write(false);
    answer(200, json_object()); /* a proxy's page */
    assert_null(t->events[t->count - 1].lease);
    expect_mark(MARK_NONSENSE, world.now);
    ask_to_write(false);
    answer(409, NULL);
    answer_reason(404, NULL, "NotFound");
    assert_int_equal(t->events[0].kind, VERDICT_LEASE_ABSENT);
    expect_mark(MARK_ABSENT, world.now);
    struct mono patched_at = world.now;
    ask_to_write(false);
    loop_world_pass(SECONDS(3));
    answer(0, NULL);
    world_expect(KUBE_GET, LEASE);
    answer(200, ours());
    expect_mark(MARK_UNANSWERED, patched_at);
    ask_to_write(false);
    answer(409, NULL);
    answer(0, NULL);
    expect_mark(MARK_LOST, world.now);
}

/* Only its answer was lost: the text is there. */
TEST_IN(a_mark_that_finds_its_own_text_was_taken)
{
    char text[64];
    for (int is_ours = 0; is_ours < 2; is_ours++) {
        struct mono patched_at = world.now;
        ask_to_write(false);
        take_text(text, sizeof(text));
        loop_world_pass(SECONDS(3));
        answer(0, NULL);
        answer(200, ours_with(is_ours ? text : "2023-11-14T22:13:20.000000Z/1"));
        expect_mark(is_ours ? MARK_TAKEN : MARK_UNANSWERED, patched_at);
        world_renew(w);
    }
}

TEST_IN(a_slow_server_is_given_more_time_for_its_marks)
{
    static const uint32_t deadlines_ms[] = {DEADLINE_MS, 2 * DEADLINE_MS, 12000, 12000};
    for (size_t i = 0; i < ARRAY_LEN(deadlines_ms); i++) { /* two marks: PATCH, GET, PATCH, GET */
        if (i % 2 == 0) {
            ask_to_write(false);
        }
        struct kube_response late = loop_world_response(i % 2 == 0 ? 0 : 200, NULL);
        CLEANUP(json) json_t *body = ours();
        late.body = i % 2 == 0 ? NULL : body;
        late.transport_error = KUBE_TRANSPORT_TIMEOUT;
        assert_int_equal(world.client.deadline_ms, deadlines_ms[i]);
        client_answer(&world.client, &late);
        t->count = 0;
    }
    ask_to_write(false);
    assert_int_equal(world.client.deadline_ms, 12000);
    answer(200, ours());
    t->count = 0;
    ask_to_write(false); /* quick again */
    assert_int_equal(world.client.deadline_ms, DEADLINE_MS);
}

/* A right that is missing is no news with each mark. */
TEST_IN(a_mark_that_is_forbidden_is_told_each_ten_minutes)
{
    static const struct {
        double later_s;
        int told;
    } rows[] = {{0, 1}, {590, 1}, {20, 2}, {60, 2}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        loop_world_pass(SECONDS(rows[i].later_s));
        ask_to_write(false);
        answer(403, NULL);
        answer(200, ours());
        expect_mark(MARK_DENIED, world.now);
        assert_int_equal(loop_world_said("grant patch"), rows[i].told);
        assert_true(lease_watch_stats(t->watch)->may_not_write);
    }
    ask_to_write(false);
    answer(200, ours());
    assert_false(lease_watch_stats(t->watch)->may_not_write);
    assert_int_equal(loop_world_said("takes marks on lease"), 1);
}

/* A server that starts forbids all until it has read its rules. */
TEST_IN(a_host_that_has_marked_is_told_of_a_refusal_once_it_lasts)
{
    ask_to_write(false);
    answer(200, ours());
    for (int told = 0; told <= 1; told++) {
        t->count = 0;
        ask_to_write(false);
        answer(403, NULL);
        answer(200, ours());
        expect_mark(MARK_DENIED, world.now);
        assert_int_equal(loop_world_said("grant patch"), told);
    }
}

/* The DPU may renew between the refusal and the read behind it. */
TEST_IN(a_mark_that_is_forbidden_is_told_although_the_dpu_renews)
{
    ask_to_write(false);
    answer(403, NULL);
    json_t *renewed = ours();
    (void)json_object_set_new(json_object_get(renewed, "spec"), "renewTime",
                              json_string("2023-11-14T22:13:30.000000Z"));
    answer(200, renewed);
    expect_mark(MARK_CONFLICT, world.now);
    assert_int_equal(loop_world_said("grant patch"), 1);
    assert_true(lease_watch_stats(t->watch)->may_not_write);
}

/* ---- denials --------------------------------------------------------------------------------- */

static void deny_for(double seconds)
{
    deny();
    expect(VERDICT_BY_WATCH, VERDICT_WATCH_BROKEN);
    loop_world_pass(SECONDS(seconds));
    deny();
    expect(VERDICT_BY_WATCH, VERDICT_WATCH_BROKEN);
}

TEST_IN(a_denial_is_a_broken_watch_and_asks_for_no_reads_of_its_own)
{
    deny_for(60);
    assert_true(!world.client.calls[0].client && !world.client.calls[1].client);
    assert_false(world.client.is_busy);
    assert_true(lease_watch_stats(t->watch)->is_polling);
    assert_int_equal(loop_world_said("polling every 10s"), 1);
    deny_for(60);
    assert_int_equal(loop_world_said("polling every 10s"), 1);
    contact();
    expect(VERDICT_BY_WATCH, VERDICT_WATCH_WORKS);
    assert_false(lease_watch_stats(t->watch)->is_polling);
    assert_int_equal(loop_world_said("again"), 1);
}

/* An API server denies everything until it has read its rules. */
TEST_IN(a_denial_is_believed_only_when_it_lasts)
{
    for (int interrupted = 0; interrupted < 3; interrupted++) {
        deny_for(2);
        if (interrupted == 1) {
            contact();
        } else if (interrupted == 2) {
            break_off(); /* another server may answer next */
        }
        t->count = 0;
        deny_for(4);
        assert_int_equal(loop_world_said("grant list and watch"), !interrupted);
        assert_true(lease_watch_stats(t->watch)->is_polling == !interrupted);
        assert_int_equal(loop_world_said("will retry"), 1);
        world_renew(w);
    }
}

TEST_IN(a_read_that_works_again_lets_the_watch_hope)
{
    static const int statuses[] = {0, 200, 200, 0, 0, 404};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        lease_watch_confirm(t->watch);
        answer(statuses[i], statuses[i] == 200 ? ours() : NULL);
        t->count = 0;
        assert_int_equal(world.client.watch_hopes, i < 1 ? 0 : i < 5 ? 1 : 2);
    }
}

/* ---- who renewed it -------------------------------------------------------------------------- */

static char host_name[8];

int gethostname(char *name, size_t len)
{
    text_format(name, len, "%s", host_name);
    return 0;
}

/* A state of the lease; `shown` is the renewTime that it is taken for. */
struct row {
    const char *uid;
    const char *writer;
    int stamp_s;
    int shown_s;
};

static void check_renewers(struct world *w, const char *host, const struct row *rows, size_t count)
{
    bool has_bump = false;
    text_format(host_name, sizeof(host_name), "%s", host);
    world_renew(w);
    for (size_t i = 0; i < count; i++) {
        json_t *object = ours();
        json_t *meta = json_object_get(object, "metadata");
        const struct wall at = {WORLD_WALL_NS + SECONDS(rows[i].stamp_s)};
        const struct wall taken_for = {WORLD_WALL_NS + SECONDS(rows[i].shown_s)};
        (void)json_object_set_new(json_object_get(object, "spec"), "renewTime",
                                  json_string(rfc3339_text(at, true).text));
        (void)json_object_set_new(meta, "uid", json_string(rows[i].uid));
        (void)json_object_set_new(meta, "managedFields",
                                  json_pack("[{s:s?, s:{s:{s:{}}}}]", "manager", rows[i].writer,
                                            "fieldsV1", "f:spec", "f:renewTime"));
        show(object, false);
        expect(VERDICT_BY_WATCH, VERDICT_LEASE_OBSERVED);
        assert_string_equal(t->lease.renew_stamp, rfc3339_text(taken_for, true).text);
        assert_int_equal(t->lease.renew_time.ns, taken_for.ns);
        has_bump = has_bump || rows[i].stamp_s != rows[i].shown_s;
        assert_int_equal(loop_world_said("this host wrote the renewTime"), has_bump);
    }
    host_name[0] = '\0';
}

TEST_IN(what_this_host_wrote_is_left_out)
{
    static const struct row rows[] = {
        {"u", "dpu", 0, 0},    {"u", "dpu", 10, 10},   {"u", "host", 55, 10}, {"u", "host", 55, 10},
        {"u", "host", 75, 10}, {"u", "host", 115, 10}, {"u", "dpu", 130, 130}};
    check_renewers(w, "host", rows, ARRAY_LEN(rows));
}

TEST_IN(where_nobody_can_say_each_counts)
{
    static const struct row rows[] = {
        {"u", "dpu", 0, 0}, {"u", NULL, 7, 7}, {"u", "", 8, 8}, {"u", "hos", 9, 9}};
    check_renewers(w, "host", rows, ARRAY_LEN(rows));
    check_renewers(w, "", rows, ARRAY_LEN(rows));
}
