/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/options.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "contract/record.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define ROW(option, kind, member)                                                                  \
    .name = (option), .type = (kind), .offset = offsetof(struct admin_config, member)
#define OF_AGENT "The same option of dpu-host-agent. doctor checks the rights that it needs."

/* clang-format off */
#define COLOR_ROW \
    {ROW("color", OPTION_CHOICE, color), .choices = "auto|always|never", .default_text = "auto", \
     .help = "When to use colors. With auto: on a terminal, unless NO_COLOR is set."}
#define CONTEXT_ROW \
    {ROW("context", OPTION_TEXT, context), .placeholder = "NAME", \
     .help = "The context of the kubeconfig. Defaults to its current context."}
#define DRIVER_ROW(says) \
    {ROW("dra-driver-name", OPTION_TEXT, driver), .default_text = "dpu.k8s.ovn.org", \
     .placeholder = "NAME", .help = (says)}
#define TIMEOUT_ROW(time, says) \
    {ROW("api-timeout", OPTION_DURATION, api_timeout_ns), .default_text = (time), \
     .min = 100 * NS_PER_MS, .max = 60 * NS_PER_SEC, .help = (says)}

static const struct option_row node_rows[] = {
    {ROW("output", OPTION_CHOICE, output), .choices = "text|json|yaml|name", .default_text = "text",
     .help = "The output format. watch has no yaml; only pods has name: the Pods that lost their "
             "network. Short: -o."},
    COLOR_ROW,
    TIMEOUT_ROW("3s", "The time limit for all answers of API server and container runtime together."),
    CONTEXT_ROW,
    {ROW("readiness-file", OPTION_TEXT, readiness_file), .min = 1, .default_text = NAMES_READINESS_FILE,
     .placeholder = "FILE", .help = "The readiness record of dpu-host-agent."},
    {ROW("cni-conf-dir", OPTION_TEXT, cni_conf_dir), .min = 1, .default_text = "/etc/cni/net.d",
     .placeholder = "DIR", .help = "The container runtime's directory of CNI configuration."},
    {ROW("cni-bin-dir", OPTION_TEXT, cni_bin_dir), .min = 1, .default_text = "/opt/cni/bin",
     .placeholder = "DIR", .help = "The container runtime's directory of CNI plugins."},
    {ROW("kubelet-root-dir", OPTION_TEXT, kubelet_root), .min = 1, .default_text = "/var/lib/kubelet",
     .placeholder = "DIR", .help = "The kubelet's --root-dir."},
    DRIVER_ROW("The DRA driver."),
    {ROW("cri-socket", OPTION_TEXT, cri_socket), .default_text = "",
     .max = OPTION_MAX_SOCKET_BYTES, .placeholder = "FILE",
     .help = "The container runtime's socket. doctor and pods default to the one that exists."},
    {ROW("host-root", OPTION_PATH, host_root), .default_text = "", .placeholder = "DIR",
     .help = "The same option of dpu-host-agent: where its Pod has the host's /proc, /sys and "
             "/var/lib/cni. --root counts before it."},
    {ROW("on-lost-network", OPTION_CHOICE, on_lost_network), .choices = "report|status|restart",
     .default_text = "report", .help = OF_AGENT},
    {ROW("dra", OPTION_BOOL, is_driver), .default_text = "off",
     .help = "doctor checks the rights of dpu-dra-driver, in place of dpu-host-agent's: with its "
             "kubeconfig, or in its Pod, where this is on."},
    {ROW("events", OPTION_BOOL, events), .default_text = "on", .help = OF_AGENT},
    {ROW("node-condition", OPTION_BOOL, node_condition), .default_text = "off", .help = OF_AGENT},
    {ROW("dra-claim-conditions", OPTION_BOOL, claim_conditions), .default_text = "off",
     .help = "The same option of dpu-dra-driver."},
    {ROW("root", OPTION_TEXT, root), .placeholder = "DIR",
     .help = "Where the node's files are mounted: /host in many debug Pods. A kubeconfig is not "
             "below it."},
    AGENT_NODE_ROW(struct admin_config, agent),
    AGENT_OPTION_ROWS(struct admin_config, agent),
};

