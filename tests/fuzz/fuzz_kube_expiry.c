/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a token and as a certificate: what is said to hold has an end after its beginning.
 */
#include "kube/kube_conf.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>

static void check_expiry(bool known, const struct kube_expiry *expiry)
{
    check(!known || (expiry->from.ns >= 0 && wall_since(expiry->until, expiry->from) > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_expiry expiry;
    bool is_token = kube_expiry_of_token((const char *)data, size, &expiry);
    check_expiry(is_token, &expiry);
    bool is_certificate = kube_expiry_of_certificate((const char *)data, size, &expiry);
    check_expiry(is_certificate, &expiry);
    fuzz_tell(is_token || is_certificate);
    return 0;
}
