/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/server.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "standin/managed.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

/* ---- watches --------------------------------------------------------------------------------- */

enum {
    MAX_PENDING_BYTES = 64 << 20,
    DEFAULT_TIMEOUT_S = 1800,
    LAST_BOOKMARK_BEFORE_END_MS = 2000,
    WATCH_BLOCK_BYTES = 64 << 10,
};

/*
 * One open watch: a chunked stream of events from a resourceVersion on, with a bookmark before its
 * end, a time limit, and injected disturbances. Runs in the thread of its connection.
 *
 * Injections, by the command "watches", reach all watches open then (or those of that user): "end",
 * an orderly one; "cut", without the last chunk; "expire", an ERROR event 410, then an end.
 */
struct watch {
    struct standin *standin;
    const struct standin_conn *conn; /* outlives the watch */
    struct api_target target;
    char *fields; /* owned; NULL: none */
    char *user;
    uint64_t seen; /* resourceVersion sent last */
    size_t seen_injections;
    bool bookmarks; /* the one before the end is to be sent */
    bool ended;     /* orderly, once `pending` is empty */
    bool cut;
    int64_t end_ms;
    struct buf pending;
};

/* Takes `object`. */
static void push_event(struct watch *w, const char *type, json_t *object)
{
    json_t *event = need(json_pack("{s:s, s:o}", "type", type, "object", object));
    char *line = need(json_dumps(event, JSON_COMPACT));
    if (buf_appendf(&w->pending, NULL, "%s\n", line) != 0) {
        w->cut = true; /* the client does not read */
    }
    free(line);
    json_decref(event);
}

static void push_expired(struct watch *w)
{
    push_event(w, "ERROR", api_expired_status(w->seen, w->standin->store.compacted));
    w->ended = true;
}

static void push_changes(struct watch *w)
{
    const struct store_event *event;
    while ((event = select_next(&w->standin->store, &w->target, w->fields, &w->seen))) {
        push_event(w, store_change_name(event->change), json_incref(event->json));
    }
}

static void push_injections(struct watch *w)
{
    const json_t *all = w->standin->injections;
    for (; w->seen_injections < json_array_size(all); w->seen_injections++) {
        const json_t *injection = json_array_get(all, w->seen_injections);
        const char *action = json_string_value(json_object_get(injection, "action"));
        const char *user = json_string_value(json_object_get(injection, "user"));
        if (user && strcmp(user, w->user) != 0) {
            continue;
        }
        if (text_equal(action, "expire")) {
            push_expired(w);
        }
        w->ended |= text_equal(action, "end");
        w->cut |= text_equal(action, "cut");
    }
}

/* One round: collects what there is to send. */
static void watch_collect(struct watch *w)
{
    int64_t left_ms = w->end_ms - standin_now_ms();
    push_injections(w);
    if (w->ended || standin_is_frozen(w->standin, w->conn)) {
        return;
    }
    push_changes(w);
    if (w->bookmarks && left_ms <= LAST_BOOKMARK_BEFORE_END_MS) {
        w->bookmarks = false;
        push_event(w, "BOOKMARK", api_bookmark(&w->target, w->seen));
    }
    w->ended = left_ms <= 0;
}

static ssize_t watch_read(void *watch, uint64_t pos, char *out, size_t max)
{
    struct watch *w = watch;
    struct standin *s = w->standin;
    ssize_t result = MHD_CONTENT_READER_END_WITH_ERROR;

    standin_lock(s);
    bool open = true;
    while (open && !w->cut) {
        watch_collect(w);
        bool is_frozen = standin_is_frozen(s, w->conn);
        if (w->pending.len > 0 && !is_frozen) {
            size_t len = w->pending.len < max ? w->pending.len : max;
            memcpy(out, w->pending.data, len);
            buf_consume(&w->pending, len);
            result = (ssize_t)len;
            break;
        }
        if (w->ended && !is_frozen) {
            result = MHD_CONTENT_READER_END_OF_STREAM;
            break;
        }
        open = standin_wait(s, w->conn, -1);
    }
    standin_unlock(s);
    return result;
}

static void watch_close(void *watch)
{
    struct watch *w = watch;
    buf_fini(&w->pending);
    free(w->fields);
    free(w->user);
    free(w);
}

/* ---- answers: whole, cut short, byte by byte, or as a watch ---------------------------------- */

struct reply {
    int code;
    const char *content_type;
    int retry_after_s; /* negative: none */
    int64_t cut_bytes; /* close after so many; negative: send all */
    int64_t byte_ms;   /* pause after each byte; 0: none */
};

