/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_socket.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct socket_probe {
    struct sockaddr_un address;
    probe_done_fn *done;
    void *user;
};

static int create(struct ev_loop *loop, const char *target, probe_done_fn *done, void *user,
                  void **out, struct err *e)
{
    (void)loop;
    size_t len = strlen(target);
    struct socket_probe *p;
    if (target[0] != '/') {
        return err_set(e, ERR_PARSE, "the path of a socket has to begin with '/'");
    }
    if (len >= sizeof(p->address.sun_path)) {
        return err_set(e, ERR_PARSE, "the path of a socket has at most %zu bytes",
                       sizeof(p->address.sun_path) - 1);
    }
    p = calloc(1, sizeof(*p));
    if (!p) {
        return err_set(e, ERR_NOMEM, "out of memory for a probe");
    }
    p->address.sun_family = AF_UNIX;
    memcpy(p->address.sun_path, target, len + 1);
    p->done = done;
    p->user = user;
    *out = p;
    return 0;
}

/* A connect to a unix socket succeeds or fails at once; there is nothing to wait for. */
static void start(void *self)
{
    struct socket_probe *p = self;
    char failure[128];
    CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)&p->address, (socklen_t)sizeof(p->address)) == 0) {
        p->done(p->user, NULL);
        return;
    }
    const char *why = errno == EAGAIN ? "its backlog is full" : strerrordesc_np(errno);
    text_format(failure, sizeof(failure), "cannot connect: %s", why ? why : "unknown error");
    p->done(p->user, failure);
}

static void cancel(void *self)
{
    (void)self; /* no run outlives its start */
}

const struct probe_method *probe_socket_method(void)
{
    static const struct probe_method method = {
        .create = create, .start = start, .cancel = cancel, .destroy = free};
    return &method;
}
