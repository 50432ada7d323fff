/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_conf.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "loop/curl_version.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* ---- a configuration ------------------------------------------------------------------------- */

void kube_conf_fini(struct kube_conf *conf)
{
    char **const texts[] = {
        &conf->server, &conf->tls_server_name, &conf->proxy_url, &conf->impersonate,
        &conf->path,   &conf->context,         &conf->origin,    &conf->problem};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        kube_wipe_text(texts[i]);
    }
    kube_wipe_buf(&conf->text);
    kube_secrets_fini(conf->secrets);
}

static int load_in_cluster(struct kube_conf *out, struct err *e)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    if (text_is_empty(host) || text_is_empty(port)) {
        return err_set(e, ERR_NOTFOUND,
                       "--kubeconfig is not set, and this is not a Pod (no KUBERNETES_SERVICE_HOST "
                       "and KUBERNETES_SERVICE_PORT)");
    }
    const char *ipv6 = strchr(host, ':');
    *out = (struct kube_conf){
        .server = mem_format("https://%s%s%s:%s", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port),
        .secrets = {[KUBE_SECRET_TOKEN].file = mem_strdup(ACCOUNT_DIR "/token"),
                    [KUBE_SECRET_CA].file = mem_strdup(ACCOUNT_DIR "/ca.crt")},
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
    if (r->e->code == 0) {
        (void)err_set(r->e, code, "'%s': %s", r->path, what);
    }
}

/* The value of a key, or NULL if it is absent, empty or null. */
static json_t *value_of(const json_t *mapping, const char *key)
{
    json_t *value = json_object_get(mapping, key);
    bool is_empty = json_is_string(value) && json_string_length(value) == 0;
    return json_is_null(value) || is_empty ? NULL : value;
}

static const char *read_text(struct reader *r, const json_t *mapping, const char *key)
{
    const json_t *value = value_of(mapping, key);
    const char *text = json_string_value(value);
    if (value && (!text || strlen(text) != json_string_length(value))) {
        refuse(r, ERR_PARSE, "'%s' is not text", key);
        return NULL;
    }
    return text;
}

static char *copy_text(struct reader *r, const json_t *mapping, const char *key)
{
    const char *text = read_text(r, mapping, key);
    return text ? mem_strdup(text) : NULL;
}

/* The mapping `inner` of the entry called `name` in a list of the root: clusters, users, contexts.
 * NULL: there is none. */
static json_t *find_named(struct reader *r, const json_t *root, const char *list, const char *name,
                          const char *inner)
{
    const json_t *entry = json_text_find(json_object_get(root, list), "name", name);
    json_t *found = json_object_get(entry, inner);
    if (!entry) {
        refuse(r, ERR_PARSE, "no entry '%s' in '%s'", name, list);
    } else if (!json_is_object(found)) {
        refuse(r, ERR_PARSE, "entry '%s' of '%s' has no mapping '%s'", name, list, inner);
    }
    return found;
}

static bool decode_text(const char *in, struct buf *out)
{
    size_t len = strlen(in);
    size_t used;
    CLEANUP(free) unsigned char *bytes = mem_alloc(BASE64_DECODED_BYTES(len));
    return base64_decode(in, len, bytes, &used) && used > 0 && !memchr(bytes, '\0', used) &&
           buf_append(out, bytes, used, NULL) == 0;
}

static void read_secret(struct reader *r, const json_t *mapping, enum kube_secret which)
{
    struct kube_secret_source *s = &r->conf.secrets[which];
    const char *slash = strrchr(r->path, '/');
    const char *file = read_text(r, mapping, kube_secret_field(which, true));
    const char *data = read_text(r, mapping, kube_secret_field(which, false));
    s->content = (struct buf){.max_bytes = KUBE_SECRET_MAX_BYTES};
    if (data) {
        bool is_well = which == KUBE_SECRET_TOKEN ? buf_appendf(&s->content, NULL, "%s", data) == 0
                                                  : decode_text(data, &s->content);
        if (!is_well) {
            refuse(r, ERR_PARSE, "'%s' is not base64 of PEM text", kube_secret_field(which, false));
        }
    } else if (file && (file[0] == '/' || !slash)) {
        s->file = mem_strdup(file);
    } else if (file) {
        s->file = mem_format("%.*s/%s", (int)(slash - r->path), r->path, file);
    }
}

static bool is_given(const struct kube_conf *conf, enum kube_secret which)
{
    return conf->secrets[which].file || conf->secrets[which].content.len > 0;
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
        refuse(r, ERR_PARSE, "'server' contains a user name: put credentials below 'users'");
    } else if (!is_known || host[3] == '\0' || host[3] == '/' || strpbrk(host, "?# ")) {
        refuse(r, ERR_PARSE, "server '%.79s' is not a URL like https://HOST:6443", server);
    } else {
        for (size_t len = strlen(server); server[len - 1] == '/'; len--) {
            server[len - 1] = '\0';
        }
    }
}

