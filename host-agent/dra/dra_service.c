/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/dra_service.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "host-agent/dra/claim_events.h"
#include "host-agent/dra/claim_lookup.h"
#include "host-agent/dra/claim_store.h"
#include "host-agent/dra/health.h"
#include "host-agent/dra/plugin.h"
#include "host-agent/dra/projection.h"
#include "host-agent/dra/registration.h"
#include "host-agent/dra/serialize.h"
#include "host-agent/dra/slice_publisher.h"
#include "host-agent/grpc/listen.h"
#include "loop/daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SOCKET_MODE = 0600 /* kubelets are root */ };

struct dra_service {
    struct dra_config config;
    struct socket_names names;
    struct registration registration;
    struct health health;
    struct plugin plugin;
    struct serialize lock;        /* fd -1: not open, or no rolling updates */
    struct file_lock driver_lock; /* held with the sockets, but by a second */
    struct claim_lookup lookup;
    struct claim_store store;
    struct claim_events *claims;
    struct slice_publisher *publisher;
    struct grpc_router registration_router;
    struct grpc_router dra_router;
    struct grpc_listener *registration_listener; /* NULL: not listening */
    struct grpc_listener *dra_listener;
    struct log_repeat socket_warnings;
    struct boot_timer *timer; /* heartbeat, sockets */
    struct mono next_check;
    struct boot_timer *stop_timer;
    bool is_stopping;
    int draining; /* listeners that are */
};

static void rearm(struct dra_service *s)
{
    struct mono next = MONO_NEVER;
    if (!s->is_stopping) {
        next = mono_min(health_next_tick(&s->health), s->next_check);
    }
    boot_timer_arm(s->timer, next);
}

/* ---- sockets ---- */

static void stopped_if_drained(struct dra_service *s)
{
    s->draining--;
    if (s->draining == 0) {
        boot_timer_arm(s->stop_timer, clock_mono_now()); /* from the loop, not from a callback */
    }
}

static void on_drained(void *user)
{
    stopped_if_drained(user);
}

static int listen_on(struct dra_service *s, const char *name, const char *path,
                     const struct grpc_router *router, struct grpc_listener **out, struct err *e)
{
    struct grpc_listener_config config = {
        .loop = s->config.loop,
        .name = name,
        .path = path,
        .mode = SOCKET_MODE,
        .router = router,
        .on_drained = on_drained,
        .user = s,
    };
    int rc = grpc_listener_start(&config, out, e);
    return rc == 0 ? 0 : err_wrap(e, "serving '%s'", name);
}

static void close_sockets(struct dra_service *s)
{
    grpc_listener_free(s->registration_listener);
    grpc_listener_free(s->dra_listener);
    s->registration_listener = NULL;
    s->dra_listener = NULL;
    s->registration.is_registered = false;
    file_lock_release(&s->driver_lock);
}

static const char *lock_dir(const struct dra_service *s)
{
    return text_is_empty(s->config.lock_dir) ? s->names.plugin_dir : s->config.lock_dir;
}

/* One agent of a node is the driver of one name: two that would serve it (two DPUs, one
 * --dra-driver-name) would take each other's sockets and slice away. */
static int lock_driver(struct dra_service *s, struct err *e)
{
    if (s->driver_lock.fd >= 0) {
        return 0;
    }
    int rc = file_lock_init(&s->driver_lock, lock_dir(s), "/driver.lock", e);
    if (rc != 0 || (rc = file_lock_take(&s->driver_lock, e)) != ERR_CONFLICT) {
        return rc;
    }
    return err_set(e, ERR_CONFLICT,
                   "driver '%s' is another dpu-host-agent's: each DPU of a node needs a "
                   "--dra-driver-name of its own (lock '%s')",
                   s->config.driver, s->driver_lock.path);
}

static int take_driver(struct dra_service *s, struct err *e)
{
    /* 0750: only root, and whoever the admin put into root's group, can reach the socket. */
    if (mkdir(s->names.plugin_dir, 0750) != 0 && errno != EEXIST) {
        return err_set_errno(e, ERR_IO, errno, "making directory '%s'", s->names.plugin_dir);
    }
    return s->config.is_second ? 0 : lock_driver(s, e);
}

