/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/json_text.h"
#include "base/text.h"
#include "kube/kube_internal.h"
#include "kube/kube_status.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    KEEPALIVE_IDLE_S = 10,
    KEEPALIVE_INTERVAL_S = 5,
    UNACKED_TIMEOUT_MS = 15000,
    JUST_LEFT_S = 1, /* an idle connection that is older may be half open */
    URL_MAX_BYTES = 4096,
};

/* ---- what curl tells while it runs ----------------------------------------------------------- */

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct kube_call *call = user;
    if (buf_append(&call->inbox, bytes, size * count, NULL) == 0) {
        call->has_bytes = true;
        return size * count;
    }
    if (call->config.on_bytes && call->has_bytes) { /* its owner has yet to look, and makes room */
        call->is_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    call->overflowed = true;
    return 0; /* curl ends the transfer */
}

CURLcode kube_handle_resume(struct kube_call *call)
{
    call->is_paused = false;
    return curl_easy_pause(call->easy, CURLPAUSE_CONT);
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

static int status(const struct kube_call *call)
{
    long status = 0;
    if (call->easy) {
        (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status); /* 0 if unknown */
    }
    return (int)status;
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct kube_call *call = user;
    size_t len = size * count;
    const char *value;
    size_t value_len;
    char text[64];
    uint64_t seconds;
    if (header_value(line, len, "Retry-After", &value, &value_len) &&
        text_to_u64(value, value_len, &seconds, NULL) == 0) {
        call->retry_after_ms = (int64_t)(seconds > 86400 ? 86400 : seconds) * 1000;
    } else if (header_value(line, len, "Date", &value, &value_len) && value_len < sizeof(text)) {
        memcpy(text, value, value_len);
        text[value_len] = '\0';
        time_t date = curl_getdate(text, NULL);
        call->has_date = date >= 0;
        call->date = (struct wall){mono_ns_mul(NS_PER_SEC, date)}; /* of any year up to 9999 */
    } else if (len == 2 && status(call) >= 200) {
        call->has_bytes = true; /* the head is whole: worth a look before its body comes */
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

/* A try that has been overtaken sends nothing: what is written is sent once. */
static int before_request(void *user, char *peer, char *own, int peer_port, int own_port)
{
    struct kube_call *call = user;
    (void)peer;
    (void)own;
    (void)peer_port;
    (void)own_port;
    if (kube_call_is_sent_once(call) && kube_beside_has_sent(call)) {
        return CURL_PREREQFUNC_ABORT;
    }
    call->has_sent = true;
    return CURL_PREREQFUNC_OK;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static int add_header(struct kube_call *call, const char *text, struct err *e)
{
    struct curl_slist *longer = curl_slist_append(call->headers, text);
    if (!longer) {
        return err_no_memory(e);
    }
    call->headers = longer;
    return 0;
}

static const char *content_type(enum kube_method method)
{
    return method == KUBE_MERGE_PATCH       ? "Content-Type: application/merge-patch+json"
           : method == KUBE_STRATEGIC_PATCH ? "Content-Type: application/strategic-merge-patch+json"
                                            : "Content-Type: application/json";
}

static int add_token(struct kube_call *call, const struct buf *token, struct err *e)
{
    struct buf line;
    buf_init(&line, KUBE_SECRET_MAX_BYTES + 64);
    int rc = buf_appendf(&line, e, "Authorization: Bearer %s", token->data);
    if (rc == 0) {
        rc = add_header(call, line.data, e);
    }
    if (line.data) {
        explicit_bzero(line.data, line.capacity);
    }
    buf_fini(&line);
    return rc;
}

static int set_headers(struct kube_call *call, struct err *e)
{
    const struct buf *token = kube_cred_get(&call->client->cred, KUBE_SECRET_TOKEN);
    const struct kube_impersonation *as = &call->client->conf.as;
    int rc = add_header(call, "Accept: application/json", e);
    if (rc == 0 && call->body) {
        rc = add_header(call, content_type(call->config.request.method), e);
    }
    if (rc == 0) {
        rc = add_header(call, "Expect:", e); /* no 100-continue round trip */
    }
    if (rc == 0 && token) {
        rc = add_token(call, token, e);
    }
    for (size_t i = 0; rc == 0 && i < as->count; i++) {
        rc = add_header(call, as->headers[i], e);
    }
    (void)curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
    return rc;
}

/* tls-server-name: the URL carries the name that is verified and sent as SNI, CONNECT_TO the
 * address that is dialled. */
static int set_url(struct kube_call *call, struct err *e)
{
    const struct kube_conf *conf = &call->client->conf;
    char url[URL_MAX_BYTES];
    char connect_to[1024];
    const char *authority = strstr(conf->server, "://") + 3;
    size_t authority_len = strcspn(authority, "/");
    const char *prefix = authority + authority_len;
    int scheme_len = (int)(authority - conf->server);
    int n;
    if (!conf->tls_server_name) {
        n = snprintf(url, sizeof(url), "%s%s", conf->server, call->path);
    } else {
        const char *colon = memrchr(authority, ':', authority_len);
        bool has_port = colon && !memchr(colon, ']', authority_len - (size_t)(colon - authority));
        int port_len = has_port ? (int)(authority_len - (size_t)(colon - authority)) : 0;
        n = snprintf(url, sizeof(url), "%.*s%s%.*s%s%s", scheme_len, conf->server,
                     conf->tls_server_name, port_len, has_port ? colon : "", prefix, call->path);
        text_format(connect_to, sizeof(connect_to), "::%.*s%s", (int)authority_len, authority,
                    has_port ? "" : ":443"); /* names are bounded by kube_conf */
        call->connect_to = curl_slist_append(NULL, connect_to);
        if (!call->connect_to) {
            return err_no_memory(e);
        }
        (void)curl_easy_setopt(call->easy, CURLOPT_CONNECT_TO, call->connect_to);
    }
    if (n < 0 || n >= (int)sizeof(url)) {
        return err_set(e, ERR_LIMIT, "URL is longer than %d bytes", (int)sizeof(url));
    }
    if (curl_easy_setopt(call->easy, CURLOPT_URL, url) != CURLE_OK) {
        return err_no_memory(e);
    }
    return 0;
}

/* The server's name as the kubeconfig has it, which may be nonsense; returns its length. 0: it has
 * none, or an address. */
static size_t read_server(const struct kube_client *client, const char **out_host,
                          uint64_t *out_port)
{
    const char *server = client->conf.server;
    const char *scheme_end = strstr(server, "://");
    if (!scheme_end || scheme_end[3] == '[') {
        return 0;
    }
    const char *host = scheme_end + 3;
    size_t len = strcspn(host, ":/");
    *out_host = host;
    *out_port = strncmp(server, "https:", 6) == 0 ? 443 : 80;
    if (host[len] == ':') {
        const char *port = host + len + 1;
        return text_to_u64(port, strcspn(port, "/"), out_port, NULL) == 0 ? len : 0;
    }
    return len;
}

/* The server's name is the last good address, for this connection: nobody is asked for it. A watch
 * that goes on where it was, too: while no name can be resolved there would be none. */
static int set_address(struct kube_call *call, struct err *e)
{
    char rule[1024];
    const char *host = NULL;
    uint64_t port = 0;
    const char *address = call->client->last_good;
    bool is_v6 = strchr(address, ':');
    bool is_resumed = call->config.request.channel == KUBE_STREAM && address[0] != '\0';
    size_t len = read_server(call->client, &host, &port);
    if ((!call->is_by_address && !is_resumed) || len == 0) {
        return 0;
    }
    text_format(rule, sizeof(rule), "+%.*s:%" PRIu64 ":%s%s%s", (int)len, host, port,
                is_v6 ? "[" : "", address, is_v6 ? "]" : "");
    call->resolve = curl_slist_append(NULL, rule);
    if (!call->resolve) {
        return err_no_memory(e);
    }
    (void)curl_easy_setopt(call->easy, CURLOPT_RESOLVE, call->resolve);
    (void)curl_easy_setopt(call->easy, CURLOPT_DNS_CACHE_TIMEOUT, 60L); /* takes it */
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

static void set_tls(struct kube_call *call)
{
    struct kube_client *client = call->client;
    const struct buf *ca = kube_cred_get(&client->cred, KUBE_SECRET_CA);
    long verify = client->conf.insecure_skip_tls_verify ? 0L : 1L;
    set_blob(call->easy, CURLOPT_CAINFO_BLOB, ca);
    if (ca) { /* alone: it stands in for the system's file, but not for its directory */
        (void)curl_easy_setopt(call->easy, CURLOPT_CAPATH, NULL);
    }
    set_blob(call->easy, CURLOPT_SSLCERT_BLOB, kube_cred_get(&client->cred, KUBE_SECRET_CERT));
    set_blob(call->easy, CURLOPT_SSLKEY_BLOB, kube_cred_get(&client->cred, KUBE_SECRET_KEY));
    /* Without one an encrypted key crashes libcurl 7.88; with this it is a TLS failure. */
    (void)curl_easy_setopt(call->easy, CURLOPT_KEYPASSWD, "");
    (void)curl_easy_setopt(call->easy, CURLOPT_SSL_VERIFYPEER, verify);
    (void)curl_easy_setopt(call->easy, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
    (void)curl_easy_setopt(call->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (client->conf.proxy_url) {
        (void)curl_easy_setopt(call->easy, CURLOPT_PROXY, client->conf.proxy_url);
    }
}

static void set_connection(struct kube_call *call)
{
    CURL *easy = call->easy;
    enum kube_channel channel = call->config.request.channel;
    bool fresh =
        channel == KUBE_FRESH || channel == KUBE_LIST || call->first || call->client->draining;
    bool is_last = channel == KUBE_FRESH || channel == KUBE_STREAM;
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L); /* a token must not leave this host */
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https,http");
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)call->config.request.deadline_ms);
    (void)curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);     /* the server may have moved */
    (void)curl_easy_setopt(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L); /* the first one may hang */
    /* A name server that is silent must not hold up the loop: without this, ending a transfer waits
     * for the thread that still asks it, ten seconds and more. It ends by itself. */
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
    (void)curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket_open);
    (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, fresh ? 1L : 0L);
    (void)curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, is_last ? 1L : 0L);
    if (channel == KUBE_STREAM) {
        (void)curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)JUST_LEFT_S);
    }
    if (channel == KUBE_CONTROL) {
        call->client->draining = false;
    }
}

