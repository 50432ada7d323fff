/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that the agents have in common: who we are, which lease, which timers, how to log;
 * the DRA driver has those without the lease. Each program's config struct holds a `struct
 * agent_config`, its table starts with AGENT_OPTION_ROWS, and its check begins with
 * agent_options_check. Values are const once option_parse is done, but for the names that
 * agent_options_set_node sets.
 */
#ifndef LOOP_AGENT_OPTIONS_H
#define LOOP_AGENT_OPTIONS_H

#include "base/err.h"
#include "base/log.h"
#include "base/time.h"
#include "contract/names.h"
#include "loop/option.h"

#include <jansson.h>
#include <stdint.h>

/* The options that platforms give in ways of their own, in this order. */
enum agent_source {
    AGENT_SOURCE_NODE,
    AGENT_SOURCE_NAMESPACE,
    AGENT_SOURCE_INTERVAL,
    AGENT_SOURCE_DURATION,
    AGENT_SOURCES
};

/* Texts are owned by the config: free with option_fini. */
struct agent_config {
    char *kubeconfig; /* NULL or "": in-cluster */
    char *node_name;  /* a DNS-1123 subdomain; NULL or "": not set */
    char *lease_namespace;
    char *lease_name; /* made of the node's name unless it is given; NULL or "" without either */
    bool is_lease_given;
    char *holder_identity;
    int64_t renew_interval_ns; /* 0: the health check is disabled */
    int64_t lease_duration_ns; /* whole seconds, longer than the interval */
    const char *disabled_by;   /* static: the option that is 0; NULL: the check is on */
    char *http_bind_address;   /* HOST:PORT; NULL or "": no page */
    int log_level;             /* enum log_level */
    int log_format;            /* enum log_format */
    char sources[AGENT_SOURCES][OPTION_ORIGIN_BYTES]; /* which source won, for people */
};

#define AGENT_ENV_PREFIX "DPU_HEARTBEAT_"

enum {
    AGENT_MAX_TIMER_S = 600,     /* the host never believes a lease for longer */
    AGENT_MIN_INTERVAL_MS = 100, /* more often would only hurt the API server */
    AGENT_DURATION_S = 40,       /* the default */
};

/* On the host: without a node name it is the lower-case host name. */
void agent_options_guess_node(struct agent_config *config);

/* Completes the lease's name and checks names and timers against each other. Errors: ERR_PARSE
 * naming options, values and sources; ERR_LIMIT. */
NODISCARD int agent_options_check(struct agent_config *config, const struct option_origins *origins,
                                  struct err *e);

/* The node's name, found out later, and that of the lease unless it was given. Errors: ERR_LIMIT
 * for a name that no node or no lease can have. */
NODISCARD int agent_options_set_node(struct agent_config *config, const char *name,
                                     const char *source, struct err *e);

/* One line: which of the platforms' ways won. */
void agent_options_log(const struct agent_config *config);
/* The same by option, for /statusz. Returns owned. */
json_t *agent_options_sources(const struct agent_config *config);

/* NOLINTBEGIN(bugprone-macro-parentheses): offsetof takes a member's name as it is */
/* clang-format off */
#define AGENT_ROW(option, kind, owner, at, field) OPTION_ROW(option, kind, owner, at.field)

/* The row of --http-bind-address, whose default differs. */
#define AGENT_HTTP_ROW(owner, at, address) \
    {AGENT_ROW("http-bind-address", OPTION_TEXT, owner, at, http_bind_address), \
     .default_text = (address), .placeholder = "HOST:PORT", \
     .help = "The address of /metrics, /livez, /readyz and /statusz, which have no TLS and no " \
             "login. Empty turns them off."}

/* The row of --node-name for who runs on the node itself. */
#define AGENT_NODE_ROW(owner, at) \
    {AGENT_ROW("node-name", OPTION_TEXT, owner, at, node_name), \
     .env = {"NODE_NAME", "K8S_NODE"}, .placeholder = "NAME", \
     .help = "The Kubernetes node that the DPU serves. Defaults to the host name in lower case."}

/* The rows for the member `at` of the config struct `owner`. Macros, because a C array cannot be put
 * together from another one. */
#define AGENT_BASE_ROWS(owner, at) \
    {AGENT_ROW("kubeconfig", OPTION_TEXT, owner, at, kubeconfig), \
     .env = {"KUBECONFIG"}, .placeholder = "FILE", \
     .help = "The kubeconfig for the Kubernetes API. Defaults to the Pod's service account."}, \
    {AGENT_ROW("log-level", OPTION_CHOICE, owner, at, log_level), \
     .choices = "error|warn|info|debug", .default_text = "info", \
     .help = "The lowest level to log."}, \
    {AGENT_ROW("log-format", OPTION_CHOICE, owner, at, log_format), \
     .choices = "text|json", .default_text = "text", .help = "The format of log lines."}

/* Of both agents. */
#define AGENT_OPTION_ROWS(owner, at) \
    AGENT_BASE_ROWS(owner, at), \
    {AGENT_ROW("namespace", OPTION_TEXT, owner, at, lease_namespace), \
     .default_text = NAMES_LEASE_NAMESPACE, .placeholder = "NAME", \
     .env = {"OVNKUBE_NODE_LEASE_NAMESPACE", "OVN_KUBERNETES_NAMESPACE"}, \
     .help = "The namespace of the Lease."}, \
    {AGENT_ROW("lease-name", OPTION_TEXT, owner, at, lease_name), .placeholder = "NAME", \
     .help = "The name of the Lease. Defaults to " NAMES_LEASE_PREFIX "NODE."}, \
    {AGENT_ROW("dpu-node-lease-renew-interval", OPTION_DURATION, owner, at, renew_interval_ns), \
     .env = {"DPU_NODE_LEASE_RENEW_INTERVAL", "OVNKUBE_NODE_LEASE_RENEW_INTERVAL", \
             "OVNKUBE_NODE_DPU_LEASE_RENEW_INTERVAL"}, \
     .default_text = "10", .min = 0, .max = AGENT_MAX_TIMER_S * NS_PER_SEC, \
     .help = "How often the DPU renews the Lease. 0 disables the health check: the node is " \
             "then always ready. Set it alike on both sides."}, \
    {AGENT_ROW("dpu-node-lease-duration", OPTION_DURATION, owner, at, lease_duration_ns), \
     .env = {"DPU_NODE_LEASE_DURATION", "OVNKUBE_NODE_LEASE_DURATION", \
             "OVNKUBE_NODE_DPU_LEASE_DURATION"}, \
     .default_text = "40", .min = 0, .max = AGENT_MAX_TIMER_S * NS_PER_SEC, \
     .help = "How long a renewal is valid: whole seconds, longer than the renew interval. 0 " \
             "disables the health check."}, \
    {AGENT_ROW("holder-identity", OPTION_TEXT, owner, at, holder_identity), \
     .default_text = NAMES_HOLDER_IDENTITY, .placeholder = "NAME", \
     .help = "The holder of the Lease. Only this holder's renewals count."}
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
