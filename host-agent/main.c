/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpu-host-agent: wiring. The monitor judges the DPU and tells everybody. It begins when the record
 * is ours to write; until then another agent of this node does it, and we wait.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "host-agent/host_options.h"
#include "host-agent/host_page.h"
#include "host-agent/host_probes.h"
#include "host-agent/install/cni_install.h"
#include "host-agent/install/cni_sync.h"
#include "host-agent/monitor.h"
#include "host-agent/podnet/podnet.h"
#include "host-agent/record.h"
#include "kube/kube_client.h"
#include "loop/daemon.h"
#include "loop/option.h"
#include "outputs/events.h"

#include <stdlib.h>
#include <unistd.h>

#define PODS_DEBOUNCE_NS (10 * NS_PER_SEC) /* without a health check, which has an interval */

struct host_agent {
    struct host_config config;
    struct daemon *daemon;
    struct kube_client *client; /* NULL if nothing needs one */
    struct events *events;      /* NULL: off */
    struct record_turn *turn;
    struct monitor *monitor;         /* NULL while another agent writes the record */
    struct podnet *pods;             /* NULL: off */
    struct host_probes *host_probes; /* NULL: none; asked once the monitor is there */
    bool is_misused;                 /* --probe is wrong */
    struct cni_sync *cni;            /* NULL: off */
    struct host_page page;
};

static bool pods_count(const struct host_config *c)
{
    return !text_is_empty(c->cri_socket) && c->on_lost_network == PODNET_MODE_STATUS;
}

/* Reads the predecessor's record now, not before: it is the last word of one that has ended. */
static void start_monitor(struct host_agent *host)
{
    const struct host_config *c = &host->config;
    const struct monitor_config config = {
        .daemon = host->daemon,
        .client = host->client,
        .pods = host->pods,
        .events = host->events,
        .verdict = {.lease_ns = c->agent.lease_namespace,
                    .lease_name = c->agent.lease_name,
                    .holder = c->agent.holder_identity,
                    .renew_interval_ns = c->agent.renew_interval_ns,
                    .duration_ns = c->agent.lease_duration_ns,
                    .api_outage_hold_ns = c->api_outage_hold_ns,
                    .pods_count = pods_count(c)},
        .node = c->agent.node_name,
        .dpu = host_options_further_dpu(&c->agent),
        .readiness_file = c->readiness_file,
        .turn = host->turn,
        .stale_hold_ns = c->stale_hold_ns,
        .has_condition = c->node_condition,
        .is_condition_firm = c->node_condition_firm,
    };
    struct record carry;
    struct err why = ERR_INIT;
    bool carried = record_carry_read(c->readiness_file, c->agent.node_name, &config.verdict, &carry,
                                     &why) == 0;
    if (!carried && why.code != ERR_NOTFOUND) {
        log_info("main", "starting without the old readiness record: %s", why.msg);
    }
    if (carried && host->host_probes) {
        host_probes_recall(host->host_probes, &carry.readiness.host_probes);
    }
    host->monitor = monitor_new(&config, carried ? &carry : NULL);
}

static bool is_working(void *user, struct mono now)
{
    const struct host_agent *host = user;
    return !host->monitor || monitor_makes_progress(host->monitor, now);
}

static void on_pods_changed(void *user, size_t lost, const char *words)
{
    char sentence[VERDICT_PODS_BYTES];
    struct host_agent *host = user;
    if (!host->monitor || !pods_count(&host->config)) {
        return;
    }
    text_format(sentence, sizeof(sentence), "Pods of this node have lost their network: %s", words);
    monitor_event(host->monitor,
                  (struct verdict_event){.kind = VERDICT_PODS, .pods = lost > 0 ? sentence : NULL});
}

/* Its times follow the heartbeat's: what is longer than a renewal interval is no blink, and a DPU
 * that was ready for a lease duration has settled. */
static void start_pods(struct host_agent *host)
{
    const struct host_config *c = &host->config;
    int64_t renew_ns = c->agent.renew_interval_ns;
    int64_t interval_ns = renew_ns == 0 ? PODS_DEBOUNCE_NS : renew_ns;
    const struct podnet_config config = {
        .loop = daemon_loop(host->daemon),
        .client = host->client,
        .node = c->agent.node_name,
        .socket = c->cri_socket,
        .root = c->host_root,
        .mode = (enum podnet_mode)c->on_lost_network,
        .plan = {.debounce_ns = interval_ns,
                 .gap_ns = interval_ns / 10,
                 .settle_ns = c->agent.lease_duration_ns},
        .events = host->events,
        .on_change = on_pods_changed,
        .user = host,
    };
    host->pods = podnet_start(&config);
}

static void on_host_probes(void *user, const struct readiness_host_probes *said,
                           const char *accusation)
{
    struct host_agent *host = user;
    monitor_event(host->monitor, (struct verdict_event){.kind = VERDICT_HOST_PROBES,
                                                        .host_probes = said,
                                                        .accusation = accusation});
}

static void on_cni_contested(void *user, const char *sentence)
{
    const struct host_agent *host = user;
    struct event event = {.at = clock_wall_now(),
                          .action = "CNIConfigurationRestored",
                          .reason = "CNIConfigurationContested",
                          .is_warning = true};
    event.key = (uint64_t)event.at.ns;
    text_format(event.note, sizeof(event.note), "%s", sentence);
    if (host->events) {
        events_tell_node(host->events, &event);
    }
}

