/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/lease_maker.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/lease.h"

enum { PATH_BYTES = 640 };

static void on_made(void *user, const struct kube_response *response)
{
    struct lease_maker *m = user;
    m->call = NULL;
    m->done(m->user, response, m->stamp);
}

static int post(struct lease_maker *m, const char *node_uid, struct err *e)
{
    const struct renewer_config *c = m->config;
    const struct lease_owner owner = {.node_name = c->node_name, .node_uid = node_uid};
    char path[PATH_BYTES];
    CLEANUP(json)
    json_t *lease = lease_new(c->lease_ns, c->lease_name, c->holder,
                              (uint32_t)(c->duration_ns / NS_PER_SEC), owner);
    const struct lease_agent agent = {
        .boot_id = c->boot_id, .version = c->version, .has_no_probe = c->has_no_probe};
    int rc = lease_set_renewal(lease, clock_wall_now(), c->holder, e);
    if (rc != 0 || (rc = lease_set_agent(lease, &agent, e)) != 0) {
        return rc;
    }
    text_format(m->stamp, sizeof(m->stamp), "%s",
                json_text_get(json_object_get(lease, "spec"), "renewTime"));
    text_format(path, sizeof(path), "/apis/coordination.k8s.io/v1/namespaces/%s/leases",
                c->lease_ns);
    const struct kube_request request = {.method = KUBE_POST,
                                         .channel = KUBE_CONTROL,
                                         .path = path,
                                         .body = lease,
                                         .deadline_ms = m->deadline_ms};
    return kube_client_start(m->client, &request, on_made, m, &m->call, e);
}

static void on_node(void *user, const struct kube_response *response)
{
    struct lease_maker *m = user;
    struct err e = ERR_INIT;
    m->call = NULL;
    if (response->code != 0) {
        m->done(m->user, response, "");
        return;
    }
    const char *uid = json_text_get(json_object_get(response->body, "metadata"), "uid");
    int rc = text_is_empty(uid) ? err_set(&e, ERR_PARSE, "the answer shows no Node with a UID")
                                : post(m, uid, &e);
    if (rc != 0) {
        struct kube_response failed = *response;
        failed.code = rc;
        text_format(failed.message, sizeof(failed.message), "%s",
                    e.msg); /* for people: may be cut */
        m->done(m->user, &failed, "");
    }
}

int lease_maker_start(struct lease_maker *m, uint32_t deadline_ms, struct err *e)
{
    char path[PATH_BYTES];
    text_format(path, sizeof(path), "/api/v1/nodes/%s", m->config->node_name);
    m->deadline_ms = deadline_ms / 2 > 0 ? deadline_ms / 2 : 1;
    m->stamp[0] = '\0';
    const struct kube_request request = {
        .method = KUBE_GET, .channel = KUBE_CONTROL, .path = path, .deadline_ms = m->deadline_ms};
    return kube_client_start(m->client, &request, on_node, m, &m->call, e);
}

void lease_maker_cancel(struct lease_maker *m)
{
    kube_call_cancel(m->call);
    m->call = NULL;
}
