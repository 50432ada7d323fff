/* SPDX-License-Identifier: Apache-2.0 */
#define CURL_DISABLE_DEPRECATION /* curl_multi_socket_all() has no successor: see act() */
#include "loop/curl_loop.h"

#include "base/mem.h"
#include "base/time.h"
#include "loop/curl_version.h"

#include <ev.h>

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Those of two watches, one for all else, and two that serve one request each: curl closes an idle
 * connection where more than these are open. */
#define MAX_CONNECTIONS 5L

struct curl_loop {
    struct ev_loop *loop; /* borrowed */
    CURLM *multi;
    ev_timer timer;  /* what curl wants */
    bool has_closed; /* curl has closed a socket */
    struct curl_loop_config config;
};

/* When an address of a name turns out to be dead, curl before 8.4 closes its socket, and begins
 * with the next address when it is called again, but asks for no call. */
static void act(struct curl_loop *c, curl_socket_t fd, int events)
{
    int running;
    CURLMsg *message;
    int left;
    c->has_closed = false;
    (void)curl_multi_socket_action(c->multi, fd, events, &running); /* ends show as messages */
    while (c->has_closed) {
        c->has_closed = false;
        (void)curl_multi_socket_all(c->multi, &running); /* likewise */
    }
    while ((message = curl_multi_info_read(c->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            c->config.ended(c->config.user, message->easy_handle, message->data.result);
        }
    }
    if (c->config.after) {
        c->config.after(c->config.user);
    }
}

static void on_socket(struct ev_loop *loop, ev_io *io, int events)
{
    act(io->data, io->fd,
        ((events & EV_READ) ? CURL_CSELECT_IN : 0) | ((events & EV_WRITE) ? CURL_CSELECT_OUT : 0));
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

/* `io` watches one socket of curl's; freed when curl is done with it. */
static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
    struct curl_loop *c = user;
    ev_io *io = socket_user;
    if (io) {
        ev_io_stop(c->loop, io);
    }
    if (what == CURL_POLL_REMOVE) {
        c->has_closed = true;
        free(io);
        return 0;
    }
    if (!io) {
        io = MEM_NEW(ev_io);
        (void)curl_multi_assign(c->multi, fd, io); /* fails only for an unknown socket */
    }
    ev_io_init(io, on_socket, fd,
               ((what & CURL_POLL_IN) ? EV_READ : 0) | ((what & CURL_POLL_OUT) ? EV_WRITE : 0));
    io->data = c;
    ev_io_start(c->loop, io);
    return 0;
}

void loop_timer_arm(struct ev_loop *loop, struct ev_timer *timer, int64_t wait_ns)
{
    ev_timer_stop(loop, timer);
    ev_now_update(loop);
    ev_timer_set(timer, (double)wait_ns / (double)NS_PER_SEC, 0.);
    ev_timer_start(loop, timer);
}

static int timer_changed(CURLM *multi, long timeout_ms, void *user)
{
    struct curl_loop *c = user;
    ev_timer_stop(c->loop, &c->timer);
    if (timeout_ms >= 0) {
        loop_timer_arm(c->loop, &c->timer, timeout_ms * NS_PER_MS);
    }
    return 0;
}

struct curl_loop *curl_loop_new(struct ev_loop *loop, const struct curl_loop_config *config)
{
    struct curl_loop *c = MEM_NEW(struct curl_loop);
    CURLM *multi = curl_multi_init();
    assert(multi); /* fails for lack of memory only */
    *c = (struct curl_loop){.loop = loop, .multi = multi, .config = *config};
    (void)curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket_changed);
    (void)curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, c);
    (void)curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer_changed);
    (void)curl_multi_setopt(multi, CURLMOPT_TIMERDATA, c);
    (void)curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, MAX_CONNECTIONS);
    /* From 8.20 on these threads, which ask name servers, are the multi handle's: its end would
     * wait for them. */
    (void)curl_multi_setopt(multi, CURLMOPT_QUICK_EXIT, 1L);
    ev_timer_init(&c->timer, on_timer, 0., 0.);
    c->timer.data = c;
    return c;
}

void curl_loop_free(struct curl_loop *c)
{
    if (c) {
        ev_timer_stop(c->loop, &c->timer);
        (void)curl_multi_cleanup(c->multi); /* all handles are gone by now */
        free(c);
    }
}

void curl_loop_add(struct curl_loop *c, CURL *easy)
{
    CURLMcode rc = curl_multi_add_handle(c->multi, easy);
    assert(rc == CURLM_OK);
}

void curl_loop_remove(struct curl_loop *c, CURL *easy)
{
    (void)curl_multi_remove_handle(c->multi, easy); /* also one that was never added */
}

/* curl looks whether a connection was closed before it uses it again, and knows the socket of a
 * handle that has ended for as long as it keeps the connection. */
void curl_loop_spoil(CURL *easy)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd) == CURLE_OK && fd != CURL_SOCKET_BAD) {
        (void)shutdown(fd, SHUT_RDWR);
    }
}
