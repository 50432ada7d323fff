/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim.h"

#include "base/json_text.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct claim_ref REF = {.ns = "default", .uid = "uid-1", .name = "claim-1"};
static const struct claim_target TARGET = {
    .driver = "dpu.example.com", .pool = "node1", .device = "dpu0"};

#define RESULT(request, driver, pool, device, more)                                                \
    "{\"request\":\"" request "\",\"driver\":\"" driver "\",\"pool\":\"" pool                      \
    "\",\"device\":\"" device "\"" more "}"
#define OURS(request, more) RESULT(request, "dpu.example.com", "node1", "dpu0", more)
#define CLAIM(results)                                                                             \
    "{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"},\"status\":{\"allocation\":"     \
    "{\"devices\":{\"results\":[" results "]}}}}"

static int read_text(const char *text, struct claim_allocation *out, struct err *e)
{
    CLEANUP(json) json_t *json = json_text_parse(text, strlen(text), 1 << 20, NULL);
    assert_non_null(json);
    return claim_read(json, &REF, &TARGET, out, e);
}

static void results_of_our_driver_are_taken(void **state)
{
    (void)state;
    struct claim_allocation a;
    assert_int_equal(
        read_text(CLAIM(OURS("dpu", ",\"shareID\":\"s-1\"") "," RESULT(
                      "gpu", "gpu.example.com", "x", "gpu7", "") "," OURS("other/sub", "")),
                  &a, NULL),
        0);
    assert_int_equal(a.count, 2);
    assert_string_equal(a.shares[0].request, "dpu");
    assert_string_equal(a.shares[0].share_id, "s-1");
    assert_string_equal(a.shares[1].request, "other"); /* base name */
    assert_string_equal(a.shares[1].share_id, "");
}

static void claims_that_do_not_fit_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        const char *words;
    } rows[] = {
        {"{}", ERR_PARSE, "no ResourceClaim"},
        {"[]", ERR_PARSE, "no ResourceClaim"},
        {"{\"kind\":\"Status\",\"metadata\":{\"uid\":\"uid-1\"}}", ERR_PARSE, "no ResourceClaim"},
        {"{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-2\"}}", ERR_GONE, "replaced"},
        {"{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"}}", ERR_RETRY,
         "not allocated"},
        {"{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"},\"status\":{}}", ERR_RETRY,
         "not allocated"},
        {CLAIM(""), ERR_NOTFOUND, "nothing allocated"},
        {CLAIM(RESULT("r", "gpu.example.com", "node1", "dpu0", "")), ERR_NOTFOUND,
         "nothing allocated"},
        {CLAIM(RESULT("r", "dpu.example.com", "node2", "dpu0", "")), ERR_CONFLICT, "'node2/dpu0'"},
        {CLAIM(RESULT("r", "dpu.example.com", "node1", "dpu1", "")), ERR_CONFLICT, "'node1/dpu1'"},
        {CLAIM("{\"driver\":\"dpu.example.com\"}"), ERR_CONFLICT, "not on this node"},
        {CLAIM("1,null,\"x\""), ERR_NOTFOUND, "nothing allocated"},
        {CLAIM(OURS("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "")),
         ERR_LIMIT, "more than 63 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct claim_allocation a = {.count = 99};
        struct err e = ERR_INIT;
        assert_int_equal(read_text(rows[i].text, &a, &e), rows[i].rc);
        assert_non_null(strstr(e.msg, rows[i].words));
        assert_int_equal(a.count, 99); /* untouched */
    }
}

static void results_are_bounded(void **state)
{
    (void)state;
    char text[8192] = "{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"},\"status\":"
                      "{\"allocation\":{\"devices\":{\"results\":[";
    for (int i = 0; i <= CLAIM_RESULTS_MAX; i++) {
        (void)strcat(strcat(text, i ? "," : ""), OURS("r", ""));
    }
    (void)strcat(text, "]}}}}");
    struct claim_allocation a;
    assert_int_equal(read_text(text, &a, NULL), ERR_LIMIT);
}

static void reference_that_is_no_name_is_refused(void **state)
{
    (void)state;
    static const struct claim_ref rows[] = {
        {.ns = "", .uid = "u", .name = "n"},       {.ns = "ns", .uid = "u", .name = ""},
        {.ns = "ns", .uid = "", .name = "n"},      {.ns = "a/../b", .uid = "u", .name = "n"},
        {.ns = "ns", .uid = "u", .name = "n?x=y"}, {.ns = "ns", .uid = "u", .name = "%2e"},
        {.ns = "ns", .uid = "u", .name = "Upper"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(claim_ref_check(&rows[i], NULL), ERR_PARSE);
    }
    assert_int_equal(claim_ref_check(&REF, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_of_our_driver_are_taken),
        cmocka_unit_test(claims_that_do_not_fit_are_told_apart),
        cmocka_unit_test(results_are_bounded),
        cmocka_unit_test(reference_that_is_no_name_is_refused),
    };
    return cmocka_run_group_tests_name("dra_claim", tests, NULL, NULL);
}
