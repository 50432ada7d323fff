/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer of the API server is in our terms, and asking for one that may come late. */
#ifndef KUBE_KUBE_ANSWER_H
#define KUBE_KUBE_ANSWER_H

#include "kube/kube_client.h"

#include <ev.h>

/* Fills in reason and message of one that failed; `failure` says why none came, or is NULL. */
void kube_status_fill(struct kube_response *r, enum kube_method method, const char *path,
                      const char *failure);
int kube_status_code(int http_status);
/* Of an answer of which nothing is missing but what is beyond our limit. `is_json` by its content
 * type; `body` is NULL if it cannot be read. */
enum kube_outcome kube_status_outcome(int http_status, bool is_json, size_t body_len,
                                      const json_t *body);
const char *kube_status_verb(enum kube_method method); /* "GET" ... */
enum kube_transport_error kube_status_transport_error(int curl_code);
/* curl's words for a failure, without what may be a secret; borrowed from `said`, or static. */
const char *kube_status_failure(const char *said, int curl_code);

/* ---- one that may come late ------------------------------------------------------------------
 *
 * A request that has to be answered by some time, and whose answer is welcome later, too. When the
 * time is over the owner is told of a failure, and may ask anew; the first request goes on beside
 * the new one. A name server or an API server that is slow answers it in the end, where a new
 * request would be no faster; a connection that is dead holds nobody up. Loop thread only.
 *
 * At most two requests are under way: the one that is waited for, and one that came too late for
 * that. While there is such a late one, a newer one that is not answered in time is given up. An
 * answer about the object ends the late one: it would tell nothing new. */

struct kube_question;

struct kube_question_call {
    struct kube_question *question;
    struct kube_call *call; /* NULL: none */
};

struct kube_question {
    struct ev_loop *loop;
    struct kube_client *client;
    kube_done_fn *done;
    kube_done_fn *late;
    void *user;
    struct kube_question_call calls[2];
    struct kube_question_call *awaited; /* NULL: none is waited for */
    enum kube_method method;
    struct mono asked_at;
    ev_timer due;
};

/* Borrows `loop` and `client`. `done` is called once for each request, as kube_client_start() does,
 * or by its time with KUBE_TRANSPORT_TIMEOUT; `late` with the API server's answer to one that was
 * told of in this way. Neither may free the question. */
void kube_question_init(struct kube_question *q, struct ev_loop *loop, struct kube_client *client,
                        kube_done_fn *done, kube_done_fn *late, void *user);

/* Asks; none may be waited for. `due_ms` is when `done` is called at the latest, the request's own
 * deadline how long its answer is welcome. Errors: those of kube_client_start(). */
NODISCARD int kube_question_ask(struct kube_question *q, const struct kube_request *request,
                                uint32_t due_ms, struct err *e);

bool kube_question_is_awaited(const struct kube_question *q);

/* Ends what is under way, without a callback. */
void kube_question_drop(struct kube_question *q);

#endif
