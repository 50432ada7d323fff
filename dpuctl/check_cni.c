/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file_read.h"
#include "base/text.h"
#include "dpuctl/cni_probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSTALL "dpu-host-agent install-cni"
#define MULTUS_MEND                                                                                \
    "put dpu-gate in front of Multus, or give Multus its text as a delegate: docs/cni.md"

/* ---- programs -------------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    char magic[4] = "";
    struct stat found;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe */
    return fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) &&
           (found.st_mode & S_IXUSR) != 0 && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
           (memcmp(magic, "\177ELF", 4) == 0 || memcmp(magic, "#!", 2) == 0);
}

static void path_of(const char *type, const struct admin_config *config, char *out,
                    size_t out_bytes)
{
    char dir[PATH_MAX];
    admin_path(config, config->cni_bin_dir, dir, sizeof(dir));
    text_format(out, out_bytes, "%s/%s", dir, type);
}

static bool check_program(struct doctor *d, const char *type, const char *mend)
{
    char path[PATH_MAX + CNI_SCAN_TEXT_BYTES + 2];
    path_of(type, &d->config, path, sizeof(path));
    if (strchr(type, '/') || !is_program(path)) {
        check_add(d, CHECK_FAIL, "CNI", mend, "'%s' is no program that could be run", path);
        return false;
    }
    return true;
}

static void check_gate_program(struct doctor *d)
{
    char path[PATH_MAX + CNI_SCAN_TEXT_BYTES + 2];
    struct err e = ERR_INIT;
    path_of("dpu-gate", &d->config, path, sizeof(path));
    if (check_program(d, "dpu-gate", INSTALL) && cni_probe_version(path, &e) != 0) {
        check_add(d, CHECK_FAIL, "CNI", INSTALL, "'%s': %s", path, e.msg);
    }
}

/* A runtime calls all plugins of a list with the highest version of the list. containerd 1.x takes
 * 1.0.0 instead. One that gives no answer here may give it to the runtime. */
static void check_speaks(struct doctor *d, const char *path)
{
    struct err e = ERR_INIT;
    bool is_certain =
        d->runtime_version[0] != '\0' && strncmp(d->runtime_version, "containerd://1.", 15) != 0;
    if (cni_probe_version(path, &e) == ERR_NOTFOUND) {
        check_add(
            d, is_certain ? CHECK_FAIL : CHECK_WARN, "CNI", "update that plugin",
            "'%s' does not speak CNI 1.1.0, with which every runtime but containerd 1.x calls "
            "it behind dpu-gate: it refuses ADD there",
            path);
    }
}

/* ---- what stands behind the gate ------------------------------------------------------------- */

static void check_plugin(struct doctor *d, const struct cni_entry *gate, const char *type,
                         const char *mend)
{
    char path[PATH_MAX + CNI_SCAN_TEXT_BYTES + 2];
    if (check_program(d, type, mend) && gate->speaks_status) {
        path_of(type, &d->config, path, sizeof(path));
        check_speaks(d, path);
    }
}

static void check_source(struct doctor *d, const struct cni_entry *gate)
{
    char path[PATH_MAX];
    struct err e = ERR_INIT;
    struct cni_entry *source = calloc(1, sizeof(*source));
    CLEANUP(buf) struct buf text;
    buf_init(&text, CNI_SCAN_FILE_MAX_BYTES);
    admin_path(&d->config, gate->delegate_conf, path, sizeof(path));
    if (!source) {
        check_add(d, CHECK_SKIP, "CNI", "", "'%s': out of memory", path);
        return;
    }
    if (file_read(path, &text, &e) != 0) {
        check_add(d, CHECK_FAIL, "CNI", "ovn-kubernetes writes it: look at ovnkube-node's pod",
                  "the configuration behind dpu-gate: %s", e.msg);
        free(source);
        return;
    }
    cni_entry_read(buf_text(&text), text.len, source);
    if (source->problem[0] != '\0') {
        check_add(d, CHECK_FAIL, "CNI", "ovn-kubernetes writes it: look at ovnkube-node's pod",
                  "'%s': %s", path, source->problem);
    } else if (source->is_gated) {
        check_add(d, CHECK_FAIL, "CNI", INSTALL " with the --cni-source of the node's own plugin",
                  "'%s', behind dpu-gate, is dpu-gate itself", path);
    } else if (source->plugin_count > 1) {
        check_add(d, CHECK_FAIL, "CNI", INSTALL ": it chains a list",
                  "'%s' lists %zu plugins: dpu-gate can call one", path, source->plugin_count);
    } else if (!text_equal(source->network, gate->network)) {
        check_add(
            d, CHECK_FAIL, "CNI", INSTALL ": results of pods are kept under the network's name",
            "'%s' is of network '%s', but dpu-gate of '%s'", path, source->network, gate->network);
    } else {
        check_plugin(d, gate, source->types,
                     "ovn-kubernetes installs it: look at ovnkube-node's pod");
    }
    free(source);
}

