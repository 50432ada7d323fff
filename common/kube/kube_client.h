/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An asynchronous Kubernetes client on libcurl's multi interface, driven by libev. Loop thread
 * only.
 *
 * HTTP/1.1 on purpose: requests under way never share a connection, so that a half-open one stalls
 * neither the other channels nor the evidence. Credentials are re-read when their files change
 * (which is looked at before each request, and every ten seconds while a watch brings something),
 * and after a 401; a changed certificate or CA gives new connections. Redirects are not followed. A
 * token bucket bounds what one agent sends, whatever loop its owner or its server leads it into.
 *
 * Of several API servers behind one address one may fail at once while the others are well. A
 * connection that brings an error that may be its server's own, or an old state, is used no more:
 * the next request takes a new one, at a pace (kube/kube_core.h).
 *
 * An ordinary request waits up to two seconds for those under way, and takes over their connection:
 * a TLS handshake costs more than a request. The stream comes last, since it keeps its own.
 *
 * A request that has no answer after half of the time that it is waited for is tried again beside,
 * over a new connection; the first answer counts. It goes to the address that answered last, and
 * asks no name server, unless the first try went there. Not so a stream; a write, only until one
 * try has been sent; a list, only until it is connected.
 */
#ifndef KUBE_KUBE_CLIENT_H
#define KUBE_KUBE_CLIENT_H

#include "kube/kube_conf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct ev_loop;
struct kube_client;
struct kube_metrics; /* one API server and identity */
struct kube_call;    /* one request under way */

enum {
    /* Of an answer (a watch is bounded per line instead). etcd takes 1.5 MiB for an object; as JSON
     * each of its bytes may be an escape of six ("\u0001"), and there is something around it. */
    KUBE_BODY_MAX_BYTES = 16 << 20,
    KUBE_REASON_BYTES = 64,
    KUBE_MESSAGE_BYTES = 640, /* a denial names user, verb, resource and namespace */
};

#define KUBE_NODES "/api/v1/nodes"

#define KUBE_SHORT_STREAM_NS (10 * NS_PER_SEC) /* a server that ends one sooner is sick */

enum kube_method {
    KUBE_GET,
    KUBE_POST,
    KUBE_PUT,
    KUBE_MERGE_PATCH,    /* RFC 7386: a list is replaced as a whole */
    KUBE_STRATEGIC_PATCH /* Kubernetes' own: list items are merged by their key */
};

enum kube_channel {
    KUBE_CONTROL, /* the kept-alive connection */
    KUBE_FRESH,   /* one that a request has just left, or a new one, which is kept in place of the
                     old: for evidence and after a failure */
    KUBE_LIST,    /* the same; left to the watch that follows */
    KUBE_STREAM,  /* the same; closed afterwards */
};

/* The worth of an answer as evidence about the requested object. */
enum kube_outcome {
    KUBE_NO_CONTACT, /* none, or not one of the API server about the object: a cut one, a proxy's
                        page, 401, 403, 429, 5xx ... */
    KUBE_UNREADABLE, /* it did answer, with JSON that we cannot read or that is too large */
    KUBE_ANSWERED,   /* the object, or a fact about it: 404, 409, 410 or 422 with a Status */
};

/* Every request is counted against the client's limit (kube/kube_core.h). */
enum kube_priority {
    KUBE_ORDINARY, /* waits for its turn when too many were sent, and for an API server that was
                      not found */
    KUBE_URGENT,   /* never waits: a renewal, a confirming read, what makes a lease that is gone, a
                      claim that the kubelet asks for; its sender keeps a pace of its own */
    KUBE_PRIORITIES
};

/* Why no whole answer came. */
enum kube_transport_error {
    KUBE_TRANSPORT_OK,      /* one came, whatever it says */
    KUBE_TRANSPORT_TIMEOUT, /* not within the deadline, whatever it was that took so long */
    KUBE_TRANSPORT_RESOLVE, /* the name of the server, or of the proxy */
    KUBE_TRANSPORT_CONNECT, /* refused, or no way there */
    KUBE_TRANSPORT_TLS,     /* no handshake: a certificate, a key, a protocol version */
    KUBE_TRANSPORT_OTHER,   /* the connection broke off, or anything else */
};

struct kube_request {
    enum kube_method method;
    enum kube_channel channel;
    enum kube_priority priority;
    const char *path;     /* "/apis/coordination.k8s.io/v1/..."; query included; copied */
    const json_t *body;   /* NULL for GET and DELETE; borrowed, serialised at once */
    const char *text;     /* of a body, in place of that; NULL: none; copied */
    uint32_t deadline_ms; /* from when it is sent, connecting included; of a stream until its head
                             is whole; 0: 5000, longer after time-outs: kube/kube_core.h */
    bool is_repeatable;   /* a write that may be sent twice: a condition lets it take effect once */
    uint64_t least_version; /* not 0: the newest resourceVersion that its owner knows of. A server
                               whose answer shows an older one lags */
    bool is_raw; /* an answer may be large, as a tenant likes: no tree is made of it (`raw`) */
    /* NULL, or asked of a 2xx answer: its owner can use it as it stands, since it is like one that
     * it has had, and no tree is made of it. Looks only; `user` is the call's. */
    bool (*knows)(const void *user, const char *text, size_t len);

