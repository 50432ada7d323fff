/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/wiring.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "host-agent/install/conflist.h"

#include <string.h>
#include <sys/stat.h>

#define MOD "cni"

enum { CONFLIST_MODE = 0600 };

/* A plan, and so a conflist, holds each part of its source twice at most, and little more. */
enum { PLAN_MAX_BYTES = 3 * CONFLIST_MAX_BYTES };

const char *wiring_name(const struct cni_options *o)
{
    return strcmp(o->source, "05-dpu-gate.conflist") > 0 ? "05-dpu-gate.conflist"
                                                         : "00-dpu-gate.conflist";
}

/* ---- files ----------------------------------------------------------------------------------- */

void wiring_join(const char *dir, const char *name, char out[static PATH_MAX])
{
    text_format(out, PATH_MAX, "%s/%s", dir, name); /* it fits: the options are bounded */
}

/* A regular file that nobody else owns or may write. */
static bool is_our_file(const char *path, struct stat *out)
{
    return lstat(path, out) == 0 && S_ISREG(out->st_mode) && out->st_uid == geteuid() &&
           (out->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool stands_already(const char *path, const struct buf *bytes, mode_t mode)
{
    struct stat found;
    CLEANUP(buf) struct buf old = {.max_bytes = bytes->len};
    return is_our_file(path, &found) && (found.st_mode & 07777) == mode &&
           (size_t)found.st_size == bytes->len && file_read(path, &old, NULL) == 0 &&
           old.len == bytes->len && memcmp(buf_text(&old), buf_text(bytes), bytes->len) == 0;
}

int wiring_put_file(const char *path, const struct buf *bytes, mode_t mode, bool *changed,
                    struct err *e)
{
    *changed = !stands_already(path, bytes, mode);
    if (!*changed) {
        file_sweep(path);
        return 0;
    }
    return file_replace(path, bytes->data, bytes->len, mode, e);
}

int wiring_remove_file(const char *path, struct err *e)
{
    bool is_removed = unlink(path) == 0;
    int why = errno;
    file_sweep(path);
    if (!is_removed && why != ENOENT) {
        return err_set_errno(e, ERR_IO, why, "removing '%s'", path);
    }
    log_info(MOD, "'%s' %s", path, is_removed ? "was removed" : "is not there");
    if (is_removed) {
        file_flush_directory(path);
    }
    return 0;
}
/* ---- the conflist ---------------------------------------------------------------------------- */

bool wiring_is_gated(const char *path)
{
    CLEANUP(buf) struct buf text = {.max_bytes = PLAN_MAX_BYTES};
    return file_read(path, &text, NULL) == 0 && conflist_is_gated(buf_text(&text), text.len);
}

void wiring_find_first(const struct cni_options *o, bool is_gated,
                       char out[static WIRING_NAME_BYTES])
{
    char path[PATH_MAX];
    out[0] = '\0';
    CLEANUP(dir) DIR *dir = opendir(o->conf_dir);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        const char *name = entry->d_name;
        wiring_join(o->conf_dir, name, path);
        if (entry->d_type != DT_DIR && names_is_cni_configuration(name) &&
            (out[0] == '\0' || strcmp(name, out) < 0) &&
            (is_gated ? wiring_is_gated(path) : strcmp(name, wiring_name(o)) < 0)) {
            text_format(out, WIRING_NAME_BYTES, "%s", name);
        }
    }
}

/* Without its source (`source` NULL), a conflist that was made when it was there says more: it
 * stays, but for a chain, which would go on as if nothing were missing and so is wrapped. */
static int put_plan(const char *path, const struct buf *source, struct conflist_request *request,
                    bool *changed, struct err *e)
{
    struct stat found;
    CLEANUP(buf) struct buf old = {.max_bytes = PLAN_MAX_BYTES};
    CLEANUP(buf) struct buf plan = {.max_bytes = PLAN_MAX_BYTES};
    if (!source && is_our_file(path, &found) && file_read(path, &old, NULL) == 0 &&
        conflist_is_gated(buf_text(&old), old.len)) {
        request->standing = buf_text(&old);
        request->standing_len = old.len;
    }
    int rc = conflist_plan(source ? buf_text(source) : NULL, source ? source->len : 0, request,
                           &plan, e);
    if (rc != 0) {
        return source ? err_wrap(e, "'%s' cannot be wrapped", request->source_path) : rc;
    }
    return wiring_put_file(path, &plan, CONFLIST_MODE, changed, e);
}

int wiring_put(const struct cni_options *o, const char *readiness_file, struct wiring *out,
               struct err *e)
{
    char source[PATH_MAX];
    char conflist[PATH_MAX];
    CLEANUP(buf) struct buf text = {.max_bytes = CONFLIST_MAX_BYTES};
    wiring_join(o->conf_dir, o->source, source);
    wiring_join(o->conf_dir, wiring_name(o), conflist);
    int rc = file_read(source, &text, e);
    if (rc != 0 && rc != ERR_NOTFOUND) {
        return rc;
    }
    out->has_source = rc == 0;
    wiring_find_first(o, false, out->bypass);
    struct conflist_request request = {.source_path = source, .readiness_file = readiness_file};
    return put_plan(conflist, out->has_source ? &text : NULL, &request, &out->changed, e);
}

void wiring_warn_of_bypass(const struct cni_options *o, const char *bypass)
{
    if (strstr(bypass, "multus")) {
        log_info(MOD,
                 "'%s/%s' comes first: Multus must call '%s' as its cluster network, in a version "
                 "that passes STATUS on; 'dpuctl doctor' checks both",
                 o->conf_dir, bypass, wiring_name(o));
    } else if (bypass[0] != '\0') {
        log_warn(MOD,
                 "'%s/%s' sorts before '%s', so the container runtime uses it and bypasses "
                 "dpu-gate; rename one of them",
                 o->conf_dir, bypass, wiring_name(o));
    }
}
