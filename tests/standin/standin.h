/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole state of one stand-in API server, and waiting on it.
 *
 * libmicrohttpd runs one thread per connection, so that a handler may simply block (delay, hang,
 * watch). One lock guards everything below; `changed` is broadcast at every change. A test tool:
 * simplicity before throughput.
 */
#ifndef STANDIN_STANDIN_H
#define STANDIN_STANDIN_H

#include "standin/audit.h"
#include "standin/auth.h"
#include "standin/fault.h"
#include "standin/store.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct MHD_Connection;

/* One TCP connection of a client. */
struct standin_conn {
    uint64_t id; /* counts up from 1 */
    int fd;      /* borrowed from libmicrohttpd */
    struct standin_conn *next;
};

/* What all watches share. */
struct watch_hub {
    size_t open_count;
    json_t *injections;  /* array of specs; each watch knows how far it has got */
    bool mute_new;       /* watches opened from now on stay silent */
    bool expire_by_http; /* 410 as an HTTP status instead of an ERROR event */
};

struct standin {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    struct store store;
    struct auth auth;
    struct fault_list faults;
    struct audit audit;
    struct watch_hub hub;
    struct standin_conn *conns;
    uint64_t last_conn;    /* id given last */
    uint64_t dropped_upto; /* connections up to this id are to be closed */
    uint64_t frozen_upto;  /* ... are half-open: nothing is sent on them any more */
    json_t *disabled;      /* array of "group/version" that are not served; owned */
    int64_t date_offset_s; /* added to the Date header */
    bool stopping;
};

void standin_init(struct standin *s, uint64_t first_version);
void standin_fini(struct standin *s);

void standin_lock(struct standin *s);
void standin_unlock(struct standin *s);
void standin_changed(struct standin *s);

/* The connections open now are closed / frozen. Locked. */
void standin_drop_connections(struct standin *s);
void standin_freeze_connections(struct standin *s);
bool standin_is_frozen(const struct standin *s, const struct standin_conn *conn);

/*
 * Waits, giving up the lock, for a change or until `wait_ms` are over. Returns false if there is
 * nothing to wait for any more: the connection is dropped, the client gone, the server stopping.
 */
bool standin_wait(struct standin *s, const struct standin_conn *conn, int64_t wait_ms);

/* Waits the whole time, or for ever if `wait_ms` is negative; false as above. */
bool standin_sleep(struct standin *s, const struct standin_conn *conn, int64_t wait_ms);

/* CLOCK_MONOTONIC. */
int64_t standin_now_ms(void);

#endif
