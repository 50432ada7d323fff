/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "dpuctl/options.h"
#include "dra_proto/health.pb-c.h"
#include "dra_proto/registration.pb-c.h"
#include "grpc/grpc_unary.h"

#include <ev.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/*
 * Device health as a kubelet keeps it (KEP-4680): what a plugin last said, and for how long that
 * counts. CORE.
 *
 *  - Each message is the full state of the plugin. What it says is new, or confirms.
 *  - A state is believed for the device's own timeout (default 30 s) and is Unknown after that,
 *    when somebody looks. A device that a message leaves out keeps its state until then; the next
 *    message after that makes it Unknown for good.
 *  - The end of a stream makes the plugin's word void: whoever reads it sets `count` to 0.
 */

enum {
    DRA_CACHE_DEVICES_MAX = 64,
    DRA_CACHE_POOL_BYTES = 254,
    DRA_CACHE_DEVICE_BYTES = 64,
    DRA_CACHE_MESSAGE_BYTES = 1025,
    DRA_CACHE_LINE_BYTES = 2048, /* all of an entry, and the driver */
};
#define DRA_CACHE_TIMEOUT_NS (30 * NS_PER_SEC) /* of a device that names none */

/* The numbers of the wire. */
enum dra_health { DRA_UNKNOWN = 0, DRA_HEALTHY = 1, DRA_UNHEALTHY = 2 };

/* One device in a message. Texts are borrowed. */
struct dra_report {
    const char *pool;
    const char *device;
    int health; /* as on the wire: any other number is Unknown */
    const char *message;
    int64_t timeout_s; /* 0 or less: the default */
};

struct dra_entry {
    char pool[DRA_CACHE_POOL_BYTES];
    char device[DRA_CACHE_DEVICE_BYTES];
    enum dra_health health; /* as said; dra_cache_health tells what it counts for */
    char message[DRA_CACHE_MESSAGE_BYTES];
    struct mono updated;
    int64_t timeout_ns;
    bool has_changed; /* by the last update */
};

/* Caller-owned, large. Zero-initialise. */
struct dra_cache {
    size_t count;
    struct dra_entry entries[DRA_CACHE_DEVICES_MAX];
};

/* Takes one message: `has_changed` tells per entry what is different now. Returns the number of
 * changed devices. What does not fit (names too long, too many devices) is left out and counted in
 * `out_left_out`. A message over 1024 bytes is cut and ends in "...". */
size_t dra_cache_update(struct dra_cache *c, const struct dra_report *said, size_t count,
                        struct mono now, size_t *out_left_out);

/* What an entry counts for now. */
enum dra_health dra_cache_health(const struct dra_entry *entry, struct mono now);

/* "Healthy    driver/pool/device  3 s of 30 s ago  message": the plugin's words sanitized, and as
 * long as they count. */
void dra_cache_describe(const struct dra_entry *entry, const char *driver, struct mono now,
                        char out[static DRA_CACHE_LINE_BYTES]);

/* A DRA plugin as a kubelet comes to know it: by the registration sockets in its directory. */

struct dra_plugin {
    char socket[PATH_MAX]; /* where it registers */
    struct timespec made;  /* that socket */
    char endpoint[PATH_MAX];
    const char *service; /* of its health: "v1" or "v1alpha1"; NULL: none that we know */
};

/* The newest that is of `driver`, so that in a rolling update it is the one that stays. Gives up
 * when `stop_fd` is readable. Errors: ERR_GONE (stopped), ERR_NOTFOUND, ERR_IO. */
NODISCARD int dra_plugin_find(const char *kubelet_root, const char *driver, int stop_fd,
                              struct dra_plugin *out, struct err *e);

/* Tells it that it is registered. Errors: as grpc_unary_ask. */
NODISCARD int dra_plugin_accept(const struct dra_plugin *plugin, int stop_fd, struct err *e);

static const char *const names[] = {
    [DRA_UNKNOWN] = "Unknown",
    [DRA_HEALTHY] = "Healthy",
    [DRA_UNHEALTHY] = "Unhealthy",
};

static enum dra_health from_wire(int health)
{
    return health == DRA_HEALTHY || health == DRA_UNHEALTHY ? (enum dra_health)health : DRA_UNKNOWN;
}

