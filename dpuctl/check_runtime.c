/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/check.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "dpuctl/file_read.h"
#include "dpuctl/version_number.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONFIG_MAX_BYTES = 256 << 10 };

/* ---- texts ----------------------------------------------------------------------------------- */

static void judge_containerd(const char *version, struct check_list *out)
{
    int64_t number = version_number(version);
    if (number >= version_number("2.0.3")) {
        check_add(out, CHECK_PASS, "runtime", "", "containerd %s asks STATUS at each look",
                  version);
    } else if (number >= version_number("2.0.1")) {
        check_add(out, CHECK_FAIL, "runtime", "update containerd to 2.0.3 or newer",
                  "containerd %s asks STATUS, but can deadlock over it", version);
    } else if (number > 0) {
        check_add(out, CHECK_WARN, "runtime", "update containerd to 2.0.3 or newer",
                  "containerd %s never asks STATUS: the Node stays Ready, ADD alone is gated",
                  version);
    } else {
        check_add(out, CHECK_SKIP, "runtime", "", "'%s' is no version that we know", version);
    }
}

static bool is_zero_span(const char *grace)
{
    return strspn(grace, "0.hmsuµn") == strlen(grace);
}

static void judge_crio(const char *version, const char *grace, struct check_list *out)
{
    int64_t number = version_number(version);
    bool polls = number >= version_number("1.36.0") && number < version_number("1.36.3");
    if (number == 0) {
        check_add(out, CHECK_SKIP, "runtime", "", "'%s' is no version that we know", version);
    } else if (polls || (number >= version_number("1.36.3") && !is_zero_span(grace))) {
        check_add(out, CHECK_PASS, "runtime", "", "CRI-O %s asks STATUS all the time", version);
    } else if (number >= version_number("1.36.3")) {
        check_add(out, CHECK_WARN, "runtime",
                  "set cni_status_grace_period = \"5s\" in the [crio.network] part of its "
                  "configuration, and restart it",
                  "CRI-O %s asks STATUS only until it has once been ready: the Node stays Ready, "
                  "ADD alone is gated",
                  version);
    } else {
        check_add(
            out, CHECK_WARN, "runtime",
            "update CRI-O to 1.36.3 or newer and set cni_status_grace_period",
            "CRI-O %s asks STATUS only at its start: the Node stays Ready, ADD alone is gated",
            version);
    }
}

void check_judge_runtime(const char *version, const char *grace, struct check_list *out)
{
    if (strncmp(version, "containerd://", 13) == 0) {
        judge_containerd(version + 13, out);
    } else if (strncmp(version, "cri-o://", 8) == 0) {
        judge_crio(version + 8, grace, out);
    } else {
        check_add(out, CHECK_SKIP, "runtime", "", "'%s' is no runtime that we know", version);
    }
}

/* The value of `line` if it sets `key`, from its first character to `*out_len`; NULL if not. */
static const char *value_of(const char *line, const char *key, size_t *out_len)
{
    const char *at = line + strspn(line, " \t");
    const char *value = at + strlen(key);
    if (strncmp(at, key, strlen(key)) != 0) {
        return NULL;
    }
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

/* ---- the runtime ----------------------------------------------------------------------------- */

static void find_grace_in(const char *path, char *grace, size_t grace_bytes)
{
    CLEANUP(buf) struct buf text;
    buf_init(&text, CONFIG_MAX_BYTES);
    if (file_read(path, &text, NULL) == 0) {
        (void)check_find_setting(buf_text(&text), "cni_status_grace_period", grace,
                                 grace_bytes); /* not set there: what was found before stays */
    }
}

/* CRI-O reads its file, then those of the directory by name; the last one wins. */
static void find_grace(const struct admin_config *config, char *grace, size_t grace_bytes)
{
    char path[PATH_MAX];
    char file[PATH_MAX + 260];
    struct dirent **found = NULL;
    grace[0] = '\0';
    find_grace_in(admin_path(config, "/etc/crio/crio.conf", path, sizeof(path)), grace,
                  grace_bytes);
    admin_path(config, "/etc/crio/crio.conf.d", path, sizeof(path));
    int count = scandir(path, &found, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        (void)snprintf(file, sizeof(file), "%s/%s", path, found[i]->d_name); /* fits */
        find_grace_in(file, grace, grace_bytes);
        free(found[i]);
    }
    free(found);
}

void check_runtime(const struct check_versions *versions, const struct admin_config *config,
                   struct check_list *out)
{
    char grace[64];
    if (versions->runtime[0] == '\0') {
        check_add(out, CHECK_SKIP, "runtime", "its version is on the Node: give --kubeconfig",
                  "which one it is, and whether it asks STATUS, is not known");
        return;
    }
    find_grace(config, grace, sizeof(grace));
    check_judge_runtime(versions->runtime, grace, out);
}

/* ---- the kubelet ----------------------------------------------------------------------------- */

/* The sockets in a directory of the kubelet that a driver's name begins, or "dra". */
static size_t count_sockets(const char *dir, const char *prefix)
{
    size_t count = 0;
    DIR *entries = opendir(dir);
    for (struct dirent *at = entries ? readdir(entries) : NULL; at; at = readdir(entries)) {
        count += strncmp(at->d_name, prefix, strlen(prefix)) == 0 && at->d_type == DT_SOCK;
    }
    if (entries) {
        (void)closedir(entries); /* read-only */
    }
    return count;
}

static void check_kubelet_version(const char *version, struct check_list *out)
{
    int64_t number = version_number(version);
    if (number == 0) {
        check_add(out, CHECK_SKIP, "kubelet", "", "its version is not known");
    } else if (number < version_number("1.34.0")) {
        check_add(out, CHECK_WARN, "kubelet",
                  "its feature gate DynamicResourceAllocation, or Kubernetes 1.34",
                  "%s has DRA off unless its feature gate is on", version);
    } else if (number < version_number("1.36.0")) {
        check_add(out, CHECK_WARN, "kubelet",
                  "the feature gate ResourceHealthStatus in API server and kubelet, or Kubernetes "
                  "1.36",
                  "%s shows the DPU's health in pods only if its feature gate is on", version);
    } else {
        check_add(out, CHECK_PASS, "kubelet", "", "%s has all that the DRA device needs", version);
    }
}

void check_kubelet(const struct check_versions *versions, const struct admin_config *config,
                   struct check_list *out)
{
    char root[PATH_MAX];
    char dir[PATH_MAX + 320];
    struct stat found;
    admin_path(config, config->kubelet_root, root, sizeof(root));
    (void)snprintf(dir, sizeof(dir), "%s/plugins_registry", root); /* fits */
    if (stat(dir, &found) != 0) {
        check_add(out, CHECK_SKIP, "kubelet", "give --kubelet-root-dir if it is elsewhere",
                  "there is no '%s'", dir);
        return;
    }
    size_t offered = count_sockets(dir, config->driver);
    (void)snprintf(dir, sizeof(dir), "%s/plugins/%.253s", root, config->driver); /* fits */
    size_t served = count_sockets(dir, "dra");
    if (offered == 0 && served == 0) {
        check_add(out, CHECK_PASS, "kubelet", "", "the DPU is not offered as a DRA device");
        return;
    }
    if (offered == 0 || served == 0) {
        check_add(out, CHECK_WARN, "kubelet",
                  "the agent makes its sockets anew within 10 s: its log",
                  "of the DRA driver '%s' %s socket is missing", config->driver,
                  offered == 0 ? "the registration" : "the service");
    }
    check_kubelet_version(versions->kubelet, out);
}
