/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/reply.h"

#include "base/clock.h"
#include "standin/need.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>
#include <time.h>

enum { WATCH_BLOCK_BYTES = 64 << 10 };

/* A body that is sent slowly or not to its end. */
struct drip {
    struct standin *standin;
    const struct standin_conn *conn;
    char *text; /* owned */
    size_t len;
    size_t stop_at;
    int64_t byte_ms;
};

static ssize_t drip_read(void *user, uint64_t pos, char *out, size_t max)
{
    const struct drip *d = user;
    if (pos >= d->len) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (pos >= d->stop_at) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t count = d->stop_at - (size_t)pos;
    if (d->byte_ms > 0) {
        count = 1;
        standin_lock(d->standin);
        bool open = standin_sleep(d->standin, d->conn, d->byte_ms);
        standin_unlock(d->standin);
        if (!open) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
    }
    count = count < max ? count : max;
    memcpy(out, d->text + pos, count);
    return (ssize_t)count;
}

static void drip_free(void *user)
{
    struct drip *d = user;
    free(d->text);
    free(d);
}

static void add_date(struct standin *s, struct MHD_Response *response)
{
    char text[64];
    struct tm parts;
    standin_lock(s);
    time_t now = (time_t)(clock_wall_now().ns / NS_PER_SEC + s->date_offset_s);
    standin_unlock(s);
    (void)strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_DATE, text);
}

static enum MHD_Result queue(struct standin *s, struct MHD_Connection *connection, int code,
                             const char *content_type, struct MHD_Response *response)
{
    need(response);
    add_date(s, response);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    (void)MHD_add_response_header(response, "Cache-Control", "no-cache, private");
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)code, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result reply_text(struct standin *s, struct MHD_Connection *connection,
                           const struct standin_conn *conn, const struct reply *reply, char *text)
{
    size_t len = strlen(text);
    struct MHD_Response *response;
    if (reply->cut_bytes < 0 && reply->byte_ms <= 0) {
        response = MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    } else {
        struct drip *d = need(calloc(1, sizeof(*d)));
        size_t stop_at = reply->cut_bytes >= 0 ? (size_t)reply->cut_bytes : len;
        *d = (struct drip){.standin = s,
                           .conn = conn,
                           .text = text,
                           .len = len,
                           .stop_at = stop_at < len ? stop_at : len,
                           .byte_ms = reply->byte_ms};
        response = MHD_create_response_from_callback(len, 4096, &drip_read, d, &drip_free);
    }
    need(response);
    if (reply->retry_after_s >= 0) {
        char seconds[16];
        (void)snprintf(seconds, sizeof(seconds), "%d", reply->retry_after_s);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    return queue(s, connection, reply->code, reply->content_type, response);
}

enum MHD_Result reply_watch(struct standin *s, struct MHD_Connection *connection,
                            struct watch *watch)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, WATCH_BLOCK_BYTES, &watch_read, watch, &watch_close);
    return queue(s, connection, 200, "application/json", response);
}

bool reply_client_name(struct MHD_Connection *connection, char *out, size_t out_bytes)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (!info || !info->tls_session) {
        return false;
    }
    unsigned status = 1;
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(info->tls_session, &count);
    if (!chain || count == 0 || gnutls_certificate_verify_peers2(info->tls_session, &status) != 0 ||
        status != 0) {
        return false;
    }
    gnutls_x509_crt_t cert;
    if (gnutls_x509_crt_init(&cert) != 0) {
        return false;
    }
    bool named = gnutls_x509_crt_import(cert, &chain[0], GNUTLS_X509_FMT_DER) == 0 &&
                 gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, 0, out,
                                               &out_bytes) == 0;
    gnutls_x509_crt_deinit(cert);
    return named;
}
