/* SPDX-License-Identifier: Apache-2.0 */
/* Vital product data of a PCI device (PCI 3.0, appendix I), as sysfs shows it. Pure. */
#ifndef DRA_VPD_H
#define DRA_VPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds a keyword of the read-only part ("SN" serial number, "PN" part number) and copies its text
 * without the padding, sanitized. Returns false, and leaves `out` alone, if there is none. */
bool vpd_find(const uint8_t *vpd, size_t len, const char keyword[static 2], char *out,
              size_t out_bytes);

#endif
