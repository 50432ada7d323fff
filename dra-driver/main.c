/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpu-dra-driver: wiring. The record is the one source of the verdict, so the driver starts, ends
 * and is updated whenever it likes, and nothing that happens to it reaches the judge.
 */
#include "base/log.h"
#include "dra-driver/driver.h"
#include "dra-driver/record_reader.h"
#include "kube/kube_client.h"
#include "loop/daemon.h"
#include "outputs/events.h"

#include <stdlib.h>
#include <unistd.h>

/* An instance of a rolling update serves until another one is registered (DRA_LEAVE_MAX_NS). */
enum { STOP_GRACE_MS = 25000 };

struct driver {
    struct driver_config config;
    struct daemon *daemon;
    struct kube_client *client;
    struct events *events; /* NULL: off */
    struct dra_service *service;
    struct record_reader *record;
    struct driver_page page;
};

static void on_verdict(void *user, const struct readiness *verdict)
{
    struct driver *driver = user;
    daemon_notify_ready(driver->daemon, "%s (%s): %s", readiness_state_name(verdict->state),
                        readiness_reason_word(verdict), verdict->message);
    dra_service_publish(driver->service, verdict);
}

static void look_at_record(void *user)
{
    struct driver *driver = user;
    record_reader_look(driver->record);
}

/* The kubelet is told before we go. */
static void on_stop_asked(void *user)
{
    struct driver *driver = user;
    dra_service_stop(driver->service);
}

static void on_stopped(void *user)
{
    struct driver *driver = user;
    daemon_quit(driver->daemon, dra_service_stats(driver->service)->is_refused ? EXIT_FAILURE : 0);
}

static int start(struct driver *driver, struct err *e)
{
    const struct driver_config *c = &driver->config;
    driver->daemon = daemon_new(STOP_GRACE_MS, on_stop_asked, NULL, driver);
    struct ev_loop *loop = daemon_loop(driver->daemon);
    int rc = kube_client_connect(loop, c->agent.kubeconfig, &driver->client, e);
    if (rc != 0) {
        return rc;
    }
    if (c->events) {
        driver->events = events_new(loop, driver->client, c->agent.node_name);
        events_about_pods_only(driver->events, "dpu-dra-driver");
    }
    const struct dra_config config = {.loop = loop,
                                      .client = driver->client,
                                      .events = driver->events,
                                      .node_name = c->agent.node_name,
                                      .record_path = c->readiness_file,
                                      .options = &c->dra,
                                      .host_root = c->host_root,
                                      .check_interval_ns = DRA_CHECK_NS,
                                      .look = look_at_record,
                                      .on_stopped = on_stopped,
                                      .user = driver};
    rc = dra_service_start(&config, &driver->service, e);
    if (rc != 0) {
        return rc;
    }
    driver->record = record_reader_start(loop, c->readiness_file, on_verdict, driver);
    driver->page = (struct driver_page){
        .config = c, .service = driver->service, .record = driver->record, .api = driver->client};
    rc = driver_page_start(&driver->page, loop, e);
    if (rc == 0) {
        log_info("main", "dpu-dra-driver %s: node %s, record '%s', %s", DPU_VERSION,
                 c->agent.node_name, c->readiness_file, kube_client_describe(driver->client));
    }
    return rc;
}

static void stop(struct driver *driver)
{
    agent_page_stop(driver->page.page);
    record_reader_stop(driver->record);
    dra_service_free(driver->service);
    events_free(driver->events);
    kube_client_free(driver->client);
    daemon_free(driver->daemon);
}

static int run(struct driver *driver)
{
    const struct agent_config *a = &driver->config.agent;
    struct err e = ERR_INIT;
    int status = EXIT_FAILURE;
    log_setup((enum log_level)a->log_level, (enum log_format)a->log_format, a->node_name);
    if (start(driver, &e) == 0) {
        status = daemon_run(driver->daemon);
    } else {
        log_error("main", "cannot start: %s", e.msg);
    }
    stop(driver);
    return status;
}

int main(int argc, char **argv)
{
    struct driver driver = {.daemon = NULL};
    int status;
    daemon_use_memory();
    if (option_take(driver_options_program(), argc, argv, environ, &driver.config, &status)) {
        status = run(&driver);
    }
    option_fini(driver_options_program(), &driver.config);
    return status;
}
