/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim_store.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORD_BYTES = 8, TARGET_BYTES = WORD_BYTES + 2 * NAMES_K8S_NAME_BYTES };

static const char *const words[] = {
    [CLAIM_USE_ALONE] = "alone",
    [CLAIM_USE_SHARED] = "shared",
    [CLAIM_USE_ADMIN] = "admin",
};

int claim_store_init(struct claim_store *s, const char *plugin_dir, struct err *e)
{
    int len = snprintf(s->dir, sizeof(s->dir), "%s/claims", plugin_dir);
    if (len < 0 || len >= (int)sizeof(s->dir)) {
        return err_set(e, ERR_LIMIT, "path of the claims in '%s' is too long", plugin_dir);
    }
    return 0;
}

/* "USE NAMESPACE/NAME" */
static bool parse(const char *target, struct stored_claim *out)
{
    size_t use = 0;
    while (use < ARRAY_LEN(words) && strncmp(target, words[use], strlen(words[use])) != 0) {
        use++;
    }
    if (use == ARRAY_LEN(words) || target[strlen(words[use])] != ' ') {
        return false;
    }
    const char *ns = target + strlen(words[use]) + 1;
    const char *slash = strchr(ns, '/');
    if (!slash || (size_t)(slash - ns) >= sizeof(out->ns)) {
        return false;
    }
    out->use = (enum claim_use)use;
    memcpy(out->ns, ns, (size_t)(slash - ns));
    out->ns[slash - ns] = '\0';
    return text_copy(out->name, sizeof(out->name), slash + 1) &&
           text_is_dns1123_subdomain(out->ns) && text_is_dns1123_subdomain(out->name);
}

static bool path_of(const struct claim_store *s, const char *uid, char out[static PATH_MAX])
{
    int len = snprintf(out, PATH_MAX, "%s/%s", s->dir, uid);
    return text_is_dns1123_subdomain(uid) && len >= 0 && len < PATH_MAX;
}

void claim_store_drop(const struct claim_store *s, const char *uid)
{
    char path[PATH_MAX];
    if (s && path_of(s, uid, path)) {
        (void)unlink(path); /* it may never have been there */
    }
}

static bool read_entry(DIR *dir, const char *name, struct stored_claim *out)
{
    char target[TARGET_BYTES];
    ssize_t len = readlinkat(dirfd(dir), name, target, sizeof(target) - 1);
    if (len < 0) {
        return false; /* a file of somebody else, or dropped meanwhile */
    }
    target[len] = '\0';
    return parse(target, out) && text_copy(out->uid, sizeof(out->uid), name);
}

static bool are_at_odds(enum claim_use a, enum claim_use b)
{
    return a != CLAIM_USE_ADMIN && b != CLAIM_USE_ADMIN &&
           (a == CLAIM_USE_ALONE || b == CLAIM_USE_ALONE);
}

/* The smallest UID above `uid`; with `ref`, of the claims that are in its way if it uses the device
 * so. */
static bool find(const struct claim_store *s, const char *uid, const struct claim_ref *ref,
                 enum claim_use use, struct stored_claim *out)
{
    struct stored_claim best = {.uid = ""};
    struct stored_claim seen;
    DIR *dir = opendir(s->dir);
    if (!dir) {
        return false;
    }
    const struct dirent *entry;
    for (int i = 0; i < CLAIM_STORE_ENTRIES_MAX && (entry = readdir(dir)); i++) {
        bool is_better = best.uid[0] == '\0' || strcmp(entry->d_name, best.uid) < 0;
        if (strcmp(entry->d_name, uid) > 0 && is_better && read_entry(dir, entry->d_name, &seen) &&
            (!ref || (!text_equal(seen.uid, ref->uid) && are_at_odds(use, seen.use)))) {
            best = seen;
        }
    }
    (void)closedir(dir);
    if (best.uid[0] == '\0') {
        return false;
    }
    *out = best;
    return true;
}

bool claim_store_next(const struct claim_store *s, const char *uid, struct stored_claim *out)
{
    return find(s, uid, NULL, CLAIM_USE_ADMIN, out);
}

static int put(const struct claim_store *s, const struct claim_ref *ref, enum claim_use use,
               struct err *e)
{
    char path[PATH_MAX];
    char target[TARGET_BYTES];
    if (!path_of(s, ref->uid, path)) {
        return err_set(e, ERR_PARSE, "claim '%s/%s' has a UID that names no file", ref->ns,
                       ref->name);
    }
    text_format(target, sizeof(target), "%s %s/%s", words[use], ref->ns, ref->name);
    (void)mkdir(s->dir, 0700); /* mostly there; otherwise the next says why */
    (void)unlink(path);
    return symlink(target, path) == 0
               ? 0
               : err_set_errno(e, ERR_IO, errno, "keeping claim '%s/%s' as '%s'", ref->ns,
                               ref->name, path);
}

int claim_store_take(const struct claim_store *s, const struct claim_ref *ref, enum claim_use use,
                     struct stored_claim *out_other, struct err *e)
{
    if (!find(s, "", ref, use, out_other)) {
        return put(s, ref, use, e);
    }
    return err_set(e, ERR_CONFLICT, "the device is prepared for claim '%s/%s', %s", out_other->ns,
                   out_other->name,
                   out_other->use == CLAIM_USE_ALONE ? "which has it alone"
                                                     : "and this one wants it alone");
}
