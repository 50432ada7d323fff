/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/version_number.h"

#include "base/text.h"

#include <string.h>

enum { PARTS = 3, PART_DIGITS = 5, PART_LIMIT = 100000 };

int64_t version_number(const char *text)
{
    int64_t number = 0;
    const char *at = text && text[0] == 'v' ? text + 1 : text;
    if (!text) {
        return 0;
    }
    for (int part = 1; part <= PARTS; part++) {
        uint64_t value;
        size_t digits = strspn(at, "0123456789");
        if (digits > PART_DIGITS || text_to_u64(at, digits, &value, NULL) != 0 ||
            (part < PARTS && at[digits] != '.')) {
            return 0;
        }
        number = number * PART_LIMIT + (int64_t)value;
        at += digits + 1; /* past the dot; after the third part nothing is read */
    }
    return number;
}
