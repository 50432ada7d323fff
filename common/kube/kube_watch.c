/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_watch.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "kube/kube_answer.h"
#include "kube/kube_client.h"
#include "kube/kube_core.h"

#include <curl/curl.h>
#include <ev.h>
#include <stdlib.h>

#define DEFAULT_SILENCE_NS (90 * NS_PER_SEC)
#define RETRY_MAX_NS       (15 * NS_PER_SEC)
#define RETRY_BASE_NS      (500 * NS_PER_MS)
#define SHORT_WATCH_NS     (10 * NS_PER_SEC)  /* a server that ends one sooner is sick */
#define GONE_CALM_NS       (60 * NS_PER_SEC)  /* two 410 within that are no mere compaction */
#define DENIED_MAX_NS      (600 * NS_PER_SEC) /* a right may be granted at any time */

enum {
    /* Of a list, connecting included, and of a watch until the server has accepted it. Twice as
     * much after each that was not enough: where a fleet comes back at once, handshakes that are
     * given up early are work in vain, and there is never an end to it. */
    PATIENCE_MS = 5000,
    PATIENCE_MAX_MS = 40000,
    WATCH_LEAST_S = 300, /* the server ends each after a random time, as client-go asks */
    WATCH_SPREAD_S = 300,
    VERSION_BYTES = 64,
    INBOX_MAX_BYTES = 2 * KUBE_WATCH_LINE_MAX_BYTES + CURL_MAX_WRITE_SIZE, /* half a line is left */
};

struct kube_watch {
    struct kube_client *client;
    struct kube_watch_config config;
    char *collection;
    char *name;
    char *query;                 /* the collection, with the name as selector */
    char version[VERSION_BYTES]; /* where to resume; "": LIST first */
    struct kube_call *list;
    struct kube_call *stream;
    struct mono gone_at; /* the last 410; 0: none */
    uint64_t opened;     /* streams that the server accepted */
    bool accepted;       /* the server answered 200 to the watch */
    uint32_t patience_ms;
    struct mono heard_at;
    ev_timer timer; /* the next try, or the next look at the silence */
    struct backoff backoff;
    struct backoff denied; /* of tries in a row that were answered with 403 */
};

static void start_over(struct kube_watch *w);

static void arm_watch(struct kube_watch *w, int64_t wait_ns)
{
    struct ev_loop *loop = kube_client_loop(w->client);
    ev_timer_stop(loop, &w->timer);
    ev_now_update(loop); /* the loop's time may be old after a long callback */
    ev_timer_set(&w->timer, (double)wait_ns / 1e9, 0.);
    ev_timer_start(loop, &w->timer);
}

static void drop_stream(struct kube_watch *w)
{
    kube_call_cancel(TAKE(w->stream));
    w->accepted = false;
}

static void retry_later(struct kube_watch *w, int64_t retry_after_ms)
{
    drop_stream(w);
    int64_t least_ns = retry_after_ms > 0 ? mono_ns_mul(retry_after_ms, NS_PER_MS) : 0;
    arm_watch(w, backoff_next_ns(&w->backoff, least_ns));
}

/* Whether a stream was of use for a while. */
static bool has_lasted(const struct kube_response *stream)
{
    return !mono_is_never(stream->sent_at) &&
           mono_since(clock_mono_now(), stream->sent_at) >= SHORT_WATCH_NS;
}

/* Tells the owner of a failure and tries again. An API server that has just started denies
 * everything until it has read its rules: asked again soon, and ever more rarely while the denial
 * lasts. */
static void fail_watch(struct kube_watch *w, const struct kube_response *response)
{
    if (response->http_status == 403) {
        drop_stream(w);
        arm_watch(w, backoff_next_ns(&w->denied, 0));
        w->config.on_denied(w->config.user, response);
        return;
    }
    backoff_reset(&w->denied); /* the next denial may be that of another server */
    if (response->transport_error == KUBE_TRANSPORT_TIMEOUT && w->patience_ms < PATIENCE_MAX_MS) {
        w->patience_ms *= 2;
    }
    w->config.on_failure(w->config.user, response);
    retry_later(w, response->retry_after_ms);
}

static void fail_stream(struct kube_watch *w, const struct kube_response *response)
{
    if (has_lasted(response)) {
        backoff_reset(&w->backoff);
    }
    fail_watch(w, response);
}

