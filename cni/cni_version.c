/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/cni_version.h"

#include "base/text.h"

#include <string.h>

const char *const cni_versions[] = {
    "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", CNI_VERSION_CURRENT, NULL};

enum { PARTS = 3 };

bool cni_version_is_supported(const char *version)
{
    for (size_t i = 0; cni_versions[i]; i++) {
        if (text_equal(cni_versions[i], version)) {
            return true;
        }
    }
    return false;
}

/* Up to three dotted numbers; missing ones are 0. */
static int parse(const char *version, uint64_t out[static PARTS], struct err *e)
{
    static const char *const names[PARTS] = {"major", "minor", "micro"};
    const char *at = version;
    memset(out, 0, PARTS * sizeof(*out));
    for (size_t i = 0;; i++) {
        size_t len = strcspn(at, ".");
        if (i == PARTS) {
            return err_set(e, ERR_PARSE, "invalid version \"%.40s\": too many parts", version);
        }
        if (text_to_u64(at, len, &out[i], NULL) != 0) {
            return err_set(e, ERR_PARSE, "failed to convert %s version part \"%.*s\"", names[i],
                           (int)(len > 40 ? 40 : len), at);
        }
        if (at[len] == '\0') {
            return 0;
        }
        at += len + 1;
    }
}

int cni_version_at_least(const char *version, const char *least, bool *out, struct err *e)
{
    uint64_t a[PARTS];
    uint64_t b[PARTS];
    int rc = parse(version, a, e);
    if (rc != 0 || (rc = parse(least, b, e)) != 0) {
        return rc;
    }
    size_t i = 0;
    while (i < PARTS - 1 && a[i] == b[i]) {
        i++;
    }
    *out = a[i] >= b[i];
    return 0;
}
