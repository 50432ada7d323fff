/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "kube/kube_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    CONNECT_TIMEOUT_MS = 5000,
    KEEPALIVE_IDLE_S = 10,
    KEEPALIVE_INTERVAL_S = 5,
    UNACKED_TIMEOUT_MS = 15000,
    URL_MAX_BYTES = 4096,
};

/* ---- what curl tells while it runs ----------------------------------------------------------- */

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct kube_transfer *t = user;
    if (buf_append(&t->inbox, bytes, size * count, NULL) != 0) {
        t->overflowed = true;
        return 0; /* curl ends the transfer */
    }
    t->has_bytes = true;
    return size * count;
}

/* Value of header `name` in a raw header line, blanks trimmed; false if it is another header. */
static bool header_value(const char *line, size_t len, const char *name, const char **out,
                         size_t *out_len)
{
    size_t name_len = strlen(name);
    if (len <= name_len || strncasecmp(line, name, name_len) != 0 || line[name_len] != ':') {
        return false;
    }
    const char *at = line + name_len + 1;
    const char *end = line + len;
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    while (end > at && strchr(" \t\r\n", end[-1])) {
        end--;
    }
    *out = at;
    *out_len = (size_t)(end - at);
    return true;
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct kube_transfer *t = user;
    size_t len = size * count;
    const char *value;
    size_t value_len;
    char text[64];
    uint64_t seconds;
    if (header_value(line, len, "Retry-After", &value, &value_len) &&
        text_to_u64(value, value_len, &seconds, NULL) == 0) {
        t->retry_after_ms = (int64_t)(seconds > 86400 ? 86400 : seconds) * 1000;
    } else if (header_value(line, len, "Date", &value, &value_len) && value_len < sizeof(text)) {
        memcpy(text, value, value_len);
        text[value_len] = '\0';
        time_t date = curl_getdate(text, NULL);
        t->has_date = date >= 0;
        t->date = (struct wall){(int64_t)date * NS_PER_SEC};
    } else if (len == 2 && kube_transfer_status(t) >= 200) {
        t->has_bytes = true; /* the head is whole: worth a look before the first byte of the body */
    }
    return len;
}

/* The only bound on outgoing data that nobody acknowledges: keepalive is silent then. */
static int on_socket_open(void *user, curl_socket_t fd, curlsocktype purpose)
{
    unsigned int timeout_ms = UNACKED_TIMEOUT_MS;
    (void)user;
    (void)purpose;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
                     sizeof(timeout_ms)); /* a bound the less where the kernel has none */
    return CURL_SOCKOPT_OK;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static int add_header(struct kube_transfer *t, const char *text, struct err *e)
{
    struct curl_slist *longer = curl_slist_append(t->headers, text);
    if (!longer) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    t->headers = longer;
    return 0;
}

static const char *content_type(enum kube_method method)
{
    return method == KUBE_MERGE_PATCH       ? "Content-Type: application/merge-patch+json"
           : method == KUBE_STRATEGIC_PATCH ? "Content-Type: application/strategic-merge-patch+json"
                                            : "Content-Type: application/json";
}

static int add_token(struct kube_transfer *t, const struct buf *token, struct err *e)
{
    struct buf line;
    buf_init(&line, KUBE_SECRET_MAX_BYTES + 64);
    int rc = buf_appendf(&line, e, "Authorization: Bearer %s", token->data);
    if (rc == 0) {
        rc = add_header(t, line.data, e);
    }
    if (line.data) {
        explicit_bzero(line.data, line.capacity);
    }
    buf_fini(&line);
    return rc;
}

