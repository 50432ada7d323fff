/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of the API server and the agent's identity there, from a kubeconfig or from within a
 * Pod.
 *
 * The rule: what kubectl accepts works here, or is refused by the field's name; tests/e2e/conf
 * holds it against client-go. Understood: clusters, users, contexts, current-context; server,
 * certificate-authority(-data), tls-server-name, proxy-url, insecure-skip-tls-verify (warned
 * about); client-certificate(-data), client-key(-data), token, tokenFile; as, as-uid, as-groups,
 * as-user-extra. What is empty or null is absent. Data counts before a file, but of a token the
 * file counts while it can be read. Relative paths are relative to the kubeconfig's directory.
 * Unsupported members (exec, auth-provider, username/password) are an error that names them.
 *
 * The secrets are read from their files and kept up to date (kube/kube_secret.h); so is the
 * kubeconfig itself, in the same way, because platforms put a token into it and write it anew.
 */
#ifndef KUBE_KUBE_CONF_H
#define KUBE_KUBE_CONF_H

#include "base/err.h"
#include "base/mem.h"
#include "base/time.h"
#include "kube/kube_secret.h"

#include <stdbool.h>
#include <sys/stat.h>

enum {
    KUBE_CONF_MAX_BYTES = 1 << 20,       /* of a kubeconfig */
    KUBE_CONF_MAX_FILES = 16,            /* of a list */
    KUBE_IMPERSONATION_MAX = 64,         /* headers that say whom the user acts as */
    KUBE_IMPERSONATION_MAX_BYTES = 1024, /* of one, but for its LF */
};

/* All texts owned, NULL if not given. */
struct kube_conf {
    char *server; /* https://HOST:PORT[/PREFIX], without a trailing slash */
    char *tls_server_name;
    char *proxy_url;   /* the one in use, as libcurl takes it: given, or from the environment */
    char *proxy_name;  /* the same without a password, and where it comes from, for messages */
    char *impersonate; /* whom the user acts as: headers "Impersonate-User: NAME" ..., each ended by
                          LF */
    char *path;        /* of the kubeconfig; NULL in a pod */
    char *context;     /* of it, where one was asked for by name; NULL: its current-context */
    char *origin;      /* "kubeconfig '/path' context 'x'" or "in-cluster": for messages */
    bool insecure_skip_tls_verify;
    kube_secrets secrets;

    /* Of keeping them up to date. */
    struct buf text; /* of the kubeconfig that this is */
    struct stat identity;
    char *problem; /* it cannot be used any more, which was said; NULL: it can */
    struct mono read_at;
    struct mono looked_at; /* at whether files have changed */
    struct log_repeat expiry_warnings;
    bool tls_changed; /* CA, certificate, key or kubeconfig differ since this was last cleared */
};

/* Reads a context of a kubeconfig, the current one if `context` is NULL or "". Without a `path`
 * (NULL or ""): as a pod knows the API server, by KUBERNETES_SERVICE_HOST/PORT and the service
 * account that is mounted. Errors: ERR_IO, ERR_PARSE, ERR_LIMIT; without a path ERR_NOTFOUND for a
 * context by name, and outside a pod. `out` is untouched then. */
NODISCARD int kube_conf_load(const char *path, const char *context, struct kube_conf *out,
                             struct err *e);

/* The same from a list of files with colons, as kubectl reads KUBECONFIG: files that do not exist
 * are skipped, and the first to name an entry or a current context decides. Such a configuration is
 * not read again. Errors as above; ERR_IO also if there is none. */
NODISCARD int kube_conf_load_list(const char *list, const char *context, struct kube_conf *out,
                                  struct err *e);

void kube_conf_fini(struct kube_conf *conf); /* accepts a zeroed one; wipes secrets */

/* Reads all files once, and checks them (kube/kube_secret.h). Errors: ERR_IO naming the file,
 * ERR_LIMIT, ERR_PARSE. */
NODISCARD int kube_conf_open(struct kube_conf *conf, struct mono now, struct err *e);

/* Re-reads what changed; `force` re-reads all. True if anything differs from before. Problems are
 * logged at most once a minute each (a kubeconfig's once) and leave the old content in force; a
 * credential that is about to run out, every hour. */
bool kube_conf_refresh(struct kube_conf *conf, struct mono now, bool force);

/* Why the kubeconfig or a file that it names is not usable, so that the last good credential is in
 * force; NULL: all is well. Borrowed until the next refresh. */
const char *kube_conf_problem(const struct kube_conf *conf);

/* NULL if there is none. Borrowed until the next refresh. */
const struct buf *kube_conf_secret(const struct kube_conf *conf, enum kube_secret which);

/* The CA, to be freed with X509_STORE_free(): libcurl would parse the text for each connection,
 * which is half of a handshake's cost. NULL if there is none, it cannot be parsed, or there is a
 * proxy, to which libcurl would show it, too: then libcurl takes the text. */
struct x509_store_st *kube_conf_parse_ca(const struct kube_conf *conf);

/* Of token and client certificate the one that runs out first. False if neither says when. */
bool kube_conf_expiry(const struct kube_conf *conf, struct kube_expiry *out);

#endif
