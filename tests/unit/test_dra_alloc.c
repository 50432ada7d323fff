/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's calls with the n-th allocation failing, for every n: no crash, no leak, no call that
 * waits for ever. The linker puts our malloc in front (--wrap); only the server's side is armed. */
#include "base/json_text.h"
#include "base/log.h"
#include "dra_proto/plugin.pb-c.h"
#include "host-agent/dra/health.h"
#include "host-agent/dra/plugin.h"
#include "host-agent/dra/registration.h"
#include "tests/support/dra_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct {
    bool is_armed;
    int left; /* allocations until the one that fails */
    bool has_failed;
} fault;

static bool fails_now(void)
{
    if (!fault.is_armed || fault.left-- != 0) {
        return false;
    }
    fault.has_failed = true;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
int __real_grpc_conn_recv(struct grpc_conn *conn, const uint8_t *bytes, size_t len, struct mono now,
                          struct err *e);
int __wrap_grpc_conn_recv(struct grpc_conn *conn, const uint8_t *bytes, size_t len, struct mono now,
                          struct err *e);

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

int __wrap_grpc_conn_recv(struct grpc_conn *conn, const uint8_t *bytes, size_t len, struct mono now,
                          struct err *e)
{
    fault.is_armed = true;
    int rc = __real_grpc_conn_recv(conn, bytes, len, now, e);
    fault.is_armed = false;
    return rc;
}

/* The claim that is looked up, answered by hand. */
struct lookup {
    plugin_claim_fn *found;
    void *user;
};

static int source_start(void *user, const struct claim_ref *ref, plugin_claim_fn *found,
                        void *found_user, void **out_lookup, struct err *e)
{
    struct lookup *l = user;
    (void)ref;
    (void)e;
    *l = (struct lookup){.found = found, .user = found_user};
    *out_lookup = l;
    return 0;
}

static void source_cancel(void *user, void *lookup)
{
    (void)user;
    ((struct lookup *)lookup)->found = NULL;
}

static void answer(struct lookup *l)
{
    static const char text[] =
        "{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"u\"},\"status\":{\"allocation\":"
        "{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"d\",\"pool\":\"p\","
        "\"device\":\"v\"}]}}}}";
    if (!l->found) {
        return;
    }
    json_t *claim = json_text_parse(text, sizeof(text) - 1, sizeof(text), NULL);
    assert_non_null(claim);
    fault.is_armed = true;
    l->found(l->user, claim, NULL);
    fault.is_armed = false;
    json_decref(claim);
}

static void publish(struct health *h)
{
    struct health_report report = {.status = HEALTH_HEALTHY, .message = "well"};
    fault.is_armed = true;
    health_publish(h, &report, (struct mono){1}, (struct wall){1});
    fault.is_armed = false;
}

static size_t claim_request(uint8_t out[static 64])
{
    Dra__Claim claim = DRA__CLAIM__INIT;
    Dra__Claim *claims[] = {&claim};
    Dra__ClaimsRequest request = DRA__CLAIMS_REQUEST__INIT;
    claim.namespace_ = (char *)(uintptr_t) "ns";
    claim.uid = (char *)(uintptr_t) "u";
    claim.name = (char *)(uintptr_t) "c";
    request.claims = claims;
    request.n_claims = 1;
    return dra__claims_request__pack(&request, out);
}

/* One kubelet's day. A call that gets no answer although its connection lives is a failure. */
static void live_through_it(void)
{
    uint8_t message[64];
    struct lookup lookup = {.found = NULL};
    struct registration registration = {.driver = "d", .endpoint = "/e"};
    struct plugin plugin = {
        .target = {.driver = "d", .pool = "p", .device = "v"},
        .source = {.start = source_start, .cancel = source_cancel, .user = &lookup},
    };
    struct health health;
    struct dra_peer peer = {.server = NULL};
    health_init(&health,
                &(struct health_config){.pool = "p", .device = "v", .timeout_ns = 30 * NS_PER_SEC});
    registration_serve(&registration, &peer.router);
    plugin_serve(&plugin, &peer.router);
    health_serve(&health, &peer.router);
    dra_peer_start(&peer);
    (void)h2_client_call(peer.client, "/v1.DRAResourceHealth/NodeWatchResources", "", 0);
    int32_t info = h2_client_call(peer.client, "/pluginregistration.Registration/GetInfo", "", 0);
    int32_t prepare = h2_client_call(
        peer.client, "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", message,
        claim_request(message));
    int32_t unprepare = h2_client_call(
        peer.client, "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", message,
        claim_request(message));
    int rc = h2_client_pump(peer.client);
    publish(&health);
    answer(&lookup);
    if (rc == 0) {
        rc = h2_client_pump(peer.client);
    }
    if (rc == 0) {
        assert_true(h2_client_stream(peer.client, info)->is_closed);
        assert_true(h2_client_stream(peer.client, prepare)->is_closed);
        assert_true(h2_client_stream(peer.client, unprepare)->is_closed);
    }
    dra_peer_stop(&peer);
    plugin_fini(&plugin);
    health_fini(&health);
}

static void every_single_allocation_may_fail_while_serving(void **state)
{
    (void)state;
    int n = 0;
    log_set_fd(-1);
    do {
        fault.left = n++;
        fault.has_failed = false;
        live_through_it();
    } while (fault.has_failed);
    assert_true(n > 10); /* it did fail, many times */
}

static void wake(void *user)
{
    (void)user;
}

static void connection_that_cannot_be_made_is_an_error(void **state)
{
    (void)state;
    struct grpc_router router = {.count = 0};
    struct grpc_conn_config config = {.router = &router, .wake = wake};
    struct grpc_conn *conn = NULL;
    fault.left = 0;
    fault.is_armed = true;
    int rc = grpc_conn_new(&config, (struct mono){0}, &conn, NULL);
    fault.is_armed = false;
    assert_int_equal(rc, ERR_NOMEM);
    assert_null(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_single_allocation_may_fail_while_serving),
        cmocka_unit_test(connection_that_cannot_be_made_is_an_error),
    };
    return cmocka_run_group_tests_name("dra_alloc", tests, NULL, NULL);
}
