/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_set.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/curl_loop.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* From a change that the kernel tells of to the look at it: a device is still in sysfs while its
 * removal is told, and changes come in swarms. */
#define LOOK_AFTER_NS (20 * NS_PER_MS)

/* A run whose end we come to so late was stopped with us. */
#define LATE_NS NS_PER_SEC

/* Pauses of some seconds end with a full second of the clock, up to a second early: probes that are
 * due at about the same time wake the machine once, and their answers come together. */
#define TOGETHER_NS    NS_PER_SEC
#define ALONE_BELOW_NS (5 * TOGETHER_NS) /* a second would be too much of a shorter pause */

enum {
    CHANGES_PER_TURN = 64, /* the rest comes with the loop's next turn */
    KERNEL_UEVENTS = 1,    /* multicast group; what udev makes of them is another */
};

/* ---- runs ------------------------------------------------------------------------------------ */

/* Lets go of what a run holds. Returns what it waited for, or NULL. */
static const char *run_stop(struct probe *probe)
{
    ev_timer_stop(probe->loop, &probe->timeout);
    return probe->method->stop ? probe->method->stop(probe) : NULL;
}

static void arm_pause(struct probe *probe, int64_t pause_ns, struct mono now)
{
    if (pause_ns >= ALONE_BELOW_NS) {
        pause_ns -= mono_add(now, pause_ns).ns % TOGETHER_NS;
    }
    loop_timer_arm(probe->loop, &probe->pause, pause_ns);
}

void probe_end(struct probe *probe, struct probe_answer answer)
{
    struct probe_result result = {.probe = probe->index,
                                  .started = probe->started,
                                  .now = clock_mono_now(),
                                  .outcome = answer.outcome,
                                  .reason = answer.words};
    (void)run_stop(probe);
    result.is_late = mono_since(result.now, result.started) >= probe->spec.timeout_ns + LATE_NS;
    arm_pause(probe,
              answer.outcome == PROBE_PASSED ? probe->spec.interval_ns : probe->spec.retry_ns,
              result.now);
    probe->result(probe->user, &result);
}

static void on_timeout(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct probe *probe = w->data;
    const struct text_span span = text_span(probe->spec.timeout_ns);
    const char *awaited = run_stop(probe);
    if (probe->has_answered) {
        probe_end(probe, (struct probe_answer){.outcome = PROBE_PASSED});
        return;
    }
    probe_end(probe, awaited ? probe_answer_make(PROBE_SILENT, "no answer to '%s' within %s",
                                                 awaited, span.text)
                             : probe_answer_make(PROBE_SILENT, "no result within %s", span.text));
}

void probe_start(struct probe *probe)
{
    probe->started = clock_mono_now();
    probe->has_answered = false;
    loop_timer_arm(probe->loop, &probe->timeout, probe->spec.timeout_ns);
    probe->method->start(probe);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *w, int revents)
{
    probe_start(w->data);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Word from the kernel that a network interface or a device changed. It says neither which nor how,
 * and may be lost: whoever hears it looks for himself, and looks from time to time anyhow. */
static void on_change(struct ev_loop *loop, ev_io *io, int revents)
{
    struct probe *probe = io->data;
    double soon_s = (double)LOOK_AFTER_NS / (double)NS_PER_SEC;
    char ignored[1];
    for (int i = 0; i < CHANGES_PER_TURN; i++) {
        if (recv(io->fd, ignored, sizeof(ignored), MSG_DONTWAIT) < 0 && errno != ENOBUFS) {
            break; /* none is left; ENOBUFS: some are lost, which is a change, too */
        }
    }
    if (ev_is_active(&probe->pause) && ev_timer_remaining(loop, &probe->pause) > soon_s) {
        loop_timer_arm(probe->loop, &probe->pause, LOOK_AFTER_NS);
    }
}

/* Without it, as where the service manager allows no netlink, changes are seen by the next run. */
static void watch_changes(struct probe *probe)
{
    bool is_link = probe->spec.kind == PROBE_NETDEV;
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK,
                                        .nl_groups = is_link ? RTMGRP_LINK : KERNEL_UEVENTS};
    CLEANUP(fd)
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    is_link ? NETLINK_ROUTE : NETLINK_KOBJECT_UEVENT);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        log_info(
            "probe",
            "probe '%s' checks only periodically: listening for changes of %s over netlink: %s",
            probe->spec.name, is_link ? "network interfaces" : "devices", strerrordesc_np(errno));
        return;
    }
    ev_io_set(&probe->changes, take_fd(&fd), EV_READ);
    ev_io_start(probe->loop, &probe->changes);
}

/* ---- one probe ------------------------------------------------------------------------------- */

