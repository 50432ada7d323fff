/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/grpc_unary.h"

#include "base/text.h"
#include "base/time.h"
#include "loop/curl_loop.h"
#include "loop/curl_version.h"

#include <ev.h>

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { STATUS_BYTES = 16 }; /* of a number below 100, with room for what is none */

/* ---- messages -------------------------------------------------------------------------------- */

const char *grpc_status_name(int status)
{
    static const char *const names[] = {
        [GRPC_OK] = "OK",
        [GRPC_CANCELLED] = "CANCELLED",
        [GRPC_UNKNOWN] = "UNKNOWN",
        [GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
        [GRPC_NOT_FOUND] = "NOT_FOUND",
        [GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
        [GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
        [GRPC_INTERNAL] = "INTERNAL",
        [GRPC_UNAVAILABLE] = "UNAVAILABLE",
    };
    bool is_known = status >= 0 && status < (int)ARRAY_LEN(names) && names[status];
    return is_known ? names[status] : "CODE";
}

enum grpc_framing grpc_first_message(const struct buf *in, size_t max_bytes, struct grpc_slice *out)
{
    const uint8_t *b = (const uint8_t *)buf_text(in);
    if (in->len > 0 && b[0] != 0) {
        return b[0] == 1 ? GRPC_COMPRESSED : GRPC_BAD_FLAG;
    }
    if (in->len < GRPC_PREFIX_BYTES) {
        return GRPC_PARTIAL;
    }
    size_t len = (size_t)b[1] << 24 | (size_t)b[2] << 16 | (size_t)b[3] << 8 | (size_t)b[4];
    if (len > max_bytes) {
        return GRPC_TOO_LARGE;
    }
    if (in->len - GRPC_PREFIX_BYTES < len) {
        return GRPC_PARTIAL;
    }
    *out = (struct grpc_slice){.bytes = b + GRPC_PREFIX_BYTES, .len = len};
    return GRPC_WHOLE;
}

int grpc_put_message(struct buf *out, const void *message, size_t len, struct err *e)
{
    const uint8_t prefix[GRPC_PREFIX_BYTES] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                               (uint8_t)(len >> 8), (uint8_t)len};
    int rc = buf_append(out, prefix, sizeof(prefix), e);
    return rc == 0 ? buf_append(out, message, len, e) : rc;
}

/* ---- what the server says -------------------------------------------------------------------- */

struct grpc_unary {
    struct grpc_unary_plan plan;
    struct ev_loop *loop;
    struct curl_loop *curl;
    CURL *easy;
    struct curl_slist *headers;
    ev_timer end; /* from the loop, once curl is off the stack */
    CURLcode code;
    struct buf head;    /* and trailers */
    struct buf request; /* with prefix */
    struct buf answer;  /* with prefixes; of a stream what is not told yet */
};

/* In the trailers, or in the headers of an answer that has no more. -1: none came. */
static int status_said(const struct grpc_unary *u)
{
    char text[STATUS_BYTES];
    int64_t status;
    bool is_one = curl_head_find(&u->head, "grpc-status", text, sizeof(text)) &&
                  text_to_i64(text, strlen(text), &status, NULL) == 0 && status >= 0 &&
                  status < 100;
    return is_one ? (int)status : -1;
}

static void text_said(const struct grpc_unary *u, char out[static GRPC_UNARY_TEXT_BYTES])
{
    char text[3 * GRPC_UNARY_TEXT_BYTES]; /* each byte may be percent-encoded */
    int len = 0;
    (void)curl_head_find(&u->head, "grpc-message", text, sizeof(text)); /* "" if there is none */
    char *decoded = curl_easy_unescape(NULL, text, 0, &len);
    text_sanitize(out, GRPC_UNARY_TEXT_BYTES, decoded, (size_t)len);
    curl_free(decoded);
}

static enum grpc_framing first_answer(const struct grpc_unary *u, struct grpc_slice *out)
{
    return grpc_first_message(&u->answer, GRPC_UNARY_REPLY_MAX_BYTES, out);
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct grpc_unary *u = user;
    return curl_head_add(&u->head, line, size * count) ? size * count : CURL_WRITEFUNC_ERROR;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct grpc_unary *u = user;
    struct grpc_slice message;
    enum grpc_framing framing;
    if (buf_append(&u->answer, bytes, size * count, NULL) != 0) {
        return CURL_WRITEFUNC_ERROR;
    }
    while ((framing = first_answer(u, &message)) == GRPC_WHOLE && u->plan.on_message) {
        u->plan.on_message(u->plan.user, message.bytes, message.len);
        buf_consume(&u->answer, GRPC_PREFIX_BYTES + message.len);
    }
    return framing == GRPC_WHOLE || framing == GRPC_PARTIAL ? size * count : CURL_WRITEFUNC_ERROR;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* There is no answer of gRPC's: the server itself is the trouble. */
static int transport_error(const struct grpc_unary *u, struct err *e)
{
    long sys_errno = 0;
    const char *path = u->plan.path;
    if (u->code == CURLE_OPERATION_TIMEDOUT) {
        return err_set_errno(e, ERR_RETRY, ETIMEDOUT, "%s: waiting for '%s'", u->plan.method, path);
    }
    if (u->code == CURLE_COULDNT_CONNECT) {
        (void)curl_easy_getinfo(u->easy, CURLINFO_OS_ERRNO, &sys_errno); /* 0: it cannot tell */
        return err_set_errno(e, sys_errno == ENOENT ? ERR_NOTFOUND : ERR_RETRY,
                             sys_errno != 0 ? (int)sys_errno : EAGAIN, "connecting to '%s'", path);
    }
    return err_set_errno(e, ERR_RETRY, ECONNRESET, "talking to '%s': %s", path,
                         curl_easy_strerror(u->code));
}

/* How the call ended; a stream has no message left. */
static int call_outcome(const struct grpc_unary *u, struct grpc_slice *out, struct err *e)
{
    char said[GRPC_UNARY_TEXT_BYTES];
    const char *text = said;
    int status = status_said(u);
    text_said(u, said);
    if (u->code == CURLE_WRITE_ERROR) {
        status = GRPC_INTERNAL;
        text = "the answer is compressed, malformed or too large";
    } else if (status < 0 && u->code == CURLE_HTTP2_STREAM) {
        status = GRPC_UNAVAILABLE;
        text = "the server reset the stream";
    } else if (status < 0 && u->code == CURLE_OK) {
        status = GRPC_INTERNAL;
        text = "the stream ended without a status";
    }
    if (status < 0) {
        return transport_error(u, e);
    }
    if (status != GRPC_OK) {
        return err_set(e, status == GRPC_NOT_FOUND ? ERR_GONE : ERR_RETRY, "%s: %s: %s",
                       u->plan.method, grpc_status_name(status), text);
    }
    bool is_one =
        first_answer(u, out) == GRPC_WHOLE && u->answer.len == GRPC_PREFIX_BYTES + out->len;
    return u->plan.on_message || is_one
               ? 0
               : err_set(e, ERR_PARSE, "%s: the answer is not one message", u->plan.method);
}

static void on_ended(void *user, CURL *easy, CURLcode code)
{
    struct grpc_unary *u = user;
    u->code = code;
    ev_timer_start(u->loop, &u->end);
}

static void on_end(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct grpc_unary *u = timer->data;
    struct grpc_slice message = {.bytes = (const uint8_t *)"", .len = 0};
    struct err e = ERR_INIT;
    int rc = call_outcome(u, &message, &e);
    u->plan.done(u->plan.user, message.bytes, message.len, rc != 0 ? &e : NULL);
    grpc_unary_cancel(u);
}

/* ---- the call -------------------------------------------------------------------------------- */

static CURL *easy_new(struct grpc_unary *u)
{
    static const char *const headers[] = {"te: trailers", "content-type: application/grpc"};
    int64_t timeout_ms = u->plan.timeout_ns / NS_PER_MS;
    char *url = mem_format("http://localhost%s", u->plan.method);
    CURL *easy = curl_easy_init();
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        u->headers = curl_slist_append(u->headers, headers[i]);
    }
    /* None of these fails but for lack of memory, and that ends the process. */
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, u->plan.path);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, u->headers);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "dpu-heartbeat/" DPU_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, buf_text(&u->request));
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)u->request.len);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, u);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, u);
    if (u->plan.timeout_ns != INT64_MAX) {
        (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(timeout_ms > 0 ? timeout_ms : 1));
    }
    free(url);
    return easy;
}

