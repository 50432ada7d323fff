/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request on the wire: curl's handle with what the request, the credentials and the connection
 * ask for, and what an answer is in our terms. The structs are transparent for the client, which
 * owns both, and for its tests. Loop thread only.
 */
#ifndef KUBE_KUBE_TRANSFER_H
#define KUBE_KUBE_TRANSFER_H

#include "kube/kube_client.h"
#include "kube/kube_core.h"
#include "loop/curl_loop.h"

#include <curl/curl.h>
#include <ev.h>
#include <netinet/in.h>
#include <sys/queue.h>

struct kube_client {
    struct ev_loop *loop;
    struct kube_conf conf;
    struct kube_cred cred;
    struct curl_loop *curl;    /* NULL until open */
    struct kube_bucket bucket; /* every request passes it */
    ev_timer pace;             /* the next token for those that wait */
    uint64_t delayed;
    struct kube_patience patience;
    LIST_HEAD(kube_calls, kube_call) calls; /* the newest first */
    char last_good[INET6_ADDRSTRLEN];       /* an address of the server that answered; "": none */
    bool draining; /* the next control request takes a new connection: the credentials changed */
    kube_observe_fn *observe;
    void *observe_user;
    char description[256];
};

struct kube_call {
    struct kube_client *client;
    LIST_ENTRY(kube_call) link;
    struct kube_call_config config;
    char *path;
    char *body;       /* NULL or text */
    bool has_retried; /* after a 401 */
    bool is_waiting;  /* for a token */

    /* NULL, or of which call this is a further try: path and body are its. */
    struct kube_call *first;
    ev_timer next_try;      /* of a first one */
    int tries;              /* likewise */
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

/* A call, or a further try of it. */
static inline bool kube_call_is_try_of(const struct kube_call *call, const struct kube_call *first)
{
    return call == first || call->first == first;
}
/* A write that nothing keeps from taking effect twice. */
bool kube_call_is_sent_once(const struct kube_call *call);

/* Makes the handle; runs nothing yet. */
void kube_transfer_open(struct kube_call *call);
void kube_transfer_close(struct kube_call *call); /* also one that is not open */
/* Reads on after a pause. Not within curl. */
NODISCARD CURLcode kube_transfer_resume(struct kube_call *call);
bool kube_transfer_is_connected(const struct kube_call *call);
int kube_transfer_status(const struct kube_call *call); /* of HTTP; 0 if there is none yet */
bool kube_transfer_is_json(const struct kube_call *call);
bool kube_transfer_is_at_last_good(const struct kube_call *call);
void kube_transfer_remember(const struct kube_call *call); /* its address is the last good one */
/* What came of a call that has ended, beyond its head; `out->body` is the caller's. */
void kube_transfer_read(const struct kube_call *call, struct kube_response *out);

/* ---- what an answer means ---- */

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

#endif
