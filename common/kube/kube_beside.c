/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "kube/kube_internal.h"

/* Of several API servers behind one name or address one may hang while the others answer, and a
 * name server may be slow or silent. */
enum {
    TRIES_MAX = 3,
    WAIT_SHARE = 4, /* of the time that an answer is waited for: when the next try begins */
};

static bool is_try_of(const struct kube_call *call, const struct kube_call *first)
{
    return call == first || call->first == first;
}

bool kube_call_is_sent_once(const struct kube_call *call)
{
    const struct kube_request *request = &call->config.request;
    return request->method != KUBE_GET && !request->is_repeatable;
}

/* Whether another try may help, and cannot do harm: what is written is sent once, and the
 * handshakes of a fleet that lists at once are not multiplied. */
static bool may_hang(const struct kube_call *call)
{
    const struct kube_request *request = &call->config.request;
    if (call->is_lost) {
        return true;
    }
    if (kube_call_is_sent_once(call)) {
        return !call->has_sent;
    }
    return request->channel == KUBE_LIST ? !kube_handle_is_connected(call)
                                         : !kube_handle_is_answered(call);
}

/* ---- one more -------------------------------------------------------------------------------- */

/* Whether the last good address is known, and not among those that were tried. */
static bool is_address_free(const struct kube_call *first)
{
    bool is_free = !first->has_tried_address && first->client->last_good[0] != '\0';
    for (struct kube_call *call = first->client->calls; call; call = call->next) {
        is_free = is_free && !(is_try_of(call, first) && kube_handle_is_at_last_good(call));
    }
    return is_free;
}

static void start_try(struct kube_call *first)
{
    struct err e = ERR_INIT;
    struct kube_client *client = first->client;
    struct mono now = clock_mono_now();
    struct kube_call_config config = first->config;
    int64_t left_ms = config.request.deadline_ms - mono_since(now, first->sent_at) / NS_PER_MS;
    bool is_by_address = is_address_free(first);
    if (left_ms <= 0) {
        return;
    }
    config.request.deadline_ms = (uint32_t)left_ms;
    struct kube_call *call = kube_call_new(client, &config);
    if (!call) {
        return; /* the others go on */
    }
    call->first = first;
    call->path = first->path;
    call->body = first->body;
    call->is_by_address = is_by_address;
    call->sent_at = now;
    first->tries++;
    first->has_tried_address = first->has_tried_address || is_by_address;
    log_debug("kube", "no answer yet: trying %s beside",
              is_by_address ? client->last_good : "another connection");
    if (kube_handle_open(call, &e) != 0) {
        log_debug("kube", "trying beside: %s", e.msg);
        kube_call_free(call);
    }
}

static void wait_for_next(struct kube_call *first)
{
    const struct kube_request *request = &first->config.request;
    uint32_t all_ms = request->awaited_ms > 0 ? request->awaited_ms : request->deadline_ms;
    struct ev_loop *loop = first->client->loop;
    ev_timer_stop(loop, &first->next_try);
    ev_now_update(loop); /* the loop's time may be old after a long callback */
    ev_timer_set(&first->next_try, (double)all_ms / 1e3 / WAIT_SHARE, 0.);
    ev_timer_start(loop, &first->next_try);
}

static bool take_token(struct kube_call *first)
{
    struct kube_bucket *bucket = &first->client->bucket;
    if (first->config.request.priority == KUBE_URGENT) {
        kube_bucket_take_urgent(bucket, clock_mono_now());
        return true;
    }
    return kube_bucket_take(bucket, clock_mono_now());
}

static void on_next_try(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_call *first = timer->data;
    bool hangs = true;
    (void)loop;
    (void)events;
    for (struct kube_call *call = first->client->calls; call; call = call->next) {
        hangs = hangs && (!is_try_of(call, first) || may_hang(call));
    }
    if (hangs && take_token(first)) {
        start_try(first);
    }
    if (first->tries < TRIES_MAX) {
        wait_for_next(first);
    }
}

void kube_beside_start(struct kube_call *first)
{
    first->tries = 1;
    first->has_tried_address = false;
    if (first->config.request.deadline_ms > 0) {
        ev_timer_init(&first->next_try, on_next_try, 0., 0.);
        first->next_try.data = first;
        wait_for_next(first);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

bool kube_beside_has_sent(const struct kube_call *call)
{
    bool has_sent = false;
    const struct kube_call *first = call->first ? call->first : call;
    for (struct kube_call *other = first->client->calls; other; other = other->next) {
        has_sent = has_sent || (other != call && is_try_of(other, first) && other->has_sent);
    }
    return has_sent;
}

static bool are_others_running(const struct kube_call *lost, const struct kube_call *first)
{
    bool running = false;
    for (struct kube_call *call = first->client->calls; call; call = call->next) {
        running = running || (call != lost && is_try_of(call, first) && !call->is_lost);
    }
    return running;
}

bool kube_beside_goes_on(struct kube_call *call, const struct kube_response *r)
{
    struct kube_call *first = call->first ? call->first : call;
    bool may_have_landed = call->has_sent && kube_call_is_sent_once(call);
    if (call->config.on_bytes || r->loss == KUBE_LOSS_NONE || may_have_landed) {
        return false;
    }
    if (r->loss == KUBE_LOSS_RESOLVE && first->tries < TRIES_MAX && is_address_free(first)) {
        start_try(first);
    }
    if (!are_others_running(call, first)) {
        return false;
    }
    if (call != first) {
        kube_call_free(call);
    } else {
        kube_handle_close(call);
        call->is_lost = true;
    }
    return true;
}

void kube_beside_stop(struct kube_call *first)
{
    struct kube_call *next;
    ev_timer_stop(first->client->loop, &first->next_try);
    for (struct kube_call *call = first->client->calls; call; call = next) {
        next = call->next;
        if (call->first == first) {
            kube_call_free(call);
        }
    }
}
