/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_socket.h"

#include "base/mem.h"
#include "base/text.h"
#include "probe/probe_spec.h"
#include "probe/unix_connect.h"

#include <stdlib.h>

struct socket_probe {
    char path[UNIX_CONNECT_PATH_BYTES];
    probe_done_fn *done;
    void *user;
};

static int create(struct ev_loop *loop, const struct probe_spec *spec, probe_done_fn *done,
                  void *user, void **out, struct err *e)
{
    (void)loop;
    if (spec->target[0] != '/') {
        return err_set(e, ERR_PARSE, "the path of a socket has to begin with '/'");
    }
    struct socket_probe *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_no_memory(e);
    }
    if (!text_copy(p->path, sizeof(p->path), spec->target)) {
        free(p);
        return err_set(e, ERR_PARSE, "the path of a socket has at most %zu bytes",
                       sizeof(p->path) - 1);
    }
    p->done = done;
    p->user = user;
    *out = p;
    return 0;
}

/* A connect to a unix socket succeeds or fails at once; there is nothing to wait for. */
static void start(void *self)
{
    struct socket_probe *p = self;
    char words[PROBE_WORDS_BYTES] = "";
    CLEANUP(fd) int fd = -1;
    enum probe_outcome outcome = unix_connect(p->path, &fd, words);
    p->done(p->user, outcome, words);
}

static const char *cancel(void *self)
{
    (void)self; /* no run outlives its start */
    return NULL;
}

const struct probe_method *probe_socket_method(void)
{
    static const struct probe_method method = {
        .create = create, .start = start, .cancel = cancel, .destroy = free};
    return &method;
}