static int64_t timeout_of(int64_t timeout_s)
{
    return timeout_s > 0 ? mono_ns_mul(timeout_s, NS_PER_SEC) : DRA_CACHE_TIMEOUT_NS;
}

/* Cuts at 1024 bytes as a kubelet does, but not within a character. */
static void copy_message(char out[static DRA_CACHE_MESSAGE_BYTES], const char *message)
{
    static const char dots[] = "...";
    if (!text_copy(out, DRA_CACHE_MESSAGE_BYTES, message)) {
        text_format(out, DRA_CACHE_MESSAGE_BYTES - (sizeof(dots) - 1), "%s", message);
        memcpy(out + strlen(out), dots, sizeof(dots));
    }
}

static bool is_expired(const struct dra_entry *entry, struct mono now)
{
    return mono_since(now, entry->updated) > entry->timeout_ns;
}

static struct dra_entry *find(struct dra_cache *c, const char *pool, const char *device)
{
    for (size_t i = 0; i < c->count; i++) {
        if (text_equal(c->entries[i].pool, pool) && text_equal(c->entries[i].device, device)) {
            return &c->entries[i];
        }
    }
    return NULL;
}

/* Returns NULL if it cannot be kept. */
static struct dra_entry *add(struct dra_cache *c, const struct dra_report *said)
{
    struct dra_entry fresh = {.health = DRA_UNKNOWN};
    if (c->count == DRA_CACHE_DEVICES_MAX ||
        !text_copy(fresh.pool, sizeof(fresh.pool), said->pool) ||
        !text_copy(fresh.device, sizeof(fresh.device), said->device)) {
        return NULL;
    }
    c->entries[c->count] = fresh;
    return &c->entries[c->count++];
}

/* Returns true if something is different from before. */
static bool take(struct dra_entry *entry, const struct dra_report *said, bool is_new,
                 struct mono now)
{
    char message[DRA_CACHE_MESSAGE_BYTES];
    enum dra_health health = from_wire(said->health);
    int64_t timeout_ns = timeout_of(said->timeout_s);
    copy_message(message, said->message);
    bool has_changed = is_new || entry->health != health || entry->timeout_ns != timeout_ns ||
                       !text_equal(entry->message, message);
    entry->health = health;
    entry->timeout_ns = timeout_ns;
    memcpy(entry->message, message, sizeof(message));
    entry->updated = now;
    return has_changed;
}

/* A device nobody spoke of: Unknown once its time is over. Returns true if that is new. */
static bool let_expire(struct dra_entry *entry, struct mono now)
{
    if (!is_expired(entry, now) || entry->health == DRA_UNKNOWN) {
        return false;
    }
    entry->health = DRA_UNKNOWN;
    entry->message[0] = '\0';
    return true;
}

static bool is_said(const struct dra_entry *entry, const struct dra_report *said, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (text_equal(entry->pool, said[i].pool) && text_equal(entry->device, said[i].device)) {
            return true;
        }
    }
    return false;
}

size_t dra_cache_update(struct dra_cache *c, const struct dra_report *said, size_t count,
                        struct mono now, size_t *out_left_out)
{
    size_t changed = 0;
    *out_left_out = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct dra_entry *entry = &c->entries[i];
        entry->has_changed = !is_said(entry, said, count) && let_expire(entry, now);
        changed += entry->has_changed;
    }
    for (size_t i = 0; i < count; i++) {
        struct dra_entry *entry = find(c, said[i].pool, said[i].device);
        bool is_new = !entry;
        entry = entry ? entry : add(c, &said[i]);
        if (!entry) {
            (*out_left_out)++;
            continue;
        }
        bool was_counted = entry->has_changed; /* named twice in one message */
        entry->has_changed = take(entry, &said[i], is_new, now) || was_counted;
        changed += entry->has_changed && !was_counted;
    }
    return changed;
}

enum dra_health dra_cache_health(const struct dra_entry *entry, struct mono now)
{
    return is_expired(entry, now) ? DRA_UNKNOWN : entry->health;
}

