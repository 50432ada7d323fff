/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/control.h"

#include "base/mem.h"
#include "base/text.h"
#include "standin/api_result.h"
#include "standin/need.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>

enum { MAX_BODY_BYTES = 4 << 20 };

struct request {
    struct buf body;
};

struct command {
    struct control *control;
    struct standin *s;
    const json_t *body;
};

/* Locked. Sets the answer. */
typedef void command_fn(const struct command *c, struct api_result *r);

static void done(struct api_result *r)
{
    api_result_ok(r, 200, need(json_object()));
}

static const char *text_at(const struct command *c, const char *key)
{
    const char *text = json_string_value(json_object_get(c->body, key));
    return text ? text : "";
}

static void get_state(const struct command *c, struct api_result *r)
{
    api_result_ok(r, 200,
                  json_pack("{s:I, s:I}", "resourceVersion", (json_int_t)c->s->store.version,
                            "openWatches", (json_int_t)c->s->hub.open_count));
}

static void get_faults(const struct command *c, struct api_result *r)
{
    api_result_ok(r, 200, json_pack("{s:o}", "faults", json_deep_copy(c->s->faults.rules)));
}

static void add_fault(const struct command *c, struct api_result *r)
{
    json_int_t id = fault_add(&c->s->faults, need(json_deep_copy(c->body)));
    if (id == 0) {
        (void)api_fail(r, 400, "BadRequest", "unknown action '%s'", text_at(c, "action"));
        return;
    }
    api_result_ok(r, 200, json_pack("{s:I}", "id", id));
}

static void remove_faults(const struct command *c, struct api_result *r)
{
    fault_clear(&c->s->faults);
    done(r);
}

static void inject(const struct command *c, struct api_result *r)
{
    (void)json_array_append_new(c->s->hub.injections, need(json_deep_copy(c->body)));
    done(r);
}

static void set_new_watches(const struct command *c, struct api_result *r)
{
    c->s->hub.mute_new = json_is_true(json_object_get(c->body, "mute"));
    done(r);
}

static void touch_connections(const struct command *c, struct api_result *r)
{
    const char *action = text_at(c, "action");
    if (strcmp(action, "drop") == 0) {
        standin_drop_connections(c->s);
    } else if (strcmp(action, "freeze") == 0) {
        standin_freeze_connections(c->s);
    } else {
        (void)api_fail(r, 400, "BadRequest", "unknown action '%s'", action);
        return;
    }
    done(r);
}

static void set_listener(const struct command *c, struct api_result *r)
{
    struct err e = ERR_INIT;
    bool open = json_is_true(json_object_get(c->body, "open"));
    standin_unlock(c->s); /* closing waits for the handlers */
    int rc = open ? server_open(c->control->server, &e) : server_close(c->control->server, &e);
    standin_lock(c->s);
    if (rc != 0) {
        (void)api_fail(r, 500, "InternalError", "%s", e.msg);
        return;
    }
    done(r);
}

static void compact(const struct command *c, struct api_result *r)
{
    c->s->hub.expire_by_http = strcmp(text_at(c, "via"), "http") == 0;
    store_compact(&c->s->store);
    done(r);
}

static void snapshot(const struct command *c, struct api_result *r)
{
    store_snapshot(&c->s->store);
    done(r);
}

static void restore(const struct command *c, struct api_result *r)
{
    if (!store_restore(&c->s->store)) {
        (void)api_fail(r, 409, "Conflict", "no snapshot was taken");
        return;
    }
    done(r);
}

static void set_clock(const struct command *c, struct api_result *r)
{
    c->s->date_offset_s = json_integer_value(json_object_get(c->body, "offsetSeconds"));
    done(r);
}

static void set_rules(const struct command *c, struct api_result *r)
{
    auth_set_rules(&c->s->auth, json_is_object(c->body) ? need(json_deep_copy(c->body)) : NULL);
    done(r);
}

static const struct {
    const char *method;
    const char *path;
    command_fn *run;
} COMMANDS[] = {
    {"GET", "/state", get_state},
    {"GET", "/faults", get_faults},
    {"POST", "/faults", add_fault},
    {"DELETE", "/faults", remove_faults},
    {"POST", "/watches", inject},
    {"POST", "/watches/new", set_new_watches},
    {"POST", "/connections", touch_connections},
    {"POST", "/listener", set_listener},
    {"POST", "/compact", compact},
    {"POST", "/snapshot", snapshot},
    {"POST", "/restore", restore},
    {"POST", "/clock", set_clock},
    {"POST", "/rules", set_rules},
};

static void run(const struct command *c, const char *method, const char *path, struct api_result *r)
{
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        if (strcmp(COMMANDS[i].method, method) == 0 && strcmp(COMMANDS[i].path, path) == 0) {
            standin_lock(c->s);
            COMMANDS[i].run(c, r);
            standin_changed(c->s);
            standin_unlock(c->s);
            return;
        }
    }
    (void)api_fail(r, 404, "NotFound", "no such command: %s %s", method, path);
}

static enum MHD_Result send_result(struct MHD_Connection *connection, struct api_result *r)
{
    char *text = need(json_dumps(r->body, JSON_COMPACT));
    struct MHD_Response *response =
        need(MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE));
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)r->code, response);
    MHD_destroy_response(response);
    api_result_fini(r);
    return result;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *http_version, const char *upload,
                                  size_t *upload_bytes, void **state)
{
    struct request *request = *state;
    struct control *control = user;
    (void)http_version;
    if (!request) {
        request = need(calloc(1, sizeof(*request)));
        buf_init(&request->body, MAX_BODY_BYTES);
        *state = request;
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        int rc = buf_append(&request->body, upload, *upload_bytes, NULL);
        *upload_bytes = 0;
        return rc == 0 ? MHD_YES : MHD_NO;
    }
    json_t *body = json_loadb(buf_text(&request->body), request->body.len, JSON_DECODE_ANY, NULL);
    struct command command = {.control = control, .s = control->standin, .body = body};
    struct api_result result = API_RESULT_INIT;
    run(&command, method, url, &result);
    json_decref(body);
    return send_result(connection, &result);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)user;
    (void)connection;
    (void)why;
    struct request *request = *state;
    if (request) {
        buf_fini(&request->body);
        free(request);
        *state = NULL;
    }
}

int control_start(struct control *control, struct server *server, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *control = (struct control){.standin = server->standin, .server = server};
    control->daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, &on_request,
                         control, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_NOTIFY_COMPLETED,
                         &on_completed, NULL, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        control->daemon ? MHD_get_daemon_info(control->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info) {
        return err_set(e, ERR_IO, "starting the control endpoint");
    }
    control->port = info->port;
    return 0;
}

void control_stop(struct control *control)
{
    if (control->daemon) {
        MHD_stop_daemon(control->daemon);
        control->daemon = NULL;
    }
}