static void start_cni_sync(struct host_agent *host)
{
    const struct cni_sync_config config = {.loop = daemon_loop(host->daemon),
                                           .options = &host->config.cni,
                                           .readiness_file = host->config.readiness_file,
                                           .on_contested = on_cni_contested,
                                           .user = host};
    host->cni = cni_sync_start(&config);
}

static int start_client(struct host_agent *host, struct err *e)
{
    int rc = kube_client_connect(daemon_loop(host->daemon), host->config.agent.kubeconfig,
                                 &host->client, e);
    if (rc != 0) {
        return rc;
    }
    if (host->config.events) {
        host->events =
            events_new(daemon_loop(host->daemon), host->client, host->config.agent.node_name);
    }
    return 0;
}

static void log_start(const struct host_agent *host)
{
    const struct agent_config *a = &host->config.agent;
    agent_options_log(a);
    if (a->disabled_by) {
        log_info("main",
                 "the health check is disabled (%s is 0): the node is ready whatever the DPU does",
                 a->disabled_by);
    }
    log_info("main", "dpu-host-agent %s: lease %s/%s, record '%s', %s", DPU_VERSION,
             a->lease_namespace, a->lease_name, host->config.readiness_file,
             a->disabled_by ? "health check disabled" : kube_client_describe(host->client));
}

/* The record is ours to write. */
static int begin_work(struct host_agent *host, struct err *e)
{
    const struct host_config *c = &host->config;
    struct ev_loop *loop = daemon_loop(host->daemon);
    if (!text_is_empty(c->cri_socket)) {
        start_pods(host);
    }
    start_monitor(host);
    if (c->cni_sync) {
        start_cni_sync(host);
    } else {
        cni_sync_forget(c->readiness_file);
    }
    host->page = (struct host_page){
        .agent = &c->agent, .monitor = host->monitor, .api = host->client, .pods = host->pods};
    int rc = host_page_start(&host->page, loop, e);
    if (rc != 0) {
        return rc;
    }
    log_start(host);
    if (host->host_probes) {
        host_probes_start(host->host_probes);
    }
    monitor_start(host->monitor);
    return 0;
}

static void on_turn(void *user)
{
    struct host_agent *host = user;
    struct err e = ERR_INIT;
    if (begin_work(host, &e) != 0) {
        log_error("main", "cannot take over from the other dpu-host-agent: %s", e.msg);
        daemon_quit(host->daemon, EXIT_FAILURE);
    }
}

static void on_turn_lost(void *user)
{
    struct host_agent *host = user;
    daemon_quit(host->daemon, EXIT_FAILURE); /* and started again we wait */
}

static int make_host_probes(struct host_agent *host, struct err *e)
{
    const struct host_config *c = &host->config;
    const struct host_probes_config probes = {.loop = daemon_loop(host->daemon),
                                              .probes = c->probes.items,
                                              .count = c->probes.count,
                                              .root = c->host_root,
                                              .on_change = on_host_probes,
                                              .user = host};
    int rc = host_probes_new(&probes, &host->host_probes, e);
    host->is_misused = rc != 0 && rc != ERR_IO;
    return rc;
}

static int start(struct host_agent *host, struct err *e)
{
    const struct host_config *c = &host->config;
    host->daemon = daemon_new(0, NULL, is_working, host);
    int rc = c->probes.count > 0 && !c->agent.disabled_by ? make_host_probes(host, e) : 0;
    if (rc == 0 &&
        (!c->agent.disabled_by || c->node_condition || c->on_lost_network == PODNET_MODE_RESTART)) {
        rc = start_client(host, e);
    }
    if (rc != 0) {
        return rc;
    }
    const struct record_turn_config turn = {.loop = daemon_loop(host->daemon),
                                            .path = c->readiness_file,
                                            .lease_ns = c->agent.lease_namespace,
                                            .lease_name = c->agent.lease_name,
                                            .on_turn = on_turn,
                                            .on_lost = on_turn_lost,
                                            .user = host};
    rc = record_turn_start(&turn, &host->turn, e);
    if (rc != 0) {
        return rc;
    }
    if (record_turn_is_waiting(host->turn)) {
        daemon_notify_ready(host->daemon, "waiting: another dpu-host-agent writes the record");
        return 0;
    }
    return begin_work(host, e);
}

/* The record stays: its own validity ends it, and a restart reads it. */
static void stop(struct host_agent *host)
{
    agent_page_stop(host->page.page);
    cni_sync_stop(host->cni);
    monitor_free(host->monitor);
    podnet_free(host->pods);
    host_probes_free(host->host_probes);
    events_free(host->events);
    kube_client_free(host->client);
    record_turn_stop(host->turn); /* a successor takes over from here */
    daemon_free(host->daemon);
}

static int run(struct host_agent *host)
{
    const struct agent_config *a = &host->config.agent;
    struct err e = ERR_INIT;
    int status;
    log_setup((enum log_level)a->log_level, (enum log_format)a->log_format, a->node_name);
    if (start(host, &e) == 0) {
        status = daemon_run(host->daemon);
    } else {
        log_error("main", "cannot start: %s", e.msg);
        status = host->is_misused ? EXIT_USAGE : EXIT_FAILURE;
    }
    stop(host);
    return status;
}

int main(int argc, char **argv)
{
    struct host_agent host = {.daemon = NULL};
    int status;
    daemon_use_memory();
    if (cni_commands_run(argc, argv, environ, &status)) {
        return status;
    }
    if (option_take(host_options_program(), argc, argv, environ, &host.config, &status)) {
        status = run(&host);
    }
    option_fini(host_options_program(), &host.config);
    return status;
}
