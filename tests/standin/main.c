/* SPDX-License-Identifier: Apache-2.0 */
/* A small Kubernetes API server for the demo and the integration tests. See --help. */
#include "base/text.h"
#include "standin/server.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>

/*
 * Each line of stdin is a command of a test or the demo, ["NAME", WHAT]; a line of JSON on stdout
 * answers it. The end of stdin is the program's.
 *
 *   faults                      those that there are, see standin.h
 *   fault RULE                  one more
 *   heal                        no more faults
 *   watches {"action": ...}     see server.c
 *   connections drop|freeze     those open now: closed / half-open
 *   listener BOOL               false: connections are refused, all are dropped
 *   clock SECONDS               of the Date header, so far off
 *   rules RULES                 see standin.h
 */
struct control {
    struct standin *standin;
    struct server *server;
};

/* Locked. False: WHAT makes no sense. */
typedef bool command_fn(const struct control *c, json_t *what, json_t **answer);

static bool get_faults(const struct control *c, json_t *what, json_t **answer)
{
    *answer = need(json_deep_copy(c->standin->faults));
    return true;
}

static bool add_fault(const struct control *c, json_t *what, json_t **answer)
{
    return fault_add(c->standin->faults, what);
}

static bool remove_faults(const struct control *c, json_t *what, json_t **answer)
{
    return json_array_clear(c->standin->faults) == 0;
}

static bool inject(const struct control *c, json_t *what, json_t **answer)
{
    return json_array_append(c->standin->injections, what) == 0;
}

static bool touch_connections(const struct control *c, json_t *what, json_t **answer)
{
    bool is_drop = text_equal(json_string_value(what), "drop");
    if (is_drop) {
        standin_drop_connections(c->standin);
    } else {
        standin_freeze_connections(c->standin);
    }
    return is_drop || text_equal(json_string_value(what), "freeze");
}

static bool set_listener(const struct control *c, json_t *what, json_t **answer)
{
    standin_unlock(c->standin); /* closing waits for the handlers */
    int rc = json_is_true(what) ? server_open(c->server, NULL) : server_close(c->server, NULL);
    standin_lock(c->standin);
    return rc == 0;
}

static bool set_clock(const struct control *c, json_t *what, json_t **answer)
{
    c->standin->date_offset_s = json_integer_value(what);
    return true;
}

static bool set_rules(const struct control *c, json_t *what, json_t **answer)
{
    auth_set_rules(&c->standin->auth, json_incref(what));
    return true;
}

static const struct {
    const char *name;
    command_fn *run;
} commands[] = {
    {"faults", get_faults},
    {"fault", add_fault},
    {"heal", remove_faults},
    {"watches", inject},
    {"connections", touch_connections},
    {"listener", set_listener},
    {"clock", set_clock},
    {"rules", set_rules},
};

static bool run_command(const struct control *c, const json_t *command, json_t **answer)
{
    const char *name = json_string_value(json_array_get(command, 0));
    bool is_done = false;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (text_equal(name, commands[i].name)) {
            standin_lock(c->standin);
            is_done = commands[i].run(c, json_array_get(command, 1), answer);
            standin_changed(c->standin);
            standin_unlock(c->standin);
        }
    }
    return is_done;
}

/* Until the end of stdin. */
static void obey(const struct control *c)
{
    char *line = NULL;
    size_t line_bytes = 0;
    while (getline(&line, &line_bytes, stdin) > 0) {
        json_t *command = json_loads(line, 0, NULL);
        json_t *answer = NULL;
        if (!run_command(c, command, &answer)) {
            answer = need(json_pack("{s:s}", "wrong", line));
        }
        char *text = answer ? need(json_dumps(answer, JSON_COMPACT)) : NULL;
        (void)puts(text ? text : "null"); /* the test waits for it */
        (void)fflush(stdout);
        free(text);
        json_decref(answer);
        json_decref(command);
    }
    free(line);
}

/* ---- the program ----------------------------------------------------------------------------- */

static const char HELP[] =
    "Usage: dpu-standin [OPTION]...\n"
    "A small API server for leases, nodes, events, resource slices and claims, with\n"
    "faults on request. Listens on 127.0.0.1 only; keeps everything in memory.\n"
    "\n"
    "Prints one JSON line when it is ready: url. Then it takes commands (main.c),\n"
    "and ends with its input.\n"
    "\n"
    "  --node=NAME                 create this Node (repeatable)\n"
    "  --audit-log=FILE            one JSON line per request\n"
    "  --tls-cert=FILE --tls-key=FILE  serve HTTPS\n"
    "  --client-ca=FILE            accept client certificates of this CA; their CN is the user\n"
    "  --help\n";

enum { FIRST_VERSION = 1000 };

struct config {
    const char *audit_file;
    struct server_tls tls;
    json_t *nodes; /* array of names; owned */
};

enum option_id {
    OPT_NODE = 256,
    OPT_AUDIT,
    OPT_TLS_CERT,
    OPT_TLS_KEY,
    OPT_CLIENT_CA,
    OPT_HELP,
};

static const struct option OPTIONS[] = {
    {"node", required_argument, NULL, OPT_NODE},
    {"audit-log", required_argument, NULL, OPT_AUDIT},
    {"tls-cert", required_argument, NULL, OPT_TLS_CERT},
    {"tls-key", required_argument, NULL, OPT_TLS_KEY},
    {"client-ca", required_argument, NULL, OPT_CLIENT_CA},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

/* 1: help was printed. */
static int parse_options(int argc, char **argv, struct config *config, struct err *e)
{
    int option;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        switch (option) {
        case OPT_NODE:
            (void)json_array_append_new(config->nodes, json_string(optarg));
            break;
        case OPT_AUDIT:
            config->audit_file = optarg;
            break;
        case OPT_TLS_CERT:
            config->tls.cert_file = optarg;
            break;
        case OPT_TLS_KEY:
            config->tls.key_file = optarg;
            break;
        case OPT_CLIENT_CA:
            config->tls.client_ca_file = optarg;
            break;
        case OPT_HELP:
            (void)fputs(HELP, stdout);
            return 1;
        default:
            return err_set(e, ERR_PARSE, "see --help");
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

static int run(struct standin *s, const struct config *config, struct err *e)
{
    struct server server;
    const struct control control = {.standin = s, .server = &server};
    (void)signal(SIGPIPE, SIG_IGN);
    seed(s, config->nodes);
    if (config->audit_file) {
        s->audit = fopen(config->audit_file, "ae");
        if (!s->audit) {
            return err_set_errno(e, ERR_IO, errno, "opening '%s'", config->audit_file);
        }
    }
    int rc = server_init(&server, s, &config->tls, e);
    if (rc != 0) {
        return rc;
    }
    rc = server_open(&server, e);
    if (rc == 0) {
        (void)printf("{\"url\":\"%s://127.0.0.1:%u\"}\n", config->tls.cert_file ? "https" : "http",
                     server.port);
        (void)fflush(stdout);
        obey(&control);
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