static const struct option_row cluster_rows[] = {
    {ROW("output", OPTION_CHOICE, output), .choices = "text|wide|json|yaml|name",
     .default_text = "text", .help = "The output format. Short: -o."},
    {ROW("state", OPTION_CHOICE, filter), .choices = "all|broken|NotReady|Unknown|Ready",
     .default_text = "all", .help = "Which nodes to show. broken shows all that are not Ready."},
    {ROW("selector", OPTION_TEXT, selector), .placeholder = "LABELS",
     .help = "Show only Nodes with these labels, as in kubectl. Short: -l."},
    {ROW("watch", OPTION_BOOL, watch), .default_text = "false",
     .help = "Print changes until interrupted. Short: -w."},
    {ROW("interval", OPTION_DURATION, interval_ns), .default_text = "30s",
     .min = NS_PER_SEC, .max = 3600 * NS_PER_SEC, .help = "The time between two lists with --watch."},
    {ROW("kubeconfig", OPTION_TEXT, agent.kubeconfig), .env = {"KUBECONFIG"}, .placeholder = "FILE",
     .help = "How to reach the API server. Defaults to a Pod's service account, else ~/.kube/config."},
    CONTEXT_ROW,
    {ROW("namespace", OPTION_TEXT, agent.lease_namespace), .default_text = NAMES_LEASE_NAMESPACE,
     .placeholder = "NAME",
     .help = "The namespace of the leases and of dpu-host-agent. Short: -n."},
    {ROW("holder-identity", OPTION_TEXT, agent.holder_identity),
     .default_text = NAMES_HOLDER_IDENTITY, .placeholder = "NAME",
     .help = "The holder of a lease. Only its renewals count."},
    DRIVER_ROW("The DRA driver. Its ResourceSlices carry taints."),
    TIMEOUT_ROW("10s", "The time limit for all answers of the API server to one list."),
    COLOR_ROW,
};

static const struct option_row dra_rows[] = {
    {ROW("driver", OPTION_TEXT, driver), .default_text = "dpu.k8s.ovn.org", .placeholder = "NAME",
     .help = "The DRA driver."},
    {ROW("kubelet-root-dir", OPTION_TEXT, kubelet_root), .min = 1, .default_text = "/var/lib/kubelet",
     .placeholder = "DIR", .help = "The kubelet's --root-dir, with the registration sockets."},
    {ROW("socket", OPTION_TEXT, dra_socket), .min = 1, .max = OPTION_MAX_SOCKET_BYTES, .placeholder = "FILE",
     .help = "The driver's own socket. Skips registration."},
    {ROW("register", OPTION_BOOL, registers), .default_text = "false",
     .help = "Tell the driver that it is registered, as a kubelet does."},
    {ROW("once", OPTION_BOOL, once), .default_text = "false",
     .help = "Exit after the first report, with 0 if every device is Healthy, else 1."},
};
/* clang-format on */

static void adopt_name(char **field, const char *name)
{
    if (text_is_dns1123_subdomain(name)) {
        free(*field);
        *field = mem_strdup(name);
    }
}

/* Takes node and lease from the record, where nothing else names them: the agent may have been
 * told in a way that we cannot see, such as the environment of its Pod. */
static void adopt_names(struct admin_config *admin, const struct option_origins *origins)
{
    char path[PATH_MAX];
    struct record record;
    struct agent_config *agent = &admin->agent;
    if (!text_is_empty(agent->node_name) ||
        record_file_read(admin_path(admin, admin->readiness_file, path, sizeof(path)), &record,
                         NULL) != 0) {
        return;
    }
    adopt_name(&agent->node_name, record.node);
    if (text_is_empty(agent->lease_name)) {
        adopt_name(&agent->lease_name, record.readiness.lease.name);
    }
    if (strncmp(option_origin(origins, "namespace"), "default ", 8) == 0) {
        adopt_name(&agent->lease_namespace, record.readiness.lease.ns);
    }
}

/* A kubeconfig of the node's names further files by paths that lead elsewhere from here: below a
 * root, only one that is given here counts. */
static void forget_kubeconfig(struct admin_config *admin, const struct option_origins *origins)
{
    char path[PATH_MAX];
    char file[OPTION_ORIGIN_BYTES];
    admin_path(admin, NAMES_HOST_AGENT_CONFIG, path, sizeof(path));
    text_format(file, sizeof(file), "file '%.60s", path);
    const char *from = option_origin(origins, "kubeconfig");
    if (!text_is_empty(admin->root) && strncmp(from, file, strlen(file)) == 0) {
        free(admin->agent.kubeconfig);
        admin->agent.kubeconfig = NULL;
    }
}

/* Below the root the path is longer than the option that was given. */
static int check_socket(const struct admin_config *admin, const struct option_origins *origins,
                        struct err *e)
{
    char path[PATH_MAX];
    size_t len = strlen(admin_path(admin, admin->cri_socket, path, sizeof(path)));
    if (text_is_empty(admin->cri_socket) || len <= OPTION_MAX_SOCKET_BYTES) {
        return 0;
    }
    return err_set(e, ERR_LIMIT, "%s: is %zu bytes long below --root, more than the allowed %d",
                   option_origin(origins, "cri-socket"), len, (int)OPTION_MAX_SOCKET_BYTES);
}

/* Of a command that has such an option. */
static int check_output(const struct admin_config *c, struct err *e)
{
    bool is_watch = c->watch || text_equal(c->name, "dpuctl watch");
    if (c->scope == ADMIN_THIS_NODE && c->output == ADMIN_NAME &&
        !text_equal(c->name, "dpuctl pods")) {
        return err_set(e, ERR_PARSE, "--output=name: only 'dpuctl pods' prints names");
    }
    return is_watch && c->output == ADMIN_YAML
               ? err_set(e, ERR_PARSE, "--output=yaml cannot print one line per change: use json")
               : 0;
}

