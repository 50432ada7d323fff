/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_conf.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "loop/yaml_tree.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define REREAD_NS      (60 * NS_PER_SEC)
#define WARN_EXPIRY_NS (NS_PER_SEC * 6 * 3600)
#define LATEST_S       (INT64_MAX / NS_PER_SEC) /* in the year 2262: stands for all that is later */

enum {
    SERVER_MAX_BYTES = 1024,
    CLAIMS_MAX_BYTES = 10920, /* encoded; those of a bound token have about 900 */
    CLAIMS_DECODED_BYTES = BASE64_DECODED_BYTES(CLAIMS_MAX_BYTES),
};

/* ---- a configuration ------------------------------------------------------------------------- */

#define MEMBER(name) offsetof(struct kube_conf, name)

/* The members that are texts. */
static const size_t texts[] = {
    MEMBER(server),
    MEMBER(ca_file),
    MEMBER(ca_pem),
    MEMBER(tls_server_name),
    MEMBER(proxy_url),
    MEMBER(client_cert_file),
    MEMBER(client_cert_pem),
    MEMBER(client_key_file),
    MEMBER(client_key_pem),
    MEMBER(token),
    MEMBER(token_file),
    MEMBER(impersonate),
    MEMBER(path),
    MEMBER(context),
    MEMBER(origin),
};

static char **text_at(const struct kube_conf *conf, size_t offset)
{
    return (char **)((char *)(uintptr_t)conf + offset);
}

bool kube_conf_equal(const struct kube_conf *a, const struct kube_conf *b)
{
    bool is_equal = a->insecure_skip_tls_verify == b->insecure_skip_tls_verify;
    for (size_t i = 0; is_equal && i < ARRAY_LEN(texts); i++) {
        is_equal = text_equal(*text_at(a, texts[i]), *text_at(b, texts[i]));
    }
    return is_equal;
}

void kube_conf_fini(struct kube_conf *conf)
{
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char **text = text_at(conf, texts[i]);
        if (*text) {
            explicit_bzero(*text, strlen(*text));
            free(TAKE(*text));
        }
    }
}

int kube_conf_load_in_cluster(const char *account_dir, struct kube_conf *out, struct err *e)
{
    const char *dir = account_dir ? account_dir : "/var/run/secrets/kubernetes.io/serviceaccount";
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    if (text_is_empty(host) || text_is_empty(port)) {
        return err_set(e, ERR_NOTFOUND,
                       "no --kubeconfig is given, and this is not a pod: KUBERNETES_SERVICE_HOST "
                       "and KUBERNETES_SERVICE_PORT are not set");
    }
    bool ipv6 = strchr(host, ':') && host[0] != '[';
    *out = (struct kube_conf){
        .server = mem_format("https://%s%s%s:%s", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port),
        .token_file = mem_format("%s/token", dir),
        .ca_file = mem_format("%s/ca.crt", dir),
        .origin = mem_strdup("in-cluster service account"),
    };
    return 0;
}

/* ---- a kubeconfig ---------------------------------------------------------------------------- */

/* The file being read and the configuration being filled. */
struct reader {
    struct yaml_tree yaml;
    const char *path;
    struct kube_conf conf;
    size_t names; /* to act as */
};

/* An error that names the file and the line of `node`. */
PRINTF_LIKE(5, 6)
static int refuse_node(const struct reader *r, int code, const yaml_node_t *node, struct err *e,
                       const char *fmt, ...)
{
    char what[sizeof(e->msg)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap); /* cut, as the message is */
    va_end(ap);
    return err_set(e, code, "'%s' line %zu: %s", r->path, yaml_tree_line(node), what);
}

/* Returns owned text, or NULL if `in` is not base64 of text. */
static char *decode_text(const char *in)
{
    size_t len = strlen(in);
    size_t used;
    CLEANUP(free) char *out = mem_alloc(BASE64_DECODED_BYTES(len) + 1);
    if (!base64_decode(BASE64_STANDARD, in, len, (unsigned char *)out, &used) || used == 0 ||
        memchr(out, '\0', used)) {
        return NULL;
    }
    out[used] = '\0';
    return TAKE(out);
}

enum form { TEXT, PATH, PEM }; /* PATH: from the kubeconfig's directory; PEM: in base64 */

struct member {
    const char *key;
    enum form form;
    size_t at;
};