void dra_cache_describe(const struct dra_entry *entry, const char *driver, struct mono now,
                        char out[static DRA_CACHE_LINE_BYTES])
{
    char line[DRA_CACHE_LINE_BYTES];
    text_format(line, sizeof(line), "%-9s  %s/%s/%s  %" PRId64 " s of %" PRId64 " s ago  %s",
                names[dra_cache_health(entry, now)], driver, entry->pool, entry->device,
                mono_since(now, entry->updated) / NS_PER_SEC, entry->timeout_ns / NS_PER_SEC,
                is_expired(entry, now) ? "" : entry->message);
    text_sanitize(out, DRA_CACHE_LINE_BYTES, line, strlen(line));
}

#define CALL_NS (5 * NS_PER_SEC) /* a kubelet's deadline for registration calls */

struct search {
    const char *driver;
    int stop_fd;
    struct dra_plugin asked; /* the socket that is being asked */
    struct dra_plugin *best; /* so far; without a service: none */
    struct err why;          /* of the first socket that did not answer */
};

/* The newest health service that the plugin advertises; NULL if none. */
static const char *pick_service(const Registration__PluginInfo *info)
{
    static const char *const services[][2] = {{"v1.DRAResourceHealth", "v1"},
                                              {"v1alpha1.DRAResourceHealth", "v1alpha1"}};
    for (size_t i = 0; i < ARRAY_LEN(services); i++) {
        for (size_t k = 0; k < info->n_supported_versions; k++) {
            if (text_equal(info->supported_versions[k], services[i][0])) {
                return services[i][1];
            }
        }
    }
    return NULL;
}

static void take_info(struct search *s, const struct buf *answer)
{
    struct dra_plugin *asked = &s->asked;
    Registration__PluginInfo *info =
        registration__plugin_info__unpack(NULL, answer->len, (const uint8_t *)buf_text(answer));
    if (!info) {
        return; /* told by the missing service */
    }
    text_sanitize(asked->endpoint, sizeof(asked->endpoint), info->endpoint, strlen(info->endpoint));
    if (text_equal(info->type, "DRAPlugin") && text_equal(info->name, s->driver) &&
        text_equal(asked->endpoint, info->endpoint)) {
        asked->service = pick_service(info);
    }
    registration__plugin_info__free_unpacked(info, NULL);
}

/* As plugins name their sockets: by the driver, then by the UID of a rolling update or a hash of
 * it, or where that is too long by "dra-" and a hash of both. */
static bool is_named_for(const char *driver, const char *name)
{
    size_t len = strlen(driver);
    return (strncmp(name, driver, len) == 0 && name[len] == '-') || strncmp(name, "dra-", 4) == 0;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Asks one socket who it is. One that is not of our driver is no error. */
static int ask_socket(struct search *s, const char *dir, const char *name, struct err *e)
{
    struct stat found;
    s->asked = (struct dra_plugin){.service = NULL};
    text_format(s->asked.socket, sizeof(s->asked.socket), "%s/%s", dir, name);
    if (stat(s->asked.socket, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        return 0;
    }
    s->asked.made = found.st_ctim;
    const struct grpc_unary_plan plan = {.path = s->asked.socket,
                                         .method = "/pluginregistration.Registration/GetInfo",
                                         .timeout_ns = CALL_NS};
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, GRPC_UNARY_REPLY_MAX_BYTES);
    int rc = grpc_unary_ask(&plan, s->stop_fd, &answer, e);
    if (rc == 0) {
        take_info(s, &answer);
    }
    if (rc == 0 && s->asked.service &&
        (!s->best->service || is_newer(&s->asked.made, &s->best->made))) {
        *s->best = s->asked;
    }
    return rc;
}

/* The sockets that are named for our driver, or the others. Errors: ERR_GONE, ERR_IO. */
static int ask_sockets(struct search *s, const char *dir, bool are_named, struct err *e)
{
    int rc = 0;
    DIR *entries = opendir(dir);
    if (!entries) {
        return err_set_errno(e, ERR_IO, errno, "looking into '%s'", dir);
    }
    for (struct dirent *at = readdir(entries); at && rc != ERR_GONE; at = readdir(entries)) {
        struct err own = ERR_INIT;
        if (at->d_name[0] == '.' || is_named_for(s->driver, at->d_name) != are_named) {
            continue;
        }
        rc = ask_socket(s, dir, at->d_name, &own);
        if (rc != 0 && s->why.code == 0) {
            s->why = own;
        }
    }
    (void)closedir(entries); /* read-only */
    return rc == ERR_GONE ? err_set(e, rc, "interrupted") : 0;
}

/* A kubelet asks all; we begin with likely ones, so that a plugin of others that hangs does not
 * hold us up. */
int dra_plugin_find(const char *kubelet_root, const char *driver, int stop_fd,
                    struct dra_plugin *out, struct err *e)
{
    char dir[PATH_MAX];
    struct search s = {.driver = driver, .stop_fd = stop_fd, .best = out};
    *out = (struct dra_plugin){.service = NULL};
    text_format(dir, sizeof(dir), "%s/plugins_registry", kubelet_root);
    int rc = ask_sockets(&s, dir, true, e);
    if (rc == 0 && !out->service) {
        rc = ask_sockets(&s, dir, false, e);
    }
    if (rc != 0 || out->service) {
        return rc;
    }
    return err_set(e, ERR_NOTFOUND,
                   "no socket in '%s', such as %s-reg.sock, is of DRA plugin '%s' with a health "
                   "service%s%s",
                   dir, driver, driver, s.why.code != 0 ? "; " : "", s.why.msg);
}

int dra_plugin_accept(const struct dra_plugin *plugin, int stop_fd, struct err *e)
{
    static const uint8_t registered[] = {0x08, 0x01}; /* RegistrationStatus{1: true} */
    const struct grpc_unary_plan plan = {
        .path = plugin->socket,
        .method = "/pluginregistration.Registration/NotifyRegistrationStatus",
        .message = {.bytes = registered, .len = sizeof(registered)},
        .timeout_ns = CALL_NS};
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, GRPC_UNARY_REPLY_MAX_BYTES);
    return grpc_unary_ask(&plan, stop_fd, &answer, e);
}

