/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_http.h"

#include "base/buf.h"
#include "base/text.h"
#include "probe/http_status.h"
#include "probe/probe_spec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_MAX_BYTES = 2048, DEFAULT_PORT = 80 };

struct http_probe {
    struct ev_loop *loop; /* borrowed */
    probe_done_fn *done;
    void *user;
    struct sockaddr_storage address;
    socklen_t address_len;
    struct buf request;
    size_t sent;
    char answer[HTTP_STATUS_LINE_MAX_BYTES];
    size_t answer_len;
    ev_io ready; /* fd -1: no run */
};

/* ---- the URL -------------------------------------------------------------------------------- */

static int set_address(struct http_probe *p, const char *host, uint16_t port, struct err *e)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&p->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&p->address;
    if (text_equal(host, "localhost")) {
        host = "127.0.0.1";
    }
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        p->address_len = sizeof(*v4);
        return 0;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        p->address_len = sizeof(*v6);
        return 0;
    }
    return err_set(e, ERR_PARSE, "host '%s' is neither an IP address nor 'localhost'", host);
}

static int parse_port(const char *text, size_t len, uint16_t *out, struct err *e)
{
    uint64_t port;
    if (text_to_u64(text, len, &port, NULL) != 0 || port < 1 || port > UINT16_MAX) {
        return err_set(e, ERR_PARSE, "port '%.*s' is not between 1 and 65535", (int)len, text);
    }
    *out = (uint16_t)port;
    return 0;
}

/* "HOST[:PORT]" or "[HOST6][:PORT]" */
static int parse_authority(struct http_probe *p, const char *text, size_t len, struct err *e)
{
    char host[64];
    bool bracketed = len > 0 && text[0] == '[';
    const char *end = memchr(text, bracketed ? ']' : ':', len);
    size_t host_at = bracketed ? 1 : 0;
    size_t host_len = (end ? (size_t)(end - text) : len) - host_at;
    const char *rest = text + host_at + host_len + (bracketed ? 1 : 0);
    uint16_t port = DEFAULT_PORT;
    if ((bracketed && !end) || host_len == 0 || host_len >= sizeof(host)) {
        return err_set(e, ERR_PARSE, "'%.*s' is not HOST:PORT", (int)len, text);
    }
    memcpy(host, text + host_at, host_len);
    host[host_len] = '\0';
    size_t rest_len = len - (size_t)(rest - text);
    if (rest_len > 0) {
        if (rest[0] != ':') {
            return err_set(e, ERR_PARSE, "'%.*s' is not HOST:PORT", (int)len, text);
        }
        int rc = parse_port(rest + 1, rest_len - 1, &port, e);
        if (rc != 0) {
            return rc;
        }
    }
    return set_address(p, host, port, e);
}

static int parse_target(struct http_probe *p, const char *target, struct err *e)
{
    size_t authority_len = strcspn(target, "/?#");
    const char *path = target + authority_len;
    for (const char *c = target; *c; c++) {
        if (*c <= ' ' || *c == 0x7f) {
            return err_set(e, ERR_PARSE, "a URL holds no blanks or control characters");
        }
    }
    int rc = parse_authority(p, target, authority_len, e);
    if (rc != 0) {
        return rc;
    }
    return buf_appendf(&p->request, e,
                       "GET %s%.*s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: dpu-agent\r\n"
                       "Accept: */*\r\nConnection: close\r\n\r\n",
                       path[0] == '/' ? "" : "/", (int)strcspn(path, "#"), path, (int)authority_len,
                       target);
}

/* ---- run ------------------------------------------------------------------------------------ */

static void stop(struct http_probe *p)
{
    if (p->ready.fd >= 0) {
        ev_io_stop(p->loop, &p->ready);
        (void)close(p->ready.fd); /* nothing more is wanted of it */
        ev_io_set(&p->ready, -1, EV_WRITE);
    }
}

static void finish(struct http_probe *p, const char *failure)
{
    stop(p);
    p->done(p->user, failure ? PROBE_WRONG : PROBE_PASSED, failure); /* may start the next run */
}