static int set_headers(struct kube_transfer *t, struct err *e)
{
    const struct buf *token = kube_cred_get(&t->client->cred, KUBE_SECRET_TOKEN);
    const struct kube_impersonation *as = &t->client->conf.as;
    int rc = add_header(t, "Accept: application/json", e);
    if (rc == 0 && t->config.body) {
        rc = add_header(t, content_type(t->config.method), e);
    }
    if (rc == 0) {
        rc = add_header(t, "Expect:", e); /* no 100-continue round trip */
    }
    if (rc == 0 && token) {
        rc = add_token(t, token, e);
    }
    for (size_t i = 0; rc == 0 && i < as->count; i++) {
        rc = add_header(t, as->headers[i], e);
    }
    (void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
    return rc;
}

/* tls-server-name: the URL carries the name that is verified and sent as SNI, CONNECT_TO the
 * address that is dialled. */
static int set_url(struct kube_transfer *t, struct err *e)
{
    const struct kube_conf *conf = &t->client->conf;
    char url[URL_MAX_BYTES];
    char connect_to[1024];
    const char *authority = strstr(conf->server, "://") + 3;
    size_t authority_len = strcspn(authority, "/");
    const char *prefix = authority + authority_len;
    int scheme_len = (int)(authority - conf->server);
    int n;
    if (!conf->tls_server_name) {
        n = snprintf(url, sizeof(url), "%s%s", conf->server, t->config.path);
    } else {
        const char *colon = memrchr(authority, ':', authority_len);
        bool has_port = colon && !memchr(colon, ']', authority_len - (size_t)(colon - authority));
        int port_len = has_port ? (int)(authority_len - (size_t)(colon - authority)) : 0;
        n = snprintf(url, sizeof(url), "%.*s%s%.*s%s%s", scheme_len, conf->server,
                     conf->tls_server_name, port_len, has_port ? colon : "", prefix,
                     t->config.path);
        text_format(connect_to, sizeof(connect_to), "::%.*s%s", (int)authority_len, authority,
                    has_port ? "" : ":443"); /* names are bounded by kube_conf */
        t->connect_to = curl_slist_append(NULL, connect_to);
        if (!t->connect_to) {
            return err_set(e, ERR_NOMEM, "out of memory");
        }
        (void)curl_easy_setopt(t->easy, CURLOPT_CONNECT_TO, t->connect_to);
    }
    if (n < 0 || n >= (int)sizeof(url)) {
        return err_set(e, ERR_LIMIT, "URL is longer than %d bytes", (int)sizeof(url));
    }
    if (curl_easy_setopt(t->easy, CURLOPT_URL, url) != CURLE_OK) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    return 0;
}

static void set_blob(CURL *easy, CURLoption option, const struct buf *content)
{
    if (content) {
        struct curl_blob blob = {
            .data = content->data, .len = content->len, .flags = CURL_BLOB_COPY};
        (void)curl_easy_setopt(easy, option, &blob); /* out of memory shows as a TLS failure */
    }
}

static void set_tls(struct kube_transfer *t)
{
    struct kube_client *client = t->client;
    long verify = client->conf.insecure_skip_tls_verify ? 0L : 1L;
    set_blob(t->easy, CURLOPT_CAINFO_BLOB, kube_cred_get(&client->cred, KUBE_SECRET_CA));
    set_blob(t->easy, CURLOPT_SSLCERT_BLOB, kube_cred_get(&client->cred, KUBE_SECRET_CERT));
    set_blob(t->easy, CURLOPT_SSLKEY_BLOB, kube_cred_get(&client->cred, KUBE_SECRET_KEY));
    (void)curl_easy_setopt(t->easy, CURLOPT_SSL_VERIFYPEER, verify);
    (void)curl_easy_setopt(t->easy, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
    (void)curl_easy_setopt(t->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (client->conf.proxy_url) {
        (void)curl_easy_setopt(t->easy, CURLOPT_PROXY, client->conf.proxy_url);
    }
}

static void set_connection(struct kube_transfer *t)
{
    CURL *easy = t->easy;
    bool fresh = t->config.fresh || t->client->draining;
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L); /* a token must not leave this host */
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https,http");
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)t->config.deadline_ms);
    /* A name server that is silent must not hold up the loop: without this, ending a transfer waits
     * for the thread that still asks it, ten seconds and more. It ends by itself. */
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
    (void)curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket_open);
    (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, fresh ? 1L : 0L);
    (void)curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, t->config.fresh ? 1L : 0L);
    if (!t->config.fresh) {
        t->client->draining = false;
    }
}

static void set_method(struct kube_transfer *t)
{
    if (t->config.body) {
        (void)curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)strlen(t->config.body));
        (void)curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->config.body);
    }
    if (t->config.method != KUBE_GET) {
        (void)curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, kube_status_verb(t->config.method));
    }
}

int kube_transfer_set_up(struct kube_transfer *t, struct err *e)
{
    t->easy = curl_easy_init();
    if (!t->easy) {
        return err_set(e, ERR_NOMEM, "out of memory for curl");
    }
    (void)curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    (void)curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->error);
    (void)curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(t->easy, CURLOPT_USERAGENT, "dpu-heartbeat/" DPU_VERSION);
    set_connection(t);
    set_tls(t);
    set_method(t);
    int rc = set_headers(t, e);
    return rc == 0 ? set_url(t, e) : rc;
}
