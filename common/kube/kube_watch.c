/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_watch.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "kube/kube_answer.h"
#include "loop/curl_loop.h"

#include <curl/curl.h>
#include <ev.h>
#include <stdlib.h>

#define SILENCE_NS     (90 * NS_PER_SEC) /* bookmarks come each minute */
#define RETRY_MAX_NS   (15 * NS_PER_SEC)
#define RETRY_BASE_NS  (5 * NS_PER_SEC)  /* a fleet that has lost its server is spread over it */
#define RESUME_NS      (200 * NS_PER_MS) /* within which an ordinary end is followed by the next */
#define GONE_CALM_NS   (60 * NS_PER_SEC) /* two 410 within that are no mere compaction */
#define DENIED_BASE_NS (500 * NS_PER_MS)
#define DENIED_MAX_NS  (600 * NS_PER_SEC) /* a right may be granted at any time */

enum {
    WATCH_LEAST_S = 300, /* the server ends each after a random time, as client-go asks */
    WATCH_SPREAD_S = 300,
    VERSION_BYTES = 64,
    INBOX_MAX_BYTES = 2 * KUBE_WATCH_LINE_MAX_BYTES + CURL_MAX_WRITE_SIZE, /* half a line is left */
};

struct kube_watch {
    struct kube_client *client;
    struct kube_watch_config config;
    char *name;
    char *query;                 /* the collection, with the name as selector */
    char version[VERSION_BYTES]; /* where to resume; "": LIST first */
    struct kube_call *call;      /* the list or the stream under way; or NULL */
    struct mono accepted_at;     /* the stream, by the server; MONO_NEVER: it is not */
    struct mono heard_at;
    struct mono gone_at; /* the last 410; 0: none */
    ev_timer timer;      /* the next try, or the next look at the silence */
    struct backoff backoff;
    struct backoff denied; /* of tries in a row that were answered with 403 */
};

static void arm_watch(struct kube_watch *w, int64_t wait_ns)
{
    loop_timer_arm(kube_client_loop(w->client), &w->timer, wait_ns);
}

/* Whether a stream was of use for a while. */
static bool has_lasted(const struct kube_watch *w)
{
    return mono_since(clock_mono_now(), w->accepted_at) >= KUBE_SHORT_STREAM_NS;
}

static void drop_call(struct kube_watch *w)
{
    if (has_lasted(w)) {
        backoff_reset(&w->backoff);
    }
    kube_call_cancel(TAKE(w->call));
    w->accepted_at = MONO_NEVER;
}

static void start_over(struct kube_watch *w)
{
    drop_call(w);
    w->version[0] = '\0';
    arm_watch(w, 0);
}

/* Tells the owner of a failure, and lists anew: a look is needed all the same, a server that has
 * started again knows no history, and the watch takes over the list's connection. An API server
 * that has just started denies everything until it has read its rules: asked again soon, and ever
 * more rarely while the denial lasts. */
static void fail_watch(struct kube_watch *w, const struct kube_response *r)
{
    drop_call(w);
    w->version[0] = '\0';
    if (r->http_status == 403) {
        arm_watch(w, backoff_next_ns(&w->denied, 0));
    } else {
        backoff_reset(&w->denied); /* the next denial may be that of another server */
        arm_watch(w, backoff_next_ns(&w->backoff, r->retry_after_ns));
    }
    w->config.on_failure(w->config.user, r);
}

