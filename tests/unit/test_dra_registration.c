/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/registration.h"

#include "base/log.h"
#include "dra_proto/registration.pb-c.h"
#include "tests/support/dra_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GET_INFO "/pluginregistration.Registration/GetInfo"
#define NOTIFY   "/pluginregistration.Registration/NotifyRegistrationStatus"

struct world {
    struct dra_peer peer;
    struct registration registration;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->registration = (struct registration){.driver = "dpu.example.com", .endpoint = "/p/dra.sock"};
    registration_serve(&w->registration, &w->peer.router);
    dra_peer_start(&w->peer);
    log_setup(LOG_ERROR, LOG_TEXT, "");
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    dra_peer_stop(&w->peer);
    free(w);
    return 0;
}

static void assert_info_is_ours(const struct h2_stream *s)
{
    static const char *const versions[] = {"v1.DRAPlugin", "v1beta1.DRAPlugin",
                                           "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"};
    const uint8_t *bytes = NULL;
    assert_int_equal(s->grpc_status, 0);
    int len = h2_stream_message(s, 0, &bytes);
    Registration__PluginInfo *info = registration__plugin_info__unpack(NULL, (size_t)len, bytes);
    assert_non_null(info);
    assert_string_equal(info->type, "DRAPlugin");
    assert_string_equal(info->name, "dpu.example.com");
    assert_string_equal(info->endpoint, "/p/dra.sock");
    assert_int_equal(info->n_supported_versions, ARRAY_LEN(versions));
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        assert_string_equal(info->supported_versions[i], versions[i]);
    }
    registration__plugin_info__free_unpacked(info, NULL);
}

static struct h2_stream *notify(struct world *w, bool registered, const char *error)
{
    uint8_t out[256];
    Registration__Status status = REGISTRATION__STATUS__INIT;
    status.plugin_registered = registered;
    status.error = (char *)(uintptr_t)error;
    size_t len = registration__status__pack(&status, out);
    return dra_peer_call(&w->peer, NOTIFY, out, len);
}

static void info_names_driver_endpoint_and_versions_newest_first(void **state)
{
    struct world *w = *state;
    assert_info_is_ours(dra_peer_call(&w->peer, GET_INFO, "", 0));
}

static void kubelet_restart_asks_again_and_gets_the_same(void **state)
{
    struct world *w = *state;
    for (int i = 1; i <= 3; i++) {
        assert_info_is_ours(dra_peer_call(&w->peer, GET_INFO, "", 0));
        assert_int_equal(notify(w, true, "")->grpc_status, 0);
        assert_int_equal(w->registration.asked, i);
        assert_int_equal(w->registration.accepted, i);
    }
}

static void rejection_is_answered_and_serving_goes_on(void **state)
{
    struct world *w = *state;
    struct h2_stream *s = notify(w, false, "no handler registered for plugin type: DRAPlugin");
    assert_int_equal(s->grpc_status, 0);
    assert_int_equal(s->body_len, GRPC_PREFIX_BYTES); /* an empty message is a message */
    assert_false(w->registration.is_registered);
    assert_int_equal(w->registration.rejected, 1);
    assert_int_equal(notify(w, true, "")->grpc_status, 0);
    assert_true(w->registration.is_registered);
}

static void unknown_fields_of_a_newer_kubelet_are_ignored(void **state)
{
    struct world *w = *state;
    assert_info_is_ours(dra_peer_call(&w->peer, GET_INFO, "\x7a\x03new", 5)); /* field 15 */
}

static void malformed_status_is_an_invalid_argument(void **state)
{
    struct world *w = *state;
    assert_int_equal(dra_peer_call(&w->peer, NOTIFY, "\xff\xff\xff", 3)->grpc_status,
                     GRPC_INVALID_ARGUMENT);
    assert_int_equal(w->registration.accepted + w->registration.rejected, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(info_names_driver_endpoint_and_versions_newest_first),
        TEST(kubelet_restart_asks_again_and_gets_the_same),
        TEST(rejection_is_answered_and_serving_goes_on),
        TEST(unknown_fields_of_a_newer_kubelet_are_ignored),
        TEST(malformed_status_is_an_invalid_argument),
    };
    return cmocka_run_group_tests_name("dra_registration", tests, NULL, NULL);
}
