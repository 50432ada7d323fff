/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpu-host-agent: wiring. The lease keeper and watch feed the readiness FSM through the fanout,
 * which writes the record first and tells every other sink after it. All that begins when the
 * record is ours to write; until then another agent of this node does it, and we stand by.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "host-agent/carry.h"
#include "host-agent/cni/cni_commands.h"
#include "host-agent/cni/cni_sync.h"
#include "host-agent/dra/dra_options.h"
#include "host-agent/dra/dra_service.h"
#include "host-agent/fanout.h"
#include "host-agent/host_options.h"
#include "host-agent/host_page.h"
#include "host-agent/lease_keeper.h"
#include "host-agent/lease_watch.h"
#include "host-agent/sink_condition.h"
#include "host-agent/sink_event.h"
#include "host-agent/sink_record.h"
#include "host-agent/standby.h"
#include "kube/kube_client.h"
#include "kube/kube_conf.h"
#include "loop/daemon.h"
#include "loop/option_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, STOP_GRACE_MS = 5000 };

struct host_agent {
    struct host_config config;
    struct daemon *daemon;
    struct kube_client *client; /* NULL if nothing needs one */
    struct standby *standby;
    struct sink_record *record; /* from here on NULL while standing by */
    struct fanout *fanout;
    struct lease_watch *watch;
    struct lease_keeper *keeper;
    struct dra_service *dra;          /* NULL: off; there while standing by, with a rolling UID */
    struct cni_sync *cni;             /* NULL: off */
    struct sink_event *events;        /* NULL: off */
    struct sink_condition *condition; /* NULL: off */
    struct kube_metrics api_metrics;
    struct host_page *page;
};

/* ---- what the parts tell each other ---------------------------------------------------------- */

static void on_lease_event(void *user, struct expiry_event event)
{
    struct host_agent *host = user;
    fanout_event(host->fanout, event);
}

static void on_lease_seen(void *user, const json_t *lease)
{
    struct host_agent *host = user;
    lease_keeper_look(host->keeper, lease);
}

static void on_lease_written(void *user, const json_t *lease)
{
    struct host_agent *host = user;
    lease_watch_saw(host->watch, lease);
}

static void act_confirm(void *user)
{
    struct host_agent *host = user;
    lease_watch_confirm(host->watch);
}

static void act_look(void *user)
{
    struct host_agent *host = user;
    lease_watch_look(host->watch);
}

static void act_restart_watch(void *user)
{
    struct host_agent *host = user;
    lease_watch_restart(host->watch);
}

static void act_repair(void *user)
{
    struct host_agent *host = user;
    lease_keeper_repair(host->keeper);
}

static void notify_systemd(void *user, const struct readiness *verdict)
{
    struct host_agent *host = user;
    char status[NAMES_MESSAGE_BYTES + 64];
    (void)snprintf(status, sizeof(status), "%s (%s): %s", readiness_state_name(verdict->state),
                   readiness_reason_name(verdict->reason), verdict->message); /* sized for it */
    daemon_notify_ready(host->daemon, status);
}

/* ---- start ----------------------------------------------------------------------------------- */

static struct expiry_config expiry_config_of(const struct host_config *c)
{
    struct expiry_config x = {.renew_interval_ns = c->agent.renew_interval_ns,
                              .duration_ns = c->agent.lease_duration_ns,
                              .api_outage_hold_ns = c->api_outage_hold_ns};
    (void)text_copy(x.lease_ns, sizeof(x.lease_ns), c->agent.lease_namespace); /* checked there */
    (void)text_copy(x.lease_name, sizeof(x.lease_name), c->agent.lease_name);  /* same */
    (void)text_copy(x.holder, sizeof(x.holder), c->agent.holder_identity);     /* same */
    return x;
}