/* The stream is of no use, whatever its head says. */
static void break_stream(struct kube_watch *w, const struct kube_response *head, int code,
                         const char *why)
{
    struct kube_response r = *head;
    r.code = code;
    text_format(r.message, sizeof(r.message), "watching %.100s: %s", w->name, why);
    fail_stream(w, &r);
}

static void break_open_stream(struct kube_watch *w, int code, const char *why)
{
    struct kube_response head;
    kube_call_head(w->stream, &head);
    break_stream(w, &head, code, why);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static void remember_version(struct kube_watch *w, const json_t *object)
{
    const char *version = json_text_get(json_object_get(object, "metadata"), "resourceVersion");
    if (version && !text_copy(w->version, sizeof(w->version), version)) {
        w->version[0] = '\0'; /* too long to be one: start over after this stream */
    }
}

/* 410: a history that was compacted is listed anew at once; where that does not help, later. */
static void on_gone(struct kube_watch *w, const struct kube_response *r)
{
    struct mono now = clock_mono_now();
    bool is_first = w->gone_at.ns == 0 || mono_since(now, w->gone_at) > GONE_CALM_NS;
    w->gone_at = now;
    w->version[0] = '\0';
    if (is_first) {
        log_debug("kube", "watching %s: the history is gone, listing anew", w->name);
        start_over(w);
        return;
    }
    break_stream(w, r, ERR_GONE, "the history is gone again, right after a list");
}

/* An ERROR event holds a Status: 410 and "too large resource version" mean a new LIST. */
static void on_error_event(struct kube_watch *w, json_t *status)
{
    struct kube_response r;
    kube_call_head(w->stream, &r);
    r.http_status = (int)json_integer_value(json_object_get(status, "code"));
    r.code = kube_status_code(r.http_status == 200 ? 0 : r.http_status);
    r.body = status;
    kube_status_fill(&r, KUBE_GET, w->collection, NULL);
    r.body = NULL;
    w->version[0] = '\0';
    if (r.code == ERR_GONE) {
        on_gone(w, &r);
        return;
    }
    fail_stream(w, &r);
}

/* One event. Returns false when the stream is gone. */
static bool on_line(struct kube_watch *w, const char *line, size_t len)
{
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *event = json_text_parse_stored(line, len, KUBE_WATCH_LINE_MAX_BYTES, &e);
    const char *type = json_text_get(event, "type");
    json_t *object = json_object_get(event, "object");
    const struct kube_call *stream = w->stream;
    if (!type || !json_is_object(object)) {
        w->version[0] = '\0';
        break_open_stream(w, ERR_PARSE, event ? "an event without type and object" : e.msg);
        return false;
    }
    if (text_equal(type, "ERROR")) {
        on_error_event(w, object);
        return false;
    }
    remember_version(w, object);
    const char *name = json_text_get(json_object_get(object, "metadata"), "name");
    if (text_equal(type, "BOOKMARK")) {
        w->config.on_contact(w->config.user);
    } else if (text_equal(name, w->name)) {
        bool gone = text_equal(type, "DELETED");
        w->config.on_object(w->config.user, gone ? KUBE_WATCH_ABSENT : KUBE_WATCH_PRESENT, object,
                            false, (struct mono){0});
    }
    return w->stream == stream; /* the owner may have restarted us */
}

/* Returns false, too, if the owner has restarted us. */
static bool take_head(struct kube_watch *w)
{
    struct kube_response head;
    kube_call_head(w->stream, &head);
    if (head.http_status != 200) {
        return false; /* an error's body is looked at when it is whole */
    }
    if (!head.is_json) {
        w->version[0] = '\0';
        break_stream(w, &head, ERR_PARSE, "the answer is not JSON");
        return false;
    }
    w->accepted = true;
    w->patience_ms = PATIENCE_MS;
    backoff_reset(&w->denied);
    w->opened++;
    kube_client_observe(w->client, "WATCH", &head);
    w->config.on_contact(w->config.user);
    return w->accepted;
}

static void on_stream_bytes(void *user, struct buf *inbox)
{
    struct kube_watch *w = user;
    w->heard_at = clock_mono_now();
    if (!w->accepted && !take_head(w)) {
        return;
    }
    const char *bytes = buf_text(inbox);
    size_t left = inbox->len;
    const char *line;
    size_t line_len;
    for (;;) {
        switch (watch_line_next(&bytes, &left, KUBE_WATCH_LINE_MAX_BYTES, &line, &line_len)) {
        case WATCH_LINE_MORE:
            buf_consume(inbox, inbox->len - left);
            return;
        case WATCH_LINE_TOO_LONG:
            w->version[0] = '\0';
            break_open_stream(w, ERR_LIMIT, "an event is larger than allowed");
            return;
        case WATCH_LINE_READY:
            if (!on_line(w, line, line_len)) {
                return;
            }
        }
    }
}

/* The answer to a watch that was not accepted. */
static void on_refused(struct kube_watch *w, const struct kube_response *response)
{
    struct kube_response r = *response;
    kube_client_observe(w->client, "WATCH", &r);
    kube_status_fill(&r, KUBE_GET, w->collection, NULL);
    if (r.code == ERR_GONE) {
        on_gone(w, &r);
        return;
    }
    if (r.code != ERR_RETRY || r.http_status == 504) {
        w->version[0] = '\0'; /* 504: our version is ahead of this server's */
    }
    fail_stream(w, &r);
}

static void on_stream_done(void *user, const struct kube_response *r)
{
    struct kube_watch *w = user;
    bool broke_off = r->message[0] != '\0';
    w->stream = NULL;
    if (!w->accepted && !broke_off) {
        on_refused(w, r);
        return;
    }
    if (broke_off) {
        if (!w->accepted) {
            kube_client_observe(w->client, "WATCH", r);
        }
        break_stream(w, r, ERR_RETRY, r->message);
        return;
    }
    if (has_lasted(r)) { /* an ordinary close: resume from the last version */
        backoff_reset(&w->backoff);
        drop_stream(w);
        arm_watch(w, backoff_next_ns(&w->backoff, 0) / 10);
        backoff_reset(&w->backoff);
    } else if (w->backoff.failures == 0) {
        retry_later(w, -1); /* once may be a restart of the server */
    } else {
        break_stream(w, r, ERR_RETRY, "the server ends it again and again");
    }
}

static void open_stream(struct kube_watch *w)
{
    struct err e = ERR_INIT;
    int seconds = WATCH_LEAST_S + (int)prng_next(&w->backoff.random, WATCH_SPREAD_S);
    CLEANUP(free)
    char *path =
        mem_format("%s&watch=true&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%d",
                   w->query, w->version, seconds);
    const struct kube_call_config config = {
        .request = {.method = KUBE_GET, .channel = KUBE_STREAM, .path = path},
        .max_bytes = INBOX_MAX_BYTES,
        .on_bytes = on_stream_bytes,
        .on_done = on_stream_done,
        .user = w,
    };
    if (kube_call_start(w->client, &config, &w->stream, &e) != 0) {
        const struct kube_response unsent = {.retry_after_ms = -1, .sent_at = MONO_NEVER};
        break_stream(w, &unsent, e.code, e.msg);
        return;
    }
    arm_watch(w, (int64_t)w->patience_ms * NS_PER_MS);
}

/* ---- the list -------------------------------------------------------------------------------- */

/* A server may ignore the selector: then there are others, too. */
static const json_t *find_item(const json_t *items, const char *name)
{
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
    {
        if (text_equal(json_text_get(json_object_get(item, "metadata"), "name"), name)) {
            return item;
        }
    }
    return NULL;
}

static void on_listed(void *user, const struct kube_response *r)
{
    struct kube_watch *w = user;
    w->list = NULL;
    const json_t *items = json_object_get(r->body, "items");
    remember_version(w, r->body);
    if (r->code != 0 || !json_is_array(items) || w->version[0] == '\0') {
        struct kube_response failed = *r;
        w->version[0] = '\0';
        if (r->code == 0) {
            failed.code = ERR_PARSE;
            failed.outcome = KUBE_UNREADABLE;
            text_format(failed.message, sizeof(failed.message),
                        "listing %.100s: the answer is not a list", w->name);
        }
        fail_watch(w, &failed);
        return;
    }
    const json_t *object = find_item(items, w->name);
    arm_watch(w, 0); /* opens the stream after the owner has seen this state */
    w->config.on_object(w->config.user, object ? KUBE_WATCH_PRESENT : KUBE_WATCH_ABSENT, object,
                        true, r->sent_at);
}

static void start_list(struct kube_watch *w)
{
    struct err e = ERR_INIT;
    const struct kube_request request = {
        .method = KUBE_GET, .channel = KUBE_LIST, .path = w->query, .deadline_ms = w->patience_ms};
    if (kube_client_start(w->client, &request, on_listed, w, &w->list, &e) != 0) {
        struct kube_response r = {.code = e.code, .retry_after_ms = -1};
        text_format(r.message, sizeof(r.message), "listing %.100s: %.80s", w->name, e.msg);
        fail_watch(w, &r);
    }
}

/* The patience counts from when the request was really sent. */
static void await_head(struct kube_watch *w)
{
    int64_t limit_ns = (int64_t)w->patience_ms * NS_PER_MS;
    struct kube_response head;
    kube_call_head(w->stream, &head);
    int64_t waited_ns =
        mono_is_never(head.sent_at) ? 0 : mono_since(clock_mono_now(), head.sent_at);
    if (waited_ns < limit_ns) {
        arm_watch(w, limit_ns - waited_ns);
        return;
    }
    kube_client_observe(w->client, "WATCH", &head);
    head.transport_error = KUBE_TRANSPORT_TIMEOUT;
    break_stream(w, &head, ERR_RETRY, "no answer to the watch");
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_watch *w = timer->data;
    (void)loop;
    (void)events;
    if (!w->stream && !w->list) {
        if (w->version[0] == '\0') {
            start_list(w);
        } else {
            open_stream(w);
        }
        return;
    }
    if (!w->stream) {
        return;
    }
    if (!w->accepted) {
        await_head(w);
        return;
    }
    int64_t silent_ns = mono_since(clock_mono_now(), w->heard_at);
    if (silent_ns >= w->config.silence_ns) {
        break_open_stream(w, ERR_RETRY, "silent for too long, not even a bookmark");
    } else {
        arm_watch(w, w->config.silence_ns - silent_ns);
    }
}

static void start_over(struct kube_watch *w)
{
    drop_stream(w);
    w->version[0] = '\0';
    arm_watch(w, 0);
}

struct kube_watch *kube_watch_start(struct kube_client *client,
                                    const struct kube_watch_config *config)
{
    struct kube_watch *w = MEM_NEW(struct kube_watch);
    w->client = client;
    w->config = *config;
    w->collection = mem_strdup(config->collection_path);
    w->name = mem_strdup(config->name);
    w->query =
        mem_format("%s?fieldSelector=metadata.name%%3D%s", config->collection_path, config->name);
    w->patience_ms = PATIENCE_MS;
    if (w->config.silence_ns == 0) {
        w->config.silence_ns = DEFAULT_SILENCE_NS;
    }
    backoff_init(&w->backoff, RETRY_BASE_NS, RETRY_MAX_NS,
                 (uint64_t)clock_wall_now().ns ^
                     crc32c_compute(config->name, strlen(config->name)));
    backoff_init(&w->denied, RETRY_BASE_NS, DENIED_MAX_NS, ~w->backoff.random);
    ev_timer_init(&w->timer, on_timer, 0., 0.);
    w->timer.data = w;
    arm_watch(w, 0);
    return w;
}

void kube_watch_restart(struct kube_watch *watch)
{
    if (watch->accepted) { /* else a list, a stream or a retry is under way at its own pace */
        start_over(watch);
    }
}

void kube_watch_hope(struct kube_watch *watch)
{
    if (watch->denied.failures > 0 && !watch->list && !watch->stream) {
        backoff_reset(&watch->denied);
        arm_watch(watch, backoff_next_ns(&watch->denied, 0));
    }
}

uint64_t kube_watch_opened(const struct kube_watch *watch)
{
    return watch->opened;
}

void kube_watch_stop(struct kube_watch *watch)
{
    if (watch) {
        ev_timer_stop(kube_client_loop(watch->client), &watch->timer);
        drop_stream(watch);
        kube_call_cancel(watch->list);
        free(watch->collection);
        free(watch->name);
        free(watch->query);
        free(watch);
    }
}
