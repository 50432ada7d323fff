/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/dra_service.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "host-agent/dra/plugin.h"
#include "host-agent/dra/slice.h"
#include "loop/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STANDARD "resource.kubernetes.io/" /* before the names of standard attributes */

enum {
    DRIVER_MAX_BYTES = 63,
    DEVICE_MAX_BYTES = 63,
};

/* In the order of opening: the kubelet dials the one for DRA as soon as it has seen the other. */
enum { SOCKET_DRA, SOCKET_REGISTRATION, SOCKET_COUNT };

struct dra_service {
    struct plugin plugin; /* first, so that its callbacks lead back */
    struct dra_config config;
    struct dra_device device;     /* owns its attributes */
    struct file_lock driver_lock; /* held with the sockets, but by a second */
    struct slice_publisher *publisher;
    struct grpc_server *servers[SOCKET_COUNT]; /* NULL: not listening; all are, or none */
    struct log_repeat socket_warnings;
    struct boot_timer *timer; /* heartbeat, sockets; the end, once the plugin is stopped */
    struct mono next_check;
    int draining; /* servers that are */
};

/* ---- options --------------------------------------------------------------------------------- */

static int add_attributes(const struct dra_options *o, json_t *out, struct err *e)
{
    for (size_t i = 0; i < o->attributes.count; i++) {
        int rc = attribute_add(out, o->attributes.items[i], e);
        if (rc != 0) {
            return err_wrap(e, "--dra-attribute");
        }
    }
    return 0;
}

static bool fits(int printed)
{
    return printed >= 0 && printed < SOCKET_PATH_BYTES;
}

/* The directory, or its default below the kubelet's root. Without slashes at the end: the kubelet
 * compares cleaned paths. */
static int name_dir(const char *dir, const char *root, const char *below,
                    char out[static SOCKET_PATH_BYTES], struct err *e)
{
    bool is_given = !text_is_empty(dir);
    const char *path = is_given ? dir : root;
    size_t len = strlen(path);
    if (path[0] != '/') {
        return err_set(e, ERR_PARSE, "directory '%s' is not absolute", path);
    }
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    if (len >= SOCKET_PATH_BYTES ||
        !fits(snprintf(out, SOCKET_PATH_BYTES, "%.*s%s", (int)len, path, is_given ? "" : below))) {
        return err_set(e, ERR_LIMIT, "directory '%s' leaves no room for a socket", path);
    }
    return 0;
}

/* DIR/STEM[-UID]TAIL; where the UID does not fit, a hash keeps a handful of instances apart. */
static bool name_socket(const struct dra_options *o, const char *dir, const char *stem,
                        const char *tail, char out[static SOCKET_PATH_BYTES])
{
    enum { MAX = SOCKET_PATH_BYTES };
    char text[2 * NAMES_K8S_NAME_BYTES];
    bool is_rolling = !text_is_empty(o->rolling_uid);
    const char *uid = is_rolling ? o->rolling_uid : "";
    int len = snprintf(out, MAX, "%s/%s%s%s%s", dir, stem, is_rolling ? "-" : "", uid, tail);
    if (is_rolling && !fits(len)) {
        text_format(text, sizeof(text), "%s.%s", o->driver, uid);
        len = snprintf(out, MAX, "%s/dra-%08" PRIx32 "%s", dir, crc32c_compute(text, strlen(text)),
                       tail);
    }
    return fits(len);
}

