/* SPDX-License-Identifier: Apache-2.0 */
/* The client's inside, shared by its files only. */
#ifndef KUBE_KUBE_INTERNAL_H
#define KUBE_KUBE_INTERNAL_H

#include "kube/kube_bucket.h"
#include "kube/kube_client.h"
#include "kube/kube_cred.h"
#include "kube/kube_transfer.h"

#include <curl/curl.h>
#include <ev.h>

struct kube_call;

struct kube_client {
    struct ev_loop *loop;
    struct kube_conf conf;
    struct kube_cred cred;
    CURLM *multi;
    ev_timer timer;            /* what curl wants */
    struct kube_bucket bucket; /* every request passes it */
    ev_timer pace;             /* the next token for those that wait */
    uint64_t delayed;
    struct kube_transfer *transfers; /* the newest first */
    struct kube_call *calls;
    bool draining; /* the next control request takes a new connection: see tls_changed */
    kube_observe_fn *observe;
    void *observe_user;
    char description[256];
};

/* kube_transfer.c; filled by kube_transfer_setup.c. */
struct kube_transfer {
    struct kube_client *client;
    struct kube_transfer *next;
    struct kube_transfer **link; /* what points to us */
    struct kube_transfer_config config;
    char *path;
    bool is_waiting; /* for a token */
    CURL *easy;      /* NULL before it is sent */
    struct curl_slist *headers;
    struct curl_slist *connect_to;
    struct buf inbox;
    struct mono sent_at;
    int64_t retry_after_ms;
    bool has_date;
    struct wall date;
    bool has_bytes; /* since the last delivery */
    bool overflowed;
    bool ended;
    CURLcode end_code;
    char error[CURL_ERROR_SIZE];
};

/* kube_client.c: tells the observer, if there is one. */
void kube_client_observe(struct kube_client *client, const char *verb,
                         const struct kube_response *response);

/* kube_client.c: reads anew what changed of the credentials (`force`: all). True if anything did.
 */
bool kube_client_refresh(struct kube_client *client, struct mono now, bool force);

/* kube_multi.c: curl's sockets and timers on the loop. */
NODISCARD int kube_multi_start(struct kube_client *client, struct err *e);
void kube_multi_stop(struct kube_client *client);
/* Adds a transfer's handle; runs nothing yet. */
NODISCARD int kube_multi_add(struct kube_client *client, CURL *easy, struct err *e);

/* kube_transfer.c: sends what waits and has a token, and arms client->pace for the next. */
void kube_transfer_send_waiting(struct kube_client *client);
/* From kube_multi.c when a handle has ended. */
void kube_transfer_ended(struct kube_transfer *t, CURLcode code);
/* Delivers bytes and ends that wait; called when no curl function is on the stack. */
void kube_transfer_deliver_all(struct kube_client *client);

/* kube_transfer_setup.c: makes the handle with what the request, the credentials and the connection
 * ask for, and takes in what curl tells while it runs. */
NODISCARD int kube_transfer_set_up(struct kube_transfer *t, struct err *e);

/* kube_status.c: an answer in our terms. */
void kube_status_fill(struct kube_response *r, enum kube_method method, const char *path,
                      const char *failure);
int kube_status_code(int http_status);
/* Of an answer of which nothing is missing but what is beyond our limit. `is_json` by its content
 * type; `body` is NULL if it cannot be read. */
enum kube_outcome kube_status_outcome(int http_status, bool is_json, size_t body_len,
                                      const json_t *body);
const char *kube_status_verb(enum kube_method method); /* "GET" ... */
enum kube_loss kube_status_loss(int curl_code);
/* curl's words for a failure, without what may be a secret; borrowed from `said`, or static. */
const char *kube_status_failure(const char *said, int curl_code);

#endif
