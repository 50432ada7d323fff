/* SPDX-License-Identifier: Apache-2.0 */
/* dpu-agent: renews the heartbeat lease of the node that this DPU serves. Wiring, and its HTTP page
 * (loop/agent_page.h). */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "dpu-agent/dpu_metrics.h"
#include "dpu-agent/dpu_options.h"
#include "dpu-agent/lease_writer.h"
#include "kube/kube_answer.h"
#include "kube/kube_client.h"
#include "loop/agent_page.h"
#include "loop/daemon.h"
#include "probe/probe_set.h"

#include <stdlib.h>
#include <string.h>

#define MOD "main"

extern char **environ;

_Static_assert((int)NAMES_BOOT_ID_BYTES == (int)CLOCK_BOOT_ID_BYTES, "one bound for a boot's id");

#define NODE_NAME_SOURCE "external_ids:host-k8s-nodename of OVS"
#define LOG_UNKNOWN_NS   (60 * NS_PER_SEC)

/* Longer than the renewer takes to announce a shutdown. */
enum { GRACE_MS = 3000, NODE_AWAITED_BYTES = 400 };

struct agent {
    struct dpu_config config;
    struct daemon *daemon;
    struct kube_client *client;
    struct probe_set *probes;
    struct probe *node_name;          /* asks OVS for it; NULL: an option names the node */
    char awaited[NODE_AWAITED_BYTES]; /* why it is not known; "" once it is */
    struct log_repeat complaints;     /* of the same */
    struct lease_writer *writer; /* NULL: the health check is disabled, or the node is not known */
    struct agent_page *page;
    bool was_renewed;
};

static void on_renewed(void *user)
{
    struct agent *a = user;
    if (!a->was_renewed) {
        a->was_renewed = true;
        daemon_notify_ready(a->daemon, "%s lease %s/%s",
                            a->config.heartbeat == DPU_HEARTBEAT_OWN ? "renewing" : "accompanying",
                            a->config.agent.lease_namespace, a->config.agent.lease_name);
    }
}

static void on_stopped(void *user)
{
    struct agent *a = user;
    daemon_quit(a->daemon, EXIT_SUCCESS);
}

static void on_health(void *user, enum probe_health state, const char *message)
{
    struct agent *a = user;
    if (a->was_renewed && state == PROBE_UNHEALTHY) {
        daemon_notify_ready(a->daemon, "DPU is unhealthy: %s", message);
        a->was_renewed = false; /* the next renewal is news again */
    }
    if (a->writer) {
        lease_writer_judge(a->writer, state, message);
    }
}

static void on_stop(void *user)
{
    struct agent *a = user;
    probe_free(TAKE(a->node_name)); /* it is followed no more */
    if (a->writer) {
        lease_writer_stop(a->writer);
    } else {
        daemon_quit(a->daemon, EXIT_SUCCESS);
    }
}

/* ---- the heartbeat --------------------------------------------------------------------------- */

static void start_writer(struct agent *a)
{
    const struct agent_config *c = &a->config.agent;
    const struct probe_state *v = probe_set_state(a->probes);
    struct err e = ERR_INIT;
    struct renewer_config renewer = {
        .interval_ns = c->renew_interval_ns,
        .duration_ns = c->lease_duration_ns,
        .announce_shutdown = a->config.announce_shutdown,
        .version = DPU_VERSION,
        .seed = (uint64_t)clock_wall_now().ns,
        .has_no_probe = a->config.probes.count == 0,
        .is_companion = a->config.heartbeat == DPU_HEARTBEAT_COMPANION,
    };
    const struct lease_writer_handlers handlers = {
        .renewed = on_renewed, .stopped = on_stopped, .user = a};
    /* The options have bounded them. */
    text_format(renewer.lease_ns, sizeof(renewer.lease_ns), "%s", c->lease_namespace);
    text_format(renewer.lease_name, sizeof(renewer.lease_name), "%s", c->lease_name);
    text_format(renewer.holder, sizeof(renewer.holder), "%s", c->holder_identity);
    text_format(renewer.node_name, sizeof(renewer.node_name), "%s", c->node_name);
    if (clock_boot_id(renewer.boot_id, &e) != 0) {
        log_warn(MOD, "%s, continuing: the host will not detect reboots of this DPU", e.msg);
    }
    daemon_notify_ready(a->daemon, "not yet renewed: lease %s", c->lease_name);
    a->was_renewed = false;
    a->writer = lease_writer_start(daemon_loop(a->daemon), a->client, &renewer, &handlers);
    if (v->state != PROBE_HEALTH_UNKNOWN) {
        lease_writer_judge(a->writer, v->state, v->message);
    }
}

