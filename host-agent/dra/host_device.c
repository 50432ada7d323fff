/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/host_device.h"

#include "base/mem.h"
#include "base/text.h"
#include "host-agent/dra/vpd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    NETDEV_MAX_BYTES = 15,
    SMALL_FILE_BYTES = 64,
    VPD_MAX_BYTES = 32768,
    SYSFS_PATH_BYTES = 512
};

/* Reads at most `max` bytes; 0 if the file cannot be read. */
static size_t read_file(const char *dir, const char *name, void *out, size_t max)
{
    char path[PATH_MAX];
    size_t len = 0;
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
        return 0;
    }
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && len < max) {
        ssize_t got = read(fd, (char *)out + len, max - len);
        if (got <= 0) {
            break; /* the end, or what VPD hardware says instead */
        }
        len += (size_t)got;
    }
    return len;
}

/* A file of one short line. */
static int add_line(const char *dir, const char *file, const char *attribute,
                    struct attribute_list *out, struct err *e)
{
    char text[SMALL_FILE_BYTES + 1];
    text[read_file(dir, file, text, SMALL_FILE_BYTES)] = '\0';
    text[strcspn(text, "\n")] = '\0';
    const char *value = strncmp(text, "0x", 2) == 0 ? text + 2 : text;
    return value[0] == '\0' ? 0 : attribute_list_set_text(out, attribute, value, e);
}

static int add_driver(const char *dir, struct attribute_list *out, struct err *e)
{
    char path[PATH_MAX];
    char target[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/driver", dir) >= (int)sizeof(path)) {
        return 0;
    }
    ssize_t len = readlink(path, target, sizeof(target) - 1);
    if (len <= 0) {
        return 0; /* no driver is bound */
    }
    target[len] = '\0';
    const char *slash = strrchr(target, '/');
    return attribute_list_set_text(out, "driver", slash ? slash + 1 : target, e);
}

static int add_vpd(const char *dir, struct attribute_list *out, struct err *e)
{
    static const struct {
        const char *keyword;
        const char *attribute;
    } rows[] = {{"SN", "serial"}, {"PN", "partNumber"}};
    CLEANUP(free) uint8_t *vpd = malloc(VPD_MAX_BYTES);
    if (!vpd) {
        return 0; /* an attribute less */
    }
    size_t len = read_file(dir, "vpd", vpd, VPD_MAX_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[ATTRIBUTE_TEXT_BYTES];
        if (vpd_find(vpd, len, rows[i].keyword, text, sizeof(text))) {
            int rc = attribute_list_set_text(out, rows[i].attribute, text, e);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

/* From ".../devices/pci0000:00/0000:00:01.0/0000:03:00.0". */
static int add_addresses(const char *dir, struct attribute_list *out, struct err *e)
{
    char root[ATTRIBUTE_TEXT_BYTES];
    const char *address = strrchr(dir, '/') + 1;
    const char *first = strstr(dir, "/pci");
    int rc = attribute_list_set_text(out, "resource.kubernetes.io/pciBusID", address, e);
    if (rc != 0 || !first) {
        return rc;
    }
    text_sanitize(root, sizeof(root), first + 1, strcspn(first + 1, "/"));
    return attribute_list_set_text(out, "resource.kubernetes.io/pcieRoot", root, e);
}

int host_device_describe(const char *sysfs_root, const char *netdev, struct attribute_list *out,
                         struct err *e)
{
    char link[SYSFS_PATH_BYTES];
    char dir[PATH_MAX];
    size_t len = strlen(netdev);
    if (len == 0 || len > NETDEV_MAX_BYTES || strchr(netdev, '/') || netdev[0] == '.') {
        return err_set(e, ERR_PARSE, "that is not the name of a network device");
    }
    if (snprintf(link, sizeof(link), "%s/class/net/%s/device", sysfs_root, netdev) >=
            (int)sizeof(link) ||
        !realpath(link, dir)) {
        return err_set_errno(e, ERR_NOTFOUND, errno,
                             "network device '%s' has no hardware behind it", netdev);
    }
    if (!text_is_pci_address(strrchr(dir, '/') + 1)) {
        return err_set(e, ERR_NOTFOUND, "network device '%s' is not on PCI but at '%s'", netdev,
                       dir);
    }
    int rc = add_addresses(dir, out, e);
    if (rc == 0) {
        rc = add_line(dir, "vendor", "vendorID", out, e);
    }
    if (rc == 0) {
        rc = add_line(dir, "device", "deviceID", out, e);
    }
    if (rc == 0) {
        rc = add_driver(dir, out, e);
    }
    if (rc != 0) {
        return rc;
    }
    return add_vpd(dir, out, e);
}