/* The stream is of no use, whatever the server thinks of it. */
static void break_stream(struct kube_watch *w, int code, const char *why)
{
    struct kube_response r = {.code = code};
    text_format(r.message, sizeof(r.message), "watching %.100s: %s", w->name, why);
    fail_watch(w, &r);
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
static void on_gone(struct kube_watch *w)
{
    struct mono now = clock_mono_now();
    bool is_first = w->gone_at.ns == 0 || mono_since(now, w->gone_at) > GONE_CALM_NS;
    w->gone_at = now;
    w->version[0] = '\0';
    if (is_first) {
        log_debug("kube", "watching %s: its history is gone, listing again", w->name);
        start_over(w);
    } else {
        break_stream(w, ERR_GONE, "its history is gone again, right after a list");
    }
}

/* An ERROR event holds a Status: 410 and "too large resource version" mean a new LIST. */
static void on_error_event(struct kube_watch *w, json_t *status)
{
    int http_status = (int)json_integer_value(json_object_get(status, "code"));
    struct kube_response r = {.http_status = http_status,
                              .code = kube_status_code(http_status == 200 ? 0 : http_status),
                              .body = status};
    kube_status_fill(&r, KUBE_GET, w->query, NULL);
    r.body = NULL;
    if (r.code == ERR_GONE) {
        on_gone(w);
    } else {
        fail_watch(w, &r);
    }
}

/* One event. Returns false when the stream is gone. */
static bool on_line(struct kube_watch *w, const char *line, size_t len)
{
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *event = json_text_parse(line, len, &e);
    const char *type = json_text_get(event, "type");
    json_t *object = json_object_get(event, "object");
    if (!type || !json_is_object(object)) {
        break_stream(w, ERR_PARSE, event ? "an event without type and object" : e.msg);
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
        w->config.on_object(w->config.user, text_equal(type, "DELETED") ? NULL : object,
                            (struct mono){0});
    }
    return w->call; /* the owner may have restarted us */
}

static void on_accepted(struct kube_watch *w)
{
    w->accepted_at = w->heard_at;
    if (w->config.opened) {
        ++*w->config.opened;
    }
    backoff_reset(&w->denied);
    arm_watch(w, SILENCE_NS);
    w->config.on_contact(w->config.user);
}

/* The next line that is not empty, without its LF, out of what has come: one JSON object each
 * (api-machinery's JSON framer). NULL: what is left is the beginning of one. */
static const char *watch_line_next(const char **bytes, size_t *left, size_t *out_len)
{
    for (; *left > 0 && **bytes == '\n'; --*left) {
        ++*bytes;
    }
    const char *line = *bytes;
    const char *end = memchr(line, '\n', *left);
    if (!end) {
        return NULL;
    }
    *out_len = (size_t)(end - line);
    *bytes += *out_len + 1;
    *left -= *out_len + 1;
    return line;
}

static void on_stream_bytes(void *user, struct buf *inbox)
{
    struct kube_watch *w = user;
    w->heard_at = clock_mono_now();
    if (mono_is_never(w->accepted_at)) {
        on_accepted(w);
    }
    if (!w->call) {
        return; /* the owner has restarted us */
    }
    const char *bytes = buf_text(inbox);
    const char *line;
    size_t left = inbox->len;
    size_t len = 0;
    while ((line = watch_line_next(&bytes, &left, &len)) && len <= KUBE_WATCH_LINE_MAX_BYTES) {
        if (!on_line(w, line, len)) {
            return;
        }
    }
    if (line || left > KUBE_WATCH_LINE_MAX_BYTES) { /* not cut: half an event is no event */
        break_stream(w, ERR_LIMIT, "an event is larger than allowed");
        return;
    }
    buf_consume(inbox, inbox->len - left);
}

static void on_stream_done(void *user, const struct kube_response *r)
{
    struct kube_watch *w = user;
    bool is_accepted = !mono_is_never(w->accepted_at);
    w->call = NULL;
    if (r->code == ERR_GONE) {
        on_gone(w);
    } else if (!is_accepted) {
        fail_watch(w, r);
    } else if (r->message[0] != '\0') {
        break_stream(w, ERR_RETRY, r->message);
    } else if (has_lasted(w)) { /* an ordinary close: resume from the last version */
        drop_call(w);
        arm_watch(w, backoff_next_ns(&w->backoff, 0) / (RETRY_BASE_NS / RESUME_NS));
        backoff_reset(&w->backoff);
    } else if (w->backoff.failures == 0) { /* once may be a restart of the server */
        drop_call(w);
        arm_watch(w, backoff_next_ns(&w->backoff, 0));
    } else {
        break_stream(w, ERR_RETRY, "the API server keeps ending it");
    }
}

static void open_stream(struct kube_watch *w)
{
    int seconds = WATCH_LEAST_S + (int)prng_next(&w->backoff.random, WATCH_SPREAD_S);
    CLEANUP(free)
    char *path =
        mem_format("%s&watch=true&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%d",
                   w->query, w->version, seconds);
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = KUBE_STREAM,
                                         .path = path,
                                         .on_bytes = on_stream_bytes,
                                         .max_bytes = INBOX_MAX_BYTES,
                                         .must_last = w->backoff.failures > 0};
    w->call = kube_client_start(w->client, &request, on_stream_done, w);
}