static int start_fanout(struct host_agent *host, struct err *e)
{
    const struct host_config *c = &host->config;
    const struct expiry_config expiry = expiry_config_of(c);
    const struct fanout_sink systemd = {.publish = notify_systemd, .user = host};
    const struct sink_record_config record = {
        .path = c->readiness_file, .node = c->agent.node_name, .stale_hold_ns = c->stale_hold_ns};
    struct ev_loop *loop = daemon_loop(host->daemon);
    struct expiry_carry carry;
    struct err why = ERR_INIT;
    bool carried = carry_read(c->readiness_file, c->agent.node_name, &expiry, &carry, &why) == 0;
    if (!carried && why.code != ERR_NOTFOUND) {
        log_info("main", "the old readiness record is of no use: %s", why.msg);
    }
    int rc = sink_record_new(loop, &record, &host->record, e);
    rc = rc == 0
             ? fanout_new(loop, &expiry, carried ? &carry : NULL, host->record, &host->fanout, e)
             : rc;
    return rc == 0 ? fanout_add_sink(host->fanout, &systemd, e) : rc;
}

static void publish_dra(void *user, const struct readiness *verdict)
{
    struct host_agent *host = user;
    dra_service_publish(host->dra, verdict);
}

static bool is_watch_alive(void *user, struct mono now)
{
    const struct host_agent *host = user;
    return host->fanout ? fanout_makes_progress(host->fanout, now)
                        : standby_vouches(host->standby, now);
}

static bool is_working(void *user, struct mono now)
{
    const struct host_agent *host = user;
    return !host->fanout || fanout_makes_progress(host->fanout, now);
}

static void on_dra_stopped(void *user)
{
    struct host_agent *host = user;
    daemon_quit(host->daemon, 0);
}

static int start_dra(struct host_agent *host, struct err *e)
{
    struct dra_config config = {
        .loop = daemon_loop(host->daemon),
        .client = host->client,
        .node_name = host->config.agent.node_name,
        .renew_interval_ns = host->config.agent.renew_interval_ns,
        .is_monitor_alive = is_watch_alive,
        .on_stopped = on_dra_stopped,
        .user = host,
    };
    int rc = dra_options_apply(&host->config.dra, &config, e);
    return rc == 0 ? dra_service_start(&config, &host->dra, e) : rc;
}

static int connect_dra(struct host_agent *host, struct err *e)
{
    const struct fanout_sink sink = {.publish = publish_dra, .user = host};
    int rc = host->dra ? 0 : start_dra(host, e);
    return rc == 0 ? fanout_add_sink(host->fanout, &sink, e) : rc;
}

static void publish_event(void *user, const struct readiness *verdict)
{
    struct host_agent *host = user;
    sink_event_publish(host->events, verdict);
}

static void publish_condition(void *user, const struct readiness *verdict)
{
    struct host_agent *host = user;
    sink_condition_publish(host->condition, verdict);
}

/* Before the fanout starts: its verdict is still the one that a predecessor left, if any. */
static int start_events(struct host_agent *host, struct err *e)
{
    const struct fanout_sink sink = {.publish = publish_event, .user = host};
    const struct readiness *left = fanout_verdict(host->fanout);
    int rc = sink_event_new(daemon_loop(host->daemon), host->client, host->config.agent.node_name,
                            left->transition.ns != 0 ? left : NULL, &host->events, e);
    return rc == 0 ? fanout_add_sink(host->fanout, &sink, e) : rc;
}

static int start_condition(struct host_agent *host, struct err *e)
{
    const struct fanout_sink sink = {.publish = publish_condition, .user = host};
    int rc = sink_condition_new(daemon_loop(host->daemon), host->client,
                                host->config.agent.node_name, &host->condition, e);
    return rc == 0 ? fanout_add_sink(host->fanout, &sink, e) : rc;
}

static int start_client(struct host_agent *host, struct err *e)
{
    const struct agent_config *a = &host->config.agent;
    struct kube_conf conf = {0};
    int rc = text_is_empty(a->kubeconfig) ? kube_conf_load_in_cluster(NULL, &conf, e)
                                          : kube_conf_load_file(a->kubeconfig, NULL, &conf, e);
    rc = rc == 0 ? kube_client_new(daemon_loop(host->daemon), &conf, &host->client, e) : rc;
    if (rc == 0) {
        kube_metrics_observe(&host->api_metrics, host->client);
    }
    return rc;
}

