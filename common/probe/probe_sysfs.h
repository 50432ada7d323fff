/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks whether the kernel has a network interface, with a carrier if that is asked for, or a PCI
 * function: state from sysfs. Whoever cannot look has not seen that something is missing: that is
 * PROBE_DENIED.
 */
#ifndef PROBE_PROBE_SYSFS_H
#define PROBE_PROBE_SYSFS_H

#include "probe/probe_method.h"

/* Both static: live as long as the program. */
const struct probe_method *probe_netdev_method(void);
const struct probe_method *probe_pci_method(void);

#endif
