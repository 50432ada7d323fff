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

static int check_words(const char *driver, const char *uid, struct err *e)
{
    if (!text_is_dns1123_subdomain(driver) || strlen(driver) > SOCKET_NAMES_DRIVER_MAX) {
        return err_set(e, ERR_PARSE, "driver name '%s' is not a DNS subdomain of at most %d bytes",
                       driver, SOCKET_NAMES_DRIVER_MAX);
    }
    if (uid[0] != '\0' && !text_is_dns1123_subdomain(uid)) {
        return err_set(e, ERR_PARSE, "rolling update UID '%s' is not a pod UID", uid);
    }
    return 0;
}

/* The directory, or its default below the kubelet's root. Without slashes at the end: the kubelet
 * compares cleaned paths. */
static int name_dir(const char *dir, const char *root, const char *below,
                    char out[static SOCKET_NAMES_PATH_BYTES], struct err *e)
{
    bool is_given = !text_is_empty(dir);
    const char *path = is_given ? dir : root;
    size_t len = strlen(path);
    if (path[0] != '/') {
        return err_set(e, ERR_PARSE, "directory '%s' is not absolute", path);
    }
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    if (len >= SOCKET_NAMES_PATH_BYTES || !fits(snprintf(out, SOCKET_NAMES_PATH_BYTES, "%.*s%s",
                                                         (int)len, path, is_given ? "" : below))) {
        return err_set(e, ERR_LIMIT, "directory '%s' leaves no room for a socket", path);
    }
    return 0;
}

int socket_names_make(const struct socket_dirs *dirs, const char *driver, const char *rolling_uid,
                      struct socket_names *out, struct err *e)
{
    char below[SOCKET_NAMES_PATH_BYTES];
    const char *uid = rolling_uid ? rolling_uid : "";
    struct socket_names n = {.dra = ""};
    int rc = check_words(driver, uid, e);
    if (rc != 0) {
        return rc;
    }
    text_format(below, sizeof(below), "/plugins/%s", driver); /* a driver has 63 bytes */
    rc = name_dir(dirs->registry, dirs->kubelet_root, "/plugins_registry", n.registry_dir, e);
    if (rc != 0 || (rc = name_dir(dirs->plugin, dirs->kubelet_root, below, n.plugin_dir, e)) != 0) {
        return rc;
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
