/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpuctl dra watch plays the kubelet's part against a DRA plugin and shows what it would know:
 * finds the plugin by the registration sockets, opens its health stream, keeps what it says as a
 * kubelet does (KEP-4680), tries again when the stream ends.
 *
 *  - Each message is the full state of the plugin. What it says is new, or confirms.
 *  - A state is believed for the device's own timeout (default 30 s) and is Unknown after that,
 *    when somebody looks. A device that a message leaves out keeps its state until then; the next
 *    message after that makes it Unknown for good.
 *  - The end of a stream makes the plugin's word void.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "dpuctl/options.h"
#include "grpc/grpc_unary.h"
#include "grpc_proto/health.pb-c.h"
#include "grpc_proto/registration.pb-c.h"

#include <ev.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALL_NS    (5 * NS_PER_SEC)  /* a kubelet's deadline for registration calls */
#define RETRY_NS   (5 * NS_PER_SEC)  /* its pause between two streams */
#define TIMEOUT_NS (30 * NS_PER_SEC) /* of a device that names none */

enum { DEVICES_MAX = 64, MESSAGE_BYTES = 1025, LINE_BYTES = 2048 };

struct device {
    char pool[254];
    char name[64];
    int health;                  /* as said, HEALTH__STATUS__...; else UNKNOWN */
    char message[MESSAGE_BYTES]; /* a longer one ends in "..." */
    struct mono updated;
    int64_t timeout_ns;
    bool is_said;     /* by the last message, */
    bool has_changed; /* which made a difference */
};

struct plugin {
    char socket[PATH_MAX]; /* where it registers */
    int64_t made_ns;       /* that socket, by the wall clock */
    char endpoint[PATH_MAX];
    const char *service; /* of its health: "v1" or "v1alpha1"; NULL: none that we know */
};

struct watch {
    const struct admin_config *options;
    struct plugin plugin;
    size_t count;
    struct device devices[DEVICES_MAX];
    int stop_fd;
    bool is_terminal;
    struct grpc_unary *stream; /* NULL: over */
    struct ev_loop *loop;
};

/* ---- what is known of the devices ------------------------------------------------------------ */

static int health_of(const struct device *device, struct mono now)
{
    bool is_expired = mono_since(now, device->updated) > device->timeout_ns;
    return is_expired ? HEALTH__STATUS__UNKNOWN : device->health;
}

/* On a terminal: the whole table in place. Otherwise: a line for what has changed. */
static void show(const struct watch *w, bool changes_only)
{
    static const char *const names[] = {[HEALTH__STATUS__UNKNOWN] = "Unknown",
                                        [HEALTH__STATUS__HEALTHY] = "Healthy",
                                        [HEALTH__STATUS__UNHEALTHY] = "Unhealthy"};
    char line[LINE_BYTES];
    char shown[LINE_BYTES];
    struct mono now = clock_mono_now();
    if (w->is_terminal) {
        (void)printf("\033[H\033[J%s at '%s'\n\n", w->options->driver, w->plugin.endpoint);
    }
    for (size_t i = 0; i < w->count; i++) {
        const struct device *d = &w->devices[i];
        int64_t age_ns = mono_since(now, d->updated);
        if (w->is_terminal || !changes_only || d->has_changed) {
            text_format(
                line, sizeof(line), "%-9s  %s/%s/%s  %" PRId64 " s of %" PRId64 " s ago  %s",
                names[health_of(d, now)], w->options->driver, d->pool, d->name, age_ns / NS_PER_SEC,
                d->timeout_ns / NS_PER_SEC, age_ns > d->timeout_ns ? "" : d->message);
            text_sanitize(shown, sizeof(shown), line, strlen(line));
            (void)puts(shown);
        }
    }
    (void)fflush(stdout); /* a broken pipe ends the program by SIGPIPE */
}

