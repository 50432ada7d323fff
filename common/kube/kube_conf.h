/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to reach an API server and who we are there: from a kubeconfig or from within a pod.
 *
 * Understood: clusters, users, contexts, current-context; server, certificate-authority(-data),
 * tls-server-name, proxy-url, insecure-skip-tls-verify (warned about); client-certificate(-data),
 * client-key(-data), token, tokenFile; as, as-uid, as-groups, as-user-extra. Relative paths are
 * relative to the kubeconfig's directory. What we cannot do (exec, auth-provider,
 * username/password) is an error that names it, never skipped.
 */
#ifndef KUBE_KUBE_CONF_H
#define KUBE_KUBE_CONF_H

#include "base/attr.h"
#include "base/err.h"
#include "kube/kube_impersonation.h"

#include <stdbool.h>

enum {
    KUBE_CONF_MAX_BYTES = 1 << 20,   /* of a kubeconfig */
    KUBE_SECRET_MAX_BYTES = 1 << 20, /* of a token, key or certificate file: a whole CA bundle */
};

/* All texts owned, NULL if not given. Of each pair of file and data, data wins (client-go). */
struct kube_conf {
    char *server; /* https://HOST:PORT[/PREFIX], without a trailing slash */
    char *ca_file;
    char *ca_pem;
    char *tls_server_name;
    char *proxy_url;
    bool insecure_skip_tls_verify;
    char *client_cert_file;
    char *client_cert_pem;
    char *client_key_file;
    char *client_key_pem;
    char *token;
    char *token_file;
    struct kube_impersonation as;
    char *path;    /* of the kubeconfig; NULL in a pod */
    char *context; /* of it, where one was asked for by name; NULL: its current-context */
    char *origin;  /* "kubeconfig '/path' context 'x'" or "in-cluster": for messages */
};

/* Reads the current-context of a kubeconfig.
 * Errors: ERR_IO, ERR_PARSE, ERR_LIMIT, ERR_NOMEM; `out` is untouched then. */
NODISCARD int kube_conf_load_file(const char *path, struct kube_conf *out, struct err *e);

/* The same of the context of that name; NULL or "": the current one. */
NODISCARD int kube_conf_load_context(const char *path, const char *context, struct kube_conf *out,
                                     struct err *e);

/* KUBERNETES_SERVICE_HOST/PORT and the service account mounted at `account_dir` (NULL: the usual
 * /var/run/secrets/kubernetes.io/serviceaccount). Errors: ERR_NOTFOUND outside a pod, ERR_NOMEM. */
NODISCARD int kube_conf_load_in_cluster(const char *account_dir, struct kube_conf *out,
                                        struct err *e);

/* All members; of files their names. */
bool kube_conf_equal(const struct kube_conf *a, const struct kube_conf *b);

void kube_conf_fini(struct kube_conf *conf); /* accepts a zeroed one; wipes secrets */

#endif
