/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_call.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_internal.h"
#include "kube/kube_status.h"

#include <malloc.h>
#include <string.h>

enum {
    PATH_MAX_BYTES = 2048,
    TRIM_BYTES = 256 << 10, /* an answer above this is rare enough to tidy up after it */
};

static void link_call(struct kube_call *call)
{
    struct kube_client *client = call->client;
    call->next = client->calls;
    call->link = &client->calls;
    if (call->next) {
        call->next->link = &call->next;
    }
    client->calls = call;
}

static void unlink_call(struct kube_call *call)
{
    *call->link = call->next;
    if (call->next) {
        call->next->link = call->link;
    }
}

/* ---- the credentials ------------------------------------------------------------------------- */

static void describe(struct kube_client *client)
{
    text_format(client->description, sizeof(client->description), "%s at %s",
                client->conf.origin ? client->conf.origin : "configuration", client->conf.server);
    if (client->conf.insecure_skip_tls_verify) {
        log_warn("kube", "%s: insecure-skip-tls-verify is set: anybody may pose as the API server",
                 client->description);
    }
}

/* Reads anew what changed (`force`: all). True if anything did. */
static bool refresh(struct kube_client *client, struct mono now, bool force)
{
    bool changed = kube_cred_refresh(&client->cred, now, force);
    if (client->cred.tls_changed) {
        client->cred.tls_changed = false;
        client->draining = true;
        describe(client);
    }
    return changed;
}

/* ---- waiting for a token --------------------------------------------------------------------- */

static int send_now(struct kube_call *call, struct mono now, struct err *e)
{
    struct kube_client *client = call->client;
    call->is_waiting = false;
    call->sent_at = now;
    (void)refresh(client, now, false);
    kube_beside_start(call);
    return kube_handle_open(call, e);
}

static struct kube_call *longest_waiting(struct kube_client *client, size_t *out_count)
{
    struct kube_call *found = NULL;
    *out_count = 0;
    for (struct kube_call *call = client->calls; call; call = call->next) {
        if (call->is_waiting) {
            found = call;
            (*out_count)++;
        }
    }
    return found;
}

static void arm_pace(struct kube_client *client, struct mono now)
{
    ev_timer_stop(client->loop, &client->pace);
    ev_now_update(client->loop); /* the loop's time may be old after a long callback */
    ev_timer_set(&client->pace, (double)kube_bucket_wait_ns(&client->bucket, now) / 1e9, 0.);
    ev_timer_start(client->loop, &client->pace);
}

