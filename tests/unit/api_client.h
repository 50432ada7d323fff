/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the API server, put in place of the real one when linking: one request at a time,
 * answered by hand, and one watch that does nothing. Include it in one test program only.
 */
#ifndef TESTS_UNIT_API_CLIENT_H
#define TESTS_UNIT_API_CLIENT_H

#include "base/json_text.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/kube_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct kube_call {
    struct kube_client *client; /* NULL: none is under way */
    kube_done_fn *done;
    void *user;
    enum kube_method method;
    char path[512];
};

struct kube_client {
    struct kube_call calls[2]; /* one may go on while a newer one is under way */
    struct kube_call *newest;
    bool is_busy; /* with the newest request, whose: */
    enum kube_method method;
    enum kube_channel channel;
    enum kube_priority priority;
    uint32_t deadline_ms;
    char path[512];
    json_t *body;
    int requests;      /* started so far */
    bool refuses;      /* cannot even start one */
    bool may_be_fresh; /* this user reads evidence, and asks again beside what is late */
    bool is_watching;
    int watch_restarts;
    int watch_hopes;
    struct kube_watch_config watch;
};

int kube_client_start(struct kube_client *client, const struct kube_request *request,
                      kube_done_fn *done, void *user, struct kube_call **out, struct err *e)
{
    struct kube_call *call = &client->calls[client->calls[0].client ? 1 : 0];
    assert_true(!call->client && (!client->is_busy || client->may_be_fresh));
    assert_true(request->channel == KUBE_CONTROL || client->may_be_fresh);
    if (client->refuses) {
        return err_set(e, ERR_LIMIT, "no request can start");
    }
    json_decref(TAKE(client->body));
    client->is_busy = true;
    client->method = request->method;
    client->channel = request->channel;
    client->priority = request->priority;
    client->deadline_ms = request->deadline_ms;
    (void)snprintf(client->path, sizeof(client->path), "%s", request->path);
    client->body = request->body ? json_deep_copy(request->body) : NULL;
    client->requests++;
    client->newest = call;
    *call =
        (struct kube_call){.client = client, .done = done, .user = user, .method = request->method};
    (void)snprintf(call->path, sizeof(call->path), "%s", request->path);
    *out = call;
    return 0;
}

void kube_client_observe(struct kube_client *client, const char *verb,
                         const struct kube_response *response)
{
    assert_non_null(client);
    assert_non_null(verb);
    assert_int_equal(response->transport_error, KUBE_TRANSPORT_TIMEOUT);
}

static inline void client_forget(struct kube_call *call)
{
    struct kube_client *client = TAKE(call->client);
    assert_non_null(client);
    if (call == client->newest) {
        client->is_busy = false;
        json_decref(TAKE(client->body));
    }
}

void kube_call_cancel(struct kube_call *call)
{
    if (call) {
        client_forget(call);
    }
}

struct kube_watch *kube_watch_start(struct kube_client *client,
                                    const struct kube_watch_config *config)
{
    assert_false(client->is_watching);
    client->is_watching = true;
    client->watch = *config;
    return (struct kube_watch *)client;
}

void kube_watch_restart(struct kube_watch *watch)
{
    ((struct kube_client *)watch)->watch_restarts++;
}

void kube_watch_hope(struct kube_watch *watch)
{
    ((struct kube_client *)watch)->watch_hopes++;
}

void kube_watch_stop(struct kube_watch *watch)
{
    if (watch) {
        ((struct kube_client *)watch)->is_watching = false;
    }
}

/* The answer to one that is under way. */
static inline void client_answer_call(struct kube_call *call, const struct kube_response *response)
{
    CLEANUP(json)
    json_t *sent = call->client && call == call->client->newest ? TAKE(call->client->body) : NULL;
    client_forget(call);
    call->done(call->user, response);
}

/* To the newest. */
static inline void client_answer(struct kube_client *client, const struct kube_response *response)
{
    assert_true(client->is_busy);
    client_answer_call(client->newest, response);
}

#endif
