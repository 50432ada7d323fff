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

#define PATIENCE_NS (2 * NS_PER_SEC)         /* what is being written is whole by then */
#define LATEST_S    (INT64_MAX / NS_PER_SEC) /* in the year 2262: stands for all that is later */

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
        free(TAKE(secrets[i].problem));
    }
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

/* ---- what is usable -------------------------------------------------------------------------- */

/* How a kubeconfig calls them. */
static const struct {
    const char *file;
    const char *data;
} fields[KUBE_SECRETS] = {
    [KUBE_SECRET_TOKEN] = {"tokenFile", "token"},
    [KUBE_SECRET_CA] = {"certificate-authority", "certificate-authority-data"},
    [KUBE_SECRET_CERT] = {"client-certificate", "client-certificate-data"},
    [KUBE_SECRET_KEY] = {"client-key", "client-key-data"},
};

const char *kube_secret_field(enum kube_secret which, bool is_file)
{
    return is_file ? fields[which].file : fields[which].data;
}

/* "client-key '/etc/x.key'" or "client-key-data". */
static const char *name_of(const kube_secrets secrets, enum kube_secret which,
                           char out[static ERR_MSG_BYTES])
{
    const char *file = secrets[which].file;
    text_format(out, ERR_MSG_BYTES, file ? "%s '%.160s'" : "%s", kube_secret_field(which, file),
                file);
    return out;
}

/* Of the secret that is named. */
static int refuse(const kube_secrets secrets, enum kube_secret which, const char *why,
                  struct err *e)
{
    char name[ERR_MSG_BYTES];
    return err_set(e, ERR_PARSE, "%s %s", name_of(secrets, which, name), why);
}

bool kube_token_is_usable(const char *token, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (token[i] < ' ' || token[i] > '~') {
            return false;
        }
    }
    return len > 0;
}

/* A file that is cut within the first line of its next block looks as if it ended before. */
static bool ends_with_block(const struct buf *pem)
{
    static const char end[] = "-----END ";
    const char *last = NULL;
    for (const char *at = strstr(buf_text(pem), "-----"); at; at = strstr(at, "-----")) {
        if (at == pem->data || at[-1] == '\n') {
            last = at;
        }
        at += 5;
    }
    return last && strncmp(last, end, sizeof(end) - 1) == 0 &&
           memmem(last + 5, strcspn(last, "\n") - 5, "-----", 5);
}

static BIO *open_pem(const struct buf *pem)
{
    return BIO_new_mem_buf(buf_text(pem), (int)pem->len);
}

/* Whether the last look for a further block found no beginning of one, rather than a damaged one.
 */
static bool was_at_end(void)
{
    bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    return is_end;
}

/* The certificates, CRLs and keys of a text, or NULL if it holds no certificate or a damaged
 * block. */
static STACK_OF(X509_INFO) * read_bundle(const struct buf *pem)
{
    BIO *text = open_pem(pem);
    STACK_OF(X509_INFO) *found = PEM_X509_INFO_read_bio(text, NULL, NULL, NULL);
    int certificates = 0;
    for (int i = 0; i < sk_X509_INFO_num(found); i++) {
        certificates += sk_X509_INFO_value(found, i)->x509 != NULL;
    }
    BIO_free(text);
    ERR_clear_error();
    if (certificates == 0) {
        sk_X509_INFO_pop_free(found, X509_INFO_free);
        return NULL;
    }
    return found;
}

static int check_ca(const kube_secrets secrets, const struct buf *pem, struct err *e)
{
    STACK_OF(X509_INFO) *found = read_bundle(pem);
    bool is_well = found && ends_with_block(pem);
    sk_X509_INFO_pop_free(found, X509_INFO_free);
    return is_well ? 0
                   : refuse(secrets, KUBE_SECRET_CA,
                            "is not usable: it holds no certificate as PEM, or a damaged one", e);
}

/* The first certificate of a chain that is whole; NULL: there is none. */
static X509 *read_chain(const struct buf *pem)
{
    X509 *more = NULL;
    BIO *text = open_pem(pem);
    X509 *first = PEM_read_bio_X509_AUX(text, NULL, NULL, NULL);
    do {
        X509_free(more);
        more = first ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;
    } while (more);
    if (first && (!was_at_end() || !ends_with_block(pem))) {
        X509_free(TAKE(first));
    }
    BIO_free(text);
    ERR_clear_error();
    return first;
}

/* Nobody is there to type it. */
static int give_no_password(char *out, int bytes, int is_for_writing, void *user)
{
    bool *was_asked = user;
    *was_asked = true;
    return -1;
}