/* The DRA socket first: the kubelet dials it as soon as it has seen the other. */
static int open_sockets(struct dra_service *s, struct err *e)
{
    if (s->plugin.lock && s->lock.fd < 0) {
        int locked = serialize_open(&s->lock, lock_dir(s), e);
        if (locked != 0) {
            return locked;
        }
    }
    int rc = listen_on(s, "dra", s->names.dra, &s->dra_router, &s->dra_listener, e);
    if (rc == 0) {
        rc = listen_on(s, "registration", s->names.registration, &s->registration_router,
                       &s->registration_listener, e);
    }
    if (rc != 0) {
        close_sockets(s);
    }
    return rc;
}

static bool are_sockets_in_place(const struct dra_service *s)
{
    return s->dra_listener && s->registration_listener &&
           grpc_listener_is_in_place(s->dra_listener) &&
           grpc_listener_is_in_place(s->registration_listener);
}

/* What cannot be now is tried again. Errors: ERR_CONFLICT if the driver is another agent's. */
static int check_sockets(struct dra_service *s, struct mono now, struct err *e)
{
    struct err why = ERR_INIT;
    s->next_check = mono_add(now, s->config.check_interval_ns);
    if (are_sockets_in_place(s)) {
        return 0;
    }
    if (s->dra_listener) {
        log_warn("dra", "our sockets were removed: opening them again");
    }
    close_sockets(s);
    int rc = take_driver(s, &why);
    if (rc == ERR_CONFLICT) {
        return err_set(e, rc, "%s", why.msg);
    }
    if (rc == 0 && open_sockets(s, &why) == 0) {
        log_info("dra", "serving driver '%s' at '%s', announced at '%s'", s->config.driver,
                 s->names.dra, s->names.registration);
        log_repeat_reset(&s->socket_warnings);
    } else {
        log_limited(&s->socket_warnings, 60 * DRA_CHECK_NS, LOG_WARN, "dra",
                    "%s (no kubelet here yet?), will retry", why.msg);
    }
    return 0;
}

/* ---- time ---- */

static void on_timer(void *user)
{
    struct dra_service *s = user;
    struct mono now = clock_mono_now();
    struct err e = ERR_INIT;
    if (s->is_stopping) {
        return;
    }
    if (mono_reached(now, s->next_check) && check_sockets(s, now, &e) != 0) {
        log_error("dra", "%s: stopping", e.msg);
        dra_service_stop(s);
        return;
    }
    health_tick(&s->health, now, clock_wall_now());
    rearm(s);
}

static void on_stop_timer(void *user)
{
    struct dra_service *s = user;
    close_sockets(s);
    if (s->config.on_stopped) {
        s->config.on_stopped(s->config.user); /* may free `s` */
    }
}

/* ---- life ---- */

static void on_odds(void *user, const struct stored_claim *claim)
{
    struct dra_service *s = user;
    claim_events_check(s->claims, claim);
}

static void make_services(struct dra_service *s)
{
    const struct dra_config *c = &s->config;
    s->registration = (struct registration){.driver = c->driver, .endpoint = s->names.dra};
    s->lookup = (struct claim_lookup){.client = c->client, .priority = KUBE_URGENT};
    s->plugin = (struct plugin){
        .target = {.driver = c->driver, .pool = c->pool, .device = c->device},
        .source = claim_lookup_source(&s->lookup),
        .lock = text_is_empty(c->rolling_uid) ? NULL : &s->lock,
        .store = &s->store,
        .on_odds = on_odds,
        .user = s,
    };
    registration_serve(&s->registration, &s->registration_router);
    plugin_serve(&s->plugin, &s->dra_router);
    health_serve(&s->health, &s->dra_router);
}

static struct slice_publisher *make_publisher(const struct dra_config *c)
{
    const struct slice_publisher_config config = {
        .loop = c->loop,
        .client = c->client,
        .spec = {.driver = c->driver,
                 .node_name = c->node_name,
                 .pool = c->pool,
                 .device = c->device,
                 .attributes = &c->attributes,
                 .effect = c->taint_effect},
        .renew_interval_ns = c->renew_interval_ns,
    };
    return slice_publisher_new(&config);
}

static int make_claims(struct dra_service *s, struct err *e)
{
    const struct claim_events_config config = {.client = s->config.client,
                                               .events = s->config.events,
                                               .store = &s->store,
                                               .target = s->plugin.target};
    s->claims = claim_events_new(&config);
    return claim_store_init(&s->store, s->names.plugin_dir, e);
}

