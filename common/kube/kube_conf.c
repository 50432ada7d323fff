/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_conf.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "loop/yaml_json.h"

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

enum form {
    NONE, /* not of a kubeconfig */
    TEXT,
    PATH, /* from the kubeconfig's directory */
    PEM,  /* in base64 */
};

/* The members that are texts, and where a kubeconfig has them. */
static const struct member {
    size_t at;
    enum form form;
    const char *key;
} members[] = {
    {MEMBER(server), TEXT, "server"},
    {MEMBER(ca_file), PATH, "certificate-authority"},
    {MEMBER(ca_pem), PEM, "certificate-authority-data"},
    {MEMBER(tls_server_name), TEXT, "tls-server-name"},
    {MEMBER(proxy_url), TEXT, "proxy-url"},
#define CLUSTER_MEMBERS 5
    {MEMBER(client_cert_file), PATH, "client-certificate"},
    {MEMBER(client_cert_pem), PEM, "client-certificate-data"},
    {MEMBER(client_key_file), PATH, "client-key"},
    {MEMBER(client_key_pem), PEM, "client-key-data"},
    {MEMBER(token), TEXT, "token"},
    {MEMBER(token_file), PATH, "tokenFile"},
    {MEMBER(impersonate), NONE, NULL},
    {MEMBER(path), NONE, NULL},
    {MEMBER(context), NONE, NULL},
    {MEMBER(origin), NONE, NULL},
};

static char **text_at(const struct kube_conf *conf, size_t offset)
{
    return (char **)((char *)(uintptr_t)conf + offset);
}

bool kube_conf_equal(const struct kube_conf *a, const struct kube_conf *b)
{
    bool is_equal = a->insecure_skip_tls_verify == b->insecure_skip_tls_verify;
    for (size_t i = 0; is_equal && i < ARRAY_LEN(members); i++) {
        is_equal = text_equal(*text_at(a, members[i].at), *text_at(b, members[i].at));
    }
    return is_equal;
}