static EVP_PKEY *read_key(const struct buf *pem, bool *out_is_encrypted)
{
    BIO *text = open_pem(pem);
    *out_is_encrypted = false;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(text, NULL, give_no_password, out_is_encrypted);
    BIO_free(text);
    ERR_clear_error();
    return key;
}

static int check_pair(const kube_secrets secrets, const struct buf *cert, const struct buf *key,
                      struct err *e)
{
    bool is_encrypted;
    char name[ERR_MSG_BYTES];
    X509 *certificate = read_chain(cert);
    EVP_PKEY *private_key = read_key(key, &is_encrypted);
    int rc = 0;
    if (!certificate) {
        rc = refuse(secrets, KUBE_SECRET_CERT,
                    "is not usable: it holds no certificate as PEM, or a damaged one", e);
    } else if (!private_key) {
        rc =
            refuse(secrets, KUBE_SECRET_KEY,
                   is_encrypted ? "is not usable: the private key is encrypted"
                                : "is not usable: it holds no private key as PEM, or a damaged one",
                   e);
    } else if (X509_check_private_key(certificate, private_key) != 1) {
        rc = err_set(e, ERR_PARSE, "%s is not usable: it does not belong to the private key",
                     name_of(secrets, KUBE_SECRET_CERT, name));
    }
    EVP_PKEY_free(private_key);
    X509_free(certificate);
    ERR_clear_error();
    return rc;
}

X509_STORE *kube_secrets_parse_ca(const kube_secrets secrets)
{
    STACK_OF(X509_INFO) *found = read_bundle(&secrets[KUBE_SECRET_CA].content);
    X509_STORE *store = X509_STORE_new();
    bool is_any = false;
    if (!store) { /* OpenSSL's allocator is its own */
        mem_exhausted();
    }
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
    ERR_clear_error();
    return store;
}

/* ---- their files ----------------------------------------------------------------------------- */

/* What works only together is read, checked and taken over together. */
static const struct part {
    enum kube_secret first, last;
} parts[] = {
    {KUBE_SECRET_TOKEN, KUBE_SECRET_TOKEN},
    {KUBE_SECRET_CA, KUBE_SECRET_CA},
    {KUBE_SECRET_CERT, KUBE_SECRET_KEY},
};

/* Without the blanks around it: a token file may end in a newline, or begin with one. */
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
    size_t blanks = strspn(buf_text(out), KUBE_BLANKS);
    while (out->len > blanks && strchr(KUBE_BLANKS, out->data[out->len - 1])) {
        out->data[--out->len] = '\0';
    }
    buf_consume(out, blanks);
    return out->len > 0 ? 0 : err_set(e, ERR_IO, "'%s' is empty", path);
}

