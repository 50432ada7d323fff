/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_expiry.h"

#include "base/attr.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>
#include <time.h>

enum {
    CLAIMS_MAX_BYTES = 10920, /* encoded; those of a bound token have about 900 */
    CLAIMS_DECODED_BYTES = BASE64_DECODED_BYTES(CLAIMS_MAX_BYTES),
};

#define LATEST_S (INT64_MAX / NS_PER_SEC) /* in the year 2262: stands for all that is later */

static bool set(struct kube_expiry *out, int64_t from_s, int64_t until_s)
{
    int64_t end_s = until_s < LATEST_S ? until_s : LATEST_S;
    if (from_s < 0 || end_s <= from_s) {
        return false;
    }
    *out = (struct kube_expiry){{from_s * NS_PER_SEC}, {end_s * NS_PER_SEC}};
    return true;
}

bool kube_expiry_of_token(const char *token, size_t len, struct kube_expiry *out)
{
    unsigned char claims[CLAIMS_DECODED_BYTES];
    const char *first = memchr(token, '.', len);
    const char *end = token + len;
    const char *second = first ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
    if (!second || memchr(second + 1, '.', (size_t)(end - second - 1))) {
        return false;
    }
    size_t encoded_len = (size_t)(second - first - 1);
    size_t claims_len;
    if (encoded_len > CLAIMS_MAX_BYTES ||
        !base64_decode(BASE64_URL, first + 1, encoded_len, claims, &claims_len)) {
        return false;
    }
    CLEANUP(json)
    json_t *tree = json_text_parse((const char *)claims, claims_len, sizeof(claims), NULL);
    const json_t *from = json_object_get(tree, "iat");
    const json_t *until = json_object_get(tree, "exp");
    return json_is_integer(from) && json_is_integer(until) &&
           set(out, json_integer_value(from), json_integer_value(until));
}

static int64_t seconds_of(const ASN1_TIME *time)
{
    struct tm parts;
    return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : -1;
}

bool kube_expiry_of_certificate(const char *pem, size_t len, struct kube_expiry *out)
{
    BIO *text = len > 0 && len <= INT_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
    X509 *certificate = text ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;
    bool known = certificate && set(out, seconds_of(X509_get0_notBefore(certificate)),
                                    seconds_of(X509_get0_notAfter(certificate)));
    X509_free(certificate);
    BIO_free(text);
    ERR_clear_error();
    return known;
}

bool kube_expiry_is_near(const struct kube_expiry *expiry, struct wall now)
{
    return wall_since(expiry->until, now) <= wall_since(expiry->until, expiry->from) / 10;
}