static const struct member cluster_members[] = {
    {"server", TEXT, MEMBER(server)},
    {"certificate-authority", PATH, MEMBER(ca_file)},
    {"certificate-authority-data", PEM, MEMBER(ca_pem)},
    {"tls-server-name", TEXT, MEMBER(tls_server_name)},
    {"proxy-url", TEXT, MEMBER(proxy_url)},
};

static const struct member user_members[] = {
    {"client-certificate", PATH, MEMBER(client_cert_file)},
    {"client-certificate-data", PEM, MEMBER(client_cert_pem)},
    {"client-key", PATH, MEMBER(client_key_file)},
    {"client-key-data", PEM, MEMBER(client_key_pem)},
    {"token", TEXT, MEMBER(token)},
    {"tokenFile", PATH, MEMBER(token_file)},
};

static int read_member(struct reader *r, yaml_node_t *mapping, const struct member *m,
                       struct err *e)
{
    const char *text;
    char **slot = text_at(&r->conf, m->at);
    const char *slash = strrchr(r->path, '/');
    int rc = yaml_tree_text(&r->yaml, mapping, m->key, &text, e);
    if (rc != 0 || !text) {
        return rc;
    }
    if (m->form == PEM) {
        *slot = decode_text(text);
        return *slot ? 0
                     : refuse_node(r, ERR_PARSE, yaml_tree_get(&r->yaml, mapping, m->key), e,
                                   "'%s' is not base64 of PEM text", m->key);
    }
    bool is_relative = m->form == PATH && text[0] != '/' && slash;
    *slot = is_relative ? mem_format("%.*s/%s", (int)(slash - r->path), r->path, text)
                        : mem_strdup(text);
    return 0;
}

static int read_members(struct reader *r, yaml_node_t *mapping, const struct member *members,
                        size_t count, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = read_member(r, mapping, &members[i], e);
    }
    return rc;
}

static int check_server(struct reader *r, yaml_node_t *cluster, struct err *e)
{
    char *server = r->conf.server;
    const yaml_node_t *node = yaml_tree_get(&r->yaml, cluster, "server");
    if (!server) {
        return refuse_node(r, ERR_PARSE, cluster, e, "the cluster has no 'server'");
    }
    if (strchr(server, '@')) { /* not shown: it may hold a password */
        return refuse_node(r, ERR_PARSE, node, e,
                           "'server' names a user: credentials belong below 'users'");
    }
    const char *host = strstr(server, "://");
    bool known = strncmp(server, "https://", 8) == 0 || strncmp(server, "http://", 7) == 0;
    if (!known || host[3] == '\0' || host[3] == '/' || strpbrk(host, "?# ") ||
        strlen(server) > SERVER_MAX_BYTES) {
        char shown[80];
        text_sanitize(shown, sizeof(shown), server, strlen(server));
        return refuse_node(r, ERR_PARSE, node, e, "server '%s' is not a URL like https://HOST:6443",
                           shown);
    }
    for (size_t len = strlen(server); len > 0 && server[len - 1] == '/'; len--) {
        server[len - 1] = '\0';
    }
    return 0;
}

static int read_cluster(struct reader *r, yaml_node_t *cluster, struct err *e)
{
    struct kube_conf *c = &r->conf;
    int rc = read_members(r, cluster, cluster_members, ARRAY_LEN(cluster_members), e);
    if (rc != 0 || (rc = check_server(r, cluster, e)) != 0 ||
        (rc = yaml_tree_bool(&r->yaml, cluster, "insecure-skip-tls-verify",
                             &c->insecure_skip_tls_verify, e)) != 0) {
        return rc;
    }
    if (c->insecure_skip_tls_verify && (c->ca_file || c->ca_pem)) {
        return refuse_node(r, ERR_PARSE, cluster, e,
                           "insecure-skip-tls-verify and certificate-authority exclude each other");
    }
    return 0;
}

/* ---- whom the user acts as ---- */

