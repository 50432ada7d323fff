/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/delegate.h"

#include "tests/support/case.h"
#include "tests/unit/cni_bench.h"

struct made {
    struct buf text;
    char type[DELEGATE_TYPE_BYTES];
};

static void cleanup_made(struct made *m)
{
    buf_fini(&m->text);
}

/* Makes the delegate's configuration from `text`, as for DEL; returns the code. */
static int make(const char *text, struct made *out, struct cni_error *error)
{
    struct cni_conf conf = {.status_code = 0};
    CLEANUP(fd) int fd = file_of(text);
    *error = (struct cni_error){.code = 0};
    buf_init(&out->text, DELEGATE_CONF_MAX_BYTES);
    assert_int_equal(conf_read(fd, &conf, error), 0);
    assert_int_equal(conf_check_version(&conf, CNI_DEL, error), 0);
    assert_int_equal(conf_read_options(&conf, CNI_DEL, error), 0);
    struct json_slice delegate = json_scan_member(conf.object, "delegate");
    int code = delegate_conf_make(&conf, delegate, &out->text, out->type, error);
    conf_fini(&conf);
    return code;
}

TEST(delegate_has_its_own_keys_and_the_runtimes)
{
    static const struct {
        const char *conf;
        const char *made;
    } rows[] = {
        {"{\"name\":\"n\",\"type\":\"dpu-gate\",\"readinessFile\":\"/r\",\"statusCode\":51,"
         "\"delegate\":{\"type\":\"d\"}}",
         "{\"name\":\"n\",\"type\":\"d\"}"},
        /* The runtime's word is newer than the delegate's. */
        {"{\"name\":\"n\",\"cniVersion\":\"1.1.0\",\"args\":1,\"runtimeConfig\":2,"
         "\"prevResult\":3,\"cni.dev/valid-attachments\":[4],\"cni.dev/x\":5,"
         "\"delegate\":{\"type\":\"d\",\"name\":\"o\",\"cniVersion\":\"0.3.0\",\"args\":9,"
         "\"runtimeConfig\":9,\"prevResult\":9,\"cni.dev/x\":9}}",
         "{\"args\":1,\"cni.dev/valid-attachments\":[4],\"cni.dev/x\":5,\"cniVersion\":\"1.1.0\","
         "\"name\":\"n\",\"prevResult\":3,\"runtimeConfig\":2,\"type\":\"d\"}"},
        /* Of other keys the delegate's own counts; where it has none, ours is handed on. */
        {"{\"name\":\"n\",\"mtu\":1,\"deviceID\":\"x\",\"delegate\":{\"type\":\"d\","
         "\"mtu\":2,\"delegate\":{\"a\":1},\"statusCode\":7,\"args\":9}}",
         "{\"args\":9,\"delegate\":{\"a\":1},\"deviceID\":\"x\",\"mtu\":2,\"name\":\"n\","
         "\"statusCode\":7,\"type\":\"d\"}"},
        /* Byte for byte, whatever it is. */
        {"{\"name\":\"n\",\"runtimeConfig\":{ \"a\" : 123456789012345678901234567890 },"
         "\"delegate\":{\"type\":\"d\",\"x\":\"\\u0000\\ud800\xff\",\"y\":[1.50, -0e1]}}",
         "{\"name\":\"n\",\"runtimeConfig\":{ \"a\" : 123456789012345678901234567890 },"
         "\"type\":\"d\",\"x\":\"\\u0000\\ud800\xff\",\"y\":[1.50, -0e1]}"},
        /* Of two of one name the last counts, however it is written; letters of either case make
         * two names, and the CNI library's order decides for the reader. */
        {"{\"name\":\"n\",\"a\":1,\"a\":2,\"delegate\":{\"type\":\"c\",\"b\":1,\"\\u0062\":2,"
         "\"type\":\"d\",\"TYPE\":\"e\"}}",
         "{\"TYPE\":\"e\",\"a\":2,\"\\u0062\":2,\"name\":\"n\",\"type\":\"d\"}"},
        {"{\"name\":\"n\",\"Type\":\"x\",\"STATUSCODE\":1,\"delegate\":{\"Type\":\"d\"}}",
         "{\"Type\":\"d\",\"name\":\"n\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_error error;
        CLEANUP(made) struct made made;
        print_message("%s\n", rows[i].conf);
        assert_int_equal(make(rows[i].conf, &made, &error), 0);
        assert_string_equal(buf_text(&made.text), rows[i].made);
        assert_string_equal(made.type, "d");
    }
}

TEST(delegate_that_cannot_be_is_refused)
{
    static char long_type[300] = "{\"type\":\"";
    static const struct {
        const char *delegate;
        const char *words;
    } rows[] = {
        {"{}", "no type"},
        {"{\"type\":null}", "no type"},
        {"{\"type\":7}", "no type"},
        {"{\"type\":\"\"}", "no type"},
        {"{\"type\":\"a/b\"}", "invalid plugin name: a/b"},
        {"{\"type\":\"a\\u002fb\"}", "invalid plugin name: a/b"},
        {"{\"type\":\"a\\u0000\"}", "invalid plugin name: a"},
        {"{\"type\":\".\"}", "invalid plugin name: ."},
        {"{\"type\":\"..\"}", "invalid plugin name: .."},
        {"{\"type\":\"dpu-gate\"}", "dpu-gate itself"},
        {"{\"Type\":\"dpu-gate\"}", "dpu-gate itself"},
        {"{\"type\":\"renamed\"}", "dpu-gate itself"}, /* as our own type */
        {"{\"type\":\"d\",\"delegateConf\":\"/x\"}", "delegateConf of its own"},
        {long_type, "of 256 bytes, the name of a program has at most 255"},
    };
    memset(long_type + 9, 't', 256);
    memcpy(long_type + 9 + 256, "\"}", 3);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[400];
        struct cni_error error;
        CLEANUP(made) struct made made;
        (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"type\":\"renamed\",\"delegate\":%s}",
                       rows[i].delegate);
        assert_int_equal(make(text, &made, &error), CNI_INVALID_CONFIG);
        if (!strstr(error.msg, rows[i].words)) {
            fail_msg("%s: %s", rows[i].delegate, error.msg);
        }
    }
}

/* Pairs would be compared for minutes if each were looked up in the other part. */
TEST(many_members_cost_no_more_than_their_sorting)
{
    enum { MEMBERS = 200000, MEMBER_BYTES = 16 };
    struct cni_error error;
    CLEANUP(made) struct made made;
    CLEANUP(free) char *text = malloc(2 * MEMBERS * MEMBER_BYTES + 100);
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, 100, "{\"name\":\"n\"");
    for (int i = 0; i < MEMBERS; i++) {
        used += (size_t)snprintf(text + used, MEMBER_BYTES, ",\"k%d\":1", i);
    }
    used += (size_t)snprintf(text + used, 100, ",\"delegate\":{\"type\":\"d\"");
    for (int i = 0; i < MEMBERS; i++) {
        used += (size_t)snprintf(text + used, MEMBER_BYTES, ",\"k%d\":2", i);
    }
    (void)snprintf(text + used, 100, "}}");
    assert_int_equal(make(text, &made, &error), 0);
    assert_null(strstr(buf_text(&made.text), ":1"));
    assert_int_equal(json_scan_count((struct json_slice){buf_text(&made.text), made.text.len}),
                     MEMBERS + 2);
}
