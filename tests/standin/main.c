/* SPDX-License-Identifier: Apache-2.0 */
/* A small Kubernetes API server for the demo and the integration tests. See --help. */
#include "base/mem.h"
#include "base/text.h"
#include "standin/api.h"
#include "standin/control.h"
#include "standin/need.h"

#include <getopt.h>
#include <signal.h>
#include <string.h>

static const char HELP[] =
    "Usage: dpu-standin [OPTION]...\n"
    "A small API server for leases, nodes, events, resource slices and claims, with\n"
    "faults on request. Listens on 127.0.0.1 only; keeps everything in memory.\n"
    "\n"
    "Prints one JSON line when it is ready: port, controlPort, url, controlUrl.\n"
    "The control endpoint is described in control.h, faults in fault.h, rules in auth.h.\n"
    "\n"
    "  --node=NAME                 create this Node (repeatable)\n"
    "  --disable-api=GROUP/VERSION answer 404 for it, as an older server (repeatable)\n"
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
    json_t *nodes;    /* array of names; owned */
    json_t *disabled; /* array of "group/version"; owned */
};

enum option_id {
    OPT_NODE = 256,
    OPT_DISABLE_API,
    OPT_RULES,
    OPT_AUDIT,
    OPT_TLS_CERT,
    OPT_TLS_KEY,
    OPT_CLIENT_CA,
    OPT_HELP,
};

static const struct option OPTIONS[] = {
    {"node", required_argument, NULL, OPT_NODE},
    {"disable-api", required_argument, NULL, OPT_DISABLE_API},
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
    case OPT_DISABLE_API:
        return json_array_append_new(config->disabled, json_string(optarg));
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
    (void)json_array_extend(s->disabled, config->disabled);
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
        s->audit.file = fopen(config->audit_file, "ae");
        if (!s->audit.file) {
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
        .disabled = need(json_array()),
    };
    int rc = parse_options(argc, argv, &config, &e);
    if (rc == 0) {
        standin_init(&standin, FIRST_VERSION);
        rc = run(&standin, &config, &e);
        standin_fini(&standin);
    }
    json_decref(config.nodes);
    json_decref(config.disabled);
    if (rc < 0) {
        (void)fprintf(stderr, "dpu-standin: %s\n", e.msg);
    }
    return rc < 0 ? 1 : 0;
}
