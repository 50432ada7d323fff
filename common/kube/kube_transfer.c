/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_transfer.h"

#include "base/clock.h"
#include "base/text.h"
#include "kube/kube_internal.h"

#include <string.h>
#include <strings.h>

static int send_now(struct kube_transfer *t, struct mono now, struct err *e)
{
    struct kube_client *client = t->client;
    t->is_waiting = false;
    t->sent_at = now;
    (void)kube_client_refresh(client, now, false);
    int rc = kube_transfer_set_up(t, e);
    if (rc != 0) {
        return rc;
    }
    return kube_multi_add(client, t->easy, e);
}

/* ---- waiting for a token --------------------------------------------------------------------- */

static struct kube_transfer *longest_waiting(struct kube_client *client, size_t *out_count)
{
    struct kube_transfer *found = NULL;
    *out_count = 0;
    for (struct kube_transfer *t = client->transfers; t; t = t->next) {
        if (t->is_waiting) {
            found = t;
            (*out_count)++;
        }
    }
    return found;
}

static void arm_pace(struct kube_client *client, struct mono now)
{
    int64_t wait_ns = kube_bucket_wait_ns(&client->bucket, now);
    ev_timer_stop(client->loop, &client->pace);
    ev_now_update(client->loop); /* the loop's time may be old after a long callback */
    ev_timer_set(&client->pace, (double)wait_ns / 1e9, 0.);
    ev_timer_start(client->loop, &client->pace);
}

void kube_transfer_send_waiting(struct kube_client *client)
{
    struct mono now = clock_mono_now();
    struct kube_transfer *t;
    size_t count;
    while ((t = longest_waiting(client, &count)) != NULL) {
        struct err e = ERR_INIT;
        if (!kube_bucket_take(&client->bucket, now)) {
            arm_pace(client, now);
            break;
        }
        if (send_now(t, now, &e) != 0) {
            (void)text_copy(t->error, sizeof(t->error), e.msg); /* what fits is enough */
            kube_transfer_ended(t, CURLE_OUT_OF_MEMORY);
        }
    }
    kube_transfer_deliver_all(client);
}

/* Sends it, or lets it wait for its turn. */
static int send_in_turn(struct kube_transfer *t, struct err *e)
{
    struct kube_client *client = t->client;
    struct mono now = clock_mono_now();
    size_t count;
    bool is_first = longest_waiting(client, &count) == NULL;
    if (t->config.urgent) {
        kube_bucket_take_urgent(&client->bucket, now);
        return send_now(t, now, e);
    }
    if (is_first && kube_bucket_take(&client->bucket, now)) {
        return send_now(t, now, e);
    }
    if (count >= KUBE_WAITING_MAX) {
        return err_set(e, ERR_LIMIT, "%d requests wait for their turn already",
                       (int)KUBE_WAITING_MAX);
    }
    t->is_waiting = true;
    client->delayed++;
    if (is_first) {
        arm_pace(client, now);
    }
    return 0;
}

int kube_transfer_start(struct kube_client *client, const struct kube_transfer_config *config,
                        struct kube_transfer **out, struct err *e)
{
    struct kube_transfer *t = calloc(1, sizeof(*t));
    if (!t) {
        free(config->body);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    *t = (struct kube_transfer){
        .client = client, .config = *config, .retry_after_ms = -1, .sent_at = MONO_NEVER};
    buf_init(&t->inbox, config->max_bytes);
    t->next = client->transfers;
    t->link = &client->transfers;
    if (t->next) {
        t->next->link = &t->next;
    }
    client->transfers = t;
    t->path = strdup(config->path);
    t->config.path = t->path;
    int rc = t->path ? send_in_turn(t, e) : err_set(e, ERR_NOMEM, "out of memory");
    if (rc != 0) {
        kube_transfer_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void kube_transfer_free(struct kube_transfer *t)
{
    if (!t) {
        return;
    }
    *t->link = t->next;
    if (t->next) {
        t->next->link = t->link;
    }
    if (t->easy) {
        (void)curl_multi_remove_handle(t->client->multi, t->easy); /* also if it was never added */
        curl_easy_cleanup(t->easy);
    }
    for (struct curl_slist *h = t->headers; h; h = h->next) {
        explicit_bzero(h->data, strlen(h->data)); /* the token */
    }
    curl_slist_free_all(t->headers);
    curl_slist_free_all(t->connect_to);
    buf_fini(&t->inbox);
    free(t->config.body);
    free(t->path);
    free(t);
}

/* ---- delivery -------------------------------------------------------------------------------- */

void kube_transfer_ended(struct kube_transfer *t, CURLcode code)
{
    t->ended = true;
    t->end_code = code;
}

static struct kube_transfer *first_to_deliver(struct kube_client *client)
{
    struct kube_transfer *t = client->transfers;
    while (t && !t->ended && !(t->has_bytes && t->config.on_bytes)) {
        t = t->next;
    }
    return t;
}

void kube_transfer_deliver_all(struct kube_client *client)
{
    struct kube_transfer *t;
    while ((t = first_to_deliver(client)) != NULL) {
        if (t->has_bytes && t->config.on_bytes) {
            t->has_bytes = false;
            t->config.on_bytes(t->config.user); /* may free any transfer: look anew */
        } else {
            t->ended = false; /* told once */
            t->config.on_done(t->config.user, (int)t->end_code);
        }
    }
}

struct buf *kube_transfer_inbox(struct kube_transfer *t)
{
    return &t->inbox;
}

int kube_transfer_status(const struct kube_transfer *t)
{
    long status = 0;
    if (t->easy) {
        (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status); /* 0 if unknown */
    }
    return (int)status;
}

struct mono kube_transfer_sent_at(const struct kube_transfer *t)
{
    return t->sent_at;
}

void kube_transfer_describe(const struct kube_transfer *t, struct kube_response *out)
{
    *out = (struct kube_response){
        .http_status = kube_transfer_status(t),
        .retry_after_ms = t->retry_after_ms,
        .has_server_date = t->has_date,
        .server_date = t->date,
        .received_wall = clock_wall_now(),
        .sent_at = t->sent_at,
        .received_at = clock_mono_now(),
    };
}

const char *kube_transfer_error(const struct kube_transfer *t, int curl_code)
{
    if (t->overflowed) {
        return "the answer is larger than allowed";
    }
    return kube_status_failure(t->error, curl_code);
}

bool kube_transfer_overflowed(const struct kube_transfer *t)
{
    return t->overflowed;
}

bool kube_transfer_is_json(const struct kube_transfer *t)
{
    char *type = NULL;
    if (t->easy) {
        (void)curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type); /* NULL if unknown */
    }
    return type && strncasecmp(type, "application/json", strlen("application/json")) == 0;
}
