/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/commands.h"

#include "base/clock.h"
#include "base/text.h"
#include "dpuctl/admin_options.h"
#include "dpuctl/dra_cache.h"
#include "dpuctl/dra_plugin.h"
#include "dra_proto/health.pb-c.h"
#include "grpc/unix_call.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DEVICES_PER_MESSAGE_MAX = DRA_CACHE_DEVICES_MAX };

/* A kubelet's pause between two streams. */
static const int64_t RETRY_NS = 5 * NS_PER_SEC;
static const int64_t REDRAW_NS = NS_PER_SEC;

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
    bool has_report; /* since the stream was opened */
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

/* Until the call is over. Errors: ERR_GONE when interrupted, or with --once after the first report;
 * ERR_RETRY. */
static int follow(struct watch *w, struct unix_call *call, struct err *e)
{
    while (!grpc_client_is_over(call->client)) {
        struct err why = ERR_INIT;
        int rc = unix_call_wait(call, mono_add(clock_mono_now(), REDRAW_NS), &why);
        bool is_silent = rc == ERR_RETRY && why.sys_errno == ETIMEDOUT;
        if (rc != 0 && !is_silent) {
            return err_set(e, rc, "%s", why.msg);
        }
        if (is_silent && w->options.once && w->has_report) {
            return err_set(e, ERR_GONE, "%s", why.msg);
        }
        if (is_silent && w->is_terminal) {
            show(w, false); /* ages, and what has expired meanwhile */
        }
    }
    return 0;
}

/* Opens the stream and follows it to its end. Errors: as follow. */
static int stream(struct watch *w, struct err *e)
{
    char method[96];
    struct unix_call call = {.path = w->plugin.endpoint,
                             .method = method,
                             .on_message = on_report,
                             .user = w,
                             .stop_fd = w->stop_fd};
    text_format(method, sizeof(method), "/%s.DRAResourceHealth/NodeWatchResources",
                w->plugin.service);
    w->has_report = false;
    int rc = unix_call_open(&call, e);
    if (rc != 0) {
        return rc;
    }
    rc = follow(w, &call, e);
    if (rc == 0) {
        int status = grpc_client_status(call.client);
        const char *text = grpc_client_text(call.client);
        rc = err_set(e, ERR_RETRY, "the stream ended: %s%s%s", grpc_status_name(status),
                     text[0] ? ", " : "", text);
    }
    unix_call_close(&call);
    return rc;
}

/* Finds the plugin and follows its stream. Errors: as follow. */
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
