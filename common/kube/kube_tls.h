/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a transfer of libcurl's is secured: which CA the API server has to prove itself to, what the
 * client proves itself with, and what of this holds for a proxy. The credentials are the
 * configuration's (kube/kube_conf.h); here is what lasts from one connection to the next.
 */
#ifndef KUBE_KUBE_TLS_H
#define KUBE_KUBE_TLS_H

#include "kube/kube_conf.h"

#include <curl/curl.h>

/* Zero: none yet. */
struct kube_tls {
    CURLSH *sessions;         /* what each further connection resumes */
    struct x509_store_st *ca; /* parsed; NULL: libcurl reads the text, or has its own */
};

void kube_tls_init(struct kube_tls *tls, const struct kube_conf *conf);
/* Accepts one that is all zero. The transfers that it was applied to have ended. */
void kube_tls_fini(struct kube_tls *tls);

/* The configuration's CA has changed: new handshakes are checked against the new one alone. */
void kube_tls_renew(struct kube_tls *tls, const struct kube_conf *conf);

/* Tells a transfer; it borrows `tls` until it ends. */
void kube_tls_apply(struct kube_tls *tls, const struct kube_conf *conf, CURL *easy);

#endif