static int start_lease(struct host_agent *host, struct err *e)
{
    const struct agent_config *a = &host->config.agent;
    const struct expiry_config expiry = expiry_config_of(&host->config);
    struct ev_loop *loop = daemon_loop(host->daemon);
    const struct lease_watch_config watch = {
        .ns = a->lease_namespace,
        .name = a->lease_name,
        .node = a->node_name,
        .renew_interval_ns = a->renew_interval_ns,
        .duration_ns = a->lease_duration_ns,
        .confirm_deadline_ms = expiry_confirm_deadline_ms(&expiry),
        .on_event = on_lease_event,
        .on_lease = on_lease_seen,
        .user = host,
    };
    const struct lease_keeper_config keeper = {
        .ns = a->lease_namespace,
        .name = a->lease_name,
        .node = a->node_name,
        .holder = a->holder_identity,
        .duration_s = (uint32_t)(a->lease_duration_ns / NS_PER_SEC),
        .on_written = on_lease_written,
        .user = host,
    };
    const struct fanout_actions actions = {.confirm = act_confirm,
                                           .look = act_look,
                                           .restart_watch = act_restart_watch,
                                           .repair = act_repair,
                                           .user = host};
    fanout_set_actions(host->fanout, &actions);
    int rc = lease_keeper_start(loop, host->client, &keeper, &host->keeper, e);
    return rc == 0 ? lease_watch_start(loop, host->client, &watch, &host->watch, e) : rc;
}

static int start_page(struct host_agent *host, struct err *e)
{
    const struct host_page_config page = {
        .address = host->config.agent.http_bind_address,
        .node = host->config.agent.node_name,
        .fanout = host->fanout,
        .record = host->record,
        .watch = host->watch,
        .keeper = host->keeper,
        .dra = host->dra,
        .events = host->events,
        .condition = host->condition,
        .api = host->client ? &host->api_metrics : NULL,
    };
    return host_page_start(daemon_loop(host->daemon), &page, &host->page, e);
}

static void log_start(const struct host_agent *host)
{
    const struct agent_config *a = &host->config.agent;
    char interval[32];
    char duration[32];
    text_from_duration(a->renew_interval_ns, interval, sizeof(interval));
    text_from_duration(a->lease_duration_ns, duration, sizeof(duration));
    if (a->disabled_by) {
        log_info(
            "main",
            "the health check is disabled (%s is 0): the node counts as ready whatever the DPU "
            "does",
            a->disabled_by);
    }
    log_info("main", "dpu-host-agent %s: lease %s/%s, interval %s, duration %s, record '%s', %s",
             DPU_VERSION, a->lease_namespace, a->lease_name, interval, duration,
             host->config.readiness_file,
             host->watch ? kube_client_describe(host->client) : "health check disabled");
}

/* The kubelet is told before we go. */
static void on_stop_asked(void *user)
{
    struct host_agent *host = user;
    if (host->dra) {
        dra_service_stop(host->dra);
    } else {
        daemon_quit(host->daemon, 0);
    }
}

static int start_sinks(struct host_agent *host, struct err *e)
{
    struct ev_loop *loop = daemon_loop(host->daemon);
    const struct host_config *c = &host->config;
    int rc = dra_options_enabled(&c->dra) ? connect_dra(host, e) : 0;
    if (rc == 0 && c->cni_sync) {
        rc = cni_sync_start(loop, &c->cni, c->readiness_file, &host->cni, e);
    }
    if (rc == 0 && c->events && host->client) {
        rc = start_events(host, e);
    }
    if (rc == 0 && c->node_condition) {
        rc = start_condition(host, e);
    }
    return rc;
}

/* The record is ours to write. What a predecessor wrote is read now, not before: it is the last
 * word of one that has ended. */
static int begin_work(struct host_agent *host, struct err *e)
{
    int rc = start_fanout(host, e);
    if (rc == 0 && !host->config.agent.disabled_by) {
        rc = start_lease(host, e);
    }
    if (rc == 0) {
        rc = start_sinks(host, e);
    }
    if (rc == 0) {
        rc = start_page(host, e);
    }
    if (rc == 0) {
        log_start(host);
        fanout_start(host->fanout);
    }
    return rc;
}

