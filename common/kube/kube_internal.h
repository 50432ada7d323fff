/* SPDX-License-Identifier: Apache-2.0 */
/* The client's inside, shared by its files only: client -> call -> beside -> handle -> status. */
#ifndef KUBE_KUBE_INTERNAL_H
#define KUBE_KUBE_INTERNAL_H

#include "kube/kube_bucket.h"
#include "kube/kube_call.h"
#include "kube/kube_cred.h"
#include "kube/kube_patience.h"
#include "loop/curl_loop.h"

#include <curl/curl.h>
#include <ev.h>
#include <netinet/in.h>

struct kube_client {
    struct ev_loop *loop;
    struct kube_conf conf;
    struct kube_cred cred;
    struct curl_loop *curl;    /* NULL until open */
    struct kube_bucket bucket; /* every request passes it */
    ev_timer pace;             /* the next token for those that wait */
    uint64_t delayed;
    struct kube_patience patience;
    struct kube_call *calls;          /* the newest first */
    char last_good[INET6_ADDRSTRLEN]; /* an address of the server that answered; "": none yet */
    bool draining; /* the next control request takes a new connection: see tls_changed */
    kube_observe_fn *observe;
    void *observe_user;
    char description[256];
};

struct kube_call {
    struct kube_client *client;
    struct kube_call *next;
    struct kube_call **link; /* what points to us */
    struct kube_call_config config;
    char *path;
    char *body;       /* NULL or text */
    bool has_retried; /* after a 401 */
    bool is_waiting;  /* for a token */

    struct kube_call
        *first;        /* NULL, or of which call this is a further try: path and body are its */
    ev_timer next_try; /* of a first one */
    int tries;         /* likewise */
    bool has_tried_address; /* the last good one; likewise */
    bool is_by_address;     /* of the last good one */
    bool has_sent;          /* connected, and the request is on its way */
    bool is_lost;           /* a first one that has failed, while others are under way */

    CURL *easy; /* NULL before it is sent */
    struct curl_slist *headers;
    struct curl_slist *connect_to;
    struct curl_slist *resolve;
    struct buf inbox;
    struct mono sent_at; /* MONO_NEVER while it waits */
    int64_t retry_after_ms;
    bool has_date;
    struct wall date;
    bool has_bytes; /* since the last delivery */
    bool is_paused; /* a stream, until its owner has taken what is in the inbox */
    bool overflowed;
    bool ended;
    CURLcode end_code;
    char error[CURL_ERROR_SIZE];
};

/* kube_call.c: curl on the loop, and the turns. */
NODISCARD int kube_call_open_all(struct kube_client *client, struct err *e);
void kube_call_close_all(struct kube_client *client); /* cancels what is under way */

/* Linked, not started. NULL: no memory. */
struct kube_call *kube_call_new(struct kube_client *client, const struct kube_call_config *config);
void kube_call_free(struct kube_call *call); /* this one only */

/* kube_beside.c: further tries of a request that has no answer yet, each over a connection of its
 * own, after a quarter and after half of the time that it is waited for. The first answer counts.
 * They are for requests that a hung connection can be told of: not for a stream; of a write, only
 * until one try has been sent; of a list, only until it is connected. One of them goes to the
 * address that answered last, and asks no name server. */
void kube_beside_start(struct kube_call *first); /* it was sent */
/* Whether a try that has failed leaves others under way: then it is gone, or waits for them. */
bool kube_beside_goes_on(struct kube_call *call, const struct kube_response *r);
bool kube_beside_has_sent(const struct kube_call *call);   /* another try of the same request */
bool kube_call_is_sent_once(const struct kube_call *call); /* a write that nothing keeps from
                                                               taking effect twice */
void kube_beside_stop(struct kube_call *first);            /* all but itself */

/* kube_handle.c: makes curl's handle with what the request, the credentials and the connection ask
 * for, and takes in what curl tells. Has kube_call_head(), too. */
NODISCARD int kube_handle_open(struct kube_call *call, struct err *e);
/* Reads on after a pause. Not within curl. */
NODISCARD CURLcode kube_handle_resume(struct kube_call *call);
bool kube_handle_is_connected(const struct kube_call *call);
bool kube_handle_is_answered(const struct kube_call *call);
bool kube_handle_is_at_last_good(const struct kube_call *call);
void kube_handle_remember(const struct kube_call *call); /* its address is the last good one */
void kube_handle_close(struct kube_call *call); /* also one that is not open, or only in part */
/* What came of a call that has ended; `out->body` is the caller's. */
void kube_handle_read(const struct kube_call *call, struct kube_response *out);

#endif
