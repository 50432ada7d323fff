/* SPDX-License-Identifier: Apache-2.0 */
/* A small Kubernetes API server for the demo and the integration tests. See --help. */
#include "base/mem.h"
#include "base/text.h"
#include "standin/server.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>

/*
 * The control endpoint: plain HTTP and JSON on a port of its own, for tests and the demo.
 *
 *   GET  /faults  POST /faults {rule}  DELETE /faults               see standin.h
 *   POST /watches {"action": ...}                                   see watch.h
 *   POST /watches/new {"mute": true}           watches opened from now on stay silent
 *   POST /connections {"action": "drop"|"freeze"}  those open now: closed / half-open
 *   POST /listener {"open": bool}              false: connections refused, all dropped
 *   POST /clock {"offsetSeconds": N}           of the Date header
 *   POST /rules {rules}                        see standin.h; null: everything is allowed
 */
struct control {
    struct standin *standin;
    struct server *server;
    struct MHD_Daemon *daemon;
    uint16_t port;
};

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
    {"GET", "/faults", get_faults},
    {"POST", "/faults", add_fault},
    {"DELETE", "/faults", remove_faults},
    {"POST", "/watches", inject},
    {"POST", "/watches/new", set_new_watches},
    {"POST", "/connections", touch_connections},
    {"POST", "/listener", set_listener},
    {"POST", "/clock", set_clock},
    {"POST", "/rules", set_rules},
};

static void run_command(const struct command *c, const char *method, const char *path,
                        struct api_result *r)
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
    if (!request) {
        request = need(calloc(1, sizeof(*request)));
        request->body = (struct buf){.max_bytes = MAX_BODY_BYTES};
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
    run_command(&command, method, url, &result);
    json_decref(body);
    return send_result(connection, &result);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct request *request = *state;
    if (request) {
        buf_fini(&request->body);
        free(request);
        *state = NULL;
    }
}

static int control_start(struct control *control, struct server *server, struct err *e)
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

