/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a few requests to the API server at once and waits for the answers. Only reads: the only
 * objects that it posts are questions (access reviews).
 */
#ifndef DPUCTL_API_H
#define DPUCTL_API_H

#include "base/err.h"
#include "dpuctl/options.h"
#include "kube/kube_client.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

/* Of mem_format. */
#define API_LEASE_PATH "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s"
#define API_SLICE_PATH "/apis/resource.k8s.io/v1/resourceslices/%s-%s"

struct api_answer {
    int http_status;                  /* 0: no answer */
    char message[KUBE_MESSAGE_BYTES]; /* what failed; "" on success */
    json_t *body;                     /* owned by the reader; NULL on failure */
    bool has_date;
    struct wall date; /* the API server's clock, within half a second */
    int64_t skew_ns;  /* that against ours */
};

struct api {
    struct kube_client *client; /* NULL: there is a problem */
    struct err problem;         /* ERR_NOTFOUND: nothing is configured; else what is wrong there */
    bool is_not_agents;         /* neither by its kubeconfig nor by its Pod's account, */
    bool is_debug_pods;         /* but by the account of a Pod that has the node below a root */
    /* Its own. */
    const struct admin_config *config; /* borrowed */
    struct ev_loop *loop;
    struct api_request *requests;
    size_t open;
};

/* With the kubeconfig that is configured, else a pod's credentials, else kubectl's ~/.kube/config;
 * with a context a pod's are not meant. Borrows `config`. Returns owned; with a problem, which then
 * is the answer to each request, where none of them serves. */
struct api *api_open(const struct admin_config *config);
void api_close(struct api *api);

/* Starts a request (GET without a body, else POST). Takes `path`. Borrowed until api_forget: filled
 * by api_wait. */
const struct api_answer *api_ask(struct api *api, const json_t *body, char *path);

/* Until every answer is there, or the command's time for the API server is up: then it says so. */
void api_wait(struct api *api);

/* Frees all answers, which have to be there. */
void api_forget(struct api *api);

#endif