static void set_method(struct kube_call *call)
{
    if (call->body) {
        (void)curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)strlen(call->body));
        (void)curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->body);
    }
    if (call->config.request.method != KUBE_GET) {
        (void)curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST,
                               kube_status_verb(call->config.request.method));
    }
}

int kube_handle_open(struct kube_call *call, struct err *e)
{
    call->easy = curl_easy_init();
    if (!call->easy) {
        return err_no_memory(e);
    }
    (void)curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    (void)curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->error);
    (void)curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    (void)curl_easy_setopt(call->easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(call->easy, CURLOPT_HEADERDATA, call);
    (void)curl_easy_setopt(call->easy, CURLOPT_PREREQFUNCTION, before_request);
    (void)curl_easy_setopt(call->easy, CURLOPT_PREREQDATA, call);
    (void)curl_easy_setopt(call->easy, CURLOPT_USERAGENT, "dpu-heartbeat/" DPU_VERSION);
    set_connection(call);
    set_tls(call);
    set_method(call);
    int rc = set_headers(call, e);
    if (rc != 0) {
        return rc;
    }
    rc = set_url(call, e);
    if (rc != 0) {
        return rc;
    }
    rc = set_address(call, e);
    if (rc != 0) {
        return rc;
    }
    return curl_loop_add(call->client->curl, call->easy, e); /* runs nothing yet */
}