static int build(struct dra_service *s, struct err *e)
{
    const struct dra_config *c = &s->config;
    int rc = socket_names_make(&c->dirs, c->driver, c->rolling_uid, &s->names, e);
    if (rc != 0) {
        return rc;
    }
    make_services(s);
    s->timer = boot_timer_new(c->loop, on_timer, s);
    s->stop_timer = boot_timer_new(c->loop, on_stop_timer, s);
    s->publisher = make_publisher(c);
    return make_claims(s, e);
}

int dra_service_start(const struct dra_config *config, struct dra_service **out, struct err *e)
{
    struct dra_service *s = calloc(1, sizeof(*s));
    if (!s) {
        return err_no_memory(e);
    }
    s->config = *config;
    s->lock.fd = -1;
    s->driver_lock.fd = -1;
    if (text_is_empty(config->pool)) {
        s->config.pool = config->node_name;
    }
    if (config->check_interval_ns == 0) {
        s->config.check_interval_ns = DRA_CHECK_NS;
    }
    health_init(&s->health, &(struct health_config){
                                .pool = s->config.pool,
                                .device = config->device,
                                .timeout_ns = config->health_timeout_ns,
                                .is_monitor_alive = config->is_monitor_alive,
                                .user = config->user,
                            });
    int rc = build(s, e);
    if (rc != 0 || (rc = check_sockets(s, clock_mono_now(), e)) != 0) {
        dra_service_free(s);
        return rc;
    }
    rearm(s);
    *out = s;
    return 0;
}

int dra_service_lead(struct dra_service *s, struct err *e)
{
    s->config.is_second = false;
    return s->dra_listener ? take_driver(s, e) : 0; /* without sockets: once they are opened */
}

void dra_service_show(struct dra_service *s, const struct readiness *verdict)
{
    if (s->is_stopping) {
        return;
    }
    struct health_report report = projection_health(verdict);
    health_publish(&s->health, &report, clock_mono_now(), clock_wall_now());
    rearm(s);
}

void dra_service_publish(struct dra_service *s, const struct readiness *verdict)
{
    if (s->is_stopping) {
        return;
    }
    struct slice_taint taint = projection_taint(verdict);
    dra_service_show(s, verdict);
    slice_publisher_publish(s->publisher, &taint);
    rearm(s);
}

void dra_service_tell(struct dra_service *s, const struct readiness *verdict)
{
    claim_events_tell(s->claims, verdict);
}

void dra_service_stop(struct dra_service *s)
{
    if (s->is_stopping) {
        return;
    }
    struct mono now = clock_mono_now();
    s->is_stopping = true;
    rearm(s);
    health_stop(&s->health, now, clock_wall_now());
    /* Both are there or none is. */
    if (!s->dra_listener) {
        boot_timer_arm(s->stop_timer, now);
        return;
    }
    s->draining = 2;
    boot_timer_arm(s->stop_timer, mono_add(now, DRA_STOP_GRACE_NS));
    grpc_listener_shutdown(s->registration_listener);
    grpc_listener_shutdown(s->dra_listener);
}

void dra_service_free(struct dra_service *s)
{
    if (!s) {
        return;
    }
    close_sockets(s);
    plugin_fini(&s->plugin);
    serialize_close(&s->lock);
    claim_events_free(s->claims);
    slice_publisher_free(s->publisher);
    boot_timer_free(s->timer);
    boot_timer_free(s->stop_timer);
    health_fini(&s->health);
    free(s);
}

struct dra_stats dra_service_stats(const struct dra_service *s)
{
    struct slice_stats slice = slice_publisher_stats(s->publisher);
    return (struct dra_stats){
        .driver = s->config.driver,
        .is_registered = s->registration.is_registered,
        .refusal = s->registration.refusal,
        .is_slice_published = slice.is_published,
        .registrations = s->registration.accepted,
        .rejections = s->registration.rejected,
        .health_streams = health_stream_count(&s->health),
        .health_reports = s->health.sent_count,
        .claims_prepared = s->plugin.prepared,
        .claim_failures = s->plugin.prepare_failures,
        .claims_unprepared = s->plugin.unprepared,
        .slice_writes = slice.writes,
        .slice_failures = slice.failures,
    };
}
