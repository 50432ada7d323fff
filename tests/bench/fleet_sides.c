/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/fleet.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/names.h"
#include "dpu-agent/lease_writer.h"
#include "host-agent/lease_watch.h"
#include "host-agent/monitor.h"
#include "host-agent/record.h"
#include "kube/kube_client.h"
#include "kube/kube_conf.h"
#include "loop/daemon.h"
#include "outputs/events.h"

#include <ev.h>
#include <stdlib.h>

#define TICK_S 0.1 /* how often more sides are started that are due */

/* On machines of their own they have a processor each for their TLS handshakes. More at a time than
 * this machine can do would only run into their deadlines together. */
enum { CONNECTING_MAX = 5, LOOK_TICKS = 10 /* the hosts are looked at every so many */ };

struct side {
    struct fleet *fleet;
    char node[NAMES_K8S_NAME_BYTES];
    char lease[NAMES_K8S_NAME_BYTES];
    struct kube_client *client;
    struct monitor *monitor;     /* of a host */
    struct events *events;       /* of a host */
    char *record;                /* of a host: its path */
    struct lease_writer *writer; /* of a DPU */
    struct mono renewed_at;
    uint64_t renewals;
    uint64_t failures;
    uint64_t changes; /* of a host: to NotReady */
    enum readiness_state state;
    bool was_ready; /* once */
};

struct fleet {
    struct fleet_config config;
    struct side *sides;
    size_t rolled; /* of them; all: nothing is to be started */
    struct mono rolls_since;
    int64_t spread_ns; /* within which they are started */
    ev_timer tick;
    unsigned int ticks;
    struct fleet_report since;
    int64_t *samples;
};

/* ---- DPUs ------------------------------------------------------------------------------------ */

static void on_renewed(void *user)
{
    struct side *s = user;
    struct mono now = clock_mono_now();
    struct fleet *f = s->fleet;
    int64_t late_ns = f->config.interval_ns + f->config.interval_ns / 2;
    f->since.late += s->renewed_at.ns != 0 && mono_reached(now, mono_add(s->renewed_at, late_ns));
    s->renewed_at = now;
}

static void on_stopped(void *user)
{
}

static int start_dpu(struct side *s, struct err *e)
{
    const struct fleet_config *c = &s->fleet->config;
    struct renewer_config renewer = {
        .lease_ns = NAMES_LEASE_NAMESPACE,
        .holder = NAMES_HOLDER_IDENTITY,
        .interval_ns = c->interval_ns,
        .duration_ns = c->duration_ns,
        .seed = (uint64_t)(s - s->fleet->sides) + 1,
    };
    const struct lease_writer_handlers handlers = {
        .renewed = on_renewed, .stopped = on_stopped, .user = s};
    text_format(renewer.lease_name, sizeof(renewer.lease_name), NAMES_LEASE_PREFIX "%s", s->node);
    text_format(renewer.node_name, sizeof(renewer.node_name), "%s", s->node);
    int rc = clock_boot_id(renewer.boot_id, e);
    if (rc != 0) {
        return rc;
    }
    s->writer = lease_writer_start(daemon_loop(c->daemon), s->client, &renewer, &handlers);
    lease_writer_judge(s->writer, PROBE_HEALTHY, "");
    return 0;
}

static uint64_t count_failures(const struct side *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < LEASE_FAILURES; i++) {
        sum += lease_writer_stats(s->writer)->failures[i];
    }
    return sum - lease_writer_stats(s->writer)->late;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static void start_host(struct side *s)
{
    const struct fleet_config *c = &s->fleet->config;
    s->record = mem_format("%s/%s/readiness.json", c->dir, s->node);
    s->events = events_new(daemon_loop(c->daemon), s->client, s->node);
    text_format(s->lease, sizeof(s->lease), NAMES_LEASE_PREFIX "%s", s->node);
    struct monitor_config monitor = {
        .daemon = c->daemon,
        .client = s->client,
        .verdict = {.lease_ns = NAMES_LEASE_NAMESPACE,
                    .lease_name = s->lease,
                    .holder = NAMES_HOLDER_IDENTITY,
                    .renew_interval_ns = c->interval_ns,
                    .duration_ns = c->duration_ns,
                    .api_outage_hold_ns = VERDICT_HOLD_UNLIMITED},
        .node = s->node,
        .readiness_file = s->record,
        .stale_hold_ns = 300 * NS_PER_SEC,
        .events = s->events,
    };
    struct record carry;
    struct err why = ERR_INIT;
    bool carried = s->was_ready && record_carry_read(s->record, s->node, &monitor.verdict, &carry,
                                                     &why) == 0; /* of a former fleet: none */
    s->monitor = monitor_new(&monitor, carried ? &carry : NULL);
    monitor_start(s->monitor);
}

