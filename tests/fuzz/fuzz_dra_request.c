/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the message of each method of the plugin, and any bytes as the claim it looks up:
 * every call is answered, nothing leaks, and the answers can be unpacked again. The first byte
 * picks the method, the second how much of the rest is the claim. */
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "dra-driver/dra/plugin.h"
#include "grpc_proto/plugin.pb-c.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/h2_client.h"

#include <assert.h>
#include <stdio.h>

enum { LOOKUPS_MAX = PLUGIN_CLAIMS_MAX };

/* Lookups wait until they are answered. */
struct kube_call {
    kube_done_fn *done;
    void *user;
};

struct kube_client {
    struct kube_call lookups[LOOKUPS_MAX];
    size_t count;
};

struct kube_call *kube_client_start(struct kube_client *client, const struct kube_request *request,
                                    kube_done_fn *done, void *user)
{
    assert(client->count < LOOKUPS_MAX);
    client->lookups[client->count] = (struct kube_call){.done = done, .user = user};
    return &client->lookups[client->count++];
}

void kube_call_cancel(struct kube_call *call)
{
    if (call) {
        call->done = NULL;
    }
}

static void answer_lookups(struct kube_client *client, const uint8_t *claim, size_t len)
{
    CLEANUP(json) json_t *json = json_text_parse((const char *)claim, len, NULL);
    struct kube_response r = {.http_status = 200, .body = json};
    if (!json) {
        r = (struct kube_response){.code = ERR_NOTFOUND, .http_status = 404, .reason = "NotFound"};
        (void)snprintf(r.message, sizeof(r.message), "%.*s", (int)(len < 50 ? len : 50),
                       (const char *)claim);
    }
    for (size_t i = 0; i < client->count; i++) {
        if (client->lookups[i].done) {
            client->lookups[i].done(client->lookups[i].user, &r);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {
        "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
        "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources",
        "/pluginregistration.Registration/GetInfo",
        "/pluginregistration.Registration/NotifyRegistrationStatus",
    };
    if (size < 2) {
        return 0;
    }
    log_set_fd(-1);
    struct kube_client client = {.count = 0};
    /* Nothing can be kept there. */
    const struct dra_options options = {.health_timeout_ns = 30 * NS_PER_SEC,
                                        .names = {.dra = "/e", .plugin_dir = "/proc"}};
    const struct dra_config config = {.client = &client, .options = &options};
    const struct dra_device device = {.driver = "d", .pool = "p", .name = "v"};
    struct plugin plugin = {.config = &config, .device = &device};
    struct h2_peer peer = {.server = NULL};
    plugin_init(&plugin);
    h2_peer_start(&peer, plugin_methods, ARRAY_LEN(plugin_methods), &plugin);
    size_t claim_len = (size - 2) * data[1] / 255;
    const struct h2_stream *s = h2_peer_call(&peer, paths[data[0] % ARRAY_LEN(paths)],
                                             data + 2 + claim_len, size - 2 - claim_len);
    answer_lookups(&client, data + 2, claim_len);
    assert(h2_client_pump(peer.client) == 0);
    assert(s->grpc_status >= 0);
    fuzz_tell(s->grpc_status == 0);
    const uint8_t *reply = NULL;
    int len = h2_stream_message(s, 0, &reply);
    if (data[0] % ARRAY_LEN(paths) == 0 && len >= 0) {
        Dra__PrepareResponse *r = dra__prepare_response__unpack(NULL, (size_t)len, reply);
        assert(r);
        dra__prepare_response__free_unpacked(r, NULL);
    }
    h2_peer_stop(&peer);
    return 0;
}
