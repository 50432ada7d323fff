/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/socket_names.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a: to keep a handful of instances apart, not to resist anybody. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (const char *s = text; *s; s++) {
        hash = (hash ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static const uint64_t HASH_START = UINT64_C(0xcbf29ce484222325);

static bool fits(int printed)
{
    return printed >= 0 && printed < SOCKET_NAMES_PATH_BYTES;
}

static int name_registration(const char *driver, const char *uid, struct socket_names *n,
                             struct err *e)
{
    char *out = n->registration;
    uint64_t of_uid = hash_text(HASH_START, uid);
    /* The dot keeps driver "a" with UID "bc" apart from driver "ab" with UID "c". */
    uint64_t of_both = hash_text(hash_text(hash_text(HASH_START, driver), "."), uid);
    if (fits(snprintf(out, SOCKET_NAMES_PATH_BYTES, "%s/%s-%s-reg.sock", n->registry_dir, driver,
                      uid)) ||
        fits(snprintf(out, SOCKET_NAMES_PATH_BYTES, "%s/%s-%016" PRIx64 "-reg.sock",
                      n->registry_dir, driver, of_uid)) ||
        fits(snprintf(out, SOCKET_NAMES_PATH_BYTES, "%s/dra-%016" PRIx64 "-reg.sock",
                      n->registry_dir, of_both))) {
        return 0;
    }
    return err_set(e, ERR_LIMIT, "no registration socket name fits into '%s'", n->registry_dir);
}

static int name_dra(const char *uid, struct socket_names *n, struct err *e)
{
    uint64_t hash = hash_text(HASH_START, uid);
    if (fits(snprintf(n->dra, sizeof(n->dra), "%s/dra-%s.sock", n->plugin_dir, uid)) ||
        fits(snprintf(n->dra, sizeof(n->dra), "%s/dra-%016" PRIx64 ".sock", n->plugin_dir, hash)) ||
        fits(snprintf(n->dra, sizeof(n->dra), "%s/dra-%08" PRIx32 ".sock", n->plugin_dir,
                      (uint32_t)(hash ^ hash >> 32)))) {
        return 0;
    }
    return err_set(e, ERR_LIMIT, "no DRA socket name fits into '%s'", n->plugin_dir);
}

static int name_plainly(const char *driver, struct socket_names *n, struct err *e)
{
    if (fits(snprintf(n->registration, sizeof(n->registration), "%s/%s-reg.sock", n->registry_dir,
                      driver)) &&
        fits(snprintf(n->dra, sizeof(n->dra), "%s/dra.sock", n->plugin_dir))) {
        return 0;
    }
    return err_set(e, ERR_LIMIT, "socket names in '%s' and '%s' exceed %d bytes", n->registry_dir,
                   n->plugin_dir, SOCKET_NAMES_PATH_BYTES - 1);
}

static int check_words(const char *kubelet_root, const char *driver, const char *uid, struct err *e)
{
    if (kubelet_root[0] != '/') {
        return err_set(e, ERR_PARSE, "kubelet root directory '%s' is not absolute", kubelet_root);
    }
    if (!text_is_dns1123_subdomain(driver) || strlen(driver) > SOCKET_NAMES_DRIVER_MAX) {
        return err_set(e, ERR_PARSE, "driver name '%s' is not a DNS subdomain of at most %d bytes",
                       driver, SOCKET_NAMES_DRIVER_MAX);
    }
    if (uid[0] != '\0' && !text_is_dns1123_subdomain(uid)) {
        return err_set(e, ERR_PARSE, "rolling update UID '%s' is not a pod UID", uid);
    }
    return 0;
}

int socket_names_make(const char *kubelet_root, const char *driver, const char *rolling_uid,
                      struct socket_names *out, struct err *e)
{
    const char *uid = rolling_uid ? rolling_uid : "";
    struct socket_names n = {.dra = ""};
    int rc = check_words(kubelet_root, driver, uid, e);
    if (rc != 0) {
        return rc;
    }
    size_t root_len = strlen(kubelet_root);
    while (root_len > 1 && kubelet_root[root_len - 1] == '/') {
        root_len--; /* the kubelet compares cleaned paths */
    }
    if (root_len >= SOCKET_NAMES_PATH_BYTES) {
        return err_set(e, ERR_LIMIT, "kubelet root directory has %zu bytes", root_len);
    }
    int root = (int)root_len;
    if (!fits(snprintf(n.registry_dir, sizeof(n.registry_dir), "%.*s/plugins_registry", root,
                       kubelet_root)) ||
        !fits(snprintf(n.plugin_dir, sizeof(n.plugin_dir), "%.*s/plugins/%s", root, kubelet_root,
                       driver))) {
        return err_set(e, ERR_LIMIT, "kubelet root directory '%s' leaves no room for a socket",
                       kubelet_root);
    }
    if (uid[0] == '\0') {
        rc = name_plainly(driver, &n, e);
    } else {
        rc = name_registration(driver, uid, &n, e);
        if (rc == 0) {
            rc = name_dra(uid, &n, e);
        }
    }
    if (rc == 0) {
        *out = n;
    }
    return rc;
}
