/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/cni_scan.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file_read.h"
#include "base/text.h"
#include "contract/cni_names.h"
#include "dpuctl/version_number.h"
#include "json/json_text.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one file -------------------------------------------------------------------------------- */

static void keep(char out[static CNI_SCAN_TEXT_BYTES], const char *text)
{
    if (text) {
        text_sanitize(out, CNI_SCAN_TEXT_BYTES, text, strlen(text));
    }
}

static void read_versions(const json_t *conf, struct cni_entry *out)
{
    /* libcni reads these in lists alone. */
    const json_t *versions = out->is_list ? json_object_get(conf, "cniVersions") : NULL;
    const char *best = json_text_get(conf, "cniVersion");
    if (versions && !json_is_array(versions)) {
        keep(out->problem, "its cniVersions is no list");
    }
    for (size_t i = 0; i < json_array_size(versions); i++) {
        const char *version = json_string_value(json_array_get(versions, i));
        if (!version) {
            keep(out->problem, "its cniVersions holds more than texts");
        }
        if (version_number(version) > version_number(best)) {
            best = version;
        }
    }
    if (best) {
        text_sanitize(out->version, sizeof(out->version), best, strlen(best));
    }
    out->speaks_status = version_number(best) >= version_number("1.1.0");
}

static void read_gate(const json_t *gate, const json_t *next, struct cni_entry *out)
{
    const json_t *delegate = json_object_get(gate, "delegate");
    out->is_wrapping = delegate || json_object_get(gate, "delegateConf");
    keep(out->delegate_conf, json_text_get(gate, "delegateConf"));
    keep(out->readiness_file, json_text_get(gate, "readinessFile"));
    keep(out->delegate_type, json_text_get(delegate ? delegate : next, "type"));
}

static void read_multus(const json_t *multus, struct cni_entry *out)
{
    const json_t *delegate = json_array_get(json_object_get(multus, "delegates"), 0);
    const json_t *plugins = json_object_get(delegate, "plugins");
    keep(out->cluster_network, json_text_get(multus, "clusterNetwork"));
    keep(out->first_delegate,
         json_text_get(plugins ? json_array_get(plugins, 0) : delegate, "type"));
}

static void add_type(struct cni_entry *out, const char *type)
{
    size_t used = strlen(out->types);
    char shown[64];
    text_sanitize(shown, sizeof(shown), type, strlen(type));
    text_format(out->types + used, sizeof(out->types) - used, "%s%s", used > 0 ? ", " : "", shown);
}

static void read_plugins(const json_t *conf, struct cni_entry *out)
{
    const json_t *plugins = json_object_get(conf, "plugins");
    size_t count = plugins ? json_array_size(plugins) : 1;
    const json_t *first = plugins ? json_array_get(plugins, 0) : conf;
    const char *first_type = json_text_get(first, "type");
    for (size_t i = 0; i < count; i++) {
        const char *type = json_text_get(plugins ? json_array_get(plugins, i) : conf, "type");
        if (i == 0) { /* before there can be a problem: it matters whose */
            out->is_gated = text_equal(type, "dpu-gate");
        }
        if (text_is_empty(type)) {
            keep(out->problem, "a plugin has no type");
            return;
        }
        add_type(out, type);
    }
    out->plugin_count = count;
    if (count == 0) {
        keep(out->problem, "it has no plugins");
        return;
    }
    out->is_multus = strncmp(first_type, "multus", 6) == 0;
    if (out->is_gated) {
        read_gate(first, plugins ? json_array_get(plugins, 1) : NULL, out);
    }
    if (out->is_multus) {
        read_multus(first, out);
    }
}

void cni_entry_read(const char *text, size_t len, struct cni_entry *out)
{
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *conf = json_text_parse(text, len, CNI_SCAN_FILE_MAX_BYTES, &e);
    if (!json_is_object(conf)) {
        keep(out->problem, conf ? "it is not a JSON object" : e.msg);
        return;
    }
    keep(out->network, json_text_get(conf, "name"));
    if (text_is_empty(out->network)) {
        keep(out->problem, "it names no network");
    }
    out->is_list = json_object_get(conf, "plugins") != NULL;
    read_versions(conf, out);
    read_plugins(conf, out);
}

/* ---- the directory --------------------------------------------------------------------------- */

static int is_configuration(const struct dirent *entry)
{
    return entry->d_type != DT_DIR && cni_is_configuration(entry->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* bytes, as the runtimes sort */
}

/* Runtimes go by the name of the file. */
static void check_kind(struct cni_entry *entry)
{
    bool has_list_name = text_equal(strrchr(entry->file, '.'), ".conflist");
    if (text_is_empty(entry->problem) && has_list_name != entry->is_list) {
        keep(entry->problem, entry->is_list ? "a list of plugins has to be in a .conflist"
                                            : "a .conflist has to have a list of plugins");
    }
}

static void read_entry(const char *dir, const char *name, struct cni_entry *out)
{
    char path[PATH_MAX];
    struct err e = ERR_INIT;
    CLEANUP(buf) struct buf text;
    buf_init(&text, CNI_SCAN_FILE_MAX_BYTES);
    keep(out->file, name);
    text_format(path, sizeof(path), "%s/%s", dir, name);
    int rc = file_read(path, &text, &e);
    if (rc != 0) {
        out->is_forbidden = rc == ERR_AUTH;
        keep(out->problem, e.msg);
        return;
    }
    cni_entry_read(buf_text(&text), text.len, out);
    check_kind(out);
}

void cni_scan_directory(const char *dir, struct cni_scan *out)
{
    struct dirent **found = NULL;
    *out = (struct cni_scan){.count = 0};
    int count = scandir(dir, &found, is_configuration, by_name);
    if (count < 0) {
        text_format(out->problem, sizeof(out->problem), "reading '%.150s': %s", dir,
                    strerrordesc_np(errno));
        return;
    }
    for (int i = 0; i < count; i++) {
        if (out->count < CNI_SCAN_MAX) {
            read_entry(dir, found[i]->d_name, &out->entries[out->count++]);
        } else {
            out->more++;
        }
        free(found[i]);
    }
    free(found);
}

const struct cni_entry *cni_scan_first(const struct cni_scan *scan)
{
    for (size_t i = 0; i < scan->count; i++) {
        if (text_is_empty(scan->entries[i].problem)) {
            return &scan->entries[i];
        }
    }
    return NULL;
}

const struct cni_entry *cni_scan_gated(const struct cni_scan *scan)
{
    for (size_t i = 0; i < scan->count; i++) {
        if (scan->entries[i].is_gated && text_is_empty(scan->entries[i].problem)) {
            return &scan->entries[i];
        }
    }
    return NULL;
}
