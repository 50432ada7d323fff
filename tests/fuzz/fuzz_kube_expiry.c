/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a token and as a certificate: what is said to hold ends after its beginning. */
#include "kube/kube_conf.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>

static bool tells(const uint8_t *data, size_t size, enum kube_secret which)
{
    struct kube_conf conf = {.server = NULL};
    struct kube_expiry expiry;
    CLEANUP(buf) struct buf content = {.max_bytes = size};
    check(buf_append(&content, data, size, NULL) == 0);
    conf.secrets[which].content = content; /* borrowed */
    bool known = kube_conf_expiry(&conf, &expiry);
    check(!known || (expiry.from.ns >= 0 && wall_since(expiry.until, expiry.from) > 0));
    return known;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool is_token = tells(data, size, KUBE_SECRET_TOKEN);
    fuzz_tell(tells(data, size, KUBE_SECRET_CERT) || is_token);
    return 0;
}