/* The value is not shown: a proxy's may hold a password. */
static void check_name(struct reader *r, const char *key, const char *url)
{
    if (url && !curl_version_reaches(url)) {
        refuse(r, ERR_PARSE,
               "'%s' is a host's name, for which libcurl before 7.87 (this is %s) waits without a "
               "limit: give its address, and the server's name as 'tls-server-name'",
               key, curl_version_info(CURLVERSION_NOW)->version);
    }
}

static void read_cluster(struct reader *r, const json_t *cluster)
{
    struct kube_conf *c = &r->conf;
    const char *skip = read_text(r, cluster, "insecure-skip-tls-verify");
    c->server = copy_text(r, cluster, "server");
    c->tls_server_name = copy_text(r, cluster, "tls-server-name");
    c->proxy_url = copy_text(r, cluster, "proxy-url");
    read_secret(r, cluster, KUBE_SECRET_CA);
    check_server(r);
    check_name(r, "server", c->server);
    check_name(r, "proxy-url", c->proxy_url);
    c->insecure_skip_tls_verify = text_equal(skip, "true");
    if (skip && !c->insecure_skip_tls_verify && !text_equal(skip, "false")) {
        refuse(r, ERR_PARSE, "'insecure-skip-tls-verify' is neither true nor false");
    }
    if (c->insecure_skip_tls_verify && is_given(c, KUBE_SECRET_CA)) {
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
        refuse(r, ERR_LIMIT, "'%s': more than %d names to impersonate, or one longer than %d bytes",
               key, (int)KUBE_IMPERSONATION_MAX, (int)KUBE_IMPERSONATION_MAX_BYTES);
    }
    if (r->e->code == 0) {
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

/* Characters that may not stand in a header's name are percent-encoded; the API server decodes it.
 */
static void add_extra(struct reader *r, const char *key, const json_t *names)
{
    CLEANUP(buf) struct buf name = {.max_bytes = KUBE_IMPERSONATION_MAX_BYTES};
    int rc = buf_appendf(&name, NULL, "Impersonate-Extra-");
    for (const char *c = key; rc == 0 && *c; c++) {
        bool is_plain = isascii(*c) && (isalnum(*c) || strchr("!#$&'*+-.^_`|~", *c));
        rc = buf_appendf(&name, NULL, is_plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
    if (rc != 0 || text_is_empty(key)) {
        refuse(r, ERR_PARSE, "'as-user-extra' has a key that is empty or too long");
        return;
    }
    add_names(r, buf_text(&name), "as-user-extra", names);
}

static void read_impersonation(struct reader *r, const json_t *user)
{
    static const struct {
        const char *key;
        const char *header;
        bool is_list;
    } rows[] = {{"as", "Impersonate-User", false},
                {"as-uid", "Impersonate-Uid", false},
                {"as-groups", "Impersonate-Group", true},
                {"as-user-extra", NULL, false}};
    const char *name;
    const json_t *names;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *key = rows[i].key;
        json_t *value = value_of(user, key);
        if (value && !value_of(user, "as")) {
            refuse(r, ERR_PARSE, "'%s' needs 'as', which is missing", key);
        } else if (value && rows[i].is_list) {
            add_names(r, rows[i].header, key, value);
        } else if (value && rows[i].header) {
            add_name(r, rows[i].header, key, value);
        } else if (value && !json_is_object(value)) {
            refuse(r, ERR_PARSE, "'%s' is not a mapping", key);
        } else if (value) {
            json_object_foreach(value, name, names)
            {
                add_extra(r, name, names);
            }
        }
    }
}

static void read_user(struct reader *r, const json_t *user)
{
    /* A method that we do not support is an error, not skipped: without it the API server would see
     * somebody else. */
    static const char *const unsupported[] = {"exec", "auth-provider", "username", "password"};
    const struct kube_conf *c = &r->conf;
    for (size_t i = 0; i < ARRAY_LEN(unsupported); i++) {
        if (json_object_get(user, unsupported[i])) {
            refuse(r, ERR_PARSE,
                   "'%s' is not supported: use a token, tokenFile or a client certificate",
                   unsupported[i]);
        }
    }
    read_secret(r, user, KUBE_SECRET_TOKEN);
    read_secret(r, user, KUBE_SECRET_CERT);
    read_secret(r, user, KUBE_SECRET_KEY);
    read_impersonation(r, user);
    bool has_cert = is_given(c, KUBE_SECRET_CERT);
    bool has_key = is_given(c, KUBE_SECRET_KEY);
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

/* Returns owned, or NULL. */
static json_t *read_kubeconfig(const char *path, struct buf *text, struct err *e)
{
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC); /* it may be a pipe */
    if (fd < 0) {
        (void)err_set_errno(e, ERR_IO, errno, "opening kubeconfig '%s'", path);
        return NULL;
    }
    *text = (struct buf){.max_bytes = KUBE_CONF_MAX_BYTES};
    if (file_read_fd(fd, path, text, e) != 0) {
        (void)err_wrap(e, "kubeconfig");
        return NULL;
    }
    json_t *root = json_text_parse_yaml(path, buf_text(text), text->len, e);
    if (root && !json_is_object(root)) {
        (void)err_set(e, ERR_PARSE, "'%s' is not a kubeconfig: it is not a mapping", path);
        json_decref(TAKE(root));
    }
    return root;
}

int kube_conf_load(const char *path, const char *context, struct kube_conf *out, struct err *e)
{
    struct err why = ERR_INIT;
    struct reader r = {.path = path, .e = &why};
    if (text_is_empty(path)) {
        return text_is_empty(context)
                   ? load_in_cluster(out, e)
                   : err_set(e, ERR_NOTFOUND, "no kubeconfig is given for context '%s'", context);
    }
    CLEANUP(json) json_t *root = read_kubeconfig(path, &r.conf.text, &why);
    if (root) {
        r.conf.context = text_is_empty(context) ? NULL : mem_strdup(context);
        read_context(&r, root);
    }
    if (why.code != 0) {
        kube_conf_fini(&r.conf);
        return err_set(e, why.code, "%s", why.msg);
    }
    *out = r.conf;
    return 0;
}

/* ---- keeping it up to date --------------------------------------------------------------------
 */

int kube_conf_open(struct kube_conf *conf, struct mono now, struct err *e)
{
    conf->read_at = now;
    if (conf->path && stat(conf->path, &conf->identity) != 0) {
        return err_set_errno(e, ERR_IO, errno, "reading kubeconfig '%s'", conf->path);
    }
    return kube_secrets_open(conf->secrets, now, e);
}

struct x509_store_st *kube_conf_parse_ca(const struct kube_conf *conf)
{
    return conf->proxy_url ? NULL : kube_secrets_parse_ca(conf->secrets);
}

const char *kube_conf_problem(const struct kube_conf *conf)
{
    const char *of_secret = kube_secrets_problem(conf->secrets);
    return conf->problem ? conf->problem : of_secret;
}

bool kube_conf_expiry(const struct kube_conf *conf, struct kube_expiry *out)
{
    return kube_secrets_expiry(conf->secrets, out);
}

static void warn_of_expiry(struct kube_conf *conf)
{
    struct kube_expiry expiry;
    struct wall wall = clock_wall_now();
    if (!kube_conf_expiry(conf, &expiry) || !kube_expiry_is_near(&expiry, wall)) {
        log_repeat_reset(&conf->expiry_warnings);
    } else {
        log_limited(&conf->expiry_warnings, LOG_SELDOM_NS, LOG_WARN, "kube",
                    "%s: the credential %s out at %s: renew it", conf->origin,
                    wall_since(expiry.until, wall) > 0 ? "runs" : "ran",
                    rfc3339_text(expiry.until, false).text);
    }
}

/* Takes over a kubeconfig that says something else, with all that it names, or nothing of it. */
static int reload_conf(struct kube_conf *conf, struct mono now, bool *out_changed, struct err *e)
{
    struct kube_conf fresh = {.server = NULL};
    int rc = kube_conf_load(conf->path, conf->context, &fresh, e);
    if (rc != 0) {
        return rc;
    }
    bool is_same = text_equal(buf_text(&fresh.text), buf_text(&conf->text));
    rc = is_same ? 0 : kube_conf_open(&fresh, now, e);
    if (rc != 0 || is_same) {
        kube_conf_fini(&fresh);
        return rc;
    }
    fresh.tls_changed = true;
    kube_conf_fini(conf);
    *conf = fresh;
    *out_changed = true;
    return 0;
}

static bool refresh_conf(struct kube_conf *conf, struct mono now, bool all)
{
    bool changed = false;
    struct err e = ERR_INIT;
    if (!kube_file_is_news(conf->path, &conf->identity, all)) {
        return false;
    }
    (void)stat(conf->path, &conf->identity); /* of one that is gone as it was */
    if (reload_conf(conf, now, &changed, &e) == 0) {
        if (changed || conf->problem) {
            log_info("kube", "%s was read again%s", conf->origin,
                     changed ? "" : ": its content is unchanged");
        }
        free(TAKE(conf->problem));
    } else if (all && !conf->problem) {
        log_warn("kube", "%s, continuing with the last good credential", e.msg);
        conf->problem = mem_strdup(e.msg);
    }
    return changed;
}

bool kube_conf_refresh(struct kube_conf *conf, struct mono now, bool force)
{
    bool all = force || mono_since(now, conf->read_at) >= KUBE_REREAD_NS;
    bool changed = refresh_conf(conf, now, all);
    changed |= kube_secrets_refresh(conf->secrets, now, all, &conf->tls_changed);
    if (all) {
        conf->read_at = now;
        warn_of_expiry(conf);
    }
    return changed;
}

const struct buf *kube_conf_secret(const struct kube_conf *conf, enum kube_secret which)
{
    const struct buf *content = &conf->secrets[which].content;
    return content->len > 0 ? content : NULL;
}