void kube_handle_close(struct kube_call *call)
{
    if (call->easy) {
        curl_loop_remove(call->client->curl, call->easy);
        curl_easy_cleanup(call->easy);
        call->easy = NULL;
    }
    for (struct curl_slist *h = call->headers; h; h = h->next) {
        explicit_bzero(h->data, strlen(h->data)); /* the token */
    }
    curl_slist_free_all(call->headers);
    curl_slist_free_all(call->connect_to);
    curl_slist_free_all(call->resolve);
    call->headers = NULL;
    call->connect_to = NULL;
    call->resolve = NULL;
}

/* ---- how far it has come --------------------------------------------------------------------- */

bool kube_handle_is_connected(const struct kube_call *call)
{
    curl_off_t after_us = 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_CONNECT_TIME_T, &after_us); /* 0 if it is not */
    return after_us > 0;
}

bool kube_handle_is_answered(const struct kube_call *call)
{
    return status(call) != 0;
}

static const char *address_of(const struct kube_call *call)
{
    char *address = NULL;
    if (call->easy) {
        (void)curl_easy_getinfo(call->easy, CURLINFO_PRIMARY_IP, &address); /* "" if unknown */
    }
    return address ? address : "";
}

bool kube_handle_is_at_last_good(const struct kube_call *call)
{
    return strcmp(address_of(call), call->client->last_good) == 0;
}

