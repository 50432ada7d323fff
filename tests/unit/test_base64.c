/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void both_alphabets_are_read_or_refused(void **state)
{
    static const struct {
        enum base64_kind kind;
        const char *in;
        const char *out; /* NULL: refused */
    } rows[] = {
        {BASE64_STANDARD, "", ""},
        {BASE64_STANDARD, "Zg==", "f"},
        {BASE64_STANDARD, "Zg", "f"},
        {BASE64_STANDARD, "YmE=", "ba"},
        {BASE64_STANDARD, "Zm9v", "foo"},
        {BASE64_STANDARD, "Zm9v\n YmE=\n", "fooba"},
        {BASE64_STANDARD, "+/8=", "\xfb\xff"},
        {BASE64_STANDARD, "-_8=", NULL},
        {BASE64_STANDARD, "Z", NULL},
        {BASE64_STANDARD, "Zg==Zg==", NULL},
        {BASE64_STANDARD, "Zm9v\t", NULL},
        {BASE64_URL, "Zm9vYg", "foob"},
        {BASE64_URL, "-_8", "\xfb\xff"},
        {BASE64_URL, "+/8", NULL},
        {BASE64_URL, "Zg==", NULL},
        {BASE64_URL, "Zm9vY", NULL},
        {BASE64_URL, "Zm 9v", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char out[BASE64_DECODED_BYTES(32)];
        size_t len = 0;
        bool read = base64_decode(rows[i].kind, rows[i].in, strlen(rows[i].in), out, &len);
        assert_int_equal(read, rows[i].out != NULL);
        if (rows[i].out) {
            assert_int_equal(len, strlen(rows[i].out));
            assert_memory_equal(out, rows[i].out, len);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_alphabets_are_read_or_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
