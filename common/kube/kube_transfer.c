/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_transfer.h"

#include "base/mem.h"
#include "kube/kube_answer.h"
#include "loop/curl_version.h"

#include <inttypes.h>
#include <openssl/ssl.h>
#include <string.h>

/* ---- how it is secured ----------------------------------------------------------------------- */

static void set_blob(CURL *easy, CURLoption option, const struct buf *content)
{
    if (content) {
        struct curl_blob blob = {
            .data = content->data, .len = content->len, .flags = CURL_BLOB_COPY};
        (void)curl_easy_setopt(easy, option, &blob);
    }
}

/* The first certificate of a text of many: libcurl parses what it is given for each connection. */
static struct buf first_certificate(const struct buf *ca)
{
    static const char end[] = "-----END CERTIFICATE-----";
    const char *found = strstr(buf_text(ca), end);
    size_t len = found ? (size_t)(found - ca->data) + strlen(end) : ca->len;
    return (struct buf){.data = ca->data, .len = len}; /* borrowed */
}

/* libcurl calls this at the begin of each handshake, when it has put its own CA store together:
 * ours takes that one's place. The store is looked up here and not when the transfer was made, so
 * that a handshake never trusts a CA that was replaced meanwhile; where the new one cannot be
 * parsed, there is no handshake at all. */
static CURLcode use_ca(CURL *easy, void *ssl_ctx, void *user)
{
    const struct kube_tls *tls = user;
    bool is_set = tls->ca && SSL_CTX_set1_verify_cert_store(ssl_ctx, tls->ca) == 1;
    return is_set ? CURLE_OK : CURLE_SSL_CACERT_BADFILE;
}

/* The CA stands alone: neither the system's file nor its directory counts beside it. For newer
 * versions "no directory" means the one that was built in, hence one in which nothing is found. */
static void set_ca(struct kube_tls *tls, const struct kube_conf *conf, CURL *easy)
{
    const struct buf *ca = kube_conf_secret(conf, KUBE_SECRET_CA);
    if (!ca) {
        return;
    }
    (void)curl_easy_setopt(easy, CURLOPT_CAPATH, CURL_VERSION_NO_DIRECTORY);
    (void)curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    if (!tls->ca) {
        set_blob(easy, CURLOPT_CAINFO_BLOB, ca);
        return;
    }
    (void)curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, use_ca);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, tls);
    if (curl_version_wants_authorities()) { /* or it takes the system's, beside our store */
        const struct buf some = first_certificate(ca);
        set_blob(easy, CURLOPT_CAINFO_BLOB, &some);
    }
}

/* The configuration alone says which proxy there is: curl's own variables and rules do not count.
 * One of https:// has to prove itself as the API server has, as in Go. */
static void set_proxy(const struct kube_conf *conf, CURL *easy)
{
    const char *proxy = conf->proxy_url;
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, proxy ? proxy : "");
    (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, proxy ? "" : "*");
    if (proxy) {
        long verify = conf->insecure_skip_tls_verify ? 0L : 1L;
        set_blob(easy, CURLOPT_PROXY_CAINFO_BLOB, kube_conf_secret(conf, KUBE_SECRET_CA));
        (void)curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYPEER, verify);
        (void)curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYHOST, verify ? 2L : 0L);
    }
}

static void set_tls(struct kube_tls *tls, const struct kube_conf *conf, CURL *easy)
{
    long verify = conf->insecure_skip_tls_verify ? 0L : 1L;
    set_ca(tls, conf, easy);
    set_blob(easy, CURLOPT_SSLCERT_BLOB, kube_conf_secret(conf, KUBE_SECRET_CERT));
    set_blob(easy, CURLOPT_SSLKEY_BLOB, kube_conf_secret(conf, KUBE_SECRET_KEY));
    (void)curl_easy_setopt(easy, CURLOPT_SHARE, tls->sessions);
    /* Without a password an encrypted key crashes libcurl 7.88; with this it is a TLS failure. */
    (void)curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "");
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, verify);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
    (void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    set_proxy(conf, easy);
}

void kube_tls_renew(struct kube_tls *tls, const struct kube_conf *conf)
{
    X509_STORE_free(tls->ca);
    tls->ca = kube_conf_parse_ca(conf);
}