static int name_paths(struct dra_options *o, struct err *e)
{
    char below[SOCKET_PATH_BYTES];
    if (!text_is_dns1123_subdomain(o->driver) || strlen(o->driver) > DRIVER_MAX_BYTES) {
        return err_set(e, ERR_PARSE, "driver name '%s' is not a DNS subdomain of at most %d bytes",
                       o->driver, DRIVER_MAX_BYTES);
    }
    if (!text_is_empty(o->rolling_uid) && !text_is_dns1123_subdomain(o->rolling_uid)) {
        return err_set(e, ERR_PARSE, "rolling update UID '%s' is not a pod UID", o->rolling_uid);
    }
    text_format(below, sizeof(below), "/plugins/%s", o->driver);
    const char *root = o->dirs.kubelet_root;
    int rc = name_dir(o->dirs.registry, root, "/plugins_registry", o->names.registry_dir, e);
    const char *registry = o->names.registry_dir;
    const char *plugin = o->names.plugin_dir;
    if (rc != 0 || (rc = name_dir(o->dirs.plugin, root, below, o->names.plugin_dir, e)) != 0) {
        return rc;
    }
    return name_socket(o, registry, o->driver, "-reg.sock", o->names.registration) &&
                   name_socket(o, plugin, "dra", ".sock", o->names.dra)
               ? 0
               : err_set(e, ERR_LIMIT, "socket names in '%s' and '%s' exceed %d bytes", registry,
                         plugin, SOCKET_PATH_BYTES - 1);
}

int dra_options_check(struct dra_options *o, struct err *e)
{
    if (o->mode == DRA_OFF) {
        return 0;
    }
    if (!text_is_dns1123_subdomain(o->device) || strlen(o->device) > DEVICE_MAX_BYTES ||
        strchr(o->device, '.')) {
        return err_set(e, ERR_PARSE, "--dra-device-name '%s' is not a DNS label", o->device);
    }
    if (!text_is_empty(o->pool) && !text_is_dns1123_subdomain(o->pool)) {
        return err_set(e, ERR_PARSE, "--dra-pool-name '%s' is not a DNS name", o->pool);
    }
    if (o->health_timeout_ns % NS_PER_SEC != 0) {
        return err_set(e, ERR_PARSE, "--dra-health-timeout is not a number of whole seconds");
    }
    if (!text_is_empty(o->lock_dir) && o->lock_dir[0] != '/') {
        return err_set(e, ERR_PARSE, "--dra-lock-dir '%s' is not absolute", o->lock_dir);
    }
    CLEANUP(json) json_t *attributes = json_object();
    int rc = name_paths(o, e);
    return rc == 0 ? add_attributes(o, attributes, e) : rc;
}

bool dra_options_enabled(const struct dra_options *o)
{
    return o->mode == DRA_AUTO ? access(o->names.registry_dir, F_OK) == 0 : o->mode == DRA_ON;
}

/* The function's NUMA node, where it is near one: -1 would match every other that is not. */
static void describe_numa_node(const char *dir, json_t *out)
{
    enum { NUMBER_MAX_BYTES = 32 };
    char path[PATH_MAX];
    uint64_t node;
    CLEANUP(buf) struct buf text = {.max_bytes = NUMBER_MAX_BYTES};
    text_format(path, sizeof(path), "%s/numa_node", dir);
    if (file_read(path, &text, NULL) == 0 &&
        text_to_u64(buf_text(&text), strcspn(buf_text(&text), "\n"), &node, NULL) == 0) {
        (void)json_object_set_new(out, STANDARD "numaNode",
                                  json_pack("{s:I}", "int", (json_int_t)node));
    }
}

/* The standard attributes of what a probe of the host looks at; false if that is not on PCI. From
 * ".../devices/pci0000:00/0000:00:01.0/0000:03:00.0". */
static bool describe_function(const char *root, const char *probe, json_t *out)
{
    char text[PATH_MAX];
    char dir[PATH_MAX];
    const char *settings = strrchr(probe, ';');
    const char *what = settings ? settings + 1 : probe;
    bool is_pci = strncmp(what, "pci:", 4) == 0;
    if (!is_pci && strncmp(what, "netdev:", 7) != 0) {
        return false;
    }
    const char *name = strchr(what, ':') + 1; /* the first of several interfaces */
    text_format(text, sizeof(text), "%s/sys/%s/%.*s%s", root,
                is_pci ? "bus/pci/devices" : "class/net", (int)strcspn(name, ","), name,
                is_pci ? "" : "/device");
    if (!realpath(text, dir)) {
        return false;
    }
    const char *bus = strstr(dir, "/devices/pci");
    const char *address = strrchr(dir, '/') + 1;
    if (!bus || !text_is_pci_address(address)) {
        return false;
    }
    bus += strlen("/devices/");
    (void)json_object_set_new(out, STANDARD "pciBusID", json_pack("{s:s}", "string", address));
    (void)json_object_set_new(out, STANDARD "pcieRoot",
                              json_pack("{s:s%}", "string", bus, strcspn(bus, "/")));
    describe_numa_node(dir, out);
    return true;
}