/* kubectl takes a list of files from its variable, and one file from its flag. */
static bool is_list(const struct admin_config *admin, const struct option_origins *origins)
{
    return admin->scope != ADMIN_DRA && !text_is_empty(admin->agent.kubeconfig) &&
           strchr(admin->agent.kubeconfig, ':') &&
           text_equal(option_origin(origins, "kubeconfig"), "environment variable KUBECONFIG");
}

static int check_options(void *config, const struct option_origins *origins, struct err *e)
{
    struct admin_config *admin = config;
    const char *ns = admin->agent.lease_namespace;
    admin->is_list = is_list(admin, origins);
    if (!text_is_dns1123_subdomain(admin->driver) || strlen(admin->driver) > ADMIN_DRIVER_MAX) {
        return option_refuse(origins, admin->scope == ADMIN_DRA ? "driver" : "dra-driver-name",
                             admin->driver, "a DNS name of at most 63 bytes", e);
    }
    /* It goes into a path. */
    if (admin->scope == ADMIN_CLUSTER && (!text_is_dns1123_subdomain(ns) || strchr(ns, '.'))) {
        return option_refuse(origins, "namespace", ns, "a namespace's name", e);
    }
    if (admin->scope == ADMIN_CLUSTER && admin->node && !text_is_dns1123_subdomain(admin->node)) {
        return err_set(e, ERR_PARSE, "'%.63s' is not a valid Node name", admin->node);
    }
    if (admin->scope != ADMIN_THIS_NODE) {
        return check_output(admin, e);
    }
    admin->output += admin->output > ADMIN_TEXT; /* it has no wide */
    if (check_output(admin, e) != 0 || check_socket(admin, origins, e) != 0) {
        return ERR_PARSE;
    }
    forget_kubeconfig(admin, origins);
    adopt_names(admin, origins);
    agent_options_guess_node(&admin->agent);
    return agent_options_check(&admin->agent, origins, e);
}

static const struct option_program programs[] = {
    [ADMIN_THIS_NODE] = {.rows = node_rows, .row_count = ARRAY_LEN(node_rows)},
    [ADMIN_CLUSTER] = {.rows = cluster_rows, .row_count = ARRAY_LEN(cluster_rows)},
    [ADMIN_DRA] = {.rows = dra_rows, .row_count = ARRAY_LEN(dra_rows)},
};

/* Replaces the short flags, as kubectl has them, in argv. */
static void use_long_flags(int argc, char **argv)
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

/* "doctor NODE ..." is "doctor --node-name=NODE ..." of another node; status and nodes take it as
 * it is. */
static void take_node(struct admin_config *out, int *argc, char ***argv, char **out_flag)
{
    bool is_given = *argc > 1 && (*argv)[1][0] != '-';
    if (is_given && text_equal(out->name, "dpuctl doctor") && (*argv)[1][0] != '\0') {
        out->node = (*argv)[1];
        (*argv)[1] = *out_flag = mem_format("--node-name=%s", out->node);
    } else if (is_given && out->scope == ADMIN_CLUSTER) {
        out->node = (*argv)[1];
        ++*argv;
        --*argc;
    }
}

bool admin_options_parse(struct admin_config *config, const char *summary, int argc, char **argv,
                         int *exit_status)
{
    CLEANUP(free) char *flag = NULL;
    struct option_program program = programs[config->scope];
    config->started_at = clock_mono_now();
    take_node(config, &argc, &argv, &flag);
    program.name = config->name;
    program.summary = summary;
    program.check = check_options;
    if (config->scope != ADMIN_DRA) {
        use_long_flags(argc, argv);
        program.env_prefix = AGENT_ENV_PREFIX;
        program.shared_file = NAMES_HOST_AGENT_CONFIG;
        program.shared_root = &config->root;
        (void)signal(SIGPIPE, SIG_IGN);
    }
    char **env = config->scope == ADMIN_DRA ? NULL : environ;
    if (option_take(&program, argc, argv, env, config, exit_status)) {
        log_setup(LOG_ERROR, LOG_TEXT, "");
        return true;
    }
    *exit_status = *exit_status == EXIT_SUCCESS ? EXIT_SUCCESS : ADMIN_EXIT_USAGE;
    admin_options_fini(config);
    return false;
}

void admin_options_fini(struct admin_config *config)
{
    option_fini(&programs[config->scope], config);
}

const char *admin_path(const struct admin_config *config, const char *path, char *out,
                       size_t out_bytes)
{
    text_format(out, out_bytes, "%s%s", config->root ? config->root : "", path);
    return out;
}

int admin_stop_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        (void)sigaddset(&set, signals[i]);
    }
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (fd >= 0) { /* without it they end the process at once */
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
    }
    return fd;
}

bool admin_wait(int stop_fd, int64_t span_ns)
{
    struct pollfd fds[] = {{.fd = stop_fd, .events = POLLIN}, {.fd = STDOUT_FILENO}};
    int got = poll(fds, ARRAY_LEN(fds), (int)(span_ns / NS_PER_MS));
    return got == 0 || (got < 0 && errno == EINTR);
}