    /* Not 0: its owner waits so long. It is told of a time-out then and may ask anew, while this
     * request goes on as `*late`: a name server or an API server that is slow answers it in the
     * end, where a new request would be no faster. At most one goes on. A newer one that is not
     * answered in time either is given up. A newer one that is answered ends the late one. */
    uint32_t awaited_ms;
    struct kube_call **late; /* the owner's; NULL while none goes on */

    /* NULL, or it makes the request a stream: the server has accepted it, or more has come. Takes
     * what it can use out of the inbox. The response to one that was accepted has no `body`, and a
     * `message` only if it broke off: why. */
    void (*on_bytes)(void *user, struct buf *inbox);
    size_t max_bytes; /* of a stream, held at a time: the rest waits */
    bool must_last;   /* one before it did not: its server is sick if it ends within
                         KUBE_SHORT_STREAM_NS */
};

struct kube_response {
    int code;                                  /* 0 for 2xx, else enum err_code: what to do */
    int http_status;                           /* 0 if there was no answer */
    bool is_json;                              /* by its content type */
    enum kube_outcome outcome;                 /* whether it is evidence */
    enum kube_transport_error transport_error; /* of a request; a watch does not tell */
    bool is_late;                              /* its owner was told of a time-out before */
    char reason[KUBE_REASON_BYTES];   /* Status.reason ("Conflict", "AlreadyExists"...), or "" */
    char message[KUBE_MESSAGE_BYTES]; /* what failed, for people; "" on success */
    int64_t retry_after_ns;           /* from Retry-After; 0: none */
    json_t *body;                     /* parsed, or NULL. The callback may change it, and keep it by
                                         json_incref(): nobody else looks at it afterwards */
    const char *raw; /* of a raw request that was answered, or one whose owner may know the answer:
                        unchecked bytes; borrowed */
    size_t raw_len;
    bool has_server_date;
    struct wall server_date;   /* the answer's Date, resolution 1 s */
    struct wall received_wall; /* our clock when it came: skew = server_date - this */
    struct mono sent_at;       /* before the first byte went out: evidence counts from here */
    struct mono received_at;
};

/* The API server says that there is no such object: a 404 without that is a proxy's, or of an API
 * that is not served. */
bool kube_is_not_found(const struct kube_response *response);

/* A right is missing: 403, or 422 where the API server checks it for a field of the object, such as
 * a claim's devices (Kubernetes 1.36 and newer). */
bool kube_is_denied(const struct kube_response *response);

/* No connection came about: nobody was asked. */
bool kube_is_unreachable(const struct kube_response *response);

/* The object of this name in a list, borrowed; NULL: it is not there. A server may ignore a
 * selector, and list others, too. */
json_t *kube_list_find(const json_t *list, const char *name);

/* Called once per request unless it is cancelled; the call is gone by then. Called once more for a
 * late one, if it is answered. Bytes are collected
 * while curl runs and handed on after it has returned, so that this and on_bytes() may start and
 * cancel calls, their own included; they must not free the client. */
typedef void kube_done_fn(void *user, const struct kube_response *response);

/* Takes `conf` (moved, also on failure). Reads the credentials once, so that a missing file is an
 * error at start. Errors: ERR_IO, ERR_LIMIT, ERR_PARSE. */
NODISCARD int kube_client_new(struct ev_loop *loop, struct kube_conf *conf,
                              struct kube_client **out, struct err *e);
/* The same from a kubeconfig, NULL or "": from within the pod. */
NODISCARD int kube_client_connect(struct ev_loop *loop, const char *kubeconfig,
                                  struct kube_client **out, struct err *e);
/* Cancels what is under way. Accepts NULL. */
void kube_client_free(struct kube_client *client);

/* Starts a request, or lets it wait for its turn, in the order of arrival: an owner has one that
 * may wait at a time. The call is valid until its callback starts, which is never before this
 * returns. */
struct kube_call *kube_client_start(struct kube_client *client, const struct kube_request *request,
                                    kube_done_fn *done, void *user);
/* Ends a request without its callback. Accepts NULL. */
void kube_call_cancel(struct kube_call *call);

struct ev_loop *kube_client_loop(const struct kube_client *client);

/* ---- queries ---- */

/* The client's counters; borrowed. */
const struct kube_metrics *kube_client_metrics(const struct kube_client *client);

/* Why a file of the credential is not usable, so that the last good one is in force; NULL: all is
 * well. Borrowed until the next request. */
const char *kube_client_problem(const struct kube_client *client);

/* "kubeconfig '/etc/...' at https://...": for messages. Borrowed from the client. */
const char *kube_client_describe(const struct kube_client *client);

#endif