/* A body that is sent slowly or not to its end. */
struct drip {
    struct standin *standin;
    const struct standin_conn *conn;
    char *text; /* owned */
    size_t len;
    size_t stop_at;
    int64_t byte_ms;
};

static ssize_t drip_read(void *user, uint64_t pos, char *out, size_t max)
{
    const struct drip *d = user;
    if (pos >= d->len) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (pos >= d->stop_at) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t count = d->stop_at - (size_t)pos;
    if (d->byte_ms > 0) {
        count = 1;
        standin_lock(d->standin);
        bool open = standin_sleep(d->standin, d->conn, d->byte_ms);
        standin_unlock(d->standin);
        if (!open) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
    }
    count = count < max ? count : max;
    memcpy(out, d->text + pos, count);
    return (ssize_t)count;
}

static void drip_free(void *user)
{
    struct drip *d = user;
    free(d->text);
    free(d);
}

static void add_date(struct standin *s, struct MHD_Response *response)
{
    char text[64];
    struct tm parts;
    standin_lock(s);
    time_t now = (time_t)(clock_wall_now().ns / NS_PER_SEC + s->date_offset_s);
    standin_unlock(s);
    (void)strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_DATE, text);
}

static enum MHD_Result queue(struct standin *s, struct MHD_Connection *connection, int code,
                             const char *content_type, struct MHD_Response *response)
{
    need(response);
    add_date(s, response);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    (void)MHD_add_response_header(response, "Cache-Control", "no-cache, private");
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result reply_text(struct standin *s, struct MHD_Connection *connection,
                                  const struct standin_conn *conn, const struct reply *reply,
                                  char *text)
{
    size_t len = strlen(text);
    struct MHD_Response *response;
    if (reply->cut_bytes < 0 && reply->byte_ms <= 0) {
        response = MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    } else {
        struct drip *d = need(calloc(1, sizeof(*d)));
        size_t stop_at = reply->cut_bytes >= 0 ? (size_t)reply->cut_bytes : len;
        *d = (struct drip){.standin = s,
                           .conn = conn,
                           .text = text,
                           .len = len,
                           .stop_at = stop_at < len ? stop_at : len,
                           .byte_ms = reply->byte_ms};
        response = MHD_create_response_from_callback(len, 4096, &drip_read, d, &drip_free);
    }
    need(response);
    if (reply->retry_after_s >= 0) {
        char seconds[16];
        (void)snprintf(seconds, sizeof(seconds), "%d", reply->retry_after_s);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    return queue(s, connection, reply->code, reply->content_type, response);
}

static enum MHD_Result reply_watch(struct standin *s, struct MHD_Connection *connection,
                                   struct watch *watch)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, WATCH_BLOCK_BYTES, &watch_read, watch, &watch_close);
    return queue(s, connection, 200, "application/json", response);
}

static bool reply_client_name(struct MHD_Connection *connection, char *out, size_t out_bytes)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (!info || !info->tls_session) {
        return false;
    }
    unsigned status = 1;
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(info->tls_session, &count);
    if (!chain || count == 0 || gnutls_certificate_verify_peers2(info->tls_session, &status) != 0 ||
        status != 0) {
        return false;
    }
    gnutls_x509_crt_t cert;
    if (gnutls_x509_crt_init(&cert) != 0) {
        return false;
    }
    bool named = gnutls_x509_crt_import(cert, &chain[0], GNUTLS_X509_FMT_DER) == 0 &&
                 gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, 0, out,
                                               &out_bytes) == 0;
    gnutls_x509_crt_deinit(cert);
    return named;
}

/* ---- one request, from its first line to its answer ------------------------------------------ */

enum { MAX_BODY_BYTES = 3 << 20 }; /* the real server's limit */

struct request {
    char *uri; /* as sent, with the query */
    bool started;
    bool is_too_large; /* the body, whose rest is read and dropped */
    struct buf body;
};

/* All about one request while it is worked on. */
struct exchange {
    struct standin *s;
    struct MHD_Connection *connection;
    const struct standin_conn *conn;
    const struct request *request;
    struct api_target target;
    struct auth_user user;
    json_t *groups;            /* that the user asks to act in; owned, NULL if none */
    char name[API_NAME_BYTES]; /* of the path or of the field selector */
    const char *fields;
    const char *labels;
    json_t *body;        /* owned */
    json_t *webhook;     /* merged into the body; owned, NULL if none */
    struct watch *watch; /* set instead of a result body */
    struct api_result result;
};

