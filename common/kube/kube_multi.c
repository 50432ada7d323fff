/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_internal.h"

#include <stdlib.h>

/* One socket of curl's on the loop; freed when curl is done with it. */
struct watched_socket {
    ev_io io;
    struct kube_client *client;
};

static void after_curl(struct kube_client *client)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        struct kube_transfer *t = NULL;
        if (message->msg == CURLMSG_DONE &&
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &t) == CURLE_OK && t) {
            kube_transfer_ended(t, message->data.result);
        }
    }
    kube_transfer_deliver_all(client);
}

static void act(struct kube_client *client, curl_socket_t fd, int events)
{
    int running;
    (void)curl_multi_socket_action(client->multi, fd, events, &running); /* ends show as messages */
    after_curl(client);
}

static void on_socket(struct ev_loop *loop, ev_io *io, int events)
{
    struct watched_socket *w = io->data;
    (void)loop;
    act(w->client, io->fd,
        ((events & EV_READ) ? CURL_CSELECT_IN : 0) | ((events & EV_WRITE) ? CURL_CSELECT_OUT : 0));
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
    struct kube_client *client = user;
    struct watched_socket *w = socket_user;
    (void)easy;
    if (w) {
        ev_io_stop(client->loop, &w->io);
    }
    if (what == CURL_POLL_REMOVE) {
        free(w);
        return 0;
    }
    if (!w) {
        w = calloc(1, sizeof(*w));
        if (!w) {
            return -1; /* curl fails the transfers */
        }
        w->client = client;
        (void)curl_multi_assign(client->multi, fd, w); /* fails only for an unknown socket */
    }
    ev_io_init(&w->io, on_socket, fd,
               ((what & CURL_POLL_IN) ? EV_READ : 0) | ((what & CURL_POLL_OUT) ? EV_WRITE : 0));
    w->io.data = w;
    ev_io_start(client->loop, &w->io);
    return 0;
}

static int timer_changed(CURLM *multi, long timeout_ms, void *user)
{
    struct kube_client *client = user;
    (void)multi;
    ev_timer_stop(client->loop, &client->timer);
    if (timeout_ms >= 0) {
        ev_now_update(client->loop); /* the loop's time may be old after a long callback */
        ev_timer_set(&client->timer, (double)timeout_ms / 1e3, 0.);
        ev_timer_start(client->loop, &client->timer);
    }
    return 0;
}

int kube_multi_start(struct kube_client *client, struct err *e)
{
    client->multi = curl_multi_init();
    if (!client->multi) {
        return err_set(e, ERR_NOMEM, "out of memory for curl");
    }
    (void)curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, socket_changed);
    (void)curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    (void)curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, timer_changed);
    (void)curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    (void)curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, 2L); /* kept: one is in use */
    ev_timer_init(&client->timer, on_timer, 0., 0.);
    client->timer.data = client;
    return 0;
}

void kube_multi_stop(struct kube_client *client)
{
    ev_timer_stop(client->loop, &client->timer);
    if (client->multi) {
        (void)curl_multi_cleanup(client->multi); /* all handles are gone by now */
    }
}

int kube_multi_add(struct kube_client *client, CURL *easy, struct err *e)
{
    CURLMcode rc = curl_multi_add_handle(client->multi, easy);
    if (rc != CURLM_OK) {
        return err_set(e, rc == CURLM_OUT_OF_MEMORY ? ERR_NOMEM : ERR_BUG, "curl: %s",
                       curl_multi_strerror(rc));
    }
    return 0;
}
