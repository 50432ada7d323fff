/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/conflist.h"

#include "base/text.h"
#include "tests/support/case.h"

#define HEAD                                                                                       \
    "{\n  \"cniVersion\": \"1.0.0\",\n  \"cniVersions\": [\"1.0.0\", \"1.1.0\"],\n  \"name\": "
#define TAIL "\n  ]\n}\n"

TEST(source_gives_plan)
{
    static const struct {
        const char *source;
        const char *plan;
    } rows[] = {
        {NULL, HEAD "\"ovn-kubernetes\",\n  \"plugins\": [\n"
                    "    {\"type\": \"dpu-gate\", \"delegateConf\": \"/c/10.conf\"}" TAIL},
        {"{\"name\":\"a\\\"b\",\"type\":\"t\",\"own\":1.0}", HEAD
         "\"a\\\"b\",\n  \"plugins\": [\n"
         "    {\"type\": \"dpu-gate\", \"delegateConf\": \"/c/10.conf\",\n     \"lastDelegate\": "
         "{\"name\":\"a\\\"b\",\"type\":\"t\",\"own\":1.0}}" TAIL},
        {"{\"name\":\"n\",\"type\":\"t\",\"capabilities\":{\"b\":true,\"a\":false}}",
         HEAD "\"n\",\n  \"plugins\": [\n"
              "    {\"type\": \"dpu-gate\", \"delegateConf\": \"/c/10.conf\", "
              "\"capabilities\": {\"b\":true,\"a\":false},\n     \"lastDelegate\": {\"name\":\"n\","
              "\"type\":\"t\",\"capabilities\":{\"b\":true,\"a\":false}}}" TAIL},
        {"{\"plugins\":[{\"type\":\"t\"}],\"name\":\"n\",\"disableGC\" :true ,\"x\":1e3}",
         HEAD "\"n\",\n  \"disableGC\": true,\n  \"x\": 1e3,\n  \"plugins\": [\n"
              "    {\"type\": \"dpu-gate\", \"delegateConf\": \"/c/10.conf\","
              "\n     \"lastDelegate\": {\"type\":\"t\"}}" TAIL},
        {"{\"name\":\"n\",\"plugins\":[ {\"type\":\"a\", \"v\":1.50} ,{\"type\":\"b\"}]}",
         HEAD "\"n\",\n  \"plugins\": [\n    {\"type\": \"dpu-gate\"},\n"
              "    {\"type\":\"a\", \"v\":1.50},\n    {\"type\":\"b\"}" TAIL},
        /* Of a key that is there twice the last one counts, as in Go. */
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"}],\"x\":1,\"plugins\":[{\"type\":\"b\"},"
         "{\"type\":\"c\"}],\"x\":2}",
         HEAD "\"n\",\n  \"x\": 1,\n  \"x\": 2,\n  \"plugins\": [\n    {\"type\": \"dpu-gate\"},\n"
              "    {\"type\":\"b\"},\n    {\"type\":\"c\"}" TAIL},
        /* What only Go can read goes on as it stands. */
        {"{\"name\":\"n\",\"x\":\"\\u0000\\ud800\xff\",\"plugins\":[{\"type\":\"a\",\"v\":"
         "123456789012345678901234567890},{\"Type\":\"b\",\"w\":1e999}]}",
         HEAD "\"n\",\n  \"x\": \"\\u0000\\ud800\xff\",\n  \"plugins\": [\n"
              "    {\"type\": \"dpu-gate\"},\n"
              "    {\"type\":\"a\",\"v\":123456789012345678901234567890},\n"
              "    {\"Type\":\"b\",\"w\":1e999}" TAIL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct conflist_request r = {.source_path = "/c/10.conf",
                                     .readiness_file = "/run/dpu-heartbeat/readiness.json"};
        struct buf out = {.max_bytes = 4096};
        struct buf again = {.max_bytes = 4096};
        struct err e = ERR_INIT;
        size_t len = rows[i].source ? strlen(rows[i].source) : 0;
        assert_int_equal(conflist_plan(rows[i].source, len, &r, &out, &e), 0);
        assert_string_equal(buf_text(&out), rows[i].plan);
        assert_true(conflist_is_gated(buf_text(&out), out.len));
        r.standing = buf_text(&out);
        r.standing_len = out.len;
        assert_int_equal(conflist_plan(NULL, 0, &r, &again, &e), 0); /* the source is gone */
        assert_int_equal(text_equal(buf_text(&again), rows[i].plan),
                         strstr(rows[i].plan, "delegateConf") != NULL);
        buf_fini(&again);
        buf_fini(&out);
    }
}

