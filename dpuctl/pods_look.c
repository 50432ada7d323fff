/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/pods_look.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "grpc/unix_call.h"

#include <errno.h>
#include <stdlib.h>

bool pods_find_runtime(const struct admin_config *config, char out[static PATH_MAX])
{
    static const char *const known[] = {"/run/containerd/containerd.sock", "/run/crio/crio.sock"};
    if (!text_is_empty(config->cri_socket)) {
        admin_path(config, config->cri_socket, out, PATH_MAX);
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (access(admin_path(config, known[i], out, PATH_MAX), F_OK) == 0) {
            return true;
        }
    }
    return false;
}

static void on_message(void *user, const uint8_t *message, size_t len)
{
    if (buf_append(user, message, len, NULL) != 0) {
        buf_clear(user); /* read as an answer that is not one */
    }
}

int pods_ask_runtime(const struct admin_config *config, const char *socket, const char *method,
                     const struct cri_request *request, struct buf *answer, struct err *e)
{
    struct unix_call call = {.path = socket,
                             .method = method,
                             .message = {.bytes = request->bytes, .len = request->len},
                             .on_message = on_message,
                             .user = answer,
                             .stop_fd = -1};
    return unix_call_make(&call, admin_time_left_ns(config), e);
}

static const uint8_t *bytes_of(const struct buf *answer)
{
    return (const uint8_t *)buf_text(answer);
}

static void take(void *user, const struct cri_sandbox *sandbox)
{
    struct pods_look *look = user;
    if (look->pods) { /* else out of memory */
        look->pods[look->count++] = (struct pods_pod){.sandbox = *sandbox};
    }
}

static int compare_age(const void *a, const void *b)
{
    const struct pods_pod *left = a;
    const struct pods_pod *right = b;
    return (left->sandbox.made.ns > right->sandbox.made.ns) -
           (left->sandbox.made.ns < right->sandbox.made.ns);
}

/* Errors only where the runtime itself does not answer any more; ERR_GONE: the sandbox has ended.
 */
static int look_at(const struct admin_config *config, const char *socket, struct pods_pod *pod,
                   struct err *e)
{
    struct cri_request request;
    struct cri_detail detail;
    struct pod_net net;
    const char *root = config->root ? config->root : "";
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, GRPC_CLIENT_REPLY_MAX_BYTES);
    cri_ask_inspect(pod->sandbox.id, &request);
    struct err own = ERR_INIT;
    int rc = pods_ask_runtime(config, socket, CRI_METHOD_INSPECT, &request, &answer, &own);
    if (rc != 0 && own.sys_errno != 0) {
        return err_set(e, rc, "%s", own.msg);
    }
    if (rc == ERR_GONE) {
        return rc;
    }
    if (rc == 0) {
        rc = cri_read_detail(bytes_of(&answer), answer.len, &detail, &own);
    }
    if (rc != 0) {
        text_format(pod->net.words, sizeof(pod->net.words), "%s", own.msg); /* may be cut */
        return 0;
    }
    const struct pod_net_place place = {.pid = detail.pid, .netns = detail.netns};
    pod->has_host_network = detail.has_host_network;
    if (!detail.has_host_network) {
        (void)pod_net_open(root, pod->sandbox.id, &place, &net); /* the look says so, too */
        pod_net_look(&net, root, &pod->net);
    }
    return 0;
}

static void count(struct pods_look *look, const struct pods_pod *pod)
{
    look->lost += pod->net.evidence == POD_NET_LOST;
    look->unseen += pod->net.evidence == POD_NET_UNSEEN && !pod->has_host_network;
}

int pods_look_take(const struct admin_config *config, const char *socket, struct pods_look *out,
                   struct err *e)
{
    struct cri_request request;
    struct pods_look look = {.pods = calloc(CRI_SANDBOXES_MAX, sizeof(*look.pods))};
    CLEANUP(buf) struct buf answer;
    buf_init(&answer, GRPC_CLIENT_REPLY_MAX_BYTES);
    if (!look.pods) {
        return err_set(e, ERR_NOMEM, "out of memory for the pods");
    }
    cri_ask_list(&request);
    int rc = pods_ask_runtime(config, socket, CRI_METHOD_LIST, &request, &answer, e);
    if (rc == 0) {
        rc = cri_read_list(bytes_of(&answer), answer.len, take, &look, e);
    }
    size_t listed = look.count;
    look.count = 0;
    for (size_t i = 0; rc == 0 && i < listed; i++) {
        struct pods_pod pod = look.pods[i];
        rc = look_at(config, socket, &pod, e);
        if (rc == ERR_GONE) {
            rc = 0;
        } else {
            look.pods[look.count++] = pod;
            count(&look, &pod);
        }
    }
    if (rc != 0) {
        pods_look_fini(&look);
        return rc;
    }
    qsort(look.pods, look.count, sizeof(*look.pods), compare_age);
    *out = look;
    return 0;
}

void pods_look_fini(struct pods_look *look)
{
    free(look->pods);
}
