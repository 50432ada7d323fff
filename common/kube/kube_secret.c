/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_secret.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/text.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>
#include <time.h>

#define LATEST_S (INT64_MAX / NS_PER_SEC) /* in the year 2262: stands for all that is later */

enum {
    CLAIMS_MAX_BYTES = 10920, /* encoded; those of a bound token have about 900 */
    CLAIMS_DECODED_BYTES = BASE64_DECODED_BYTES(CLAIMS_MAX_BYTES),
};

void kube_wipe_text(char **text)
{
    if (*text) {
        explicit_bzero(*text, strlen(*text));
        free(TAKE(*text));
    }
}

void kube_wipe_buf(struct buf *b)
{
    if (b->data) {
        explicit_bzero(b->data, b->capacity);
    }
    buf_fini(b);
}

void kube_secrets_fini(kube_secrets secrets)
{
    for (size_t i = 0; i < KUBE_SECRETS; i++) {
        kube_wipe_text(&secrets[i].file);
        kube_wipe_buf(&secrets[i].content);
    }
}

/* ---- their files ----------------------------------------------------------------------------- */

static int read_file(const char *path, struct buf *out, struct stat *out_identity, struct err *e)
{
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, out_identity) != 0) {
        return err_set_errno(e, ERR_IO, errno, "reading '%s'", path);
    }
    int rc = file_read_fd(fd, path, out, e);
    if (rc != 0) {
        return rc;
    }
    while (out->len > 0 && strchr(" \t\r\n", out->data[out->len - 1])) {
        out->data[--out->len] = '\0'; /* a token file may end in a newline */
    }
    return out->len > 0 ? 0 : err_set(e, ERR_IO, "'%s' is empty", path);
}

static bool same_identity(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Replaces one secret by its file's content; *out_changed tells if it differs. */
static int load_secret(struct kube_secret_source *s, bool *out_changed, struct err *e)
{
    struct buf fresh;
    struct stat identity;
    fresh = (struct buf){.max_bytes = KUBE_SECRET_MAX_BYTES};
    int rc = read_file(s->file, &fresh, &identity, e);
    if (rc == 0) {
        s->identity = identity;
    }
    if (rc == 0 && !text_equal(buf_text(&fresh), buf_text(&s->content))) {
        struct buf former = s->content;
        s->content = fresh;
        fresh = former;
        *out_changed = true;
    }
    kube_wipe_buf(&fresh);
    return rc;
}

int kube_secrets_open(kube_secrets secrets, struct err *e)
{
    bool changed;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < KUBE_SECRETS; i++) {
        rc = secrets[i].file ? load_secret(&secrets[i], &changed, e) : 0;
    }
    return rc;
}

bool kube_file_is_news(const char *path, const struct stat *known, bool all)
{
    struct stat identity;
    if (!path || !S_ISREG(known->st_mode)) {
        return false;
    }
    return stat(path, &identity) != 0
               ? all
               : S_ISREG(identity.st_mode) && (all || !same_identity(&identity, known));
}

bool kube_secrets_refresh(kube_secrets secrets, bool all, bool *out_tls_changed)
{
    bool changed = false;
    for (size_t i = 0; i < KUBE_SECRETS; i++) {
        struct kube_secret_source *s = &secrets[i];
        struct err e = ERR_INIT;
        bool differs = false;
        if (kube_file_is_news(s->file, &s->identity, all) && load_secret(s, &differs, &e) != 0 &&
            all) {
            log_limited(&s->complaint, KUBE_REREAD_NS, LOG_WARN, "kube",
                        "%s, continuing with the last good credential", e.msg);
        }
        *out_tls_changed |= differs && i != KUBE_SECRET_TOKEN;
        changed |= differs;
    }
    return changed;
}

X509_STORE *kube_secrets_parse_ca(const kube_secrets secrets)
{
    const struct buf *pem = &secrets[KUBE_SECRET_CA].content;
    BIO *text = pem->len > 0 ? BIO_new_mem_buf(pem->data, (int)pem->len) : NULL;
    STACK_OF(X509_INFO) *found = text ? PEM_X509_INFO_read_bio(text, NULL, NULL, NULL) : NULL;
    X509_STORE *store = X509_STORE_new();
    bool is_any = false;
    for (int i = 0; i < sk_X509_INFO_num(found); i++) {
        X509 *certificate = sk_X509_INFO_value(found, i)->x509;
        is_any |= certificate && X509_STORE_add_cert(store, certificate);
    }
    /* As libcurl has it: a certificate of the file is trusted, whoever signed it. */
    (void)X509_STORE_set_flags(store, X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN);
    if (!is_any) {
        X509_STORE_free(TAKE(store));
    }
    sk_X509_INFO_pop_free(found, X509_INFO_free);
    BIO_free(text);
    ERR_clear_error();
    return store;
}

/* ---- until when one says that it holds --------------------------------------------------------
 */

static bool set_expiry(struct kube_expiry *out, int64_t from_s, int64_t until_s)
{
    int64_t end_s = until_s < LATEST_S ? until_s : LATEST_S;
    if (from_s < 0 || end_s <= from_s) {
        return false;
    }
    *out = (struct kube_expiry){{from_s * NS_PER_SEC}, {end_s * NS_PER_SEC}};
    return true;
}

static bool expiry_of_token(const struct buf *token, struct kube_expiry *out)
{
    unsigned char claims[CLAIMS_DECODED_BYTES];
    const char *first = strchr(buf_text(token), '.');
    const char *last = strrchr(buf_text(token), '.');
    if (!first) {
        return false;
    }
    const char *encoded = first + 1;               /* no base64 if there is a dot more in it */
    size_t encoded_len = (size_t)(last - encoded); /* of a single dot: more than there may be */
    size_t claims_len;
    if (encoded_len > CLAIMS_MAX_BYTES ||
        !base64_decode(encoded, encoded_len, claims, &claims_len)) {
        return false;
    }
    CLEANUP(json)
    json_t *tree = json_text_parse((const char *)claims, claims_len, NULL);
    const json_t *from = json_object_get(tree, "iat");
    const json_t *until = json_object_get(tree, "exp");
    return json_is_integer(from) && json_is_integer(until) &&
           set_expiry(out, json_integer_value(from), json_integer_value(until));
}

static int64_t seconds_of(const ASN1_TIME *time)
{
    struct tm parts;
    return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : -1;
}

static bool expiry_of_certificate(const struct buf *pem, struct kube_expiry *out)
{
    BIO *text = BIO_new_mem_buf(buf_text(pem), (int)pem->len);
    X509 *certificate = PEM_read_bio_X509(text, NULL, NULL, NULL);
    bool known = certificate && set_expiry(out, seconds_of(X509_get0_notBefore(certificate)),
                                           seconds_of(X509_get0_notAfter(certificate)));
    X509_free(certificate);
    BIO_free(text);
    ERR_clear_error();
    return known;
}

bool kube_expiry_is_near(const struct kube_expiry *expiry, struct wall now)
{
    return wall_since(expiry->until, now) <= wall_since(expiry->until, expiry->from) / 10;
}

bool kube_secrets_expiry(const kube_secrets secrets, struct kube_expiry *out)
{
    const struct buf *token = &secrets[KUBE_SECRET_TOKEN].content;
    const struct buf *pem = &secrets[KUBE_SECRET_CERT].content;
    struct kube_expiry certificate;
    bool has_token = expiry_of_token(token, out);
    if (!expiry_of_certificate(pem, &certificate)) {
        return has_token;
    }
    if (!has_token || certificate.until.ns < out->until.ns) {
        *out = certificate;
    }
    return true;
}
