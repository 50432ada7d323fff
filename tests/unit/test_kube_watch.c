/* SPDX-License-Identifier: Apache-2.0 */
/* The watch against a client that is played by hand: clock, timer, list and stream are ours. */
#include "kube/kube_watch.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_answer.h"
#include "kube/kube_client.h"
#include "tests/support/case.h"

#include <ev.h>

#define BEGIN_NS (1000 * NS_PER_SEC)
#define LIST     "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]}"

/* cmocka's cases have no other way to reach it from the functions that are replaced. */
static struct world {
    struct mono now;
    ev_timer *timer;
    double wait_s;
    bool has_list;
    bool is_listed; /* the answer to a list is being told */
    kube_done_fn *listed;
    void *list_user;
    struct kube_request stream;
    kube_done_fn *ended;
    void *stream_user;
    bool has_stream;
    struct buf inbox;
    struct kube_watch *watch;
    char path[1024]; /* of the last request */
    bool is_restarted_by_owner;
    uint64_t opened;
    bool is_present; /* as last told, and: */
    struct mono event_sent_at;
    char event_name[32];
    int failure; /* the code of the last one */
    char words[512];
    int lists, streams, denied, contacts, list_failures, stream_failures, objects;
    enum kube_outcome outcome;
} world;

struct mono clock_mono_now(void)
{
    return world.now;
}

struct wall clock_wall_now(void)
{
    return (struct wall){.ns = 7};
}

void ev_now_update(struct ev_loop *loop)
{
}

void ev_timer_start(struct ev_loop *loop, ev_timer *timer)
{
    assert_null(world.timer); /* its time would not change */
    world.timer = timer;
    world.wait_s = timer->at;
}

void ev_timer_stop(struct ev_loop *loop, ev_timer *timer)
{
    world.timer = NULL;
}

static struct kube_client *const client_of_ours = (struct kube_client *)&world;

struct ev_loop *kube_client_loop(const struct kube_client *client)
{
    assert_ptr_equal(client, client_of_ours);
    return NULL;
}

static struct kube_call *start_stream(const struct kube_request *request, kube_done_fn *done,
                                      void *user)
{
    assert_false(world.has_stream);
    world.has_stream = true;
    world.streams++;
    world.stream = *request;
    world.ended = done;
    world.stream_user = user;
    buf_consume(&world.inbox, SIZE_MAX);
    return (struct kube_call *)&world.has_stream;
}

struct kube_call *kube_client_start(struct kube_client *client, const struct kube_request *request,
                                    kube_done_fn *done, void *user)
{
    assert_ptr_equal(client, client_of_ours);
    text_format(world.path, sizeof(world.path), "%s", request->path);
    if (request->on_bytes) {
        return start_stream(request, done, user);
    }
    assert_false(world.has_list);
    world.has_list = true;
    world.lists++;
    world.listed = done;
    world.list_user = user;
    return (struct kube_call *)&world.has_list;
}

void kube_call_cancel(struct kube_call *call)
{
    if (call) {
        assert_true(*(bool *)call); /* one that has ended is gone */
        *(bool *)call = false;
    }
}

static void on_object(void *user, const json_t *object, struct mono sent_at)
{
    const char *name = json_text_get(json_object_get(object, "metadata"), "name");
    text_format(world.event_name, sizeof(world.event_name), "%s", name ? name : "");
    world.event_sent_at = sent_at;
    world.is_present = object != NULL;
    world.objects++;
    if (world.is_restarted_by_owner) {
        kube_watch_restart(world.watch);
    }
}

static void on_contact(void *user)
{
    world.contacts++;
}

static void on_failure(void *user, const struct kube_response *r)
{
    if (r->http_status == 403) {
        world.denied++;
        return;
    }
    assert_true(world.is_listed || !r->body);
    assert_true(r->code != 0 && r->message[0] != '\0');
    world.failure = r->code;
    text_format(world.words, sizeof(world.words), "%s", r->message);
    if (world.is_listed) {
        world.list_failures++;
        world.outcome = r->outcome;
    } else {
        world.stream_failures++;
    }
}

/* The timer's time has come. */
static void wake(void)
{
    ev_timer *timer = world.timer;
    assert_non_null(timer);
    world.now = mono_add(world.now, (int64_t)(world.wait_s * 1e9));
    world.timer = NULL;
    timer->cb(NULL, timer, EV_TIMER);
}

