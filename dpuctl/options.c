/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/options.h"

#include "base/clock.h"
#include "base/text.h"
#include "contract/names.h"
#include "contract/record.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
static const struct option_row admin_rows[] = {
    {.name = "output", .type = OPTION_CHOICE, .offset = offsetof(struct admin_config, output),
     .choices = "text|json|yaml|name", .default_text = "text",
     .help = "What is printed; 'dpuctl watch' has no yaml, and 'dpuctl pods' alone has name, the pods "
             "that lost their network. -o is short for it."},
    {.name = "color", .type = OPTION_CHOICE, .offset = offsetof(struct admin_config, color),
     .choices = "auto|always|never", .default_text = "auto",
     .help = "Colours; auto: on a terminal, unless NO_COLOR is set."},
    {.name = "api-timeout", .type = OPTION_DURATION,
     .offset = offsetof(struct admin_config, api_timeout_ns), .default_text = "3s",
     .min = 100 * NS_PER_MS, .max = 60 * NS_PER_SEC,
     .help = "How long to wait for the answers of API server and container runtime, all together."},
    {.name = "context", .type = OPTION_TEXT, .offset = offsetof(struct admin_config, context),
     .placeholder = "NAME", .help = ADMIN_CONTEXT_HELP},
    {.name = "readiness-file", .type = OPTION_TEXT,
     .offset = offsetof(struct admin_config, readiness_file), .default_text = NAMES_READINESS_FILE,
     .placeholder = "FILE", .help = "The readiness record."},
    {.name = "cni-conf-dir", .type = OPTION_TEXT,
     .offset = offsetof(struct admin_config, cni_conf_dir), .default_text = "/etc/cni/net.d",
     .placeholder = "DIR", .help = "Where the container runtime looks for CNI configuration."},
    {.name = "cni-bin-dir", .type = OPTION_TEXT,
     .offset = offsetof(struct admin_config, cni_bin_dir), .default_text = "/opt/cni/bin",
     .placeholder = "DIR", .help = "Where it looks for CNI plugins."},
    {.name = "kubelet-root-dir", .type = OPTION_TEXT,
     .offset = offsetof(struct admin_config, kubelet_root), .default_text = "/var/lib/kubelet",
     .placeholder = "DIR", .help = "The kubelet's --root-dir."},
    {.name = "dra-driver-name", .type = OPTION_TEXT, .offset = offsetof(struct admin_config, driver),
     .default_text = "dpu.k8s.ovn.org", .placeholder = "NAME", .help = "The DRA driver."},
    {.name = "cri-socket", .type = OPTION_TEXT,
     .offset = offsetof(struct admin_config, cri_socket), .default_text = "", .placeholder = "FILE",
     .help = "The container runtime's socket. Without it doctor and pods take the one that is there."},
    {.name = "on-lost-network", .type = OPTION_CHOICE,
     .offset = offsetof(struct admin_config, on_lost_network), .choices = "report|status|restart",
     .default_text = "report", .placeholder = NULL, .help = "As dpu-host-agent has it."},
    {.name = "root", .type = OPTION_TEXT, .offset = offsetof(struct admin_config, root),
     .placeholder = "DIR",
     .help = "Where the node's files are, seen from here: /host in many debug pods. A kubeconfig is "
             "named as seen from here."},
    AGENT_NODE_ROW(struct admin_config, agent),
    AGENT_OPTION_ROWS(struct admin_config, agent),
};
/* clang-format on */

static int adopt(char **field, const char *name, struct err *e)
{
    if (!text_is_dns1123_subdomain(name)) {
        return 0;
    }
    char *copy = strdup(name);
    if (!copy) {
        return err_no_memory(e);
    }
    free(*field);
    *field = copy;
    return 0;
}

void admin_read_record(struct admin_config *config)
{
    admin_path(config, config->readiness_file, config->record_path, sizeof(config->record_path));
    config->record_problem = (struct err)ERR_INIT;
    config->record_rc =
        record_file_read(config->record_path, &config->record, &config->record_problem);
}

