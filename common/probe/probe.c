/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

#include "base/clock.h"
#include "base/mono.h"
#include "base/text.h"
#include "probe/probe_exec.h"
#include "probe/probe_http.h"
#include "probe/probe_socket.h"

#include <ev.h>
#include <stdlib.h>

struct probe {
    struct ev_loop *loop; /* borrowed */
    const struct probe_method *method;
    void *run; /* owned: the method's state */
    int64_t interval_ns;
    int64_t timeout_ns;
    size_t index;
    probe_result_fn *result;
    void *user;
    struct mono started; /* the run under way or the last one */
    int64_t last_ns;
    ev_timer pause;   /* until the next run */
    ev_timer timeout; /* of the run under way */
};

static const struct probe_method *method_of(enum probe_kind kind)
{
    switch (kind) {
    case PROBE_EXEC:
        return probe_exec_method();
    case PROBE_UNIX:
        return probe_socket_method();
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

static void on_done(void *user, const char *failure)
{
    struct probe *probe = user;
    ev_timer_stop(probe->loop, &probe->timeout);
    probe->last_ns = mono_since(clock_mono_now(), probe->started);
    arm(probe, &probe->pause, probe->interval_ns);
    probe->result(probe->user, probe->index, failure);
}

static void on_timeout(struct ev_loop *loop, ev_timer *w, int revents)
{
    (void)loop;
    (void)revents;
    struct probe *probe = w->data;
    char span[32];
    char failure[64];
    text_from_duration(probe->timeout_ns, span, sizeof(span));
    text_format(failure, sizeof(failure), "no result within %s", span);
    probe->method->cancel(probe->run);
    on_done(probe, failure);
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

int probe_new(struct ev_loop *loop, const struct probe_spec *spec, size_t index,
              probe_result_fn *result, void *user, struct probe **out, struct err *e)
{
    struct probe *probe = calloc(1, sizeof(*probe));
    if (!probe) {
        return err_set(e, ERR_NOMEM, "out of memory for a probe");
    }
    probe->loop = loop;
    probe->method = method_of(spec->kind);
    probe->interval_ns = spec->interval_ns;
    probe->timeout_ns = spec->timeout_ns;
    probe->index = index;
    probe->result = result;
    probe->user = user;
    ev_timer_init(&probe->pause, on_pause_over, 0, 0);
    ev_timer_init(&probe->timeout, on_timeout, 0, 0);
    probe->pause.data = probe;
    probe->timeout.data = probe;
    int rc = probe->method->create(loop, spec->target, on_done, probe, &probe->run, e);
    if (rc != 0) {
        char shown[PROBE_SHOWN_BYTES];
        free(probe);
        probe_spec_show(spec->name, shown);
        (void)err_wrap(e, "probe '%s'", shown); /* says ERR_BUG where e is NULL */
        return rc;
    }
    *out = probe;
    return 0;
}

int64_t probe_last_ns(const struct probe *probe)
{
    return probe->last_ns;
}

void probe_free(struct probe *probe)
{
    if (probe) {
        ev_timer_stop(probe->loop, &probe->pause);
        ev_timer_stop(probe->loop, &probe->timeout);
        probe->method->destroy(probe->run);
        free(probe);
    }
}