/* Adds the header "NAME: VALUE" of a scalar node. */
static int add_name(struct reader *r, const char *name, const char *key, const yaml_node_t *node,
                    struct err *e)
{
    const char *value = (const char *)node->data.scalar.value;
    size_t len = node->type == YAML_SCALAR_NODE ? node->data.scalar.length : 0;
    if (len == 0) {
        return refuse_node(r, ERR_PARSE, node, e, "'%s' has a value that is not text", key);
    }
    for (size_t i = 0; i < len; i++) {
        if (iscntrl((unsigned char)value[i])) {
            return refuse_node(r, ERR_PARSE, node, e, "'%s' holds a control character", key);
        }
    }
    if (r->names++ == KUBE_IMPERSONATION_MAX || strlen(name) + len > KUBE_IMPERSONATION_MAX_BYTES) {
        return refuse_node(r, ERR_LIMIT, node, e,
                           "'%s': more than %d names to act as, or one longer than %d bytes", key,
                           (int)KUBE_IMPERSONATION_MAX, (int)KUBE_IMPERSONATION_MAX_BYTES);
    }
    CLEANUP(free) char *others = r->conf.impersonate;
    r->conf.impersonate = mem_format("%s%s: %s\n", others ? others : "", name, value);
    return 0;
}

static int add_names(struct reader *r, const char *name, const char *key, const yaml_node_t *list,
                     struct err *e)
{
    int rc = 0;
    if (list->type != YAML_SEQUENCE_NODE) {
        return refuse_node(r, ERR_PARSE, list, e, "'%s' is not a list", key);
    }
    for (yaml_node_item_t *item = list->data.sequence.items.start;
         rc == 0 && item < list->data.sequence.items.top; item++) {
        rc = add_name(r, name, key, yaml_document_get_node(&r->yaml.document, *item), e);
    }
    return rc;
}

/* The name of an extra's header. What may not stand in a header's name is percent-encoded; the API
 * server decodes it. */
static int name_extra(struct reader *r, const yaml_node_t *key, char *out, size_t out_bytes,
                      struct err *e)
{
    size_t len = key->type == YAML_SCALAR_NODE ? key->data.scalar.length : 0;
    text_format(out, out_bytes, "Impersonate-Extra-");
    size_t at = strlen(out);
    if (len == 0 || at + 3 * len >= out_bytes) {
        return refuse_node(r, ERR_PARSE, key, e,
                           "'as-user-extra' has a key that is empty, too long or not text");
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = key->data.scalar.value[i];
        bool is_plain = c < 0x80 && (isalnum(c) || (c != '\0' && strchr("!#$&'*+-.^_`|~", c)));
        text_format(out + at, out_bytes - at, is_plain ? "%c" : "%%%02X", c);
        at += strlen(out + at);
    }
    return 0;
}

static int add_extras(struct reader *r, const yaml_node_t *extra, struct err *e)
{
    yaml_document_t *document = &r->yaml.document;
    int rc = 0;
    if (extra->type != YAML_MAPPING_NODE) {
        return refuse_node(r, ERR_PARSE, extra, e, "'as-user-extra' is not a mapping");
    }
    for (yaml_node_pair_t *pair = extra->data.mapping.pairs.start;
         rc == 0 && pair < extra->data.mapping.pairs.top; pair++) {
        char name[KUBE_IMPERSONATION_MAX_BYTES];
        rc = name_extra(r, yaml_document_get_node(document, pair->key), name, sizeof(name), e);
        if (rc == 0) {
            rc = add_names(r, name, "as-user-extra", yaml_document_get_node(document, pair->value),
                           e);
        }
    }
    return rc;
}

/* The value of a key, or NULL if it is absent, empty or null. */
static const yaml_node_t *value_of(struct reader *r, yaml_node_t *user, const char *key)
{
    const yaml_node_t *node = yaml_tree_get(&r->yaml, user, key);
    const char *text;
    bool is_none = node && node->type == YAML_SCALAR_NODE &&
                   yaml_tree_text(&r->yaml, user, key, &text, NULL) == 0 && !text;
    return is_none ? NULL : node;
}

static int read_impersonation(struct reader *r, yaml_node_t *user, struct err *e)
{
    const yaml_node_t *as = value_of(r, user, "as");
    const yaml_node_t *uid = value_of(r, user, "as-uid");
    const yaml_node_t *groups = value_of(r, user, "as-groups");
    const yaml_node_t *extra = value_of(r, user, "as-user-extra");
    int rc = 0;
    if (!as && (uid || groups || extra)) {
        return refuse_node(r, ERR_PARSE, user, e, "'as' is missing: whose '%s' is this?",
                           uid      ? "as-uid"
                           : groups ? "as-groups"
                                    : "as-user-extra");
    }
    if ((as && (rc = add_name(r, "Impersonate-User", "as", as, e)) != 0) ||
        (uid && (rc = add_name(r, "Impersonate-Uid", "as-uid", uid, e)) != 0) ||
        (groups && (rc = add_names(r, "Impersonate-Group", "as-groups", groups, e)) != 0)) {
        return rc;
    }
    return extra ? add_extras(r, extra, e) : 0;
}