enum { DEVICES_PER_MESSAGE_MAX = DRA_CACHE_DEVICES_MAX };

/* A kubelet's pause between two streams. */
static const int64_t RETRY_NS = 5 * NS_PER_SEC;
static const double REDRAW_S = 1.0;

struct watch_options {
    char *socket; /* NULL: found through registration */
    char *driver;
    char *kubelet_root;
    bool registers; /* also says that it has registered */
    bool once;
};

struct watch {
    struct watch_options options;
    struct dra_plugin plugin;
    struct dra_cache cache;
    int stop_fd;
    bool is_terminal;
    bool has_report;           /* since the stream was opened */
    struct grpc_unary *stream; /* NULL: over */
    int end;                   /* then: an ERR_ code */
    struct err why;
};

/* ---- what is shown ---- */

/* On a terminal: the whole table in place. Otherwise: a line for what has changed. */
static void show(const struct watch *w, bool changes_only)
{
    char line[DRA_CACHE_LINE_BYTES];
    struct mono now = clock_mono_now();
    if (w->is_terminal) {
        (void)printf("\033[H\033[J%s at '%s'\n\n", w->options.driver, w->plugin.endpoint);
    }
    for (size_t i = 0; i < w->cache.count; i++) {
        const struct dra_entry *entry = &w->cache.entries[i];
        if (w->is_terminal || !changes_only || entry->has_changed) {
            dra_cache_describe(entry, w->options.driver, now, line);
            (void)puts(line);
        }
    }
    (void)fflush(stdout); /* a broken pipe ends the program by SIGPIPE */
}

static void tell(const char *what, const struct err *e)
{
    (void)fprintf(stderr, "dpuctl: %s: %s\n", what, e->msg);
}

/* ---- the stream ---- */

static void on_report(void *user, const uint8_t *message, size_t len)
{
    struct watch *w = user;
    struct dra_report said[DEVICES_PER_MESSAGE_MAX];
    size_t left_out;
    Health__WatchResponse *response = health__watch_response__unpack(NULL, len, message);
    if (!response) {
        (void)fputs("dpuctl: the plugin sent a malformed report\n", stderr);
        return;
    }
    size_t count = 0;
    for (size_t i = 0; i < response->n_devices && count < ARRAY_LEN(said); i++) {
        const Health__Device *device = response->devices[i];
        if (device->device) {
            said[count++] = (struct dra_report){.pool = device->device->pool_name,
                                                .device = device->device->device_name,
                                                .health = (int)device->health,
                                                .message = device->message,
                                                .timeout_s = device->health_check_timeout_seconds};
        }
    }
    size_t changed = dra_cache_update(&w->cache, said, count, clock_mono_now(), &left_out);
    health__watch_response__free_unpacked(response, NULL);
    if (left_out > 0) {
        (void)fprintf(stderr, "dpuctl: %zu devices do not fit and are left out\n", left_out);
    }
    w->has_report = true;
    if (changed > 0) {
        show(w, true);
    }
}

