/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_client.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_transfer.h"

#include <malloc.h>
#include <string.h>

/* Of several API servers behind one name or address one may hang while the others answer, and a
 * name server may be slow or silent. */
enum {
    TRIES_MAX = 3,
    WAIT_SHARE = 4, /* of the time that an answer is waited for: when the next try begins */
    PATH_MAX_BYTES = 2048,
    TRIM_BYTES = 256 << 10, /* an answer above this is rare enough to tidy up after it */
};

static void arm(struct kube_client *client, ev_timer *timer, double wait_s)
{
    ev_timer_stop(client->loop, timer);
    ev_now_update(client->loop); /* the loop's time may be old after a long callback */
    ev_timer_set(timer, wait_s, 0.);
    ev_timer_start(client->loop, timer);
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

/* ---- one try --------------------------------------------------------------------------------- */

static void forget_answer(struct kube_call *call)
{
    kube_transfer_close(call);
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

static struct kube_call *new_try(struct kube_client *client, const struct kube_call_config *config)
{
    struct kube_call *call = MEM_NEW(struct kube_call);
    call->client = client;
    call->config = *config;
    call->config.request.path = NULL; /* borrowed: call->path and call->body are ours */
    call->config.request.body = NULL;
    buf_init(&call->inbox, config->max_bytes);
    forget_answer(call);
    LIST_INSERT_HEAD(&client->calls, call, link);
    return call;
}

static void free_try(struct kube_call *call)
{
    LIST_REMOVE(call, link);
    kube_transfer_close(call);
    buf_fini(&call->inbox);
    if (!call->first) {
        free(call->body);
        free(call->path);
    }
    free(call);
}

/* ---- further tries, beside those that hang --------------------------------------------------- */

/* Whether another try may help, and cannot do harm: what is written is sent once, and the
 * handshakes of a fleet that lists at once are not multiplied. */
static bool may_hang(const struct kube_call *call)
{
    if (call->is_lost) {
        return true;
    }
    if (kube_call_is_sent_once(call)) {
        return !call->has_sent;
    }
    return call->config.request.channel == KUBE_LIST ? !kube_transfer_is_connected(call)
                                                     : kube_transfer_status(call) == 0;
}

/* Whether the last good address is known, and not among those that were tried. */
static bool is_address_free(const struct kube_call *first)
{
    const struct kube_call *call;
    bool is_free = !first->has_tried_address && first->client->last_good[0] != '\0';
    LIST_FOREACH(call, &first->client->calls, link)
    {
        is_free =
            is_free && !(kube_call_is_try_of(call, first) && kube_transfer_is_at_last_good(call));
    }
    return is_free;
}

static void start_try(struct kube_call *first)
{
    struct mono now = clock_mono_now();
    struct kube_call_config config = first->config;
    int64_t left_ms = config.request.deadline_ms - mono_since(now, first->sent_at) / NS_PER_MS;
    bool is_by_address = is_address_free(first);
    if (left_ms <= 0) {
        return;
    }
    config.request.deadline_ms = (uint32_t)left_ms;
    struct kube_call *call = new_try(first->client, &config);
    call->first = first;
    call->path = first->path;
    call->body = first->body;
    call->is_by_address = is_by_address;
    call->sent_at = now;
    first->tries++;
    first->has_tried_address = first->has_tried_address || is_by_address;
    log_debug("kube", "no answer yet: trying %s beside",
              is_by_address ? first->client->last_good : "another connection");
    kube_transfer_open(call);
}

static void wait_for_next(struct kube_call *first)
{
    const struct kube_request *request = &first->config.request;
    uint32_t all_ms = request->awaited_ms > 0 ? request->awaited_ms : request->deadline_ms;
    arm(first->client, &first->next_try, (double)all_ms / 1e3 / WAIT_SHARE);
}

/* Takes a token, if there is one, or the request does not wait for one. */
static bool take_token(const struct kube_call *call, struct mono now)
{
    if (call->config.request.priority == KUBE_URGENT) {
        kube_bucket_take_urgent(&call->client->bucket, now);
        return true;
    }
    return kube_bucket_take(&call->client->bucket, now);
}

static void on_next_try(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_call *first = timer->data;
    const struct kube_call *call;
    bool hangs = true;
    (void)loop;
    (void)events;
    LIST_FOREACH(call, &first->client->calls, link)
    {
        hangs = hangs && (!kube_call_is_try_of(call, first) || may_hang(call));
    }
    if (hangs && take_token(first, clock_mono_now())) {
        start_try(first);
    }
    if (first->tries < TRIES_MAX) {
        wait_for_next(first);
    }
}

/* Whether a try that has failed leaves others under way: then it is gone, or waits for them. */
static bool others_go_on(struct kube_call *call, const struct kube_response *r)
{
    struct kube_call *first = call->first ? call->first : call;
    const struct kube_call *other;
    bool is_running = false;
    bool may_have_landed = call->has_sent && kube_call_is_sent_once(call);
    if (call->config.on_bytes || r->transport_error == KUBE_TRANSPORT_OK || may_have_landed) {
        return false;
    }
    if (r->transport_error == KUBE_TRANSPORT_RESOLVE && first->tries < TRIES_MAX &&
        is_address_free(first)) {
        start_try(first);
    }
    LIST_FOREACH(other, &first->client->calls, link)
    {
        is_running =
            is_running || (other != call && kube_call_is_try_of(other, first) && !other->is_lost);
    }
    if (is_running && call != first) {
        free_try(call);
    } else if (is_running) {
        kube_transfer_close(call);
        call->is_lost = true;
    }
    return is_running;
}

/* Ends all tries but the first. */
static void end_tries(struct kube_call *first)
{
    struct kube_call *next;
    ev_timer_stop(first->client->loop, &first->next_try);
    for (struct kube_call *call = LIST_FIRST(&first->client->calls); call; call = next) {
        next = LIST_NEXT(call, link);
        if (call->first == first) {
            free_try(call);
        }
    }
}

/* ---- waiting for a token --------------------------------------------------------------------- */

static void send_now(struct kube_call *call, struct mono now)
{
    call->is_waiting = false;
    call->sent_at = now;
    (void)refresh(call->client, now, false);
    call->tries = 1;
    call->has_tried_address = false;
    if (call->config.request.deadline_ms > 0) {
        ev_timer_init(&call->next_try, on_next_try, 0., 0.);
        call->next_try.data = call;
        wait_for_next(call);
    }
    kube_transfer_open(call);
}

static struct kube_call *longest_waiting(const struct kube_client *client, int *out_count)
{
    struct kube_call *call;
    struct kube_call *found = NULL;
    *out_count = 0;
    LIST_FOREACH(call, &client->calls, link)
    {
        if (call->is_waiting) {
            found = call;
            (*out_count)++;
        }
    }
    return found;
}

static void arm_pace(struct kube_client *client, struct mono now)
{
    arm(client, &client->pace, (double)kube_bucket_wait_ns(&client->bucket, now) / 1e9);
}

/* Sends it, or lets it wait for its turn. */
static int send_in_turn(struct kube_call *call, struct err *e)
{
    struct kube_client *client = call->client;
    struct mono now = clock_mono_now();
    int count;
    bool is_first = longest_waiting(client, &count) == NULL;
    bool is_urgent = call->config.request.priority == KUBE_URGENT;
    if ((is_urgent || is_first) && take_token(call, now)) {
        send_now(call, now);
        return 0;
    }
    if (count >= KUBE_WAITING_MAX) {
        return err_set(e, ERR_LIMIT, "%d requests wait for their turn already", count);
    }
    call->is_waiting = true;
    client->delayed++;
    if (is_first) {
        arm_pace(client, now);
    }
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

void kube_call_head(const struct kube_call *call, struct kube_response *out)
{
    int status = kube_transfer_status(call);
    *out = (struct kube_response){
        .code = kube_status_code(status),
        .http_status = status,
        .is_json = kube_transfer_is_json(call),
        .retry_after_ms = call->retry_after_ms,
        .has_server_date = call->has_date,
        .server_date = call->date,
        .received_wall = clock_wall_now(),
        .sent_at = call->sent_at,
        .received_at = clock_mono_now(),
    };
}

void kube_client_observe(struct kube_client *client, const char *verb,
                         const struct kube_response *response)
{
    if (client->observe) {
        client->observe(client->observe_user, verb, response);
    }
}

/* After a 401 the credentials are read again; one more try if they are new. */
static bool try_again(struct kube_call *call, int http_status)
{
    struct err e = ERR_INIT;
    if (http_status != 401 || call->has_retried || !refresh(call->client, clock_mono_now(), true)) {
        return false;
    }
    call->has_retried = true;
    end_tries(call);
    forget_answer(call);
    LIST_REMOVE(call, link); /* it waits behind the others */
    LIST_INSERT_HEAD(&call->client->calls, call, link);
    if (send_in_turn(call, &e) != 0) {
        log_debug("kube", "trying again with new credentials: %s", e.msg);
        return false;
    }
    return true;
}

static void learn_patience(struct kube_call *call, const struct kube_response *r)
{
    bool is_answered = r->transport_error == KUBE_TRANSPORT_OK;
    if (is_answered || r->transport_error == KUBE_TRANSPORT_TIMEOUT) {
        kube_patience_learn(&call->client->patience, call->config.request.method != KUBE_GET,
                            is_answered, mono_since(r->received_at, r->sent_at) / NS_PER_MS);
    }
}

static void end_call(struct kube_call *call)
{
    struct kube_response r;
    struct kube_call *first = call->first ? call->first : call;
    bool is_large = call->inbox.len > TRIM_BYTES;
    bool is_stream = call->config.on_bytes;
    CURLcode code = call->end_code;
    kube_call_head(call, &r);
    kube_transfer_read(call, &r);
    if (others_go_on(call, &r)) {
        return;
    }
    if (r.outcome == KUBE_ANSWERED) {
        kube_transfer_remember(call);
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

static struct kube_call *first_to_deliver(struct kube_client *client)
{
    struct kube_call *call;
    LIST_FOREACH(call, &client->calls, link)
    {
        if (call->ended || call->is_paused || (call->has_bytes && call->config.on_bytes)) {
            break;
        }
    }
    return call;
}

static void note_end(struct kube_call *call, CURLcode code)
{
    call->ended = true;
    call->end_code = code;
}

/* Called when no curl function is on the stack. */
static void deliver_all(void *user)
{
    struct kube_client *client = user;
    struct kube_call *call;
    while ((call = first_to_deliver(client)) != NULL) {
        if (call->has_bytes && call->config.on_bytes) {
            call->has_bytes = false;
            call->config.on_bytes(call->config.user, &call->inbox); /* may cancel any: look anew */
        } else if (call->is_paused) {
            CURLcode code = kube_transfer_resume(call);
            if (code != CURLE_OK) {
                note_end(call, code);
            }
        } else {
            call->ended = false; /* told once */
            end_call(call);
        }
    }
}

static void on_ended(void *user, CURL *easy, CURLcode code)
{
    struct kube_call *call = NULL;
    (void)user;
    if (curl_easy_getinfo(easy, CURLINFO_PRIVATE, &call) == CURLE_OK && call) {
        note_end(call, code);
    }
}

/* Sends those that wait while there are tokens. */
static void on_pace(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_client *client = timer->data;
    struct mono now = clock_mono_now();
    struct kube_call *call;
    int count;
    (void)loop;
    (void)events;
    while ((call = longest_waiting(client, &count)) != NULL) {
        if (!kube_bucket_take(&client->bucket, now)) {
            arm_pace(client, now);
            break;
        }
        send_now(call, now);
    }
    deliver_all(client);
}

/* ---- life ------------------------------------------------------------------------------------ */

int kube_call_start(struct kube_client *client, const struct kube_call_config *config,
                    struct kube_call **out, struct err *e)
{
    const struct kube_request *request = &config->request;
    if (strlen(request->path) >= PATH_MAX_BYTES) {
        return err_set(e, ERR_LIMIT, "request path is longer than %d bytes", (int)PATH_MAX_BYTES);
    }
    struct kube_call *call = new_try(client, config);
    call->path = mem_strdup(request->path);
    call->body = request->body ? json_text_dump(request->body) : NULL;
    int rc = send_in_turn(call, e);
    if (rc != 0) {
        kube_call_cancel(call);
        return rc;
    }
    *out = call;
    return 0;
}

int kube_client_start(struct kube_client *client, const struct kube_request *request,
                      kube_done_fn *done, void *user, struct kube_call **out, struct err *e)
{
    struct kube_call_config config = {
        .request = *request, .max_bytes = KUBE_BODY_MAX_BYTES, .on_done = done, .user = user};
    if (config.request.deadline_ms == 0) {
        config.request.deadline_ms =
            kube_patience_ms(&client->patience, request->method != KUBE_GET);
    }
    return kube_call_start(client, &config, out, e);
}

void kube_call_cancel(struct kube_call *call)
{
    if (call) {
        end_tries(call);
        free_try(call);
    }
}

static int open_client(struct kube_client *client, struct err *e)
{
    const struct curl_loop_config config = {
        .ended = on_ended, .after = deliver_all, .user = client};
    int rc = kube_cred_init(&client->cred, &client->conf, clock_mono_now(), e);
    if (rc != 0) {
        return rc;
    }
    client->curl = curl_loop_new(client->loop, &config);
    kube_bucket_init(&client->bucket, clock_mono_now());
    ev_timer_init(&client->pace, on_pace, 0., 0.);
    client->pace.data = client;
    describe(client);
    return 0;
}

int kube_client_new(struct ev_loop *loop, struct kube_conf *conf, struct kube_client **out,
                    struct err *e)
{
    struct kube_client *client = MEM_NEW(struct kube_client);
    client->loop = loop;
    client->conf = *conf;
    *conf = (struct kube_conf){0};
    int rc = open_client(client, e);
    if (rc != 0) {
        kube_client_free(client);
        return rc;
    }
    *out = client;
    return 0;
}

int kube_client_connect(struct ev_loop *loop, const char *kubeconfig, struct kube_client **out,
                        struct err *e)
{
    struct kube_conf conf = {0};
    int rc = kube_conf_load_file(kubeconfig, &conf, e);
    return rc != 0 ? rc : kube_client_new(loop, &conf, out, e);
}

void kube_client_free(struct kube_client *client)
{
    if (!client) {
        return;
    }
    while (!LIST_EMPTY(&client->calls)) {
        kube_call_cancel(LIST_FIRST(&client->calls));
    }
    if (client->curl) {
        ev_timer_stop(client->loop, &client->pace);
        curl_loop_free(client->curl);
    }
    kube_cred_fini(&client->cred);
    kube_conf_fini(&client->conf);
    free(client);
}

void kube_client_set_observer(struct kube_client *client, kube_observe_fn *observe, void *user)
{
    client->observe = observe;
    client->observe_user = user;
}

struct ev_loop *kube_client_loop(const struct kube_client *client)
{
    return client->loop;
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
