/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/registration.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "dra_proto/registration.pb-c.h"
#include "host-agent/dra/message.h"

#include <inttypes.h>
#include <string.h>

static const int64_t REJECTION_LOG_NS = 3600 * NS_PER_SEC;

static void get_info(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    (void)message; /* InfoRequest has no fields; what a future one adds is not for us */
    (void)len;
    struct registration *r = user;
    /* Kubelets up to 1.36 take the first entry of OUR list that they know: newest first. Health
     * is looked up here since 1.37. Unknown words are ignored by all. */
    static const char *const versions[] = {
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    };
    Registration__PluginInfo info = REGISTRATION__PLUGIN_INFO__INIT;
    /* protobuf-c packs from non-const pointers and does not write through them. */
    info.type = (char *)(uintptr_t) "DRAPlugin";
    info.name = (char *)(uintptr_t)r->driver;
    info.endpoint = (char *)(uintptr_t)r->endpoint;
    info.supported_versions = (char **)(uintptr_t)versions;
    info.n_supported_versions = ARRAY_LEN(versions);
    r->asked++;
    message_reply(call, &info.base);
}

static void take_status(struct registration *r, const Registration__Status *status)
{
    if (status->plugin_registered) {
        r->is_registered = true;
        r->refusal[0] = '\0';
        r->accepted++;
        log_repeat_reset(&r->rejections);
        log_info("dra", "the kubelet registered driver '%s' (registration %" PRIu64 ")", r->driver,
                 r->accepted);
        return;
    }
    text_sanitize(r->refusal, sizeof(r->refusal), status->error, strlen(status->error));
    r->is_registered = false;
    r->rejected++;
    log_limited(&r->rejections, REJECTION_LOG_NS, LOG_WARN, "dra",
                "the kubelet refused driver '%s': '%s' (\"no handler registered\" means that its "
                "feature gate DynamicResourceAllocation is off), continuing",
                r->driver, r->refusal);
}

static void notify_status(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    Registration__Status *status = registration__status__unpack(NULL, len, message);
    if (!status) {
        grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "malformed RegistrationStatus");
        return;
    }
    take_status(user, status);
    registration__status__free_unpacked(status, NULL);
    Registration__StatusResponse response = REGISTRATION__STATUS_RESPONSE__INIT;
    message_reply(call, &response.base);
}

void registration_serve(struct registration *r, struct grpc_router *router)
{
    const struct grpc_method methods[] = {
        {"/pluginregistration.Registration/GetInfo", GRPC_UNARY, get_info, r},
        {"/pluginregistration.Registration/NotifyRegistrationStatus", GRPC_UNARY, notify_status, r},
    };
    grpc_router_add(router, methods, ARRAY_LEN(methods));
}