static void on_stream_end(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct watch *w = user;
    (void)message;
    (void)len;
    w->stream = NULL;
    w->end = ERR_RETRY;
    (void)err_set(&w->why, ERR_RETRY, "the stream ended: %s", why ? why->msg : "OK"); /* told */
}

static void watch_give_up(struct watch *w)
{
    grpc_unary_cancel(w->stream);
    w->stream = NULL;
    w->end = ERR_GONE;
}

static void on_stop(struct ev_loop *loop, ev_io *io, int events)
{
    (void)loop;
    (void)events;
    watch_give_up(io->data);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct watch *w = timer->data;
    (void)loop;
    (void)events;
    if (w->options.once && w->has_report) {
        watch_give_up(w);
    } else if (w->is_terminal) {
        show(w, false); /* ages, and what has expired meanwhile */
    }
}

/* Opens the stream and follows it to its end. Errors: ERR_GONE when interrupted, or with --once
 * after the first report; ERR_RETRY. */
static int stream(struct watch *w, struct err *e)
{
    char method[96];
    ev_io stop;
    ev_timer tick;
    const struct grpc_unary_plan plan = {.path = w->plugin.endpoint,
                                         .method = method,
                                         .timeout_ns = INT64_MAX,
                                         .on_message = on_report,
                                         .done = on_stream_end,
                                         .user = w};
    text_format(method, sizeof(method), "/%s.DRAResourceHealth/NodeWatchResources",
                w->plugin.service);
    w->has_report = false;
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    if (!loop) {
        return err_set(e, ERR_IO, "making an event loop");
    }
    int rc = grpc_unary_start(loop, &plan, &w->stream, e);
    if (rc == 0) {
        ev_io_init(&stop, on_stop, w->stop_fd, EV_READ);
        ev_timer_init(&tick, on_tick, REDRAW_S, REDRAW_S);
        stop.data = tick.data = w;
        ev_io_start(loop, &stop);
        ev_timer_start(loop, &tick);
        while (w->stream) {
            (void)ev_run(loop, EVRUN_ONCE); /* the callbacks tell */
        }
        rc = err_set(e, w->end, "%s", w->why.msg);
    }
    ev_loop_destroy(loop);
    return rc;
}

/* Finds the plugin and follows its stream. Errors: as stream. */
static int attend(struct watch *w, struct err *e)
{
    const struct watch_options *o = &w->options;
    if (o->socket) {
        w->plugin.service = "v1";
        text_format(w->plugin.endpoint, sizeof(w->plugin.endpoint), "%s", o->socket);
        return stream(w, e);
    }
    int rc = dra_plugin_find(o->kubelet_root, o->driver, w->stop_fd, &w->plugin, e);
    if (rc != 0) {
        return rc;
    }
    if (o->registers && (rc = dra_plugin_accept(&w->plugin, w->stop_fd, e)) != 0) {
        return rc;
    }
    return stream(w, e);
}

static void forget(struct watch *w)
{
    if (w->cache.count > 0) {
        w->cache.count = 0;
        if (!w->is_terminal) {
            (void)printf("%-9s  %s: its stream ended, everything it said is void\n", "Unknown",
                         w->options.driver);
        }
        show(w, true);
    }
}

/* Returns false when interrupted. */
static bool wait_for_retry(const struct watch *w)
{
    struct pollfd p = {.fd = w->stop_fd, .events = POLLIN};
    return poll(&p, 1, (int)(RETRY_NS / NS_PER_MS)) == 0;
}

