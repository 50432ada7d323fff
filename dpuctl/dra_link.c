/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/dra_link.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { READ_BYTES = 16 << 10 };

int dra_link_open(struct dra_link *l, const char *path, struct grpc_client *client, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *l = (struct dra_link){.fd = -1, .client = client};
    if (!text_copy(address.sun_path, sizeof(address.sun_path), path)) {
        dra_link_close(l);
        return err_set(e, ERR_LIMIT, "socket path '%s' has more than %zu bytes", path,
                       sizeof(address.sun_path) - 1);
    }
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || connect(l->fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        int why = errno;
        dra_link_close(l);
        return err_set_errno(e,
                             why == ENOENT         ? ERR_NOTFOUND
                             : why == ECONNREFUSED ? ERR_RETRY
                                                   : ERR_IO,
                             why, "connecting to '%s'", path);
    }
    return 0;
}

void dra_link_close(struct dra_link *l)
{
    if (l->fd >= 0) {
        (void)close(l->fd); /* nothing of ours is left to be written */
    }
    grpc_client_free(l->client);
    *l = (struct dra_link){.fd = -1};
}

static int write_all(struct dra_link *l, struct err *e)
{
    for (;;) {
        const uint8_t *bytes;
        size_t len;
        int rc = grpc_client_output(l->client, &bytes, &len, e);
        if (rc != 0 || len == 0) {
            return rc;
        }
        ssize_t sent = send(l->fd, bytes, len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return err_set_errno(e, ERR_RETRY, errno, "writing to the plugin");
        }
        grpc_client_sent(l->client, sent > 0 ? (size_t)sent : 0);
    }
}

static int read_some(struct dra_link *l, struct err *e)
{
    uint8_t bytes[READ_BYTES];
    ssize_t len = recv(l->fd, bytes, sizeof(bytes), 0);
    if (len < 0 && errno == EINTR) {
        return 0;
    }
    if (len <= 0) {
        return err_set_errno(e, ERR_RETRY, len < 0 ? errno : ECONNRESET,
                             "the plugin closed the connection");
    }
    return grpc_client_recv(l->client, bytes, (size_t)len, e);
}

/* Milliseconds to the deadline, rounded up, for poll. */
static int left_ms(struct mono deadline)
{
    int64_t ms = mono_since(deadline, clock_mono_now()) / NS_PER_MS + 1;
    return ms < 0 ? 0 : ms > INT_MAX ? INT_MAX : (int)ms;
}

int dra_link_run(struct dra_link *l, struct mono deadline, int stop_fd, struct err *e)
{
    for (;;) {
        int rc = write_all(l, e);
        if (rc != 0 || grpc_client_is_over(l->client)) {
            return rc;
        }
        struct pollfd fds[] = {{.fd = l->fd, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};
        int ready = poll(fds, 2, left_ms(deadline));
        if (ready > 0 && fds[1].revents != 0) {
            return err_set(e, ERR_GONE, "interrupted");
        }
        if (ready > 0) {
            rc = read_some(l, e);
        } else if (mono_reached(clock_mono_now(), deadline)) {
            rc = err_set_errno(e, ERR_RETRY, ETIMEDOUT, "waiting for the plugin");
        }
        if (rc != 0) {
            return rc;
        }
    }
}