void kube_tls_init(struct kube_tls *tls, const struct kube_conf *conf)
{
    tls->sessions = curl_share_init();
    (void)curl_share_setopt(tls->sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    kube_tls_renew(tls, conf);
}

void kube_tls_fini(struct kube_tls *tls)
{
    (void)curl_share_cleanup(tls->sessions); /* also of none */
    X509_STORE_free(tls->ca);
}

/* ---- where to, and as whom ------------------------------------------------------------------- */

/* Appends a copy of `text`, which it takes: there may be a secret in it. */
static struct curl_slist *append_taken(struct curl_slist *list, char *text)
{
    struct curl_slist *longer = curl_slist_append(list, text);
    explicit_bzero(text, strlen(text));
    free(text);
    return longer;
}

static const char *content_type(enum kube_method method)
{
    return method == KUBE_MERGE_PATCH       ? "Content-Type: application/merge-patch+json"
           : method == KUBE_STRATEGIC_PATCH ? "Content-Type: application/strategic-merge-patch+json"
                                            : "Content-Type: application/json";
}

static void set_headers(struct kube_transfer *t, const struct kube_transfer_plan *plan)
{
    const struct buf *token = kube_conf_secret(plan->conf, KUBE_SECRET_TOKEN);
    const char *as = plan->conf->impersonate;
    t->headers = curl_slist_append(NULL, "Accept: application/json");
    t->headers = curl_slist_append(t->headers, "Expect:"); /* no 100-continue round trip */
    if (plan->body) {
        t->headers = curl_slist_append(t->headers, content_type(plan->method));
    }
    if (plan->dial->connect_to) { /* the URL has the name to be proven, in place of it */
        t->headers = append_taken(t->headers, mem_format("Host: %s", plan->dial->connect_to + 2));
    }
    if (token) {
        t->headers = append_taken(t->headers, mem_format("Authorization: Bearer %s", token->data));
    }
    for (size_t len; as && *as != '\0'; as += len + 1) {
        len = strcspn(as, "\n");
        t->headers = append_taken(t->headers, mem_format("%.*s", (int)len, as));
    }
    (void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
}

static void set_url(struct kube_transfer *t, const struct kube_transfer_plan *plan)
{
    char *url = mem_format("%s%s", plan->dial->url, plan->path);
    (void)curl_easy_setopt(t->easy, CURLOPT_URL, url); /* copies it */
    free(url);
    if (plan->dial->connect_to) {
        t->connect_to = curl_slist_append(NULL, plan->dial->connect_to);
        (void)curl_easy_setopt(t->easy, CURLOPT_CONNECT_TO, t->connect_to);
    }
}

/* By name, each connection resolves it anew, for the server may have moved, and tries its addresses
 * in random order, for the first one may hang. A given address is put into libcurl's cache as the
 * name's, and the cache is asked: so the certificate is still checked against the name. */
static void set_address(struct kube_transfer *t, const struct kube_transfer_plan *plan)
{
    (void)curl_easy_setopt(t->easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
    (void)curl_easy_setopt(t->easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
    if (plan->address && plan->dial->host) {
        bool is_v6 = strchr(plan->address, ':');
        t->resolve = append_taken(NULL, mem_format("+%s:%" PRIu16 ":%s%s%s", plan->dial->host,
                                                   plan->dial->port, is_v6 ? "[" : "",
                                                   plan->address, is_v6 ? "]" : ""));
        (void)curl_easy_setopt(t->easy, CURLOPT_RESOLVE, t->resolve);
        (void)curl_easy_setopt(t->easy, CURLOPT_DNS_CACHE_TIMEOUT, 60L); /* takes it */
    }
}

void kube_transfer_open(struct kube_transfer *out, const struct kube_transfer_plan *plan)
{
    *out = (struct kube_transfer){.easy = curl_easy_init()};
    (void)curl_easy_setopt(out->easy, CURLOPT_USERAGENT, "dpu-heartbeat/" DPU_VERSION);
    (void)curl_easy_setopt(out->easy, CURLOPT_FOLLOWLOCATION,
                           0L); /* a token must not leave this host */
    if (plan->body) {
        (void)curl_easy_setopt(out->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)strlen(plan->body));
        (void)curl_easy_setopt(out->easy, CURLOPT_POSTFIELDS, plan->body);
    }
    if (plan->method != KUBE_GET) {
        (void)curl_easy_setopt(out->easy, CURLOPT_CUSTOMREQUEST, kube_status_verb(plan->method));
    }
    set_tls(plan->tls, plan->conf, out->easy);
    set_headers(out, plan);
    set_url(out, plan);
    set_address(out, plan);
}

void kube_transfer_close(struct kube_transfer *t)
{
    if (t->easy) {
        curl_easy_cleanup(t->easy);
    }
    for (struct curl_slist *h = t->headers; h; h = h->next) {
        explicit_bzero(h->data, strlen(h->data)); /* the token */
    }
    curl_slist_free_all(t->headers);
    curl_slist_free_all(t->connect_to);
    curl_slist_free_all(t->resolve);
    *t = (struct kube_transfer){.easy = NULL};
}
