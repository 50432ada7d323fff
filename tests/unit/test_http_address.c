/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

TEST(address_is_taken_apart)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
    } rows[] = {
        {"127.0.0.1:9410", "127.0.0.1", 9410},     {"[::1]:9410", "::1", 9410},
        {"[fe80::1%eth0]:80", "fe80::1%eth0", 80}, {":9410", "", 9410},
        {"127.0.0.1:0", "127.0.0.1", 0},           {"127.0.0.1:65535", "127.0.0.1", 65535},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct text_address address;
        assert_int_equal(text_to_address(rows[i].text, &address, NULL), 0);
        assert_string_equal(address.host, rows[i].host);
        assert_int_equal(address.port, rows[i].port);
    }
}

TEST(what_is_no_address_is_named_in_the_error)
{
    static const char *const rows[] = {
        "",           "nonsense",       "9410",           "127.0.0.1", "127.0.0.1:",
        "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:-1",   "::1",       "::1:9410",
        "[::1]",      "[::1]9410",      "[127.0.0.1]:80", "[]:80",     "[[::1]]:80",
        "x:65536",    "x:000080",       "x:80 ",          "a]:80",     "[a:80",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        struct text_address address;
        assert_int_equal(text_to_address(rows[i], &address, &e), ERR_PARSE);
        assert_non_null(strstr(e.msg, rows[i]));
        assert_non_null(strstr(e.msg, "HOST:PORT"));
    }
}

TEST(host_that_does_not_fit_is_refused)
{
    char text[TEXT_HOST_BYTES + 8];
    struct text_address address;
    memset(text, 'a', sizeof(text));
    memcpy(text + TEXT_HOST_BYTES - 1, ":80", 4);
    assert_int_equal(text_to_address(text, &address, NULL), 0);
    assert_int_equal(strlen(address.host), TEXT_HOST_BYTES - 1);
    memset(text, 'a', sizeof(text));
    memcpy(text + TEXT_HOST_BYTES, ":80", 4);
    assert_int_equal(text_to_address(text, &address, NULL), ERR_PARSE);
}
