/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_conf.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "kube/kube_url.h"
#include "loop/curl_version.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* ---- a configuration ------------------------------------------------------------------------- */

void kube_conf_fini(struct kube_conf *conf)
{
    char **const texts[] = {&conf->server,     &conf->tls_server_name, &conf->proxy_url,
                            &conf->proxy_name, &conf->impersonate,     &conf->path,
                            &conf->context,    &conf->origin,          &conf->problem};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        kube_wipe_text(texts[i]);
    }
    kube_wipe_buf(&conf->text);
    kube_secrets_fini(conf->secrets);
}

static int choose_proxy(struct kube_conf *conf, const struct kube_url *server, const char *given,
                        struct err *e)
{
    struct kube_proxy proxy;
    int rc = kube_proxy_choose(server, given, &proxy, e);
    conf->proxy_url = proxy.url;
    conf->proxy_name = proxy.name;
    return rc;
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
    struct kube_conf conf = {
        .server = mem_format("https://%s%s%s:%s", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port),
        .secrets = {[KUBE_SECRET_TOKEN].file = mem_strdup(ACCOUNT_DIR "/token"),
                    [KUBE_SECRET_CA].file = mem_strdup(ACCOUNT_DIR "/ca.crt")},
        .origin = mem_strdup("in-cluster service account"),
    };
    struct kube_url server;
    struct err why = ERR_INIT;
    int rc = kube_url_parse(conf.server, &server, &why);
    if (rc != 0 || server.path[0] != '\0' || server.user_len > 0) {
        rc = err_set(e, ERR_PARSE,
                     "KUBERNETES_SERVICE_HOST '%.79s' and KUBERNETES_SERVICE_PORT '%.15s' are no "
                     "address: %s",
                     host, port, why.msg);
    } else {
        rc = choose_proxy(&conf, &server, NULL, e);
    }
    if (rc != 0) {
        kube_conf_fini(&conf);
        return rc;
    }
    *out = conf;
    return 0;
}

/* ---- a kubeconfig ---------------------------------------------------------------------------- */

/* One file of a list. */
struct source {
    char *path;
    struct buf text;
    json_t *root; /* NULL: it is empty */
};

