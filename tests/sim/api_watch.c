/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/api.h"
#include "tests/sim/faults.h"
#include "tests/sim/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOOKMARK_NS (60 * SEC)

static void send_event(struct exchange *x, const char *type, json_t *object)
{
    char head[64];
    tally_note("watch: %s", type);
    const char *text = api_text(api_get(), object);
    int head_len = snprintf(head, sizeof(head), "{\"type\":\"%s\",\"object\":", type);
    exchange_write(x, head, (size_t)head_len);
    exchange_write(x, text, strlen(text));
    exchange_write(x, "}\n", 2);
}

static void send_gone(struct exchange *x)
{
    json_t *status = api_status(410, "Expired", "too old resource version");
    send_event(x, "ERROR", status);
    json_decref(status);
}

static void close_stream(struct api_stream *s, enum exchange_end end)
{
    struct exchange *x = s->exchange;
    s->exchange = NULL;
    exchange_finish(x, end);
}

static struct api_stream *stream_of(struct api *api, const struct exchange *x)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        if (api->streams[i].exchange == x) {
            return &api->streams[i];
        }
    }
    return NULL;
}

void api_watch_left(struct api *api, const struct exchange *x)
{
    struct api_stream *s = stream_of(api, x);
    if (s) {
        close_stream(s, EXCHANGE_WHOLE);
    }
}

static bool is_wanted(const struct api_stream *s, const struct api_change *change)
{
    size_t len = strlen(s->prefix);
    return change->version > s->from && strncmp(change->key, s->prefix, len) == 0 &&
           change->key[len] == '/' &&
           (s->name[0] == '\0' || strcmp(change->key + len + 1, s->name) == 0);
}

static void send_news(struct api *api, struct api_stream *s)
{
    uint64_t oldest = api->changes > API_HISTORY_MAX ? api->changes - API_HISTORY_MAX : 0;
    for (s->sent = s->sent < oldest ? oldest : s->sent; s->sent < api->changes; s->sent++) {
        const struct api_change *change = &api->history[s->sent % API_HISTORY_MAX];
        if (is_wanted(s, change)) {
            send_event(s->exchange, change->type, change->tree);
        }
    }
}

static void pump(struct exchange *x)
{
    struct api *api = api_get();
    struct api_stream *s = stream_of(api, x);
    if (s) {
        s->is_pumping = false;
        if (s->is_stuck) {
            tally_note("watch: held back");
            return;
        }
        send_news(api, s);
    }
}

static void pump_soon(struct api *api, struct api_stream *s)
{
    if (s->exchange && !s->is_pumping) {
        s->is_pumping = true;
        exchange_later(s->exchange, api->world->now + world_between(api->world, MS, 20 * MS), pump);
    }
}

void api_watch_changed(struct api *api)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        pump_soon(api, &api->streams[i]);
    }
}

/* A bookmark each minute, and the end when the client asked for it. */
static void tick(struct exchange *x)
{
    struct api *api = api_get();
    struct api_stream *s = stream_of(api, x);
    char version[24];
    if (!s) {
        return;
    }
    if (!s->is_stuck && api->world->now >= s->ends_at) {
        close_stream(s, EXCHANGE_WHOLE);
        return;
    }
    if (!s->is_stuck && api->world->now >= s->bookmark_at && s->sent == api->changes) {
        (void)snprintf(version, sizeof(version), "%llu", (unsigned long long)api->version);
        json_t *bookmark =
            json_pack("{s:s,s:{s:s}}", "kind", "Lease", "metadata", "resourceVersion", version);
        send_event(x, "BOOKMARK", bookmark);
        json_decref(bookmark);
    }
    s->bookmark_at = api->world->now + BOOKMARK_NS;
    bool ends_first = !s->is_stuck && s->ends_at < s->bookmark_at;
    exchange_later(x, ends_first ? s->ends_at : s->bookmark_at, tick);
}