static void set_up_log(const struct agent_config *c)
{
    log_setup((enum log_level)c->log_level, (enum log_format)c->log_format,
              c->node_name ? c->node_name : "");
}

/* ---- the node's name -------------------------------------------------------------------------
 *
 * The node that this DPU serves, where no option names it: ovn-kubernetes itself goes by the same
 * on a DPU. The DPU's own host name is not the node's, so nothing is guessed. Asked again and
 * again, so that a change is followed; an OVS that does not answer, or a name that is taken away,
 * changes nothing. */

static void complain_of_name(struct agent *a, const char *why)
{
    bool is_news = !a->writer && !text_equal(a->awaited, why);
    if (is_news) {
        log_repeat_reset(&a->complaints);
        text_format(a->awaited, sizeof(a->awaited), "%s", why);
        daemon_notify_ready(a->daemon, "waiting for the node's name: %s", why);
    }
    (void)log_limited(&a->complaints, LOG_UNKNOWN_NS, LOG_WARN, "node", "%s: %s",
                      a->writer ? "the node's name may be outdated"
                                : "waiting for the name of the node that this DPU serves",
                      why);
}

/* Another name: the former lease runs out, as it would with the agent of another DPU. */
static void follow_name(struct agent *a, const char *name)
{
    struct agent_config *c = &a->config.agent;
    struct err e = ERR_INIT;
    if (a->writer && text_equal(c->node_name, name)) {
        log_repeat_reset(&a->complaints);
        return;
    }
    if (a->writer) {
        log_warn(MOD, "the node's name was '%s' and has changed: no longer renewing lease '%s/%s'",
                 c->node_name, c->lease_namespace, c->lease_name);
    }
    if (agent_options_set_node(c, name, NODE_NAME_SOURCE, &e) != 0) {
        complain_of_name(a, e.msg);
        return;
    }
    lease_writer_free(a->writer);
    a->awaited[0] = '\0';
    set_up_log(c);
    agent_options_log(c);
    start_writer(a);
}

static void on_name(void *user, const struct probe_result *result)
{
    struct agent *a = user;
    if (result->outcome != PROBE_PASSED) {
        complain_of_name(a, result->reason);
    } else if (result->reason[0] == '\0') {
        complain_of_name(a, NODE_NAME_SOURCE " is not set; set it, or give --node-name");
    } else {
        follow_name(a, result->reason);
    }
}

/* ---- the page --------------------------------------------------------------------------------
 *
 * /readyz speaks of the agent: it is ready once the lease was renewed, and stays so while a DPU is
 * unhealthy, which it says. /servingz is the opposite: it speaks of the DPU's services, and knows
 * of no lease. */

/* The worth of a heartbeat without probes. */
static const char *no_probe(const struct agent *a)
{
    return a->config.heartbeat == DPU_HEARTBEAT_COMPANION
               ? "no probe is configured, so this companion reports nothing: set "
                 "--probe=ovn-kubernetes"
               : "no probe is configured, so this heartbeat proves only that dpu-agent runs: set "
                 "--probe=ovn-kubernetes";
}

static const struct lease_writer_stats *lease_stats(const struct agent *a)
{
    return a->writer ? lease_writer_stats(a->writer) : NULL;
}

static void write_metrics(void *user, struct buf *out)
{
    const struct agent *a = user;
    dpu_metrics_write(probe_set_state(a->probes), lease_stats(a), clock_mono_now(), out);
    if (a->client) {
        kube_metrics_write(kube_client_metrics(a->client), out);
    }
}

/* For the service manager's watchdog, too. */
static bool is_renewing(void *user, struct mono now)
{
    const struct agent *a = user;
    return !a->writer || lease_writer_makes_progress(a->writer, now);
}

static bool is_live(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const char *why = "the agent no longer renews the lease: a wake-up is overdue";
    bool works = is_renewing(user, clock_mono_now());
    return agent_page_answer(words, works, "%s", works ? "" : why);
}

