/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "tests/support/case.h"
#include "tests/unit/cni_bench.h"

#define GONE "\"delegateConf\":\"/nonexistent/10-ovn.conf\""

/* "TYPE TYPE ..." of the plugins behind the gate, by a configuration on stdin; returns the code. */
static int open_source(const char *text, enum cni_verb verb, char out_types[static 100],
                       struct cni_error *error)
{
    struct cni_conf conf = {.status_code = 0};
    struct delegate_source source;
    size_t used = 0;
    CLEANUP(fd) int fd = file_of(text);
    *error = (struct cni_error){.code = 0};
    out_types[0] = '\0';
    assert_int_equal(conf_read(fd, &conf, error), 0);
    assert_int_equal(conf_check_version(&conf, verb, error), 0);
    assert_int_equal(conf_read_options(&conf, verb, error), 0);
    int code = delegate_source_open(&conf, verb, &source, error);
    assert_int_equal(code, error->code);
    for (size_t i = 0; code == 0 && i < source.count; i++) {
        char type[20];
        struct json_slice plugin = delegate_source_plugin(&source, i);
        assert_true(json_scan_text(json_scan_member(plugin, "type"), type, sizeof(type)));
        used += (size_t)snprintf(out_types + used, 100 - used, "%s%s", i > 0 ? " " : "", type);
    }
    delegate_source_close(&source);
    conf_fini(&conf);
    return code;
}

TEST(delegate_conf_is_one_plugin_but_for_del)
{
    static const struct {
        const char *content;
        const char *types; /* with DEL, and of one also with ADD */
        int code;          /* with ADD */
    } rows[] = {
        {"{\"type\":\"d\",\"name\":\"o\",\"mtu\":1}", "d", 0},
        {"{\"name\":\"o\",\"plugins\":[{\"type\":\"d\",\"mtu\":1}]}", "d", 0},
        {"{\"plugins\":[],\"plugins\":[{\"type\":\"d\"}]}", "d", 0}, /* the last one */
        {"{\"plugins\":[{\"type\":\"a\"},{\"type\":\"b\"},{\"type\":\"c\"}]}", "a b c",
         CNI_INVALID_CONFIG},
        {"{\"plugins\":[]}", "", CNI_INVALID_CONFIG},
        {"{\"plugins\":{\"type\":\"a\"}}", "", CNI_INVALID_CONFIG},
        {"{\"plugins\":[1]}", "", CNI_INVALID_CONFIG},
        {"{\"plugins\":[{\"type\":\"a\"},{\"type\":\"dpu-gate\"}]}", "", CNI_INVALID_CONFIG},
        {"{\"plugins\":[{\"type\":\"a\"},{}]}", "", CNI_INVALID_CONFIG},
        {"{\"mtu\":1}", "", CNI_INVALID_CONFIG},
        {"[]", "", CNI_DECODING_FAILURE},
        {"", "", CNI_DECODING_FAILURE},
        {"{", "", CNI_DECODING_FAILURE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        char types[100];
        struct cni_error error;
        bool is_any = rows[i].types[0] != '\0';
        CLEANUP(fd) int fd = file_of(rows[i].content);
        (void)snprintf(text, sizeof(text),
                       "{\"name\":\"n\",\"cniVersion\":\"1.1.0\","
                       "\"delegateConf\":\"/proc/self/fd/%d\"}",
                       fd);
        print_message("%s\n", rows[i].content);
        assert_int_equal(open_source(text, CNI_ADD, types, &error), rows[i].code);
        assert_int_equal(open_source(text, CNI_DEL, types, &error), is_any ? 0 : rows[i].code);
        assert_string_equal(types, rows[i].types);
    }
}

TEST(a_file_that_is_gone_leaves_its_copy_to_the_verbs_that_clean_up)
{
    static const struct {
        const char *keys;
        const char *types; /* "": none */
    } rows[] = {
        {GONE, ""},
        {GONE ",\"lastDelegate\":{\"type\":\"d\"}", "d"},
        {GONE ",\"lastDelegate\":{\"plugins\":[{\"type\":\"a\"},{\"type\":\"b\"}]}", "a b"},
        {GONE ",\"lastDelegate\":{\"type\":\"dpu-gate\"}", ""},
        {GONE ",\"lastDelegate\":[{\"type\":\"d\"}]", ""},
        {GONE ",\"lastDelegate\":null", ""},
        /* A directory, and what is no JSON. */
        {"\"delegateConf\":\"/\",\"lastDelegate\":{\"type\":\"d\"}", "d"},
        {"\"delegateConf\":\"/dev/null\",\"lastDelegate\":{\"type\":\"d\"}", "d"},
    };
    static const enum cni_verb verbs[] = {CNI_ADD, CNI_STATUS, CNI_DEL, CNI_CHECK, CNI_GC};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t v = 0; v < ARRAY_LEN(verbs); v++) {
            char text[300];
            char types[100];
            struct cni_error error;
            bool is_gated = verbs[v] == CNI_ADD || verbs[v] == CNI_STATUS;
            bool is_list = strchr(rows[i].types, ' ') != NULL && verbs[v] != CNI_DEL;
            bool is_found = rows[i].types[0] != '\0' && !is_gated && !is_list;
            (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"cniVersion\":\"1.1.0\",%s}",
                           rows[i].keys);
            print_message("%zu %s\n", v, text);
            assert_int_equal(open_source(text, verbs[v], types, &error) == 0, is_found);
            assert_string_equal(types, is_found ? rows[i].types : "");
            assert_true(is_found || strstr(error.msg, "delegateConf"));
        }
    }
}

TEST(a_file_that_is_not_there_may_come_yet)
{
    struct cni_error error;
    char types[100];
    assert_int_equal(open_source("{\"name\":\"n\"," GONE "}", CNI_ADD, types, &error),
                     CNI_TRY_AGAIN_LATER);
    assert_non_null(strstr(error.msg, "/nonexistent/10-ovn.conf"));
}