/* The runtime itself calls those that come after the gate in its list. */
static void check_chain(struct doctor *d, const struct cni_entry *gate)
{
    bool is_cut = strlen(gate->types) + 1 >= sizeof(gate->types) - 4; /* bytes of a character */
    const char *comma = strstr(gate->types, ", ");
    while (comma) {
        char type[CNI_SCAN_TEXT_BYTES];
        const char *begin = comma + 2;
        comma = strstr(begin, ", ");
        size_t len = comma ? (size_t)(comma - begin) : strlen(begin);
        if (comma || !is_cut) {
            text_sanitize(type, sizeof(type), begin, len);
            check_plugin(d, gate, type, "install that plugin");
        }
    }
}

static void check_gate(struct doctor *d, const struct cni_entry *gate)
{
    const char *record =
        gate->readiness_file[0] != '\0' ? gate->readiness_file : NAMES_READINESS_FILE;
    if (!gate->speaks_status) {
        check_add(d, CHECK_WARN, "CNI",
                  INSTALL ", or \"cniVersions\": [\"1.0.0\", \"1.1.0\"] there",
                  "%s goes up to cniVersion %s only: no runtime asks it for STATUS, ADD alone is "
                  "gated",
                  gate->file, gate->version[0] != '\0' ? gate->version : "0.1.0");
    }
    if (!text_equal(record, d->config.readiness_file)) {
        check_add(d, CHECK_FAIL, "CNI", INSTALL " with the agent's --readiness-file",
                  "dpu-gate reads '%s', but the agent writes '%s'", record,
                  d->config.readiness_file);
    }
    check_gate_program(d);
    if (gate->delegate_conf[0] != '\0') {
        check_source(d, gate);
    } else if (gate->delegate_type[0] == '\0') {
        check_add(d, CHECK_FAIL, "CNI", INSTALL, "%s: dpu-gate has no plugin to call", gate->file);
    } else if (gate->is_wrapping) {
        check_plugin(d, gate, gate->delegate_type, "install that plugin");
    }
    check_chain(d, gate);
}

/* ---- who comes first ------------------------------------------------------------------------- */

/* By its text, or by its name where the text says nothing. */
static bool is_ours(const struct cni_entry *entry)
{
    return entry->is_gated || strstr(entry->file, "dpu-gate");
}

static bool is_list_path(const char *network)
{
    const char *dot = strrchr(network, '.');
    return network[0] == '/' && text_equal(dot, ".conflist");
}

/* A file of this directory, by whichever path Multus in its pod knows it; NULL: none. */
static const struct cni_entry *find_file(const struct cni_scan *scan, const char *path)
{
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; slash && i < scan->count; i++) {
        if (text_equal(scan->entries[i].file, slash + 1)) {
            return &scan->entries[i];
        }
    }
    return NULL;
}

/* What Multus calls in the gate's place, as far as its file says; NULL: nothing. */
static const char *called_by(const struct cni_entry *multus, const struct cni_scan *scan)
{
    const char *network = multus->cluster_network;
    const struct cni_entry *file = find_file(scan, network);
    if (network[0] == '\0') { /* else its delegates do not count */
        bool is_gate = text_equal(multus->first_delegate, "dpu-gate");
        return is_gate || multus->first_delegate[0] == '\0' ? NULL : multus->first_delegate;
    }
    return file && !is_ours(file) ? network : NULL;
}

static void warn_of_multus(struct doctor *d, const struct cni_entry *multus)
{
    const char *network = multus->cluster_network;
    const char *called = network[0] != '\0'                  ? "its cluster network "
                         : multus->first_delegate[0] != '\0' ? multus->first_delegate
                                                             : "what its file does not say";
    check_add(d, CHECK_WARN, "CNI",
              "make sure that Multus is 4.2.4 (thin) or 4.3.0 (thick) or newer: older ones do "
              "not pass STATUS on",
              "Multus (%s) comes first and calls %s%s", multus->file, called, network);
}