/* Which node and lease it is about is in the record, where nothing else says it: the agent may
 * have been told in a way that we cannot see, such as the environment of its pod. */
static int adopt_names(struct admin_config *admin, const struct option_origins *origins,
                       struct err *e)
{
    char from[OPTION_ORIGIN_BYTES];
    struct agent_config *agent = &admin->agent;
    const struct record *record = &admin->record;
    if (!text_is_empty(agent->node_name) || admin->record_rc != 0) {
        return 0;
    }
    int rc = adopt(&agent->node_name, record->node, e);
    if (rc != 0) {
        return rc;
    }
    if (text_is_empty(agent->lease_name) &&
        (rc = adopt(&agent->lease_name, record->verdict.lease.name, e)) != 0) {
        return rc;
    }
    option_describe_origin(origins, "namespace", from);
    bool is_given = strncmp(from, "default ", 8) != 0;
    return is_given ? 0 : adopt(&agent->lease_namespace, record->verdict.lease.ns, e);
}

/* A kubeconfig of the node's names further files by paths that lead elsewhere from here: below a
 * root, only one that is given here counts. */
static void forget_kubeconfig(struct admin_config *admin, const struct option_origins *origins)
{
    char path[PATH_MAX];
    char file[OPTION_ORIGIN_BYTES];
    char from[OPTION_ORIGIN_BYTES];
    admin_path(admin, NAMES_HOST_AGENT_CONFIG, path, sizeof(path));
    text_format(file, sizeof(file), "file '%.60s", path);
    option_describe_origin(origins, "kubeconfig", from);
    if (!text_is_empty(admin->root) && strncmp(from, file, strlen(file)) == 0) {
        free(admin->agent.kubeconfig);
        admin->agent.kubeconfig = NULL;
    }
}

int admin_check_driver(const struct option_origins *origins, const char *option, const char *name,
                       struct err *e)
{
    char from[OPTION_ORIGIN_BYTES];
    char shown[64];
    if (text_is_dns1123_subdomain(name) && strlen(name) <= ADMIN_DRIVER_MAX) {
        return 0;
    }
    text_sanitize(shown, sizeof(shown), name, strlen(name));
    return err_set(e, ERR_PARSE, "%s: '%s' is no DNS name of at most %d bytes",
                   option_describe_origin(origins, option, from), shown, (int)ADMIN_DRIVER_MAX);
}

int admin_check_path(const struct option_origins *origins, const char *option, const char *path,
                     struct err *e)
{
    char from[OPTION_ORIGIN_BYTES];
    if (path[0] != '\0') {
        return 0;
    }
    return err_set(e, ERR_PARSE, "%s: it is empty; give a path",
                   option_describe_origin(origins, option, from));
}

static int check_values(const struct admin_config *admin, const struct option_origins *origins,
                        struct err *e)
{
    const struct {
        const char *option;
        const char *path;
    } paths[] = {{"readiness-file", admin->readiness_file},
                 {"cni-conf-dir", admin->cni_conf_dir},
                 {"cni-bin-dir", admin->cni_bin_dir},
                 {"kubelet-root-dir", admin->kubelet_root}};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        int rc = admin_check_path(origins, paths[i].option, paths[i].path, e);
        if (rc != 0) {
            return rc;
        }
    }
    return admin_check_driver(origins, "dra-driver-name", admin->driver, e);
}

int admin_wrong_usage(const char *name, const char *what)
{
    (void)fprintf(stderr, "%s: %s\nTry '%s --help'.\n", name, what, name);
    return ADMIN_EXIT_USAGE;
}

static int check_admin(void *config, const struct option_origins *origins, struct err *e)
{
    struct admin_config *admin = config;
    int rc = check_values(admin, origins, e);
    if (rc != 0) {
        return rc;
    }
    forget_kubeconfig(admin, origins);
    admin_read_record(admin);
    rc = adopt_names(admin, origins, e);
    if (rc != 0 || (rc = agent_options_guess_node(&admin->agent, e)) != 0) {
        return rc;
    }
    return agent_options_check(&admin->agent, origins, e);
}

