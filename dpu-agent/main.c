/* SPDX-License-Identifier: Apache-2.0 */
/* dpu-agent: renews the heartbeat lease of the node that this DPU serves. Wiring only. */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "dpu-agent/dpu_options.h"
#include "dpu-agent/dpu_page.h"
#include "dpu-agent/lease_writer.h"
#include "kube/kube_client.h"
#include "kube/kube_conf.h"
#include "loop/daemon.h"
#include "probe/health.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define MOD "main"

extern char **environ;

/* Longer than the renewer takes to announce a shutdown. */
enum { GRACE_MS = 3000, EXIT_USAGE = 2, STATUS_BYTES = 600 };

struct agent {
    struct dpu_config config;
    struct daemon *daemon;
    struct kube_client *client;
    struct health *health;
    struct lease_writer *writer; /* NULL: the health check is disabled */
    struct kube_metrics api_metrics;
    struct dpu_page *page;
    bool was_renewed;
};

static void tell_status(struct agent *a, const char *what, const char *detail)
{
    char status[STATUS_BYTES];
    text_format(status, sizeof(status), "%s%s", what, detail);
    daemon_notify_ready(a->daemon, status);
}

static void tell_renewing(struct agent *a)
{
    char what[STATUS_BYTES];
    text_format(what, sizeof(what), "%s lease %s/",
                a->config.heartbeat == DPU_HEARTBEAT_OWN ? "renewing" : "accompanying",
                a->config.agent.lease_namespace);
    tell_status(a, what, a->config.agent.lease_name);
}

static void on_renewed(void *user)
{
    struct agent *a = user;
    if (!a->was_renewed) {
        a->was_renewed = true;
        tell_renewing(a);
    }
}

static void on_stopped(void *user)
{
    struct agent *a = user;
    daemon_quit(a->daemon, EXIT_SUCCESS);
}

static void on_health(void *user, enum verdict_state state, const char *message)
{
    struct agent *a = user;
    if (a->was_renewed && state == VERDICT_UNHEALTHY) {
        tell_status(a, "DPU is unhealthy: ", message);
        a->was_renewed = false; /* the next renewal is news again */
    }
    lease_writer_judge(a->writer, state, message);
}

static void on_stop(void *user)
{
    struct agent *a = user;
    if (a->writer) {
        lease_writer_stop(a->writer);
    } else {
        daemon_quit(a->daemon, EXIT_SUCCESS);
    }
}

/* ---- start ---------------------------------------------------------------------------------- */

static int connect_api(struct agent *a, struct err *e)
{
    const char *file = a->config.agent.kubeconfig;
    struct kube_conf conf = {0};
    int rc = text_is_empty(file) ? kube_conf_load_in_cluster(NULL, &conf, e)
                                 : kube_conf_load_file(file, &conf, e);
    if (rc == ERR_NOTFOUND && text_is_empty(file)) {
        return err_wrap(e, "no --kubeconfig and not in a pod");
    }
    if (rc != 0) {
        return rc;
    }
    rc = kube_client_new(daemon_loop(a->daemon), &conf, &a->client, e);
    if (rc != 0) {
        return rc;
    }
    kube_metrics_observe(&a->api_metrics, a->client);
    log_info(MOD, "using %s", kube_client_describe(a->client));
    return 0;
}

static int make_writer(struct agent *a, struct err *e)
{
    const struct agent_config *c = &a->config.agent;
    struct renewer_config renewer = {
        .interval_ns = c->renew_interval_ns,
        .duration_ns = c->lease_duration_ns,
        .announce_shutdown = a->config.announce_shutdown,
        .is_companion = a->config.heartbeat == DPU_HEARTBEAT_COMPANION,
    };
    struct lease_writer_handlers handlers = {
        .renewed = on_renewed, .stopped = on_stopped, .user = a};
    if (!text_copy(renewer.lease_ns, sizeof(renewer.lease_ns), c->lease_namespace) ||
        !text_copy(renewer.lease_name, sizeof(renewer.lease_name), c->lease_name) ||
        !text_copy(renewer.holder, sizeof(renewer.holder), c->holder_identity) ||
        !text_copy(renewer.node_name, sizeof(renewer.node_name), c->node_name)) {
        return err_set(e, ERR_LIMIT,
                       "namespace, lease name, holder identity or node name is too long");
    }
    /* Fails only on kernels before 3.17; any seed does, as long as agents differ. */
    if (getrandom(&renewer.seed, sizeof(renewer.seed), GRND_NONBLOCK) !=
        (ssize_t)sizeof(renewer.seed)) {
        renewer.seed = (uint64_t)clock_mono_now().ns;
    }
    return lease_writer_new(daemon_loop(a->daemon), a->client, &renewer, &handlers, &a->writer, e);
}