/* ---- the list -------------------------------------------------------------------------------- */

static void on_listed(void *user, const struct kube_response *r)
{
    struct kube_watch *w = user;
    w->call = NULL;
    const json_t *items = json_object_get(r->body, "items");
    remember_version(w, r->body);
    if (r->code != 0 || !json_is_array(items) || w->version[0] == '\0') {
        struct kube_response failed = *r;
        if (r->code == 0) {
            failed.code = ERR_PARSE;
            failed.outcome = KUBE_UNREADABLE;
            text_format(failed.message, sizeof(failed.message),
                        "listing %.100s: the answer is not a list", w->name);
        }
        fail_watch(w, &failed);
        return;
    }
    const json_t *object = kube_list_find(r->body, w->name);
    arm_watch(w, 0); /* opens the stream after the owner has seen this state */
    w->config.on_object(w->config.user, object, r->sent_at);
}

static void start_list(struct kube_watch *w)
{
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = KUBE_LIST,
                                         .path = w->query,
                                         .least_version = w->config.newest ? *w->config.newest : 0};
    w->call = kube_client_start(w->client, &request, on_listed, w);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_watch *w = timer->data;
    int64_t left_ns = SILENCE_NS - mono_since(clock_mono_now(), w->heard_at);
    if (!w->call && w->version[0] == '\0') {
        start_list(w);
    } else if (!w->call) {
        open_stream(w);
    } else if (left_ns > 0) {
        arm_watch(w, left_ns);
    } else {
        break_stream(w, ERR_RETRY, "no event and no bookmark for too long");
    }
}

struct kube_watch *kube_watch_start(struct kube_client *client,
                                    const struct kube_watch_config *config)
{
    struct kube_watch *w = MEM_NEW(struct kube_watch);
    w->client = client;
    w->config = *config;
    w->name = mem_strdup(config->name);
    w->query =
        mem_format("%s?fieldSelector=metadata.name%%3D%s", config->collection_path, config->name);
    w->accepted_at = MONO_NEVER;
    backoff_init(&w->backoff, RETRY_BASE_NS, RETRY_MAX_NS,
                 (uint64_t)clock_wall_now().ns ^
                     crc32c_compute(config->name, strlen(config->name)));
    backoff_init(&w->denied, DENIED_BASE_NS, DENIED_MAX_NS, ~w->backoff.random);
    ev_timer_init(&w->timer, on_timer, 0., 0.);
    w->timer.data = w;
    arm_watch(w, 0);
    return w;
}

void kube_watch_restart(struct kube_watch *watch)
{
    if (!mono_is_never(watch->accepted_at)) { /* else a list, a stream or a retry is under way at
                                                 its own pace */
        start_over(watch);
    }
}

void kube_watch_hope(struct kube_watch *watch)
{
    if (!watch->call && watch->denied.failures + watch->backoff.failures > 0) {
        backoff_reset(&watch->denied);
        arm_watch(watch, 0);
    }
}

void kube_watch_stop(struct kube_watch *watch)
{
    if (watch) {
        ev_timer_stop(kube_client_loop(watch->client), &watch->timer);
        kube_call_cancel(watch->call);
        free(watch->name);
        free(watch->query);
        free(watch);
    }
}
