/* SPDX-License-Identifier: Apache-2.0 */
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

/*
 * One look at the whole cluster: leases, Nodes, ResourceSlices and the agents' pods, each list in
 * pages, all at once, each page dropped when its rows are filled. Only lists: a reader's rights
 * (rbac/viewer.yaml) are enough, and all but those to the leases may be missing.
 */

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

/* Errors: no kubeconfig, or one of no use; the leases cannot be listed; ERR_LIMIT; ERR_NOMEM.
 * `out` is filled on success only: free with fleet_fini. */
NODISCARD int fleet_read(const struct fleet_config *config, struct fleet *out, struct err *e);
void fleet_fini(struct fleet *fleet);

/*
 * A few requests to the API server, all at once, waited for: what a command needs, on top of the
 * asynchronous client. Reads; the only thing it ever posts is a question (an access review).
 */

enum { API_READER_MAX = 24, API_READER_PATH_BYTES = 768 };

struct api_answer {
    bool done;                        /* an answer or a failure came in time */
    int http_status;                  /* 0: no answer */
    char message[KUBE_MESSAGE_BYTES]; /* what failed; "" on success */
    json_t *body;                     /* owned by the reader; NULL on failure */
    bool has_date;
    int64_t skew_ns; /* the API server's clock minus ours, within half a second */
};

struct api_reader {
    struct kube_client *client;
    bool is_kubectls; /* with ~/.kube/config, not the agent's own */
    /* Its own. */
    const struct admin_config *config; /* borrowed */
    struct ev_loop *loop;
    struct api_pending {
        struct api_reader *reader;
        struct kube_call *call; /* NULL: over */
        struct api_answer answer;
    } pending[API_READER_MAX];
    size_t count;
    size_t open;
};

/* The kubeconfig `file`, else a pod's credentials, else kubectl's ~/.kube/config. With a `context`
 * (NULL or "": the current one) a pod's are not meant. Errors: ERR_NOTFOUND if there is none of
 * them; what is wrong with `file`. */
NODISCARD int api_reader_conf(const char *file, const char *context, struct kube_conf *out,
                              bool *out_is_kubectls, struct err *e);

/* With those of the configured kubeconfig. Borrows `config`. Returns owned. Errors as above. */
NODISCARD int api_reader_open(const struct admin_config *config, struct api_reader **out,
                              struct err *e);
void api_reader_close(struct api_reader *r); /* accepts NULL */

/* Starts a request (GET without a body, else POST). Borrowed until it is closed: filled by
 * api_reader_wait. */
const struct api_answer *api_reader_ask(struct api_reader *r, const json_t *body,
                                        const char *path_format, ...) PRINTF_LIKE(3, 4);

/* Until every answer is there, or the command's time for the API server is up: then it says so. */
void api_reader_wait(struct api_reader *r);

/*
 * The objects of the API server that tell something of a node's DPU, each laid into its row. What
 * cannot be read tells nothing. Borrow the object; no I/O.
 */

/* Whose row it is: the node's name, or NULL for an object that is none of ours. Borrowed from the
 * object. */
typedef const char *fleet_node_fn(const json_t *object);

const char *fleet_node_of_lease(const json_t *lease); /* of "ovn-dpu-NODE" */
const char *fleet_node_of_node(const json_t *node);
const char *fleet_node_of_bound(const json_t *slice_or_pod); /* spec.nodeName */

/* Has a Node one of the labels of a DPU's host? */
bool fleet_node_is_marked(const json_t *node);

typedef void fleet_take_fn(struct fleet_row *row, const json_t *object);

void fleet_take_lease(struct fleet_row *row, const json_t *lease);
void fleet_take_node(struct fleet_row *row, const json_t *node);
void fleet_take_slice(struct fleet_row *row, const json_t *slice); /* v1, v1beta2 or v1beta1 */
void fleet_take_pod(struct fleet_row *row, const json_t *pod);     /* of dpu-host-agent */

#endif