static void look_at(struct fleet *f, struct side *s, struct mono now)
{
    const struct monitor_stats stats = monitor_stats(s->monitor, now);
    if (stats.renewals != s->renewals && stats.has_skew && f->since.samples < FLEET_SAMPLES_MAX) {
        f->samples[f->since.samples++] = -stats.skew_ns; /* stamped on the same machine */
    }
    uint64_t changes = 0;
    for (enum readiness_reason i = 0; i < REASON_COUNT; i++) {
        changes += readiness_reason_traits(i)->state == READINESS_NOT_READY ? stats.changes[i] : 0;
    }
    f->since.fell += s->was_ready ? changes - s->changes : 0;
    s->changes = changes;
    s->renewals = stats.renewals;
    s->state = monitor_verdict(s->monitor)->state;
    s->was_ready = s->was_ready || s->state == READINESS_READY;
}

static void look(struct fleet *f)
{
    struct mono now = clock_mono_now();
    for (size_t i = 0; i < f->config.count; i++) {
        if (f->sides[i].monitor) {
            look_at(f, &f->sides[i], now);
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static int start_side(struct side *s, size_t number, struct err *e)
{
    const struct fleet_config *c = &s->fleet->config;
    struct kube_conf conf = {0};
    text_format(s->node, sizeof(s->node), "w-%zu", c->first + number);
    CLEANUP(free) char *kubeconfig = mem_format("%s.%s", c->kubeconfig, s->node);
    int rc = kube_conf_load(kubeconfig, NULL, &conf, e);
    if (rc != 0) {
        return rc;
    }
    rc = kube_client_new(daemon_loop(c->daemon), &conf, &s->client, e);
    if (rc != 0) {
        return rc;
    }
    if (!c->is_host) {
        return start_dpu(s, e);
    }
    start_host(s);
    return 0;
}

static void stop_side(struct side *s)
{
    monitor_free(TAKE(s->monitor));
    events_free(TAKE(s->events));
    lease_writer_free(TAKE(s->writer));
    kube_client_free(TAKE(s->client));
    free(TAKE(s->record));
}

/* How many may start now. Hosts connect until their watch is open. */
static size_t count_due(const struct fleet *f, struct mono now)
{
    double passed = (double)mono_since(now, f->rolls_since) / (double)(f->spread_ns + 1);
    size_t due = passed < 1 ? (size_t)(passed * (double)f->config.count) : f->config.count;
    size_t room = CONNECTING_MAX;
    due -= due < f->rolled ? due : f->rolled;
    for (size_t i = 0; due > 0 && i < f->rolled && room > 0; i++) {
        const struct monitor *m = f->sides[i].monitor;
        room -= m && lease_watch_stats(monitor_parts(m)->watch)->watches == 0;
    }
    return due < room ? due : room;
}

/* As many as are due. One that cannot start again is not ready. */
static void roll_some(struct fleet *f, struct mono now)
{
    for (size_t due = count_due(f, now); due > 0; due--, f->rolled++) {
        struct side *s = &f->sides[f->rolled];
        struct err e = ERR_INIT;
        stop_side(s);
        s->renewals = s->failures = s->changes = 0;
        if (start_side(s, f->rolled, &e) != 0) {
            log_error("fleet", "%s", e.msg);
            s->state = READINESS_NOT_READY;
        }
    }
}

static void roll(struct fleet *f, int64_t spread_ns)
{
    f->rolled = 0;
    f->rolls_since = clock_mono_now();
    f->spread_ns = spread_ns;
}

static void on_tick(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct fleet *f = w->data;
    roll_some(f, clock_mono_now());
    if (f->ticks++ % LOOK_TICKS == 0) {
        look(f);
    }
}

struct fleet *fleet_start(const struct fleet_config *config)
{
    struct fleet *f = MEM_NEW(struct fleet);
    f->sides = mem_calloc(config->count, sizeof(*f->sides));
    f->samples = mem_calloc(FLEET_SAMPLES_MAX, sizeof(*f->samples));
    f->config = *config;
    ev_timer_init(&f->tick, on_tick, TICK_S, TICK_S);
    f->tick.data = f;
    ev_timer_start(daemon_loop(config->daemon), &f->tick);
    for (size_t i = 0; i < config->count; i++) {
        f->sides[i].fleet = f;
    }
    roll(f, config->spread_ns);
    return f;
}

void fleet_free(struct fleet *f)
{
    for (size_t i = 0; i < f->config.count; i++) {
        stop_side(&f->sides[i]);
    }
    ev_timer_stop(daemon_loop(f->config.daemon), &f->tick);
    free(f->samples);
    free(f->sides);
    free(f);
}

void fleet_roll(struct fleet *f, int64_t duration_ns)
{
    f->config.duration_ns = duration_ns;
    roll(f, FLEET_ROLLOUT_S * NS_PER_SEC);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void fleet_report(struct fleet *f, struct fleet_report *out)
{
    look(f);
    size_t n = f->since.samples;
    *out = f->since;
    f->since = (struct fleet_report){0};
    for (size_t i = 0; i < f->config.count; i++) {
        struct side *s = &f->sides[i];
        out->ready += s->state == READINESS_READY;
        if (s->writer) {
            uint64_t failures = count_failures(s);
            out->failures += (int64_t)(failures - s->failures);
            s->failures = failures;
            out->ready += lease_writer_stats(s->writer)->renewals > 0;
        }
    }
    if (n > 0) {
        qsort(f->samples, n, sizeof(*f->samples), compare);
        out->p50_ns = f->samples[n / 2];
        out->p99_ns = f->samples[n * 99 / 100];
    }
}
