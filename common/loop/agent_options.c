/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/agent_options.h"

#include "base/mem.h"
#include "base/text.h"
#include "contract/lease.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_NAME_BYTES = 256, SHOWN_BYTES = 64, DURATION_BYTES = 40, LABEL_MAX_BYTES = 63 };

#define SUBDOMAIN "a Kubernetes name; allowed: at most 253 lower-case letters, digits, '-' and '.'"

_Static_assert(LOG_ERROR == 0 && LOG_DEBUG == 3, "the choices of log-level are in this order");
_Static_assert(LOG_TEXT == 0 && LOG_JSON == 1, "the choices of log-format are in this order");

static void replace_text(char **field, const char *text)
{
    char *copy = mem_strdup(text); /* `text` may be the field's own */
    free(*field);
    *field = copy;
}

static void describe_source(struct agent_config *config, enum agent_source which, const char *text)
{
    text_format(config->sources[which], sizeof(config->sources[which]), "%s", text);
}

void agent_options_guess_node(struct agent_config *config)
{
    char host[HOST_NAME_BYTES] = "";
    if (!text_is_empty(config->node_name)) {
        return;
    }
    (void)gethostname(host, sizeof(host) - 1); /* fits */
    for (char *c = host; *c; c++) {
        if (*c >= 'A' && *c <= 'Z') {
            *c = (char)(*c - 'A' + 'a');
        }
    }
    describe_source(config, AGENT_SOURCE_NODE, "the host name");
    replace_text(&config->node_name, host);
}

static int refuse_name(const struct option_origins *origins, const char *option, const char *value,
                       const char *rule, struct err *e)
{
    char from[OPTION_ORIGIN_BYTES];
    char shown[SHOWN_BYTES];
    text_sanitize(shown, sizeof(shown), value, strlen(value));
    option_describe_origin(origins, option, from);
    size_t len = strlen(value);
    char size[32] = ""; /* of what cannot be shown whole */
    if (len >= SHOWN_BYTES) {
        text_format(size, sizeof(size), " (%zu bytes)", len);
    }
    return err_set(e, ERR_PARSE, "%s: '%s'%s is not %s", from, shown, size, rule);
}

/* The node's name first: the lease's is made of it. */
static int complete_names(struct agent_config *config, const struct option_origins *origins,
                          struct err *e)
{
    char name[NAMES_K8S_NAME_BYTES];
    config->is_lease_given = !text_is_empty(config->lease_name);
    if (text_is_empty(config->node_name)) {
        return 0;
    }
    if (!text_is_dns1123_subdomain(config->node_name)) {
        return refuse_name(origins, "node-name", config->node_name, SUBDOMAIN, e);
    }
    if (config->is_lease_given) {
        return 0;
    }
    int rc = lease_name_for_node(config->node_name, name, e);
    if (rc == 0) {
        replace_text(&config->lease_name, name);
    }
    return rc;
}

int agent_options_set_node(struct agent_config *config, const char *name, const char *source,
                           struct err *e)
{
    char lease[NAMES_K8S_NAME_BYTES];
    if (!text_is_dns1123_subdomain(name)) {
        char shown[SHOWN_BYTES];
        text_sanitize(shown, sizeof(shown), name, strlen(name));
        return err_set(e, ERR_LIMIT, "%s: '%s' is not " SUBDOMAIN, source, shown);
    }
    int rc = lease_name_for_node(name, lease, e);
    if (rc != 0) {
        return rc;
    }
    replace_text(&config->node_name, name);
    if (!config->is_lease_given) {
        replace_text(&config->lease_name, lease);
    }
    describe_source(config, AGENT_SOURCE_NODE, source);
    return 0;
}

static int check_names(const struct agent_config *config, const struct option_origins *origins,
                       struct err *e)
{
    static const char label[] =
        "a namespace; allowed: at most 63 lower-case letters, digits and '-'";
    if (!text_is_empty(config->lease_name) && !text_is_dns1123_subdomain(config->lease_name)) {
        return refuse_name(origins, "lease-name", config->lease_name, SUBDOMAIN, e);
    }
    const char *ns = config->lease_namespace;
    if (!text_is_dns1123_subdomain(ns) || strchr(ns, '.') || strlen(ns) > LABEL_MAX_BYTES) {
        return refuse_name(origins, "namespace", ns, label, e);
    }
    size_t holder_len = strlen(config->holder_identity);
    if (holder_len == 0 || holder_len >= NAMES_HOLDER_BYTES) {
        return refuse_name(origins, "holder-identity", config->holder_identity,
                           "a holder; allowed: 1 to 255 bytes", e);
    }
    return 0;
}

