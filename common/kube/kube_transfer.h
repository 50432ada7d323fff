/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transfer of libcurl's is told of a request: where it goes, as whom, and how it is secured.
 * All of that is the configuration's (kube/kube_conf.h) and the request's; when it is sent, over
 * which connection, and what comes of it is the client's (kube/kube_client.c).
 */
#ifndef KUBE_KUBE_TRANSFER_H
#define KUBE_KUBE_TRANSFER_H

#include "kube/kube_client.h"
#include "kube/kube_conf.h"
#include "kube/kube_url.h"

#include <curl/curl.h>

/* What lasts from one connection to the next. Zero: none yet. */
struct kube_tls {
    CURLSH *sessions;         /* what each further connection resumes */
    struct x509_store_st *ca; /* parsed; NULL: libcurl reads the text, or has its own */
};

void kube_tls_init(struct kube_tls *tls, const struct kube_conf *conf);
/* Accepts one that is all zero. The transfers that had it have ended. */
void kube_tls_fini(struct kube_tls *tls);

/* The configuration's CA has changed: new handshakes are checked against the new one alone. */
void kube_tls_renew(struct kube_tls *tls, const struct kube_conf *conf);

/* Borrowed: `tls` and `body` until the transfer ends, the rest for the call. */
struct kube_transfer_plan {
    const struct kube_conf *conf;
    struct kube_tls *tls;
    const struct kube_dial *dial;
    enum kube_method method;
    const char *path;
    const char *body;    /* NULL: none */
    const char *address; /* of the server, in place of its name; NULL: that is resolved */
};

/* A transfer, and the lists that libcurl reads until it ends. Zero: none. */
struct kube_transfer {
    CURL *easy;
    struct curl_slist *headers; /* there is the token in them */
    struct curl_slist *connect_to;
    struct curl_slist *resolve;
};

/* Makes the handle; runs nothing. */
void kube_transfer_open(struct kube_transfer *out, const struct kube_transfer_plan *plan);
/* It is no longer in a loop. Wipes what was secret; zero afterwards. */
void kube_transfer_close(struct kube_transfer *t);

#endif