static void answer_list(int http_status, const char *text, enum kube_outcome outcome)
{
    CLEANUP(json) json_t *body = json_text_parse(text, strlen(text), NULL);
    const struct kube_response r = {.code = kube_status_code(http_status),
                                    .http_status = http_status,
                                    .outcome = outcome,
                                    .sent_at = {BEGIN_NS / 2},
                                    .message = {http_status == 200 ? '\0' : 'x'},
                                    .body = http_status == 200 ? body : NULL};
    assert_true(world.has_list);
    world.has_list = false;
    world.is_listed = true;
    world.listed(world.list_user, &r);
    world.is_listed = false;
}

/* The server has accepted the stream, which brings this and goes on. */
static void stream_brings(const char *text)
{
    assert_true(world.has_stream);
    assert_int_equal(buf_appendf(&world.inbox, NULL, "%s", text), 0);
    world.stream.on_bytes(world.stream_user, &world.inbox);
}

/* The stream that is open answers with this and ends after `life_ns`, or breaks off. */
static void end_stream(int http_status, const char *text, int64_t life_ns, const char *broken)
{
    struct kube_response r = {.code = kube_status_code(http_status), .http_status = http_status};
    text_format(r.message, sizeof(r.message), "%s", http_status == 200 ? broken : "refused");
    if (http_status == 200) {
        stream_brings("");
    }
    world.now = mono_add(world.now, life_ns);
    if (http_status == 200) {
        stream_brings(text);
    }
    if (world.has_stream) {
        world.has_stream = false;
        world.ended(world.stream_user, &r);
    }
}

static void end(void)
{
    kube_watch_stop(world.watch);
    assert_false(world.has_list || world.has_stream || world.timer);
    buf_fini(&world.inbox);
}

/* In place of the world before, which ends. */
static void begin(void)
{
    const struct kube_watch_config config = {.collection_path = "/leases",
                                             .name = "mine",
                                             .on_object = on_object,
                                             .on_contact = on_contact,
                                             .on_failure = on_failure,
                                             .opened = &world.opened};
    end();
    world = (struct world){.now = {BEGIN_NS}};
    world.inbox = (struct buf){.max_bytes = 1 << 20};
    world.watch = kube_watch_start(client_of_ours, &config);
    assert_true(world.wait_s == 0);
    wake();
    assert_string_equal(world.path, "/leases?fieldSelector=metadata.name%3Dmine");
}

/* With a stream that waits for its answer. */
static void begin_watching(void)
{
    begin();
    answer_list(200, LIST, KUBE_ANSWERED);
    assert_int_equal(world.event_sent_at.ns, BEGIN_NS / 2);
    assert_true(world.wait_s == 0);
    wake();
    assert_true(world.has_stream);
    assert_null(world.timer); /* the client waits for its head */
}

/* What comes next is a list, and a stream that waits for its answer. */
static void relist(void)
{
    wake();
    answer_list(200, LIST, KUBE_ANSWERED);
    wake();
}

/* How long until the next try after a list that is denied. */
static int64_t wait_after_denial(void)
{
    struct mono before = world.now;
    int denied = world.denied;
    answer_list(403, "{}", KUBE_NO_CONTACT);
    assert_int_equal(world.denied, denied + 1);
    wake();
    return mono_since(world.now, before);
}

TEST(a_denied_watch_is_asked_again_soon_then_rarely_and_for_ever)
{
    int64_t bound_ns = 500 * NS_PER_MS;
    int early = 0;
    kube_watch_stop(NULL);
    begin();
    for (int i = 1; i <= 30; i++) {
        int64_t wait_ns = wait_after_denial();
        assert_between(wait_ns, bound_ns / 10 - 1, bound_ns + 1);
        early += wait_ns < bound_ns / 2;
        bound_ns = bound_ns * 2 < 600 * NS_PER_SEC ? bound_ns * 2 : 600 * NS_PER_SEC;
    }
    assert_between(early, 1, 29);
    answer_list(200, LIST, KUBE_ANSWERED);
    wake();
    end_stream(403, "{}", 0, ""); /* we may list, but not watch */
    assert_int_equal(world.denied, 31);
    relist();
    stream_brings("{\"type\":\"ERROR\",\"object\":{\"code\":403}}\n");
    assert_int_equal(world.denied, 32);
    assert_false(world.has_stream);
    wake();
    answer_list(200, LIST, KUBE_ANSWERED);
    assert_int_equal(world.list_failures + world.stream_failures, 0);
}

