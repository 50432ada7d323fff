/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of the API server, put in place of the real one when linking: one request at a time,
 * answered by hand, and one watch that does nothing. Include it in one test program only.
 */
#ifndef TESTS_UNIT_API_CLIENT_H
#define TESTS_UNIT_API_CLIENT_H

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/kube_watch.h"
#include "tests/support/case.h"

struct kube_call {
    struct kube_client *client; /* NULL: none is under way */
    kube_done_fn *done;
    void *user;
    struct kube_call **late; /* as of the request; NULL: it is not awaited */
    struct mono due;         /* when it is told of as timed out */
    enum kube_method method;
    char path[512];
    bool (*knows)(const void *user, const char *text, size_t len);
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
    int known;         /* answers that their owner knew */
    bool may_be_fresh; /* this user reads evidence, and asks again beside what is late */
    bool is_watching;
    int watch_restarts;
    int watch_hopes;
    struct kube_watch_config watch;
};

struct kube_call *kube_client_start(struct kube_client *client, const struct kube_request *request,
                                    kube_done_fn *done, void *user)
{
    struct kube_call *call = &client->calls[client->calls[0].client ? 1 : 0];
    assert_true(!call->client && (!client->is_busy || client->may_be_fresh));
    assert_true(request->channel == KUBE_CONTROL || client->may_be_fresh);
    json_decref(TAKE(client->body));
    client->is_busy = true;
    client->method = request->method;
    client->channel = request->channel;
    client->priority = request->priority;
    client->deadline_ms = request->deadline_ms;
    (void)snprintf(client->path, sizeof(client->path), "%s", request->path);
    client->body = request->body   ? json_deep_copy(request->body)
                   : request->text ? json_loads(request->text, 0, NULL)
                                   : NULL;
    assert_true(client->body || !request->text);
    client->requests++;
    client->newest = call;
    *call =
        (struct kube_call){.client = client,
                           .done = done,
                           .user = user,
                           .late = request->late,
                           .due = request->awaited_ms == 0
                                      ? MONO_NEVER
                                      : mono_add(clock_mono_now(), request->awaited_ms * NS_PER_MS),
                           .method = request->method,
                           .knows = request->knows};
    (void)snprintf(call->path, sizeof(call->path), "%s", request->path);
    return call;
}

static inline void client_forget(struct kube_call *call)
{
    struct kube_client *client = TAKE(call->client);
    assert_non_null(client);
    if (call->late && *call->late == call) {
        *call->late = NULL;
    }
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
    struct kube_client *client = call->client;
    CLEANUP(json)
    json_t *sent = call->client && call == call->client->newest ? TAKE(call->client->body) : NULL;
    CLEANUP(free) char *raw = NULL;
    struct kube_response r = *response;
    if (r.code == 0 && r.body && call->knows) {
        raw = json_text_dump(r.body);
        r.raw = raw;
        r.raw_len = strlen(raw);
        if (call->knows(call->user, raw, r.raw_len)) {
            client->known++;
            r.body = NULL;
        }
    }
    bool is_answer = r.outcome != KUBE_NO_CONTACT;
    r.is_late = call->late && *call->late == call;
    client_forget(call);
    if (call->late && is_answer) {
        kube_call_cancel(*call->late);
    }
    if (!r.is_late || is_answer) {
        call->done(call->user, &r);
    }
}

/* Tells of a time-out. It goes on, unless an older one does. */
static inline void client_expire(struct kube_call *call)
{
    const struct kube_response r = {.code = ERR_RETRY,
                                    .transport_error = KUBE_TRANSPORT_TIMEOUT,
                                    .sent_at = clock_mono_now(),
                                    .received_at = clock_mono_now(),
                                    .message = "no answer in time"};
    call->due = MONO_NEVER;
    if (*call->late) {
        client_forget(call);
    } else {
        *call->late = call;
    }
    call->done(call->user, &r);
}

/* To the newest. */
static inline void client_answer(struct kube_client *client, const struct kube_response *response)
{
    assert_true(client->is_busy);
    client_answer_call(client->newest, response);
}

#endif
