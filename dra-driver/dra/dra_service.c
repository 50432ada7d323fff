/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/dra_service.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "dra-driver/dra/instance.h"
#include "dra-driver/dra/plugin.h"
#include "dra-driver/dra/slice.h"
#include "loop/daemon.h"
#include "outputs/events.h"

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

enum phase {
    PHASE_SERVING,
    PHASE_LEAVING,      /* as before, until another instance is registered, if one is there */
    PHASE_HANDING_OVER, /* that one leads; this one still serves */
    PHASE_DRAINING,
};

struct dra_service {
    struct plugin plugin; /* first, so that its callbacks lead back */
    struct dra_config config;
    struct dra_device device;     /* owns its attributes */
    struct file_lock driver_lock; /* with the sockets; who holds it leads */
    struct instance instance;
    struct slice_publisher *publisher;
    struct grpc_server *servers[SOCKET_COUNT]; /* NULL: not listening; all are, or none */
    struct dir_watch others;                   /* other instances that go */
    struct log_repeat socket_warnings;
    struct log_repeat unregistered;
    struct boot_timer
        *timer; /* heartbeat, sockets, the lead; the end, once the plugin is stopped */
    struct mono next_check;
    struct mono opened_at;    /* the sockets */
    struct readiness verdict; /* the newest */
    bool has_verdict;
    bool has_shown; /* to the API server */
    enum phase phase;
    struct mono asked_at; /* to stop */
    int draining;         /* servers that are */
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

/* Without slashes at the end: the kubelet compares cleaned paths. */
static int name_dir(const char *path, const char *below, char out[static SOCKET_PATH_BYTES],
                    struct err *e)
{
    size_t len = strlen(path);
    if (path[0] != '/') {
        return err_set(e, ERR_PARSE, "directory '%s' is not absolute", path);
    }
    while (len > 0 && path[len - 1] == '/') { /* of "/" nothing is left */
        len--;
    }
    if (len >= SOCKET_PATH_BYTES ||
        !fits(snprintf(out, SOCKET_PATH_BYTES, "%.*s%s", (int)len, path, below))) {
        return err_set(e, ERR_LIMIT, "directory '%s' leaves no room for a socket", path);
    }
    return 0;
}

/* A kubelet from 1.38 on refuses a socket that is not below its root, by the path's text alone. */
static bool is_below(const char *dir, const char *root)
{
    size_t len = strlen(root);
    return strncmp(dir, root, len) == 0 && dir[len] == '/' && !strstr(dir, "/../") &&
           !strstr(dir, "/./") && !strstr(dir, "//");
}

/* DIR/STEM[-UID]TAIL; where the UID does not fit, a hash keeps a handful of instances apart. */
static bool name_socket(const char *driver, const char *uid, const char *dir, const char *stem,
                        const char *tail, char out[static SOCKET_PATH_BYTES])
{
    enum { MAX = SOCKET_PATH_BYTES };
    char text[2 * NAMES_K8S_NAME_BYTES];
    bool is_rolling = uid[0] != '\0';
    int len = snprintf(out, MAX, "%s/%s%s%s%s", dir, stem, is_rolling ? "-" : "", uid, tail);
    if (is_rolling && !fits(len)) {
        text_format(text, sizeof(text), "%s.%s", driver, uid);
        len = snprintf(out, MAX, "%s/dra-%08" PRIx32 "%s", dir, crc32c_compute(text, strlen(text)),
                       tail);
    }
    return fits(len);
}

bool dra_options_name_sockets(const struct dra_options *o, const char *uid,
                              char out_registration[static SOCKET_PATH_BYTES],
                              char out_dra[static SOCKET_PATH_BYTES])
{
    uid = uid ? uid : "";
    return name_socket(o->driver, uid, o->names.registry_dir, o->driver, "-reg.sock",
                       out_registration) &&
           name_socket(o->driver, uid, o->names.plugin_dir, "dra", ".sock", out_dra);
}

static int check_root(const struct dra_options *o, struct err *e)
{
    char root[SOCKET_PATH_BYTES];
    int rc = name_dir(o->kubelet_root, "", root, e);
    if (rc != 0 || is_below(o->names.plugin_dir, root)) {
        return rc;
    }
    return err_set(
        e, ERR_PARSE,
        "--dra-plugin-dir '%s' is not below --kubelet-root-dir '%s': a kubelet from 1.38 "
        "on refuses its socket",
        o->names.plugin_dir, root);
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
    int rc = name_dir(o->kubelet_root, "/plugins_registry", o->names.registry_dir, e);
    if (rc == 0 && text_is_empty(o->plugin_dir)) {
        text_format(below, sizeof(below), "/plugins/%s", o->driver);
        rc = name_dir(o->kubelet_root, below, o->names.plugin_dir, e);
    } else if (rc == 0) {
        rc = name_dir(o->plugin_dir, "", o->names.plugin_dir, e);
    }
    if (rc != 0 || (rc = check_root(o, e)) != 0) {
        return rc;
    }
    return dra_options_name_sockets(o, o->rolling_uid, o->names.registration, o->names.dra)
               ? 0
               : err_set(e, ERR_LIMIT, "socket names in '%s' and '%s' exceed %d bytes",
                         o->names.registry_dir, o->names.plugin_dir, SOCKET_PATH_BYTES - 1);
}

int dra_options_check(struct dra_options *o, struct err *e)
{
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
    CLEANUP(json) json_t *attributes = json_object();
    int rc = name_paths(o, e);
    return rc == 0 ? add_attributes(o, attributes, e) : rc;
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

static bool is_rolling(const struct dra_service *s)
{
    return !text_is_empty(s->config.options->rolling_uid);
}

static void rearm(struct dra_service *s)
{
    struct mono at = mono_min(s->plugin.next_beat, s->next_check);
    bool is_second = !s->plugin.stats.is_leading && s->servers[SOCKET_DRA];
    if (is_second || s->phase == PHASE_LEAVING) {
        at = mono_min(at, mono_add(clock_mono_now(), DRA_LEAD_POLL_NS));
    }
    boot_timer_arm(s->timer, at);
}

/* ---- what the API server is told ------------------------------------------------------------- */

/* The verdict that an instance begins with has been told, or was not worth it. */
static void show_cluster(struct dra_service *s)
{
    if (!s->has_verdict || !s->plugin.stats.is_leading || s->plugin.stats.registrations == 0 ||
        s->phase > PHASE_LEAVING) {
        return;
    }
    claim_events_show(s->plugin.claims, &s->verdict);
    if (s->config.events && !s->has_shown) {
        events_begin(s->config.events, &s->verdict);
    }
    if (s->config.events) {
        events_publish(s->config.events, &s->verdict);
    }
    s->has_shown = true;
    slice_publisher_publish(s->publisher, &s->verdict);
}

static void on_registered(struct plugin *p)
{
    struct dra_service *s = (struct dra_service *)p; /* its first member */
    struct err e = ERR_INIT;
    log_repeat_reset(&s->unregistered);
    if (instance_say_registered(&s->instance, &e) != 0) {
        log_warn("dra", "%s: the end of another instance may show as Unknown", e.msg);
    }
    show_cluster(s);
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

static void stop_leading(struct dra_service *s)
{
    s->plugin.stats.is_leading = false;
    file_lock_release(&s->driver_lock);
}

static void close_sockets(struct dra_service *s)
{
    for (int i = SOCKET_COUNT - 1; i >= 0; i--) {
        grpc_server_free(TAKE(s->servers[i]));
    }
    s->plugin.stats.is_registered = false;
    instance_end(&s->instance);
    stop_leading(s);
}

/* One program of a node is the driver of one name: two that would serve it (two DPUs, one
 * --dra-driver-name) would take each other's sockets and slice away. Instances of a rolling update
 * show one record: which one the lock says. */
static int take_lead(struct dra_service *s, struct err *e)
{
    struct err why = ERR_INIT;
    const char *lock = s->driver_lock.path;
    int rc = file_lock_take(&s->driver_lock, e);
    s->plugin.stats.is_leading = rc == 0;
    if (rc == 0 && instance_note(s->driver_lock.fd, s->config.record_path, &why) != 0) {
        log_warn("dra", "%s, continuing without: another driver of this name would not notice",
                 why.msg);
    }
    if (rc != ERR_CONFLICT) {
        return rc;
    }
    /* One that has just taken it, or found the disk full, has noted nothing. */
    if (is_rolling(s) &&
        (instance_is_noted(lock, s->config.record_path) || instance_is_noted(lock, ""))) {
        return 0;
    }
    return err_set(e, rc,
                   "another dpu-dra-driver uses driver '%s': each DPU of a node needs its own "
                   "--dra-driver-name (lock '%s')",
                   s->device.driver, lock);
}

static int take_driver(struct dra_service *s, struct err *e)
{
    /* 0750: only root, and whoever the admin put into root's group, can reach the socket. What is
     * above it is the kubelet's to make: where it is missing, the kubelet is not there. */
    const char *dir = s->config.options->names.plugin_dir;
    if (mkdir(dir, 0750) != 0 && errno != EEXIST) {
        return err_set_errno(e, ERR_IO, errno, "making directory '%s'", dir);
    }
    int rc = take_lead(s, e);
    if (rc == 0) {
        rc = instance_begin(&s->instance, e);
        rc = rc == ERR_CONFLICT ? ERR_IO : rc; /* that of a killed one is being removed: again */
    }
    return rc;
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

/* Of an instance whose lock is free. A path on which somebody listens all the same is not touched.
 */
static bool remove_sockets_of(void *user, const char *uid)
{
    const struct dra_service *s = user;
    char paths[SOCKET_COUNT][SOCKET_PATH_BYTES];
    if (!dra_options_name_sockets(s->config.options, uid, paths[0], paths[1])) {
        return true; /* no instance had such a name */
    }
    bool are_gone = true;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        are_gone = instance_remove_socket(paths[i]) && are_gone;
    }
    if (are_gone) {
        log_info("dra", "removed what instance '%s' of this driver left when it was killed", uid);
    }
    return are_gone;
}

static void look_at_registration(struct dra_service *s, struct mono now)
{
    if (!s->plugin.stats.is_registered && mono_since(now, s->opened_at) >= DRA_UNREGISTERED_NS) {
        log_limited(
            &s->unregistered, LOG_SELDOM_NS, LOG_WARN, "dra",
            "no kubelet has registered driver '%s', which waits in '%s': check that this "
            "is in the kubelet's --root-dir (--kubelet-root-dir); until then the DPU is not "
            "on offer",
            s->device.driver, s->config.options->names.registry_dir);
    }
}

/* A socket that cannot be served now is tried again. Errors: ERR_CONFLICT if the driver is another
 * one's. */
static int check_sockets(struct dra_service *s, struct mono now, struct err *e)
{
    struct err why = ERR_INIT;
    s->next_check = mono_add(now, s->config.check_interval_ns);
    if (are_sockets_in_place(s)) {
        if (s->plugin.stats.is_leading && is_rolling(s)) {
            instance_find_dead(&s->instance, remove_sockets_of, s);
            (void)dir_watch_add(&s->others, s->config.options->names.plugin_dir, IN_DELETE);
        }
        look_at_registration(s, now);
        return 0;
    }
    if (s->servers[SOCKET_DRA]) {
        log_warn("dra", "somebody removed the driver's sockets: opening them again");
    }
    close_sockets(s);
    int rc = take_driver(s, &why);
    if (rc == ERR_CONFLICT) {
        return err_set(e, rc, "%s", why.msg);
    }
    if (rc == 0 && open_sockets(s, &why) == 0) {
        s->opened_at = now;
        log_info("dra", "serving driver '%s' at '%s', announced at '%s'%s", s->device.driver,
                 s->config.options->names.dra, s->config.options->names.registration,
                 s->plugin.stats.is_leading ? "" : ", beside an instance that leads");
        log_repeat_reset(&s->socket_warnings);
    } else {
        log_limited(&s->socket_warnings, 60 * DRA_CHECK_NS, LOG_WARN, "dra",
                    "%s (the kubelet has not started yet, or has another "
                    "--root-dir: --kubelet-root-dir), will retry",
                    why.msg);
    }
    return 0;
}

/* The instance that led has ended, or lets go of the lead because it is about to. */
static int look_at_lead(struct dra_service *s, struct mono now, struct err *e)
{
    if (s->plugin.stats.is_leading || !s->servers[SOCKET_DRA]) {
        return 0;
    }
    int rc = take_lead(s, e);
    if (rc == 0 && s->plugin.stats.is_leading) {
        log_info("dra", "leading from now on: the instance that led goes, or has gone");
        plugin_hurry(&s->plugin, now, mono_add(now, DRA_QUICK_NS));
        show_cluster(s);
    }
    return rc == ERR_CONFLICT ? rc : 0;
}

/* Another instance goes, or we open our sockets anew. The kubelet forgets what we said when its
 * stream ends, which is within DRA_QUICK_NS. */
static void on_other_gone(void *user)
{
    struct dra_service *s = user;
    struct mono now = clock_mono_now();
    if (s->phase <= PHASE_LEAVING && s->plugin.stats.is_leading) {
        plugin_hurry(&s->plugin, now, mono_add(now, DRA_QUICK_NS));
        rearm(s);
    }
}

static void end_serving(struct dra_service *s, struct mono now)
{
    s->phase = PHASE_DRAINING;
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

/* Has it to serve on? In a rolling update the new Pod may be called ready too early: on the host's
 * network, this instance answers the kubelet's probe in its place. So what counts is what that one
 * has noted. One that was only just started may have noted nothing yet. */
static bool is_needed(const struct dra_service *s, enum instance_others others, struct mono now)
{
    int64_t waited_ns = mono_since(now, s->asked_at);
    return others == INSTANCE_BESIDE ? waited_ns < DRA_LEAVE_MAX_NS : waited_ns < DRA_LEAVE_MIN_NS;
}

/* Asked to stop. True if there is nothing more to be served. */
static bool leave(struct dra_service *s, struct mono now)
{
    enum instance_others others =
        is_rolling(s) && s->servers[SOCKET_DRA] ? instance_look(&s->instance) : INSTANCE_ALONE;
    if (others == INSTANCE_SUCCEEDED) {
        log_info("dra", "another instance of this driver is registered: it goes on");
        s->phase = PHASE_HANDING_OVER;
        plugin_hush(&s->plugin);
        stop_leading(s);
        boot_timer_arm(s->timer, mono_add(now, DRA_HANDOVER_NS));
        return true;
    }
    if (is_rolling(s) && s->servers[SOCKET_DRA] && is_needed(s, others, now)) {
        return false;
    }
    end_serving(s, now);
    return true;
}

static void on_timer(void *user)
{
    struct dra_service *s = user;
    struct mono now = clock_mono_now();
    struct err e = ERR_INIT;
    switch (s->phase) {
    case PHASE_DRAINING:
        close_sockets(s);
        s->config.on_stopped(s->config.user); /* may free `s` */
        return;
    case PHASE_HANDING_OVER:
        end_serving(s, now);
        return;
    case PHASE_LEAVING:
        if (leave(s, now)) {
            return;
        }
        break;
    case PHASE_SERVING:
        break;
    }
    if (look_at_lead(s, now, &e) != 0 ||
        (mono_reached(now, s->next_check) && check_sockets(s, now, &e) != 0)) {
        log_error("dra", "%s: stopping", e.msg);
        s->plugin.stats.is_refused = true;
        end_serving(s, now);
        return;
    }
    plugin_tick(&s->plugin, now, clock_wall_now());
    rearm(s);
}

/* ---- life ------------------------------------------------------------------------------------ */

static const struct readiness_host_probes no_probes = {.count = 0};

/* Found ones come first, so that given ones win. */
static int make_attributes(struct dra_service *s, const struct readiness_host_probes *probes,
                           struct err *e)
{
    size_t at = 0;
    json_object_clear(s->device.attributes);
    while (at < probes->count &&
           !describe_function(s->config.host_root, probes->each[at].probe, s->device.attributes)) {
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
    s->plugin = (struct plugin){.config = c,
                                .device = &s->device,
                                .claims = claim_events_new(c, &s->device),
                                .on_registered = on_registered};
    plugin_init(&s->plugin);
    s->publisher = slice_publisher_new(c, &s->device, &s->plugin.stats);
    s->timer = boot_timer_new(c->loop, on_timer, s);
    dir_watch_start(&s->others, c->loop, on_other_gone, s);
}

int dra_service_start(const struct dra_config *config, struct dra_service **out, struct err *e)
{
    struct dra_service *s = MEM_NEW(struct dra_service);
    const struct dra_options *o = config->options;
    const char *dir = o->names.plugin_dir;
    s->config = *config;
    s->driver_lock.fd = -1;
    make_parts(s);
    int rc = instance_init(&s->instance, dir, is_rolling(s) ? o->rolling_uid : "", e);
    if (rc != 0 || (rc = file_lock_init(&s->driver_lock, dir, "/driver.lock", e)) != 0 ||
        (rc = file_lock_init(&s->plugin.lock, dir, "/serialize.lock", e)) != 0 ||
        (rc = make_attributes(s, &no_probes, e)) != 0 ||
        (rc = check_sockets(s, clock_mono_now(), e)) != 0) {
        dra_service_free(s);
        return rc;
    }
    rearm(s);
    *out = s;
    return 0;
}

static bool same_probes(const struct readiness_host_probes *a,
                        const struct readiness_host_probes *b)
{
    bool are_same = a->count == b->count;
    for (size_t i = 0; are_same && i < a->count; i++) {
        are_same = text_equal(a->each[i].probe, b->each[i].probe);
    }
    return are_same;
}

void dra_service_publish(struct dra_service *s, const struct readiness *verdict)
{
    struct err e = ERR_INIT;
    if (s->phase > PHASE_LEAVING) {
        return;
    }
    if (verdict->host_probes.count > 0 &&
        !same_probes(&verdict->host_probes, &s->verdict.host_probes) &&
        make_attributes(s, &verdict->host_probes, &e) != 0) {
        log_warn("dra", "%s, continuing without those of the DPU's function", e.msg);
        (void)make_attributes(s, &no_probes, NULL); /* as at the start, where they fitted */
    }
    s->verdict = *verdict;
    s->has_verdict = true;
    plugin_publish(&s->plugin, verdict, clock_mono_now(), clock_wall_now());
    rearm(s);
    show_cluster(s);
}

void dra_service_stop(struct dra_service *s)
{
    struct mono now = clock_mono_now();
    if (s->phase == PHASE_SERVING) {
        s->phase = PHASE_LEAVING;
        s->asked_at = now;
        if (!leave(s, now)) {
            rearm(s);
        }
    }
}

void dra_service_free(struct dra_service *s)
{
    if (!s) {
        return;
    }
    close_sockets(s);
    dir_watch_stop(&s->others);
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
