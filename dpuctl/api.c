/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/api.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_conf.h"

#include <ev.h>

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

struct api_request {
    struct api_request *next;
    struct api *api;
    struct kube_call *call; /* NULL: over */
    struct api_answer answer;
};

/* Nothing is configured, and this is no pod: what kubectl would take, if it is of use here. */
static int load_kubectls(const char *context, struct kube_conf *out, struct err *e)
{
    char path[PATH_MAX];
    const char *home = getenv("HOME");
    struct err own = ERR_INIT;
    text_format(path, sizeof(path), "%s/.kube/config", home ? home : "");
    if (access(path, F_OK) != 0) {
        return err_set(e, ERR_NOTFOUND, "there is no kubeconfig: set --kubeconfig=FILE");
    }
    if (kube_conf_load(path, context, out, &own) != 0) {
        return err_set(e, ERR_NOTFOUND,
                       "there is no kubeconfig, and dpuctl cannot use kubectl's: %s: set "
                       "--kubeconfig=FILE",
                       own.msg);
    }
    return 0;
}

static int load_conf(struct api *api, struct kube_conf *out, struct err *e)
{
    const char *file = api->config->agent.kubeconfig;
    const char *context = api->config->context;
    int rc = api->config->is_list ? kube_conf_load_list(file, context, out, e)
                                  : kube_conf_load(file, context, out, e);
    if (rc != ERR_NOTFOUND) { /* below a root, the Pod that we are in is not the agent's */
        api->is_debug_pods = !text_is_empty(api->config->root) && text_is_empty(file);
        api->is_not_agents = api->is_debug_pods;
        return rc;
    }
    api->is_not_agents = true;
    return load_kubectls(context, out, e);
}

struct api *api_open(const struct admin_config *config)
{
    struct kube_conf conf = {0};
    struct api *api = MEM_NEW(struct api);
    api->config = config;
    api->loop = ev_loop_new(EVFLAG_AUTO);
    int rc = api->loop ? load_conf(api, &conf, &api->problem)
                       : err_set(&api->problem, ERR_IO, "creating an event loop");
    if (rc == 0) {
        rc = kube_client_new(api->loop, &conf, &api->client, &api->problem); /* takes it */
    }
    if (rc == 0) {
        api->problem = (struct err)ERR_INIT; /* of an earlier try */
    }
    return api;
}

void api_close(struct api *api)
{
    kube_client_free(api->client);
    api_forget(api);
    if (api->loop) {
        ev_loop_destroy(api->loop);
    }
    free(api);
}

static void end_request(struct api_request *r, const char *message)
{
    r->call = NULL;
    text_format(r->answer.message, sizeof(r->answer.message), "%s", message);
    r->api->open--;
    if (r->api->open == 0 && r->api->loop) {
        ev_break(r->api->loop, EVBREAK_ALL);
    }
}

static void on_answer(void *user, const struct kube_response *response)
{
    struct api_request *r = user;
    struct api_answer *a = &r->answer;
    a->http_status = response->http_status;
    a->has_date = response->has_server_date;
    /* A Date has whole seconds, cut off: on average it is half a second old. */
    a->date = (struct wall){mono_ns_add(response->server_date.ns, NS_PER_SEC / 2)};
    a->skew_ns = wall_since(a->date, response->received_wall);
    a->body = response->code == 0 ? json_incref(response->body) : NULL;
    end_request(r, response->message);
}

const struct api_answer *api_ask(struct api *api, const json_t *body, char *path)
{
    CLEANUP(free) char *owned = path;
    struct api_request *r = MEM_NEW(struct api_request);
    r->api = api;
    r->next = api->requests;
    api->requests = r;
    api->open++;
    if (!api->client) {
        end_request(r, api->problem.msg);
        return &r->answer;
    }
    const struct kube_request request = {.method = body ? KUBE_POST : KUBE_GET,
                                         .channel = KUBE_CONTROL,
                                         .priority = KUBE_URGENT, /* somebody waits for it */
                                         .path = owned,
                                         .body = body,
                                         .deadline_ms = 60000}; /* the wait ends it */
    r->call = kube_client_start(api->client, &request, on_answer, r);
    return &r->answer;
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    ev_break(loop, EVBREAK_ALL);
}

void api_wait(struct api *api)
{
    ev_timer timer;
    char late[64];
    const struct admin_config *config = api->config;
    int64_t timeout_ns = config->asks_runtime ? config->api_timeout_ns / 2 : config->api_timeout_ns;
    int64_t left_ns = timeout_ns - mono_since(clock_mono_now(), config->started_at);
    if (api->open > 0) {
        ev_timer_init(&timer, on_timeout, left_ns > 0 ? (double)left_ns / 1e9 : 0., 0.);
        ev_now_update(api->loop);
        ev_timer_start(api->loop, &timer);
        (void)ev_run(api->loop, 0); /* whether it was broken off is seen by the answers */
        ev_timer_stop(api->loop, &timer);
    }
    text_format(late, sizeof(late), "no answer within %s", text_span(timeout_ns).text);
    for (struct api_request *r = api->requests; r; r = r->next) {
        if (r->call) {
            kube_call_cancel(r->call);
            end_request(r, late);
        }
    }
}

void api_forget(struct api *api)
{
    while (api->requests) {
        struct api_request *r = api->requests;
        api->requests = r->next;
        json_decref(r->answer.body);
        free(r);
    }
}