/* The device of that name, new where there is none; NULL if it does not fit. */
static struct device *device_of(struct watch *w, const char *pool, const char *name)
{
    struct device fresh = {.has_changed = true};
    for (size_t i = 0; i < w->count; i++) {
        struct device *d = &w->devices[i];
        if (text_equal(d->pool, pool) && text_equal(d->name, name)) {
            return d;
        }
    }
    if (w->count == DEVICES_MAX || !text_copy(fresh.pool, sizeof(fresh.pool), pool) ||
        !text_copy(fresh.name, sizeof(fresh.name), name)) {
        return NULL;
    }
    w->devices[w->count] = fresh;
    return &w->devices[w->count++];
}

static void take_device(struct device *d, const Health__Device *said, struct mono now)
{
    static const char dots[] = "...";
    char message[MESSAGE_BYTES];
    int64_t timeout_s = said->health_check_timeout_seconds;
    int64_t timeout_ns = timeout_s > 0 ? mono_ns_mul(timeout_s, NS_PER_SEC) : TIMEOUT_NS;
    bool is_known =
        said->health == HEALTH__STATUS__HEALTHY || said->health == HEALTH__STATUS__UNHEALTHY;
    int health = is_known ? (int)said->health : HEALTH__STATUS__UNKNOWN;
    /* Cut at 1024 bytes as a kubelet does, but not within a character. */
    if (!text_copy(message, sizeof(message), said->message)) {
        text_format(message, sizeof(message) - (sizeof(dots) - 1), "%s", said->message);
        memcpy(message + strlen(message), dots, sizeof(dots));
    }
    d->has_changed = d->has_changed || d->health != health || d->timeout_ns != timeout_ns ||
                     !text_equal(d->message, message);
    d->is_said = true;
    d->health = health;
    d->timeout_ns = timeout_ns;
    d->updated = now;
    memcpy(d->message, message, sizeof(message));
}

static void on_report(void *user, const uint8_t *message, size_t len)
{
    struct watch *w = user;
    size_t left_out = 0;
    struct mono now = clock_mono_now();
    Health__WatchResponse *response = health__watch_response__unpack(NULL, len, message);
    if (!response) {
        (void)fputs("dpuctl: the plugin sent a malformed report\n", stderr);
        return;
    }
    for (size_t i = 0; i < w->count; i++) {
        w->devices[i].is_said = w->devices[i].has_changed = false;
    }
    for (size_t i = 0; i < response->n_devices; i++) {
        const Health__DeviceIdentifier *id = response->devices[i]->device;
        struct device *d = id ? device_of(w, id->pool_name, id->device_name) : NULL;
        if (d) {
            take_device(d, response->devices[i], now);
        }
        left_out += id && !d;
    }
    health__watch_response__free_unpacked(response, NULL);
    for (size_t i = 0; i < w->count; i++) {
        struct device *d = &w->devices[i];
        if (!d->is_said && d->health != health_of(d, now)) {
            d->health = HEALTH__STATUS__UNKNOWN;
            d->message[0] = '\0';
            d->has_changed = true;
        }
    }
    if (left_out > 0) {
        (void)fprintf(stderr, "dpuctl: %zu devices do not fit and are not shown\n", left_out);
    }
    show(w, true);
    if (w->options->once) {
        ev_break(w->loop, EVBREAK_ALL);
    }
}

/* ---- registration ---------------------------------------------------------------------------- */

/* Endpoint, and the newest health service that the plugin advertises. */
static void take_info(struct watch *w, const struct buf *answer, struct plugin *asked)
{
    static const char *const services[] = {"v1alpha1", "v1"};
    char word[64];
    Registration__PluginInfo *info =
        registration__plugin_info__unpack(NULL, answer->len, (const uint8_t *)buf_text(answer));
    if (!info) {
        return; /* told by the missing service */
    }
    text_sanitize(asked->endpoint, sizeof(asked->endpoint), info->endpoint, strlen(info->endpoint));
    bool is_ours = text_equal(info->type, "DRAPlugin") &&
                   text_equal(info->name, w->options->driver) &&
                   text_equal(asked->endpoint, info->endpoint);
    for (size_t i = 0; is_ours && i < ARRAY_LEN(services); i++) {
        text_format(word, sizeof(word), "%s.DRAResourceHealth", services[i]);
        for (size_t k = 0; k < info->n_supported_versions; k++) {
            asked->service =
                text_equal(info->supported_versions[k], word) ? services[i] : asked->service;
        }
    }
    registration__plugin_info__free_unpacked(info, NULL);
}