static bool same_identity(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Or something else that is no file; one that was never seen (all zero) may become one. */
static bool is_pipe(const struct stat *known)
{
    return known->st_mode != 0 && !S_ISREG(known->st_mode);
}

bool kube_file_is_news(const char *path, const struct stat *known, bool all)
{
    struct stat identity;
    if (!path || is_pipe(known)) {
        return false;
    }
    return stat(path, &identity) != 0
               ? all
               : S_ISREG(identity.st_mode) && (all || !same_identity(&identity, known));
}

/* What the secret is now, into `out`: its file is read anew. What is given as data stays what it
 * is, and so does what came out of a pipe, which has been emptied by the first reading. */
static int read_source(struct kube_secret_source *s, const char *field, bool is_first,
                       struct buf *out, struct err *e)
{
    struct stat now;
    bool is_kept = !s->file || (!is_first && is_pipe(&s->identity));
    *out = (struct buf){.max_bytes = KUBE_SECRET_MAX_BYTES};
    if (is_kept) {
        return s->content.len > 0 ? buf_append(out, s->content.data, s->content.len, e) : 0;
    }
    if (!is_first && stat(s->file, &now) == 0 && is_pipe(&now)) {
        return err_set(e, ERR_IO, "%s '%s' has become a pipe", field, s->file);
    }
    if (read_file(s->file, out, &s->identity, e) != 0) {
        return err_wrap(e, "%s", field);
    }
    return 0;
}

/* Reads all of a part into `fresh`, up to the first that cannot be read. */
static int read_part(kube_secrets secrets, const struct part *p, bool is_first,
                     struct buf fresh[static KUBE_SECRETS], struct err *e)
{
    for (enum kube_secret i = p->first; i <= p->last; i++) {
        int rc = read_source(&secrets[i], kube_secret_field(i, true), is_first, &fresh[i], e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int check_part(const kube_secrets secrets, const struct part *p,
                      const struct buf fresh[static KUBE_SECRETS], struct err *e)
{
    const struct buf *content = &fresh[p->first];
    if (content->len == 0) {
        return 0; /* there is none */
    }
    if (p->first == KUBE_SECRET_CA) {
        return check_ca(secrets, content, e);
    }
    if (p->first == KUBE_SECRET_CERT) {
        return check_pair(secrets, content, &fresh[KUBE_SECRET_KEY], e);
    }
    return kube_token_is_usable(content->data, content->len)
               ? 0
               : refuse(secrets, KUBE_SECRET_TOKEN,
                        "is not usable: a token has no line break and no byte beyond ASCII", e);
}

/* Takes the part over as a whole, if its files can be read and used. *out_changed becomes true if
 * it differs. */
static int load_part(kube_secrets secrets, const struct part *p, bool is_first, bool *out_changed,
                     struct err *e)
{
    struct buf fresh[KUBE_SECRETS] = {{.len = 0}};
    int rc = read_part(secrets, p, is_first, fresh, e);
    if (rc == 0) {
        rc = check_part(secrets, p, fresh, e);
    }
    for (enum kube_secret i = p->first; i <= p->last; i++) {
        struct buf former = secrets[i].content;
        if (rc == 0 && !text_equal(buf_text(&fresh[i]), buf_text(&former))) {
            secrets[i].content = fresh[i];
            fresh[i] = former;
            *out_changed = true;
        }
        kube_wipe_buf(&fresh[i]);
    }
    return rc;
}

/* Which one that is. */
static void describe_used(const kube_secrets secrets, const struct part *p,
                          char out[static ERR_MSG_BYTES])
{
    char subject[128] = "";
    struct kube_expiry expiry;
    const struct buf *content = &secrets[p->first].content;
    X509 *certificate = p->first == KUBE_SECRET_TOKEN ? NULL : read_chain(content);
    bool is_known = p->first == KUBE_SECRET_TOKEN ? expiry_of_token(content, &expiry)
                                                  : expiry_of_certificate(content, &expiry);
    if (certificate) {
        (void)X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof(subject));
    }
    X509_free(certificate);
    text_format(out, ERR_MSG_BYTES, "%s%s%s%s", certificate ? ": " : "", subject,
                is_known ? ", valid until " : "",
                is_known ? rfc3339_text(expiry.until, false).text : "");
}

static void note_problem(kube_secrets secrets, const struct part *p, struct mono now, bool is_told,
                         const char *what)
{
    char used[ERR_MSG_BYTES];
    struct kube_secret_source *s = &secrets[p->first];
    if (!s->problem) {
        s->problem_since = now;
    }
    free(s->problem);
    s->problem = mem_strdup(what);
    if (is_told || mono_since(now, s->problem_since) >= PATIENCE_NS) {
        describe_used(secrets, p, used);
        s->is_told |= log_limited(&s->complaint, KUBE_REREAD_NS, LOG_WARN, "kube",
                                  "%s, continuing with the last good credential%s", what, used);
    }
}

static void forget_problem(struct kube_secret_source *s)
{
    if (s->is_told) {
        log_info("kube", "%s is usable again", s->file);
    }
    s->is_told = false;
    free(TAKE(s->problem));
    log_repeat_reset(&s->complaint);
}

int kube_secrets_open(kube_secrets secrets, struct mono now, struct err *e)
{
    bool changed;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct err why = ERR_INIT;
        const struct part *p = &parts[i];
        int rc = load_part(secrets, p, true, &changed, &why);
        if (rc != 0 && (!secrets[p->first].file || secrets[p->first].content.len == 0)) {
            return err_set(e, rc, "%s", why.msg);
        }
        if (rc != 0) {
            note_problem(secrets, p, now, true, why.msg);
        }
    }
    return 0;
}

bool kube_secrets_refresh(kube_secrets secrets, struct mono now, bool all, bool *out_tls_changed)
{
    bool changed = false;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        struct err e = ERR_INIT;
        const struct part *p = &parts[i];
        struct kube_secret_source *s = &secrets[p->first];
        bool is_news = false;
        bool differs = false;
        for (enum kube_secret j = p->first; j <= p->last; j++) {
            is_news |= kube_file_is_news(secrets[j].file, &secrets[j].identity, all);
        }
        if (is_news && load_part(secrets, p, false, &differs, &e) == 0) {
            forget_problem(s);
        } else if (is_news || s->problem) {
            CLEANUP(free) char *what = mem_strdup(is_news ? e.msg : s->problem);
            note_problem(secrets, p, now, all, what);
        }
        *out_tls_changed |= differs && i > 0;
        changed |= differs;
    }
    return changed;
}

const char *kube_secrets_problem(const kube_secrets secrets)
{
    for (size_t i = 0; i < KUBE_SECRETS; i++) {
        if (secrets[i].problem) {
            return secrets[i].problem;
        }
    }
    return NULL;
}
