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

/* Cilium, where it wants to be the only one (cni.exclusive), puts it behind the names of all other
 * configurations, and goes on reading them. */
#define SET_ASIDE ".cilium_bak"

/* A plan, and so a conflist, holds each part of its source twice at most, and little more. */
enum { PLAN_MAX_BYTES = 3 * CONFLIST_MAX_BYTES };

const char *wiring_stem(const struct cni_options *o)
{
    return strcmp(o->source, "05-dpu-gate.conflist") > 0 ? "05-dpu-gate" : "00-dpu-gate";
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

/* ---- other configurations -------------------------------------------------------------------- */

static bool is_ours(const struct cni_options *o, const char *name)
{
    size_t len = strlen(wiring_stem(o));
    return strncmp(name, wiring_stem(o), len) == 0 &&
           (text_equal(name + len, ".conf") || text_equal(name + len, ".conflist"));
}

static bool is_gated(const struct buf *text)
{
    return conflist_is_gated(buf_text(text), text->len);
}

/* What is looked for. */
struct search {
    const struct cni_options *o;
    const struct wiring *w;
    const char *words; /* a network, or the name of a file */
    bool (*fits)(const struct search *s, const char *name, const struct buf *text);
};

/* The first configuration by name that fits: runtimes take them in that order. One that cannot be
 * read has no text. "": there is none. */
static void find(const struct search *s, char out[static WIRING_NAME_BYTES])
{
    char path[PATH_MAX];
    out[0] = '\0';
    CLEANUP(dir) DIR *dir = opendir(s->o->conf_dir);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        const char *name = entry->d_name;
        CLEANUP(buf) struct buf text = {.max_bytes = PLAN_MAX_BYTES};
        if (entry->d_type == DT_DIR || !names_is_cni_configuration(name) ||
            (out[0] != '\0' && strcmp(name, out) > 0)) {
            continue;
        }
        wiring_join(s->o->conf_dir, name, path);
        if (file_read(path, &text, NULL) != 0) {
            text.len = 0;
        }
        if (s->fits(s, name, &text)) {
            text_format(out, WIRING_NAME_BYTES, "%s", name);
        }
    }
}

static bool fits_gate(const struct search *s, const char *name, const struct buf *text)
{
    (void)s;
    (void)name;
    return is_gated(text);
}

void wiring_find_gate(const struct cni_options *o, char out[static WIRING_NAME_BYTES])
{
    const struct search s = {.o = o, .fits = fits_gate};
    find(&s, out);
}

/* One that was made of ours, such as Istio's own or Cilium's, calls the gate, too. */
static bool fits_bypass(const struct search *s, const char *name, const struct buf *text)
{
    return strcmp(name, s->w->ours) < 0 && !is_gated(text);
}

static bool fits_neighbour(const struct search *s, const char *name, const struct buf *text)
{
    (void)text;
    return !is_ours(s->o, name) && !text_equal(name, s->w->source) &&
           !text_equal(name, s->o->source);
}

static bool fits_mention(const struct search *s, const char *name, const struct buf *text)
{
    return !is_ours(s->o, name) &&
           memmem(buf_text(text), text->len, s->words, strlen(s->words)) != NULL;
}

/* Not Multus's, unless that was the source: it may have the network's name, and calls us. */
static bool fits_source(const struct search *s, const char *name, const struct buf *text)
{
    char types[CONFLIST_TYPES_BYTES];
    conflist_types(buf_text(text), text->len, types);
    bool is_multus = strncmp(types, "multus", 6) == 0 && !strstr(s->o->source, "multus");
    return !is_ours(s->o, name) && !is_gated(text) && !is_multus &&
           conflist_is_of_network(buf_text(text), text->len, s->words);
}

/* ---- what is there --------------------------------------------------------------------------- */

/* Empty if it is not there, or not believed. */
static void read_standing(const struct cni_options *o, const char *extension, struct buf *out)
{
    char name[WIRING_NAME_BYTES];
    char path[PATH_MAX];
    struct stat found;
    text_format(name, sizeof(name), "%s%s", wiring_stem(o), extension);
    wiring_join(o->conf_dir, name, path);
    if (!is_our_file(path, &found) || file_read(path, out, NULL) != 0 || !is_gated(out)) {
        out->len = 0;
    }
}

/* Where both are there the list counts only for what was added to it: a .conf is what we wrote. */
static const struct buf *choose_standing(const struct buf *conf, const struct buf *list)
{
    bool has_more = list->len > 0 && conflist_count(buf_text(list), list->len) > 1;
    return conf->len > 0 && !has_more ? conf : list;
}

