/* SPDX-License-Identifier: Apache-2.0 */
/* A small Kubernetes API server for the demo and the integration tests. See --help. */
#include "base/cleanup.h"
#include "base/text.h"
#include "standin/api.h"
#include "standin/control.h"
#include "standin/need.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

static const char HELP[] =
    "Usage: dpu-standin [OPTION]...\n"
    "A small API server for leases, nodes, events, resource slices and claims, as strict as the\n"
    "real one, with faults on request. Listens on 127.0.0.1 only; keeps everything in memory.\n"
    "\n"
    "Prints one JSON line when it is ready: port, controlPort, url, controlUrl.\n"
    "The control endpoint is described in control.h, faults in fault.h, rules in auth.h.\n"
    "\n"
    "  --port=N                    API port (default 0: any free one)\n"
    "  --control-port=N            port of the control endpoint (default 0)\n"
    "  --namespace=NAME            create this namespace besides default, kube-system and\n"
    "                              ovn-kubernetes (repeatable)\n"
    "  --node=NAME                 create this Node (repeatable)\n"
    "  --disable-api=GROUP/VERSION answer 404 for it, as an older server (repeatable)\n"
    "  --rules=FILE                users, tokens and rights (default: everything is allowed)\n"
    "  --audit-log=FILE            one JSON line per request\n"
    "  --first-resource-version=N  where the counter starts (default 1000)\n"
    "  --bookmark-interval-ms=N    between bookmarks of a watch (default 60000, 0: none)\n"
    "  --gc-interval-ms=N          garbage collection of owned objects (default 200, 0: off)\n"
    "  --tls-cert=FILE --tls-key=FILE  serve HTTPS\n"
    "  --client-ca=FILE            accept client certificates of this CA; their CN is the user\n"
    "  --help\n";

struct config {
    uint64_t port;
    uint64_t control_port;
    uint64_t first_version;
    uint64_t bookmark_ms;
    uint64_t gc_ms;
    const char *rules_file;
    const char *audit_file;
    struct server_tls tls;
    json_t *namespaces; /* arrays of names; owned */
    json_t *nodes;
    json_t *disabled; /* array of "group/version"; owned */
};

enum option_id {
    OPT_PORT = 256,
    OPT_CONTROL_PORT,
    OPT_NAMESPACE,
    OPT_NODE,
    OPT_DISABLE_API,
    OPT_RULES,
    OPT_AUDIT,
    OPT_FIRST_VERSION,
    OPT_BOOKMARK,
    OPT_GC,
    OPT_TLS_CERT,
    OPT_TLS_KEY,
    OPT_CLIENT_CA,
    OPT_HELP,
};

static const struct option OPTIONS[] = {
    {"port", required_argument, NULL, OPT_PORT},
    {"control-port", required_argument, NULL, OPT_CONTROL_PORT},
    {"namespace", required_argument, NULL, OPT_NAMESPACE},
    {"node", required_argument, NULL, OPT_NODE},
    {"disable-api", required_argument, NULL, OPT_DISABLE_API},
    {"rules", required_argument, NULL, OPT_RULES},
    {"audit-log", required_argument, NULL, OPT_AUDIT},
    {"first-resource-version", required_argument, NULL, OPT_FIRST_VERSION},
    {"bookmark-interval-ms", required_argument, NULL, OPT_BOOKMARK},
    {"gc-interval-ms", required_argument, NULL, OPT_GC},
    {"tls-cert", required_argument, NULL, OPT_TLS_CERT},
    {"tls-key", required_argument, NULL, OPT_TLS_KEY},
    {"client-ca", required_argument, NULL, OPT_CLIENT_CA},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int set_number(uint64_t *out, uint64_t max, struct err *e)
{
    if (text_to_u64(optarg, strlen(optarg), out, e) != 0 || *out > max) {
        return err_set(e, ERR_PARSE, "'%s' is not a number from 0 to %" PRIu64, optarg, max);
    }
    return 0;
}

static int set_option(struct config *config, int option, struct err *e)
{
    switch (option) {
    case OPT_PORT:
        return set_number(&config->port, UINT16_MAX, e);
    case OPT_CONTROL_PORT:
        return set_number(&config->control_port, UINT16_MAX, e);
    case OPT_FIRST_VERSION:
        return set_number(&config->first_version, INT64_MAX, e);
    case OPT_BOOKMARK:
        return set_number(&config->bookmark_ms, INT32_MAX, e);
    case OPT_GC:
        return set_number(&config->gc_ms, INT32_MAX, e);
    case OPT_NAMESPACE:
        return json_array_append_new(config->namespaces, json_string(optarg));
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

static void seed(struct standin *s, const char *plural, const json_t *names)
{
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name)
    {
        api_seed(&s->store, plural, json_string_value(name));
    }
}

static int prepare(struct standin *s, const struct config *config, struct err *e)
{
    s->hub.bookmark_ms = (int64_t)config->bookmark_ms;
    seed(s, "namespaces", config->namespaces);
    seed(s, "nodes", config->nodes);
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
static void serve(struct standin *s, const sigset_t *stop_signals, uint64_t gc_ms)
{
    uint64_t pause_ms = gc_ms > 0 ? gc_ms : 1000;
    struct timespec pause = {.tv_sec = (time_t)(pause_ms / 1000),
                             .tv_nsec = (long)(pause_ms % 1000) * 1000000};
    while (sigtimedwait(stop_signals, NULL, &pause) < 0) {
        standin_lock(s);
        if (gc_ms > 0 && api_collect_garbage(&s->store)) {
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
    rc = server_init(&server, s, &config->tls, (uint16_t)config->port, e);
    if (rc != 0) {
        return rc;
    }
    rc = server_open(&server, e);
    rc = rc == 0 ? control_start(&control, &server, (uint16_t)config->control_port, e) : rc;
    if (rc == 0) {
        (void)printf("{\"port\":%u,\"controlPort\":%u,\"url\":\"%s://127.0.0.1:%u\","
                     "\"controlUrl\":\"http://127.0.0.1:%u\"}\n",
                     server.port, control.port, config->tls.cert_file ? "https" : "http",
                     server.port, control.port);
        (void)fflush(stdout);
        serve(s, &stop_signals, config->gc_ms);
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
        .first_version = 1000,
        .bookmark_ms = 60000,
        .gc_ms = 200,
        .namespaces = need(json_pack("[s,s,s]", "default", "kube-system", "ovn-kubernetes")),
        .nodes = need(json_array()),
        .disabled = need(json_array()),
    };
    int rc = parse_options(argc, argv, &config, &e);
    if (rc == 0) {
        standin_init(&standin, config.first_version);
        rc = run(&standin, &config, &e);
        standin_fini(&standin);
    }
    json_decref(config.namespaces);
    json_decref(config.nodes);
    json_decref(config.disabled);
    if (rc < 0) {
        (void)fprintf(stderr, "dpu-standin: %s\n", e.msg);
    }
    return rc < 0 ? 1 : 0;
}
