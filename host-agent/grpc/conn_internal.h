/* SPDX-License-Identifier: Apache-2.0 */
/* What conn.c (session), request.c (asking) and call.c (answering) share. For these only. */
#ifndef GRPC_CONN_INTERNAL_H
#define GRPC_CONN_INTERNAL_H

#include "base/mem.h"
#include "host-agent/grpc/conn.h"

#include <nghttp2/nghttp2.h>

enum { GRPC_PATH_BYTES = 256 };

enum call_phase {
    CALL_RECEIVING, /* its request is not complete */
    CALL_HANDLING,  /* the handler has it */
    CALL_ANSWERED,  /* the status is decided; the rest is transport */
};

struct grpc_call {
    struct grpc_conn *conn; /* borrowed */
    struct grpc_call *prev; /* in conn->calls */
    struct grpc_call *next;
    int32_t stream_id;
    uint64_t number; /* 0: they are not counted */
    struct mono begun;
    enum call_phase phase;
    struct mono deadline;

    /* The request. Of the headers only what has to be judged is kept. */
    const struct grpc_method *method; /* borrowed; NULL if not found */
    char path[GRPC_PATH_BYTES];
    bool is_post;
    bool is_grpc; /* content-type */
    bool has_bad_timeout;
    int64_t timeout_ns;       /* -1: none given */
    bool request_is_complete; /* END_STREAM was seen */
    bool has_message;
    struct grpc_deframer deframer;
    struct buf request;

    /* The answer: `sending` is in flight, `pending` replaces it when it is out. Both with prefix.
     */
    bool has_headers; /* response headers were submitted */
    struct buf sending;
    size_t sent_bytes;
    struct buf pending;
    bool has_pending;
    enum grpc_status status; /* once CALL_ANSWERED */
    char status_message[GRPC_MESSAGE_MAX_BYTES];

    grpc_cancel_fn *on_cancel;
    void *cancel_user;
};

struct grpc_conn {
    struct grpc_conn_config config;
    nghttp2_session *session;       /* owned */
    struct grpc_call *calls;        /* owned list */
    size_t request_bytes;           /* held in all calls' request buffers */
    struct mono now;                /* of the recv or tick under way */
    struct mono handshake_deadline; /* MONO_NEVER once the peer's SETTINGS came */
    const uint8_t *out_bytes; /* unwritten rest of nghttp2's output; borrowed from the session */
    size_t out_len;
};

/* ---- request.c ---- */

/* Fills `callbacks` with all that turns frames into calls. */
void request_set_callbacks(nghttp2_session_callbacks *callbacks);
/* Answers a call whose request will not be read to its end. */
void call_fail_receiving(struct grpc_call *call, enum grpc_status status, const char *text);
/* Takes it off the connection; tells the handler if it still has it. */
void call_free(struct grpc_call *call);

/* ---- call.c ---- */

/* Sends what has been decided about a call outside its handler: HTTP status and trailers only. */
void call_refuse(struct grpc_call *call, const char *http_status, enum grpc_status status,
                 const char *text);
/* Starts the response of a streaming call: headers at once, data as it comes. */
void call_open_stream(struct grpc_call *call);
/* Tells the handler that its call is over, if it still has it. */
void call_cancel(struct grpc_call *call);
/* Tells the connection's owner how the call ended. */
void call_tell_end(const struct grpc_call *call, enum grpc_status status);

#endif
