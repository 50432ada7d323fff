/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What proves to the API server who we are, and to us who it is: token, CA, client certificate and
 * key. Each is data, or read from a file and kept up to date: files are re-read by path when their
 * identity changes, and at least once a minute. One that is empty, malformed or unreadable
 * meanwhile leaves the old content in force: rotation is not atomic everywhere. A pipe is read
 * once.
 */
#ifndef KUBE_KUBE_SECRET_H
#define KUBE_KUBE_SECRET_H

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"

#include <stdbool.h>
#include <sys/stat.h>

enum {
    KUBE_SECRET_MAX_BYTES = 1 << 20, /* of a token, key or certificate file: a whole CA bundle */
};

#define KUBE_REREAD_NS (60 * NS_PER_SEC) /* at least so often, and of complaints at most */

enum kube_secret {
    KUBE_SECRET_TOKEN,
    KUBE_SECRET_CA,
    KUBE_SECRET_CERT,
    KUBE_SECRET_KEY,
    KUBE_SECRETS
};

struct kube_secret_source {
    char *file;         /* NULL: it is given as data, which wins (client-go), or not at all */
    struct buf content; /* empty: there is none */
    struct stat identity;
    struct log_repeat complaint;
};

/* One of each. */
typedef struct kube_secret_source kube_secrets[KUBE_SECRETS];

void kube_secrets_fini(kube_secrets secrets); /* accepts zeroed ones; wipes them */

/* Reads all files once. Errors: ERR_IO naming the file, ERR_LIMIT. */
NODISCARD int kube_secrets_open(kube_secrets secrets, struct err *e);

/* Re-reads the files that changed; `all`: each one. True if anything differs from before. Problems
 * are logged at most once a minute each and leave the old content in force. *out_tls_changed
 * becomes true if CA, certificate or key differ, and is left as it is otherwise. */
bool kube_secrets_refresh(kube_secrets secrets, bool all, bool *out_tls_changed);

/* The CA, to be freed with X509_STORE_free(). NULL if there is none, or it cannot be parsed. */
struct x509_store_st *kube_secrets_parse_ca(const kube_secrets secrets);

/* Whether a file is to be read again: it is no longer what was `known`. `all`: even if it looks
 * unchanged. A pipe says it once, and opening one may wait for ever. */
bool kube_file_is_news(const char *path, const struct stat *known, bool all);

/* Overwrites and frees what was secret. */
void kube_wipe_text(char **text);
void kube_wipe_buf(struct buf *b);

/* ---- until when one says that it holds ----
 *
 * For metrics, warnings and dpuctl. No signature is looked at and nothing is decided by it; the API
 * server does both. */

struct kube_expiry {
    struct wall from;
    struct wall until; /* later than `from` */
};

/* Of the token (a JSON Web Token with `exp` and `iat`, RFC 7519) and the first client certificate
 * (RFC 5280) the one that runs out first. False if neither says when. */
bool kube_secrets_expiry(const kube_secrets secrets, struct kube_expiry *out);

/* A tenth of its time is left, or less: whatever renews it should have done so. The kubelet
 * replaces a pod's token when a fifth is left. */
bool kube_expiry_is_near(const struct kube_expiry *expiry, struct wall now);

#endif
