/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a token and as a certificate: what is said to hold has an end after its beginning.
 */
#include "kube/kube_expiry.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool known, const struct kube_expiry *expiry)
{
    if (known && (expiry->from.ns < 0 || wall_since(expiry->until, expiry->from) <= 0)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_expiry expiry;
    check(kube_expiry_of_token((const char *)data, size, &expiry), &expiry);
    check(kube_expiry_of_certificate((const char *)data, size, &expiry), &expiry);
    return 0;
}