static bool is_ready(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct agent *a = user;
    const struct lease_writer_stats *lease = lease_stats(a);
    const struct probe_state *v = probe_set_state(a->probes);
    if (a->config.agent.disabled_by) {
        return agent_page_answer(words, true, "the health check is disabled");
    }
    if (!lease) {
        return agent_page_answer(words, false, "the agent does not know the node's name: %.300s",
                                 a->awaited);
    }
    if (v->state == PROBE_UNHEALTHY) {
        return agent_page_answer(
            words, true, "the DPU is unhealthy, and the agent reports that on the lease: %.300s",
            v->message);
    }
    if (lease->renewals == 0) {
        return agent_page_answer(words, false,
                                 "the agent has not renewed the lease yet; its log says why");
    }
    int64_t age_ns = mono_since(clock_mono_now(), lease->renewed_at);
    return agent_page_answer(words, age_ns < a->config.agent.lease_duration_ns,
                             "the agent renewed the lease %.1f s ago",
                             (double)age_ns / (double)NS_PER_SEC);
}

/* The probes' result alone: whoever acts on it must not act on an API server that is away. */
static bool is_serving(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct agent *a = user;
    const struct probe_state *v = probe_set_state(a->probes);
    if (a->config.agent.disabled_by) {
        return agent_page_answer(words, true, "the health check is disabled: no probe runs");
    }
    if (v->state == PROBE_HEALTH_UNKNOWN) {
        return agent_page_answer(words, false, "some probes have no result yet");
    }
    if (v->state == PROBE_UNHEALTHY) {
        return agent_page_answer(words, false, "%s", v->message);
    }
    return agent_page_answer(words, true, "%s",
                             v->probe_count > 0 ? "every probe passes" : no_probe(a));
}

static json_t *describe_probe(const struct probe_history *probe)
{
    const char *state = !probe->ran ? "Unknown" : probe->failing ? "Failing" : "Passing";
    char name[2 * PROBE_NAME_BYTES];
    char reason[2 * PROBE_WORDS_BYTES];
    text_sanitize(name, sizeof(name), probe->name, strlen(probe->name));
    text_sanitize(reason, sizeof(reason), probe->reason, strlen(probe->reason));
    json_t *runs = json_object();
    for (enum probe_outcome o = PROBE_PASSED; o < PROBE_OUTCOME_COUNT; o++) {
        (void)json_object_set_new(runs, probe_outcome_name(o),
                                  json_integer((json_int_t)probe->runs[o]));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "probe", name, "state", state, "outcome",
                     probe_outcome_name(probe->outcome), "reason", reason, "runs", runs,
                     "lastSeconds", agent_page_seconds(probe->last_ns));
}

static json_t *describe_probes(const struct agent *a)
{
    const struct probe_state *v = probe_set_state(a->probes);
    json_t *probes = json_array();
    for (size_t i = 0; i < v->probe_count; i++) {
        (void)json_array_append_new(probes, describe_probe(&v->probes[i]));
    }
    return probes;
}

static json_t *describe(const void *user)
{
    const struct agent *a = user;
    static const char *const states[] = {[PROBE_HEALTH_UNKNOWN] = "Unknown",
                                         [PROBE_HEALTHY] = "Healthy",
                                         [PROBE_UNHEALTHY] = "Unhealthy"};
    const struct agent_config *c = &a->config.agent;
    const struct probe_state *v = probe_set_state(a->probes);
    const struct lease_writer_stats *lease = lease_stats(a);
    bool was_renewed = lease && lease->renewals > 0;
    const char *phase = c->disabled_by ? "Disabled"
                        : a->writer    ? lease_writer_phase(a->writer)
                                       : "AwaitingNodeName";
    return json_pack("{s:s, s:s*, s:s, s:s, s:o, s:{s:s, s:s*}, s:s, s:o, s:o}", "version",
                     DPU_VERSION, "node", c->node_name, "health", states[v->state], "message",
                     v->probe_count > 0 ? v->message : no_probe(a), "probes", describe_probes(a),
                     "lease", "namespace", c->lease_namespace, "name", c->lease_name, "renewer",
                     phase, "lastRenewalAgeSeconds",
                     was_renewed
                         ? agent_page_seconds(mono_since(clock_mono_now(), lease->renewed_at))
                         : json_null(),
                     "sources", agent_options_sources(c));
}

