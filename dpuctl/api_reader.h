/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few requests to the API server, all at once, waited for: what a command needs, on top of the
 * asynchronous client. Reads; the only thing it ever posts is a question (an access review).
 */
#ifndef DPUCTL_API_READER_H
#define DPUCTL_API_READER_H

#include "base/attr.h"
#include "base/err.h"
#include "dpuctl/admin_options.h"
#include "kube/kube_client.h"

#include <jansson.h>
#include <stdbool.h>

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

#endif