/* One that has just started denies everything. */
TEST(another_server_is_asked_soon_again)
{
    for (int how = 0; how < 3; how++) {
        begin();
        for (int i = 0; i < 15; i++) {
            (void)wait_after_denial();
        }
        if (how == 0) { /* the former one has gone */
            answer_list(500, "{}", KUBE_NO_CONTACT);
            wake();
        } else if (how == 1) { /* it watched for a while */
            answer_list(200, LIST, KUBE_ANSWERED);
            wake();
            end_stream(200, "", 600 * NS_PER_SEC, "cut");
            wake();
        } else { /* the owner saw a sign of it */
            answer_list(403, "{}", KUBE_NO_CONTACT);
            kube_watch_hope(world.watch);
            assert_true(world.timer && world.wait_s == 0);
            kube_watch_hope(world.watch);
            wake();
            kube_watch_hope(world.watch); /* nothing to hurry: it is asked */
            assert_true(world.has_list);
        }
        assert_true(wait_after_denial() <= NS_PER_SEC);
    }
}

TEST(a_list_that_fails_tells_what_it_is_worth)
{
    static const struct {
        int http_status;
        const char *body;
        enum kube_outcome given;
        enum kube_outcome told;
    } rows[] = {
        {500, "{}", KUBE_NO_CONTACT, KUBE_NO_CONTACT},
        {200, "{}", KUBE_ANSWERED, KUBE_UNREADABLE},
        {200, "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":7}", KUBE_ANSWERED,
         KUBE_UNREADABLE},
        {200, "{\"metadata\":{},\"items\":[]}", KUBE_ANSWERED, KUBE_UNREADABLE},
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        answer_list(rows[i].http_status, rows[i].body, rows[i].given);
        assert_int_equal(world.outcome, rows[i].told);
        wake();
    }
    assert_int_equal(world.list_failures, ARRAY_LEN(rows));
    assert_int_equal(world.stream_failures + world.objects, 0);
}

/* How often a stream that ends in this way is opened in ten minutes. */
static int open_for_ten_minutes(int http_status, const char *text)
{
    begin_watching();
    while (mono_since(world.now, (struct mono){BEGIN_NS}) < 600 * NS_PER_SEC) {
        if (world.has_stream) {
            end_stream(http_status, text, NS_PER_MS, "");
        } else if (world.has_list) {
            answer_list(200, LIST, KUBE_ANSWERED);
        } else {
            wake();
        }
    }
    return world.streams;
}

TEST(a_stream_that_never_lasts_is_opened_ever_more_rarely)
{
    static const struct {
        int http_status;
        const char *text;
    } rows[] = {
        {410, "{\"kind\":\"Status\"}"},
        {200, "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n"},
        {200, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"6\"}}}\n"},
        {200, ""},
        {500, "{}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_between(open_for_ten_minutes(rows[i].http_status, rows[i].text), 40, 120);
    }
}

TEST(an_event_is_taken_wherever_the_network_cut_it)
{
    static const char text[] =
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"mine\"}}}\n";
    for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
        begin_watching();
        int listed = world.objects;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(buf_append(&world.inbox, text, cut, NULL), 0);
            world.stream.on_bytes(world.stream_user, &world.inbox);
            assert_int_equal(buf_appendf(&world.inbox, NULL, "%s", text + cut), 0);
            world.stream.on_bytes(world.stream_user, &world.inbox);
        }
        assert_int_equal(world.objects - listed, 3);
        assert_int_equal(world.inbox.len, 0);
    }
}

TEST(only_an_accepted_stream_is_restarted)
{
    begin();
    kube_watch_restart(world.watch);
    assert_true(world.has_list); /* under way */
    answer_list(500, "{}", KUBE_NO_CONTACT);
    double wait_s = world.wait_s;
    kube_watch_restart(world.watch);
    assert_true(world.timer && world.wait_s == wait_s); /* backs off */
    kube_watch_hope(world.watch);
    assert_true(world.timer && world.wait_s == 0); /* the server is back */
    relist();
    kube_watch_restart(world.watch);
    assert_true(world.has_stream); /* may wait for its turn */
    stream_brings("");
    kube_watch_restart(world.watch);
    assert_false(world.has_stream);
    wake();
    assert_int_equal(world.lists, 3);
}

/* ---- what is asked -----------------------------------------------------------------------------
 */

static void wait_for(double seconds)
{
    world.now = mono_add(world.now, (int64_t)(seconds * 1e9));
}