static uint64_t number_of(const char *query, const char *name)
{
    const char *at = strstr(query, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void accept_watch(struct api *api, struct api_stream *s, struct exchange *x, uint64_t from)
{
    const char *query = strchr(x->path, '?');
    const char *name = strstr(query, "metadata.name%3D");
    name = name ? name + strlen("metadata.name%3D") : "";
    *s = (struct api_stream){.exchange = x, .from = from, .sent = api->base};
    (void)snprintf(s->prefix, sizeof(s->prefix), "%.*s", (int)(query - x->path), x->path);
    (void)snprintf(s->name, sizeof(s->name), "%.*s", (int)strcspn(name, "&%"), name);
    s->ends_at = api->world->now + (int64_t)number_of(query, "timeoutSeconds=") * SEC;
    s->bookmark_at = api->world->now + BOOKMARK_NS;
    exchange_head(x, 200, "application/json", -1);
    exchange_later(x, s->bookmark_at, tick);
    pump_soon(api, s);
}

static void refuse(struct exchange *x, int code, const char *reason)
{
    json_t *status = api_status(code, reason, "the watch is refused");
    char *text = json_dumps(status, JSON_COMPACT);
    exchange_head(x, code, "application/json", -1);
    exchange_write(x, text, strlen(text));
    exchange_finish(x, EXCHANGE_WHOLE);
    free(text);
    json_decref(status);
}

void api_watch_open(struct api *api, struct exchange *x)
{
    struct world *w = api->world;
    uint64_t from = number_of(x->path, "resourceVersion=");
    struct api_stream *s = stream_of(api, NULL);
    if (x->is_client_gone) {
        exchange_finish(x, EXCHANGE_WHOLE);
    } else if (from < api->compacted || faults_on(FAULT_GONE)) {
        if (faults_on(FAULT_GONE)) {
            faults_struck(FAULT_GONE);
        }
        if (world_one_in(w, 2)) {
            refuse(x, 410, "Expired");
            return;
        }
        exchange_head(x, 200, "application/json", -1);
        send_gone(x);
        exchange_finish(x, EXCHANGE_WHOLE);
    } else if (from > api->version && world_one_in(w, 2)) {
        refuse(x, 504, "Timeout"); /* too large a version; the other half is silent */
    } else if (!s) {
        refuse(x, 429, "TooManyRequests");
    } else {
        accept_watch(api, s, x, from);
    }
}

void api_watch_cut(struct api *api, const char *who, enum api_cut how)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        struct api_stream *s = &api->streams[i];
        if (!s->exchange || (who && strcmp(s->exchange->proc->name, who) != 0)) {
            continue;
        }
        switch (how) {
        case API_CUT_STUCK:
            s->is_stuck = true;
            break;
        case API_CUT_RESET:
            close_stream(s, EXCHANGE_RESET);
            break;
        case API_CUT_END:
            close_stream(s, EXCHANGE_WHOLE);
            break;
        case API_CUT_GONE:
            if (!s->is_stuck) {
                send_gone(s->exchange);
                close_stream(s, EXCHANGE_WHOLE);
            }
            break;
        }
    }
}

void api_watch_unstick(struct api *api)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        api->streams[i].is_stuck = false;
        pump_soon(api, &api->streams[i]);
    }
}

bool api_watch_works(const struct api *api, const char *who, const char *key)
{
    for (size_t i = 0; i < API_STREAMS_MAX; i++) {
        const struct api_stream *s = &api->streams[i];
        size_t len = strlen(s->prefix);
        if (s->exchange && !s->is_stuck && !s->exchange->is_client_gone &&
            s->from <= api->version && strcmp(s->exchange->proc->name, who) == 0 &&
            strncmp(key, s->prefix, len) == 0 && key[len] == '/' &&
            strcmp(key + len + 1, s->name) == 0) {
            return true;
        }
    }
    return false;
}
