/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_service.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "probe/probe_spec.h"
#include "probe/rpc_call.h"
#include "probe/service.h"
#include "probe/unix_connect.h"
#include "probe/unixctl_path.h"

#include <stdlib.h>
#include <string.h>

/* Of the path: the longest name of a socket is that of ovn-controller's, with the largest pid. */
enum { SOCKET_NAME_BYTES = 32, DIR_BYTES = UNIX_CONNECT_PATH_BYTES - SOCKET_NAME_BYTES };

struct service_probe {
    const struct service *service; /* static */
    probe_done_fn *done;
    void *user;
    struct rpc_call *call; /* owned */
    struct service_beat beat;
    char dir[DIR_BYTES];
    char bridge[SERVICE_BRIDGE_BYTES];
};

static enum probe_outcome judge(void *user, size_t index, const struct rpc_message *reply,
                                char words[static PROBE_WORDS_BYTES])
{
    struct service_probe *p = user;
    if (p->service->has_beat) {
        return service_beat_step(&p->beat, reply, clock_mono_now(), clock_wall_now(), words);
    }
    return service_judge(p->service, index, p->bridge, reply, words);
}

static void on_done(void *user, enum probe_outcome outcome, const char *words)
{
    struct service_probe *p = user;
    p->done(p->user, outcome, words);
}

static void start(void *self)
{
    struct service_probe *p = self;
    char path[UNIX_CONNECT_PATH_BYTES];
    char words[PROBE_WORDS_BYTES] = "";
    if (p->service->socket) {
        text_format(path, sizeof(path), "%s/%s", p->dir, p->service->socket);
    } else {
        enum probe_outcome outcome = unixctl_path_find(p->dir, p->service->daemon, path, words);
        if (outcome != PROBE_PASSED) {
            p->done(p->user, outcome, words);
            return;
        }
    }
    rpc_call_start(p->call, path);
}

static const char *cancel(void *self)
{
    struct service_probe *p = self;
    return rpc_call_cancel(p->call);
}

static void destroy(void *self)
{
    struct service_probe *p = self;
    if (p) {
        rpc_call_free(p->call);
        free(p);
    }
}

static int make_call(struct service_probe *p, struct ev_loop *loop, struct err *e)
{
    struct rpc_call_config config = {.judge = judge, .done = on_done, .user = p};
    memcpy(config.questions, p->service->questions, sizeof(config.questions));
    return rpc_call_new(loop, &config, &p->call, e);
}

static int create(struct ev_loop *loop, const struct probe_spec *spec, probe_done_fn *done,
                  void *user, void **out, struct err *e)
{
    const char *dir = spec->service->is_of_ovs ? spec->ovs_run_dir : spec->ovn_run_dir;
    CLEANUP(free) struct service_probe *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_no_memory(e);
    }
    p->service = spec->service;
    p->done = done;
    p->user = user;
    p->beat.limit_ns = spec->beat_limit_ns;
    if (!text_copy(p->dir, sizeof(p->dir), dir)) {
        return err_set(e, ERR_LIMIT, "the directory '%s' has more than %d bytes", dir,
                       DIR_BYTES - 1);
    }
    if (!text_copy(p->bridge, sizeof(p->bridge), spec->target)) {
        return err_set(e, ERR_LIMIT, "bridge '%s' has more than %d bytes", spec->target,
                       SERVICE_BRIDGE_BYTES - 1);
    }
    int rc = make_call(p, loop, e);
    if (rc != 0) {
        return rc;
    }
    *out = TAKE(p);
    return 0;
}

const struct probe_method *probe_service_method(void)
{
    static const struct probe_method method = {
        .create = create, .start = start, .cancel = cancel, .destroy = destroy};
    return &method;
}