#define AT(type, name, version)                                                                    \
    "{\"type\":\"" type "\",\"object\":{\"metadata\":{\"name\":\"" name                            \
    "\",\"resourceVersion\":\"" version "\"}}}\n"

TEST(a_stream_goes_on_where_the_last_one_ended)
{
    static const struct {
        const char *text;
        const char *from; /* "": it lists first */
    } rows[] = {
        {"", "&resourceVersion=5&"},
        {AT("MODIFIED", "mine", "6"), "&resourceVersion=6&"},
        {AT("MODIFIED", "another", "7"), "&resourceVersion=7&"},
        {AT("BOOKMARK", "", "8"), "&resourceVersion=8&"},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{}}}\n", "&resourceVersion=5&"},
        {AT("BOOKMARK", "", "0123456789012345678901234567890123456789012345678901234567890123"),
         ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin_watching();
        assert_non_null(
            strstr(world.path, "/leases?fieldSelector=metadata.name%3Dmine&watch=true"));
        end_stream(200, rows[i].text, 11 * NS_PER_SEC, "");
        struct mono before = world.now;
        wake();
        assert_true(mono_since(world.now, before) <= 200 * NS_PER_MS); /* an ordinary end */
        assert_int_equal(world.stream_failures, 0);
        assert_true(world.has_stream == (rows[i].from[0] != '\0'));
        assert_non_null(strstr(world.path, rows[i].from));
    }
}

/* And says nothing about reads. */
TEST(a_stream_that_breaks_is_listed_anew)
{
    static const struct {
        int http_status;
        const char *text, *broken;
    } rows[] = {{500, "{}", ""},
                {429, "{}", ""},
                {504, "{}", ""},
                {400, "{}", ""},
                {0, "", "timeout"},
                {200, "", "cut"},
                {200, "7\n", ""},
                {200, "{\"type\":\"MODIFIED\"}\n", ""},
                {200, "{\"type\":\"ERROR\",\"object\":{\"code\":500}}\n", ""},
                {200, "{\"type\":\"ERROR\",\"object\":{\"code\":200}}\n", ""}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin_watching();
        end_stream(rows[i].http_status, rows[i].text, 0, rows[i].broken);
        assert_int_equal(world.stream_failures, 1);
        assert_int_equal(world.list_failures, 0);
        wake();
        assert_true(world.has_list && !world.has_stream);
    }
}

static void bring_an_event_that_is_too_large(bool is_ended)
{
    begin_watching();
    static char line[KUBE_WATCH_LINE_MAX_BYTES + 1] = AT("MODIFIED", "mine", "6");
    int before = world.objects;
    memset(line + strlen(line) - 1, ' ', sizeof(line) - strlen(line)); /* blanks in place of LF */
    line[KUBE_WATCH_LINE_MAX_BYTES] = '\0';
    stream_brings("\n\n");
    stream_brings(line); /* as long as may be */
    stream_brings("\n");
    assert_int_equal(world.objects, before + 1);
    assert_int_equal(world.inbox.len, 0);
    stream_brings(line);
    assert_int_equal(world.stream_failures, 0);
    stream_brings(is_ended ? " \n" : " ");
    assert_int_equal(world.stream_failures, 1);
    assert_int_equal(world.failure, ERR_LIMIT);
    assert_false(world.has_stream);
    assert_true(world.stream.max_bytes >= (size_t)2 * KUBE_WATCH_LINE_MAX_BYTES);
    wake();
    assert_true(world.has_list);
}

TEST(an_event_that_is_too_large_ends_the_stream)
{
    bring_an_event_that_is_too_large(false);
    bring_an_event_that_is_too_large(true);
}

TEST(what_an_error_says_is_told)
{
    begin_watching();
    int before = world.objects;
    stream_brings("{\"type\":\"ERROR\",\"object\":{\"code\":500,\"message\":\"no quorum\"}}\n" AT(
        "MODIFIED", "mine", "6"));
    assert_non_null(strstr(world.words, "no quorum"));
    assert_int_equal(world.objects, before); /* nothing follows an error */
    relist();
    stream_brings("no\n" AT("MODIFIED", "mine", "6"));
    assert_int_equal(world.objects, before + 1); /* nor what is no event */
    relist();
}