/* --root, before the options are read: the agent's file is below it. Borrowed. */
static const char *find_root(int argc, char **argv)
{
    const char *root = getenv(AGENT_ENV_PREFIX "ROOT");
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--root=", strlen("--root=")) == 0) {
            root = argv[i] + strlen("--root=");
        } else if (text_equal(argv[i], "--root") && i + 1 < argc) {
            root = argv[++i];
        }
    }
    return root ? root : "";
}

static struct option_program program_for(const char *name, const char *summary,
                                         const char *shared_file)
{
    return (struct option_program){.name = name,
                                   .summary = summary,
                                   .env_prefix = AGENT_ENV_PREFIX,
                                   .rows = admin_rows,
                                   .row_count = ARRAY_LEN(admin_rows),
                                   .check = check_admin,
                                   .shared_file = shared_file};
}

void admin_long_flags(int argc, char **argv)
{
    static const char *const pairs[][2] = {
        {"-o", "--output"}, {"-n", "--namespace"}, {"-l", "--selector"}, {"-w", "--watch"}};
    for (int i = 1; i < argc; i++) {
        for (size_t k = 0; k < ARRAY_LEN(pairs); k++) {
            if (text_equal(argv[i], pairs[k][0])) {
                argv[i] = (char *)(uintptr_t)pairs[k][1]; /* read only */
            }
        }
    }
}

bool admin_options_parse(const char *name, const char *summary, int argc, char **argv,
                         struct admin_config *out, int *exit_status)
{
    char shared_file[PATH_MAX];
    text_format(shared_file, sizeof(shared_file), "%s" NAMES_HOST_AGENT_CONFIG,
                find_root(argc, argv));
    const struct option_program program = program_for(name, summary, shared_file);
    enum option_outcome outcome;
    struct err e = ERR_INIT;
    admin_long_flags(argc, argv);
    *out = (struct admin_config){.output = ADMIN_TEXT, .started_at = clock_mono_now()};
    if (option_parse(&program, argc, argv, environ, out, &outcome, &e) != 0) {
        option_fini(&program, out);
        *exit_status = admin_wrong_usage(name, e.msg);
        return false;
    }
    if (outcome == OPTION_EXIT) {
        option_fini(&program, out);
        *exit_status = EXIT_SUCCESS;
        return false;
    }
    if (out->output == ADMIN_NAME && !text_equal(name, "dpuctl pods")) {
        option_fini(&program, out);
        *exit_status = admin_wrong_usage(name, "only 'dpuctl pods' prints names");
        return false;
    }
    return true;
}

void admin_options_fini(struct admin_config *config)
{
    const struct option_program program = program_for("", "", NAMES_HOST_AGENT_CONFIG);
    option_fini(&program, config);
}

int64_t admin_time_left_ns(const struct admin_config *config)
{
    int64_t left_ns = config->api_timeout_ns - mono_since(clock_mono_now(), config->started_at);
    return left_ns > 0 ? left_ns : 0;
}

const char *admin_path(const struct admin_config *config, const char *path, char *out,
                       size_t out_bytes)
{
    text_format(out, out_bytes, "%s%s", config->root ? config->root : "", path);
    return out;
}

#define ROW(option, kind, member)                                                                  \
    .name = (option), .type = (kind), .offset = offsetof(struct fleet_config, member)