/* The files being read and the configuration being filled. After the first error nothing counts. */
struct reader {
    const char *path; /* of the file that the entry in hand comes from */
    const struct source *sources;
    size_t count;
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
    bool is_full = json_is_string(value) ? json_string_length(value) > 0
                                         : json_object_size(value) + json_array_size(value) > 0;
    return is_full ? value : NULL;
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
 * Of several files the first that has the entry gives all of it. NULL: there is none. */
static json_t *find_named(struct reader *r, const char *list, const char *name, const char *inner)
{
    json_t *entry = NULL;
    for (size_t i = 0; i < r->count && !entry; i++) {
        r->path = r->sources[i].path;
        entry = json_text_find(json_object_get(r->sources[i].root, list), "name", name);
    }
    json_t *found = json_object_get(entry, inner);
    if (!entry) {
        refuse(r, ERR_PARSE, "no entry '%s' in '%s'", name, list);
    } else if (!json_is_object(found)) {
        refuse(r, ERR_PARSE, "entry '%s' of '%s' has no mapping '%s'", name, list, inner);
    }
    return found;
}

static const char *find_current(struct reader *r)
{
    const char *name = NULL;
    for (size_t i = 0; i < r->count && !name; i++) {
        r->path = r->sources[i].path;
        name = read_text(r, r->sources[i].root, "current-context");
    }
    return name;
}

static bool decode_text(const char *in, struct buf *out)
{
    size_t len = strlen(in);
    size_t used;
    CLEANUP(free) unsigned char *bytes = mem_alloc(BASE64_DECODED_BYTES(len));
    return base64_decode(in, len, bytes, &used) && used > 0 && !memchr(bytes, '\0', used) &&
           buf_append(out, bytes, used, NULL) == 0;
}

/* Without the blanks around it: a block of YAML ends in a newline. */
static void take_token(struct reader *r, const char *text)
{
    const char *begin = text + strspn(text, KUBE_BLANKS);
    size_t len = strlen(begin);
    while (len > 0 && strchr(KUBE_BLANKS, begin[len - 1])) {
        len--;
    }
    if (!kube_token_is_usable(begin, len) ||
        buf_append(&r->conf.secrets[KUBE_SECRET_TOKEN].content, begin, len, NULL) != 0) {
        refuse(r, ERR_PARSE, "'token' is empty, or holds a line break or a byte beyond ASCII");
    }
}

static void read_secret(struct reader *r, const json_t *mapping, enum kube_secret which)
{
    struct kube_secret_source *s = &r->conf.secrets[which];
    const char *slash = strrchr(r->path, '/');
    const char *file = read_text(r, mapping, kube_secret_field(which, true));
    const char *data = read_text(r, mapping, kube_secret_field(which, false));
    s->content = (struct buf){.max_bytes = KUBE_SECRET_MAX_BYTES};
    if (data && which == KUBE_SECRET_TOKEN) {
        take_token(r, data);
    } else if (data && !decode_text(data, &s->content)) {
        refuse(r, ERR_PARSE, "'%s' is not base64 of PEM text", kube_secret_field(which, false));
    }
    if (!file || (data && which != KUBE_SECRET_TOKEN)) {
        return; /* of a certificate or a key the data counts, of a token the file (client-go) */
    }
    s->file = file[0] == '/' || !slash
                  ? mem_strdup(file)
                  : mem_format("%.*s/%s", (int)(slash - r->path), r->path, file);
}

static bool is_given(const struct kube_conf *conf, enum kube_secret which)
{
    return conf->secrets[which].file || conf->secrets[which].content.len > 0;
}

/* A prefix of a path is taken as it stands, where others clean it: no segment may be empty or dots.
 */
static bool is_clean(const char *path)
{
    while (*path == '/') {
        size_t len = strcspn(path + 1, "/?#");
        if (strspn(path + 1, ".") >= len) {
            return false;
        }
        path += len + 1;
    }
    return *path == '\0';
}

static void check_server(struct reader *r, struct kube_url *out)
{
    struct err why = ERR_INIT;
    char *server = r->conf.server;
    if (!server) {
        refuse(r, ERR_PARSE, "the cluster has no 'server'");
        return;
    }
    if (strchr(server, '@')) { /* not shown: it may hold a password */
        refuse(r, ERR_PARSE, "'server' contains a user name: put credentials below 'users'");
        return;
    }
    for (size_t len = strlen(server); len > 0 && server[len - 1] == '/'; len--) {
        server[len - 1] = '\0';
    }
    if (kube_url_parse(server, out, &why) == 0 &&
        (out->scheme == KUBE_SOCKS5 || !is_clean(out->path))) {
        (void)err_set(&why, ERR_PARSE, "only https and http are taken, and a clean path");
    }
    if (why.code != 0) {
        refuse(r, ERR_PARSE, "server '%.79s' is not a URL like https://HOST:6443: %s", server,
               why.msg);
    }
}

static void check_tls_server_name(struct reader *r)
{
    struct kube_url host;
    struct err why = ERR_INIT;
    const char *name = r->conf.tls_server_name;
    if (name && kube_host_parse(name, &host, &why) != 0) {
        refuse(r, ERR_PARSE, "'tls-server-name' is neither a host's name nor an address: %s",
               why.msg);
    }
}

/* As YAML 1.1 has them, which is what kubectl reads. */
static bool read_bool(struct reader *r, const json_t *mapping, const char *key)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "y", "n"};
    const char *text = read_text(r, mapping, key);
    for (size_t i = 0; text && i < ARRAY_LEN(words); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return i % 2 == 0;
        }
    }
    if (text) {
        refuse(r, ERR_PARSE, "'%s' is neither true nor false", key);
    }
    return false;
}

/* Checks the address that we connect to: the proxy's, if there is one. The remedy comes first,
 * since the end of a long message is cut. */
