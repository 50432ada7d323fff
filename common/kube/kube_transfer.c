/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_transfer.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
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

CURLcode kube_transfer_resume(struct kube_call *call)
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

int kube_transfer_status(const struct kube_call *call)
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
    } else if (len == 2 && kube_transfer_status(call) >= 200) {
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

bool kube_call_is_sent_once(const struct kube_call *call)
{
    const struct kube_request *request = &call->config.request;
    return request->method != KUBE_GET && !request->is_repeatable;
}

/* Another try of the same request was sent. */
static bool is_overtaken(const struct kube_call *call)
{
    const struct kube_call *first = call->first ? call->first : call;
    const struct kube_call *other;
    LIST_FOREACH(other, &call->client->calls, link)
    {
        if (other != call && kube_call_is_try_of(other, first) && other->has_sent) {
            return true;
        }
    }
    return false;
}

/* A try that has been overtaken sends nothing: what is written is sent once. */
static int before_request(void *user, char *peer, char *own, int peer_port, int own_port)
{
    struct kube_call *call = user;
    (void)peer;
    (void)own;
    (void)peer_port;
    (void)own_port;
    if (kube_call_is_sent_once(call) && is_overtaken(call)) {
        return CURL_PREREQFUNC_ABORT;
    }
    call->has_sent = true;
    return CURL_PREREQFUNC_OK;
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* The list with one more. */
static struct curl_slist *append(struct curl_slist *list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(list, text);
    if (!longer) {
        mem_exhausted(strlen(text));
    }
    return longer;
}

static void add_secret_header(struct kube_call *call, const char *name, const char *value)
{
    char *line = mem_format("%s%s", name, value);
    call->headers = append(call->headers, line);
    explicit_bzero(line, strlen(line));
    free(line);
}

static const char *content_type(enum kube_method method)
{
    return method == KUBE_MERGE_PATCH       ? "Content-Type: application/merge-patch+json"
           : method == KUBE_STRATEGIC_PATCH ? "Content-Type: application/strategic-merge-patch+json"
                                            : "Content-Type: application/json";
}

static void set_headers(struct kube_call *call)
{
    const struct buf *token = kube_cred_get(&call->client->cred, KUBE_SECRET_TOKEN);
    const char *as = call->client->conf.impersonate;
    call->headers = append(call->headers, "Accept: application/json");
    call->headers = append(call->headers, "Expect:"); /* no 100-continue round trip */
    if (call->body) {
        call->headers = append(call->headers, content_type(call->config.request.method));
    }
    if (token) {
        add_secret_header(call, "Authorization: Bearer ", token->data);
    }
    for (size_t len; as && *as != '\0'; as += len + 1) {
        char line[KUBE_IMPERSONATION_MAX_BYTES + sizeof(": ")];
        len = strcspn(as, "\n");
        text_format(line, sizeof(line), "%.*s", (int)len, as); /* bounded by kube_conf */
        call->headers = append(call->headers, line);
    }
    (void)curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
}

/* The server as the kubeconfig has it. */
struct server {
    int scheme_len; /* with "://" */
    const char *host;
    int host_len;
    const char *port; /* ":6443", or "" */
    int port_len;
    const char *prefix; /* of the path */
};

static struct server split_server(const char *text)
{
    const char *host = strstr(text, "://") + 3;
    size_t len = strcspn(host, "/");
    const char *colon = memrchr(host, ':', len);
    bool has_port = colon && !memchr(colon, ']', len - (size_t)(colon - host));
    const char *end = has_port ? colon : host + len;
    return (struct server){.scheme_len = (int)(host - text),
                           .host = host,
                           .host_len = (int)(end - host),
                           .port = has_port ? colon : "",
                           .port_len = has_port ? (int)(host + len - colon) : 0,
                           .prefix = host + len};
}

/* tls-server-name: the URL carries the name that is verified and sent as SNI, CONNECT_TO the
 * address that is dialled. */
static void set_url(struct kube_call *call)
{
    const struct kube_conf *conf = &call->client->conf;
    const struct server s = split_server(conf->server);
    const char *name = conf->tls_server_name ? conf->tls_server_name : s.host;
    int name_len = conf->tls_server_name ? (int)strlen(name) : s.host_len;
    char *url = mem_format("%.*s%.*s%.*s%s%s", s.scheme_len, conf->server, name_len, name,
                           s.port_len, s.port, s.prefix, call->path);
    (void)curl_easy_setopt(call->easy, CURLOPT_URL, url); /* copies it */
    free(url);
    if (conf->tls_server_name) {
        char *rule = mem_format("::%.*s%.*s", s.host_len, s.host, s.port_len > 0 ? s.port_len : 4,
                                s.port_len > 0 ? s.port : ":443");
        call->connect_to = append(NULL, rule);
        free(rule);
        (void)curl_easy_setopt(call->easy, CURLOPT_CONNECT_TO, call->connect_to);
    }
}

/* The server's name and port. False: it has none, or an address, or its port is nonsense. */
static bool read_server(const struct kube_client *client, struct server *out, uint64_t *out_port)
{
    *out = split_server(client->conf.server);
    *out_port = strncmp(client->conf.server, "https:", 6) == 0 ? 443 : 80;
    return out->host_len > 0 && out->host[0] != '[' &&
           (out->port_len == 0 ||
            text_to_u64(out->port + 1, (size_t)out->port_len - 1, out_port, NULL) == 0);
}

/* The server's name is the last good address, for this connection: nobody is asked for it. A watch
 * that goes on where it was, too: while no name can be resolved there would be none. */
static void set_address(struct kube_call *call)
{
    struct server s;
    uint64_t port;
    const char *address = call->client->last_good;
    bool is_v6 = strchr(address, ':');
    bool is_resumed = call->config.request.channel == KUBE_STREAM && address[0] != '\0';
    if ((!call->is_by_address && !is_resumed) || !read_server(call->client, &s, &port)) {
        return;
    }
    char *rule = mem_format("+%.*s:%" PRIu64 ":%s%s%s", s.host_len, s.host, port, is_v6 ? "[" : "",
                            address, is_v6 ? "]" : "");
    call->resolve = append(NULL, rule);
    free(rule);
    (void)curl_easy_setopt(call->easy, CURLOPT_RESOLVE, call->resolve);
    (void)curl_easy_setopt(call->easy, CURLOPT_DNS_CACHE_TIMEOUT, 60L); /* takes it */
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

void kube_transfer_open(struct kube_call *call)
{
    call->easy = curl_easy_init();
    if (!call->easy) {
        mem_exhausted(0);
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
    set_headers(call);
    set_url(call);
    set_address(call);
    curl_loop_add(call->client->curl, call->easy);
}

void kube_transfer_close(struct kube_call *call)
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

bool kube_transfer_is_connected(const struct kube_call *call)
{
    curl_off_t after_us = 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_CONNECT_TIME_T, &after_us); /* 0 if it is not */
    return after_us > 0;
}

static const char *address_of(const struct kube_call *call)
{
    char *address = NULL;
    if (call->easy) {
        (void)curl_easy_getinfo(call->easy, CURLINFO_PRIMARY_IP, &address); /* "" if unknown */
    }
    return address ? address : "";
}

bool kube_transfer_is_at_last_good(const struct kube_call *call)
{
    return strcmp(address_of(call), call->client->last_good) == 0;
}

void kube_transfer_remember(const struct kube_call *call)
{
    struct server s;
    uint64_t port;
    long reached = 0;
    if (!read_server(call->client, &s, &port)) {
        return;
    }
    (void)curl_easy_getinfo(call->easy, CURLINFO_PRIMARY_PORT, &reached); /* a proxy's is another */
    if (reached > 0 && (uint64_t)reached == port && !call->client->conf.proxy_url) {
        text_format(call->client->last_good, sizeof(call->client->last_good), "%s",
                    address_of(call));
    }
}

bool kube_transfer_is_json(const struct kube_call *call)
{
    char *type = NULL;
    if (call->easy) {
        (void)curl_easy_getinfo(call->easy, CURLINFO_CONTENT_TYPE, &type); /* NULL if unknown */
    }
    return type && strncasecmp(type, "application/json", strlen("application/json")) == 0;
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

void kube_transfer_read(const struct kube_call *call, struct kube_response *out)
{
    struct err e = ERR_INIT;
    bool came_whole = call->end_code == CURLE_OK;
    out->transport_error = kube_status_transport_error((int)call->end_code);
    const char *failure = came_whole ? read_answer(call, out, &e) : read_failure(call, out);
    if (!call->config.on_bytes) {
        kube_status_fill(out, call->config.request.method, call->path, failure);
    } else if (failure) {
        text_format(out->message, sizeof(out->message), "%s", failure);
    }
}

/* ---- what an answer means -------------------------------------------------------------------- */

int kube_status_code(int http_status)
{
    if (http_status >= 200 && http_status < 300) {
        return 0;
    }
    switch (http_status) {
    case 401:
    case 403:
        return ERR_AUTH;
    case 404:
        return ERR_NOTFOUND;
    case 409:
        return ERR_CONFLICT;
    case 410:
        return ERR_GONE;
    case 429:
        return ERR_RETRY;
    default:
        /* 5xx may pass; any other 3xx or 4xx says that the request itself is wrong. */
        return http_status == 0 || http_status >= 500 ? ERR_RETRY : ERR_PARSE;
    }
}

enum kube_outcome kube_status_outcome(int http_status, bool is_json, size_t body_len,
                                      const json_t *body)
{
    if (kube_status_code(http_status) == 0) {
        return json_is_object(body)      ? KUBE_ANSWERED
               : is_json && body_len > 0 ? KUBE_UNREADABLE
                                         : KUBE_NO_CONTACT;
    }
    bool is_fact =
        http_status == 404 || http_status == 409 || http_status == 410 || http_status == 422;
    return is_fact && text_equal(json_text_get(body, "kind"), "Status") ? KUBE_ANSWERED
                                                                        : KUBE_NO_CONTACT;
}

const char *kube_status_verb(enum kube_method method)
{
    static const char *const names[] = {[KUBE_GET] = "GET",
                                        [KUBE_POST] = "POST",
                                        [KUBE_PUT] = "PUT",
                                        [KUBE_MERGE_PATCH] = "PATCH",
                                        [KUBE_STRATEGIC_PATCH] = "PATCH",
                                        [KUBE_DELETE] = "DELETE"};
    return names[method];
}

enum kube_transport_error kube_status_transport_error(int curl_code)
{
    static const struct {
        CURLcode code;
        enum kube_transport_error error;
    } rows[] = {
        {CURLE_OK, KUBE_TRANSPORT_OK},
        {CURLE_WRITE_ERROR, KUBE_TRANSPORT_OK}, /* ours: the answer is too large */
        {CURLE_OPERATION_TIMEDOUT, KUBE_TRANSPORT_TIMEOUT},
        {CURLE_COULDNT_RESOLVE_HOST, KUBE_TRANSPORT_RESOLVE},
        {CURLE_COULDNT_RESOLVE_PROXY, KUBE_TRANSPORT_RESOLVE},
        {CURLE_COULDNT_CONNECT, KUBE_TRANSPORT_CONNECT},
        {CURLE_PROXY, KUBE_TRANSPORT_CONNECT},
        {CURLE_SSL_CONNECT_ERROR, KUBE_TRANSPORT_TLS},
        {CURLE_PEER_FAILED_VERIFICATION, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CERTPROBLEM, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CIPHER, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CACERT_BADFILE, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_ISSUER_ERROR, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_INVALIDCERTSTATUS, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CLIENTCERT, KUBE_TRANSPORT_TLS},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if ((int)rows[i].code == curl_code) {
            return rows[i].error;
        }
    }
    return KUBE_TRANSPORT_OTHER;
}

/* curl quotes the URL of a proxy that it does not understand, and cuts it somewhere. */
const char *kube_status_failure(const char *said, int curl_code)
{
    if (strstr(said, "Unsupported proxy")) {
        return "the proxy's URL is not supported (not shown: it may hold a password)";
    }
    return said[0] == '\0' || strchr(said, '@') ? curl_easy_strerror((CURLcode)curl_code) : said;
}

void kube_status_fill(struct kube_response *r, enum kube_method method, const char *path,
                      const char *failure)
{
    const char *said = json_text_get(r->body, "message");
    const char *reason = json_text_get(r->body, "reason");
    char detail[150]; /* leaves room for the verb, the path or the status */
    if (r->code == 0) {
        return;
    }
    if (reason) {
        text_sanitize(r->reason, sizeof(r->reason), reason, strlen(reason));
    }
    if (failure) {
        text_sanitize(detail, sizeof(detail), failure, strlen(failure));
        text_format(r->message, sizeof(r->message), "%s %s: %s", kube_status_verb(method), path,
                    detail);
    } else if (said) {
        text_sanitize(detail, sizeof(detail), said, strlen(said));
        text_format(r->message, sizeof(r->message), "HTTP %d: %s", r->http_status,
                    detail); /* the server names verb and object itself */
    } else {
        text_format(r->message, sizeof(r->message), "%s %s: HTTP %d", kube_status_verb(method),
                    path, r->http_status);
    }
}
