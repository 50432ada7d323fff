/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_conf.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/yaml_tree.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Returns owned text, or NULL if `in` is not base64 of text. */
static char *decode_text(const char *in)
{
    size_t len = strlen(in);
    size_t used;
    unsigned char *out = malloc(BASE64_DECODED_BYTES(len) + 1);
    if (!out) {
        return NULL;
    }
    if (!base64_decode(BASE64_STANDARD, in, len, out, &used) || used == 0 ||
        memchr(out, '\0', used)) {
        free(out);
        return NULL;
    }
    out[used] = '\0';
    return (char *)out;
}

/* The file being read and the configuration being filled. */
struct reader {
    struct yaml_tree yaml;
    const char *path;
    struct kube_conf conf;
};

/* Copies `text` (NULL stays NULL) into *slot. */
static int keep(char **slot, const char *text, struct err *e)
{
    if (!text) {
        return 0;
    }
    *slot = strdup(text);
    return *slot ? 0 : err_no_memory(e);
}

/* Copies a path; a relative one is relative to the kubeconfig's directory. */
static int keep_path(const struct reader *r, char **slot, const char *text, struct err *e)
{
    const char *slash = strrchr(r->path, '/');
    if (!text || text[0] == '/' || !slash) {
        return keep(slot, text, e);
    }
    if (asprintf(slot, "%.*s/%s", (int)(slash - r->path), r->path, text) < 0) {
        *slot = NULL;
        return err_no_memory(e);
    }
    return 0;
}

/* KEY as a path and KEY-data as base64 PEM. */
static int read_file_or_data(struct reader *r, yaml_node_t *mapping, const char *key,
                             char **out_file, char **out_pem, struct err *e)
{
    char data_key[64];
    const char *file;
    const char *data;
    text_format(data_key, sizeof(data_key), "%s-data", key);
    int rc = yaml_tree_text(&r->yaml, mapping, key, &file, e);
    if (rc != 0 || (rc = keep_path(r, out_file, file, e)) != 0 ||
        (rc = yaml_tree_text(&r->yaml, mapping, data_key, &data, e)) != 0 || !data) {
        return rc;
    }
    *out_pem = decode_text(data);
    if (!*out_pem) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: '%s' is not base64 of PEM text", r->path,
                       yaml_tree_line(yaml_tree_get(&r->yaml, mapping, data_key)), data_key);
    }
    return 0;
}

static int check_server(struct reader *r, yaml_node_t *cluster, const char *server, struct err *e)
{
    if (!server) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: the cluster has no 'server'", r->path,
                       yaml_tree_line(cluster));
    }
    if (strchr(server, '@')) { /* not shown: it may hold a password */
        return err_set(e, ERR_PARSE,
                       "'%s' line %zu: 'server' names a user: credentials belong below 'users'",
                       r->path, yaml_tree_line(yaml_tree_get(&r->yaml, cluster, "server")));
    }
    const char *host = strstr(server, "://");
    bool known = strncmp(server, "https://", 8) == 0 || strncmp(server, "http://", 7) == 0;
    if (!known || host[3] == '\0' || host[3] == '/' || strpbrk(host, "?# ") ||
        strlen(server) > 1024) {
        char shown[80];
        text_sanitize(shown, sizeof(shown), server, strlen(server));
        return err_set(e, ERR_PARSE,
                       "'%s' line %zu: server '%s' is not a URL like https://HOST:6443", r->path,
                       yaml_tree_line(yaml_tree_get(&r->yaml, cluster, "server")), shown);
    }
    return 0;
}

/* Copies the text at `key` (none: NULL) into *slot. */
static int read_text(struct reader *r, yaml_node_t *mapping, const char *key, char **slot,
                     struct err *e)
{
    const char *text;
    int rc = yaml_tree_text(&r->yaml, mapping, key, &text, e);
    return rc == 0 ? keep(slot, text, e) : rc;
}