static int read_user(struct reader *r, yaml_node_t *user, struct err *e)
{
    /* What we cannot do is said, not skipped: without it the API server would see somebody else. */
    static const char *const unsupported[] = {"exec", "auth-provider", "username", "password"};
    const struct kube_conf *c = &r->conf;
    for (size_t i = 0; i < ARRAY_LEN(unsupported); i++) {
        const yaml_node_t *node = yaml_tree_get(&r->yaml, user, unsupported[i]);
        if (node) {
            return refuse_node(
                r, ERR_PARSE, node, e,
                "'%s' is not supported: use a token, tokenFile or a client certificate",
                unsupported[i]);
        }
    }
    int rc = read_members(r, user, user_members, ARRAY_LEN(user_members), e);
    if (rc != 0 || (rc = read_impersonation(r, user, e)) != 0) {
        return rc;
    }
    bool cert = c->client_cert_file || c->client_cert_pem;
    bool key = c->client_key_file || c->client_key_pem;
    if (cert != key) {
        return refuse_node(r, ERR_PARSE, user, e, "%s is missing",
                           cert ? "client-key" : "client-certificate");
    }
    return 0;
}

static int read_context(struct reader *r, struct err *e)
{
    yaml_node_t *node;
    const char *name = r->conf.context;
    const char *cluster_name = NULL;
    const char *user_name = NULL;
    int rc = name ? 0
                  : yaml_tree_text(&r->yaml, yaml_document_get_root_node(&r->yaml.document),
                                   "current-context", &name, e);
    if (rc == 0 && !name) {
        return err_set(e, ERR_PARSE, "'%s' has no current-context", r->path);
    }
    if (rc != 0 || (rc = yaml_tree_named(&r->yaml, "contexts", name, "context", &node, e)) != 0 ||
        (rc = yaml_tree_text(&r->yaml, node, "cluster", &cluster_name, e)) != 0 ||
        (rc = yaml_tree_text(&r->yaml, node, "user", &user_name, e)) != 0) {
        return rc;
    }
    if (!cluster_name) {
        return refuse_node(r, ERR_PARSE, node, e, "context '%s' names no cluster", name);
    }
    rc = yaml_tree_named(&r->yaml, "clusters", cluster_name, "cluster", &node, e);
    if (rc != 0 || (rc = read_cluster(r, node, e)) != 0) {
        return rc;
    }
    if (user_name && /* none: anonymous */
        ((rc = yaml_tree_named(&r->yaml, "users", user_name, "user", &node, e)) != 0 ||
         (rc = read_user(r, node, e)) != 0)) {
        return rc;
    }
    r->conf.path = mem_strdup(r->path);
    r->conf.origin = mem_format("kubeconfig '%s' context '%s'", r->path, name);
    return 0;
}

static void wipe_buf(struct buf *b)
{
    if (b->data) {
        explicit_bzero(b->data, b->capacity);
    }
    buf_fini(b);
}

static int read_kubeconfig(const char *path, struct yaml_tree *out, struct err *e)
{
    struct buf text;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC); /* it may be a pipe */
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "opening kubeconfig '%s'", path);
    }
    buf_init(&text, KUBE_CONF_MAX_BYTES);
    int rc = file_read_fd(fd, path, &text, e);
    rc = rc != 0 ? err_wrap(e, "kubeconfig")
                 : yaml_tree_init(out, "", path, buf_text(&text), text.len, e);
    wipe_buf(&text);
    const yaml_node_t *root = rc == 0 ? yaml_tree_root(out) : NULL;
    if (rc == 0 && (!root || root->type != YAML_MAPPING_NODE)) {
        yaml_tree_fini(out);
        return err_set(e, ERR_PARSE, "'%s' is not a kubeconfig: it holds no mapping", path);
    }
    return rc;
}

int kube_conf_load_context(const char *path, const char *context, struct kube_conf *out,
                           struct err *e)
{
    struct reader r = {.path = path};
    int rc = read_kubeconfig(path, &r.yaml, e);
    if (rc != 0) {
        return rc;
    }
    r.conf.context = text_is_empty(context) ? NULL : mem_strdup(context);
    rc = read_context(&r, e);
    yaml_tree_fini(&r.yaml);
    if (rc != 0) {
        kube_conf_fini(&r.conf);
        return rc;
    }
    *out = r.conf;
    return 0;
}