static void fail(struct http_probe *p, const char *what, int sys_errno)
{
    char failure[160];
    const char *why = strerrordesc_np(sys_errno);
    text_format(failure, sizeof(failure), "%s: %s", what, why ? why : "unknown error");
    finish(p, failure);
}

static void judge(struct http_probe *p, int status)
{
    char failure[32];
    if (status >= 200 && status < 300) {
        finish(p, NULL);
        return;
    }
    text_format(failure, sizeof(failure), "HTTP status %d", status);
    finish(p, failure);
}

static void receive(struct http_probe *p)
{
    int status;
    ssize_t got =
        recv(p->ready.fd, p->answer + p->answer_len, sizeof(p->answer) - p->answer_len, 0);
    if (got < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            fail(p, "cannot read the answer", errno);
        }
        return;
    }
    p->answer_len += (size_t)got;
    switch (http_status_parse(p->answer, p->answer_len, &status)) {
    case HTTP_STATUS_DONE:
        judge(p, status);
        return;
    case HTTP_STATUS_INVALID:
        finish(p, "what answers is not HTTP/1");
        return;
    case HTTP_STATUS_MORE:
        if (got == 0) {
            finish(p, "the connection ended without an answer");
        }
        return;
    }
}

static void transmit(struct http_probe *p)
{
    ssize_t sent =
        send(p->ready.fd, p->request.data + p->sent, p->request.len - p->sent, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            fail(p, p->sent == 0 ? "cannot connect" : "cannot send", errno);
        }
        return;
    }
    p->sent += (size_t)sent;
    if (p->sent == p->request.len) {
        int fd = p->ready.fd;
        ev_io_stop(p->loop, &p->ready);
        ev_io_set(&p->ready, fd, EV_READ);
        ev_io_start(p->loop, &p->ready);
    }
}

static void on_ready(struct ev_loop *loop, ev_io *w, int revents)
{
    (void)loop;
    (void)revents;
    struct http_probe *p = w->data;
    if (p->sent < p->request.len) {
        transmit(p);
    } else {
        receive(p);
    }
}

static void start(void *self)
{
    struct http_probe *p = self;
    int fd = socket(p->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    p->sent = 0;
    p->answer_len = 0;
    if (fd < 0) {
        fail(p, "cannot make a socket", errno);
        return;
    }
    ev_io_set(&p->ready, fd, EV_WRITE);
    if (connect(fd, (const struct sockaddr *)&p->address, p->address_len) != 0 &&
        errno != EINPROGRESS) {
        fail(p, "cannot connect", errno);
        return;
    }
    ev_io_start(p->loop, &p->ready);
}

static const char *cancel(void *self)
{
    stop(self);
    return NULL;
}

static void destroy(void *self)
{
    struct http_probe *p = self;
    if (p) {
        stop(p);
        buf_fini(&p->request);
        free(p);
    }
}

static int create(struct ev_loop *loop, const struct probe_spec *spec, probe_done_fn *done,
                  void *user, void **out, struct err *e)
{
    struct http_probe *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_no_memory(e);
    }
    p->loop = loop;
    p->done = done;
    p->user = user;
    buf_init(&p->request, REQUEST_MAX_BYTES);
    ev_io_init(&p->ready, on_ready, -1, EV_WRITE);
    p->ready.data = p;
    int rc = parse_target(p, spec->target, e);
    if (rc == ERR_PARSE &&
        strchr(spec->target, '@')) { /* none of it is shown: it may be a password */
        rc = err_set(e, ERR_PARSE,
                     "it is not HOST[:PORT][/PATH]; a user and a password are not "
                     "supported");
    }
    if (rc != 0) {
        destroy(p);
        return rc;
    }
    *out = p;
    return 0;
}

const struct probe_method *probe_http_method(void)
{
    static const struct probe_method method = {
        .create = create, .start = start, .cancel = cancel, .destroy = destroy};
    return &method;
}
