/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_client.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/kube_internal.h"
#include "json/json_text.h"

#include <malloc.h>
#include <string.h>

enum {
    DEFAULT_DEADLINE_MS = 5000,
    PATH_MAX_BYTES = 2048,
    TRIM_BYTES = 256 << 10, /* an answer above this is rare enough to tidy up after it */
};

struct kube_call {
    struct kube_client *client;
    struct kube_call *next;
    struct kube_call **link; /* what points to us */
    struct kube_transfer *transfer;
    struct kube_transfer_config config;
    char path[PATH_MAX_BYTES];
    char *body; /* kept for the one retry after a 401 */
    bool retried;
    kube_done_fn *done;
    void *user;
};

static void call_free(struct kube_call *call)
{
    *call->link = call->next;
    if (call->next) {
        call->next->link = call->link;
    }
    kube_transfer_free(call->transfer);
    free(call->body);
    free(call);
}

static int call_send(struct kube_call *call, struct err *e)
{
    call->config.body = call->body ? strdup(call->body) : NULL;
    if (call->body && !call->config.body) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    return kube_transfer_start(call->client, &call->config, &call->transfer, e);
}

/* After a 401 the credentials are read again; one more try if they are new. */
static bool has_new_credentials(struct kube_call *call, int http_status)
{
    struct kube_client *client = call->client;
    return http_status == 401 && !call->retried &&
           kube_client_refresh(client, clock_mono_now(), true);
}

static int send_again(struct kube_call *call, struct err *e)
{
    call->retried = true;
    kube_transfer_free(call->transfer);
    call->transfer = NULL;
    return call_send(call, e);
}

static void finish_call(struct kube_call *call, const struct kube_response *r)
{
    kube_done_fn *done = call->done;
    void *done_user = call->user;
    call_free(call);
    done(done_user, r);
}

/* An answer that came whole. Returns what is wrong with it, or NULL; `*out_body` is owned. */
static const char *read_answer(struct kube_transfer *t, struct kube_response *r, json_t **out_body,
                               struct err *e)
{
    struct buf *inbox = kube_transfer_inbox(t);
    bool is_json = kube_transfer_is_json(t);
    if (is_json || r->code == 0) {
        *out_body = json_text_parse_stored(buf_text(inbox), inbox->len, KUBE_BODY_MAX_BYTES, e);
    }
    r->body = *out_body;
    r->outcome = kube_status_outcome(r->http_status, is_json, inbox->len, r->body);
    if (r->code == 0 && !json_is_object(*out_body)) { /* a proxy's page is no answer */
        r->code = ERR_PARSE;
        return *out_body ? "the answer is not a JSON object" : e->msg;
    }
    return NULL;
}

static void handle_end(struct kube_call *call, int curl_code)
{
    struct kube_transfer *t = call->transfer;
    const char *verb = kube_status_verb(call->config.method);
    struct kube_response r;
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *body = NULL;
    kube_transfer_describe(t, &r);
    r.loss = kube_status_loss(curl_code);
    const char *failure = NULL;
    if (curl_code != CURLE_OK) {
        r.code = ERR_RETRY;
        failure = kube_transfer_error(t, curl_code);
        r.outcome = kube_transfer_overflowed(t)
                        ? kube_status_outcome(r.http_status, kube_transfer_is_json(t),
                                              KUBE_BODY_MAX_BYTES, NULL)
                        : KUBE_NO_CONTACT;
    } else {
        r.code = kube_status_code(r.http_status);
        failure = read_answer(t, &r, &body, &e);
    }
    kube_status_fill(&r, call->config.method, call->path, failure);
    kube_client_observe(call->client, verb, &r);
    if (curl_code == CURLE_OK && has_new_credentials(call, r.http_status)) {
        if (send_again(call, &e) == 0) {
            return;
        }
        log_debug("kube", "trying again with new credentials: %s", e.msg); /* then it stays a 401 */
    }
    finish_call(call, &r);
}

static void on_call_done(void *user, int curl_code)
{
    struct kube_call *call = user;
    bool is_large = kube_transfer_inbox(call->transfer)->len > TRIM_BYTES;
    handle_end(call, curl_code); /* frees it */
    if (is_large) {
        (void)malloc_trim(0); /* the agent's few MiB must not stay at the size of one odd object */
    }
}