/* Asks one socket who it is. One that is not of our driver is no error. */
static int ask_socket(struct watch *w, const char *dir, const char *name, struct err *e)
{
    struct stat found;
    struct plugin asked = {.service = NULL};
    text_format(asked.socket, sizeof(asked.socket), "%s/%s", dir, name);
    if (stat(asked.socket, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        return 0;
    }
    const struct grpc_unary_plan plan = {.path = asked.socket,
                                         .method = "/pluginregistration.Registration/GetInfo",
                                         .timeout_ns = CALL_NS};
    CLEANUP(buf) struct buf answer = {.max_bytes = GRPC_UNARY_REPLY_MAX_BYTES};
    int rc = grpc_unary_ask(w->loop, &plan, &answer, e);
    if (rc != 0) {
        return rc;
    }
    asked.made_ns = found.st_ctim.tv_sec * NS_PER_SEC + found.st_ctim.tv_nsec;
    take_info(w, &answer, &asked);
    if (asked.service && asked.made_ns > w->plugin.made_ns) {
        w->plugin = asked; /* the newest stays in a rolling update */
    }
    return 0;
}

/* As a kubelet does, asks all sockets. Errors: ERR_GONE, ERR_IO, ERR_NOTFOUND. */
static int find_plugin(struct watch *w, struct err *e)
{
    char dir[PATH_MAX];
    const char *driver = w->options->driver;
    int rc = 0;
    struct err why = ERR_INIT; /* of the first socket that did not answer */
    w->plugin = (struct plugin){.service = NULL};
    text_format(dir, sizeof(dir), "%s/plugins_registry", w->options->kubelet_root);
    CLEANUP(dir) DIR *entries = opendir(dir);
    if (!entries) {
        return err_set_errno(e, ERR_IO, errno, "looking into '%s'", dir);
    }
    for (struct dirent *at = readdir(entries); at && rc != ERR_GONE; at = readdir(entries)) {
        struct err own = ERR_INIT;
        rc = at->d_name[0] != '.' ? ask_socket(w, dir, at->d_name, &own) : 0;
        why = why.code == 0 ? own : why;
    }
    if (rc == ERR_GONE || w->plugin.service) {
        return rc == ERR_GONE ? err_set(e, rc, "interrupted") : 0;
    }
    return err_set(e, ERR_NOTFOUND,
                   "no socket in '%s', such as %s-reg.sock, belongs to DRA plugin '%s' with a "
                   "health service%s%s",
                   dir, driver, driver, why.code != 0 ? "; " : "", why.msg);
}

/* Tells the plugin that it is registered. */
static int accept_plugin(const struct watch *w, struct err *e)
{
    static const uint8_t registered[] = {0x08, 0x01}; /* RegistrationStatus{1: true} */
    const struct grpc_unary_plan plan = {
        .path = w->plugin.socket,
        .method = "/pluginregistration.Registration/NotifyRegistrationStatus",
        .message = {.bytes = registered, .len = sizeof(registered)},
        .timeout_ns = CALL_NS};
    CLEANUP(buf) struct buf answer = {.max_bytes = GRPC_UNARY_REPLY_MAX_BYTES};
    return grpc_unary_ask(w->loop, &plan, &answer, e);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static void on_stream_end(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct watch *w = user;
    (void)fprintf(stderr, "dpuctl: %s: the stream ended: %s\n", w->options->driver,
                  why ? why->msg : "OK");
    w->stream = NULL;
    ev_break(w->loop, EVBREAK_ALL);
}

static void on_stop(struct ev_loop *loop, ev_io *io, int events)
{
    ev_break(loop, EVBREAK_ALL);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    const struct watch *w = timer->data;
    if (w->is_terminal) {
        show(w, false); /* ages, and what has expired meanwhile */
    }
}

/* Follows the stream to its end. Returns 0 when it has ended, which was told. Errors: ERR_GONE when
 * interrupted, or with --once after the first report. */
static int follow_stream(struct watch *w)
{
    char method[96];
    ev_timer tick;
    const struct grpc_unary_plan plan = {.path = w->plugin.endpoint,
                                         .method = method,
                                         .timeout_ns = INT64_MAX,
                                         .on_message = on_report,
                                         .done = on_stream_end,
                                         .user = w};
    text_format(method, sizeof(method), "/%s.DRAResourceHealth/NodeWatchResources",
                w->plugin.service);
    w->stream = grpc_unary_start(w->loop, &plan);
    ev_timer_init(&tick, on_tick, 1., 1.);
    tick.data = w;
    ev_now_update(w->loop);
    ev_timer_start(w->loop, &tick);
    (void)ev_run(w->loop, 0); /* the callbacks tell */
    ev_timer_stop(w->loop, &tick);
    int rc = w->stream ? ERR_GONE : 0;
    grpc_unary_cancel(w->stream);
    return rc;
}

/* Finds the plugin and follows its stream. */
static int attend_plugin(struct watch *w, struct err *e)
{
    if (w->options->dra_socket) {
        w->plugin.service = "v1";
        text_format(w->plugin.endpoint, sizeof(w->plugin.endpoint), "%s", w->options->dra_socket);
        return follow_stream(w);
    }
    int rc = find_plugin(w, e);
    if (rc == 0 && w->options->registers) {
        rc = accept_plugin(w, e);
    }
    return rc != 0 ? rc : follow_stream(w);
}

static void forget_devices(struct watch *w)
{
    if (w->count > 0) {
        w->count = 0;
        if (!w->is_terminal) {
            (void)printf("%-9s  %s: its stream ended, so its reports no longer count\n", "Unknown",
                         w->options->driver);
        }
        show(w, true);
    }
}

static int exit_status(const struct watch *w)
{
    struct mono now = clock_mono_now();
    for (size_t i = 0; i < w->count; i++) {
        if (health_of(&w->devices[i], now) != HEALTH__STATUS__HEALTHY) {
            return EXIT_FAILURE;
        }
    }
    return w->count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int watch_plugin(struct watch *w)
{
    do {
        struct err e = ERR_INIT;
        int rc = attend_plugin(w, &e);
        if (rc == ERR_GONE) {
            return w->options->once ? exit_status(w) : EXIT_SUCCESS;
        }
        if (rc != 0) {
            (void)fprintf(stderr, "dpuctl: %s: %s\n", w->options->driver, e.msg);
        }
        if (w->options->once) {
            return EXIT_FAILURE;
        }
        forget_devices(w);
    } while (admin_wait(w->stop_fd, RETRY_NS));
    return EXIT_SUCCESS;
}

int dra_watch_run(struct admin_config *config)
{
    CLEANUP(free) struct watch *w = MEM_NEW(struct watch); /* large */
    CLEANUP(fd) int stop_fd = admin_stop_signals();
    ev_io stop;
    w->options = config;
    w->stop_fd = stop_fd;
    w->is_terminal = isatty(STDOUT_FILENO) == 1 && !config->once;
    w->loop = ev_loop_new(EVFLAG_AUTO);
    if (stop_fd < 0 || !w->loop) {
        perror("dpuctl dra watch");
        return EXIT_FAILURE;
    }
    ev_io_init(&stop, on_stop, stop_fd, EV_READ);
    ev_io_start(w->loop, &stop);
    show(w, false);
    int status = watch_plugin(w);
    ev_loop_destroy(w->loop);
    return status;
}
