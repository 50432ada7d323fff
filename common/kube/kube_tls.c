/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_tls.h"

#include "loop/curl_version.h"

#include <openssl/ssl.h>
#include <string.h>

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

void kube_tls_apply(struct kube_tls *tls, const struct kube_conf *conf, CURL *easy)
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
