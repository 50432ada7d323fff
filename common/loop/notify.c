/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/notify.h"

#include "base/text.h"
#include "base/time.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* sd_watchdog_enabled(3) advises half; with four, one look at a bad moment ends nothing. */
enum { FEEDS_PER_PERIOD = 4 };

void notify_init(struct notify *n, const char *socket_name)
{
    *n = (struct notify){.fd = -1, .address = {.sun_family = AF_UNIX}};
    size_t len = socket_name ? strlen(socket_name) : 0;
    bool is_known = len > 1 && (socket_name[0] == '/' || socket_name[0] == '@');
    if (!is_known || len >= sizeof(n->address.sun_path)) {
        return;
    }
    memcpy(n->address.sun_path, socket_name, len);
    if (socket_name[0] == '@') {
        n->address.sun_path[0] = '\0';
    }
    n->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void notify_fini(struct notify *n)
{
    if (n->fd >= 0) {
        (void)close(n->fd); /* a datagram socket holds nothing back */
    }
    n->fd = -1;
}

void notify_send(const struct notify *n, const char *text)
{
    if (n->fd < 0) {
        return;
    }
    ssize_t sent = sendto(n->fd, text, strlen(text), MSG_NOSIGNAL,
                          (const struct sockaddr *)&n->address, n->address_len);
    (void)sent; /* see the header: nobody may stop because the manager does not listen */
}

int64_t notify_watchdog_ns(const char *usec_text, const char *pid_text, pid_t pid)
{
    uint64_t usec = 0;
    uint64_t for_pid = 0;
    if (!usec_text || text_to_u64(usec_text, strlen(usec_text), &usec, NULL) != 0 ||
        usec > (uint64_t)(INT64_MAX / 1000)) {
        return 0;
    }
    if (pid_text && (text_to_u64(pid_text, strlen(pid_text), &for_pid, NULL) != 0 ||
                     for_pid != (uint64_t)pid)) {
        return 0;
    }
    return (int64_t)usec * 1000 / FEEDS_PER_PERIOD;
}
