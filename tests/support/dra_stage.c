/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DRA plugin alone, with its verdicts told by a test: dpu-host-agent without lease and record.
 * Never installed.
 *
 *   dra-stage KUBECONFIG KUBELET-ROOT NODE HEALTH-TIMEOUT-SECONDS
 *
 * Prints "started", then publishes each line on stdin as the message of a verdict that is Ready.
 * The end of the input stops it.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "host-agent/dra/dra_service.h"
#include "kube/kube_client.h"
#include "loop/daemon.h"

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 700 };

struct stage {
    struct daemon *daemon;
    struct dra_options options;
    struct dra_service *service;
    ev_io input;
    char line[LINE_BYTES];
    size_t line_len;
};

static bool is_alive(void *user, struct mono now)
{
    return true;
}

static void on_stopped(void *user)
{
    daemon_quit(((struct stage *)user)->daemon, 0);
}

static void on_signal(void *user)
{
    dra_service_stop(((struct stage *)user)->service);
}

static void publish(struct stage *s, const char *line)
{
    struct readiness verdict = {
        .state = READINESS_READY, .admit = true, .reason = REASON_LEASE_RENEWED};
    (void)text_copy(verdict.message, sizeof(verdict.message), line); /* may be cut */
    dra_service_publish(s->service, &verdict);
}

static void on_input(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct stage *s = watcher->data;
    ssize_t len = read(STDIN_FILENO, s->line + s->line_len, sizeof(s->line) - 1 - s->line_len);
    if (len <= 0) {
        ev_io_stop(loop, watcher);
        dra_service_stop(s->service);
        return;
    }
    s->line_len += (size_t)len;
    s->line[s->line_len] = '\0';
    char *newline;
    while ((newline = strchr(s->line, '\n')) != NULL) {
        *newline = '\0';
        publish(s, s->line);
        s->line_len -= (size_t)(newline + 1 - s->line);
        memmove(s->line, newline + 1, s->line_len + 1);
    }
}

static int start(struct stage *s, char **argv, struct kube_client *client, struct err *e)
{
    int64_t timeout_s = 30;
    static char driver[] = "dpu.example.com";
    static char device[] = "dpu0";
    struct dra_options *o = &s->options;
    const struct dra_config config = {
        .loop = daemon_loop(s->daemon),
        .client = client,
        .node_name = argv[3],
        .options = o,
        .check_interval_ns = NS_PER_SEC,
        .is_monitor_alive = is_alive,
        .on_stopped = on_stopped,
        .user = s,
    };
    int rc = text_to_i64(argv[4], strlen(argv[4]), &timeout_s, e);
    *o = (struct dra_options){
        .mode = DRA_ON,
        .driver = driver,
        .device = device,
        .dirs.kubelet_root = argv[2],
        .health_timeout_ns = mono_ns_mul(timeout_s, NS_PER_SEC),
    };
    if (rc != 0 || (rc = dra_options_check(o, e)) != 0) {
        return rc;
    }
    return dra_service_start(&config, &s->service, e);
}

int main(int argc, char **argv)
{
    struct stage s = {.line_len = 0};
    struct kube_conf conf = {.server = NULL};
    struct kube_client *client = NULL;
    struct err e = ERR_INIT;
    if (argc != 5) {
        (void)fputs("usage: dra-stage KUBECONFIG KUBELET-ROOT NODE TIMEOUT\n", stderr);
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a test waits for the lines */
    s.daemon = daemon_new(2000, on_signal, &s);
    if (kube_conf_load(argv[1], NULL, &conf, &e) != 0 ||
        kube_client_new(daemon_loop(s.daemon), &conf, &client, &e) != 0 ||
        start(&s, argv, client, &e) != 0) {
        (void)fprintf(stderr, "dra-stage: %s\n", e.msg);
        return 1;
    }
    ev_io_init(&s.input, on_input, STDIN_FILENO, EV_READ);
    s.input.data = &s;
    ev_io_start(daemon_loop(s.daemon), &s.input);
    (void)puts("started");
    int status = daemon_run(s.daemon);
    dra_service_free(s.service);
    kube_client_free(client);
    daemon_free(s.daemon);
    return status;
}