TEST(events_of_others_are_passed_over)
{
    static const char items[] = "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":["
                                "{\"metadata\":{\"name\":\"another\"}},{},"
                                "{\"metadata\":{\"name\":\"mine\"}}]}";
    begin();
    answer_list(200, items, KUBE_ANSWERED);
    assert_true(world.is_present);
    assert_string_equal(world.event_name, "mine");
    wake();
    stream_brings(AT("DELETED", "another", "6"));
    assert_int_equal(world.objects, 1);
    assert_int_equal(world.opened, 1);
    stream_brings(AT("DELETED", "mine", "7") AT("BOOKMARK", "mine", "8"));
    assert_int_equal(world.objects, 2);
    assert_true(!world.is_present && world.event_sent_at.ns == 0);
    assert_int_equal(world.contacts, 2); /* the head and the bookmark */
}

TEST(what_follows_is_not_told_to_an_owner_that_restarts)
{
    begin_watching();
    world.is_restarted_by_owner = true;
    int before = world.objects;
    stream_brings(AT("MODIFIED", "mine", "6") AT("MODIFIED", "mine", "7"));
    assert_int_equal(world.objects - before, 1);
    wake();
    assert_true(world.has_list);
}

TEST(silence_is_a_failure_after_a_minute_and_a_half)
{
    begin_watching();
    stream_brings("");
    wait_for(60);
    stream_brings(AT("BOOKMARK", "", "6"));
    struct mono heard = world.now;
    while (world.stream_failures == 0) {
        wake();
    }
    assert_between(mono_since(world.now, heard), 90 * NS_PER_SEC, 91 * NS_PER_SEC);
    wake();
    assert_true(world.has_list);
}

TEST(a_server_that_says_when_is_obeyed)
{
    begin();
    world.has_list = false;
    world.is_listed = true;
    const struct kube_response r = {.code = kube_status_code(429),
                                    .http_status = 429,
                                    .message = "later",
                                    .retry_after_ns = 7 * NS_PER_SEC};
    world.listed(world.list_user, &r);
    assert_true(world.wait_s >= 7 && world.wait_s < 8);
}

TEST(the_first_410_in_a_minute_is_followed_at_once)
{
    static const struct {
        double calm_s;
        int failures;
    } rows[] = {{1, 1}, {59, 1}, {61, 0}};
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        int http_status = i % 2 == 0 ? 410 : 200;
        const char *text = i % 2 == 0 ? "{}" : "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n";
        int failures = rows[i / 2].failures;
        begin_watching();
        end_stream(http_status, text, 0, "");
        assert_true(world.wait_s == 0 && world.stream_failures == 0);
        relist();
        wait_for(rows[i / 2].calm_s);
        end_stream(http_status, text, 0, "");
        assert_int_equal(world.stream_failures, failures);
        assert_true((world.wait_s == 0) == (failures == 0));
        wake();
        assert_true(world.has_list);
    }
}

TEST(a_stream_that_ends_early_once_is_no_failure)
{
    begin_watching();
    end_stream(200, "", 0, "");
    assert_int_equal(world.stream_failures, 0);
    wake();
    end_stream(200, "", 0, "");
    assert_int_equal(world.stream_failures, 1);
    assert_int_equal(world.opened, 2);
    for (int i = 2; i < 12; i++) {
        relist();
        end_stream(200, "", 0, "");
        assert_int_equal(world.stream_failures, i);
        assert_true(world.wait_s <= 15);
    }
    relist();
    end_stream(200, "", 11 * NS_PER_SEC, ""); /* it lasted: all is forgotten */
    assert_true(world.wait_s <= 0.2);
    wake();
    end_stream(200, "", 0, "");
    assert_int_equal(world.opened, 14);
    assert_int_equal(world.stream_failures, 11);
    assert_true(world.wait_s <= 5);
    wake();
    end_stream(200, "", 11 * NS_PER_SEC, "cut");
    assert_int_equal(world.stream_failures, 12);
    assert_true(world.wait_s <= 5);
}

TEST(each_stream_is_asked_for_a_time_of_its_own)
{
    int differ = 0;
    long last = 0;
    begin_watching();
    for (int i = 0; i < 20; i++) {
        long seconds = strtol(strstr(world.path, "timeoutSeconds=") + 15, NULL, 10);
        assert_between(seconds, 300, 599);
        differ += seconds != last;
        last = seconds;
        end_stream(200, "", 11 * NS_PER_SEC, "");
        wake();
    }
    assert_true(differ > 10);
}

static int end_last(void **state)
{
    end();
    return 0;
}

TEST_GROUP(NULL, end_last)