struct grpc_unary *grpc_unary_start(struct ev_loop *loop, const struct grpc_unary_plan *plan)
{
    struct grpc_unary *u = MEM_NEW(struct grpc_unary);
    u->plan = *plan;
    u->loop = loop;
    u->request = (struct buf){.max_bytes = GRPC_PREFIX_BYTES + plan->message.len};
    u->answer = (struct buf){.max_bytes = GRPC_PREFIX_BYTES + GRPC_UNARY_REPLY_MAX_BYTES};
    int rc = grpc_put_message(&u->request, plan->message.bytes, plan->message.len, NULL);
    assert(rc == 0); /* it fits */
    ev_timer_init(&u->end, on_end, 0., 0.);
    u->end.data = u;
    u->curl = curl_loop_new(loop, &(struct curl_loop_config){.ended = on_ended, .user = u});
    u->easy = easy_new(u);
    curl_loop_add(u->curl, u->easy);
    return u;
}

void grpc_unary_cancel(struct grpc_unary *u)
{
    if (u) {
        ev_timer_stop(u->loop, &u->end);
        curl_loop_remove(u->curl, u->easy);
        curl_easy_cleanup(u->easy);
        curl_loop_free(u->curl);
        curl_slist_free_all(u->headers);
        buf_fini(&u->head);
        buf_fini(&u->request);
        buf_fini(&u->answer);
        free(u);
    }
}

/* ---- for a command --------------------------------------------------------------------------- */

struct asking {
    struct ev_loop *loop;
    struct buf *answer;
    struct grpc_unary *call; /* NULL: over */
    struct err *e;
    int rc;
};

static void on_answer(void *user, const uint8_t *message, size_t len, const struct err *why)
{
    struct asking *a = user;
    a->call = NULL;
    a->rc = why ? why->code : buf_append(a->answer, message, len, a->e);
    if (why && a->e) {
        *a->e = *why;
    }
    ev_break(a->loop, EVBREAK_ALL);
}

int grpc_unary_ask(struct ev_loop *loop, const struct grpc_unary_plan *plan, struct buf *answer,
                   struct err *e)
{
    struct asking a = {.loop = loop, .answer = answer, .e = e};
    struct grpc_unary_plan own = *plan;
    own.done = on_answer;
    own.user = &a;
    a.call = grpc_unary_start(loop, &own);
    (void)ev_run(loop, 0); /* until it is broken off: by the answer, or by somebody else */
    if (a.call) {
        grpc_unary_cancel(a.call);
        return err_set(e, ERR_GONE, "interrupted");
    }
    return a.rc;
}