static int read_cluster(struct reader *r, yaml_node_t *cluster, struct err *e)
{
    struct kube_conf *c = &r->conf;
    const char *server;
    int rc = yaml_tree_text(&r->yaml, cluster, "server", &server, e);
    if (rc != 0 || (rc = check_server(r, cluster, server, e)) != 0 ||
        (rc = keep(&c->server, server, e)) != 0) {
        return rc;
    }
    for (size_t len = strlen(c->server); len > 0 && c->server[len - 1] == '/'; len--) {
        c->server[len - 1] = '\0';
    }
    rc = read_file_or_data(r, cluster, "certificate-authority", &c->ca_file, &c->ca_pem, e);
    if (rc != 0 || (rc = read_text(r, cluster, "tls-server-name", &c->tls_server_name, e)) != 0 ||
        (rc = read_text(r, cluster, "proxy-url", &c->proxy_url, e)) != 0 ||
        (rc = yaml_tree_bool(&r->yaml, cluster, "insecure-skip-tls-verify",
                             &c->insecure_skip_tls_verify, e)) != 0) {
        return rc;
    }
    if (c->insecure_skip_tls_verify && (c->ca_file || c->ca_pem)) {
        return err_set(e, ERR_PARSE,
                       "'%s' line %zu: insecure-skip-tls-verify and certificate-authority exclude "
                       "each other",
                       r->path, yaml_tree_line(cluster));
    }
    return 0;
}

/* What we cannot do is said, not skipped: without it the API server would see somebody else. */
static int refuse_unsupported(struct reader *r, yaml_node_t *user, struct err *e)
{
    static const char *const keys[] = {"exec", "auth-provider", "username", "password"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        yaml_node_t *node = yaml_tree_get(&r->yaml, user, keys[i]);
        if (node) {
            return err_set(e, ERR_PARSE,
                           "'%s' line %zu: '%s' is not supported: use a token, tokenFile or a "
                           "client certificate",
                           r->path, yaml_tree_line(node), keys[i]);
        }
    }
    return 0;
}

static int read_user(struct reader *r, yaml_node_t *user, struct err *e)
{
    struct kube_conf *c = &r->conf;
    const char *token_file;
    int rc = refuse_unsupported(r, user, e);
    if (rc != 0 ||
        (rc = read_file_or_data(r, user, "client-certificate", &c->client_cert_file,
                                &c->client_cert_pem, e)) != 0 ||
        (rc = read_file_or_data(r, user, "client-key", &c->client_key_file, &c->client_key_pem,
                                e)) != 0 ||
        (rc = read_text(r, user, "token", &c->token, e)) != 0 ||
        (rc = yaml_tree_text(&r->yaml, user, "tokenFile", &token_file, e)) != 0 ||
        (rc = keep_path(r, &c->token_file, token_file, e)) != 0 ||
        (rc = kube_impersonation_read(&r->yaml, user, &c->as, e)) != 0) {
        return rc;
    }
    bool cert = c->client_cert_file || c->client_cert_pem;
    bool key = c->client_key_file || c->client_key_pem;
    if (cert != key) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: %s is missing", r->path, yaml_tree_line(user),
                       cert ? "client-key" : "client-certificate");
    }
    return 0;
}

/* The name of the context to read. Borrowed from the document, or from the configuration. */
static int name_context(struct reader *r, yaml_node_t *root, const char **out, struct err *e)
{
    const char *name = r->conf.context;
    int rc = name ? 0 : yaml_tree_text(&r->yaml, root, "current-context", &name, e);
    if (rc != 0) {
        return rc;
    }
    if (!name) {
        return err_set(e, ERR_PARSE, "'%s' has no current-context", r->path);
    }
    *out = name;
    return 0;
}

static int read_context(struct reader *r, struct err *e)
{
    yaml_node_t *root = yaml_document_get_root_node(&r->yaml.document);
    yaml_node_t *context;
    yaml_node_t *cluster;
    yaml_node_t *user;
    const char *name = NULL;
    const char *cluster_name = NULL;
    const char *user_name = NULL;
    int rc = name_context(r, root, &name, e);
    if (rc != 0) {
        return rc;
    }
    rc = yaml_tree_named(&r->yaml, "contexts", name, "context", &context, e);
    if (rc != 0 || (rc = yaml_tree_text(&r->yaml, context, "cluster", &cluster_name, e)) != 0 ||
        (rc = yaml_tree_text(&r->yaml, context, "user", &user_name, e)) != 0) {
        return rc;
    }
    if (!cluster_name) {
        return err_set(e, ERR_PARSE, "'%s' line %zu: context '%s' names no cluster", r->path,
                       yaml_tree_line(context), name);
    }
    rc = yaml_tree_named(&r->yaml, "clusters", cluster_name, "cluster", &cluster, e);
    if (rc != 0 || (rc = read_cluster(r, cluster, e)) != 0) {
        return rc;
    }
    if (user_name && /* none: anonymous */
        ((rc = yaml_tree_named(&r->yaml, "users", user_name, "user", &user, e)) != 0 ||
         (rc = read_user(r, user, e)) != 0)) {
        return rc;
    }
    if (asprintf(&r->conf.origin, "kubeconfig '%s' context '%s'", r->path, name) < 0) {
        r->conf.origin = NULL;
        return err_no_memory(e);
    }
    return 0;
}

