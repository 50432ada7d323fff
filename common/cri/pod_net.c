/* SPDX-License-Identifier: Apache-2.0 */
#include "cri/pod_net.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file_read.h"
#include "base/text.h"
#include "json/json_scan.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>

/* A runtime's own cache, and that of Multus, where the delegates' are. */
static const char *const caches[] = {"/var/lib/cni/results", "/var/lib/cni/multus/results"};

/* ---- what CNI gave --------------------------------------------------------------------------- */

static void take_device(struct pod_net *p, struct json_slice text)
{
    char device[POD_NET_DEVICE_BYTES];
    if (p->device[0] == '\0' && json_scan_text(text, device, sizeof(device)) &&
        text_is_pci_address(device)) {
        text_format(p->device, sizeof(p->device), "%s", device);
    }
}

static void take_plugin(struct pod_net *p, struct json_slice plugin)
{
    take_device(p, json_scan_member(plugin, "deviceID"));
    take_device(p, json_scan_member(json_scan_member(plugin, "runtimeConfig"), "deviceID"));
}

/* The configuration that CNI ran with, in base64: a plugin's, or a list of them. */
static void take_config(struct pod_net *p, struct json_slice encoded)
{
    struct json_slice config;
    struct json_slice key;
    struct json_slice plugin;
    size_t len = 0;
    if (encoded.len < 2) {
        return;
    }
    CLEANUP(free) unsigned char *text = malloc(BASE64_DECODED_BYTES(encoded.len));
    if (!text || !base64_decode(BASE64_STANDARD, encoded.at + 1, encoded.len - 2, text, &len) ||
        json_scan_check((const char *)text, len, &config, NULL) != 0) {
        return;
    }
    take_plugin(p, config);
    struct json_walk w = json_walk_start(json_scan_member(config, "plugins"));
    while (json_walk_next(&w, &key, &plugin)) {
        take_plugin(p, plugin);
    }
}

/* Interfaces without a sandbox are the host's ends. */
static void take_result(struct pod_net *p, struct json_slice result)
{
    struct json_slice key;
    struct json_slice entry;
    struct json_walk w = json_walk_start(json_scan_member(result, "interfaces"));
    while (json_walk_next(&w, &key, &entry)) {
        struct json_slice sandbox = json_scan_member(entry, "sandbox");
        if (sandbox.len > 2 &&
            json_scan_equals(json_scan_member(entry, "name"), POD_NET_INTERFACE)) {
            p->has_testified = true;
            take_device(p, json_scan_member(entry, "pciID"));
        }
    }
}

static void take_other(struct pod_net *p, struct json_slice name)
{
    if (p->other_count < POD_NET_OTHERS_MAX &&
        json_scan_text(name, p->others[p->other_count], POD_NET_NAME_BYTES)) {
        p->other_count++;
    }
}

void pod_net_take_cache(struct pod_net *p, const char *text, size_t len, const char *sandbox_id)
{
    struct json_slice object;
    if (json_scan_check(text, len, &object, NULL) != 0 ||
        !json_scan_equals(json_scan_member(object, "containerId"), sandbox_id)) {
        return;
    }
    struct json_slice name = json_scan_member(object, "ifName");
    if (!json_scan_equals(name, POD_NET_INTERFACE)) {
        take_other(p, name);
        return;
    }
    take_device(p, json_scan_member(json_scan_member(object, "capabilityArgs"), "deviceID"));
    take_config(p, json_scan_member(object, "config"));
    take_result(p, json_scan_member(object, "result"));
}

/* Files are named "NETWORK-SANDBOX-INTERFACE". */
static void read_cache(struct pod_net *p, const char *dir, const char *sandbox_id)
{
    DIR *entries = opendir(dir);
    struct dirent *at = entries ? readdir(entries) : NULL;
    for (int i = 0; at && i < POD_NET_CACHE_MAX; i++, at = readdir(entries)) {
        char path[PATH_MAX];
        CLEANUP(buf) struct buf text;
        buf_init(&text, POD_NET_FILE_MAX_BYTES);
        if (!strstr(at->d_name, sandbox_id)) {
            continue;
        }
        text_format(path, sizeof(path), "%s/%s", dir, at->d_name);
        if (file_read(path, &text, NULL) == 0) {
            pod_net_take_cache(p, buf_text(&text), text.len, sandbox_id);
        }
    }
    if (entries) {
        (void)closedir(entries); /* read-only */
    }
}

/* ---- the process ----------------------------------------------------------------------------- */

/* When it started: the 22nd field of /proc/PID/stat, counted from behind the name, which may hold
 * anything. 0: there is no such process. */
static uint64_t read_start(const char *root, int32_t pid)
{
    enum { FIELDS_AFTER_NAME = 20 };
    char path[PATH_MAX];
    uint64_t started;
    CLEANUP(buf) struct buf text;
    buf_init(&text, POD_NET_FILE_MAX_BYTES);
    text_format(path, sizeof(path), "%s/proc/%d/stat", root, (int)pid);
    if (file_read(path, &text, NULL) != 0) {
        return 0;
    }
    const char *at = strrchr(buf_text(&text), ')');
    for (int i = 0; at && i < FIELDS_AFTER_NAME; i++) {
        at = strchr(at + 1, ' ');
    }
    bool is_read = at && text_to_u64(at + 1, strcspn(at + 1, " \n"), &started, NULL) == 0;
    return is_read ? started : 0;
}

