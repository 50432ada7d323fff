/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/agent_options.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_NAME_BYTES = 256, LABEL_MAX_BYTES = 63 };

#define SUBDOMAIN "at most 253 lower-case letters, digits, '-' and '.'"

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

int agent_options_set_node(struct agent_config *config, const char *name, const char *source,
                           struct err *e)
{
    CLEANUP(free) char *lease = mem_format(NAMES_LEASE_PREFIX "%s", name);
    if (!text_is_dns1123_subdomain(name)) {
        return err_set(e, ERR_LIMIT, "%s: '%.63s' is not usable; allowed: " SUBDOMAIN, source,
                       name);
    }
    if (!config->is_lease_given) {
        if (!text_is_dns1123_subdomain(lease)) {
            return err_set(e, ERR_LIMIT,
                           "%s: a node name of %zu bytes is too long for a lease '%s'", source,
                           strlen(name), NAMES_LEASE_PREFIX "NODE");
        }
        replace_text(&config->lease_name, lease);
    }
    replace_text(&config->node_name, name);
    describe_source(config, AGENT_SOURCE_NODE, source);
    return 0;
}

static int check_names(const struct agent_config *config, const struct option_origins *origins,
                       struct err *e)
{
    if (!text_is_empty(config->lease_name) && !text_is_dns1123_subdomain(config->lease_name)) {
        return option_refuse(origins, "lease-name", config->lease_name, SUBDOMAIN, e);
    }
    const char *ns = config->lease_namespace;
    if (!text_is_dns1123_subdomain(ns) || strchr(ns, '.') || strlen(ns) > LABEL_MAX_BYTES) {
        return option_refuse(origins, "namespace", ns,
                             "at most 63 lower-case letters, digits and '-'", e);
    }
    size_t holder_len = strlen(config->holder_identity);
    if (holder_len == 0 || holder_len >= NAMES_HOLDER_BYTES) {
        return option_refuse(origins, "holder-identity", config->holder_identity, "1 to 255 bytes",
                             e);
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
    char allowed[200];
    if (config->disabled_by) {
        return 0;
    }
    if (interval_ns < AGENT_MIN_INTERVAL_MS * NS_PER_MS) {
        return option_refuse(origins, "dpu-node-lease-renew-interval", text_span(interval_ns).text,
                             "0, or at least 100ms", e);
    }
    if (duration_ns % NS_PER_SEC != 0 || duration_ns <= interval_ns) {
        text_format(allowed, sizeof(allowed), "whole seconds, more than the renew interval %s (%s)",
                    text_span(interval_ns).text,
                    option_origin(origins, "dpu-node-lease-renew-interval"));
        return option_refuse(origins, "dpu-node-lease-duration", text_span(duration_ns).text,
                             allowed, e);
    }
    return 0;
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
            describe_source(config, (enum agent_source)i,
                            option_origin(origins, source_options[i]));
        }
    }
}

void agent_options_log(const struct agent_config *config)
{
    bool has_node = !text_is_empty(config->node_name);
    log_info("options", "node %s (%s), namespace %s (%s), renew interval %s (%s), duration %s (%s)",
             has_node ? config->node_name : "unknown",
             has_node ? config->sources[AGENT_SOURCE_NODE] : "not set", config->lease_namespace,
             config->sources[AGENT_SOURCE_NAMESPACE], text_span(config->renew_interval_ns).text,
             config->sources[AGENT_SOURCE_INTERVAL], text_span(config->lease_duration_ns).text,
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
    char from[OPTION_ORIGIN_BYTES];
    describe_sources(config, origins);
    settle_timers(config);
    memcpy(from, config->sources[AGENT_SOURCE_NODE], sizeof(from));
    config->is_lease_given = !text_is_empty(config->lease_name);
    int rc = text_is_empty(config->node_name)
                 ? 0
                 : agent_options_set_node(config, config->node_name, from, e);
    if (rc == 0) {
        rc = check_names(config, origins, e);
    }
    return rc == 0 ? check_timers(config, origins, e) : rc;
}