int kube_conf_load_file(const char *path, struct kube_conf *out, struct err *e)
{
    return text_is_empty(path) ? kube_conf_load_in_cluster(NULL, out, e)
                               : kube_conf_load_context(path, NULL, out, e);
}

/* ---- the secrets ----------------------------------------------------------------------------- */

static const struct {
    size_t data;
    size_t file;
} secrets[KUBE_SECRETS] = {
    [KUBE_SECRET_TOKEN] = {MEMBER(token), MEMBER(token_file)},
    [KUBE_SECRET_CA] = {MEMBER(ca_pem), MEMBER(ca_file)},
    [KUBE_SECRET_CERT] = {MEMBER(client_cert_pem), MEMBER(client_cert_file)},
    [KUBE_SECRET_KEY] = {MEMBER(client_key_pem), MEMBER(client_key_file)},
};

static const char *data_of(const struct kube_conf *conf, int which)
{
    return *text_at(conf, secrets[which].data);
}

/* NULL if it is given otherwise, or not at all. */
static const char *file_of(const struct kube_conf *conf, int which)
{
    return data_of(conf, which) ? NULL : *text_at(conf, secrets[which].file);
}

static int read_secret(const char *path, struct buf *out, struct stat *out_identity, struct err *e)
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
static int load_secret(struct kube_cred *cred, int which, bool *out_changed, struct err *e)
{
    struct buf fresh;
    struct stat identity;
    buf_init(&fresh, KUBE_SECRET_MAX_BYTES);
    int rc = read_secret(file_of(cred->conf, which), &fresh, &identity, e);
    if (rc == 0) {
        cred->identity[which] = identity;
    }
    if (rc == 0 && !text_equal(buf_text(&fresh), buf_text(&cred->content[which]))) {
        struct buf former = cred->content[which];
        cred->content[which] = fresh;
        fresh = former;
        cred->tls_changed |= which != KUBE_SECRET_TOKEN;
        *out_changed = true;
    }
    wipe_buf(&fresh);
    return rc;
}

int kube_cred_init(struct kube_cred *cred, struct kube_conf *conf, struct mono now, struct err *e)
{
    bool changed;
    int rc = 0;
    *cred = (struct kube_cred){.conf = conf, .read_at = now};
    if (conf->path && stat(conf->path, &cred->conf_identity) != 0) {
        return err_set_errno(e, ERR_IO, errno, "reading kubeconfig '%s'", conf->path);
    }
    for (int i = 0; rc == 0 && i < KUBE_SECRETS; i++) {
        const char *data = data_of(conf, i);
        buf_init(&cred->content[i], KUBE_SECRET_MAX_BYTES);
        if (data) {
            rc = buf_append_text(&cred->content[i], data, e);
        } else if (file_of(conf, i)) {
            rc = load_secret(cred, i, &changed, e);
        }
    }
    cred->tls_changed = false;
    if (rc != 0) {
        kube_cred_fini(cred);
    }
    return rc;
}