/* ---- start ---------------------------------------------------------------------------------- */

/* Makes the client and, if need be, the search for the node's name. */
static int make_client(struct agent *a, struct err *e)
{
    int rc = kube_client_connect(daemon_loop(a->daemon), a->config.agent.kubeconfig, &a->client, e);
    if (rc != 0) {
        return rc;
    }
    log_info(MOD, "using %s", kube_client_describe(a->client));
    if (text_is_empty(a->config.agent.node_name)) {
        const struct probe_spec spec = probe_spec_of_node_name(a->config.ovs_rundir);
        return probe_new(daemon_loop(a->daemon), &spec, 0, on_name, a, &a->node_name, e);
    }
    return 0;
}

static int make_health(struct agent *a, struct err *e)
{
    const struct dpu_config *c = &a->config;
    struct probe_spec defaults = {
        .interval_ns = c->probe_interval_ns,
        .root = "",
        .ovs_run_dir = c->ovs_rundir,
        .ovn_run_dir = text_is_empty(c->ovn_rundir) ? c->ovs_rundir : c->ovn_rundir,
        .timeout_ns = c->probe_timeout_ns,
        .thresholds = {.failures = (uint32_t)c->probe_failure_threshold,
                       .successes = (uint32_t)c->probe_success_threshold},
    };
    const struct probe_set_config config = {.probes = c->probes.items,
                                            .count = c->probes.count,
                                            .defaults = &defaults,
                                            .change = on_health,
                                            .user = a};
    return probe_set_new(daemon_loop(a->daemon), &config, &a->probes, e);
}

static int make_page(struct agent *a, struct err *e)
{
    const struct agent_page_config page = {.address = a->config.agent.http_bind_address,
                                           .program = "dpu-agent",
                                           .is_live = is_live,
                                           .is_ready = is_ready,
                                           .is_serving = is_serving,
                                           .write_metrics = write_metrics,
                                           .describe = describe,
                                           .user = a};
    return agent_page_start(daemon_loop(a->daemon), &page, &a->page, e);
}

static int set_up(struct agent *a, struct err *e)
{
    a->daemon = daemon_new(GRACE_MS, on_stop, is_renewing, a);
    int rc = make_health(a, e);
    if (rc == 0 && !a->config.agent.disabled_by) {
        rc = make_client(a, e);
    }
    if (rc != 0) {
        return rc;
    }
    return make_page(a, e);
}

static void begin(struct agent *a)
{
    agent_options_log(&a->config.agent);
    if (a->config.agent.disabled_by) {
        log_info(
            MOD,
            "the health check is disabled (%s is 0): the agent renews no lease and runs no probe",
            a->config.agent.disabled_by);
        daemon_notify_ready(a->daemon, "health check disabled");
        return;
    }
    if (a->config.probes.count == 0) {
        log_warn(MOD, "%s; see --probe", no_probe(a));
    }
    if (a->node_name) {
        probe_start(a->node_name);
    } else {
        start_writer(a);
    }
    probe_set_start(a->probes);
}

static void tear_down(struct agent *a)
{
    agent_page_stop(a->page);
    probe_free(a->node_name);
    probe_set_free(a->probes);
    lease_writer_free(a->writer);
    kube_client_free(a->client);
    daemon_free(a->daemon);
}

static int run(struct agent *a)
{
    struct err e = ERR_INIT;
    set_up_log(&a->config.agent);
    int rc = set_up(a, &e);
    if (rc != 0) {
        bool is_misused = !a->probes && rc != ERR_IO; /* --probe is wrong */
        log_error(MOD, "cannot start: %s", e.msg);
        return is_misused ? EXIT_USAGE : EXIT_FAILURE;
    }
    begin(a);
    return daemon_run(a->daemon);
}

int main(int argc, char **argv)
{
    struct agent a = {.was_renewed = false};
    int status;
    daemon_use_memory();
    if (option_take(dpu_options_program(), argc, argv, environ, &a.config, &status)) {
        status = run(&a);
        tear_down(&a);
    }
    option_fini(dpu_options_program(), &a.config);
    return status;
}
