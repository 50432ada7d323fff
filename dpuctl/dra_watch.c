/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/commands.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "dpuctl/admin_options.h"
#include "dpuctl/dra_cache.h"
#include "dpuctl/dra_link.h"
#include "dra_proto/health.pb-c.h"
#include "dra_proto/registration.pb-c.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES_PER_MESSAGE_MAX = DRA_CACHE_DEVICES_MAX };

/* A kubelet's deadline for registration calls, and its pause between two streams. */
static const int64_t CALL_NS = 5 * NS_PER_SEC;
static const int64_t RETRY_NS = 5 * NS_PER_SEC;
static const int64_t REDRAW_NS = NS_PER_SEC;

/* A plugin as its registration socket tells of it. */
struct plugin {
    char socket[PATH_MAX];
    struct timespec made; /* the socket */
    char endpoint[PATH_MAX];
    const char *service; /* "v1" or "v1alpha1"; NULL: none that we know */
};

struct watch_options {
    char *socket; /* NULL: found through registration */
    char *driver;
    char *kubelet_root;
    bool registers; /* also says that it has registered */
    bool once;
};

struct watch {
    struct watch_options options;
    struct plugin asked; /* the one that is being asked */
    struct plugin plugin;
    struct dra_cache cache;
    int stop_fd;
    bool is_terminal;
    bool has_report; /* since the stream was opened */
};

/* ---- what is shown ---- */

/* Seconds since an entry was confirmed. */
static int64_t age_s(const struct dra_entry *entry, struct mono now)
{
    return mono_since(now, entry->updated) / NS_PER_SEC;
}

static void print_entry(const char *driver, const struct dra_entry *entry, struct mono now)
{
    (void)printf("%-9s  %s/%s/%s  %" PRId64 " s of %" PRId64 " s ago  %s\n",
                 dra_health_name(dra_cache_health(entry, now)), driver, entry->pool, entry->device,
                 age_s(entry, now), entry->timeout_ns / NS_PER_SEC, entry->message);
}

/* On a terminal: the whole table in place. Otherwise: a line for what has changed. */
static void show(const struct watch *w, bool changes_only)
{
    struct mono now = clock_mono_now();
    if (w->is_terminal) {
        (void)printf("\033[H\033[J%s at '%s'\n\n", w->options.driver, w->plugin.endpoint);
    }
    for (size_t i = 0; i < w->cache.count; i++) {
        const struct dra_entry *entry = &w->cache.entries[i];
        if (w->is_terminal || !changes_only || entry->has_changed) {
            print_entry(w->options.driver, entry, now);
        }
    }
    (void)fflush(stdout); /* a broken pipe ends the program by SIGPIPE */
}

static void tell(const char *what, const struct err *e)
{
    (void)fprintf(stderr, "dpuctl: %s: %s\n", what, e->msg);
}

/* ---- calls ---- */

/* Runs one call to its end. Errors: as dra_link_open and dra_link_run; ERR_RETRY for a status other
 * than OK, which `out_status` tells. */
static int call(struct watch *w, const char *path, const char *method, const struct buf *request,
                grpc_client_message_fn *on_message, void *user, int *out_status, struct err *e)
{
    struct grpc_client *client;
    struct dra_link link;
    *out_status = -1;
    int rc = grpc_client_new(method, buf_text(request), request->len, on_message, user, &client, e);
    if (rc != 0 || (rc = dra_link_open(&link, path, client, e)) != 0) {
        return rc;
    }
    rc = dra_link_run(&link, mono_add(clock_mono_now(), CALL_NS), w->stop_fd, e);
    if (rc == 0) {
        *out_status = grpc_client_status(client);
        if (*out_status != GRPC_OK) {
            rc = err_set(e, ERR_RETRY, "%s: %s: %s", method, grpc_status_name(*out_status),
                         grpc_client_text(client));
        }
    }
    dra_link_close(&link);
    return rc;
}

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

static void on_info(void *user, const uint8_t *message, size_t len)
{
    struct watch *w = user;
    Registration__PluginInfo *info = registration__plugin_info__unpack(NULL, len, message);
    if (!info) {
        return; /* told by the missing service */
    }
    struct plugin *asked = &w->asked;
    text_sanitize(asked->endpoint, sizeof(asked->endpoint), info->endpoint, strlen(info->endpoint));
    if (text_equal(info->type, "DRAPlugin") && text_equal(info->name, w->options.driver) &&
        text_equal(asked->endpoint, info->endpoint)) {
        asked->service = pick_service(info);
    }
    registration__plugin_info__free_unpacked(info, NULL);
}