/* ---- time ------------------------------------------------------------------------------------ */

static void rearm(struct dra_service *s)
{
    boot_timer_arm(s->timer, mono_min(s->plugin.next_beat, s->next_check));
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void on_drained(void *user)
{
    struct dra_service *s = user;
    s->draining--;
    if (s->draining == 0) {
        boot_timer_arm(s->timer, clock_mono_now()); /* from the loop, not from a callback */
    }
}

static void close_sockets(struct dra_service *s)
{
    for (int i = SOCKET_COUNT - 1; i >= 0; i--) {
        grpc_server_free(TAKE(s->servers[i]));
    }
    s->plugin.stats.is_registered = false;
    file_lock_release(&s->driver_lock);
}

/* One agent of a node is the driver of one name: two that would serve it (two DPUs, one
 * --dra-driver-name) would take each other's sockets and slice away. */
static int take_driver(struct dra_service *s, struct err *e)
{
    /* 0750: only root, and whoever the admin put into root's group, can reach the socket. */
    const char *dir = s->config.options->names.plugin_dir;
    if (mkdir(dir, 0750) != 0 && errno != EEXIST) {
        return err_set_errno(e, ERR_IO, errno, "making directory '%s'", dir);
    }
    int rc = s->config.is_second ? 0 : file_lock_take(&s->driver_lock, e);
    return rc != ERR_CONFLICT ? rc
                              : err_set(e, rc,
                                        "another dpu-host-agent uses driver '%s': each DPU of a "
                                        "node needs its own --dra-driver-name (lock '%s')",
                                        s->device.driver, s->driver_lock.path);
}

static int open_sockets(struct dra_service *s, struct err *e)
{
    static const char *const names[] = {
        [SOCKET_DRA] = "dra", [SOCKET_REGISTRATION] = "registration"};
    for (size_t i = 0; i < SOCKET_COUNT; i++) {
        const struct grpc_server_config config = {
            .loop = s->config.loop,
            .name = names[i],
            .path = i == SOCKET_DRA ? s->config.options->names.dra
                                    : s->config.options->names.registration,
            .methods = plugin_methods,
            .method_count = ARRAY_LEN(plugin_methods),
            .on_drained = on_drained,
            .user = &s->plugin,
        };
        int rc = grpc_server_start(&config, &s->servers[i], e);
        if (rc != 0) {
            close_sockets(s);
            return err_wrap(e, "serving '%s'", names[i]);
        }
    }
    return 0;
}

static bool are_sockets_in_place(const struct dra_service *s)
{
    bool are_there = true;
    for (size_t i = 0; i < SOCKET_COUNT; i++) {
        are_there = are_there && s->servers[i] && grpc_server_is_in_place(s->servers[i]);
    }
    return are_there;
}

/* A socket that cannot be served now is tried again. Errors: ERR_CONFLICT if the driver is another
 * agent's. */
static int check_sockets(struct dra_service *s, struct mono now, struct err *e)
{
    struct err why = ERR_INIT;
    s->next_check = mono_add(now, s->config.check_interval_ns);
    if (are_sockets_in_place(s)) {
        return 0;
    }
    if (s->servers[SOCKET_DRA]) {
        log_warn("dra", "somebody removed the agent's sockets: opening them again");
    }
    close_sockets(s);
    int rc = take_driver(s, &why);
    if (rc == ERR_CONFLICT) {
        return err_set(e, rc, "%s", why.msg);
    }
    if (rc == 0 && open_sockets(s, &why) == 0) {
        log_info("dra", "serving driver '%s' at '%s', announced at '%s'", s->device.driver,
                 s->config.options->names.dra, s->config.options->names.registration);
        log_repeat_reset(&s->socket_warnings);
    } else {
        log_limited(&s->socket_warnings, 60 * DRA_CHECK_NS, LOG_WARN, "dra",
                    "%s (the kubelet may not have started yet), will retry", why.msg);
    }
    return 0;
}

static void on_timer(void *user)
{
    struct dra_service *s = user;
    struct mono now = clock_mono_now();
    struct err e = ERR_INIT;
    if (s->plugin.is_stopped) {
        close_sockets(s);
        s->config.on_stopped(s->config.user); /* may free `s` */
        return;
    }
    if (mono_reached(now, s->next_check) && check_sockets(s, now, &e) != 0) {
        log_error("dra", "%s: stopping", e.msg);
        dra_service_stop(s);
        return;
    }
    plugin_tick(&s->plugin, now, clock_wall_now());
    rearm(s);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Found ones come first, so that given ones win. */
static int make_attributes(struct dra_service *s, struct err *e)
{
    const struct option_list *probes = s->config.probes;
    size_t at = 0;
    while (probes && at < probes->count &&
           !describe_function(s->config.host_root, probes->items[at], s->device.attributes)) {
        at++;
    }
    return add_attributes(s->config.options, s->device.attributes, e);
}

static void make_parts(struct dra_service *s)
{
    const struct dra_config *c = &s->config;
    const struct dra_options *o = c->options;
    s->device = (struct dra_device){.driver = o->driver,
                                    .node_name = c->node_name,
                                    .pool = text_is_empty(o->pool) ? c->node_name : o->pool,
                                    .name = o->device,
                                    .attributes = json_object(),
                                    .effect = (enum slice_effect)o->taint_effect};
    s->plugin = (struct plugin){
        .config = c, .device = &s->device, .claims = claim_events_new(c, &s->device)};
    plugin_init(&s->plugin);
    s->publisher = slice_publisher_new(c, &s->device, &s->plugin.stats);
    s->timer = boot_timer_new(c->loop, on_timer, s);
}

int dra_service_start(const struct dra_config *config, struct dra_service **out, struct err *e)
{
    struct dra_service *s = MEM_NEW(struct dra_service);
    const struct dra_options *o = config->options;
    s->config = *config;
    make_parts(s);
    const char *dir = text_is_empty(o->lock_dir) ? o->names.plugin_dir : o->lock_dir;
    int rc = file_lock_init(&s->driver_lock, dir, "/driver.lock", e);
    if (rc != 0 || (rc = file_lock_init(&s->plugin.lock, dir, "/serialize.lock", e)) != 0 ||
        (rc = make_attributes(s, e)) != 0 || (rc = check_sockets(s, clock_mono_now(), e)) != 0) {
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
    return s->servers[SOCKET_DRA] ? take_driver(s, e)
                                  : 0; /* without sockets: once they are opened */
}

void dra_service_publish(struct dra_service *s, const struct readiness *verdict)
{
    if (s->plugin.is_stopped) {
        return;
    }
    plugin_publish(&s->plugin, verdict, clock_mono_now(), clock_wall_now());
    rearm(s);
    if (!s->config.is_second) {
        slice_publisher_publish(s->publisher, verdict);
    }
}

void dra_service_stop(struct dra_service *s)
{
    if (s->plugin.is_stopped) {
        return;
    }
    struct mono now = clock_mono_now();
    plugin_stop(&s->plugin, clock_wall_now());
    if (!s->servers[SOCKET_DRA]) {
        boot_timer_arm(s->timer, now);
        return;
    }
    s->draining = SOCKET_COUNT;
    boot_timer_arm(s->timer, mono_add(now, DRA_STOP_GRACE_NS));
    for (int i = SOCKET_COUNT - 1; i >= 0; i--) {
        grpc_server_shutdown(s->servers[i]);
    }
}

void dra_service_free(struct dra_service *s)
{
    if (!s) {
        return;
    }
    close_sockets(s);
    claim_events_free(s->plugin.claims);
    slice_publisher_free(s->publisher);
    json_decref(s->device.attributes);
    boot_timer_free(s->timer);
    free(s);
}

const struct dra_stats *dra_service_stats(const struct dra_service *s)
{
    return &s->plugin.stats;
}
