/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/change_watch.h"

#include <errno.h>
#include <ev.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MESSAGES_PER_TURN = 64, /* the rest comes with the loop's next turn */
    KERNEL_UEVENTS = 1,     /* multicast group; what udev makes of them is another */
};

struct change_watch {
    struct ev_loop *loop; /* borrowed */
    ev_io readable;
    change_fn *changed;
    void *user;
};

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct change_watch *watch = io->data;
    char ignored[1];
    (void)loop;
    (void)revents;
    for (int i = 0; i < MESSAGES_PER_TURN; i++) {
        if (recv(io->fd, ignored, sizeof(ignored), MSG_DONTWAIT) < 0 && errno != ENOBUFS) {
            break; /* none is left; ENOBUFS: some are lost, which is a change, too */
        }
    }
    watch->changed(watch->user);
}

static int open_socket(enum change_kind kind, struct err *e)
{
    bool is_link = kind == CHANGE_LINK;
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK,
                                        .nl_groups = is_link ? RTMGRP_LINK : KERNEL_UEVENTS};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    is_link ? NETLINK_ROUTE : NETLINK_KOBJECT_UEVENT);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
        return fd;
    }
    int rc = err_set_errno(e, ERR_IO, errno, "listening for changes of %s over netlink",
                           is_link ? "network interfaces" : "devices");
    if (fd >= 0) {
        (void)close(fd); /* never used */
    }
    return rc;
}

int change_watch_new(struct ev_loop *loop, enum change_kind kind, change_fn *changed, void *user,
                     struct change_watch **out, struct err *e)
{
    int fd = open_socket(kind, e);
    if (fd < 0) {
        return fd;
    }
    struct change_watch *watch = calloc(1, sizeof(*watch));
    if (!watch) {
        (void)close(fd); /* never used */
        return err_no_memory(e);
    }
    watch->loop = loop;
    watch->changed = changed;
    watch->user = user;
    ev_io_init(&watch->readable, on_readable, fd, EV_READ);
    watch->readable.data = watch;
    ev_io_start(loop, &watch->readable);
    *out = watch;
    return 0;
}

void change_watch_free(struct change_watch *watch)
{
    if (watch) {
        ev_io_stop(watch->loop, &watch->readable);
        (void)close(watch->readable.fd); /* only read from */
        free(watch);
    }
}