/* Either timer at 0 turns the health check off; the other one may then be anything. */
static void settle_timers(struct agent_config *config)
{
    config->disabled_by = config->renew_interval_ns == 0   ? "dpu-node-lease-renew-interval"
                          : config->lease_duration_ns == 0 ? "dpu-node-lease-duration"
                                                           : NULL;
    if (config->disabled_by) {
        config->renew_interval_ns = 0;
    }
    if (config->lease_duration_ns == 0) {
        config->lease_duration_ns = AGENT_DURATION_S * NS_PER_SEC; /* nothing divides by 0 */
    }
}

static int check_timers(const struct agent_config *config, const struct option_origins *origins,
                        struct err *e)
{
    int64_t interval_ns = config->renew_interval_ns;
    int64_t duration_ns = config->lease_duration_ns;
    if (config->disabled_by) {
        return 0;
    }
    char interval[DURATION_BYTES];
    char duration[DURATION_BYTES];
    char interval_from[OPTION_ORIGIN_BYTES];
    char duration_from[OPTION_ORIGIN_BYTES];
    text_from_duration(interval_ns, interval, sizeof(interval));
    text_from_duration(duration_ns, duration, sizeof(duration));
    option_describe_origin(origins, "dpu-node-lease-renew-interval", interval_from);
    option_describe_origin(origins, "dpu-node-lease-duration", duration_from);
    if (interval_ns < AGENT_MIN_INTERVAL_MS * NS_PER_MS) {
        return err_set(e, ERR_LIMIT,
                       "invalid dpu-node-lease-renew-interval %s (%s): allowed: 0, or at least "
                       "%dms",
                       interval, interval_from, (int)AGENT_MIN_INTERVAL_MS);
    }
    if (duration_ns % NS_PER_SEC != 0) {
        return err_set(e, ERR_PARSE,
                       "invalid dpu-node-lease-duration %s (%s): must be whole seconds", duration,
                       duration_from);
    }
    if (duration_ns <= interval_ns) {
        return err_set(e, ERR_LIMIT,
                       "invalid dpu-node-lease-duration %s (%s): must be greater than "
                       "dpu-node-lease-renew-interval %s (%s)",
                       duration, duration_from, interval, interval_from);
    }
    return 0;
}

static int check_page(const struct agent_config *config, const struct option_origins *origins,
                      struct err *e)
{
    struct text_address ignored;
    char from[OPTION_ORIGIN_BYTES];
    if (text_is_empty(config->http_bind_address) ||
        text_to_address(config->http_bind_address, &ignored, e) == 0) {
        return 0;
    }
    option_describe_origin(origins, "http-bind-address", from);
    return err_wrap(e, "%s", from);
}

/* ---- which source won ------------------------------------------------------------------------ */

static const char *const source_options[AGENT_SOURCES] = {
    [AGENT_SOURCE_NODE] = "node-name",
    [AGENT_SOURCE_NAMESPACE] = "namespace",
    [AGENT_SOURCE_INTERVAL] = "dpu-node-lease-renew-interval",
    [AGENT_SOURCE_DURATION] = "dpu-node-lease-duration",
};

static void describe_sources(struct agent_config *config, const struct option_origins *origins)
{
    for (size_t i = 0; i < AGENT_SOURCES; i++) {
        bool is_told = i != AGENT_SOURCE_NODE || !text_is_empty(config->node_name);
        if (is_told && config->sources[i][0] == '\0') {
            option_describe_origin(origins, source_options[i], config->sources[i]);
        }
    }
}

void agent_options_log(const struct agent_config *config)
{
    char interval[DURATION_BYTES];
    char duration[DURATION_BYTES];
    bool has_node = !text_is_empty(config->node_name);
    text_from_duration(config->renew_interval_ns, interval, sizeof(interval));
    text_from_duration(config->lease_duration_ns, duration, sizeof(duration));
    log_info("options", "node %s (%s), namespace %s (%s), renew interval %s (%s), duration %s (%s)",
             has_node ? config->node_name : "unknown",
             has_node ? config->sources[AGENT_SOURCE_NODE] : "nothing says it",
             config->lease_namespace, config->sources[AGENT_SOURCE_NAMESPACE], interval,
             config->sources[AGENT_SOURCE_INTERVAL], duration,
             config->sources[AGENT_SOURCE_DURATION]);
}

json_t *agent_options_sources(const struct agent_config *config)
{
    json_t *sources = json_object();
    for (size_t i = 0; i < AGENT_SOURCES; i++) {
        (void)json_object_set_new(sources, source_options[i], json_string(config->sources[i]));
    }
    return sources;
}

int agent_options_check(struct agent_config *config, const struct option_origins *origins,
                        struct err *e)
{
    describe_sources(config, origins);
    settle_timers(config);
    int rc = complete_names(config, origins, e);
    if (rc != 0) {
        return rc;
    }
    rc = check_names(config, origins, e);
    if (rc != 0) {
        return rc;
    }
    rc = check_timers(config, origins, e);
    return rc != 0 ? rc : check_page(config, origins, e);
}
