/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/pod_net.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

/* A runtime's own cache, and that of Multus, where the delegates' are. */
static const char *const caches[] = {"/var/lib/cni/results", "/var/lib/cni/multus/results"};

/* The next name that is not hidden; NULL at the end, and of a directory that is not there. */
static const char *next_name(DIR *dir)
{
    const struct dirent *at = dir ? readdir(dir) : NULL;
    while (at && at->d_name[0] == '.') {
        at = readdir(dir);
    }
    return at ? at->d_name : NULL;
}

/* ---- what CNI gave --------------------------------------------------------------------------- */

static bool take_name(struct json_slice name, char out[static POD_NET_NAME_BYTES])
{
    return json_scan_text(name, out, POD_NET_NAME_BYTES) && out[0] != '\0' && !strchr(out, '/');
}

/* Where the link of that name is; p->count: there is none. */
static size_t index_of(const struct pod_net *p, const char *name)
{
    size_t i = 0;
    while (i < p->count && !text_equal(p->links[i].name, name)) {
        i++;
    }
    return i;
}

/* The link of that name, which is made if there is room; NULL: there is none. */
static struct pod_net_link *find_link(struct pod_net *p, struct json_slice name)
{
    char text[POD_NET_NAME_BYTES];
    if (!take_name(name, text)) {
        return NULL;
    }
    size_t i = index_of(p, text);
    if (i < p->count) {
        return &p->links[i];
    }
    if (p->count == POD_NET_LINKS_MAX) {
        return NULL;
    }
    struct pod_net_link *made = &p->links[p->count++];
    *made = (struct pod_net_link){.index = 0};
    text_format(made->name, sizeof(made->name), "%s", text);
    return made;
}

static void take_device(struct pod_net_link *l, struct json_slice text)
{
    char device[POD_NET_DEVICE_BYTES];
    if (l->device[0] == '\0' && json_scan_text(text, device, sizeof(device)) &&
        text_is_pci_address(device)) {
        text_format(l->device, sizeof(l->device), "%s", device);
    }
}

static void take_plugin(struct pod_net_link *l, struct json_slice plugin)
{
    take_device(l, json_scan_member(plugin, "deviceID"));
    take_device(l, json_scan_member(json_scan_member(plugin, "runtimeConfig"), "deviceID"));
}

/* The configuration that CNI ran with, in base64: a plugin's, or a list of them. */
static void take_config(struct pod_net_link *l, struct json_slice encoded)
{
    struct json_slice config;
    size_t len;
    CLEANUP(free) char *text = mem_alloc(encoded.len + 1);
    if (!json_scan_text(encoded, text, encoded.len + 1) ||
        !base64_decode(text, strlen(text), (unsigned char *)text, &len) || /* in its place */
        json_scan_check(text, len, &config, NULL) != 0) {
        return;
    }
    take_plugin(l, config);
    struct json_walk w = json_walk_start(json_scan_member(config, "plugins"));
    while (json_walk_next(&w)) {
        take_plugin(l, w.value);
    }
}

static void take_ends(struct pod_net_link *l, struct pod_net_names *ends)
{
    for (size_t i = 0; i < ends->count && l->ends.count < POD_NET_NAMES_MAX; i++) {
        text_format(l->ends.each[l->ends.count++], POD_NET_NAME_BYTES, "%s", ends->each[i]);
    }
    ends->count = 0;
}

/* Whether an interface of a result is in the pod: it names a sandbox then. Of what is not the main
 * interface that is believed only if it is a path: amazon-vpc-cni puts a VLAN's number there, at an
 * interface that nobody has. */
static bool is_in_pod(struct json_slice sandbox, struct json_slice name)
{
    bool is_named = sandbox.len > strlen("\"\"");
    return is_named && (sandbox.at[1] == '/' || json_scan_equals(name, POD_NET_INTERFACE));
}

/* Interfaces without a sandbox are on the host: the ends of the next one that has one, or, at the
 * end of the list, of the last. */