void kube_conf_fini(struct kube_conf *conf)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        char **text = text_at(conf, members[i].at);
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
    if (!host || !host[0] || !port || !port[0]) {
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

/* The file being read and the configuration being filled. After the first error nothing counts. */
struct reader {
    const char *path;
    struct kube_conf conf;
    size_t names; /* to act as */
    int rc;
    struct err *e;
};

/* The first error, which names the file. */
PRINTF_LIKE(3, 4)
static void refuse(struct reader *r, int code, const char *fmt, ...)
{
    char what[ERR_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    text_vformat(what, sizeof(what), fmt, ap);
    va_end(ap);
    r->rc = r->rc != 0 ? r->rc : err_set(r->e, code, "'%s': %s", r->path, what);
}

/* The text of a member: NULL if absent, empty or null. */
static const char *read_text(struct reader *r, const json_t *mapping, const char *key)
{
    const json_t *member = json_object_get(mapping, key);
    const char *text = json_string_value(member);
    if (member && !json_is_null(member) && (!text || strlen(text) != json_string_length(member))) {
        refuse(r, ERR_PARSE, "'%s' is not text", key);
        return NULL;
    }
    return text_is_empty(text) ? NULL : text;
}

/* The mapping `inner` of the entry called `name` in a list of the root: clusters, users, contexts.
 * NULL: there is none. */
static json_t *find_named(struct reader *r, const json_t *root, const char *list, const char *name,
                          const char *inner)
{
    const json_t *entry;
    size_t i;
    json_array_foreach(json_object_get(root, list), i, entry)
    {
        if (text_equal(json_string_value(json_object_get(entry, "name")), name)) {
            json_t *found = json_object_get(entry, inner);
            if (!json_is_object(found)) {
                refuse(r, ERR_PARSE, "entry '%s' of '%s' has no mapping '%s'", name, list, inner);
            }
            return found;
        }
    }
    refuse(r, ERR_PARSE, "no entry '%s' in '%s'", name, list);
    return NULL;
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

static void read_members(struct reader *r, const json_t *mapping, size_t first, size_t end)
{
    const char *slash = strrchr(r->path, '/');
    for (const struct member *m = &members[first]; m < &members[end]; m++) {
        char **slot = text_at(&r->conf, m->at);
        const char *text = m->form == NONE ? NULL : read_text(r, mapping, m->key);
        if (!text) {
            continue;
        }
        if (m->form == PATH && text[0] != '/' && slash) {
            *slot = mem_format("%.*s/%s", (int)(slash - r->path), r->path, text);
        } else {
            *slot = m->form == PEM ? decode_text(text) : mem_strdup(text);
        }
        if (!*slot) {
            refuse(r, ERR_PARSE, "'%s' is not base64 of PEM text", m->key);
        }
    }
}

static void check_server(struct reader *r)
{
    char *server = r->conf.server;
    if (!server) {
        refuse(r, ERR_PARSE, "the cluster has no 'server'");
        return;
    }
    const char *host = strstr(server, "://");
    bool is_known = strncmp(server, "https://", 8) == 0 || strncmp(server, "http://", 7) == 0;
    if (strchr(server, '@')) { /* not shown: it may hold a password */
        refuse(r, ERR_PARSE, "'server' names a user: credentials belong below 'users'");
    } else if (!is_known || host[3] == '\0' || host[3] == '/' || strpbrk(host, "?# ") ||
               strlen(server) > SERVER_MAX_BYTES) {
        char shown[80];
        text_sanitize(shown, sizeof(shown), server, strlen(server));
        refuse(r, ERR_PARSE, "server '%s' is not a URL like https://HOST:6443", shown);
    }
    for (size_t len = strlen(server); len > 0 && server[len - 1] == '/'; len--) {
        server[len - 1] = '\0';
    }
}

static void read_cluster(struct reader *r, const json_t *cluster)
{
    struct kube_conf *c = &r->conf;
    const char *skip = read_text(r, cluster, "insecure-skip-tls-verify");
    read_members(r, cluster, 0, CLUSTER_MEMBERS);
    check_server(r);
    c->insecure_skip_tls_verify = text_equal(skip, "true");
    if (skip && !c->insecure_skip_tls_verify && !text_equal(skip, "false")) {
        refuse(r, ERR_PARSE, "'insecure-skip-tls-verify' is neither true nor false");
    }
    if (c->insecure_skip_tls_verify && (c->ca_file || c->ca_pem)) {
        refuse(r, ERR_PARSE,
               "insecure-skip-tls-verify and certificate-authority exclude each other");
    }
}

/* ---- whom the user acts as ---- */

/* Adds the header "NAME: VALUE". */
static void add_name(struct reader *r, const char *name, const char *key, const json_t *node)
{
    const char *value = json_string_value(node);
    size_t len = json_string_length(node);
    if (len == 0) {
        refuse(r, ERR_PARSE, "'%s' has a value that is not text", key);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (iscntrl((unsigned char)value[i])) {
            refuse(r, ERR_PARSE, "'%s' holds a control character", key);
        }
    }
    if (r->names++ >= KUBE_IMPERSONATION_MAX || strlen(name) + len > KUBE_IMPERSONATION_MAX_BYTES) {
        refuse(r, ERR_LIMIT, "'%s': more than %d names to act as, or one longer than %d bytes", key,
               (int)KUBE_IMPERSONATION_MAX, (int)KUBE_IMPERSONATION_MAX_BYTES);
    }
    if (r->rc == 0) {
        CLEANUP(free) char *others = r->conf.impersonate;
        r->conf.impersonate = mem_format("%s%s: %s\n", others ? others : "", name, value);
    }
}

static void add_names(struct reader *r, const char *name, const char *key, const json_t *list)
{
    const json_t *item;
    size_t i;
    if (!json_is_array(list)) {
        refuse(r, ERR_PARSE, "'%s' is not a list", key);
    }
    json_array_foreach(list, i, item)
    {
        add_name(r, name, key, item);
    }
}

/* What may not stand in a header's name is percent-encoded; the API server decodes it. */
static void add_extra(struct reader *r, const char *key, const json_t *names)
{
    char name[KUBE_IMPERSONATION_MAX_BYTES] = "Impersonate-Extra-";
    size_t at = strlen(name);
    if (key[0] == '\0' || at + 3 * strlen(key) >= sizeof(name)) {
        refuse(r, ERR_PARSE, "'as-user-extra' has a key that is empty or too long");
        return;
    }
    for (const char *c = key; *c; c++) {
        bool is_plain = isascii(*c) && (isalnum(*c) || strchr("!#$&'*+-.^_`|~", *c));
        text_format(name + at, sizeof(name) - at, is_plain ? "%c" : "%%%02X", (unsigned char)*c);
        at += strlen(name + at);
    }
    add_names(r, name, "as-user-extra", names);
}

/* The value of a key, or NULL if it is absent, empty or null. */
static json_t *value_of(const json_t *user, const char *key)
{
    json_t *value = json_object_get(user, key);
    bool is_empty = json_is_string(value) && json_string_length(value) == 0;
    return json_is_null(value) || is_empty ? NULL : value;
}

static void read_impersonation(struct reader *r, const json_t *user)
{
    const json_t *as = value_of(user, "as");
    const json_t *uid = value_of(user, "as-uid");
    const json_t *groups = value_of(user, "as-groups");
    json_t *extra = value_of(user, "as-user-extra");
    const char *key;
    const json_t *names;
    if (as) {
        add_name(r, "Impersonate-User", "as", as);
    } else if (uid || groups || extra) {
        refuse(r, ERR_PARSE, "'as' is missing: whose '%s' is this?",
               uid      ? "as-uid"
               : groups ? "as-groups"
                        : "as-user-extra");
    }
    if (uid) {
        add_name(r, "Impersonate-Uid", "as-uid", uid);
    }
    if (groups) {
        add_names(r, "Impersonate-Group", "as-groups", groups);
    }
    if (extra && !json_is_object(extra)) {
        refuse(r, ERR_PARSE, "'as-user-extra' is not a mapping");
    }
    json_object_foreach(extra, key, names)
    {
        add_extra(r, key, names);
    }
}

static void read_user(struct reader *r, const json_t *user)
{
    /* What we cannot do is said, not skipped: without it the API server would see somebody else. */
    static const char *const unsupported[] = {"exec", "auth-provider", "username", "password"};
    const struct kube_conf *c = &r->conf;
    for (size_t i = 0; i < ARRAY_LEN(unsupported); i++) {
        if (json_object_get(user, unsupported[i])) {
            refuse(r, ERR_PARSE,
                   "'%s' is not supported: use a token, tokenFile or a client certificate",
                   unsupported[i]);
        }
    }
    read_members(r, user, CLUSTER_MEMBERS, ARRAY_LEN(members));
    read_impersonation(r, user);
    bool has_cert = c->client_cert_file || c->client_cert_pem;
    bool has_key = c->client_key_file || c->client_key_pem;
    if (has_cert != has_key) {
        refuse(r, ERR_PARSE, "%s is missing", has_cert ? "client-key" : "client-certificate");
    }
}

static void read_context(struct reader *r, const json_t *root)
{
    const char *asked = r->conf.context;
    const char *name = asked ? asked : read_text(r, root, "current-context");
    if (!name) {
        refuse(r, ERR_PARSE, "no current-context");
        return;
    }
    const json_t *context = find_named(r, root, "contexts", name, "context");
    const char *cluster = read_text(r, context, "cluster");
    const char *user = read_text(r, context, "user");
    if (cluster) {
        read_cluster(r, find_named(r, root, "clusters", cluster, "cluster"));
    } else {
        refuse(r, ERR_PARSE, "context '%s' names no cluster", name);
    }
    if (user) { /* none: anonymous */
        read_user(r, find_named(r, root, "users", user, "user"));
    }
    r->conf.path = mem_strdup(r->path);
    r->conf.origin = mem_format("kubeconfig '%s' context '%s'", r->path, name);
}

static void wipe_buf(struct buf *b)
{
    if (b->data) {
        explicit_bzero(b->data, b->capacity);
    }
    buf_fini(b);
}

/* Returns owned, or NULL. */
static json_t *read_kubeconfig(const char *path, struct err *e)
{
    struct buf text;
    json_t *root = NULL;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC); /* it may be a pipe */
    if (fd < 0) {
        (void)err_set_errno(e, ERR_IO, errno, "opening kubeconfig '%s'", path);
        return NULL;
    }
    buf_init(&text, KUBE_CONF_MAX_BYTES);
    if (file_read_fd(fd, path, &text, e) != 0) {
        (void)err_wrap(e, "kubeconfig");
    } else {
        root = yaml_json_parse(path, buf_text(&text), text.len, e);
    }
    wipe_buf(&text);
    return root;
}

int kube_conf_load(const char *path, const char *context, struct kube_conf *out, struct err *e)
{
    struct reader r = {.path = path, .e = e};
    struct err why = ERR_INIT;
    if (text_is_empty(path)) {
        return kube_conf_load_in_cluster(NULL, out, e);
    }
    CLEANUP(json) json_t *root = read_kubeconfig(path, &why);
    if (!root) {
        return err_set(e, why.code, "%s", why.msg);
    }
    if (!json_is_object(root)) {
        return err_set(e, ERR_PARSE, "'%s' is not a kubeconfig: it holds no mapping", path);
    }
    r.conf.context = text_is_empty(context) ? NULL : mem_strdup(context);
    read_context(&r, root);
    if (r.rc != 0) {
        kube_conf_fini(&r.conf);
        return r.rc;
    }
    *out = r.conf;
    return 0;
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
        rfc3339_format(expiry.until, false, until);
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
    struct kube_conf conf = {.server = NULL};
    struct kube_cred fresh;
    int rc = kube_conf_load(cred->conf->path, cred->conf->context, &conf, e);
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