/* Fills `text`, and the source's name. Errors: ERR_NOTFOUND, and those of file_read(). */
static int read_source(const struct cni_options *o, const struct buf *standing, struct wiring *w,
                       struct buf *text, struct err *e)
{
    char network[CONFLIST_NETWORK_BYTES];
    char path[PATH_MAX];
    text_format(w->source, sizeof(w->source), "%s", o->source);
    wiring_join(o->conf_dir, w->source, path);
    int rc = file_read(path, text, e);
    if (rc != ERR_NOTFOUND) {
        return rc;
    }
    conflist_network(buf_text(standing), standing->len, network);
    const struct search s = {.o = o, .w = w, .words = network, .fits = fits_source};
    find(&s, w->source);
    if (w->source[0] == '\0') {
        text_format(w->source, sizeof(w->source), "%s" SET_ASIDE, o->source);
    }
    wiring_join(o->conf_dir, w->source, path);
    text->len = 0;
    rc = file_read(path, text, e);
    if (rc == ERR_NOTFOUND) {
        w->source[0] = '\0';
    }
    return rc;
}

static void plan_name(const struct cni_options *o, struct wiring *w)
{
    bool is_list = conflist_is_list(buf_text(&w->plan), w->plan.len);
    text_format(w->ours, sizeof(w->ours), "%s%s", wiring_stem(o), is_list ? ".conflist" : ".conf");
}

static bool fits_rename(const char *name, const char *ours)
{
    size_t len = strlen(ours);
    return strncmp(name, ours, len) == 0 && name[len] == '.';
}

/* "", or the name under which somebody put ours aside. */
static void find_renamed(const struct cni_options *o, const char *ours,
                         char out[static WIRING_NAME_BYTES])
{
    out[0] = '\0';
    CLEANUP(dir) DIR *dir = opendir(o->conf_dir);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (fits_rename(entry->d_name, ours)) {
            text_format(out, WIRING_NAME_BYTES, "%s", entry->d_name);
        }
    }
}

/* Nobody signs what he writes: what it calls now, and whose configuration is beside it, tells. */
static void describe(const struct cni_options *o, struct wiring *w)
{
    char path[PATH_MAX];
    char name[WIRING_NAME_BYTES];
    char types[CONFLIST_TYPES_BYTES] = "";
    struct stat found;
    CLEANUP(buf) struct buf text = {.max_bytes = PLAN_MAX_BYTES};
    wiring_join(o->conf_dir, w->ours, path);
    bool is_there = lstat(path, &found) == 0;
    if (is_there && file_read(path, &text, NULL) == 0) {
        conflist_types(buf_text(&text), text.len, types);
    }
    find_renamed(o, w->ours, name);
    if (!is_there && name[0] != '\0') {
        text_format(w->differs, sizeof(w->differs), "'%.200s' was renamed to '%.120s'", path, name);
    } else if (!is_there) {
        text_format(w->differs, sizeof(w->differs), "'%.200s' was removed", path);
    } else {
        text_format(w->differs, sizeof(w->differs), "'%.200s' was changed, and calls %s", path,
                    types[0] ? types : "nothing");
    }
    const struct search s = {.o = o, .w = w, .fits = fits_neighbour};
    find(&s, name);
    if (name[0] != '\0') {
        wiring_join(o->conf_dir, name, path);
        text.len = 0;
        types[0] = '\0';
        if (file_read(path, &text, NULL) == 0) {
            conflist_types(buf_text(&text), text.len, types);
        }
        text_append(w->differs, sizeof(w->differs), "; beside it is '%.120s' (%s)", name, types);
    }
}

int wiring_look(const struct cni_options *o, const char *readiness_file, struct wiring *out,
                struct err *e)
{
    char path[PATH_MAX];
    struct stat found;
    CLEANUP(buf) struct buf conf = {.max_bytes = PLAN_MAX_BYTES};
    CLEANUP(buf) struct buf list = {.max_bytes = PLAN_MAX_BYTES};
    CLEANUP(buf) struct buf text = {.max_bytes = CONFLIST_MAX_BYTES};
    *out = (struct wiring){.plan = {.max_bytes = PLAN_MAX_BYTES}};
    read_standing(o, ".conf", &conf);
    read_standing(o, ".conflist", &list);
    const struct buf *standing = choose_standing(&conf, &list);
    int rc = read_source(o, standing, out, &text, e);
    if (rc != 0 && rc != ERR_NOTFOUND) {
        return rc;
    }
    bool has_source = rc == 0;
    wiring_join(o->conf_dir, has_source ? out->source : o->source, path);
    const struct conflist_request request = {.source_path = path,
                                             .standing = buf_text(standing),
                                             .standing_len = standing->len,
                                             .readiness_file = readiness_file,
                                             .wants_list = o->form == CNI_FORM_LIST};
    rc = conflist_plan(has_source ? buf_text(&text) : NULL, text.len, &request, &out->plan, e);
    if (rc != 0) {
        return has_source ? err_wrap(e, "'%s' cannot be wrapped", path) : rc;
    }
    plan_name(o, out);
    const struct search s = {.o = o, .w = out, .fits = fits_bypass};
    find(&s, out->bypass);
    const struct buf *now = conflist_is_list(buf_text(&out->plan), out->plan.len) ? &list : &conf;
    wiring_join(o->conf_dir, out->ours, path);
    out->stands = now->len > 0 && is_our_file(path, &found) && conflist_says_same(now, &out->plan);
    if (!out->stands) {
        describe(o, out);
    }
    return 0;
}

