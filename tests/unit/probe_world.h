/* SPDX-License-Identifier: Apache-2.0 */
/* One probe in a loop of its own, beside a directory for what it looks at. */
#ifndef TESTS_UNIT_PROBE_WORLD_H
#define TESTS_UNIT_PROBE_WORLD_H

#include "base/text.h"
#include "probe/probe_set.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/socket.h>

enum { GUARD_S = 20, PROBE_INDEX = 3, COMMAND_BYTES = SCRATCH_PATH_BYTES };

struct world {
    struct ev_loop *loop;
    char dir[SCRATCH_BYTES];
    struct probe *probe; /* or NULL */
    int runs;
    enum probe_outcome outcome; /* of the last one */
    char words[PROBE_WORDS_BYTES];
};

static inline void probe_world_init(struct world *w)
{
    *w = (struct world){.loop = ev_loop_new(0)};
    assert_non_null(w->loop);
    scratch_make(w->dir);
}

static inline void probe_world_fini(struct world *w)
{
    probe_free(w->probe);
    ev_loop_destroy(w->loop);
    (void)umount2(w->dir, MNT_DETACH); /* some tests mount there */
    scratch_remove(w->dir);
}

WORLD(probe_world_init, probe_world_fini)

static inline void probe_world_result(void *user, const struct probe_result *result)
{
    struct world *w = user;
    assert_int_equal(result->probe, PROBE_INDEX);
    w->runs++;
    w->outcome = result->outcome;
    (void)text_copy(w->words, sizeof(w->words), result->reason);
}

/* Makes it in place of the former one. */
static inline int probe_world_make(struct world *w, const struct probe_spec *spec, struct err *e)
{
    probe_free(w->probe);
    w->probe = NULL;
    w->runs = 0;
    return probe_new(w->loop, spec, PROBE_INDEX, probe_world_result, w, &w->probe, e);
}

/* The same by its text, with sysfs in the directory. */
static inline int probe_world_parse(struct world *w, const char *text, int64_t interval_ns,
                                    int64_t timeout_ns, struct err *e)
{
    struct probe_spec spec = {.timeout_ns = timeout_ns,
                              .root = w->dir,
                              .ovs_run_dir = "/nowhere",
                              .ovn_run_dir = "/nowhere"};
    int rc = probe_spec_parse(text, 0, &spec, &spec, e);
    spec.interval_ns = interval_ns;
    spec.retry_ns = interval_ns;
    return rc != 0 ? rc : probe_world_make(w, &spec, e);
}

static inline void probe_world_start(struct world *w, const char *text, int64_t interval_ns,
                                     int64_t timeout_ns)
{
    struct err e = ERR_INIT;
    if (probe_world_parse(w, text, interval_ns, timeout_ns, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    probe_start(w->probe);
}

static inline void probe_world_on_guard(struct ev_loop *loop, ev_timer *timer, int revents)
{
}

/* Passes the time until there were so many runs, and the last ended so (PROBE_UNKNOWN: anyhow). */
static inline void probe_world_await(struct world *w, int runs, enum probe_outcome wanted)
{
    ev_timer guard;
    ev_timer_init(&guard, probe_world_on_guard, GUARD_S, 0);
    ev_timer_start(w->loop, &guard);
    while (ev_is_active(&guard) &&
           (w->runs < runs || (wanted != PROBE_UNKNOWN && w->outcome != wanted))) {
        ev_run(w->loop, EVRUN_ONCE);
    }
    ev_timer_stop(w->loop, &guard);
    assert_true(w->runs >= runs);
}

static inline void probe_world_expect(struct world *w, enum probe_outcome wanted, const char *words)
{
    probe_world_await(w, 1, wanted);
    if (w->outcome != wanted || !text_equal(w->words, words)) {
        fail_msg("%s: '%s'", probe_outcome_name(w->outcome), w->words);
    }
}

/* Runs it; returns why it did not pass, or NULL. */
static inline const char *probe_world_try(struct world *w, const char *text, int64_t timeout_ms)
{
    probe_world_start(w, text, NS_PER_MS, timeout_ms * NS_PER_MS);
    probe_world_await(w, 1, PROBE_UNKNOWN);
    return w->outcome == PROBE_PASSED ? NULL : w->words;
}

/* ---- who is asked ----------------------------------------------------------------------------
 *
 * A server in the test's own loop: it takes one connection, says what it is told to once it has
 * heard something, and keeps what it heard. */

struct peer {
    const char *answer; /* NULL: silence */
    size_t left;        /* how often it is still said; 0: once */
    bool hangs_up;
    int listener;
    ev_io acceptable;
    ev_io ready; /* of the connection */
    char heard[4096];
    size_t heard_len;
};

static inline void peer_hang_up(struct ev_loop *loop, struct peer *p)
{
    if (p->ready.fd >= 0) {
        ev_io_stop(loop, &p->ready);
        (void)close(p->ready.fd);
        ev_io_set(&p->ready, -1, EV_READ);
    }
}

static inline void peer_on_ready(struct ev_loop *loop, ev_io *io, int events)
{
    struct peer *p = io->data;
    ssize_t got = recv(io->fd, p->heard + p->heard_len, sizeof(p->heard) - 1 - p->heard_len, 0);
    if (got == 0) {
        ev_io_stop(loop, io);
        return;
    }
    p->heard_len += got > 0 ? (size_t)got : 0;
    for (; p->answer && p->left > 0; p->left--) {
        if (send(io->fd, p->answer, strlen(p->answer), MSG_NOSIGNAL) < 0) {
            return; /* full, or gone */
        }
    }
    if (p->hangs_up) {
        peer_hang_up(loop, p);
    }
}

static inline void peer_on_connection(struct ev_loop *loop, ev_io *io, int events)
{
    struct peer *p = io->data;
    int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        ev_io_init(&p->ready, peer_on_ready, fd, p->left > 1 ? EV_READ | EV_WRITE : EV_READ);
        p->ready.data = p;
        p->heard_len = 0;
        memset(p->heard, 0, sizeof(p->heard));
        ev_io_start(loop, &p->ready);
    }
}

/* `listener` is bound, and taken. */
static inline void peer_open(struct world *w, struct peer *p, int listener)
{
    p->left = p->left > 0 ? p->left : 1;
    p->listener = listener;
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
    ev_io_init(&p->ready, peer_on_ready, -1, EV_READ);
    ev_io_init(&p->acceptable, peer_on_connection, listener, EV_READ);
    p->acceptable.data = p;
    ev_io_start(w->loop, &p->acceptable);
}

static inline void peer_close(struct world *w, struct peer *p)
{
    ev_io_stop(w->loop, &p->acceptable);
    peer_hang_up(w->loop, p);
    (void)close(p->listener);
}

#endif
