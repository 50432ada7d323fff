/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/api_reader.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "kube/kube_conf.h"

#include <ev.h>

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Nothing is configured, and this is no pod: what kubectl would take, if it is of use here. */
static int load_kubectls(const char *context, struct kube_conf *out, struct err *e)
{
    char path[PATH_MAX];
    const char *home = getenv("HOME");
    struct err own = ERR_INIT;
    text_format(path, sizeof(path), "%s/.kube/config", home ? home : "");
    if (access(path, F_OK) != 0) {
        return err_set(e, ERR_NOTFOUND, "no kubeconfig at hand");
    }
    if (kube_conf_load_context(path, context, out, &own) != 0) {
        return err_set(e, ERR_NOTFOUND, "no kubeconfig at hand; kubectl's is of no use here: %s",
                       own.msg);
    }
    return 0;
}

int api_reader_conf(const char *file, const char *context, struct kube_conf *out,
                    bool *out_is_kubectls, struct err *e)
{
    *out_is_kubectls = false;
    if (!text_is_empty(file)) {
        return kube_conf_load_context(file, context, out, e);
    }
    int rc = text_is_empty(context) ? kube_conf_load_in_cluster(NULL, out, e) : ERR_NOTFOUND;
    if (rc != ERR_NOTFOUND) {
        return rc;
    }
    *out_is_kubectls = true;
    return load_kubectls(context, out, e);
}

int api_reader_open(const struct admin_config *config, struct api_reader **out, struct err *e)
{
    struct kube_conf conf = {0};
    bool is_kubectls;
    int rc = api_reader_conf(config->agent.kubeconfig, config->context, &conf, &is_kubectls, e);
    if (rc != 0) {
        return rc;
    }
    struct api_reader *r = calloc(1, sizeof(*r));
    struct ev_loop *loop = r ? ev_loop_new(EVFLAG_AUTO) : NULL;
    if (!loop) {
        free(r);
        kube_conf_fini(&conf);
        return err_no_memory(e);
    }
    r->config = config;
    r->loop = loop;
    r->is_kubectls = is_kubectls;
    rc = kube_client_new(r->loop, &conf, &r->client, e); /* takes conf */
    if (rc != 0) {
        kube_conf_fini(&conf); /* zeroed, where it was taken */
        api_reader_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

void api_reader_close(struct api_reader *r)
{
    if (!r) {
        return;
    }
    kube_client_free(r->client);
    for (size_t i = 0; i < r->count; i++) {
        json_decref(r->pending[i].answer.body);
    }
    ev_loop_destroy(r->loop);
    free(r);
}

static void finish(struct api_pending *p)
{
    p->call = NULL;
    p->answer.done = true;
    p->reader->open--;
    if (p->reader->open == 0) {
        ev_break(p->reader->loop, EVBREAK_ALL);
    }
}

static void on_done(void *user, const struct kube_response *response)
{
    struct api_pending *p = user;
    p->answer.http_status = response->http_status;
    p->answer.has_date = response->has_server_date;
    /* A Date has whole seconds, cut off: on average it is half a second old. */
    p->answer.skew_ns = wall_since(response->server_date, response->received_wall) + NS_PER_SEC / 2;
    text_format(p->answer.message, sizeof(p->answer.message), "%s", response->message);
    if (response->code == 0) {
        p->answer.body = json_incref(response->body);
    }
    finish(p);
}

const struct api_answer *api_reader_ask(struct api_reader *r, const json_t *body,
                                        const char *path_format, ...)
{
    char path[API_READER_PATH_BYTES];
    struct err e = ERR_INIT;
    va_list args;
    assert(r->count < API_READER_MAX);
    struct api_pending *p = &r->pending[r->count++];
    va_start(args, path_format);
    (void)vsnprintf(path, sizeof(path), path_format, args); /* sized for names of 253 bytes */
    va_end(args);
    p->reader = r;
    r->open++;
    const struct kube_request request = {.method = body ? KUBE_POST : KUBE_GET,
                                         .channel = KUBE_CONTROL,
                                         .priority = KUBE_URGENT, /* somebody waits for it */
                                         .path = path,
                                         .body = body,
                                         .deadline_ms = 60000}; /* the wait ends it */
    if (kube_client_start(r->client, &request, on_done, p, &p->call, &e) != 0) {
        text_format(p->answer.message, sizeof(p->answer.message), "%s", e.msg);
        finish(p);
    }
    return &p->answer;
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)timer;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

void api_reader_wait(struct api_reader *r)
{
    ev_timer timer;
    char span[32];
    const struct admin_config *config = r->config;
    int64_t timeout_ns = config->asks_runtime ? config->api_timeout_ns / 2 : config->api_timeout_ns;
    int64_t left_ns = timeout_ns - mono_since(clock_mono_now(), config->started_at);
    if (r->open > 0) {
        ev_timer_init(&timer, on_timeout, left_ns > 0 ? (double)left_ns / 1e9 : 0., 0.);
        ev_now_update(r->loop);
        ev_timer_start(r->loop, &timer);
        (void)ev_run(r->loop, 0); /* whether it was broken off is seen by the answers */
        ev_timer_stop(r->loop, &timer);
    }
    text_from_duration(timeout_ns, span, sizeof(span));
    for (size_t i = 0; i < r->count; i++) {
        struct api_pending *p = &r->pending[i];
        if (p->call) {
            kube_call_cancel(p->call);
            text_format(p->answer.message, sizeof(p->answer.message), "no answer within %s", span);
            finish(p);
        }
    }
}