static void control_stop(struct control *control)
{
    if (control->daemon) {
        MHD_stop_daemon(control->daemon);
        control->daemon = NULL;
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static const char HELP[] =
    "Usage: dpu-standin [OPTION]...\n"
    "A small API server for leases, nodes, events, resource slices and claims, with\n"
    "faults on request. Listens on 127.0.0.1 only; keeps everything in memory.\n"
    "\n"
    "Prints one JSON line when it is ready: port, controlPort, url, controlUrl.\n"
    "The control endpoint is described in main.c, faults and rules in standin.h.\n"
    "\n"
    "  --node=NAME                 create this Node (repeatable)\n"
    "  --rules=FILE                users, tokens and rights (default: everything is allowed)\n"
    "  --audit-log=FILE            one JSON line per request\n"
    "  --tls-cert=FILE --tls-key=FILE  serve HTTPS\n"
    "  --client-ca=FILE            accept client certificates of this CA; their CN is the user\n"
    "  --help\n";

enum { FIRST_VERSION = 1000, GC_INTERVAL_NS = 200000000 };

struct config {
    const char *rules_file;
    const char *audit_file;
    struct server_tls tls;
    json_t *nodes; /* array of names; owned */
};

enum option_id {
    OPT_NODE = 256,
    OPT_RULES,
    OPT_AUDIT,
    OPT_TLS_CERT,
    OPT_TLS_KEY,
    OPT_CLIENT_CA,
    OPT_HELP,
};

static const struct option OPTIONS[] = {
    {"node", required_argument, NULL, OPT_NODE},
    {"rules", required_argument, NULL, OPT_RULES},
    {"audit-log", required_argument, NULL, OPT_AUDIT},
    {"tls-cert", required_argument, NULL, OPT_TLS_CERT},
    {"tls-key", required_argument, NULL, OPT_TLS_KEY},
    {"client-ca", required_argument, NULL, OPT_CLIENT_CA},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int set_option(struct config *config, int option, struct err *e)
{
    switch (option) {
    case OPT_NODE:
        return json_array_append_new(config->nodes, json_string(optarg));
    case OPT_RULES:
        config->rules_file = optarg;
        return 0;
    case OPT_AUDIT:
        config->audit_file = optarg;
        return 0;
    case OPT_TLS_CERT:
        config->tls.cert_file = optarg;
        return 0;
    case OPT_TLS_KEY:
        config->tls.key_file = optarg;
        return 0;
    case OPT_CLIENT_CA:
        config->tls.client_ca_file = optarg;
        return 0;
    default:
        return err_set(e, ERR_PARSE, "see --help");
    }
}

/* 1: help was printed. */
static int parse_options(int argc, char **argv, struct config *config, struct err *e)
{
    int option;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (option == OPT_HELP) {
            (void)fputs(HELP, stdout);
            return 1;
        }
        int rc = set_option(config, option, e);
        if (rc != 0) {
            return rc;
        }
    }
    if (optind < argc) {
        return err_set(e, ERR_PARSE, "unexpected argument '%s'", argv[optind]);
    }
    if (!config->tls.cert_file != !config->tls.key_file) {
        return err_set(e, ERR_PARSE, "--tls-cert and --tls-key go together");
    }
    return 0;
}

static void seed(struct standin *s, const json_t *nodes)
{
    static const char *const NAMESPACES[] = {"default", "kube-system", "ovn-kubernetes"};
    size_t i;
    json_t *name;
    for (i = 0; i < ARRAY_LEN(NAMESPACES); i++) {
        api_seed(&s->store, "namespaces", NAMESPACES[i]);
    }
    json_array_foreach(nodes, i, name)
    {
        api_seed(&s->store, "nodes", json_string_value(name));
    }
}

static int prepare(struct standin *s, const struct config *config, struct err *e)
{
    seed(s, config->nodes);
    if (config->rules_file) {
        json_error_t where;
        json_t *rules = json_load_file(config->rules_file, 0, &where);
        if (!rules) {
            return err_set(e, ERR_PARSE, "'%s' line %d: %s", config->rules_file, where.line,
                           where.text);
        }
        auth_set_rules(&s->auth, rules);
    }
    if (config->audit_file) {
        s->audit = fopen(config->audit_file, "ae");
        if (!s->audit) {
            return err_set_errno(e, ERR_IO, errno, "opening '%s'", config->audit_file);
        }
    }
    return 0;
}

/* Until SIGTERM or SIGINT, collecting garbage meanwhile. */
static void serve(struct standin *s, const sigset_t *stop_signals)
{
    static const struct timespec pause = {.tv_nsec = GC_INTERVAL_NS};
    while (sigtimedwait(stop_signals, NULL, &pause) < 0) {
        standin_lock(s);
        if (api_collect_garbage(&s->store)) {
            standin_changed(s);
        }
        standin_unlock(s);
    }
}

static int run(struct standin *s, const struct config *config, struct err *e)
{
    struct server server;
    struct control control;
    sigset_t stop_signals;

    (void)sigemptyset(&stop_signals);
    (void)sigaddset(&stop_signals, SIGTERM);
    (void)sigaddset(&stop_signals, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &stop_signals, NULL); /* for all threads to come */
    (void)signal(SIGPIPE, SIG_IGN);

    int rc = prepare(s, config, e);
    if (rc != 0) {
        return rc;
    }
    rc = server_init(&server, s, &config->tls, e);
    if (rc != 0) {
        return rc;
    }
    rc = server_open(&server, e);
    if (rc == 0) {
        rc = control_start(&control, &server, e);
    }
    if (rc == 0) {
        (void)printf("{\"port\":%u,\"controlPort\":%u,\"url\":\"%s://127.0.0.1:%u\","
                     "\"controlUrl\":\"http://127.0.0.1:%u\"}\n",
                     server.port, control.port, config->tls.cert_file ? "https" : "http",
                     server.port, control.port);
        (void)fflush(stdout);
        serve(s, &stop_signals);
        control_stop(&control);
    }
    standin_lock(s);
    s->stopping = true;
    standin_changed(s);
    standin_unlock(s);
    server_fini(&server);
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    struct standin standin;
    struct config config = {
        .nodes = need(json_array()),
    };
    int rc = parse_options(argc, argv, &config, &e);
    if (rc == 0) {
        standin_init(&standin, FIRST_VERSION);
        rc = run(&standin, &config, &e);
        standin_fini(&standin);
    }
    json_decref(config.nodes);
    if (rc < 0) {
        (void)fprintf(stderr, "dpu-standin: %s\n", e.msg);
    }
    return rc < 0 ? 1 : 0;
}
