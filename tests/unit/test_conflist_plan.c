/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/cni/conflist_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HEAD                                                                                       \
    "{\n  \"cniVersion\": \"1.0.0\",\n  \"cniVersions\": [\"1.0.0\", \"1.1.0\"],\n  \"name\": "
#define TAIL "\n  ]\n}\n"

static void source_gives_plan(void **state)
{
    static const struct {
        const char *source;
        const char *plan;
    } rows[] = {
        {NULL, HEAD "\"net\",\n  \"plugins\": [\n"
                    "    {\"type\": \"dpu-gate\", \"delegateConf\": \"/c/10.conf\"}" TAIL},
        {"{\"name\":\"a\\\"b\",\"type\":\"t\",\"own\":1.0}",
         HEAD "\"a\\\"b\",\n  \"plugins\": [\n"
              "    {\"type\": \"dpu-gate\", \"delegateConf\": \"/c/10.conf\"}" TAIL},
        {"{\"name\":\"n\",\"type\":\"t\",\"capabilities\":{\"b\":true,\"a\":false}}",
         HEAD "\"n\",\n  \"plugins\": [\n"
              "    {\"type\": \"dpu-gate\", \"delegateConf\": \"/c/10.conf\", "
              "\"capabilities\": {\"b\": true, \"a\": false}}" TAIL},
        {"{\"plugins\":[{\"type\":\"t\"}],\"name\":\"n\",\"disableGC\" :true ,\"x\":1e3}",
         HEAD "\"n\",\n  \"disableGC\": true,\n  \"x\": 1e3,\n  \"plugins\": [\n"
              "    {\"type\": \"dpu-gate\", \"delegateConf\": \"/c/10.conf\"}" TAIL},
        {"{\"name\":\"n\",\"plugins\":[ {\"type\":\"a\", \"v\":1.50} ,{\"type\":\"b\"}]}",
         HEAD "\"n\",\n  \"plugins\": [\n    {\"type\": \"dpu-gate\"},\n"
              "    {\"type\":\"a\", \"v\":1.50},\n    {\"type\":\"b\"}" TAIL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct conflist_request r = {.source_path = "/c/10.conf",
                                           .network = "net",
                                           .readiness_file = "/run/dpu-heartbeat/readiness.json"};
        struct buf out;
        struct err e = ERR_INIT;
        buf_init(&out, 4096);
        size_t len = rows[i].source ? strlen(rows[i].source) : 0;
        assert_int_equal(conflist_plan(rows[i].source, len, &r, &out, &e), 0);
        assert_string_equal(buf_text(&out), rows[i].plan);
        assert_true(conflist_is_gated(buf_text(&out), out.len));
        buf_fini(&out);
    }
}

static void only_a_first_plugin_gates(void **state)
{
    static const struct {
        const char *text;
        bool is_gated;
    } rows[] = {
        {"{\"plugins\":[{\"type\":\"dpu-gate\"},{\"type\":\"x\"}]}", true},
        {"{\"type\":\"dpu-gate\"}", true},
        {"{\"plugins\":[{\"type\":\"x\"},{\"type\":\"dpu-gate\"}]}", false},
        {"{\"plugins\":[]}", false},
        {"{\"plugins\":3}", false},
        {"[]", false},
        {"", false},
        {"{", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(conflist_is_gated(rows[i].text, strlen(rows[i].text)), rows[i].is_gated);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_gives_plan),
        cmocka_unit_test(only_a_first_plugin_gates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
