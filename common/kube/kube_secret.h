/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What proves to the API server who we are, and to us who it is: token, CA, client certificate and
 * key. Each is data, or read from a file and kept up to date: files are re-read by path when their
 * identity changes, and at least once a minute. A pipe is read once.
 *
 * Rotation is not atomic everywhere, so that what is on the disk counts only once it is usable: a
 * token of printable ASCII; a CA whose PEM blocks are whole; a certificate (with its chain) and a
 * key that belong together, which replace the old ones together. Until then the last good ones
 * stay in force. The CA is apart from them: neither needs the other, and a CA that stays damaged
 * for days must not keep a certificate from being renewed.
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
#define KUBE_BLANKS    " \t\r\n\v\f" /* what is cut off at both ends of a file, and of a token */

enum kube_secret {
    KUBE_SECRET_TOKEN,
    KUBE_SECRET_CA,
    KUBE_SECRET_CERT,
    KUBE_SECRET_KEY,
    KUBE_SECRETS
};

struct kube_secret_source {
    char *file;           /* NULL: it is given as data, or not at all */
    struct buf content;   /* in force; empty: there is none */
    struct stat identity; /* of the file as it was last looked at, usable or not */

    /* Of the part that begins with it: its files are not usable, and the last good content is in
     * force. */
    char *problem; /* why, or NULL; owned */
    struct mono problem_since;
    bool is_told;
    struct log_repeat complaint;
};

/* One of each. */
typedef struct kube_secret_source kube_secrets[KUBE_SECRETS];

void kube_secrets_fini(kube_secrets secrets); /* accepts zeroed ones; wipes them */

/* The field of a kubeconfig that gives one, as a file or as data. Static. */
const char *kube_secret_field(enum kube_secret which, bool is_file);

/* Whether a token can be sent: HTTP has no place for a line break, and RFC 6750 none for bytes
 * beyond ASCII. */
bool kube_token_is_usable(const char *token, size_t len);

/* Reads all files once, and checks what they hold, and what is given as data. A token file that is
 * not usable leaves the token that is given beside it in force (client-go). Errors, which name the
 * field: ERR_IO, ERR_LIMIT, ERR_PARSE. */
NODISCARD int kube_secrets_open(kube_secrets secrets, struct mono now, struct err *e);

/* Re-reads the files that changed; `all`: each one. True if anything differs from before. A problem
 * leaves the old content in force; one that lasts for two seconds (`all`: at once) is logged, at
 * most once a minute each. *out_tls_changed becomes true if CA, certificate or key differ, and is
 * left as it is otherwise. */
bool kube_secrets_refresh(kube_secrets secrets, struct mono now, bool all, bool *out_tls_changed);

/* Why a file is not usable, so that the last good content is in force; NULL: each is. Borrowed
 * until the next refresh. */
const char *kube_secrets_problem(const kube_secrets secrets);

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
