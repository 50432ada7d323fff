/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "probe/probe_exec.h"
#include "probe/probe_http.h"
#include "probe/probe_service.h"
#include "probe/probe_socket.h"
#include "probe/probe_sysfs.h"

#include <ev.h>
#include <stdlib.h>

/* From a change that the kernel tells of to the look at it: a device is still in sysfs while its
 * removal is told, and changes come in swarms. */
#define LOOK_AFTER_NS (20 * NS_PER_MS)

/* A run whose end we come to so late was stopped with us. */
#define LATE_NS NS_PER_SEC

struct probe {
    struct ev_loop *loop; /* borrowed */
    const struct probe_method *method;
    void *run; /* owned: the method's state */
    int64_t interval_ns;
    int64_t retry_ns;
    int64_t timeout_ns;
    size_t index;
    probe_result_fn *result;
    void *user;
    struct mono started;          /* the run under way or the last one */
    ev_timer pause;               /* until the next run */
    ev_timer timeout;             /* of the run under way */
    struct change_watch *changes; /* owned; NULL: nobody tells */
};

static const struct probe_method *method_of(enum probe_kind kind)
{
    switch (kind) {
    case PROBE_EXEC:
        return probe_exec_method();
    case PROBE_UNIX:
        return probe_socket_method();
    case PROBE_SERVICE:
        return probe_service_method();
    case PROBE_NETDEV:
        return probe_netdev_method();
    case PROBE_PCI:
        return probe_pci_method();
    case PROBE_HTTP:
        break;
    }
    return probe_http_method();
}

static void arm(struct probe *probe, ev_timer *timer, int64_t span_ns)
{
    ev_now_update(probe->loop); /* a run may have taken its time within this turn */
    ev_timer_stop(probe->loop, timer);
    ev_timer_set(timer, (double)span_ns / (double)NS_PER_SEC, 0);
    ev_timer_start(probe->loop, timer);
}

static void on_done(void *user, enum probe_outcome outcome, const char *words)
{
    struct probe *probe = user;
    struct probe_result result = {
        .started = probe->started, .now = clock_mono_now(), .outcome = outcome, .words = words};
    result.is_late = mono_since(result.now, result.started) >= probe->timeout_ns + LATE_NS;
    ev_timer_stop(probe->loop, &probe->timeout);
    arm(probe, &probe->pause, outcome == PROBE_PASSED ? probe->interval_ns : probe->retry_ns);
    probe->result(probe->user, probe->index, &result);
}

static void on_timeout(struct ev_loop *loop, ev_timer *w, int revents)
{
    (void)loop;
    (void)revents;
    struct probe *probe = w->data;
    char span[32];
    char words[PROBE_WORDS_BYTES];
    const char *awaited = probe->method->cancel(probe->run);
    text_from_duration(probe->timeout_ns, span, sizeof(span));
    if (awaited) {
        text_format(words, sizeof(words), "no answer to '%s' within %s", awaited, span);
    } else {
        text_format(words, sizeof(words), "no result within %s", span);
    }
    on_done(probe, PROBE_SILENT, words);
}

void probe_start(struct probe *probe)
{
    probe->started = clock_mono_now();
    arm(probe, &probe->timeout, probe->timeout_ns);
    probe->method->start(probe->run);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *w, int revents)
{
    (void)loop;
    (void)revents;
    probe_start(w->data);
}

static void on_change(void *user)
{
    struct probe *probe = user;
    double soon_s = (double)LOOK_AFTER_NS / (double)NS_PER_SEC;
    if (ev_is_active(&probe->pause) && ev_timer_remaining(probe->loop, &probe->pause) > soon_s) {
        arm(probe, &probe->pause, LOOK_AFTER_NS);
    }
}

/* Without it changes are seen by the next run. */
static void watch_changes(struct probe *probe, const char *name)
{
    struct err e = ERR_INIT;
    enum change_kind kind = probe->method->told_by;
    if (kind != CHANGE_NONE &&
        change_watch_new(probe->loop, kind, on_change, probe, &probe->changes, &e) != 0) {
        log_info("probe", "probe '%s' looks from time to time only: %s", name, e.msg);
    }
}

int probe_new(struct ev_loop *loop, const struct probe_spec *spec, size_t index,
              probe_result_fn *result, void *user, struct probe **out, struct err *e)
{
    struct probe *probe = calloc(1, sizeof(*probe));
    if (!probe) {
        return err_no_memory(e);
    }
    probe->loop = loop;
    probe->method = method_of(spec->kind);
    probe->interval_ns = spec->interval_ns;
    probe->retry_ns = spec->retry_ns;
    probe->timeout_ns = spec->timeout_ns;
    probe->index = index;
    probe->result = result;
    probe->user = user;
    ev_timer_init(&probe->pause, on_pause_over, 0, 0);
    ev_timer_init(&probe->timeout, on_timeout, 0, 0);
    probe->pause.data = probe;
    probe->timeout.data = probe;
    int rc = probe->method->create(loop, spec, on_done, probe, &probe->run, e);
    if (rc != 0) {
        char shown[PROBE_SHOWN_BYTES];
        free(probe);
        probe_spec_show(spec->name, shown);
        (void)err_wrap(e, "probe '%s'", shown); /* says ERR_BUG where e is NULL */
        return rc;
    }
    watch_changes(probe, spec->name);
    *out = probe;
    return 0;
}

void probe_free(struct probe *probe)
{
    if (probe) {
        ev_timer_stop(probe->loop, &probe->pause);
        ev_timer_stop(probe->loop, &probe->timeout);
        change_watch_free(probe->changes);
        probe->method->destroy(probe->run);
        free(probe);
    }
}
