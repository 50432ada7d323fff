/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/fleet_options.h"

#include "base/text.h"
#include "contract/names.h"
#include "dpuctl/admin_options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW(option, kind, member)                                                                  \
    .name = (option), .type = (kind), .offset = offsetof(struct fleet_config, member)

/* clang-format off */
static const struct option_row rows[] = {
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

static int check(void *config, const struct option_origins *origins, struct err *e)
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

static struct option_program program_for(const char *name, const char *summary)
{
    return (struct option_program){.name = name,
                                   .summary = summary,
                                   .env_prefix = AGENT_ENV_PREFIX,
                                   .rows = rows,
                                   .row_count = ARRAY_LEN(rows),
                                   .check = check,
                                   .shared_file = NAMES_HOST_AGENT_CONFIG};
}

bool fleet_options_parse(const char *name, const char *summary, int argc, char **argv,
                         struct fleet_config *out, int *exit_status)
{
    const struct option_program program = program_for(name, summary);
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
    const struct option_program program = program_for("", "");
    option_fini(&program, config);
}