static void on_turn(void *user)
{
    struct host_agent *host = user;
    struct err e = ERR_INIT;
    if (begin_work(host, &e) != 0) {
        log_error("main", "cannot take over: %s", e.msg);
        daemon_quit(host->daemon, EXIT_FAILURE);
    }
}

static void on_turn_lost(void *user)
{
    struct host_agent *host = user;
    daemon_quit(host->daemon, EXIT_FAILURE); /* and started again we stand by */
}

static void show_writers_verdict(void *user, const struct readiness *verdict)
{
    struct host_agent *host = user;
    if (host->dra) {
        dra_service_show(host->dra, verdict);
    }
}

/* The new pod of a rolling update shows itself to the kubelet before the old one goes, under a name
 * of its own; without one it would only take the old one's sockets away. */
static int stand_by(struct host_agent *host, struct err *e)
{
    const struct dra_options *dra = &host->config.dra;
    daemon_notify_ready(host->daemon, "standing by: another dpu-host-agent writes the record");
    return dra_options_enabled(dra) && !text_is_empty(dra->rolling_uid) ? start_dra(host, e) : 0;
}

static int start(struct host_agent *host, struct err *e)
{
    const struct host_config *c = &host->config;
    struct standby_config standby = {.readiness_file = c->readiness_file,
                                     .node = c->agent.node_name,
                                     .http_address = c->agent.http_bind_address,
                                     .on_verdict = show_writers_verdict,
                                     .on_turn = on_turn,
                                     .on_lost = on_turn_lost,
                                     .user = host};
    int rc = daemon_new(STOP_GRACE_MS, on_stop_asked, host, &host->daemon, e);
    if (rc != 0) {
        return rc;
    }
    daemon_feed_while(host->daemon, is_working);
    if (!c->agent.disabled_by || dra_options_enabled(&c->dra) || c->node_condition) {
        rc = start_client(host, e);
        if (rc != 0) {
            return rc;
        }
    }
    standby.loop = daemon_loop(host->daemon);
    rc = standby_start(&standby, &host->standby, e);
    if (rc != 0) {
        return rc;
    }
    return standby_is_waiting(host->standby) ? stand_by(host, e) : begin_work(host, e);
}

/* The record stays: its own validity ends it, and a restart reads it. */
static void stop(struct host_agent *host)
{
    host_page_stop(host->page);
    cni_sync_stop(host->cni);
    sink_condition_free(host->condition);
    sink_event_free(host->events);
    dra_service_free(host->dra);
    lease_watch_stop(host->watch);
    lease_keeper_stop(host->keeper);
    kube_client_free(host->client);
    fanout_free(host->fanout);
    sink_record_free(host->record);
    standby_stop(host->standby); /* a successor takes over from here */
    daemon_free(host->daemon);
    option_fini(host_options_program(), &host->config);
}

int main(int argc, char **argv)
{
    struct host_agent host = {.daemon = NULL};
    struct err e = ERR_INIT;
    enum option_outcome outcome;
    int status = EXIT_FAILURE;
    if (cni_commands_run(argc, argv, environ, &status)) {
        return status;
    }
    if (option_parse(host_options_program(), argc, argv, environ, &host.config, &outcome, &e) !=
        0) {
        (void)fprintf(stderr, "dpu-host-agent: %s\nTry 'dpu-host-agent --help'.\n", e.msg);
        option_fini(host_options_program(), &host.config);
        return EXIT_USAGE;
    }
    if (outcome == OPTION_EXIT) {
        option_fini(host_options_program(), &host.config);
        return EXIT_SUCCESS;
    }
    log_setup((enum log_level)host.config.agent.log_level,
              (enum log_format)host.config.agent.log_format, host.config.agent.node_name);
    if (start(&host, &e) == 0) {
        status = daemon_run(host.daemon);
    } else {
        log_error("main", "cannot start: %s", e.msg);
    }
    stop(&host);
    return status;
}
