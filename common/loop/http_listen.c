/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/http_listen.h"

#include "base/mem.h"
#include "base/text.h"
#include "loop/http_address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

/* Who finds no room here is dropped, and asks again after a second: too late for a probe. The
 * kernel makes it less where net.core.somaxconn is. */
enum { BACKLOG = 4096 };

static int open_socket(const struct addrinfo *info)
{
    CLEANUP(fd) int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    int off = 0;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        (info->ai_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        return -1;
    }
    int taken = fd;
    fd = -1;
    return taken;
}

/* Returns 0, or what getaddrinfo says; `*out_fd` is -1 and errno set where it cannot be bound. */
static int listen_at(const char *host, uint16_t port, int *out_fd)
{
    char service[8];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    text_format(service, sizeof(service), "%u", (unsigned)port);
    int gai = getaddrinfo(host, service, &hints, &found);
    if (gai != 0) {
        return gai;
    }
    *out_fd = open_socket(found);
    int why = errno;
    freeaddrinfo(found);
    errno = why;
    return 0;
}

int http_listen(const char *address, int *out_fd, struct err *e)
{
    struct http_address where;
    int rc = http_address_parse(address, &where, e);
    if (rc != 0) {
        return rc;
    }
    bool all = where.host[0] == '\0';
    int fd = -1;
    int gai = listen_at(all ? "::" : where.host, where.port, &fd);
    if (all && fd < 0 && (gai != 0 || errno != EADDRINUSE)) {
        gai = listen_at("0.0.0.0", where.port, &fd); /* a machine without IPv6 */
    }
    int why = errno;
    if (gai != 0) {
        return err_set(e, ERR_PARSE, "'%s' is not an address to listen on: %s", address,
                       gai_strerror(gai));
    }
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, why, "listening on '%s'", address);
    }
    *out_fd = fd;
    return 0;
}

uint16_t http_listen_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound = {.v6 = {.sin6_family = AF_UNSPEC}};
    socklen_t len = sizeof(bound);
    if (getsockname(fd, &bound.any, &len) != 0) {
        return 0;
    }
    return ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
}
