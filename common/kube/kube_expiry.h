/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Until when a credential says that it holds: for metrics, warnings and dpuctl. No signature is
 * looked at and nothing is decided by it; the API server does both.
 */
#ifndef KUBE_KUBE_EXPIRY_H
#define KUBE_KUBE_EXPIRY_H

#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>

struct kube_expiry {
    struct wall from;
    struct wall until; /* later than `from` */
};

/* Of a JSON Web Token with `exp` and `iat` (RFC 7519), as service accounts have them. False for any
 * other token: those do not tell. */
bool kube_expiry_of_token(const char *token, size_t len, struct kube_expiry *out);

/* Of the first certificate in PEM text (RFC 5280). False if there is none. */
bool kube_expiry_of_certificate(const char *pem, size_t len, struct kube_expiry *out);

/* A tenth of its time is left, or less: whatever renews it should have done so. The kubelet
 * replaces a pod's token when a fifth is left. */
bool kube_expiry_is_near(const struct kube_expiry *expiry, struct wall now);

#endif
