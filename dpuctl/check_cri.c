/* SPDX-License-Identifier: Apache-2.0 */
/* What the container runtime says of itself, and of the pods' network. */
#include "base/cleanup.h"
#include "base/text.h"
#include "contract/names.h"
#include "dpuctl/doctor.h"
#include "dpuctl/pods_look.h"
#include "grpc/grpc_client.h"

#include <string.h>

static int ask(const struct doctor *d, const char *socket, const char *method,
               const struct cri_request *request, struct buf *answer)
{
    struct err e = ERR_INIT;
    buf_clear(answer);
    return pods_ask_runtime(&d->config, socket, method, request, answer, &e);
}

/* In the words of the Node, which has it from the same call. */
static void ask_version(struct doctor *d, const char *socket, struct buf *answer)
{
    struct cri_request request;
    struct cri_version version;
    cri_ask_version(&request);
    if (d->runtime_version[0] == '\0' &&
        ask(d, socket, CRI_METHOD_VERSION, &request, answer) == 0 &&
        cri_read_version((const uint8_t *)buf_text(answer), answer->len, &version, NULL) == 0) {
        text_format(d->runtime_version, sizeof(d->runtime_version), "%.24s://%.32s", version.name,
                    version.version);
    }
}

static void judge_network(struct doctor *d, const struct cri_network *network)
{
    bool is_gates = strstr(network->message, NAMES_NOT_READY_PREFIX) != NULL;
    if (!network->is_ready) {
        check_add(d, CHECK_FAIL, "network",
                  is_gates ? "this is dpu-gate's answer: see the record and the lease above"
                           : "this is not dpu-gate's answer: see the CNI configuration, and the "
                             "plugin behind the gate",
                  "the container runtime says that the network is not ready: %s %s",
                  network->reason, network->message);
    } else if (!d->look.gate.admit) {
        check_add(
            d, CHECK_WARN, "network",
            "see the runtime below; until then ADD alone is gated: the scheduler still sends "
            "pods here",
            "the container runtime says that the network is ready, although dpu-gate refuses: "
            "it does not ask STATUS, or has not since");
    } else {
        check_add(d, CHECK_PASS, "network", "",
                  "the container runtime says that the network is ready");
    }
}

static void check_pods(struct doctor *d, const char *socket)
{
    struct pods_look look = {.count = 0};
    struct err e = ERR_INIT;
    if (pods_look_take(&d->config, socket, &look, &e) != 0) {
        check_add(d, CHECK_SKIP, "pods", "", "%s", e.msg);
    } else if (look.lost > 0) {
        check_add(d, CHECK_FAIL, "pods",
                  "'dpuctl pods' names them: delete them, or give dpu-host-agent "
                  "--on-lost-network=restart",
                  "%zu of %zu pods have lost their network", look.lost, look.count);
    } else if (look.unseen > 0) {
        check_add(d, CHECK_WARN, "pods", "'dpuctl pods' says why",
                  "whether %zu of %zu pods have their network cannot be told", look.unseen,
                  look.count);
    } else {
        check_add(d, CHECK_PASS, "pods", "", "none of %zu pods has lost its network", look.count);
    }
    pods_look_fini(&look);
}

void check_cri(struct doctor *d)
{
    char socket[PATH_MAX];
    struct cri_request request;
    struct cri_network network = {.is_ready = false};
    struct err e = ERR_INIT;
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, GRPC_CLIENT_REPLY_MAX_BYTES);
    if (!pods_find_runtime(&d->config, socket)) {
        return; /* the Node says which runtime it is */
    }
    cri_ask_status(&request);
    int rc = pods_ask_runtime(&d->config, socket, CRI_METHOD_STATUS, &request, &answer, &e);
    if (rc == 0) {
        rc = cri_read_network((const uint8_t *)buf_text(&answer), answer.len, &network, &e);
    }
    if (rc != 0) {
        check_add(d, CHECK_WARN, "network", "is it running? if it is elsewhere: --cri-socket=FILE",
                  "the container runtime cannot be asked: %s", e.msg);
        return;
    }
    judge_network(d, &network);
    ask_version(d, socket, &answer);
    check_pods(d, socket);
}