/* Sends it, or lets it wait for its turn. */
static int send_in_turn(struct kube_call *call, struct err *e)
{
    struct kube_client *client = call->client;
    struct mono now = clock_mono_now();
    size_t count;
    bool is_first = longest_waiting(client, &count) == NULL;
    if (call->config.request.priority == KUBE_URGENT) {
        kube_bucket_take_urgent(&client->bucket, now);
        return send_now(call, now, e);
    }
    if (is_first && kube_bucket_take(&client->bucket, now)) {
        return send_now(call, now, e);
    }
    if (count >= KUBE_WAITING_MAX) {
        return err_set(e, ERR_LIMIT, "%d requests wait for their turn already",
                       (int)KUBE_WAITING_MAX);
    }
    call->is_waiting = true;
    client->delayed++;
    if (is_first) {
        arm_pace(client, now);
    }
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void forget_answer(struct kube_call *call)
{
    kube_beside_stop(call);
    kube_handle_close(call);
    call->is_lost = false;
    call->has_sent = false;
    buf_clear(&call->inbox);
    call->sent_at = MONO_NEVER;
    call->retry_after_ms = -1;
    call->has_date = false;
    call->has_bytes = false;
    call->is_paused = false;
    call->error[0] = '\0';
}

/* After a 401 the credentials are read again; one more try if they are new. */
static bool try_again(struct kube_call *call, int http_status)
{
    struct err e = ERR_INIT;
    if (http_status != 401 || call->has_retried || !refresh(call->client, clock_mono_now(), true)) {
        return false;
    }
    call->has_retried = true;
    forget_answer(call);
    unlink_call(call); /* it waits behind the others */
    link_call(call);
    if (send_in_turn(call, &e) != 0) {
        log_debug("kube", "trying again with new credentials: %s", e.msg);
        return false;
    }
    return true;
}

static void learn_patience(struct kube_call *call, const struct kube_response *r)
{
    if (r->loss == KUBE_LOSS_TIMEOUT || r->loss == KUBE_LOSS_NONE) {
        kube_patience_learn(&call->client->patience, call->config.request.method != KUBE_GET,
                            r->loss == KUBE_LOSS_NONE,
                            mono_since(r->received_at, r->sent_at) / NS_PER_MS);
    }
}

static void end_call(struct kube_call *call)
{
    struct kube_response r;
    struct kube_call *first = call->first ? call->first : call;
    bool is_large = call->inbox.len > TRIM_BYTES;
    bool is_stream = call->config.on_bytes;
    CURLcode code = call->end_code;
    kube_handle_read(call, &r);
    if (kube_beside_goes_on(call, &r)) {
        return;
    }
    if (r.outcome == KUBE_ANSWERED) {
        kube_handle_remember(call);
    } else {
        r.sent_at = first->sent_at; /* whichever try was the last to fail */
    }
    if (!is_stream) {
        learn_patience(call, &r);
        kube_client_observe(call->client, kube_status_verb(call->config.request.method), &r);
    }
    if (is_stream || code != CURLE_OK || !try_again(first, r.http_status)) {
        kube_done_fn *done = first->config.on_done;
        void *user = first->config.user;
        CLEANUP(buf) struct buf raw = {.len = 0};
        if (r.raw) { /* borrowed from it */
            raw = call->inbox;
            buf_init(&call->inbox, 0);
        }
        kube_call_cancel(first);
        done(user, &r);
    }
    json_decref(r.body);
    if (is_large) {
        (void)malloc_trim(0); /* the agent's few MiB must not stay at the size of one odd object */
    }
}

static void note_end(struct kube_call *call, CURLcode code)
{
    call->ended = true;
    call->end_code = code;
}

static struct kube_call *first_to_deliver(struct kube_client *client)
{
    struct kube_call *call = client->calls;
    while (call && !call->ended && !call->is_paused &&
           !(call->has_bytes && call->config.on_bytes)) {
        call = call->next;
    }
    return call;
}

static void resume(struct kube_call *call)
{
    CURLcode code = kube_handle_resume(call);
    if (code != CURLE_OK) {
        note_end(call, code);
    }
}

/* Called when no curl function is on the stack. */
static void deliver_all(struct kube_client *client)
{
    struct kube_call *call;
    while ((call = first_to_deliver(client)) != NULL) {
        if (call->has_bytes && call->config.on_bytes) {
            call->has_bytes = false;
            call->config.on_bytes(call->config.user, &call->inbox); /* may cancel any: look anew */
        } else if (call->is_paused) {
            resume(call);
        } else {
            call->ended = false; /* told once */
            end_call(call);
        }
    }
}

/* ---- curl on the loop ------------------------------------------------------------------------ */

static void on_ended(void *user, CURL *easy, CURLcode code)
{
    struct kube_call *call = NULL;
    (void)user;
    if (curl_easy_getinfo(easy, CURLINFO_PRIVATE, &call) == CURLE_OK && call) {
        note_end(call, code);
    }
}

static void after_curl(void *user)
{
    deliver_all(user);
}

/* Sends those that wait while there are tokens. */
static void on_pace(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_client *client = timer->data;
    struct mono now = clock_mono_now();
    struct kube_call *call;
    size_t count;
    (void)loop;
    (void)events;
    while ((call = longest_waiting(client, &count)) != NULL) {
        struct err e = ERR_INIT;
        if (!kube_bucket_take(&client->bucket, now)) {
            arm_pace(client, now);
            break;
        }
        if (send_now(call, now, &e) != 0) {
            text_format(call->error, sizeof(call->error), "%s", e.msg);
            note_end(call, CURLE_OUT_OF_MEMORY);
        }
    }
    deliver_all(client);
}

int kube_call_open_all(struct kube_client *client, struct err *e)
{
    const struct curl_loop_config config = {.ended = on_ended, .after = after_curl, .user = client};
    int rc = curl_loop_new(client->loop, &config, &client->curl, e);
    if (rc != 0) {
        return rc;
    }
    kube_bucket_init(&client->bucket, clock_mono_now());
    ev_timer_init(&client->pace, on_pace, 0., 0.);
    client->pace.data = client;
    describe(client);
    return 0;
}

void kube_call_close_all(struct kube_client *client)
{
    while (client->calls) {
        kube_call_cancel(client->calls);
    }
    if (client->curl) {
        ev_timer_stop(client->loop, &client->pace);
        curl_loop_free(client->curl);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int copy_request(struct kube_call *call, const struct kube_request *request, struct err *e)
{
    if (strlen(request->path) >= PATH_MAX_BYTES) {
        return err_set(e, ERR_LIMIT, "request path is longer than %d bytes", (int)PATH_MAX_BYTES);
    }
    call->path = strdup(request->path);
    call->body = request->body ? json_text_dump(request->body) : NULL;
    if (!call->path || (request->body && !call->body)) {
        return err_no_memory(e);
    }
    return 0;
}

struct kube_call *kube_call_new(struct kube_client *client, const struct kube_call_config *config)
{
    struct kube_call *call = calloc(1, sizeof(*call));
    if (!call) {
        return NULL;
    }
    call->client = client;
    call->config = *config;
    call->config.request.path = NULL; /* borrowed: call->path and call->body are ours */
    call->config.request.body = NULL;
    buf_init(&call->inbox, config->max_bytes);
    forget_answer(call);
    link_call(call);
    return call;
}

int kube_call_start(struct kube_client *client, const struct kube_call_config *config,
                    struct kube_call **out, struct err *e)
{
    struct kube_call *call = kube_call_new(client, config);
    if (!call) {
        return err_no_memory(e);
    }
    int rc = copy_request(call, &config->request, e);
    if (rc == 0) {
        rc = send_in_turn(call, e);
    }
    if (rc != 0) {
        kube_call_cancel(call);
        return rc;
    }
    *out = call;
    return 0;
}

void kube_call_free(struct kube_call *call)
{
    unlink_call(call);
    kube_handle_close(call);
    buf_fini(&call->inbox);
    if (!call->first) {
        free(call->body);
        free(call->path);
    }
    free(call);
}

void kube_call_cancel(struct kube_call *call)
{
    if (call) {
        kube_beside_stop(call);
        kube_call_free(call);
    }
}

void kube_client_observe(struct kube_client *client, const char *verb,
                         const struct kube_response *response)
{
    if (client->observe) {
        client->observe(client->observe_user, verb, response);
    }
}

struct ev_loop *kube_client_loop(const struct kube_client *client)
{
    return client->loop;
}