/* clang-format off */
static const struct option_row fleet_rows[] = {
    {ROW("output", OPTION_CHOICE, output), .choices = "text|wide|json|yaml|name",
     .default_text = "text", .help = "What is printed. -o is short for it."},
    {ROW("state", OPTION_CHOICE, filter), .choices = "all|broken|NotReady|Unknown|Ready",
     .default_text = "all", .help = "Which nodes are shown; broken: those that are not Ready."},
    {ROW("selector", OPTION_TEXT, selector), .placeholder = "LABELS",
     .help = "Only Nodes with these labels, as kubectl has it. -l is short for it."},
    {ROW("watch", OPTION_BOOL, watch), .default_text = "false",
     .help = "Look again and again, and print who has changed. -w is short for it."},
    {ROW("interval", OPTION_DURATION, interval_ns), .default_text = "30s",
     .min = NS_PER_SEC, .max = 3600 * NS_PER_SEC, .help = "The pause between two looks of --watch."},
    {ROW("kubeconfig", OPTION_TEXT, kubeconfig), .env = {"KUBECONFIG"}, .placeholder = "FILE",
     .help = "How to reach the Kubernetes API. Without it a pod's service account is used, else "
             "~/.kube/config."},
    {ROW("context", OPTION_TEXT, context), .placeholder = "NAME",
     .help = ADMIN_CONTEXT_HELP},
    {ROW("namespace", OPTION_TEXT, ns), .default_text = NAMES_LEASE_NAMESPACE,
     .placeholder = "NAME",
     .help = "The namespace of the leases and of dpu-host-agent. -n is short for it."},
    {ROW("holder-identity", OPTION_TEXT, holder), .default_text = NAMES_HOLDER_IDENTITY,
     .placeholder = "NAME", .help = "Who holds a lease; only this holder's renewals count."},
    {ROW("dra-driver-name", OPTION_TEXT, driver), .default_text = "dpu.k8s.ovn.org",
     .placeholder = "NAME", .help = "The DRA driver, whose slices tell of taints."},
    {ROW("api-timeout", OPTION_DURATION, api_timeout_ns), .default_text = "10s",
     .min = 100 * NS_PER_MS, .max = 60 * NS_PER_SEC,
     .help = "How long to wait for all answers of the API server; with --watch, at each look."},
    {ROW("color", OPTION_CHOICE, color), .choices = "auto|always|never", .default_text = "auto",
     .help = "Colours; auto: on a terminal, unless NO_COLOR is set."},
};
/* clang-format on */

static int check_fleet(void *config, const struct option_origins *origins, struct err *e)
{
    const struct fleet_config *c = config;
    char shown[64];
    if (!text_is_dns1123_subdomain(c->ns) || strchr(c->ns, '.')) { /* it goes into a path */
        char from[OPTION_ORIGIN_BYTES];
        text_sanitize(shown, sizeof(shown), c->ns, strlen(c->ns));
        return err_set(e, ERR_PARSE, "%s: '%s' is no name of a namespace",
                       option_describe_origin(origins, "namespace", from), shown);
    }
    if (c->node && !text_is_dns1123_subdomain(c->node)) {
        text_sanitize(shown, sizeof(shown), c->node, strlen(c->node));
        return err_set(e, ERR_PARSE, "'%s' is no name of a node", shown);
    }
    return admin_check_driver(origins, "dra-driver-name", c->driver, e);
}

static struct option_program fleet_program_for(const char *name, const char *summary)
{
    return (struct option_program){.name = name,
                                   .summary = summary,
                                   .env_prefix = AGENT_ENV_PREFIX,
                                   .rows = fleet_rows,
                                   .row_count = ARRAY_LEN(fleet_rows),
                                   .check = check_fleet,
                                   .shared_file = NAMES_HOST_AGENT_CONFIG};
}

bool fleet_options_parse(const char *name, const char *summary, int argc, char **argv,
                         struct fleet_config *out, int *exit_status)
{
    const struct option_program program = fleet_program_for(name, summary);
    enum option_outcome outcome = OPTION_EXIT;
    struct err e = ERR_INIT;
    *out = (struct fleet_config){.output = FLEET_TEXT};
    if (argc > 1 && argv[1][0] != '-') {
        out->node = argv[1];
        argv++;
        argc--;
    }
    admin_long_flags(argc, argv);
    *exit_status = EXIT_SUCCESS;
    if (option_parse(&program, argc, argv, environ, out, &outcome, &e) != 0) {
        *exit_status = admin_wrong_usage(name, e.msg);
    }
    if (outcome == OPTION_EXIT) {
        fleet_options_fini(out);
        return false;
    }
    return true;
}

void fleet_options_fini(struct fleet_config *config)
{
    const struct option_program program = fleet_program_for("", "");
    option_fini(&program, config);
}