static void *handler_uri(void *user, const char *uri, struct MHD_Connection *connection)
{
    struct request *request = need(calloc(1, sizeof(*request)));
    request->uri = need(strdup(uri));
    request->body = (struct buf){.max_bytes = MAX_BODY_BYTES};
    return request;
}

static void handler_completed(void *user, struct MHD_Connection *connection, void **state,
                              enum MHD_RequestTerminationCode why)
{
    struct request *request = *state;
    if (request) {
        buf_fini(&request->body);
        free(request->uri);
        free(request);
        *state = NULL;
    }
}

static const char *argument(const struct exchange *x, const char *key)
{
    return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, key);
}

static bool argument_is_true(const struct exchange *x, const char *key)
{
    const char *text = argument(x, key);
    return text && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

static const char *header(const struct exchange *x, const char *key)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, key);
}

/* Writes the audit line for what has been decided. */
static void witness(const struct exchange *x, int code, const char *fault)
{
    const char *reason = json_string_value(json_object_get(x->result.body, "reason"));
    bool is_status = x->result.body && code >= 400;
    audit_write(x->s->audit, &(struct audit_entry){
                                 .user = x->user.name,
                                 .target = &x->target,
                                 .path = x->request->uri,
                                 .code = code,
                                 .reason = is_status && reason ? reason : "",
                                 .fault = fault,
                                 .conn = x->conn->id,
                             });
}

static enum MHD_Result on_group(void *user, enum MHD_ValueKind kind, const char *key,
                                const char *value)
{
    struct exchange *x = user;
    if (strcasecmp(key, "Impersonate-Group") == 0) {
        json_array_append_new(x->groups, need(json_string(value)));
    }
    return MHD_YES;
}

static bool identify(struct exchange *x, const char *cert_name)
{
    const char *as = header(x, "Impersonate-User");
    if (!auth_identify(&x->s->auth, header(x, "Authorization"), cert_name, &x->user, &x->result)) {
        return false;
    }
    if (!as) {
        return true;
    }
    x->groups = need(json_array());
    (void)MHD_get_connection_values(x->connection, MHD_HEADER_KIND, on_group, x);
    return auth_impersonate(&x->s->auth, &x->user, as, x->groups, &x->result);
}

/* Who, what, and may they: false with the refusal in x->result. */
static bool admit(struct exchange *x, const char *url, const char *method)
{
    char cert_name[API_NAME_BYTES];
    bool has_cert = reply_client_name(x->connection, cert_name, sizeof(cert_name));
    bool known = api_target_parse(url, &x->target);
    if (known) {
        x->fields = argument(x, "fieldSelector");
        x->labels = argument(x, "labelSelector");
        x->target.verb = api_verb_for(method, &x->target, argument_is_true(x, "watch"));
        (void)text_copy(x->name, sizeof(x->name), x->target.name);
        if (x->name[0] == '\0') {
            select_name(x->fields, x->name);
        }
    }
    if (!identify(x, has_cert ? cert_name : NULL)) {
        return false;
    }
    if (!known) {
        return api_fail(&x->result, 404, "NotFound",
                        "the server could not find the requested resource");
    }
    if (x->target.verb != API_NONE && !auth_allows(&x->s->auth, &x->user, &x->target)) {
        return auth_fail(&x->user, &x->target, x->name, &x->result);
    }
    return select_check(x->target.kind, x->fields, x->labels, &x->result);
}

static bool is_strategic(const struct exchange *x)
{
    const char *type = header(x, MHD_HTTP_HEADER_CONTENT_TYPE);
    return type && strcmp(type, "application/strategic-merge-patch+json") == 0;
}

/* Parses the body by its content type: false with a 400, 413 or 415. */
static bool read_body(struct exchange *x)
{
    const char *type = header(x, MHD_HTTP_HEADER_CONTENT_TYPE);
    struct err e = ERR_INIT;
    if (x->request->is_too_large) {
        return api_fail(&x->result, 413, "RequestEntityTooLarge",
                        "Request entity too large: limit is %d", MAX_BODY_BYTES);
    }
    if (x->request->body.len == 0) {
        return true;
    }
    bool patch = x->target.verb == API_PATCH;
    const char *wanted = patch ? "application/merge-patch+json" : "application/json";
    bool fits = type && (strncmp(type, wanted, strlen(wanted)) == 0 || (patch && is_strategic(x)));
    if (!fits) {
        return api_fail(&x->result, 415, "UnsupportedMediaType", "%s",
                        patch ? "415: Unsupported Media Type"
                              : "the body of the request was in an unknown format - accepted "
                                "media types include: application/json, application/yaml, "
                                "application/vnd.kubernetes.protobuf");
    }
    x->body = json_text_parse(x->request->body.data, x->request->body.len, &e);
    return x->body ? true
                   : api_fail(&x->result, 400, "BadRequest",
                              "the object provided is unrecognized (must be of type %s): couldn't "
                              "get version/kind; json parse error: %s",
                              x->target.kind ? x->target.kind->kind : "", e.msg);
}