static void on_nothing(void *user, const uint8_t *message, size_t len)
{
    (void)user;
    (void)message;
    (void)len;
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
static int ask_socket(struct watch *w, const char *dir, const char *name, struct err *e)
{
    static const char method[] = "/pluginregistration.Registration/GetInfo";
    struct buf nothing;
    struct stat found;
    int status;
    w->asked = (struct plugin){.service = NULL};
    text_format(w->asked.socket, sizeof(w->asked.socket), "%s/%s", dir, name);
    if (stat(w->asked.socket, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        return 0;
    }
    w->asked.made = found.st_ctim;
    buf_init(&nothing, 0);
    int rc = call(w, w->asked.socket, method, &nothing, on_info, w, &status, e);
    if (rc == 0 && w->asked.service &&
        (!w->plugin.service || is_newer(&w->asked.made, &w->plugin.made))) {
        w->plugin = w->asked;
    }
    return rc;
}

/* Of the sockets that are named for our driver, or of the others: the newest that is of it, so that
 * in a rolling update it is the one that stays. `why` keeps what the first said that failed.
 * Errors: ERR_GONE (interrupted), ERR_IO. */
static int ask_sockets(struct watch *w, const char *dir, bool are_named, struct err *why,
                       struct err *e)
{
    int rc = 0;
    DIR *entries = opendir(dir);
    if (!entries) {
        return err_set_errno(e, ERR_IO, errno, "looking into '%s'", dir);
    }
    for (struct dirent *at = readdir(entries); at && rc != ERR_GONE; at = readdir(entries)) {
        struct err own = ERR_INIT;
        if (at->d_name[0] == '.' || is_named_for(w->options.driver, at->d_name) != are_named) {
            continue;
        }
        rc = ask_socket(w, dir, at->d_name, &own);
        if (rc != 0 && why->code == 0) {
            *why = own;
        }
    }
    (void)closedir(entries); /* read-only */
    return rc == ERR_GONE ? err_set(e, rc, "interrupted") : 0;
}

static int tell_registered(struct watch *w, struct err *e)
{
    static const uint8_t registered[] = {0x08, 0x01}; /* RegistrationStatus{1: true} */
    struct buf request;
    int status;
    buf_init(&request, sizeof(registered));
    int rc = buf_append(&request, registered, sizeof(registered), e);
    if (rc == 0) {
        rc = call(w, w->plugin.socket, "/pluginregistration.Registration/NotifyRegistrationStatus",
                  &request, on_nothing, NULL, &status, e);
    }
    buf_fini(&request);
    return rc;
}

/* What a kubelet does when it sees registration sockets. It asks all; we begin with likely ones, so
 * that a plugin of others that hangs does not hold us up. */
static int find_plugin(struct watch *w, struct err *e)
{
    char dir[PATH_MAX];
    struct err why = ERR_INIT;
    w->plugin = (struct plugin){.service = NULL};
    if (w->options.socket) {
        w->plugin.service = "v1";
        text_format(w->plugin.endpoint, sizeof(w->plugin.endpoint), "%s", w->options.socket);
        return 0;
    }
    text_format(dir, sizeof(dir), "%s/plugins_registry", w->options.kubelet_root);
    int rc = ask_sockets(w, dir, true, &why, e);
    if (rc == 0 && !w->plugin.service) {
        rc = ask_sockets(w, dir, false, &why, e);
    }
    if (rc != 0) {
        return rc;
    }
    if (!w->plugin.service) {
        return err_set(
            e, ERR_NOTFOUND,
            "no socket in '%s', such as %s-reg.sock, is of DRA plugin '%s' with a health "
            "service%s%s",
            dir, w->options.driver, w->options.driver, why.code != 0 ? "; " : "", why.msg);
    }
    return w->options.registers ? tell_registered(w, e) : 0;
}

/* ---- the stream ---- */

static void on_report(void *user, const uint8_t *message, size_t len)
{
    struct watch *w = user;
    struct dra_said said[DEVICES_PER_MESSAGE_MAX];
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
            said[count++] = (struct dra_said){.pool = device->device->pool_name,
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

/* Until the stream ends. Errors: ERR_GONE when interrupted, or with --once after the first report;
 * ERR_RETRY with the reason otherwise. */
static int follow(struct watch *w, struct err *e)
{
    char method[96];
    struct grpc_client *client;
    struct dra_link link;
    (void)snprintf(method, sizeof(method), "/%s.DRAResourceHealth/NodeWatchResources",
                   w->plugin.service); /* fits */
    w->has_report = false;
    int rc = grpc_client_new(method, "", 0, on_report, w, &client, e);
    if (rc != 0 || (rc = dra_link_open(&link, w->plugin.endpoint, client, e)) != 0) {
        return rc;
    }
    do {
        struct err why = ERR_INIT;
        rc = dra_link_run(&link, mono_add(clock_mono_now(), REDRAW_NS), w->stop_fd, &why);
        bool is_silent = rc == ERR_RETRY && why.sys_errno == ETIMEDOUT;
        if (is_silent && !(w->options.once && w->has_report)) {
            if (w->is_terminal) {
                show(w, false); /* ages, and what has expired meanwhile */
            }
            rc = 0;
        } else if (rc != 0) {
            rc = err_set(e, is_silent ? ERR_GONE : rc, "%s", why.msg);
        }
    } while (rc == 0 && !grpc_client_is_over(client));
    if (rc == 0) {
        int status = grpc_client_status(client);
        if (status == GRPC_UNIMPLEMENTED && text_equal(w->plugin.service, "v1")) {
            w->plugin.service = "v1alpha1"; /* an older plugin */
        }
        const char *text = grpc_client_text(client);
        rc = err_set(e, ERR_RETRY, "the stream ended: %s%s%s", grpc_status_name(status),
                     text[0] ? ", " : "", text);
    }
    dra_link_close(&link);
    return rc;
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
        int rc = find_plugin(w, &e);
        rc = rc == 0 ? follow(w, &e) : rc;
        if (rc == ERR_GONE) {
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
