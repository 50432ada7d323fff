/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/watch.h"

#include "base/mem.h"
#include "base/text.h"

#include <microhttpd.h>
#include <string.h>

enum {
    MAX_PENDING_BYTES = 64 << 20,
    DEFAULT_TIMEOUT_S = 1800,
    BOOKMARK_INTERVAL_MS = 60000,
    LAST_BOOKMARK_BEFORE_END_MS = 2000,
};

struct watch {
    struct standin *standin;
    const struct standin_conn *conn; /* outlives the watch */
    struct api_target target;
    char *fields; /* owned; NULL: none */
    char *labels;
    char *user;
    uint64_t seen; /* resourceVersion sent last */
    size_t seen_injections;
    bool bookmarks;
    bool said_goodbye; /* the bookmark before the end was sent */
    bool muted;
    bool ended; /* orderly, once `pending` is empty */
    bool cut;
    int64_t next_bookmark_ms;
    int64_t end_ms;
    struct buf pending;
};

static void push(struct watch *w, const char *bytes, size_t len)
{
    if (buf_append(&w->pending, bytes, len, NULL) != 0) {
        w->cut = true; /* the client does not read */
    }
}

/* Takes `object`. */
static void push_event(struct watch *w, const char *type, json_t *object)
{
    json_t *event = need(json_pack("{s:s, s:o}", "type", type, "object", object));
    char *line = need(json_dumps(event, JSON_COMPACT));
    push(w, line, strlen(line));
    push(w, "\n", 1);
    free(line);
    json_decref(event);
}

static void push_bookmark(struct watch *w)
{
    uint64_t current = w->standin->store.version;
    push_event(w, "BOOKMARK", api_bookmark(&w->target, current > w->seen ? current : w->seen));
}

static void push_expired(struct watch *w, uint64_t asked)
{
    push_event(w, "ERROR", api_expired_status(asked, w->standin->store.compacted));
    w->ended = true;
}

static void push_state(struct watch *w)
{
    const struct store *store = &w->standin->store;
    for (size_t i = 0; i < store->object_count; i++) {
        const struct store_object *object = &store->objects[i];
        if (object->kind == w->target.kind &&
            select_matches(&w->target, object->json, w->fields, w->labels)) {
            push_event(w, "ADDED", json_incref(object->json));
        }
    }
    w->seen = store->version;
}

static void push_changes(struct watch *w)
{
    const struct store_event *event;
    while ((event = select_next(&w->standin->store, &w->target, w->fields, w->labels, &w->seen))) {
        push_event(w, store_change_name(event->change), json_incref(event->json));
    }
}

static void inject(struct watch *w, const json_t *injection)
{
    const char *action = json_string_value(json_object_get(injection, "action"));
    const char *user = json_string_value(json_object_get(injection, "user"));
    if (user && strcmp(user, w->user) != 0) {
        return;
    }
    if (text_equal(action, "end")) {
        w->ended = true;
    } else if (text_equal(action, "cut")) {
        w->cut = true;
    } else if (text_equal(action, "expire")) {
        push_expired(w, w->seen);
    }
}

static void push_injections(struct watch *w)
{
    const json_t *all = w->standin->hub.injections;
    while (w->seen_injections < json_array_size(all)) {
        inject(w, json_array_get(all, w->seen_injections));
        w->seen_injections++;
    }
}

/* Bookmarks that are due, and the end of the time. */
static void push_due(struct watch *w, int64_t now_ms)
{
    if (w->bookmarks && now_ms >= w->next_bookmark_ms) {
        push_bookmark(w);
        w->next_bookmark_ms = now_ms + BOOKMARK_INTERVAL_MS;
    }
    if (w->bookmarks && !w->said_goodbye && now_ms >= w->end_ms - LAST_BOOKMARK_BEFORE_END_MS) {
        w->said_goodbye = true;
        push_bookmark(w);
    }
    if (now_ms >= w->end_ms) {
        w->ended = true;
    }
}

static bool is_silenced(const struct watch *w)
{
    return w->muted || standin_is_frozen(w->standin, w->conn);
}

/* One round: collects what there is to send. */
static void collect(struct watch *w)
{
    push_injections(w);
    if (!w->ended && !is_silenced(w)) {
        push_changes(w);
        push_due(w, standin_now_ms());
    }
}

ssize_t watch_read(void *watch, uint64_t pos, char *out, size_t max)
{
    struct watch *w = watch;
    struct standin *s = w->standin;
    ssize_t result = MHD_CONTENT_READER_END_WITH_ERROR;

    standin_lock(s);
    bool open = true;
    while (open && !w->cut) {
        collect(w);
        if (w->pending.len > 0 && !is_silenced(w)) {
            size_t len = w->pending.len < max ? w->pending.len : max;
            memcpy(out, w->pending.data, len);
            w->pending.len -= len;
            memmove(w->pending.data, w->pending.data + len, w->pending.len + 1);
            result = (ssize_t)len;
            break;
        }
        if (w->ended && !is_silenced(w)) {
            result = MHD_CONTENT_READER_END_OF_STREAM;
            break;
        }
        open = standin_wait(s, w->conn, -1);
    }
    standin_unlock(s);
    return result;
}

void watch_close(void *watch)
{
    struct watch *w = watch;
    buf_fini(&w->pending);
    free(w->fields);
    free(w->labels);
    free(w->user);
    free(w);
}

static char *copy(const char *text)
{
    return text ? need(strdup(text)) : NULL;
}

struct watch *watch_open(struct standin *s, const struct standin_conn *conn,
                         const struct watch_request *request, struct api_result *r)
{
    const char *text = request->version;
    bool from_now = text_is_empty(text) || strcmp(text, "0") == 0;
    uint64_t version = 0;
    if (!from_now && text_to_u64(text, strlen(text), &version, NULL) != 0) {
        (void)api_fail(r, 400, "BadRequest", "invalid resourceVersion \"%s\"", text);
        return NULL;
    }
    bool expired = !from_now && version < s->store.compacted;
    int64_t now_ms = standin_now_ms();
    int64_t timeout_s = request->timeout_s > 0 ? request->timeout_s : DEFAULT_TIMEOUT_S;
    struct watch *w = need(calloc(1, sizeof(*w)));
    *w = (struct watch){
        .standin = s,
        .conn = conn,
        .target = request->target,
        .fields = copy(request->fields),
        .labels = copy(request->labels),
        .user = copy(request->user),
        .seen = version,
        .seen_injections = json_array_size(s->hub.injections),
        .bookmarks = request->bookmarks,
        .muted = s->hub.mute_new,
        .next_bookmark_ms = now_ms + BOOKMARK_INTERVAL_MS,
        .end_ms = now_ms + timeout_s * 1000,
    };
    w->pending = (struct buf){.max_bytes = MAX_PENDING_BYTES};
    if (expired) {
        push_expired(w, version);
    } else if (from_now) {
        push_state(w);
    }
    return w;
}
