/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file_read.h"
#include "base/text.h"
#include "dpuctl/version_number.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX_BYTES = 256 << 10 };

/* ---- texts ----------------------------------------------------------------------------------- */

#define ADD_ALONE ": the Node stays Ready, ADD alone is gated"

/* What a runtime does with STATUS from a version on; the newest first. */
struct habit {
    const char *since;
    enum check_outcome outcome;
    const char *habit;
    const char *mend;
};

static const struct habit of_containerd[] = {
    {"2.0.3", CHECK_PASS, "asks STATUS at each look", ""},
    {"2.0.1", CHECK_FAIL, "asks STATUS, but can deadlock over it",
     "update containerd to 2.0.3 or newer"},
    {"0.0.0", CHECK_WARN, "never asks STATUS" ADD_ALONE, "update containerd to 2.0.3 or newer"},
};

/* Its first rows are one version's, by what is known of its setting. */
enum { GRACE_UNSEEN, GRACE_UNSET, GRACE_SET };

static const struct habit of_crio[] = {
    [GRACE_UNSEEN] =
        {"1.36.3", CHECK_SKIP,
         "asks STATUS after its start only with cni_status_grace_period, which is seen on the node",
         ""},
    [GRACE_UNSET] = {"1.36.3", CHECK_WARN,
                     "asks STATUS only until it has once been ready" ADD_ALONE,
                     "set cni_status_grace_period = \"5s\" in the [crio.network] part of its "
                     "configuration, and restart it"},
    [GRACE_SET] =
        {"1.36.0", CHECK_PASS,
         "asks STATUS all the time: while it is refused new pods wait, and ADD is not called", ""},
    {"0.0.0", CHECK_WARN, "asks STATUS only at its start" ADD_ALONE,
     "update CRI-O to 1.36.3 or newer and set cni_status_grace_period"},
};

static void judge(struct doctor *d, const char *name, const char *version,
                  const struct habit *habits)
{
    int64_t number = version_number(version);
    if (number == 0) {
        check_add(d, CHECK_SKIP, "runtime", "", "'%s' is no version that we know", version);
        return;
    }
    while (number < version_number(habits->since)) {
        habits++; /* the last is of every version */
    }
    check_add(d, habits->outcome, "runtime", habits->mend, "%s %s %s", name, version,
              habits->habit);
}

void check_judge_runtime(struct doctor *d, const char *version, const char *grace)
{
    int known = GRACE_UNSEEN;
    if (grace) { /* is it more than a span of zero? */
        known = strspn(grace, "0.hmsuµn") < strlen(grace) ? GRACE_SET : GRACE_UNSET;
    }
    if (strncmp(version, "containerd://", 13) == 0) {
        judge(d, "containerd", version + 13, of_containerd);
    } else if (strncmp(version, "cri-o://", 8) == 0) {
        judge(d, "CRI-O", version + 8, of_crio + known);
    } else {
        check_add(d, CHECK_SKIP, "runtime", "", "'%s' is no runtime that we know", version);
    }
}

/* The value of `line` if it sets `key`, from its first character to `*out_len`; NULL if not. */
static const char *value_of(const char *line, const char *key, size_t *out_len)
{
    const char *at = line + strspn(line, " \t");
    if (strncmp(at, key, strlen(key)) != 0) {
        return NULL;
    }
    const char *value = at + strlen(key);
    value += strspn(value, " \t");
    if (*value != '=') {
        return NULL;
    }
    value += 1 + strspn(value + 1, " \t\"'");
    *out_len = strcspn(value, "\"'#\r\n");
    while (*out_len > 0 && isspace((unsigned char)value[*out_len - 1])) {
        --*out_len;
    }
    return value;
}

bool check_find_setting(const char *text, const char *key, char *out, size_t out_bytes)
{
    bool is_set = false;
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        size_t value_len;
        const char *value = value_of(line, key, &value_len);
        if (value) {
            text_sanitize(out, out_bytes, value, value_len);
            is_set = true;
        }
        line += len + (line[len] == '\n');
    }
    return is_set;
}

/* ---- the runtime's own settings ---------------------------------------------------------------
 */

static void find_in(const char *path, const char *key, char *out, size_t out_bytes)
{
    CLEANUP(buf) struct buf text;
    buf_init(&text, CONFIG_MAX_BYTES);
    if (file_read(path, &text, NULL) == 0) {
        (void)check_find_setting(buf_text(&text), key, out,
                                 out_bytes); /* not set there: what was found before stays */
    }
}

/* A runtime's file, then those of its directory by name; the last one wins. "" if not set. */
static void find_setting(const struct admin_config *config, const char *main_file, const char *key,
                         char *out, size_t out_bytes)
{
    char path[PATH_MAX];
    char file[PATH_MAX + 260];
    struct dirent **found = NULL;
    out[0] = '\0';
    find_in(admin_path(config, main_file, path, sizeof(path)), key, out, out_bytes);
    text_format(file, sizeof(file), "%s.d", path);
    int count = scandir(file, &found, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        text_format(file, sizeof(file), "%s.d/%s", path, found[i]->d_name);
        find_in(file, key, out, out_bytes);
        free(found[i]);
    }
    free(found);
}

static bool is_same_directory(const char *a, const char *b)
{
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);
    while (a_len > 1 && a[a_len - 1] == '/') {
        a_len--;
    }
    while (b_len > 1 && b[b_len - 1] == '/') {
        b_len--;
    }
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* Only plain paths: lists and what an import brings cannot be told from lines. */
static void check_directories(struct doctor *d)
{
    const struct admin_config *config = &d->config;
    const struct {
        const char *runtime;
        const char *file;
        const char *key;
        const char *option;
        const char *ours;
    } places[] = {
        {"containerd:", "/etc/containerd/config.toml", "conf_dir", "cni-conf-dir",
         config->cni_conf_dir},
        {"containerd:", "/etc/containerd/config.toml", "bin_dir", "cni-bin-dir",
         config->cni_bin_dir},
        {"cri-o:", "/etc/crio/crio.conf", "network_dir", "cni-conf-dir", config->cni_conf_dir},
    };
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char theirs[CNI_SCAN_TEXT_BYTES];
        char mend[CHECK_TEXT_BYTES + 64];
        if (strncmp(d->runtime_version, places[i].runtime, strlen(places[i].runtime)) != 0) {
            continue;
        }
        find_setting(config, places[i].file, places[i].key, theirs, sizeof(theirs));
        if (theirs[0] != '/' || is_same_directory(theirs, places[i].ours)) {
            continue;
        }
        text_format(mend, sizeof(mend), "give --%s=%s, here and to install-cni", places[i].option,
                    theirs);
        check_add(d, CHECK_WARN, "runtime", mend,
                  "%s says %s = '%s', but this looked in '%s' (if several are there, see which one "
                  "counts)",
                  places[i].file, places[i].key, theirs, places[i].ours);
    }
}

void check_runtime(struct doctor *d)
{
    char grace[64];
    if (d->runtime_version[0] == '\0') {
        check_add(
            d, CHECK_SKIP, "runtime",
            "the Node says which, once its kubelet has, to whoever may read it (--kubeconfig)",
            "which one it is, and whether it asks STATUS, is not known");
        return;
    }
    find_setting(&d->config, "/etc/crio/crio.conf", "cni_status_grace_period", grace,
                 sizeof(grace));
    check_judge_runtime(d, d->runtime_version, grace);
    check_directories(d);
}