static void check_name(struct reader *r)
{
    const struct kube_conf *c = &r->conf;
    const char *url = c->proxy_url ? c->proxy_url : c->server;
    if (url && !curl_version_reaches(url)) {
        refuse(r, ERR_PARSE,
               "%s has a host's name: give its address%s, since libcurl before 7.87 (this is %s) "
               "waits without a limit for a name server",
               c->proxy_url ? c->proxy_name : "'server'",
               c->proxy_url ? "" : " and the name as 'tls-server-name'",
               curl_version_info(CURLVERSION_NOW)->version);
    }
}

static void read_cluster(struct reader *r, const json_t *cluster)
{
    struct kube_conf *c = &r->conf;
    struct kube_url server;
    struct err why = ERR_INIT;
    c->server = copy_text(r, cluster, "server");
    c->tls_server_name = copy_text(r, cluster, "tls-server-name");
    read_secret(r, cluster, KUBE_SECRET_CA);
    check_server(r, &server);
    check_tls_server_name(r);
    c->insecure_skip_tls_verify = read_bool(r, cluster, "insecure-skip-tls-verify");
    if (c->insecure_skip_tls_verify && is_given(c, KUBE_SECRET_CA)) {
        refuse(r, ERR_PARSE,
               "insecure-skip-tls-verify and certificate-authority exclude each other");
    }
    const char *proxy = read_text(r, cluster, "proxy-url");
    if (r->e->code == 0 && choose_proxy(c, &server, proxy, &why) != 0) {
        refuse(r, ERR_PARSE, "%s", why.msg);
    }
    check_name(r);
    bool is_socks = c->proxy_url && strncmp(c->proxy_url, "socks5h:", 8) == 0;
    if (is_socks && c->tls_server_name && strchr(c->tls_server_name, ':')) {
        refuse(r, ERR_PARSE, "'tls-server-name' cannot be an IPv6 address through a SOCKS proxy");
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
        const json_t *value = json_object_get(user, unsupported[i]);
        if (value_of(user, unsupported[i]) || json_is_object(value)) {
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

static void read_context(struct reader *r)
{
    const char *asked = r->conf.context;
    const char *name = asked ? asked : find_current(r);
    if (!name) {
        refuse(r, ERR_PARSE, "no current-context");
        return;
    }
    const json_t *context = find_named(r, "contexts", name, "context");
    const char *cluster = read_text(r, context, "cluster");
    const char *user = read_text(r, context, "user");
    r->conf.origin = mem_format("kubeconfig '%s' context '%s'", r->path, name);
    if (cluster) {
        read_cluster(r, find_named(r, "clusters", cluster, "cluster"));
    } else {
        refuse(r, ERR_PARSE, "context '%s' names no cluster", name);
    }
    if (user) { /* none: anonymous */
        read_user(r, find_named(r, "users", user, "user"));
    }
}

static int read_source(struct source *s, struct err *e)
{
    CLEANUP(fd) int fd = open(s->path, O_RDONLY | O_CLOEXEC); /* it may be a pipe */
    if (fd < 0) {
        int code = errno == ENOENT ? ERR_NOTFOUND : ERR_IO;
        return err_set_errno(e, code, errno, "opening kubeconfig '%s'", s->path);
    }
    s->text = (struct buf){.max_bytes = KUBE_CONF_MAX_BYTES};
    int rc = file_read_fd(fd, s->path, &s->text, e);
    if (rc != 0) {
        return err_wrap(e, "kubeconfig");
    }
    s->root = json_text_parse_yaml_first(s->path, buf_text(&s->text), s->text.len, e);
    if (!s->root) {
        return ERR_PARSE;
    }
    return json_is_object(s->root) || json_is_null(s->root)
               ? 0
               : err_set(e, ERR_PARSE, "'%s' is not a kubeconfig: it is not a mapping", s->path);
}

static void forget_source(struct source *s)
{
    kube_wipe_text(&s->path);
    kube_wipe_buf(&s->text);
    json_decref(s->root);
}

/* Reads the context from what the files say together. */
static int load_context(const struct source *sources, size_t count, const char *context,
                        struct kube_conf *out, struct err *e)
{
    struct err why = ERR_INIT;
    struct reader r = {.path = sources[0].path, .sources = sources, .count = count, .e = &why};
    r.conf.context = text_is_empty(context) ? NULL : mem_strdup(context);
    read_context(&r);
    if (why.code != 0) {
        kube_conf_fini(&r.conf);
        return err_set(e, why.code, "%s", why.msg);
    }
    *out = r.conf;
    return 0;
}

int kube_conf_load(const char *path, const char *context, struct kube_conf *out, struct err *e)
{
    struct source s = {.text = {.len = 0}};
    struct err why = ERR_INIT;
    if (text_is_empty(path)) {
        return text_is_empty(context)
                   ? load_in_cluster(out, e)
                   : err_set(e, ERR_NOTFOUND, "no kubeconfig is given for context '%s'", context);
    }
    s.path = mem_strdup(path);
    int rc = read_source(&s, &why);
    if (rc == ERR_NOTFOUND && strchr(path, ':')) {
        rc = err_set(e, ERR_IO,
                     "kubeconfig '%s' is a list, of which only dpuctl makes one: give one file",
                     path);
    } else if (rc != 0) {
        rc = err_set(e, rc == ERR_NOTFOUND ? ERR_IO : rc, "%s", why.msg);
    } else if (!json_is_object(s.root)) {
        rc = err_set(e, ERR_PARSE, "'%s' is not a kubeconfig: it is not a mapping", path);
    } else {
        rc = load_context(&s, 1, context, out, e);
    }
    if (rc == 0) {
        out->path = s.path;
        out->text = s.text;
        s = (struct source){.root = s.root};
    }
    forget_source(&s);
    return rc;
}

/* Whether the list has it already. */
static bool is_known(const struct source *sources, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        if (text_equal(sources[i].path, path)) {
            return true;
        }
    }
    return false;
}

/* Reads one file of a list. One without a name, one that is known, or missing, is skipped. Takes
 * `path`. */
static int add_source(struct source sources[static KUBE_CONF_MAX_FILES], size_t *count, char *path,
                      struct err *e)
{
    struct err why = ERR_INIT;
    struct source s = {.path = path};
    int rc = ERR_NOTFOUND;
    if (path[0] != '\0' && !is_known(sources, *count, path)) {
        rc = *count < KUBE_CONF_MAX_FILES
                 ? read_source(&s, &why)
                 : err_set(&why, ERR_LIMIT, "KUBECONFIG lists more than %d files",
                           (int)KUBE_CONF_MAX_FILES);
    }
    if (rc == 0) {
        sources[(*count)++] = s;
        return 0;
    }
    forget_source(&s);
    return rc == ERR_NOTFOUND ? 0 : err_set(e, rc, "%s", why.msg);
}

int kube_conf_load_list(const char *list, const char *context, struct kube_conf *out, struct err *e)
{
    struct source sources[KUBE_CONF_MAX_FILES] = {{.path = NULL}};
    size_t count = 0;
    int rc = 0;
    for (size_t len; rc == 0 && *list; list += len + (list[len] == ':')) {
        len = strcspn(list, ":");
        rc = add_source(sources, &count, mem_format("%.*s", (int)len, list), e);
    }
    if (rc == 0) {
        rc = count > 0 ? load_context(sources, count, context, out, e)
                       : err_set(e, ERR_IO, "none of the files exists that KUBECONFIG lists");
    }
    for (size_t i = 0; i < count; i++) {
        forget_source(&sources[i]);
    }
    return rc;
}

/* ---- keeping it up to date --------------------------------------------------------------------
 */

int kube_conf_open(struct kube_conf *conf, struct mono now, struct err *e)
{
    conf->read_at = now;
    conf->looked_at = now;
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
    conf->looked_at = now;
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