void wiring_fini(struct wiring *w)
{
    buf_fini(&w->plan);
}

/* ---- what is wanted -------------------------------------------------------------------------- */

/* Only ours goes, and only if nobody reads it: Multus names what was there when it started. */
static void remove_other_form(const struct cni_options *o, const struct wiring *w)
{
    char other[WIRING_NAME_BYTES];
    char reader[WIRING_NAME_BYTES];
    char path[PATH_MAX];
    CLEANUP(buf) struct buf text = {.max_bytes = PLAN_MAX_BYTES};
    const char *extension = text_equal(strrchr(w->ours, '.'), ".conf") ? ".conflist" : ".conf";
    read_standing(o, extension, &text);
    if (text.len == 0) {
        return;
    }
    text_format(other, sizeof(other), "%s%s", wiring_stem(o), extension);
    /* With the quote that ends a text, as the one name begins with the other. */
    CLEANUP(free) char *quoted = mem_format("%s\"", other);
    const struct search s = {.o = o, .w = w, .words = quoted, .fits = fits_mention};
    find(&s, reader);
    if (reader[0] == '\0') {
        wiring_join(o->conf_dir, other, path);
        struct err e = ERR_INIT;
        if (wiring_remove_file(path, &e) != 0) {
            log_warn(MOD, "%s", e.msg); /* both say the same */
        }
    }
}

int wiring_write(const struct cni_options *o, const struct wiring *w, struct err *e)
{
    char path[PATH_MAX];
    struct stat found;
    wiring_join(o->conf_dir, w->ours, path);
    if (!w->stands) {
        int rc = file_replace(path, w->plan.data, w->plan.len, CONFLIST_MODE, e);
        if (rc != 0) {
            return rc;
        }
    } else if (is_our_file(path, &found) && (found.st_mode & 07777) != CONFLIST_MODE) {
        (void)chmod(path, CONFLIST_MODE); /* nobody can write it anyway */
    }
    file_sweep(path);
    remove_other_form(o, w);
    return 0;
}

int wiring_remove(const struct cni_options *o, struct err *e)
{
    static const char *const extensions[] = {".conf", ".conflist"};
    char name[WIRING_NAME_BYTES];
    char path[PATH_MAX];
    for (size_t i = 0; i < 2 * ARRAY_LEN(extensions); i++) { /* first all are looked at */
        CLEANUP(buf) struct buf text = {.max_bytes = PLAN_MAX_BYTES};
        text_format(name, sizeof(name), "%s%s", wiring_stem(o),
                    extensions[i % ARRAY_LEN(extensions)]);
        wiring_join(o->conf_dir, name, path);
        int rc = file_read(path, &text, NULL);
        if (i < ARRAY_LEN(extensions) && rc != ERR_NOTFOUND && (rc != 0 || !is_gated(&text))) {
            return err_set(e, ERR_PARSE,
                           "dpu-gate is not the first plugin of '%s': keeping that file", path);
        }
        if (i >= ARRAY_LEN(extensions) && (rc = wiring_remove_file(path, e)) != 0) {
            return rc;
        }
    }
    return 0;
}

void wiring_warn_of_bypass(const struct cni_options *o, const struct wiring *w)
{
    if (strstr(w->bypass, "multus")) {
        log_info(MOD,
                 "'%s/%s' comes first: Multus must call '%s' as its cluster network, in a version "
                 "that passes STATUS on; 'dpuctl doctor' checks both",
                 o->conf_dir, w->bypass, w->ours);
    } else if (w->bypass[0] != '\0') {
        log_warn(MOD,
                 "'%s/%s' sorts before '%s', so the container runtime uses it and bypasses "
                 "dpu-gate; rename one of them",
                 o->conf_dir, w->bypass, w->ours);
    }
}