static void check_multus(struct doctor *d, const struct cni_entry *multus)
{
    const char *other = called_by(multus, &d->cni);
    if (other) {
        check_add(d, CHECK_FAIL, "CNI", MULTUS_MEND,
                  "Multus (%s) comes first and calls %s, past dpu-gate", multus->file, other);
    } else if (is_list_path(multus->cluster_network)) {
        check_add(d, CHECK_FAIL, "CNI", MULTUS_MEND,
                  "Multus (%s) names the list '%s': of its plugins DEL and STATUS get no more than "
                  "the type, so dpu-gate does not know whom to call",
                  multus->file, multus->cluster_network);
    } else if (!multus->speaks_status) {
        check_add(d, CHECK_WARN, "CNI", "set \"cniVersion\": \"1.1.0\" in Multus's configuration",
                  "Multus (%s) comes first, with cniVersion %s: STATUS does not get through it",
                  multus->file, multus->version[0] != '\0' ? multus->version : "0.1.0");
    } else {
        warn_of_multus(d, multus);
    }
}

/* One that cannot be taken. containerd gives up at it (go-cni, loadFromConfDir), CRI-O goes on. */
static void check_broken(struct doctor *d, const struct cni_entry *entry, bool is_before_all)
{
    bool stops = is_before_all && strncmp(d->runtime_version, "containerd:", 11) == 0;
    check_add(d, stops || is_ours(entry) ? CHECK_FAIL : CHECK_WARN, "CNI",
              is_ours(entry) ? INSTALL : "mend or remove that file", "%s: %s%s", entry->file,
              entry->problem,
              stops ? "; containerd takes no later one, so there is no network" : "");
}

/* Those that cannot be taken. Returns whether we may read all. */
static bool check_files(struct doctor *d)
{
    const struct cni_scan *scan = &d->cni;
    const struct cni_entry *first = cni_scan_first(scan);
    bool may_read = true;
    for (size_t i = 0; i < scan->count; i++) {
        const struct cni_entry *entry = &scan->entries[i];
        if (entry->is_forbidden) {
            may_read = false;
            check_add(d, CHECK_SKIP, "CNI", "run it as root", "%s: %s", entry->file,
                      entry->problem);
        } else if (entry->problem[0] != '\0') {
            check_broken(d, entry, !first || entry < first);
        }
    }
    if (scan->more > 0) {
        check_add(d, CHECK_WARN, "CNI", "remove what is not in use",
                  "%zu more files were not looked at", scan->more);
    }
    return may_read;
}

void check_cni(struct doctor *d)
{
    const struct cni_scan *scan = &d->cni;
    const struct cni_entry *first = cni_scan_first(scan);
    const struct cni_entry *gate = cni_scan_gated(scan);
    size_t before = d->count;
    if (scan->problem[0] != '\0') {
        check_add(d, CHECK_FAIL, "CNI", "give --cni-conf-dir, or --root where the node is mounted",
                  "%s", scan->problem);
        return;
    }
    if (!check_files(d)) {
        return; /* who comes first cannot be told */
    }
    if (!gate && first && text_equal(first->first_delegate, "dpu-gate")) {
        check_multus(d, first); /* its text is there, in no file of its own */
        return;
    }
    if (!gate) {
        check_add(d, CHECK_WARN, "CNI", INSTALL,
                  "%s%s: dpu-gate is not installed, pods are let "
                  "through whatever the DPU does",
                  first ? first->file : "there is no configuration", first ? " comes first" : "");
        return;
    }
    if (first != gate && !first->is_multus) {
        check_add(d, CHECK_FAIL, "CNI", "rename it, so that it sorts behind dpu-gate's",
                  "%s sorts before %s: the runtime takes it, past dpu-gate", first->file,
                  gate->file);
    } else if (first != gate) {
        check_multus(d, first);
    }
    check_gate(d, gate);
    if (d->count == before) {
        check_add(d, CHECK_PASS, "CNI", "", "%s comes first: dpu-gate, then %s", gate->file,
                  gate->delegate_conf[0] != '\0' ? gate->delegate_conf : gate->delegate_type);
    }
}
