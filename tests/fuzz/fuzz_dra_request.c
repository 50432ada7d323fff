/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the message of each method of the plugin, and any bytes as the claim it looks up:
 * every call is answered, nothing leaks, and the answers can be unpacked again. The first byte
 * picks the method, the second how much of the rest is the claim. */
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "dra_proto/plugin.pb-c.h"
#include "host-agent/dra/plugin.h"
#include "host-agent/dra/registration.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/dra_peer.h"

#include <assert.h>
#include <unistd.h>

enum { LOOKUPS_MAX = PLUGIN_CLAIMS_MAX };

struct lookups {
    struct lookup {
        plugin_claim_fn *found;
        void *user;
    } list[LOOKUPS_MAX];
    size_t count;
};

static int source_start(void *user, const struct claim_ref *ref, plugin_claim_fn *found,
                        void *found_user, void **out_lookup, struct err *e)
{
    struct lookups *l = user;
    (void)ref;
    if (l->count == LOOKUPS_MAX) {
        return err_set(e, ERR_LIMIT, "too many");
    }
    l->list[l->count] = (struct lookup){.found = found, .user = found_user};
    *out_lookup = &l->list[l->count++];
    return 0;
}

static void source_cancel(void *user, void *lookup)
{
    (void)user;
    ((struct lookup *)lookup)->found = NULL;
}

static void answer_lookups(struct lookups *l, const uint8_t *claim, size_t len)
{
    CLEANUP(json) json_t *json = json_text_parse((const char *)claim, len, 1 << 16, NULL);
    struct err e = ERR_INIT;
    (void)err_set(&e, ERR_NOTFOUND, "%.*s", (int)(len < 50 ? len : 50), (const char *)claim);
    for (size_t i = 0; i < l->count; i++) {
        if (l->list[i].found) {
            l->list[i].found(l->list[i].user, json, &e);
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
    struct lookups lookups = {.count = 0};
    struct registration registration = {.driver = "d", .endpoint = "/e"};
    struct plugin plugin = {
        .target = {.driver = "d", .pool = "p", .device = "v"},
        .source = {.start = source_start, .cancel = source_cancel, .user = &lookups},
    };
    struct dra_peer peer = {.server = NULL};
    plugin_serve(&plugin, &peer.router);
    registration_serve(&registration, &peer.router);
    dra_peer_start(&peer);
    size_t claim_len = (size - 2) * data[1] / 255;
    const struct h2_stream *s = dra_peer_call(&peer, paths[data[0] % ARRAY_LEN(paths)],
                                              data + 2 + claim_len, size - 2 - claim_len);
    answer_lookups(&lookups, data + 2, claim_len);
    assert(h2_client_pump(peer.client) == 0);
    assert(s->grpc_status >= 0);
    fuzz_tell(s->grpc_status == 0);
    assert(!plugin.under_way);
    const uint8_t *reply = NULL;
    int len = h2_stream_message(s, 0, &reply);
    if (data[0] % ARRAY_LEN(paths) == 0 && len >= 0) {
        Dra__PrepareResponse *r = dra__prepare_response__unpack(NULL, (size_t)len, reply);
        assert(r);
        dra__prepare_response__free_unpacked(r, NULL);
    }
    dra_peer_stop(&peer);
    plugin_fini(&plugin);
    return 0;
}
