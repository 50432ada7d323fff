/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"
#include "base/text.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* RFC 3720, appendix B.4. */
TEST(the_vectors_of_rfc_3720_hold)
{
    uint8_t zeros[32] = {0};
    uint8_t ones[32];
    uint8_t rising[32];
    uint8_t falling[32];
    for (uint8_t i = 0; i < 32; i++) {
        ones[i] = 0xff;
        rising[i] = i;
        falling[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc32c_compute(zeros, 32), 0x8a9136aa);
    assert_int_equal(crc32c_compute(ones, 32), 0x62a8ab43);
    assert_int_equal(crc32c_compute(rising, 32), 0x46dd794e);
    assert_int_equal(crc32c_compute(falling, 32), 0x113fdb5c);
    assert_int_equal(crc32c_compute("123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_compute("", 0), 0);
}

TEST(a_flipped_bit_is_noticed)
{
    char page[512];
    memset(page, 'x', sizeof(page));
    uint32_t before = crc32c_compute(page, sizeof(page));
    for (size_t bit = 0; bit < sizeof(page) * 8; bit += 7) {
        page[bit / 8] = (char)(page[bit / 8] ^ (1 << bit % 8));
        assert_int_not_equal(crc32c_compute(page, sizeof(page)), before);
        page[bit / 8] = (char)(page[bit / 8] ^ (1 << bit % 8));
    }
}
