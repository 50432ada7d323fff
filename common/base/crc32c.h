/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), RFC 3720 appendix B.4: guards the readiness record against torn reads. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c_compute(const void *data, size_t len);

#endif
