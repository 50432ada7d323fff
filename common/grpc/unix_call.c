/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/unix_call.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { READ_BYTES = 16 << 10 };

int unix_call_connect(const char *path, int flags, int *out_fd, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!text_copy(address.sun_path, sizeof(address.sun_path), path)) {
        return err_set(e, ERR_LIMIT, "socket path '%s' has more than %zu bytes", path,
                       sizeof(address.sun_path) - 1);
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        bool is_busy = errno == ECONNREFUSED || errno == EAGAIN;
        int code = errno == ENOENT ? ERR_NOTFOUND : is_busy ? ERR_RETRY : ERR_IO;
        (void)err_set_errno(e, code, errno, "connecting to '%s'", path);
        (void)close(fd); /* nothing was written */
        return code;
    }
    *out_fd = fd;
    return 0;
}

int unix_call_open(struct unix_call *c, struct err *e)
{
    /* A server that is frozen accepts nobody once its queue is full: no wait for that. */
    int rc = unix_call_connect(c->path, SOCK_NONBLOCK, &c->fd, e);
    if (rc != 0) {
        return rc;
    }
    (void)fcntl(c->fd, F_SETFL, 0); /* a socket takes this always */
    rc = grpc_client_new(c->method, c->message.bytes, c->message.len, c->on_message, c->user,
                         &c->client, e);
    if (rc != 0) {
        (void)close(c->fd); /* nothing was written */
    }
    return rc;
}

void unix_call_close(struct unix_call *c)
{
    (void)close(c->fd); /* nothing of ours is left to be written */
    grpc_client_free(c->client);
}

static int write_all(struct unix_call *c, struct err *e)
{
    for (;;) {
        const uint8_t *bytes;
        size_t len;
        int rc = grpc_client_output(c->client, &bytes, &len, e);
        if (rc != 0 || len == 0) {
            return rc;
        }
        ssize_t sent = send(c->fd, bytes, len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return err_set_errno(e, ERR_RETRY, errno, "writing to '%s'", c->path);
        }
        grpc_client_sent(c->client, sent > 0 ? (size_t)sent : 0);
    }
}

static int read_some(struct unix_call *c, struct err *e)
{
    uint8_t bytes[READ_BYTES];
    ssize_t len = recv(c->fd, bytes, sizeof(bytes), 0);
    if (len < 0 && errno == EINTR) {
        return 0;
    }
    if (len <= 0) {
        return err_set_errno(e, ERR_RETRY, len < 0 ? errno : ECONNRESET,
                             "'%s' closed the connection", c->path);
    }
    return grpc_client_recv(c->client, bytes, (size_t)len, e);
}

/* Milliseconds to the deadline, rounded up, for poll. */
static int left_ms(struct mono deadline)
{
    int64_t ms = mono_since(deadline, clock_mono_now()) / NS_PER_MS + 1;
    return ms < 0 ? 0 : ms > INT_MAX ? INT_MAX : (int)ms;
}

int unix_call_wait(struct unix_call *c, struct mono deadline, struct err *e)
{
    for (;;) {
        int rc = write_all(c, e);
        if (rc != 0 || grpc_client_is_over(c->client)) {
            return rc;
        }
        struct pollfd fds[] = {{.fd = c->fd, .events = POLLIN},
                               {.fd = c->stop_fd, .events = POLLIN}};
        int ready = poll(fds, 2, left_ms(deadline));
        if (ready > 0 && fds[1].revents != 0) {
            return err_set(e, ERR_GONE, "interrupted");
        }
        if (ready > 0) {
            rc = read_some(c, e);
        } else if (mono_reached(clock_mono_now(), deadline)) {
            rc = err_set_errno(e, ERR_RETRY, ETIMEDOUT, "waiting for '%s'", c->path);
        }
        if (rc != 0) {
            return rc;
        }
    }
}

int unix_call_make(struct unix_call *c, int64_t timeout_ns, struct err *e)
{
    int rc = unix_call_open(c, e);
    if (rc != 0) {
        return rc;
    }
    rc = unix_call_wait(c, mono_add(clock_mono_now(), timeout_ns), e);
    int status = grpc_client_status(c->client);
    if (rc == 0 && status != GRPC_OK) {
        rc = err_set(e, status == GRPC_NOT_FOUND ? ERR_GONE : ERR_RETRY, "%s: %s: %s", c->method,
                     grpc_status_name(status), grpc_client_text(c->client));
    }
    unix_call_close(c);
    return rc;
}
