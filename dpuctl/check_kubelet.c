/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "dpuctl/version_number.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* How many sockets there are, at how many of them somebody listens, and how many have an instance's
 * own name, for a rolling update. */
struct sockets {
    size_t present;
    size_t served;
    size_t rolling;
};

/* Reached through the directory's descriptor: a whole path may be too long for a socket's name. */
static bool is_served(int dir_fd, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int len =
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
    if (fd < 0 || len < 0 || (size_t)len >= sizeof(address.sun_path)) {
        return true; /* cannot be told: accuse nobody */
    }
    return connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
           errno != ECONNREFUSED;
}

/* The sockets in a directory of the kubelet whose names begin with `prefix`. */
static struct sockets find_sockets(const char *dir, const char *prefix)
{
    struct sockets found = {0};
    DIR *entries = opendir(dir);
    for (struct dirent *at = entries ? readdir(entries) : NULL; at; at = readdir(entries)) {
        if (strncmp(at->d_name, prefix, strlen(prefix)) == 0 && at->d_type == DT_SOCK) {
            found.present++;
            found.served += is_served(dirfd(entries), at->d_name);
            found.rolling += strncmp(at->d_name, "dra-", 4) == 0;
        }
    }
    if (entries) {
        (void)closedir(entries); /* read-only */
    }
    return found;
}

void check_rolling_names(struct doctor *d)
{
    int64_t number = version_number(d->kubelet_version);
    if (number > 0 && number < version_number("1.33.0")) {
        check_add(
            d, CHECK_WARN, "kubelet",
            "take --dra-rolling-update-uid away (Helm: dra.rollingUpdate=false)",
            "the DRA driver's sockets have names for a rolling update: %s knows one socket of "
            "a driver, 1.33 is the first that knows two",
            d->kubelet_version);
    }
}

static void check_version(struct doctor *d)
{
    const char *version = d->kubelet_version;
    int64_t number = version_number(version);
    if (number == 0) {
        check_add(d, CHECK_SKIP, "kubelet", "", "its version is not known");
    } else if (number < version_number("1.34.0")) {
        check_add(d, CHECK_WARN, "kubelet",
                  "its feature gate DynamicResourceAllocation, or Kubernetes 1.34",
                  "%s has DRA off unless its feature gate is on", version);
    } else if (number < version_number("1.36.0")) {
        check_add(d, CHECK_WARN, "kubelet",
                  "the feature gate ResourceHealthStatus in API server and kubelet, or Kubernetes "
                  "1.36",
                  "%s shows the DPU's health in pods only if its feature gate is on", version);
    } else {
        check_add(d, CHECK_PASS, "kubelet", "", "%s has all that the DRA device needs", version);
    }
}

void check_kubelet(struct doctor *d)
{
    const struct admin_config *config = &d->config;
    char root[PATH_MAX];
    char dir[PATH_MAX + 320];
    char plugin[PATH_MAX + 320];
    char prefix[256];
    struct stat found;
    admin_path(config, config->kubelet_root, root, sizeof(root));
    text_format(dir, sizeof(dir), "%s/plugins_registry", root);
    if (stat(dir, &found) != 0) {
        check_add(d, CHECK_SKIP, "kubelet", "give --kubelet-root-dir if it is elsewhere",
                  "there is no '%s'", dir);
        return;
    }
    text_format(prefix, sizeof(prefix), "%.253s-", config->driver);
    struct sockets offered = find_sockets(dir, prefix);
    text_format(plugin, sizeof(plugin), "%s/plugins/%s", root, config->driver);
    struct sockets service = find_sockets(plugin, "dra");
    if (offered.present == 0 && service.present > 0) {
        offered = find_sockets(dir, "dra-"); /* named by a hash: may be ours */
    }
    if (offered.present == 0 && service.present == 0) {
        check_add(d, CHECK_PASS, "kubelet", "", "the DPU is not offered as a DRA device");
        return;
    }
    if (offered.served + service.served < offered.present + service.present) {
        check_add(d, CHECK_WARN, "kubelet",
                  "start the agent again; with --dra=off, remove the sockets of an earlier run",
                  "%zu of %zu sockets of the DRA driver '%s' are left over: nobody listens",
                  offered.present + service.present - offered.served - service.served,
                  offered.present + service.present, config->driver);
    }
    if (offered.present == 0 || service.present == 0) {
        check_add(d, CHECK_WARN, "kubelet", "the agent makes its sockets anew within 10 s: its log",
                  "of the DRA driver '%s' %s socket is missing", config->driver,
                  offered.present == 0 ? "the registration" : "the service");
    }
    if (service.rolling > 0) {
        check_rolling_names(d);
    }
    check_version(d);
}