int probe_new(struct ev_loop *loop, const struct probe_spec *spec, size_t index,
              probe_result_fn *result, void *user, struct probe **out, struct err *e)
{
    static const struct probe_method *const methods[] = {
        [PROBE_EXEC] = &probe_method_exec,    [PROBE_UNIX] = &probe_method_unix,
        [PROBE_HTTP] = &probe_method_http,    [PROBE_SERVICE] = &probe_method_service,
        [PROBE_NETDEV] = &probe_method_sysfs, [PROBE_PCI] = &probe_method_sysfs,
        [PROBE_BGP] = &probe_method_bgp,
    };
    const struct probe_method *method = methods[spec->kind];
    struct probe *probe = mem_calloc(1, method->bytes);
    *probe = (struct probe){.method = method,
                            .loop = loop,
                            .spec = *spec,
                            .index = index,
                            .result = result,
                            .user = user};
    ev_timer_init(&probe->pause, on_pause_over, 0, 0);
    ev_timer_init(&probe->timeout, on_timeout, 0, 0);
    ev_io_init(&probe->changes, on_change, -1, EV_READ);
    probe->pause.data = probe;
    probe->timeout.data = probe;
    probe->changes.data = probe;
    int rc = method->init(probe, e);
    if (rc != 0) {
        probe_free(probe);
        return probe_spec_refuse(spec->name, rc, e);
    }
    if (method == &probe_method_sysfs) {
        watch_changes(probe);
    }
    *out = probe;
    return 0;
}

void probe_free(struct probe *probe)
{
    if (!probe) {
        return;
    }
    if (ev_is_active(&probe->timeout)) {
        (void)run_stop(probe); /* nobody waits for it */
    }
    ev_timer_stop(probe->loop, &probe->pause);
    ev_io_stop(probe->loop, &probe->changes);
    if (probe->changes.fd >= 0) {
        (void)close(probe->changes.fd); /* only read from */
    }
    if (probe->method->fini) {
        probe->method->fini(probe);
    }
    free(probe);
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct probe_set {
    struct probe_state state;
    struct probe *probes[PROBES_MAX]; /* owned; as many as the state has */
    probe_set_change_fn *change;
    void *user;
    struct log_repeat unable;
};

/* A right that is missing will be missing tomorrow, and an option that is wrong will be wrong:
 * somebody has to act. */
static void log_failure(struct probe_set *set, const struct probe_result *result)
{
    const struct probe_history *probe = &set->state.probes[result->probe];
    bool is_denied = result->outcome == PROBE_DENIED;
    bool is_unheard = set->state.is_of_host && !probe->passed_once && !probe->ran;
    if (result->outcome == PROBE_UNABLE) {
        log_limited(&set->unable, LOG_AGAIN_NS, LOG_WARN, "probe",
                    "cannot run probe '%s', which proves nothing about the DPU: %s", probe->name,
                    result->reason);
    } else if (is_denied && probe->outcome != PROBE_DENIED) {
        log_error("probe", "probe '%s': %s", probe->name, result->reason);
    } else if (is_unheard && !is_denied) {
        log_warn(
            "probe",
            "probe '%s' has not passed since this host booted, so its failures do not count: %s",
            probe->name, result->reason);
    } else {
        log_debug("probe", "probe '%s': %s: %s", probe->name, probe_outcome_name(result->outcome),
                  result->reason);
    }
}

static void on_result(void *user, const struct probe_result *result)
{
    struct probe_set *set = user;
    if (result->outcome != PROBE_PASSED) {
        log_failure(set, result);
    }
    if (probe_state_step(&set->state, result)) {
        set->change(set->user, set->state.state, set->state.message);
    }
}

/* All that one text stands for. */
static int add_probes(struct probe_set *set, struct ev_loop *loop, const char *text,
                      const struct probe_spec *defaults, struct err *e)
{
    struct probe_spec spec;
    size_t count = probe_spec_count(text);
    for (size_t i = 0; i < count; i++) {
        size_t index = set->state.probe_count;
        int rc = probe_spec_parse(text, i, defaults, &spec, e);
        if (rc != 0) {
            return rc;
        }
        if (set->state.is_of_host && spec.kind == PROBE_SERVICE) {
            (void)err_set(e, ERR_PARSE, "only dpu-agent can probe that service of the DPU");
            return probe_spec_refuse(text, ERR_PARSE, e);
        }
        if (index == PROBES_MAX) {
            return err_set(e, ERR_LIMIT, "more than %d probes", PROBES_MAX);
        }
        rc = probe_new(loop, &spec, index, on_result, set, &set->probes[index], e);
        if (rc != 0) {
            return rc;
        }
        probe_state_add_probe(&set->state, spec.name, &spec.thresholds);
    }
    return 0;
}

int probe_set_new(struct ev_loop *loop, const struct probe_set_config *config,
                  struct probe_set **out, struct err *e)
{
    struct probe_set *set = MEM_NEW(struct probe_set);
    set->state.is_of_host = config->is_of_host;
    set->change = config->change;
    set->user = config->user;
    for (size_t i = 0; i < config->count; i++) {
        int rc = add_probes(set, loop, config->probes[i], config->defaults, e);
        if (rc != 0) {
            probe_set_free(set);
            return rc;
        }
    }
    *out = set;
    return 0;
}

void probe_set_start(struct probe_set *set)
{
    bool is_known = set->state.probe_count == 0 || set->state.is_of_host;
    if (is_known && probe_state_settle(&set->state)) {
        set->change(set->user, set->state.state, set->state.message);
    }
    for (size_t i = 0; i < set->state.probe_count; i++) {
        probe_start(set->probes[i]);
    }
}

struct probe_state *probe_set_state(struct probe_set *set)
{
    return &set->state;
}

void probe_set_free(struct probe_set *set)
{
    for (size_t i = 0; set && i < PROBES_MAX; i++) {
        probe_free(set->probes[i]);
    }
    free(set);
}
