/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sd_notify(3)'s protocol, spoken directly: one datagram of KEY=VALUE lines to the socket named by
 * $NOTIFY_SOCKET, a path or, with a leading '@', an abstract name. Never blocks, never fails
 * loudly: a service manager that does not listen is no reason to stop.
 */
#ifndef LOOP_NOTIFY_H
#define LOOP_NOTIFY_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct notify {
    int fd; /* -1: nobody to tell */
    struct sockaddr_un address;
    socklen_t address_len;
};

/* `socket_name` is the value of $NOTIFY_SOCKET; NULL, "" or a kind we do not speak means nobody. */
void notify_init(struct notify *n, const char *socket_name);
void notify_fini(struct notify *n);

/* Sends one datagram, e.g. "READY=1\nSTATUS=...". */
void notify_send(const struct notify *n, const char *text);

/* A quarter of the watchdog period that systemd asks of process `pid`, in ns; 0: no watchdog.
 * Arguments are the values of $WATCHDOG_USEC and $WATCHDOG_PID, NULL if unset. */
int64_t notify_watchdog_ns(const char *usec_text, const char *pid_text, pid_t pid);

#endif