/* 0 where it is not given; false with the refusal in x->result. */
static bool read_number(struct exchange *x, const char *key, uint64_t *out)
{
    const char *text = argument(x, key);
    *out = 0;
    if (!text || text_to_u64(text, strlen(text), out, NULL) == 0) {
        return true;
    }
    return api_fail(&x->result, 400, "BadRequest", "invalid %s \"%s\"", key, text);
}

static void open_watch(struct exchange *x)
{
    uint64_t timeout_s;
    uint64_t version;
    if (!read_number(x, "timeoutSeconds", &timeout_s) ||
        !read_number(x, "resourceVersion", &version)) {
        return;
    }
    timeout_s = timeout_s > 0 ? timeout_s : DEFAULT_TIMEOUT_S;
    x->watch = need(calloc(1, sizeof(*x->watch)));
    *x->watch = (struct watch){
        .standin = x->s,
        .conn = x->conn,
        .target = x->target,
        .fields = x->fields ? need(strdup(x->fields)) : NULL,
        .user = need(strdup(x->user.name)),
        .seen = version,
        .seen_injections = json_array_size(x->s->injections),
        .bookmarks = argument_is_true(x, "allowWatchBookmarks"),
        .end_ms = standin_now_ms() + (int64_t)timeout_s * 1000,
        .pending = {.max_bytes = MAX_PENDING_BYTES},
    };
    if (version < x->s->store.compacted) {
        push_expired(x->watch);
    }
}

/* Does what was asked for; the outcome is x->result or x->watch. */
static void carry_out(struct exchange *x)
{
    if (!read_body(x)) {
        return;
    }
    if (x->webhook && x->body) {
        merge_patch(x->body, x->webhook, false);
    }
    if (x->target.verb == API_WATCH) {
        open_watch(x);
        return;
    }
    char manager[MANAGED_NAME_BYTES];
    struct api_target create = x->target;
    create.verb = API_CREATE;
    managed_name(header(x, "User-Agent"), manager);
    struct api_call call = {
        .target = x->target,
        .fields = x->fields,
        .labels = x->labels,
        .body = x->body,
        .is_strategic = x->target.verb == API_PATCH && is_strategic(x),
        .is_dry = text_equal(argument(x, "dryRun"), "All"),
        .may_create = auth_allows(&x->s->auth, &x->user, &create),
        .manager = argument(x, "fieldManager") ? argument(x, "fieldManager") : manager,
    };
    if (!read_number(x, "limit", &call.limit) || !read_number(x, "continue", &call.skip)) {
        return;
    }
    uint64_t before = x->s->store.version;
    api_run(&x->s->store, &call, &x->result);
    if (x->s->store.version != before) {
        (void)api_collect_garbage(&x->s->store); /* at once: the real server takes a moment */
        standin_changed(x->s);
    }
}

