/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_question.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/kube_transfer.h"

#include <assert.h>

static struct kube_question_call *other(struct kube_question *q,
                                        const struct kube_question_call *call)
{
    return call == &q->calls[0] ? &q->calls[1] : &q->calls[0];
}

static void on_done(void *user, const struct kube_response *r)
{
    struct kube_question_call *call = user;
    struct kube_question *q = call->question;
    bool is_answer = r->outcome != KUBE_NO_CONTACT;
    call->call = NULL;
    if (call != q->awaited) {
        if (is_answer) {
            q->late(q->user, r);
        }
        return;
    }
    q->awaited = NULL;
    ev_timer_stop(q->loop, &q->due);
    if (is_answer) {
        kube_call_cancel(TAKE(other(q, call)->call));
    }
    q->done(q->user, r);
}

/* What is told of a request that was not answered in time. */
static struct kube_response no_answer(const struct kube_question *q)
{
    struct kube_response r = {.code = ERR_RETRY,
                              .transport_error = KUBE_TRANSPORT_TIMEOUT,
                              .retry_after_ms = -1,
                              .sent_at = q->asked_at,
                              .received_at = clock_mono_now(),
                              .received_wall = clock_wall_now()};
    char span[32];
    text_from_duration(mono_since(r.received_at, r.sent_at) / NS_PER_MS * NS_PER_MS, span,
                       sizeof(span));
    text_format(r.message, sizeof(r.message), "no answer within %s", span);
    return r;
}

static void on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_question *q = timer->data;
    struct kube_question_call *call = TAKE(q->awaited);
    struct kube_response r = no_answer(q);
    (void)loop;
    (void)events;
    if (other(q, call)->call) {
        kube_call_cancel(TAKE(call->call));
        kube_client_observe(q->client, kube_status_verb(q->method), &r);
    }
    q->done(q->user, &r);
}

void kube_question_init(struct kube_question *q, struct ev_loop *loop, struct kube_client *client,
                        kube_done_fn *done, kube_done_fn *late, void *user)
{
    *q = (struct kube_question){
        .loop = loop, .client = client, .done = done, .late = late, .user = user};
    q->calls[0].question = q;
    q->calls[1].question = q;
    ev_timer_init(&q->due, on_due, 0., 0.);
    q->due.data = q;
}

int kube_question_ask(struct kube_question *q, const struct kube_request *request, uint32_t due_ms,
                      struct err *e)
{
    struct kube_question_call *call = q->calls[0].call ? &q->calls[1] : &q->calls[0];
    struct kube_request awaited = *request;
    assert(!q->awaited && !call->call);
    awaited.awaited_ms = due_ms;
    int rc = kube_client_start(q->client, &awaited, on_done, call, &call->call, e);
    if (rc != 0) {
        return rc;
    }
    q->awaited = call;
    q->method = request->method;
    q->asked_at = clock_mono_now();
    ev_now_update(q->loop); /* the loop's time may be old after a long callback */
    ev_timer_set(&q->due, (double)due_ms / 1e3, 0.);
    ev_timer_start(q->loop, &q->due);
    return 0;
}

bool kube_question_is_awaited(const struct kube_question *q)
{
    return q->awaited;
}

void kube_question_drop(struct kube_question *q)
{
    ev_timer_stop(q->loop, &q->due);
    q->awaited = NULL;
    kube_call_cancel(TAKE(q->calls[0].call));
    kube_call_cancel(TAKE(q->calls[1].call));
}
