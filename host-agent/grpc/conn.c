/* SPDX-License-Identifier: Apache-2.0 */
/* The connection itself: session, bytes, deadlines. */
#include "host-agent/grpc/conn.h"

#include "host-agent/grpc/conn_internal.h"

#include <assert.h>
#include <stdlib.h>

static int session_new(struct grpc_conn *conn)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int rc = nghttp2_session_callbacks_new(&callbacks);
    if (rc == 0) {
        rc = nghttp2_option_new(&option);
    }
    if (rc == 0) {
        request_set_callbacks(callbacks);
        /* A raw socket path as :authority is against HTTP's grammar and still a kubelet's. What
         * matters of HTTP's rules is checked in judge_headers. */
        nghttp2_option_set_no_http_messaging(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1); /* bounds memory */
        rc = nghttp2_session_server_new2(&conn->session, callbacks, conn, option);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return rc;
}

int grpc_conn_new(const struct grpc_conn_config *config, struct mono now, struct grpc_conn **out,
                  struct err *e)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADER_LIST_MAX_BYTES},
    };
    struct grpc_conn *conn = calloc(1, sizeof(*conn));
    if (!conn) {
        return err_no_memory(e);
    }
    conn->config = *config;
    conn->now = now;
    conn->handshake_deadline = mono_add(now, GRPC_HANDSHAKE_NS);
    /* SETTINGS has to be our first frame, before anything is received. */
    if (session_new(conn) != 0 || nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE,
                                                          settings, ARRAY_LEN(settings)) != 0) {
        grpc_conn_free(conn);
        return err_no_memory(e);
    }
    *out = conn;
    return 0;
}

void grpc_conn_free(struct grpc_conn *conn)
{
    if (!conn) {
        return;
    }
    while (conn->calls) {
        call_free(conn->calls);
    }
    nghttp2_session_del(conn->session);
    free(conn);
}

int grpc_conn_recv(struct grpc_conn *conn, const uint8_t *bytes, size_t len, struct mono now,
                   struct err *e)
{
    conn->now = now;
    ssize_t taken = nghttp2_session_mem_recv(conn->session, bytes, len);
    if (taken < 0) {
        int code = taken == NGHTTP2_ERR_NOMEM     ? ERR_NOMEM
                   : taken == NGHTTP2_ERR_FLOODED ? ERR_LIMIT
                                                  : ERR_PARSE;
        return err_set(e, code, "the peer broke HTTP/2: %s", nghttp2_strerror((int)taken));
    }
    if ((size_t)taken != len) {
        return err_set(e, ERR_BUG, "%zu of %zu bytes taken", (size_t)taken, len);
    }
    conn->config.wake(conn->config.user);
    return 0;
}

int grpc_conn_output(struct grpc_conn *conn, const uint8_t **out_bytes, size_t *out_len,
                     struct err *e)
{
    if (conn->out_len == 0) {
        ssize_t len = nghttp2_session_mem_send(conn->session, &conn->out_bytes);
        if (len < 0) {
            return err_set(e, ERR_NOMEM, "making HTTP/2 frames: %s", nghttp2_strerror((int)len));
        }
        conn->out_len = (size_t)len;
    }
    *out_bytes = conn->out_bytes;
    *out_len = conn->out_len;
    return 0;
}

void grpc_conn_sent(struct grpc_conn *conn, size_t count)
{
    assert(count <= conn->out_len);
    conn->out_bytes += count;
    conn->out_len -= count;
}

struct mono grpc_conn_next_deadline(const struct grpc_conn *conn)
{
    struct mono next = conn->handshake_deadline;
    for (const struct grpc_call *call = conn->calls; call; call = call->next) {
        if (call->phase != CALL_ANSWERED) {
            next = mono_min(next, call->deadline);
        }
    }
    return next;
}

int grpc_conn_tick(struct grpc_conn *conn, struct mono now, struct err *e)
{
    conn->now = now;
    for (struct grpc_call *call = conn->calls; call; call = call->next) {
        if (call->phase == CALL_ANSWERED || mono_before(now, call->deadline)) {
            continue;
        }
        if (call->phase == CALL_RECEIVING) {
            call_fail_receiving(call, GRPC_DEADLINE_EXCEEDED, "the request took too long");
        } else {
            call_cancel(call);
            grpc_call_end(call, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
        }
    }
    if (mono_reached(now, conn->handshake_deadline)) {
        return err_set(e, ERR_RETRY, "the peer did not finish its HTTP/2 handshake");
    }
    return 0;
}

void grpc_conn_shutdown(struct grpc_conn *conn)
{
    /* Out of memory: then the socket is closed at the end of the grace period anyway. */
    (void)nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(conn->session),
                                NGHTTP2_NO_ERROR, NULL, 0);
    conn->config.wake(conn->config.user);
}

bool grpc_conn_is_done(const struct grpc_conn *conn)
{
    return conn->out_len == 0 && !nghttp2_session_want_read(conn->session) &&
           !nghttp2_session_want_write(conn->session);
}

bool grpc_conn_is_serving(const struct grpc_conn *conn)
{
    const struct grpc_call *call = conn->calls;
    while (call && call->phase == CALL_RECEIVING) {
        call = call->next;
    }
    return call != NULL;
}