int kube_client_start(struct kube_client *client, const struct kube_request *request,
                      kube_done_fn *done, void *user, struct kube_call **out, struct err *e)
{
    struct kube_call *call = calloc(1, sizeof(*call));
    if (!call) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    *call = (struct kube_call){.client = client, .done = done, .user = user};
    call->next = client->calls;
    call->link = &client->calls;
    if (call->next) {
        call->next->link = &call->next;
    }
    client->calls = call;
    int rc = 0;
    if (!text_copy(call->path, sizeof(call->path), request->path)) {
        rc = err_set(e, ERR_LIMIT, "request path is longer than %d bytes", (int)PATH_MAX_BYTES);
    }
    if (rc == 0 && request->body) {
        call->body = json_text_dump(request->body);
        rc = call->body ? 0 : err_set(e, ERR_NOMEM, "out of memory");
    }
    call->config = (struct kube_transfer_config){
        .method = request->method,
        .fresh = request->channel == KUBE_FRESH,
        .urgent = request->priority == KUBE_URGENT,
        .path = call->path,
        .deadline_ms = request->deadline_ms ? request->deadline_ms : DEFAULT_DEADLINE_MS,
        .max_bytes = KUBE_BODY_MAX_BYTES,
        .on_done = on_call_done,
        .user = call,
    };
    if (rc == 0) {
        rc = call_send(call, e);
    }
    if (rc != 0) {
        call_free(call);
        return rc;
    }
    *out = call;
    return 0;
}

void kube_call_cancel(struct kube_call *call)
{
    if (call) {
        call_free(call);
    }
}

static void on_pace(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    kube_transfer_send_waiting(timer->data);
}

static int start(struct kube_client *client, struct err *e)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return err_set(e, ERR_NOMEM, "curl cannot be initialised");
    }
    int rc = kube_cred_init(&client->cred, &client->conf, clock_mono_now(), e);
    return rc == 0 ? kube_multi_start(client, e) : rc;
}

static void describe(struct kube_client *client)
{
    text_format(client->description, sizeof(client->description), "%s at %s",
                client->conf.origin ? client->conf.origin : "configuration", client->conf.server);
    if (client->conf.insecure_skip_tls_verify) {
        log_warn("kube", "%s: insecure-skip-tls-verify is set: anybody may pose as the API server",
                 client->description);
    }
}

bool kube_client_refresh(struct kube_client *client, struct mono now, bool force)
{
    bool changed = kube_cred_refresh(&client->cred, now, force);
    if (client->cred.tls_changed) {
        client->cred.tls_changed = false;
        client->draining = true;
        describe(client);
    }
    return changed;
}

int kube_client_new(struct ev_loop *loop, struct kube_conf *conf, struct kube_client **out,
                    struct err *e)
{
    struct kube_client *client = calloc(1, sizeof(*client));
    if (!client) {
        kube_conf_fini(conf);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    client->loop = loop;
    kube_bucket_init(&client->bucket, clock_mono_now());
    ev_timer_init(&client->pace, on_pace, 0., 0.);
    client->pace.data = client;
    client->conf = *conf;
    *conf = (struct kube_conf){0};
    describe(client);
    int rc = start(client, e);
    if (rc != 0) {
        kube_client_free(client);
        return rc;
    }
    *out = client;
    return 0;
}

void kube_client_free(struct kube_client *client)
{
    if (!client) {
        return;
    }
    while (client->calls) {
        call_free(client->calls);
    }
    ev_timer_stop(client->loop, &client->pace);
    if (client->multi) {
        kube_multi_stop(client);
    }
    kube_cred_fini(&client->cred);
    kube_conf_fini(&client->conf);
    free(client);
    curl_global_cleanup();
}

void kube_client_set_observer(struct kube_client *client, kube_observe_fn *observe, void *user)
{
    client->observe = observe;
    client->observe_user = user;
}

void kube_client_observe(struct kube_client *client, const char *verb,
                         const struct kube_response *response)
{
    if (client->observe) {
        client->observe(client->observe_user, verb, response);
    }
}

bool kube_client_expiry(const struct kube_client *client, struct kube_expiry *out)
{
    return kube_cred_expiry(&client->cred, out);
}

uint64_t kube_client_delayed(const struct kube_client *client)
{
    return client->delayed;
}

const char *kube_client_describe(const struct kube_client *client)
{
    return client->description;
}
