/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/conflist.h"

#include "base/json.h"
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
        {"{\"name\":\"n\",\"plugins\":[ {\"type\":\"a\", \"v\":1.50} ,{\"type\":\"b\"}]}", HEAD
         "\"n\",\n  \"plugins\": [\n    {\"type\": \"dpu-gate\", \"chained\": [\"a\", \"b\"]},\n"
         "    {\"type\":\"a\", \"v\":1.50},\n    {\"type\":\"b\"}" TAIL},
        /* Of a key that is there twice the last one counts, as in Go. */
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"}],\"x\":1,\"plugins\":[{\"type\":\"b\"},"
         "{\"type\":\"c\"}],\"x\":2}",
         HEAD "\"n\",\n  \"x\": 1,\n  \"x\": 2,\n  \"plugins\": [\n    {\"type\": \"dpu-gate\", "
              "\"chained\": [\"b\", \"c\"]},\n    {\"type\":\"b\"},\n    {\"type\":\"c\"}" TAIL},
        /* What only Go can read goes on as it stands. */
        {"{\"name\":\"n\",\"x\":\"\\u0000\\ud800\xff\",\"plugins\":[{\"type\":\"a\",\"v\":"
         "123456789012345678901234567890},{\"Type\":\"b\",\"w\":1e999}]}",
         HEAD "\"n\",\n  \"x\": \"\\u0000\\ud800\xff\",\n  \"plugins\": [\n"
              "    {\"type\": \"dpu-gate\", \"chained\": [\"a\", \"b\"]},\n"
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
        {"{\"name\":\"\",\"plugins\":[{\"type\":\"dpu-gate\"}]}", "\"ovn-kubernetes\"", NULL},
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

#define CONF "{\n  \"cniVersion\": \"1.1.0\",\n  \"name\": "

static void plan_of(const char *source, const char *standing, bool wants_list, struct buf *out)
{
    struct err e = ERR_INIT;
    const struct conflist_request r = {.source_path = "/c/10.conf",
                                       .standing = standing,
                                       .standing_len = standing ? strlen(standing) : 0,
                                       .readiness_file = "/run/dpu-heartbeat/readiness.json",
                                       .wants_list = wants_list};
    *out = (struct buf){.max_bytes = 4096};
    assert_int_equal(conflist_plan(source, source ? strlen(source) : 0, &r, out, &e), 0);
    assert_true(conflist_is_gated(buf_text(out), out->len));
}

/* Multus passes a .conf on whole; containerd 1.7 can only use a list. */
TEST(one_plugin_of_1_1_0_gives_a_conf)
{
    static const char plugin[] =
        "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"type\":\"t\",\"capabilities\":{\"ips\":true}}";
    static const struct {
        const char *source;
        const char *standing;
        bool wants_list;
        bool is_list;
    } rows[] = {
        {plugin, NULL, false, false},
        {plugin, NULL, true, true},
        {"{\"CNIVersion\":\"1.1.0\",\"name\":\"n\",\"type\":\"t\"}", NULL, false, false},
        {"{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"t\"}]}", NULL, false,
         false},
        {"{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"disableGC\":true,\"plugins\":[{\"type\":\"t\"}"
         "]}",
         NULL, false, true},
        {"{\"cniVersion\":\"1.1.0\",\"cniVersions\":[\"1.0.0\"],\"name\":\"n\",\"plugins\":["
         "{\"type\":\"t\"}]}",
         NULL, false, true},
        {"{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"t\"},{\"type\":\"u\"}]"
         "}",
         NULL, false, true},
        {"{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"type\":\"t\"}", NULL, false, true},
        {"{\"name\":\"n\",\"type\":\"t\"}", NULL, false, true},
        {NULL, NULL, false, true},
        {NULL, CONF "\"n\",\"type\":\"dpu-gate\"}", false, false},
        {NULL, CONF "\"n\",\"type\":\"dpu-gate\"}", true, true},
        {NULL, "{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\"}]}", false, true},
    };
    struct buf out;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        print_message("%s\n", rows[i].source ? rows[i].source : "no source");
        plan_of(rows[i].source, rows[i].standing, rows[i].wants_list, &out);
        assert_int_equal(conflist_is_list(buf_text(&out), out.len), rows[i].is_list);
        buf_fini(&out);
    }
    plan_of(plugin, NULL, false, &out);
    assert_string_equal(buf_text(&out),
                        CONF "\"n\",\n  \"type\": \"dpu-gate\", \"delegateConf\": \"/c/10.conf\", "
                             "\"capabilities\": {\"ips\":true},\n     \"lastDelegate\": "
                             "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"type\":\"t\","
                             "\"capabilities\":{\"ips\":true}}\n}\n");
    struct buf again;
    plan_of(NULL, buf_text(&out), false, &again); /* the source is gone */
    assert_string_equal(buf_text(&again), buf_text(&out));
    buf_fini(&again);
    buf_fini(&out);
}

