/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_conf.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEADER    "eyJhbGciOiJub25lIn0." /* {"alg":"none"} */
#define SIGNATURE ".c2ln"

/* openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 */
static const char certificate[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBcjCCARegAwIBAgIUSP+DhFvaBNes2JaJZ4LQNREknCAwCgYIKoZIzj0EAwIw\n"
    "DjEMMAoGA1UEAwwDZHB1MB4XDTI2MTEyMTA4MzYyMVoXDTI3MTEyMTA4MzYyMVow\n"
    "DjEMMAoGA1UEAwwDZHB1MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEecqZXKYZ\n"
    "lCuN0MTZaGKkAH2Yoa/9ZYg5teSZZuxs/OExb/PnbYL+wvKuzwTzibby98Pl87JQ\n"
    "hW9pcP9smZ8HBqNTMFEwHQYDVR0OBBYEFFN5NxWoSLlCPQ4VkujbwpjmPFP9MB8G\n"
    "A1UdIwQYMBaAFFN5NxWoSLlCPQ4VkujbwpjmPFP9MA8GA1UdEwEB/wQFMAMBAf8w\n"
    "CgYIKoZIzj0EAwIDSQAwRgIhAPTpYhJN+KwYho/ukBpMyq3G31qvI6aBc/6rPyEl\n"
    "MN76AiEAwD2v8RlFbCpAgFoYbCY36dyBKus/Ne8g3qqTL6o3qIc=\n"
    "-----END CERTIFICATE-----\n";

static void a_token_says_when(void **state)
{
    static const struct {
        const char *claims;
        const char *why_not; /* NULL: 1000 to 2000 */
    } rows[] = {
        {"eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0", NULL},
        {"eyJpYXQiOjEwMDAsImV4cCI6MjAwMCwiYSI6Ij8ifQ", NULL},
        {"eyJpYXQiOjEwMDAsImV4cCI6MjAwMCwiYWEiOiI-PiJ9", NULL}, /* of base64url only */
        {"eyJpYXQiOjEwMDB9", "no exp"},
        {"eyJpYXQiOjIwMDAsImV4cCI6MTAwMH0", "over before it began"},
        {"eyJpYXQiOiIxIiwiZXhwIjo1fQ", "iat is text"},
        {"eyJpYXQiOi0xLCJleHAiOjV9", "before 1970"},
        {"eyJpYXQiOjI1MzQwMjMwMDc5OCwiZXhwIjoyNTM0MDIzMDA3OTl9", "only in the year 9999"},
        {"W10", "a list"},
        {"eyJpYXQiOjEwMDAsImV4cCI6MjAwMH", "cut"},
        {"eyJpY#QiOjEwMDAsImV4cCI6MjAwMH0", "no base64"},
        {"e", "a lone character"},
        {"", "nothing"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char token[256];
        struct kube_expiry seen = {.from = {0}};
        (void)snprintf(token, sizeof(token), HEADER "%s" SIGNATURE, rows[i].claims);
        bool known = kube_expiry_of_token(token, strlen(token), &seen);
        assert_true(known == (rows[i].why_not == NULL));
        assert_true(seen.from.ns == (known ? 1000 * NS_PER_SEC : 0));
        assert_true(seen.until.ns == (known ? 2000 * NS_PER_SEC : 0));
    }
}

static void other_tokens_do_not_tell(void **state)
{
    static const char *const rows[] = {"",
                                       ".",
                                       "..",
                                       "...",
                                       "opaque",
                                       "a.b",
                                       HEADER "eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0" SIGNATURE ".more"};
    static char huge[1 << 16];
    struct kube_expiry seen;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_false(kube_expiry_of_token(rows[i], strlen(rows[i]), &seen));
    }
    memset(huge, 'A', sizeof(huge));
    huge[10] = '.';
    huge[sizeof(huge) - 10] = '.';
    assert_false(kube_expiry_of_token(huge, sizeof(huge), &seen));
}

static void the_far_future_is_2262(void **state)
{
    static const char token[] = HEADER "eyJpYXQiOjEsImV4cCI6MTAwMDAwMDAwMDAwMDAwMDAwMH0" SIGNATURE;
    struct kube_expiry seen;
    (void)state;
    assert_true(kube_expiry_of_token(token, strlen(token), &seen));
    assert_true(seen.from.ns == NS_PER_SEC && seen.until.ns / NS_PER_SEC == 9223372036);
}

static void a_certificate_says_when(void **state)
{
    struct kube_expiry seen;
    size_t len = strlen(certificate);
    (void)state;
    assert_true(kube_expiry_of_certificate(certificate, len, &seen));
    assert_true(seen.from.ns == 1795250181 * NS_PER_SEC);
    assert_true(seen.until.ns == 1826786181 * NS_PER_SEC);
    for (size_t cut = 0; cut + 8 < len; cut++) { /* without the end of its last line */
        assert_false(kube_expiry_of_certificate(certificate, cut, &seen));
    }
}

static void near_is_the_last_tenth(void **state)
{
    const struct kube_expiry expiry = {{0}, {100 * NS_PER_SEC}};
    (void)state;
    assert_false(kube_expiry_is_near(&expiry, (struct wall){0}));
    assert_false(kube_expiry_is_near(&expiry, (struct wall){90 * NS_PER_SEC - 1}));
    assert_true(kube_expiry_is_near(&expiry, (struct wall){90 * NS_PER_SEC}));
    assert_true(kube_expiry_is_near(&expiry, (struct wall){1000 * NS_PER_SEC}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_says_when),      cmocka_unit_test(other_tokens_do_not_tell),
        cmocka_unit_test(the_far_future_is_2262), cmocka_unit_test(a_certificate_says_when),
        cmocka_unit_test(near_is_the_last_tenth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