static void take_result(struct pod_net *p, struct json_slice result)
{
    struct pod_net_names ends = {.count = 0};
    struct pod_net_link *last = NULL;
    struct json_walk w = json_walk_start(json_scan_member(result, "interfaces"));
    while (json_walk_next(&w)) {
        struct json_slice name = json_scan_member(w.value, "name");
        struct json_slice sandbox = json_scan_member(w.value, "sandbox");
        struct pod_net_link *link = is_in_pod(sandbox, name) ? find_link(p, name) : NULL;
        if (link) {
            last = link;
            link->has_testified = true;
            take_device(link, json_scan_member(w.value, "pciID"));
            take_ends(link, &ends);
        } else if (sandbox.len <= strlen("\"\"") && ends.count < POD_NET_NAMES_MAX &&
                   take_name(name, ends.each[ends.count])) {
            ends.count++;
        }
    }
    if (last) {
        take_ends(last, &ends);
    }
}

/* A file of libcni's cache (cniCacheV1): of one call of ADD, for the interface `ifName`. */
static void pod_net_take_cache(struct pod_net *p, const char *text, size_t len,
                               const char *sandbox_id)
{
    struct json_slice object;
    if (json_scan_check(text, len, &object, NULL) != 0 ||
        !json_scan_equals(json_scan_member(object, "containerId"), sandbox_id)) {
        return;
    }
    struct pod_net_link *link = find_link(p, json_scan_member(object, "ifName"));
    if (link) {
        take_device(link, json_scan_member(json_scan_member(object, "capabilityArgs"), "deviceID"));
        take_config(link, json_scan_member(object, "config"));
        take_result(p, json_scan_member(object, "result"));
    }
}

/* Files are named "NETWORK-SANDBOX-INTERFACE". False if not all could be read. */
static bool read_cache(struct pod_net *p, const char *root, const char *cache)
{
    char path[PATH_MAX];
    text_format(path, sizeof(path), "%s%s", root, cache);
    CLEANUP(dir) DIR *dir = opendir(path);
    bool is_whole = dir || errno == ENOENT;
    const char *name = next_name(dir);
    for (int i = 0; name && i < POD_NET_CACHE_MAX; i++, name = next_name(dir)) {
        CLEANUP(buf) struct buf text = {.max_bytes = POD_NET_FILE_MAX_BYTES};
        text_format(path, sizeof(path), "%s%s/%s", root, cache, name);
        int rc = strstr(name, p->sandbox) ? file_read(path, &text, NULL) : ERR_NOTFOUND;
        if (rc == 0) {
            pod_net_take_cache(p, buf_text(&text), text.len, p->sandbox);
        }
        is_whole = is_whole && (rc == 0 || rc == ERR_NOTFOUND);
    }
    return is_whole;
}

/* Into one that knows nothing yet. False if not all could be read. */
static bool read_caches(struct pod_net *p, const char *root, const char *sandbox_id)
{
    *p = (struct pod_net){.count = 1};
    text_format(p->sandbox, sizeof(p->sandbox), "%s", sandbox_id);
    text_format(p->links[0].name, sizeof(p->links[0].name), POD_NET_INTERFACE);
    bool is_whole = true;
    for (size_t i = 0; i < ARRAY_LEN(caches); i++) {
        is_whole = read_cache(p, root, caches[i]) && is_whole;
    }
    return is_whole;
}

/* ---- the namespace --------------------------------------------------------------------------- */

/* When it started; 0: there is no such process. */
static uint64_t read_start(const char *root, int32_t pid)
{
    enum { STAT_STARTTIME = 22 };
    char path[PATH_MAX];
    CLEANUP(buf) struct buf text = {.max_bytes = POD_NET_FILE_MAX_BYTES};
    text_format(path, sizeof(path), "%s/proc/%d/stat", root, (int)pid);
    return file_read(path, &text, NULL) == 0 ? text_stat_field(buf_text(&text), STAT_STARTTIME) : 0;
}

/* Never waits. -1 with errno: it cannot be opened, or its path does not fit. The host's /var/run is
 * a link to /run, which below a root would lead to our own. */
static int open_netns(const char *root, const char *netns, struct stat *out)
{
    static const char link[] = "/var/run/";
    char path[PATH_MAX];
    bool is_linked = root[0] != '\0' && strncmp(netns, link, strlen(link)) == 0;
    text_format(path, sizeof(path), "%s%s", root, is_linked ? netns + strlen("/var") : netns);
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && fstat(fd, out) == 0 ? take_fd(&fd) : -1;
}

