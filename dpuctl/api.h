/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one reader of the API server: a few requests at once, waited for, and one look at the whole
 * cluster. Reads; the only thing it ever posts is a question (an access review).
 */
#ifndef DPUCTL_API_H
#define DPUCTL_API_H

#include "base/attr.h"
#include "base/err.h"
#include "dpuctl/fleet.h"
#include "dpuctl/options.h"
#include "kube/kube_client.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

struct api_answer {
    int code;                         /* enum err_code of what failed, or 0 */
    int http_status;                  /* 0: no answer */
    bool is_late;                     /* none within the command's time */
    char message[KUBE_MESSAGE_BYTES]; /* what failed; "" on success */
    json_t *body;                     /* owned by the reader; NULL on failure */
    bool has_date;
    struct wall date; /* the API server's clock, within half a second */
    int64_t skew_ns;  /* that against ours */
};

struct api {
    struct kube_client *client;
    bool is_kubectls; /* with ~/.kube/config, not the agent's own */
    /* Its own. */
    const struct admin_config *config; /* borrowed */
    struct ev_loop *loop;
    struct api_request *requests;
    size_t open;
};

/* With the kubeconfig that is configured, else a pod's credentials, else kubectl's ~/.kube/config;
 * with a context a pod's are not meant. Borrows `config`. Returns owned. Errors: ERR_NOTFOUND if
 * there is none of them; what is wrong with the one that is configured. */
NODISCARD int api_open(const struct admin_config *config, struct api **out, struct err *e);
void api_close(struct api *api); /* accepts NULL */

/* What to do where api_open failed with `rc`: behind its message, or "". Static. */
const char *api_hint(const struct admin_config *config, int rc);

/* Starts a request (GET without a body, else POST). Takes `path`. Borrowed until api_forget: filled
 * by api_wait. */
const struct api_answer *api_ask(struct api *api, const json_t *body, char *path);

/* Until every answer is there, or the command's time for the API server is up: then it says so. */
void api_wait(struct api *api);

/* Frees all answers, which have to be there. */
void api_forget(struct api *api);

/* ---- the whole cluster ----------------------------------------------------------------------- */

enum {
    FLEET_ROWS_MAX = 50000, /* ten times what a cluster is made for */
    FLEET_NOTES_MAX = 4,    /* one for each list */
    FLEET_NOTE_BYTES = 320,
};

/* Rows of Nodes with a DPU, judged, what is broken first. */
struct fleet {
    struct fleet_row *rows; /* owned */
    size_t count;
    struct wall now;                               /* the API server's clock at the last answer */
    char notes[FLEET_NOTES_MAX][FLEET_NOTE_BYTES]; /* what could not be looked at, and why */
    size_t note_count;
};

/* Lists leases, Nodes, ResourceSlices and the agents' pods in pages, all at once, each page dropped
 * when its rows are filled. A reader's rights (rbac/viewer.yaml) are enough, and all but those to
 * the leases may be missing. Forgets earlier answers. Errors: the leases cannot be listed;
 * ERR_LIMIT. `out` is filled on success only: free with fleet_fini. */
NODISCARD int fleet_read(struct api *api, struct fleet *out, struct err *e);
void fleet_fini(struct fleet *fleet);

/* Whose row an object belongs to: the node's name, or NULL for an object that is none of ours.
 * Borrowed from the object. */
const char *fleet_node_of_lease(const json_t *lease); /* of "ovn-dpu-NODE" */
const char *fleet_node_of_bound(const json_t *slice_or_pod);

/* Has a Node one of the labels of a DPU's host? */
bool fleet_node_is_marked(const json_t *node);

/* A member of a list of objects, by its "type"; NULL if there is none. */
const json_t *fleet_find_type(const json_t *list, const char *type);

/* Lays what an object tells into its row; what cannot be read tells nothing. */
typedef void fleet_take_fn(struct fleet_row *row, const json_t *object);

void fleet_take_lease(struct fleet_row *row, const json_t *lease);
void fleet_take_node(struct fleet_row *row, const json_t *node);
void fleet_take_slice(struct fleet_row *row, const json_t *slice);
void fleet_take_pod(struct fleet_row *row, const json_t *pod); /* of dpu-host-agent */

#endif
