/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_wiring.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "host-agent/install/cni_files.h"
#include "host-agent/install/conflist_plan.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_NETWORK "ovn-kubernetes" /* of ovn-kubernetes, while its file is not there */

/* A plan, and so a conflist, holds each part of its source twice at most, and little more. */
enum { PLAN_MAX_BYTES = 3 * CONFLIST_MAX_BYTES };

enum { GATE_MAX_BYTES = 64 << 20, GATE_MODE = 0755, CONFLIST_MODE = 0600 };

static int join(const char *dir, const char *name, char out[static PATH_MAX], struct err *e)
{
    int size = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return size < PATH_MAX ? 0 : err_set(e, ERR_IO, "'%s' is too long a path", dir);
}

int cni_wiring_put_gate(const char *gate, const char *bin_dir, bool *changed, struct err *e)
{
    char path[PATH_MAX];
    CLEANUP(buf) struct buf program;
    buf_init(&program, GATE_MAX_BYTES);
    int rc = file_read(gate, &program, e);
    if (rc != 0) {
        return rc;
    }
    if (program.len < 4 || memcmp(program.data, "\177ELF", 4) != 0) {
        return err_set(e, ERR_PARSE, "'%s' is no program", gate);
    }
    rc = join(bin_dir, "dpu-gate", path, e);
    if (rc != 0) {
        return rc;
    }
    return cni_file_put(path, &program, GATE_MODE, changed, e);
}

static bool is_configuration(const struct dirent *entry)
{
    return entry->d_type != DT_DIR && names_is_cni_configuration(entry->d_name);
}

/* Runtimes take the first configuration by name. */
static void find_bypass(const struct cni_options *o, struct cni_wiring *out)
{
    CLEANUP(dir) DIR *dir = opendir(o->conf_dir);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        bool is_first = strcmp(entry->d_name, o->conflist) < 0 &&
                        (text_is_empty(out->bypass) || strcmp(entry->d_name, out->bypass) < 0);
        if (is_first && is_configuration(entry)) {
            text_format(out->bypass, sizeof(out->bypass), "%s", entry->d_name);
            out->bypass_is_multus = strstr(entry->d_name, "multus") != NULL;
        }
    }
}

/* Without its source. A wrapping conflist that was made when it was there says more, and stays. A
 * chain would go on as if nothing were missing: a wrapping one of the same name takes its place. */
static int put_waiting(const char *conflist, const struct conflist_request *wanted,
                       struct cni_wiring *out, struct err *e)
{
    CLEANUP(buf) struct buf old;
    CLEANUP(buf) struct buf plan;
    struct conflist_request request = *wanted;
    buf_init(&old, PLAN_MAX_BYTES);
    buf_init(&plan, PLAN_MAX_BYTES);
    if (cni_file_is_ours(conflist) && file_read(conflist, &old, NULL) == 0 &&
        conflist_is_gated(buf_text(&old), old.len)) {
        if (conflist_wraps(buf_text(&old), old.len, request.source_path)) {
            return cni_file_put(conflist, &old, CONFLIST_MODE, &out->changed, e);
        }
        request.standing = buf_text(&old);
        request.standing_len = old.len;
    }
    int rc = conflist_plan(NULL, 0, &request, &plan, e);
    if (rc != 0) {
        return rc;
    }
    return cni_file_put(conflist, &plan, CONFLIST_MODE, &out->changed, e);
}

static int put_wrapping(const char *conflist, const struct buf *source,
                        const struct conflist_request *request, struct cni_wiring *out,
                        struct err *e)
{
    CLEANUP(buf) struct buf plan;
    buf_init(&plan, PLAN_MAX_BYTES);
    int rc = conflist_plan(buf_text(source), source->len, request, &plan, e);
    if (rc != 0) {
        return err_wrap(e, "'%s' cannot be wrapped", request->source_path);
    }
    return cni_file_put(conflist, &plan, CONFLIST_MODE, &out->changed, e);
}

int cni_wiring_put_conflist(const struct cni_options *o, const char *readiness_file,
                            struct cni_wiring *out, struct err *e)
{
    char source[PATH_MAX];
    char conflist[PATH_MAX];
    CLEANUP(buf) struct buf text;
    buf_init(&text, CONFLIST_MAX_BYTES);
    *out = (struct cni_wiring){.has_source = false};
    int rc = join(o->conf_dir, o->source, source, e);
    if (rc != 0 || (rc = join(o->conf_dir, o->conflist, conflist, e)) != 0) {
        return rc;
    }
    rc = file_read(source, &text, e);
    if (rc != 0 && rc != ERR_NOTFOUND) {
        return rc;
    }
    out->has_source = rc == 0;
    find_bypass(o, out);
    const struct conflist_request request = {
        .source_path = source, .network = DEFAULT_NETWORK, .readiness_file = readiness_file};
    return out->has_source ? put_wrapping(conflist, &text, &request, out, e)
                           : put_waiting(conflist, &request, out, e);
}

void cni_wiring_warn(const struct cni_options *o, const struct cni_wiring *wiring)
{
    if (text_is_empty(wiring->bypass)) {
        return;
    }
    if (wiring->bypass_is_multus) {
        log_info("cni",
                 "'%s/%s' comes first: Multus has to call '%s' as its cluster network, and to be "
                 "of a version that passes STATUS on; 'dpuctl doctor' looks",
                 o->conf_dir, wiring->bypass, o->conflist);
    } else {
        log_warn("cni",
                 "'%s/%s' sorts before '%s': the container runtime takes it, past dpu-gate; rename "
                 "one of them",
                 o->conf_dir, wiring->bypass, o->conflist);
    }
}

static bool is_gated_file(const char *path)
{
    CLEANUP(buf) struct buf text;
    buf_init(&text, PLAN_MAX_BYTES);
    return file_read(path, &text, NULL) == 0 && conflist_is_gated(buf_text(&text), text.len);
}

bool cni_wiring_find_gated(const struct cni_options *o, char out_name[static CNI_WIRING_NAME_BYTES])
{
    char path[PATH_MAX];
    CLEANUP(dir) DIR *dir = opendir(o->conf_dir);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (is_configuration(entry) && join(o->conf_dir, entry->d_name, path, NULL) == 0 &&
            is_gated_file(path)) {
            text_format(out_name, CNI_WIRING_NAME_BYTES, "%s", entry->d_name);
            return true;
        }
    }
    return false;
}

int cni_wiring_remove_conflist(const struct cni_options *o, bool *removed, struct err *e)
{
    char conflist[PATH_MAX];
    CLEANUP(buf) struct buf text;
    buf_init(&text, PLAN_MAX_BYTES);
    *removed = false;
    int rc = join(o->conf_dir, o->conflist, conflist, e);
    if (rc != 0) {
        return rc;
    }
    rc = file_read(conflist, &text, e);
    if (rc != 0) {
        return rc == ERR_NOTFOUND ? 0 : rc;
    }
    if (!conflist_is_gated(buf_text(&text), text.len)) {
        return err_set(e, ERR_PARSE, "'%s' has not dpu-gate as its first plugin: it stays",
                       conflist);
    }
    return cni_file_remove(conflist, removed, e);
}