static bool find_place(const char *root, int32_t pid, const char *netns, struct pod_net_place *out)
{
    struct stat about;
    if (pid != 0) {
        out->pid = pid;
        out->started = read_start(root, pid);
        return out->started != 0;
    }
    if (netns[0] != '/') {
        return false;
    }
    text_format(out->netns, sizeof(out->netns), "%s", netns);
    CLEANUP(fd) int fd = open_netns(root, out->netns, &about);
    if (fd < 0) {
        return false;
    }
    out->netns_inode = about.st_ino;
    return true;
}

/* The same file of /proc, from within the namespace. A process that cannot come back has no network
 * any more, and ends. */
static int read_within(int netns, const char *file, struct buf *out)
{
    CLEANUP(fd) int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0 || setns(netns, CLONE_NEWNET) != 0) {
        return errno;
    }
    char path[PATH_MAX];
    text_format(path, sizeof(path), "/proc/thread-self/net/%s", file);
    int rc = file_read(path, out, NULL);
    bool is_back = setns(own, CLONE_NEWNET) == 0;
    assert(is_back);
    return rc == 0 ? 0 : EIO;
}

static bool read_by_path(const struct pod_net_place *at, const char *root, const char *file,
                         struct buf *out, struct pod_net_finding *finding)
{
    struct stat about;
    CLEANUP(fd) int fd = open_netns(root, at->netns, &about);
    int reason = fd < 0                            ? errno
                 : about.st_ino != at->netns_inode ? ESTALE
                                                   : read_within(fd, file, out);
    if (reason != 0) {
        text_format(finding->words, sizeof(finding->words), "entering '%.100s': %s", at->netns,
                    strerror(reason));
    }
    return reason == 0;
}

/* A file of the namespace's /proc/net. What it cannot be read for is in `finding`. */
static bool read_net(const struct pod_net_place *at, const char *root, const char *file,
                     struct buf *out, struct pod_net_finding *finding)
{
    char path[PATH_MAX];
    if (at->pid == 0 && at->netns[0] == '\0') {
        text_format(finding->words, sizeof(finding->words),
                    "the container runtime names neither its process nor its network namespace");
        return false;
    }
    if (at->pid == 0) {
        return read_by_path(at, root, file, out, finding);
    }
    text_format(path, sizeof(path), "%s/proc/%d/net/%s", root, (int)at->pid, file);
    /* The start last: what was read is then surely of that process. */
    bool is_read =
        file_read(path, out, NULL) == 0 && out->len > 0 && read_start(root, at->pid) == at->started;
    if (!is_read) {
        text_format(finding->words, sizeof(finding->words), "its process %d is gone", (int)at->pid);
    }
    return is_read;
}

/* Its netdev stays on the host, whatever CNI's result says of it. */
static bool is_vdpa(const struct pod_net_link *l, const char *root)
{
    char path[PATH_MAX];
    char part[POD_NET_DEVICE_BYTES + 2];
    bool is_found = false;
    text_format(path, sizeof(path), "%s/sys/bus/vdpa/devices", root);
    text_format(part, sizeof(part), "/%s/", l->device);
    CLEANUP(dir) DIR *dir = l->device[0] != '\0' ? opendir(path) : NULL;
    for (const char *name = next_name(dir); dir && name && !is_found; name = next_name(dir)) {
        char target[PATH_MAX] = "";
        (void)!readlinkat(dirfd(dir), name, target, sizeof(target) - 1); /* else it stays "" */
        is_found = strstr(target, part) != NULL;
    }
    return is_found;
}

bool pod_net_open(const char *root, const char *sandbox_id, int32_t pid, const char *netns,
                  struct pod_net *out)
{
    (void)read_caches(out, root, sandbox_id); /* what is missing testifies to nothing */
    for (size_t i = 0; i < out->count; i++) {
        struct pod_net_link *link = &out->links[i];
        link->has_testified = link->has_testified && !is_vdpa(link, root);
    }
    return find_place(root, pid, netns, &out->place);
}

void pod_net_distrust_results(struct pod_net *p)
{
    for (size_t i = 0; i < p->count; i++) {
        p->links[i].has_testified = false;
    }
}