TEST(source_that_makes_no_sense_is_refused)
{
    static const struct {
        const char *source;
        const char *words;
    } rows[] = {
        {"", ""},
        {"{", ""},
        {"[]", "not a JSON object"},
        {"{\"type\":\"t\"}", "names no network"},
        {"{\"name\":\"n\"}", "neither type nor plugins"},
        {"{\"name\":\"n\",\"plugins\":[]}", "not a list"},
        {"{\"name\":\"n\",\"plugins\":[{}]}", "has no type"},
        {"{\"name\":\"n\",\"type\":\"dpu-gate\"}", "already"},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"t\"},{\"type\":\"dpu-gate\"}]}", "already"},
    };
    const struct conflist_request r = {.source_path = "/c/10.conf",
                                       .readiness_file = "/run/r.json"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out = {.max_bytes = 4096};
        struct err e = ERR_INIT;
        print_message("%s\n", rows[i].source);
        assert_int_equal(conflist_plan(rows[i].source, strlen(rows[i].source), &r, &out, &e),
                         ERR_PARSE);
        assert_non_null(strstr(e.msg, rows[i].words));
        assert_int_equal(out.len, 0);
        buf_fini(&out);
    }
}

/* What stands there is replaced by one that waits for its source. */
TEST(without_a_source_the_last_delegate_is_kept)
{
    static const struct {
        const char *standing;
        const char *network;
        const char *last; /* NULL: none */
    } rows[] = {
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\",\"delegateConf\":\"/c/1.conf\","
         "\"lastDelegate\":{\"type\":\"t\", \"v\":1.50}}]}",
         "\"n\"", "{\"type\":\"t\", \"v\":1.50}"},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\"},{\"type\":\"a\",\"v\":1e3},"
         "{\"type\":\"b\"}]}",
         "\"n\"", "{\"plugins\": [{\"type\":\"a\",\"v\":1e3}, {\"type\":\"b\"}]}"},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\",\"delegateConf\":\"/c/1.conf\"}]}",
         "\"n\"", NULL},
        {"{\"name\":\"\",\"type\":\"dpu-gate\"}", "\"ovn-kubernetes\"", NULL},
        {"{\"name\":3}", "\"ovn-kubernetes\"", NULL},
        {"{", "\"ovn-kubernetes\"", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char wanted[400];
        struct buf out = {.max_bytes = 4096};
        struct err e = ERR_INIT;
        const struct conflist_request r = {.source_path = "/c/10.conf",
                                           .standing = rows[i].standing,
                                           .standing_len = strlen(rows[i].standing),
                                           .readiness_file = "/run/dpu-heartbeat/readiness.json"};
        (void)snprintf(wanted, sizeof(wanted),
                       HEAD "%s,\n  \"plugins\": [\n    {\"type\": \"dpu-gate\", \"delegateConf\": "
                            "\"/c/10.conf\"%s%s}" TAIL,
                       rows[i].network, rows[i].last ? ",\n     \"lastDelegate\": " : "",
                       rows[i].last ? rows[i].last : "");
        assert_int_equal(conflist_plan(NULL, 0, &r, &out, &e), 0);
        assert_string_equal(buf_text(&out), wanted);
        buf_fini(&out);
    }
}

TEST(a_copy_that_is_too_deep_for_any_reader_is_refused)
{
    static char source[20100] = "{\"name\":\"n\",\"type\":\"t\",\"x\":";
    const struct conflist_request r = {.source_path = "/c/10.conf",
                                       .readiness_file = "/run/r.json"};
    struct buf out = {.max_bytes = 1 << 20};
    struct err e = ERR_INIT;
    size_t used = strlen(source);
    memset(source + used, '[', 9998);
    memset(source + used + 9998, ']', 9998);
    source[used + 2 * 9998] = '}';
    assert_int_equal(conflist_plan(source, strlen(source), &r, &out, &e), ERR_LIMIT);
    buf_fini(&out);
}

TEST(what_stands_tells_whether_it_is_gated)
{
    static const struct {
        const char *text;
        bool is_gated;
    } rows[] = {
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\"}]}", true},
        {"{\"plugins\":[{\"type\":\"dpu-gate\"},{\"type\":\"x\"}]}", true},
        {"{\"type\":\"dpu-gate\"}", true},
        {"{\"plugins\":[{\"type\":\"x\"},{\"type\":\"dpu-gate\"}]}", false},
        {"{\"plugins\":[]}", false},
        {"{\"plugins\":3}", false},
        {"[]", false},
        {"", false},
        {"{", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(conflist_is_gated(rows[i].text, strlen(rows[i].text)), rows[i].is_gated);
    }
}

TEST(a_path_that_json_cannot_hold_is_named)
{
    struct conflist_request r = {.source_path = "/c\xff/10.conf", .readiness_file = "/run/r.json"};
    struct buf out = {.max_bytes = 4096};
    struct err e = ERR_INIT;
    assert_int_equal(conflist_plan(NULL, 0, &r, &out, &e), ERR_PARSE);
    assert_non_null(strstr(e.msg, "'/c?/10.conf'"));
    buf_fini(&out);
}
