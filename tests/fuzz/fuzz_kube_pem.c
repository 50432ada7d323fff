/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as CA, and as certificate and key at once: taken or refused with a sentence, and what
 * is taken can be used. */
#include "kube/kube_secret.h"
#include "tests/fuzz/fuzz.h"

#include <openssl/err.h>
#include <openssl/x509.h>

static struct buf content_of(const uint8_t *data, size_t size)
{
    struct buf content = {.max_bytes = KUBE_SECRET_MAX_BYTES};
    check(buf_append(&content, data, size, NULL) == 0);
    return content;
}

static bool opens(kube_secrets secrets)
{
    struct err e = ERR_INIT;
    int rc = kube_secrets_open(secrets, (struct mono){1}, &e);
    check((rc == 0) == (e.msg[0] == '\0'));
    check(ERR_peek_error() == 0);
    return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kube_secrets ca = {{.file = NULL}};
    kube_secrets pair = {{.file = NULL}};
    struct kube_expiry expiry;
    if (size == 0 || memchr(data, '\0', size)) { /* a kubeconfig has no such data */
        return 0;
    }
    ca[KUBE_SECRET_CA].content = content_of(data, size);
    bool is_ca = opens(ca);
    X509_STORE *store = kube_secrets_parse_ca(ca);
    check(!is_ca || store);
    X509_STORE_free(store);
    kube_secrets_fini(ca);
    pair[KUBE_SECRET_CERT].content = content_of(data, size);
    pair[KUBE_SECRET_KEY].content = content_of(data, size);
    bool is_pair = opens(pair);
    (void)kube_secrets_expiry(pair, &expiry);
    kube_secrets_fini(pair);
    fuzz_tell(is_ca || is_pair);
    return 0;
}