static int read_whole_file(const char *path, struct buf *out, struct err *e)
{
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC); /* it may be a pipe */
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "opening kubeconfig '%s'", path);
    }
    return file_read_fd(fd, path, out, e) == 0 ? 0 : err_wrap(e, "kubeconfig");
}

static void wipe_text(char **text)
{
    if (*text) {
        explicit_bzero(*text, strlen(*text));
        free(*text);
        *text = NULL;
    }
}

int kube_conf_load_file(const char *path, struct kube_conf *out, struct err *e)
{
    return kube_conf_load_context(path, NULL, out, e);
}

int kube_conf_load_context(const char *path, const char *context, struct kube_conf *out,
                           struct err *e)
{
    struct buf text;
    struct reader r = {.path = path};
    buf_init(&text, KUBE_CONF_MAX_BYTES);
    int rc = read_whole_file(path, &text, e);
    if (rc == 0) {
        rc = yaml_tree_init(&r.yaml, path, buf_text(&text), text.len, e);
    }
    if (text.data) {
        explicit_bzero(text.data, text.capacity);
    }
    buf_fini(&text);
    if (rc != 0) {
        return rc;
    }
    rc = keep(&r.conf.context, text_is_empty(context) ? NULL : context, e);
    if (rc == 0) {
        rc = read_context(&r, e);
    }
    yaml_tree_fini(&r.yaml);
    if (rc == 0) {
        rc = keep(&r.conf.path, path, e);
    }
    if (rc != 0) {
        kube_conf_fini(&r.conf);
        return rc;
    }
    *out = r.conf;
    return 0;
}

int kube_conf_load_in_cluster(const char *account_dir, struct kube_conf *out, struct err *e)
{
    const char *dir = account_dir ? account_dir : "/var/run/secrets/kubernetes.io/serviceaccount";
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    struct kube_conf c = {0};
    if (text_is_empty(host) || text_is_empty(port)) {
        return err_set(e, ERR_NOTFOUND,
                       "no --kubeconfig is given, and this is not a pod: KUBERNETES_SERVICE_HOST "
                       "and KUBERNETES_SERVICE_PORT are not set");
    }
    bool ipv6 = strchr(host, ':') && host[0] != '[';
    if (asprintf(&c.server, "https://%s%s%s:%s", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port) <
        0) {
        c.server = NULL;
    }
    if (asprintf(&c.token_file, "%s/token", dir) < 0) {
        c.token_file = NULL;
    }
    if (asprintf(&c.ca_file, "%s/ca.crt", dir) < 0) {
        c.ca_file = NULL;
    }
    c.origin = strdup("in-cluster service account");
    if (!c.server || !c.token_file || !c.ca_file || !c.origin) {
        kube_conf_fini(&c);
        return err_no_memory(e);
    }
    *out = c;
    return 0;
}

/* The members that are texts. */
static const size_t texts[] = {
    offsetof(struct kube_conf, server),          offsetof(struct kube_conf, ca_file),
    offsetof(struct kube_conf, ca_pem),          offsetof(struct kube_conf, tls_server_name),
    offsetof(struct kube_conf, proxy_url),       offsetof(struct kube_conf, client_cert_file),
    offsetof(struct kube_conf, client_cert_pem), offsetof(struct kube_conf, client_key_file),
    offsetof(struct kube_conf, client_key_pem),  offsetof(struct kube_conf, token),
    offsetof(struct kube_conf, token_file),      offsetof(struct kube_conf, path),
    offsetof(struct kube_conf, context),         offsetof(struct kube_conf, origin),
};

static const char *text_at(const struct kube_conf *conf, size_t offset)
{
    return *(char *const *)((const char *)conf + offset);
}

bool kube_conf_equal(const struct kube_conf *a, const struct kube_conf *b)
{
    bool is_equal = a->insecure_skip_tls_verify == b->insecure_skip_tls_verify &&
                    kube_impersonation_equal(&a->as, &b->as);
    for (size_t i = 0; is_equal && i < ARRAY_LEN(texts); i++) {
        is_equal = text_equal(text_at(a, texts[i]), text_at(b, texts[i]));
    }
    return is_equal;
}

void kube_conf_fini(struct kube_conf *conf)
{
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        wipe_text((char **)((char *)conf + texts[i]));
    }
    kube_impersonation_fini(&conf->as);
}
