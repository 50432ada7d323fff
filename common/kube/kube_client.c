/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_client.h"

#include "base/clock.h"
#include "kube/kube_internal.h"

#include <stdlib.h>

static int start(struct kube_client *client, struct err *e)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return err_set(e, ERR_NOMEM, "curl cannot be initialised");
    }
    int rc = kube_cred_init(&client->cred, &client->conf, clock_mono_now(), e);
    if (rc != 0) {
        return rc;
    }
    return kube_call_open_all(client, e);
}

int kube_client_new(struct ev_loop *loop, struct kube_conf *conf, struct kube_client **out,
                    struct err *e)
{
    struct kube_client *client = calloc(1, sizeof(*client));
    if (!client) {
        kube_conf_fini(conf);
        return err_no_memory(e);
    }
    client->loop = loop;
    client->conf = *conf;
    *conf = (struct kube_conf){0};
    int rc = start(client, e);
    if (rc != 0) {
        kube_client_free(client);
        return rc;
    }
    *out = client;
    return 0;
}

void kube_client_free(struct kube_client *client)
{
    if (!client) {
        return;
    }
    kube_call_close_all(client);
    kube_cred_fini(&client->cred);
    kube_conf_fini(&client->conf);
    free(client);
    curl_global_cleanup();
}

int kube_client_start(struct kube_client *client, const struct kube_request *request,
                      kube_done_fn *done, void *user, struct kube_call **out, struct err *e)
{
    struct kube_call_config config = {
        .request = *request, .max_bytes = KUBE_BODY_MAX_BYTES, .on_done = done, .user = user};
    if (config.request.deadline_ms == 0) {
        config.request.deadline_ms =
            kube_patience_ms(&client->patience, request->method != KUBE_GET);
    }
    return kube_call_start(client, &config, out, e);
}

void kube_client_set_observer(struct kube_client *client, kube_observe_fn *observe, void *user)
{
    client->observe = observe;
    client->observe_user = user;
}

bool kube_client_expiry(const struct kube_client *client, struct kube_expiry *out)
{
    return kube_cred_expiry(&client->cred, out);
}

uint64_t kube_client_delayed(const struct kube_client *client)
{
    return client->delayed;
}

const char *kube_client_describe(const struct kube_client *client)
{
    return client->description;
}
