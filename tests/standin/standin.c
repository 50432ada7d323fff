/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/standin.h"

#include "standin/need.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

enum { LOOK_EVERY_MS = 100 }; /* how soon a client's hang-up is noticed by a waiting thread */

void standin_init(struct standin *s, uint64_t first_version)
{
    *s =
        (struct standin){.disabled = need(json_array()), .hub = {.injections = need(json_array())}};
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&s->lock, NULL);
    store_init(&s->store, first_version);
    auth_init(&s->auth);
    fault_init(&s->faults);
    audit_init(&s->audit);
}

void standin_fini(struct standin *s)
{
    audit_fini(&s->audit);
    fault_fini(&s->faults);
    auth_fini(&s->auth);
    store_fini(&s->store);
    json_decref(s->hub.injections);
    json_decref(s->disabled);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
}

void standin_lock(struct standin *s)
{
    (void)pthread_mutex_lock(&s->lock);
}

void standin_unlock(struct standin *s)
{
    (void)pthread_mutex_unlock(&s->lock);
}

void standin_changed(struct standin *s)
{
    (void)pthread_cond_broadcast(&s->changed);
}

void standin_drop_connections(struct standin *s)
{
    s->dropped_upto = s->last_conn;
    for (struct standin_conn *c = s->conns; c; c = c->next) {
        (void)shutdown(c->fd, SHUT_RDWR); /* idle ones as well; already closed is fine */
    }
    standin_changed(s);
}

void standin_freeze_connections(struct standin *s)
{
    s->frozen_upto = s->last_conn;
    standin_changed(s);
}

bool standin_is_frozen(const struct standin *s, const struct standin_conn *conn)
{
    return conn->id <= s->frozen_upto;
}

int64_t standin_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool client_is_gone(const struct standin_conn *conn)
{
    struct pollfd p = {.fd = conn->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

bool standin_wait(struct standin *s, const struct standin_conn *conn, int64_t wait_ms)
{
    if (wait_ms < 0 || wait_ms > LOOK_EVERY_MS) {
        wait_ms = LOOK_EVERY_MS;
    }
    int64_t until_ms = standin_now_ms() + wait_ms;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = (until_ms % 1000) * 1000000};
    (void)pthread_cond_timedwait(&s->changed, &s->lock, &until);
    return !s->stopping && conn->id > s->dropped_upto && !client_is_gone(conn);
}

bool standin_sleep(struct standin *s, const struct standin_conn *conn, int64_t wait_ms)
{
    int64_t until_ms = standin_now_ms() + wait_ms;
    while (wait_ms < 0 || standin_now_ms() < until_ms) {
        if (!standin_wait(s, conn, wait_ms < 0 ? wait_ms : until_ms - standin_now_ms())) {
            return false;
        }
    }
    return true;
}