void kube_cred_fini(struct kube_cred *cred)
{
    for (int i = 0; i < KUBE_SECRETS; i++) {
        wipe_buf(&cred->content[i]);
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

bool kube_expiry_of_token(const char *token, size_t len, struct kube_expiry *out)
{
    unsigned char claims[CLAIMS_DECODED_BYTES];
    const char *first = memchr(token, '.', len);
    const char *end = token + len;
    const char *second = first ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
    if (!second || memchr(second + 1, '.', (size_t)(end - second - 1))) {
        return false;
    }
    size_t encoded_len = (size_t)(second - first - 1);
    size_t claims_len;
    if (encoded_len > CLAIMS_MAX_BYTES ||
        !base64_decode(BASE64_URL, first + 1, encoded_len, claims, &claims_len)) {
        return false;
    }
    CLEANUP(json)
    json_t *tree = json_text_parse((const char *)claims, claims_len, sizeof(claims), NULL);
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

bool kube_expiry_of_certificate(const char *pem, size_t len, struct kube_expiry *out)
{
    BIO *text = len > 0 && len <= INT_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
    X509 *certificate = text ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;
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

bool kube_cred_expiry(const struct kube_cred *cred, struct kube_expiry *out)
{
    const struct buf *token = &cred->content[KUBE_SECRET_TOKEN];
    const struct buf *pem = &cred->content[KUBE_SECRET_CERT];
    struct kube_expiry certificate;
    bool has_token = token->len > 0 && kube_expiry_of_token(token->data, token->len, out);
    if (pem->len == 0 || !kube_expiry_of_certificate(pem->data, pem->len, &certificate)) {
        return has_token;
    }
    if (!has_token || wall_since(out->until, certificate.until) > 0) {
        *out = certificate;
    }
    return true;
}

static void warn_of_expiry(struct kube_cred *cred)
{
    struct kube_expiry expiry;
    struct wall wall = clock_wall_now();
    char until[RFC3339_BYTES];
    if (!kube_cred_expiry(cred, &expiry) || !kube_expiry_is_near(&expiry, wall)) {
        log_repeat_reset(&cred->expiry_warnings);
    } else {
        rfc3339_format_seconds(expiry.until, until);
        log_limited(&cred->expiry_warnings, WARN_EXPIRY_NS, LOG_WARN, "kube",
                    "%s: the credential %s out at %s: renew it",
                    cred->conf->origin ? cred->conf->origin : "configuration",
                    wall_since(expiry.until, wall) > 0 ? "runs" : "ran", until);
    }
}

/* ---- keeping them up to date ----------------------------------------------------------------- */

/* Takes over a kubeconfig that says something else, with all that it names, or nothing of it. */
static int reload_conf(struct kube_cred *cred, struct mono now, bool *out_changed, struct err *e)
{
    struct kube_conf conf;
    struct kube_cred fresh;
    int rc = kube_conf_load_context(cred->conf->path, cred->conf->context, &conf, e);
    if (rc != 0) {
        return rc;
    }
    bool is_same = kube_conf_equal(&conf, cred->conf);
    rc = is_same ? 0 : kube_cred_init(&fresh, &conf, now, e);
    if (is_same || rc != 0) {
        kube_conf_fini(&conf);
        return rc;
    }
    kube_conf_fini(cred->conf);
    *cred->conf = conf;
    for (int i = 0; i < KUBE_SECRETS; i++) {
        wipe_buf(&cred->content[i]);
        cred->content[i] = fresh.content[i];
        cred->identity[i] = fresh.identity[i];
    }
    cred->tls_changed = true;
    *out_changed = true;
    return 0;
}

/* A pipe says it once, and opening one may wait for ever. `all`: even if it looks unchanged. */
static bool is_to_be_read(const char *path, const struct stat *known, bool all)
{
    struct stat identity;
    if (!path) {
        return false;
    }
    return stat(path, &identity) != 0
               ? all
               : S_ISREG(identity.st_mode) && (all || !same_identity(&identity, known));
}

static bool refresh_conf(struct kube_cred *cred, struct mono now, bool all)
{
    bool changed = false;
    struct err e = ERR_INIT;
    if (!S_ISREG(cred->conf_identity.st_mode) ||
        !is_to_be_read(cred->conf->path, &cred->conf_identity, all)) {
        return false;
    }
    (void)stat(cred->conf->path, &cred->conf_identity); /* of one that is gone as it was */
    if (reload_conf(cred, now, &changed, &e) == 0) {
        if (changed || cred->conf_is_broken) {
            log_info("kube", "%s was read again%s", cred->conf->origin,
                     changed ? "" : ": it says what it said before");
        }
        cred->conf_is_broken = false;
    } else if (all && !cred->conf_is_broken) {
        log_warn("kube", "%s, continuing with what was read before", e.msg);
        cred->conf_is_broken = true;
    }
    return changed;
}

bool kube_cred_refresh(struct kube_cred *cred, struct mono now, bool force)
{
    bool all = force || mono_since(now, cred->read_at) >= REREAD_NS;
    bool changed = refresh_conf(cred, now, all);
    for (int i = 0; i < KUBE_SECRETS; i++) {
        struct err e = ERR_INIT;
        if (is_to_be_read(file_of(cred->conf, i), &cred->identity[i], all) &&
            load_secret(cred, i, &changed, &e) != 0 && all) {
            log_limited(&cred->complaints[i], REREAD_NS, LOG_WARN, "kube",
                        "%s, continuing with what was read before", e.msg);
        }
    }
    if (all) {
        cred->read_at = now;
        warn_of_expiry(cred);
    }
    return changed;
}

const struct buf *kube_cred_get(const struct kube_cred *cred, enum kube_secret which)
{
    return cred->content[which].len > 0 ? &cred->content[which] : NULL;
}