void kube_handle_remember(const struct kube_call *call)
{
    const char *host;
    uint64_t port;
    long reached = 0;
    if (read_server(call->client, &host, &port) == 0) {
        return;
    }
    (void)curl_easy_getinfo(call->easy, CURLINFO_PRIMARY_PORT, &reached); /* a proxy's is another */
    if (reached > 0 && (uint64_t)reached == port && !call->client->conf.proxy_url) {
        text_format(call->client->last_good, sizeof(call->client->last_good), "%s",
                    address_of(call));
    }
}

static bool is_json(const struct kube_call *call)
{
    char *type = NULL;
    if (call->easy) {
        (void)curl_easy_getinfo(call->easy, CURLINFO_CONTENT_TYPE, &type); /* NULL if unknown */
    }
    return type && strncasecmp(type, "application/json", strlen("application/json")) == 0;
}

void kube_call_head(const struct kube_call *call, struct kube_response *out)
{
    *out = (struct kube_response){
        .code = kube_status_code(status(call)),
        .http_status = status(call),
        .is_json = is_json(call),
        .retry_after_ms = call->retry_after_ms,
        .has_server_date = call->has_date,
        .server_date = call->date,
        .received_wall = clock_wall_now(),
        .sent_at = call->sent_at,
        .received_at = clock_mono_now(),
    };
}

/* An answer that came whole. Returns what is wrong with it, or NULL. */
static const char *read_answer(const struct kube_call *call, struct kube_response *r, struct err *e)
{
    const struct buf *inbox = &call->inbox;
    if (r->code == 0 && call->config.on_bytes) {
        return NULL; /* a stream was read while it came */
    }
    if (r->code == 0 && call->config.request.is_raw) {
        r->raw = buf_text(inbox);
        r->raw_len = inbox->len;
        r->outcome = r->is_json ? KUBE_ANSWERED : KUBE_NO_CONTACT;
        return NULL;
    }
    if (r->is_json || r->code == 0) {
        r->body = json_text_parse_stored(buf_text(inbox), inbox->len, KUBE_BODY_MAX_BYTES, e);
    }
    r->outcome = kube_status_outcome(r->http_status, r->is_json, inbox->len, r->body);
    if (r->code == 0 && !json_is_object(r->body)) { /* a proxy's page is no answer */
        r->code = ERR_PARSE;
        return r->body ? "the answer is not a JSON object" : e->msg;
    }
    return NULL;
}

/* Returns why none came, or none that we take. */
static const char *read_failure(const struct kube_call *call, struct kube_response *r)
{
    r->code = ERR_RETRY;
    if (!call->overflowed) {
        return kube_status_failure(call->error, (int)call->end_code);
    }
    r->outcome = kube_status_outcome(r->http_status, r->is_json, KUBE_BODY_MAX_BYTES, NULL);
    return "the answer is larger than allowed";
}

void kube_handle_read(const struct kube_call *call, struct kube_response *out)
{
    struct err e = ERR_INIT;
    bool came_whole = call->end_code == CURLE_OK;
    kube_call_head(call, out);
    out->loss = kube_status_loss((int)call->end_code);
    const char *failure = came_whole ? read_answer(call, out, &e) : read_failure(call, out);
    if (!call->config.on_bytes) {
        kube_status_fill(out, call->config.request.method, call->path, failure);
    } else if (failure) {
        text_format(out->message, sizeof(out->message), "%s", failure);
    }
}