/* What renews the lease. */
static int make_heartbeat(struct agent *a, struct err *e)
{
    int rc = connect_api(a, e);
    if (rc != 0) {
        return rc;
    }
    return make_writer(a, e);
}

static int make_health(struct agent *a, struct err *e)
{
    const struct dpu_config *c = &a->config;
    struct probe_spec defaults = {
        .interval_ns = c->probe_interval_ns,
        .retry_ns = c->probe_interval_ns,
        .timeout_ns = c->probe_timeout_ns,
        .thresholds = {.failures = (uint32_t)c->probe_failure_threshold,
                       .successes = (uint32_t)c->probe_success_threshold},
    };
    return health_new(daemon_loop(a->daemon), c->probes.items, c->probes.count, &defaults,
                      on_health, a, &a->health, e);
}

static int make_page(struct agent *a, struct err *e)
{
    const struct dpu_page_config page = {.agent = &a->config.agent,
                                         .health = a->health,
                                         .writer = a->writer,
                                         .api = a->client ? &a->api_metrics : NULL};
    return dpu_page_start(daemon_loop(a->daemon), &page, &a->page, e);
}

static int set_up(struct agent *a, struct err *e)
{
    int rc = daemon_new(GRACE_MS, on_stop, a, &a->daemon, e);
    if (rc != 0) {
        return rc;
    }
    rc = make_health(a, e);
    if (rc != 0) {
        return rc;
    }
    rc = a->config.agent.disabled_by ? 0 : make_heartbeat(a, e);
    if (rc != 0) {
        return rc;
    }
    return make_page(a, e);
}

static bool is_renewing(void *user, struct mono now)
{
    const struct agent *a = user;
    return lease_writer_makes_progress(a->writer, now);
}

static void begin(struct agent *a)
{
    if (!a->writer) {
        log_info(MOD,
                 "the health check is disabled (%s is 0): no lease is renewed and no probe is run",
                 a->config.agent.disabled_by);
        tell_status(a, "health check disabled", "");
        return;
    }
    if (a->config.probes.count == 0) {
        log_info(MOD, "no probe is configured: the heartbeat says no more than that this agent "
                      "runs");
    }
    tell_status(a, "not yet renewed: lease ", a->config.agent.lease_name);
    daemon_feed_while(a->daemon, is_renewing);
    lease_writer_start(a->writer);
    health_start(a->health);
}

static void tear_down(struct agent *a)
{
    dpu_page_stop(a->page);
    health_free(a->health);
    lease_writer_free(a->writer);
    kube_client_free(a->client);
    daemon_free(a->daemon);
}

static int run(struct agent *a)
{
    struct err e = ERR_INIT;
    const struct agent_config *c = &a->config.agent;
    log_setup((enum log_level)c->log_level, (enum log_format)c->log_format, c->node_name);
    if (set_up(a, &e) != 0) {
        log_error(MOD, "cannot start: %s", e.msg);
        return EXIT_FAILURE;
    }
    begin(a);
    return daemon_run(a->daemon);
}

int main(int argc, char **argv)
{
    struct agent a = {.was_renewed = false};
    enum option_outcome outcome;
    struct err e = ERR_INIT;
    int status = EXIT_SUCCESS;
    if (option_parse(dpu_options_program(), argc, argv, environ, &a.config, &outcome, &e) != 0) {
        (void)fprintf(stderr, "dpu-agent: %s\n", e.msg); /* nowhere else to say it */
        status = EXIT_USAGE;
    } else if (outcome == OPTION_RUN) {
        status = run(&a);
        tear_down(&a);
    }
    option_fini(dpu_options_program(), &a.config);
    return status;
}