/* ---- where things are ------------------------------------------------------------------------ */

/* The kernel puts the first into each namespace, once a module is loaded. */
static bool is_kernels(const char *name)
{
    static const char *const kernels[] = {"lo",      "tunl0",   "gre0",     "gretap0",
                                          "erspan0", "ip_vti0", "ip6_vti0", "sit0",
                                          "ip6tnl0", "ip6gre0", "teql0"};
    for (size_t i = 0; i < ARRAY_LEN(kernels); i++) {
        if (text_equal(kernels[i], name)) {
            return true;
        }
    }
    return false;
}

/* What a namespace holds. */
struct content {
    bool has[POD_NET_LINKS_MAX]; /* the links, in their order */
    bool has_stranger;           /* which one that is missing may be, by another name */
};

/* By the text of /proc/PID/net/dev. */
static void pod_net_read_dev(const struct pod_net *p, const char *text, struct content *out)
{
    *out = (struct content){.has_stranger = false};
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        char name[POD_NET_NAME_BYTES];
        line += strspn(line, " \n");
        size_t len = strcspn(line, ":\n");
        if (len == 0 || line[len] != ':') {
            continue; /* the head */
        }
        text_format(name, sizeof(name), "%.*s", (int)len, line);
        size_t i = index_of(p, name);
        if (i < p->count) {
            out->has[i] = true;
        } else if (!is_kernels(name)) {
            out->has_stranger = true;
        }
    }
}

/* How many netdevs of its device are in our namespace, and the name of one of them. */
static size_t count_netdevs(const struct pod_net_link *l, const char *root,
                            char out_name[static POD_NET_NAME_BYTES])
{
    char path[PATH_MAX];
    size_t count = 0;
    text_format(path, sizeof(path), "%s/sys/bus/pci/devices/%s/net", root, l->device);
    CLEANUP(dir) DIR *dir = opendir(path);
    for (const char *name = next_name(dir); name; name = next_name(dir)) {
        text_sanitize(out_name, POD_NET_NAME_BYTES, name, strlen(name));
        count++;
    }
    return count;
}

static bool read_index(const char *root, const char *name, const char *file, uint64_t *out)
{
    char path[PATH_MAX];
    CLEANUP(buf) struct buf text = {.max_bytes = POD_NET_FILE_MAX_BYTES};
    text_format(path, sizeof(path), "%s/sys/class/net/%s/%s", root, name, file);
    return file_read(path, &text, NULL) == 0 &&
           text_to_u64(buf_text(&text), strcspn(buf_text(&text), "\n"), out, NULL) == 0;
}

/* The interface's own number, which the kernel shows with its multicast addresses. */
static void learn_index(struct pod_net_link *l, const struct pod_net_place *place, const char *root)
{
    struct pod_net_finding unused;
    CLEANUP(buf) struct buf text = {.max_bytes = POD_NET_FILE_MAX_BYTES};
    bool is_read = read_net(place, root, "dev_mcast", &text, &unused);
    for (const char *line = is_read ? buf_text(&text) : NULL; line; line = strchr(line, '\n')) {
        line += strspn(line, " \n");
        size_t len = strcspn(line, " \n");
        const char *name = line + len + strspn(line + len, " ");
        if (strcspn(name, " \n") == strlen(l->name) &&
            strncmp(name, l->name, strlen(l->name)) == 0 &&
            text_to_u64(line, len, &l->index, NULL) == 0) {
            return;
        }
    }
}

/* An end of a pair: another interface is linked to it. A bridge is linked to itself. */
static bool is_end(const char *root, const char *name)
{
    uint64_t own;
    uint64_t other;
    return read_index(root, name, "iflink", &other) && read_index(root, name, "ifindex", &own) &&
           own != other;
}

/* While the interface is there: what tells later what has become of it. */
static void learn(struct pod_net_link *l, const struct pod_net_place *place, const char *root)
{
    char name[POD_NET_NAME_BYTES];
    l->has_testified = true;
    if (l->index == 0) {
        learn_index(l, place, root);
    }
    if (l->device[0] != '\0') {
        l->neighbours = count_netdevs(l, root, name);
    }
}