static int exit_status(const struct watch *w)
{
    struct mono now = clock_mono_now();
    for (size_t i = 0; i < w->cache.count; i++) {
        if (dra_cache_health(&w->cache.entries[i], now) != DRA_HEALTHY) {
            return EXIT_FAILURE;
        }
    }
    return w->cache.count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(struct watch *w)
{
    for (;;) {
        struct err e = ERR_INIT;
        if (attend(w, &e) == ERR_GONE) {
            return w->options.once ? exit_status(w) : EXIT_SUCCESS;
        }
        tell(w->options.driver, &e);
        if (w->options.once) {
            return EXIT_FAILURE;
        }
        forget(w);
        if (!wait_for_retry(w)) {
            return EXIT_SUCCESS;
        }
    }
}

/* ---- the command line ---- */

#define NAME "dpuctl dra watch"

static const char HELP[] =
    "usage: dpuctl dra watch [OPTION]...\n"
    "Shows what a kubelet would know of a DRA plugin's devices. Lines, or on a terminal a table.\n"
    "\n"
    "  --driver NAME           the plugin (dpu.k8s.ovn.org)\n"
    "  --kubelet-root-dir DIR  where its registration socket is found (/var/lib/kubelet)\n"
    "  --socket PATH           the plugin's own socket, without registration\n"
    "  --register              tell the plugin that it is registered, as a kubelet would\n"
    "  --once                  exit after the first report: 0 if every device is Healthy, else 1\n"
    "  --help\n";

#define ROW(option, kind, member)                                                                  \
    .name = (option), .type = (kind), .offset = offsetof(struct watch_options, member)

static const struct option_row rows[] = {
    {ROW("driver", OPTION_TEXT, driver), .default_text = "dpu.k8s.ovn.org"},
    {ROW("kubelet-root-dir", OPTION_TEXT, kubelet_root), .default_text = "/var/lib/kubelet"},
    {ROW("socket", OPTION_TEXT, socket)},
    {ROW("register", OPTION_BOOL, registers), .default_text = "false"},
    {ROW("once", OPTION_BOOL, once), .default_text = "false"},
};

static int check(void *config, const struct option_origins *origins, struct err *e)
{
    const struct watch_options *o = config;
    struct sockaddr_un address;
    int rc = admin_check_driver(origins, "driver", o->driver, e);
    if (rc != 0 || (rc = admin_check_path(origins, "kubelet-root-dir", o->kubelet_root, e)) != 0) {
        return rc;
    }
    if (o->socket && strlen(o->socket) >= sizeof(address.sun_path)) {
        return err_set(e, ERR_LIMIT, "--socket: the path has %zu bytes; a socket's has at most %zu",
                       strlen(o->socket), sizeof(address.sun_path) - 1);
    }
    return o->socket ? admin_check_path(origins, "socket", o->socket, e) : 0;
}

static const struct option_program program = {
    .name = NAME, .rows = rows, .row_count = ARRAY_LEN(rows), .check = check};

/* Returns -1 to go on, or the exit status. */
static int parse(struct watch_options *out, int argc, char **argv)
{
    enum option_outcome outcome;
    struct err e = ERR_INIT;
    for (int i = 1; i < argc; i++) { /* shorter than what the table would print */
        if (text_equal(argv[i], "--help") || text_equal(argv[i], "-h")) {
            (void)fputs(HELP, stdout);
            return EXIT_SUCCESS;
        }
    }
    if (option_parse(&program, argc, argv, NULL, out, &outcome, &e) != 0) {
        return admin_wrong_usage(NAME, e.msg);
    }
    return outcome == OPTION_EXIT ? EXIT_SUCCESS : -1;
}

/* A descriptor that becomes readable on SIGINT and SIGTERM; -1 on failure. */
static int stop_signals(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM); /* all three cannot fail with these arguments */
    return sigprocmask(SIG_BLOCK, &signals, NULL) == 0 ? signalfd(-1, &signals, SFD_CLOEXEC) : -1;
}

int dra_watch_main(int argc, char **argv)
{
    struct watch *w = calloc(1, sizeof(*w)); /* the cache is large */
    if (!w) {
        (void)fputs("dpuctl: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    int status = parse(&w->options, argc, argv);
    if (status < 0) {
        w->is_terminal = isatty(STDOUT_FILENO) == 1 && !w->options.once;
        w->stop_fd = stop_signals();
        if (w->stop_fd < 0) {
            perror(NAME);
            status = EXIT_FAILURE;
        } else {
            show(w, false);
            status = run(w);
        }
        if (w->stop_fd >= 0) {
            (void)close(w->stop_fd);
        }
    }
    option_fini(&program, &w->options);
    free(w);
    return status;
}
