/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/dra_names.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DOMAIN_MAX = 63, IDENTIFIER_MAX = 32 };

/* ---- sockets --------------------------------------------------------------------------------- */

/* FNV-1a of "driver.uid": to keep a handful of instances apart, not to resist anybody. The dot
 * keeps driver "a" with UID "bc" apart from driver "ab" with UID "c". */
static uint64_t hash_instance(const char *driver, const char *uid)
{
    const char *const parts[] = {driver, ".", uid};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        for (const char *s = parts[i]; *s; s++) {
            hash = (hash ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

static bool fits(int printed)
{
    return printed >= 0 && printed < SOCKET_NAMES_PATH_BYTES;
}

static int name_sockets(const char *driver, const char *uid, struct socket_names *n, struct err *e)
{
    enum { MAX = SOCKET_NAMES_PATH_BYTES };
    bool is_rolling = uid[0] != '\0';
    const char *dash = is_rolling ? "-" : "";
    const uint64_t hash = hash_instance(driver, uid);
    int len =
        snprintf(n->registration, MAX, "%s/%s%s%s-reg.sock", n->registry_dir, driver, dash, uid);
    if (is_rolling && !fits(len)) {
        len =
            snprintf(n->registration, MAX, "%s/dra-%016" PRIx64 "-reg.sock", n->registry_dir, hash);
    }
    int dra_len = snprintf(n->dra, MAX, "%s/dra%s%s.sock", n->plugin_dir, dash, uid);
    if (is_rolling && !fits(dra_len)) { /* a driver of 63 bytes leaves no room for more */
        dra_len = snprintf(n->dra, MAX, "%s/dra-%08" PRIx32 ".sock", n->plugin_dir,
                           (uint32_t)(hash ^ hash >> 32));
    }
    return fits(len) && fits(dra_len)
               ? 0
               : err_set(e, ERR_LIMIT, "socket names in '%s' and '%s' exceed %d bytes",
                         n->registry_dir, n->plugin_dir, MAX - 1);
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
    if (!text_is_dns1123_subdomain(driver) || strlen(driver) > SOCKET_NAMES_DRIVER_MAX) {
        return err_set(e, ERR_PARSE, "driver name '%s' is not a DNS subdomain of at most %d bytes",
                       driver, SOCKET_NAMES_DRIVER_MAX);
    }
    if (uid[0] != '\0' && !text_is_dns1123_subdomain(uid)) {
        return err_set(e, ERR_PARSE, "rolling update UID '%s' is not a pod UID", uid);
    }
    text_format(below, sizeof(below), "/plugins/%s", driver);
    int rc = name_dir(dirs->registry, dirs->kubelet_root, "/plugins_registry", n.registry_dir, e);
    if (rc != 0 || (rc = name_dir(dirs->plugin, dirs->kubelet_root, below, n.plugin_dir, e)) != 0 ||
        (rc = name_sockets(driver, uid, &n, e)) != 0) {
        return rc;
    }
    *out = n;
    return 0;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool is_identifier(const char *s)
{
    static const char chars[] = "0123456789_"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strlen(s);
    return len > 0 && len <= IDENTIFIER_MAX && (s[0] < '0' || s[0] > '9') &&
           strspn(s, chars) == len;
}

/* A C identifier, optionally after a domain and a slash. */
static bool is_name(const char *name)
{
    char domain[DOMAIN_MAX + 1];
    const char *slash = strchr(name, '/');
    size_t len = slash ? (size_t)(slash - name) : 0;
    if (!slash || len > DOMAIN_MAX) {
        return !slash && is_identifier(name);
    }
    text_format(domain, sizeof(domain), "%.*s", (int)len, name);
    return text_is_dns1123_subdomain(domain) && is_identifier(slash + 1);
}

int attribute_list_add(struct attribute_list *list, const char *text, struct err *e)
{
    struct attribute a = {.name = ""};
    char shown[64];
    size_t at = 0;
    const char *equals = strchr(text, '=');
    text_sanitize(shown, sizeof(shown), text, strlen(text));
    if (equals && (size_t)(equals - text) < sizeof(a.name)) {
        memcpy(a.name, text, (size_t)(equals - text));
    }
    if (!equals || !is_name(a.name)) {
        return err_set(e, ERR_PARSE,
                       "attribute '%s': it is not NAME=VALUE with an identifier of at most %d "
                       "bytes for a name, or a domain, '/' and such an identifier",
                       shown, IDENTIFIER_MAX);
    }
    if (!text_copy(a.text, sizeof(a.text), equals + 1)) {
        return err_set(e, ERR_PARSE, "attribute '%s': the value has more than %d bytes", shown,
                       ATTRIBUTE_TEXT_BYTES - 1);
    }
    while (at < list->count && !text_equal(list->items[at].name, a.name)) {
        at++;
    }
    if (at == ATTRIBUTES_MAX) {
        return err_set(e, ERR_LIMIT, "attribute '%s': there are %d already", shown, ATTRIBUTES_MAX);
    }
    list->items[at] = a;
    list->count += at == list->count;
    return 0;
}
