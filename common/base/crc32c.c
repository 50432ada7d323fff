/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

uint32_t crc32c_compute(const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint32_t crc = UINT32_MAX;
    /* Bit by bit: a record is one page, and a table would cost the CNI binary more to load. */
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) ? UINT32_C(0x82f63b78) : 0);
        }
    }
    return ~crc;
}