static int64_t number_at(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

/* Puts the fault's answer in the place of the real one. */
static void replace_result(struct exchange *x, const json_t *fault)
{
    const char *reason = json_string_value(json_object_get(fault, "reason"));
    const char *message = json_string_value(json_object_get(fault, "message"));
    (void)api_fail(&x->result, (int)number_at(fault, "code", 500), reason ? reason : "", "%s",
                   message ? message : "injected by the test");
    x->result.retry_after_s = (int)number_at(fault, "retryAfter", -1);
}

/* Leaves without an answer: the connection is closed. Unlocks. */
static enum MHD_Result abandon(struct exchange *x)
{
    standin_unlock(x->s);
    if (x->watch) {
        watch_close(x->watch);
    }
    return MHD_NO;
}

/* Sends x->watch or x->result, disturbed by `fault` (NULL: not). Unlocks. */
static enum MHD_Result send_outcome(struct exchange *x, const json_t *fault, const char *action)
{
    struct reply reply = {.code = x->result.code,
                          .content_type = "application/json",
                          .retry_after_s = x->result.retry_after_s,
                          .cut_bytes = -1};
    char *text = NULL;
    if (strcmp(action, "answer") == 0) {
        const char *type = json_string_value(json_object_get(fault, "contentType"));
        reply.code = (int)number_at(fault, "code", 200);
        reply.content_type = type ? type : reply.content_type;
        const char *body = json_string_value(json_object_get(fault, "body"));
        text = need(strdup(body ? body : ""));
    } else if (!x->watch && x->result.code == 404 && !x->target.group_served) {
        reply.content_type = "text/plain; charset=utf-8"; /* no such group: not even a Status */
        text = need(strdup("404 page not found\n"));
    } else if (!x->watch) {
        text = need(json_dumps(x->result.body, JSON_COMPACT));
        reply.cut_bytes = strcmp(action, "cut") == 0 ? number_at(fault, "bytes", 0) : -1;
        reply.byte_ms = strcmp(action, "slow") == 0 ? number_at(fault, "ms", 100) : 0;
    }
    witness(x, text ? reply.code : 200, fault ? action : NULL);
    standin_unlock(x->s);
    if (!text) {
        return reply_watch(x->s, x->connection, x->watch);
    }
    return reply_text(x->s, x->connection, x->conn, &reply, text);
}

/* Applies the fault, if there is one. True if the request goes on as usual; else it is answered. */
static bool disturb(struct exchange *x, enum MHD_Result *out)
{
    CLEANUP(json) json_t *fault = fault_take(x->s->faults, &x->target, x->user.name, x->name);
    if (!fault) {
        return true;
    }
    const char *action = json_string_value(json_object_get(fault, "action"));
    bool cut_now = strcmp(action, "cut") == 0 && number_at(fault, "bytes", 0) == 0;
    if (strcmp(action, "patch") == 0) {
        json_decref(x->webhook);
        x->webhook = json_incref(json_object_get(fault, "patch"));
        return true;
    }
    if (strcmp(action, "delay") == 0) {
        if (standin_sleep(x->s, x->conn, number_at(fault, "ms", 100))) {
            return true;
        }
        *out = abandon(x);
        return false;
    }
    if (strcmp(action, "hang") == 0 || cut_now) {
        witness(x, 0, action);
        if (!cut_now) {
            (void)standin_sleep(x->s, x->conn, -1); /* until the client gives up */
        }
        *out = abandon(x);
        return false;
    }
    if (strcmp(action, "status") == 0) {
        replace_result(x, fault);
    } else if (!x->result.body && strcmp(action, "answer") != 0) {
        carry_out(x); /* the usual answer, sent unusually */
    }
    *out = send_outcome(x, fault, action);
    return false;
}

/* Locked on entry, unlocked on return. */
static enum MHD_Result answer(struct exchange *x, const char *url, const char *method)
{
    enum MHD_Result result = MHD_NO;
    if (standin_is_frozen(x->s, x->conn)) {
        (void)standin_sleep(x->s, x->conn, -1);
        return abandon(x);
    }
    bool admitted = admit(x, url, method);
    if (!disturb(x, &result)) {
        return result;
    }
    if (admitted) {
        carry_out(x);
    }
    if (standin_is_frozen(x->s, x->conn)) {
        (void)standin_sleep(x->s, x->conn, -1);
        return abandon(x);
    }
    return send_outcome(x, NULL, "");
}

/* A review is no resource. Locked; true if it was one. */
static bool answer_review(struct exchange *x, const char *url, const char *method)
{
    if (strcmp(url, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") == 0 &&
        strcmp(method, "POST") == 0) {
        if (identify(x, NULL) && read_body(x)) {
            auth_review(&x->s->auth, &x->user, x->body, &x->result);
        }
        return true;
    }
    return false;
}

static enum MHD_Result handler_request(void *user, struct MHD_Connection *connection,
                                       const char *url, const char *method,
                                       const char *http_version, const char *upload,
                                       size_t *upload_bytes, void **state)
{
    struct request *request = *state;
    if (!request->started) {
        request->started = true;
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        request->is_too_large =
            request->is_too_large || buf_append(&request->body, upload, *upload_bytes, NULL) != 0;
        *upload_bytes = 0;
        return MHD_YES;
    }
    struct exchange x = {
        .s = user,
        .connection = connection,
        .conn =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context,
        .request = request,
        .result = API_RESULT_INIT,
    };
    standin_lock(x.s);
    enum MHD_Result result =
        answer_review(&x, url, method) ? send_outcome(&x, NULL, "") : answer(&x, url, method);
    api_result_fini(&x.result);
    json_decref(x.body);
    json_decref(x.webhook);
    json_decref(x.groups);
    return result;
}

/* ---- the port -------------------------------------------------------------------------------- */

enum { BACKLOG = 256, MAX_PEM_BYTES = 1 << 20 };

/* Remembers the connection, so that it can be dropped and frozen. */
static void on_connection(void *user, struct MHD_Connection *connection, void **conn,
                          enum MHD_ConnectionNotificationCode what)
{
    struct standin *s = user;
    standin_lock(s);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct standin_conn *c = need(calloc(1, sizeof(*c)));
        c->id = ++s->last_conn;
        c->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        c->next = s->conns;
        s->conns = c;
        *conn = c;
    } else {
        struct standin_conn **at = &s->conns;
        while (*at != *conn) {
            at = &(*at)->next;
        }
        *at = (*at)->next;
        free(*conn);
        *conn = NULL;
    }
    standin_unlock(s);
}

/* A socket bound to the port, with nobody listening: connects are refused. */
static int reserve_port(struct server *server, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(server->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        int rc = err_set_errno(e, ERR_IO, errno, "binding 127.0.0.1:%u", server->port);
        cleanup_fd(&fd);
        return rc;
    }
    server->reserved_fd = fd;
    server->port = ntohs(at.sin_port);
    return 0;
}

int server_init(struct server *server, struct standin *s, const struct server_tls *tls,
                struct err *e)
{
    *server = (struct server){.standin = s, .tls = *tls, .reserved_fd = -1};
    return reserve_port(server, e);
}

/* The file's text; owned (free). */
static char *read_pem(const char *path, struct err *e)
{
    CLEANUP(buf) struct buf text = {.max_bytes = MAX_PEM_BYTES};
    return file_read(path, &text, e) == 0 ? TAKE(text.data) : NULL;
}

static struct MHD_Daemon *start_daemon(const struct server *server, struct MHD_OptionItem *tls,
                                       bool use_tls)
{
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_SUPPRESS_DATE_NO_CLOCK | MHD_USE_ITC |
                     (use_tls ? (unsigned)MHD_USE_TLS : 0U);
    struct standin *s = server->standin;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, &handler_request, s, MHD_OPTION_LISTEN_SOCKET, server->reserved_fd,
        MHD_OPTION_NOTIFY_CONNECTION, &on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
        &handler_completed, s, MHD_OPTION_URI_LOG_CALLBACK, &handler_uri, s,
        MHD_OPTION_CONNECTION_LIMIT, 4000U, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

int server_open(struct server *server, struct err *e)
{
    if (server->daemon) {
        return 0;
    }
    const struct server_tls *tls = &server->tls;
    CLEANUP(free) char *cert = NULL;
    CLEANUP(free) char *key = NULL;
    CLEANUP(free) char *ca = NULL;
    struct MHD_OptionItem items[4] = {{MHD_OPTION_END, 0, NULL}};
    size_t count = 0;
    if (tls->cert_file) {
        cert = read_pem(tls->cert_file, e);
        key = cert ? read_pem(tls->key_file, e) : NULL;
        if (!key) {
            return ERR_IO;
        }
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, cert};
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, key};
    }
    if (tls->client_ca_file) {
        ca = read_pem(tls->client_ca_file, e);
        if (!ca) {
            return ERR_IO;
        }
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, ca};
    }
    items[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    if (listen(server->reserved_fd, BACKLOG) != 0) {
        return err_set_errno(e, ERR_IO, errno, "listening on port %u", server->port);
    }
    server->daemon = start_daemon(server, items, tls->cert_file != NULL);
    if (!server->daemon) {
        return err_set(e, ERR_IO, "starting the HTTP server on port %u", server->port);
    }
    server->reserved_fd = -1; /* the daemon's now */
    return 0;
}

int server_close(struct server *server, struct err *e)
{
    if (!server->daemon) {
        return 0;
    }
    int listener = MHD_quiesce_daemon(server->daemon);
    cleanup_fd(&listener);
    standin_lock(server->standin);
    standin_drop_connections(server->standin);
    standin_unlock(server->standin);
    MHD_stop_daemon(server->daemon); /* waits for the threads, which all see the drop */
    server->daemon = NULL;
    return reserve_port(server, e);
}

void server_fini(struct server *server)
{
    if (server_close(server, NULL) != 0) {
        return; /* closed, and the port is not needed any more */
    }
    cleanup_fd(&server->reserved_fd);
}