/* Each by what is behind the gate then. */
TEST(what_others_added_stays_and_what_the_source_dropped_goes)
{
    static const char one[] = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"type\":\"t\"}";
    static const char two[] = "{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"},{\"type\":\"b\"}]}";
#define GATE(members, behind)                                                                      \
    "{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\"" members "}" behind "]}"
#define WRAPS      ",\"delegateConf\":\"/c/10.conf\""
#define CHAINS(of) ",\"chained\":[" of "]"
#define P(type)    ",{\"type\":\"" type "\"}"
    static const struct {
        const char *source;
        const char *standing;
        const char *behind; /* the types, each after a blank */
    } rows[] = {
        {one, GATE(WRAPS, P("mesh")), " mesh"},
        {one, GATE(WRAPS, P("mesh") P("other")), " mesh other"},
        {one, GATE(WRAPS, P("dpu-gate")), ""},
        {one, GATE(CHAINS("\"a\", \"b\""), P("a") P("b") P("mesh")), " mesh"},
        {two, GATE(WRAPS, P("mesh")), " a b mesh"},
        {two, GATE(WRAPS, P("b")), " a b"}, /* the source brings it itself by now */
        {two, GATE(CHAINS("\"a\", \"b\""), P("a") P("b") P("mesh")), " a b mesh"},
        {two, GATE(CHAINS("\"a\", \"c\""), P("a") P("c") P("mesh")), " a b mesh"},
        {two, GATE(CHAINS("\"a\", \"c\""), P("mesh") P("a") P("c") P("last")), " a b mesh last"},
        {two, GATE(CHAINS("\"c\""), P("c") P("c")), " a b c"}, /* the second one is theirs */
        {two, GATE(CHAINS("3"), P("c")), " a b c"},
        {two, GATE("", P("a") P("b") P("mesh")), " a b mesh"}, /* of an older version */
        {two, GATE("", P("a") P("c")), " a b"},
        {NULL, GATE(WRAPS, P("mesh")), " mesh"},
        {NULL, GATE(CHAINS("\"a\""), P("a") P("mesh")), " mesh"},
        {NULL, GATE("", P("a") P("mesh")), ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json_slice whole;
        struct buf out;
        char behind[100] = "";
        print_message("%s\n", rows[i].standing);
        plan_of(rows[i].source, rows[i].standing, false, &out);
        assert_int_equal(json_scan_check(buf_text(&out), out.len, &whole, NULL), 0);
        struct json_walk w = json_walk_start(json_scan_member(whole, "plugins"));
        for (bool is_gate = true; json_walk_next(&w); is_gate = false) {
            char type[20];
            assert_true(json_scan_text(json_scan_member(w.value, "type"), type, sizeof(type)));
            text_append(behind, sizeof(behind), is_gate ? "" : " %s", type);
        }
        assert_string_equal(behind, rows[i].behind);
        if (!rows[i].source && strstr(rows[i].standing, "chained")) {
            assert_non_null(
                strstr(buf_text(&out), "\"lastDelegate\": {\"plugins\": [{\"type\":\"a\"}]}"));
        }
        buf_fini(&out);
    }
}

TEST(what_another_hand_wrote_says_the_same)
{
    static const struct {
        const char *a;
        const char *b;
        bool is_same;
    } rows[] = {
        {"{\"a\":1,\"b\":[1.50,\"x\"]}", "{ \"b\": [ 1.5, \"\\u0078\" ],\n\"a\": 1.0 }", true},
        {"{\"a\":1}", "{\"a\":2,\"a\":1}", true}, /* as Go reads it */
        {"{\"a\":[1,2]}", "{\"a\":[2,1]}", false},
        {"{\"a\":1}", "{\"a\":\"1\"}", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":null}", false},
        {"{\"a\":1e999}", "{\"a\":1e999}", true},
        {"{\"a\":1e999}", "{\"a\": 1e999}", false}, /* of no reader's numbers */
        {"{", "{", true},
        {"{", "{ ", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf a = {.max_bytes = 100};
        struct buf b = {.max_bytes = 100};
        assert_int_equal(buf_appendf(&a, NULL, "%s", rows[i].a), 0);
        assert_int_equal(buf_appendf(&b, NULL, "%s", rows[i].b), 0);
        assert_int_equal(conflist_says_same(&a, &b), rows[i].is_same);
        buf_fini(&a);
        buf_fini(&b);
    }
}

TEST(a_network_is_known_by_its_name_in_a_list_that_somebody_made_of_it_too)
{
    static const struct {
        const char *text;
        bool is_it;
    } rows[] = {
        {"{\"name\":\"net\",\"type\":\"t\"}", true},
        {"{\"name\":\"net\",\"plugins\":[{\"type\":\"t\"}]}", true},
        {"{\"name\":\"k8s\",\"plugins\":[{\"type\":\"t\",\"name\":\"net\"},{\"type\":\"m\"}]}",
         true},
        {"{\"name\":\"k8s\",\"plugins\":[{\"type\":\"m\"},{\"type\":\"t\",\"name\":\"net\"}]}",
         false},
        {"{\"name\":\"other\",\"type\":\"t\"}", false},
        {"{\"name\":3}", false},
        {"[]", false},
        {"", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(conflist_is_of_network(rows[i].text, strlen(rows[i].text), "net"),
                         rows[i].is_it);
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