bool pod_net_open(const char *root, const char *sandbox_id, int32_t pid, struct pod_net *out)
{
    struct pod_net p = {.pid = pid, .started = read_start(root, pid)};
    if (p.started == 0) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(caches); i++) {
        char dir[PATH_MAX];
        text_format(dir, sizeof(dir), "%s%s", root, caches[i]);
        read_cache(&p, dir, sandbox_id);
    }
    *out = p;
    return true;
}

/* ---- where things are ------------------------------------------------------------------------ */

static bool is_one_of(const char *name, size_t len, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(list[i]) == len && memcmp(list[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_other(const struct pod_net *p, const char *name, size_t len)
{
    for (size_t i = 0; i < p->other_count; i++) {
        if (strlen(p->others[i]) == len && memcmp(p->others[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

struct pod_net_names pod_net_read_names(const struct pod_net *p, const char *text)
{
    /* What the kernel puts into each namespace by itself, once a module is loaded. */
    static const char *const kernels[] = {"lo",      "tunl0",   "gre0",     "gretap0",
                                          "erspan0", "ip_vti0", "ip6_vti0", "sit0",
                                          "ip6tnl0", "ip6gre0", "teql0"};
    static const char *const own[] = {POD_NET_INTERFACE};
    struct pod_net_names found = {.has_own = false};
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += strspn(line, " \n");
        size_t len = strcspn(line, ":\n");
        if (len == 0 || line[len] != ':') {
            continue; /* the head */
        }
        if (is_one_of(line, len, own, ARRAY_LEN(own))) {
            found.has_own = true;
        } else if (!is_one_of(line, len, kernels, ARRAY_LEN(kernels)) && !is_other(p, line, len)) {
            found.has_stranger = true;
        }
    }
    return found;
}

/* The first entry of a directory. False if it cannot be read or is empty. */
static bool find_entry(const char *dir, char *out, size_t out_bytes)
{
    bool is_found = false;
    DIR *entries = opendir(dir);
    for (struct dirent *at = entries ? readdir(entries) : NULL; at && !is_found;
         at = readdir(entries)) {
        if (at->d_name[0] != '.') {
            text_sanitize(out, out_bytes, at->d_name, strlen(at->d_name));
            is_found = true;
        }
    }
    if (entries) {
        (void)closedir(entries); /* read-only */
    }
    return is_found;
}

static enum pod_net_evidence look_for_device(const struct pod_net *p, const char *root,
                                             char words[static POD_NET_WORDS_BYTES])
{
    char all[PATH_MAX];
    char device[PATH_MAX];
    char net[PATH_MAX];
    char netdev[POD_NET_NAME_BYTES];
    text_format(all, sizeof(all), "%s/sys/bus/pci/devices", root);
    text_format(device, sizeof(device), "%s/sys/bus/pci/devices/%s", root, p->device);
    text_format(net, sizeof(net), "%s/sys/bus/pci/devices/%s/net", root, p->device);
    if (find_entry(net, netdev, sizeof(netdev))) {
        text_format(words, POD_NET_WORDS_BYTES,
                    POD_NET_INTERFACE " is gone, its device %s is back on the host as %s",
                    p->device, netdev);
        return POD_NET_LOST;
    }
    if (access(all, R_OK) == 0 && access(device, F_OK) != 0 && errno == ENOENT) {
        text_format(words, POD_NET_WORDS_BYTES,
                    POD_NET_INTERFACE " is gone, and so is its device %s", p->device);
        return POD_NET_LOST;
    }
    text_format(words, POD_NET_WORDS_BYTES,
                POD_NET_INTERFACE " is gone, its device %s has no netdev in sight", p->device);
    return POD_NET_AWAY;
}

enum pod_net_evidence pod_net_look(struct pod_net *p, const char *root,
                                   char words[static POD_NET_WORDS_BYTES])
{
    char path[PATH_MAX];
    CLEANUP(buf) struct buf text;
    buf_init(&text, POD_NET_FILE_MAX_BYTES);
    words[0] = '\0';
    text_format(path, sizeof(path), "%s/proc/%d/net/dev", root, (int)p->pid);
    /* The start last: what was read is then surely of that process. */
    if (file_read(path, &text, NULL) != 0 || text.len == 0 ||
        read_start(root, p->pid) != p->started) {
        return POD_NET_UNKNOWN;
    }
    const struct pod_net_names names = pod_net_read_names(p, buf_text(&text));
    if (names.has_own) {
        p->has_testified = true;
        return POD_NET_WHOLE;
    }
    if (p->device[0] != '\0') {
        return look_for_device(p, root, words);
    }
    if (!p->has_testified || names.has_stranger) {
        return POD_NET_UNKNOWN;
    }
    text_format(words, POD_NET_WORDS_BYTES,
                POD_NET_INTERFACE " is gone from the pod's network namespace");
    return POD_NET_LOST;
}
