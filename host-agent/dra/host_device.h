/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host's kernel knows of the DPU behind a network device: attributes for claims to select
 * by. Read once at start, from sysfs.
 */
#ifndef DRA_HOST_DEVICE_H
#define DRA_HOST_DEVICE_H

#include "base/attr.h"
#include "base/err.h"
#include "host-agent/dra/attribute.h"

/*
 * Adds those of resource.kubernetes.io/pciBusID, resource.kubernetes.io/pcieRoot, vendorID,
 * deviceID, driver, serial and partNumber that exist. `sysfs_root` is "/sys". Errors: ERR_PARSE (no
 * such name is possible), ERR_NOTFOUND (no such device, or not on PCI), ERR_LIMIT.
 */
NODISCARD int host_device_describe(const char *sysfs_root, const char *netdev,
                                   struct attribute_list *out, struct err *e);

#endif