/* While the end of a pair is there, the other one is, too, wherever. */
static void look_for_end(const struct pod_net_link *l, const char *root,
                         struct pod_net_finding *out)
{
    for (size_t i = 0; i < l->ends.count; i++) {
        if (is_end(root, l->ends.each[i])) {
            out->evidence = POD_NET_AWAY;
            text_format(out->words, sizeof(out->words),
                        "%s has moved, but its other end %s is there", l->name, l->ends.each[i]);
            return;
        }
    }
    out->evidence = POD_NET_LOST;
    text_format(out->words, sizeof(out->words), "%s is gone from the pod's network namespace",
                l->name);
}

static void look_for_device(const struct pod_net_link *l, const char *root,
                            struct pod_net_finding *out)
{
    char all[PATH_MAX];
    char device[PATH_MAX];
    char netdev[POD_NET_NAME_BYTES] = "";
    text_format(all, sizeof(all), "%s/sys/bus/pci/devices", root);
    text_format(device, sizeof(device), "%s/%s", all, l->device);
    out->evidence = POD_NET_LOST;
    if (count_netdevs(l, root, netdev) > l->neighbours) {
        uint64_t index = 0;
        bool is_same = read_index(root, netdev, "ifindex", &index) && index == l->index;
        out->is_by_device = !is_same; /* moved, as by the end of a namespace that the pod made */
        text_format(out->words, sizeof(out->words),
                    "%s is gone, and its device %s is back on the host as %s", l->name, l->device,
                    netdev);
    } else if (access(all, R_OK) == 0 && access(device, F_OK) != 0 && errno == ENOENT) {
        out->is_by_device = true;
        text_format(out->words, sizeof(out->words), "%s is gone, and so is its device %s", l->name,
                    l->device);
    } else {
        out->evidence = POD_NET_AWAY;
        text_format(out->words, sizeof(out->words), "%s is gone, and its device %s has no netdev",
                    l->name, l->device);
    }
}

/* Of one interface; `words` are "" where there is nothing to say. */
static void look_at_link(struct pod_net *p, size_t i, const struct content *seen, const char *root,
                         struct pod_net_finding *out)
{
    struct pod_net_link *link = &p->links[i];
    *out = (struct pod_net_finding){.evidence = POD_NET_UNKNOWN};
    if (seen->has[i]) {
        out->evidence = POD_NET_WHOLE;
        learn(link, &p->place, root);
    } else if (!link->has_testified || seen->has_stranger) {
        return;
    } else if (link->device[0] != '\0') {
        look_for_device(link, root, out);
    } else {
        look_for_end(link, root, out);
    }
}

/* A further interface is told only if it is lost: a pod may do with it what it likes, and what is
 * no netdev, as for DPDK, never was in its namespace. A network may also be taken from a running
 * pod: DEL takes its file from the cache, too, which is read once for all that are gone. */
static void look_at_others(struct pod_net *p, const struct content *seen, const char *root,
                           struct pod_net_finding *out)
{
    struct pod_net given = {.count = 0}; /* by the cache; it was not read */
    bool is_whole = false;
    for (size_t i = 1; i < p->count; i++) {
        struct pod_net_finding found;
        look_at_link(p, i, seen, root, &found);
        if (found.evidence != POD_NET_LOST) {
            continue;
        }
        if (given.count == 0) {
            is_whole = read_caches(&given, root, p->sandbox);
        }
        if (index_of(&given, p->links[i].name) == given.count) {
            p->links[i].has_testified = !is_whole;
        } else if (out->evidence == POD_NET_LOST) {
            out->is_by_device |= found.is_by_device;
            text_append(out->words, sizeof(out->words), "; %s is lost, too", p->links[i].name);
        } else {
            *out = found;
        }
    }
}

void pod_net_look(struct pod_net *p, const char *root, struct pod_net_finding *out)
{
    struct content seen;
    CLEANUP(buf) struct buf text = {.max_bytes = POD_NET_FILE_MAX_BYTES};
    *out = (struct pod_net_finding){.evidence = POD_NET_UNSEEN};
    if (read_net(&p->place, root, "dev", &text, out)) {
        pod_net_read_dev(p, buf_text(&text), &seen);
        look_at_link(p, 0, &seen, root, out);
        look_at_others(p, &seen, root, out);
    }
}
