/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "cni/conf.h"
#include "contract/names.h"
#include "json/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* A file with `text`, to be read from its start. */
static int file_of(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static int read_text(const char *text, struct cni_conf *out, struct cni_error *error)
{
    CLEANUP(fd) int fd = file_of(text);
    *out = (struct cni_conf){.json = NULL};
    *error = (struct cni_error){.code = 0};
    return conf_read(fd, out, error);
}

/* All checks up to the options; returns the first error's code. */
static int check_text(const char *text, enum cni_verb verb, struct cni_error *error)
{
    struct cni_conf conf;
    int code = read_text(text, &conf, error);
    code = code == 0 ? conf_check_version(&conf, verb, error) : code;
    code = code == 0 ? conf_read_options(&conf, error) : code;
    conf_fini(&conf);
    return code;
}

static void checks_come_in_the_skeletons_order(void **state)
{
    static const struct {
        const char *text;
        enum cni_verb verb;
        int code;
        const char *msg;
    } rows[] = {
        {"", CNI_ADD, 6, "error unmarshall network config: unexpected end of JSON input"},
        {" \n", CNI_ADD, 6, "error unmarshall network config: "},
        {"{", CNI_ADD, 6, "error unmarshall network config: "},
        {"[]", CNI_ADD, 6, "error unmarshall network config: "},
        {"{\"name\":[]}", CNI_ADD, 6, "error unmarshall network config: "},
        {"null", CNI_ADD, 7, "missing network name"},
        {"{\"cniVersion\":7}", CNI_ADD, 7, "missing network name"},
        {"{\"name\":\"a b\",\"cniVersion\":7}", CNI_ADD, 7,
         "invalid characters found in network name"},
        {"{\"name\":\"n\",\"cniVersion\":7,\"statusCode\":7}", CNI_ADD, 6, "decoding version"},
        {"{\"name\":\"n\",\"cniVersion\":\"7\",\"statusCode\":7}", CNI_ADD, 1,
         "incompatible CNI versions"},
        {"{\"name\":\"n\",\"cniVersion\":\"7\",\"statusCode\":7}", CNI_STATUS, 1,
         "plugin version does not allow STATUS"},
        {"{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"statusCode\":7}", CNI_STATUS, 1,
         "config version does not allow STATUS"},
        {"{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"statusCode\":7}", CNI_GC, 1,
         "config version does not allow GC"},
        {"{\"name\":\"n\",\"statusCode\":7}", CNI_CHECK, 1, "config version does not allow CHECK"},
        {"{\"name\":\"n\",\"statusCode\":7}", CNI_DEL, 7, "statusCode must be 50 or 51"},
        {"{\"name\":\"n\",\"cniVersion\":\"\"}", CNI_ADD, 0, ""},
        {"{\"name\":\"n\",\"cniVersion\":null}", CNI_ADD, 0, ""},
        {"{\"name\":\"n\",\"cniVersion\":\"1.1.0\"}", CNI_STATUS, 0, ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_error error;
        int code = check_text(rows[i].text, rows[i].verb, &error);
        print_message("%s: %d %s\n", rows[i].text, code, error.msg);
        assert_int_equal(code, rows[i].code);
        assert_int_equal(error.code, rows[i].code);
        assert_memory_equal(error.msg, rows[i].msg, strlen(rows[i].msg));
    }
}

static void our_options_have_defaults(void **state)
{
    struct cni_conf conf;
    struct cni_error error;
    (void)state;
    assert_int_equal(read_text("{\"name\":\"n\"}", &conf, &error), 0);
    assert_int_equal(conf_check_version(&conf, CNI_ADD, &error), 0);
    assert_int_equal(conf_read_options(&conf, &error), 0);
    assert_string_equal(conf.version, "0.1.0");
    assert_string_equal(conf.readiness_file, NAMES_READINESS_FILE);
    assert_int_equal(conf.status_code, CNI_NOT_AVAILABLE);
    assert_false(conf.is_wrapping);
    conf_fini(&conf);
    conf_fini(&conf); /* a second time does no harm */
}

static void a_mistake_in_our_options_is_named(void **state)
{
    static const struct {
        const char *member;
        const char *words; /* NULL: accepted */
    } rows[] = {
        {"\"statusCode\":50", NULL},
        {"\"statusCode\":51", NULL},
        {"\"statusCode\":52", "statusCode"},
        {"\"statusCode\":4294967346", "statusCode"}, /* 50 + 2^32 */
        {"\"statusCode\":50.0", "statusCode"},
        {"\"statusCode\":null", "statusCode"},
        {"\"readinessFile\":\"/run/x\"", NULL},
        {"\"readinessFile\":\"x\"", "readinessFile"},
        {"\"readinessFile\":null", "readinessFile"},
        {"\"delegate\":{}", NULL},
        {"\"delegate\":null", "delegate"},
        {"\"delegate\":[]", "delegate"},
        {"\"delegateConf\":\"/x\"", NULL},
        {"\"delegateConf\":\"x\"", "delegateConf"},
        {"\"delegateConf\":{}", "delegateConf"},
        {"\"delegate\":{},\"delegateConf\":\"/x\"", "exclude each other"},
        {"\"delegateCONF\":\"/x\"", "did you mean 'delegateConf'"},
        {"\"statuscode\":51", "did you mean 'statusCode'"},
        {"\"Type\":\"x\"", "did you mean 'type'"},
        {"\"delegates\":[]", NULL}, /* another plugin's */
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        struct cni_error error;
        (void)snprintf(text, sizeof(text), "{\"name\":\"n\",%s}", rows[i].member);
        int code = check_text(text, CNI_ADD, &error);
        print_message("%s: %d %s\n", text, code, error.msg);
        assert_int_equal(code, rows[i].words ? CNI_INVALID_CONFIG : 0);
        assert_true(!rows[i].words || strstr(error.msg, rows[i].words));
    }
}

/* Makes the delegate's configuration from `text`; returns the code. */
static int make(const char *text, json_t **out, struct cni_error *error)
{
    struct cni_conf conf;
    const char *type = NULL;
    assert_int_equal(read_text(text, &conf, error), 0);
    assert_int_equal(conf_check_version(&conf, CNI_ADD, error), 0);
    assert_int_equal(conf_read_options(&conf, error), 0);
    int code = conf_make_delegate(&conf, out, &type, error);
    if (code == 0) {
        assert_string_equal(type, json_text_get(*out, "type"));
    }
    conf_fini(&conf);
    return code;
}

static void assert_made(const char *text, const char *expected)
{
    struct cni_error error;
    CLEANUP(json) json_t *made = NULL;
    CLEANUP(json) json_t *wanted = json_text_parse(expected, strlen(expected), 4096, NULL);
    print_message("%s\n", text);
    assert_int_equal(make(text, &made, &error), 0);
    assert_non_null(wanted);
    assert_true(json_equal(made, wanted));
}

static void delegate_has_its_own_keys_and_the_runtimes(void **state)
{
    (void)state;
    assert_made("{\"name\":\"n\",\"type\":\"dpu-gate\",\"readinessFile\":\"/r\",\"statusCode\":51,"
                "\"delegate\":{\"type\":\"d\"}}",
                "{\"name\":\"n\",\"type\":\"d\"}");
    /* The runtime's word is newer than the delegate's. */
    assert_made("{\"name\":\"n\",\"cniVersion\":\"1.1.0\",\"args\":1,\"runtimeConfig\":2,"
                "\"prevResult\":3,\"cni.dev/valid-attachments\":[4],\"cni.dev/x\":5,"
                "\"delegate\":{\"type\":\"d\",\"name\":\"o\",\"cniVersion\":\"0.3.0\",\"args\":9,"
                "\"runtimeConfig\":9,\"prevResult\":9,\"cni.dev/x\":9}}",
                "{\"name\":\"n\",\"cniVersion\":\"1.1.0\",\"args\":1,\"runtimeConfig\":2,"
                "\"prevResult\":3,\"cni.dev/valid-attachments\":[4],\"cni.dev/x\":5,"
                "\"type\":\"d\"}");
    /* Of other keys the delegate's own counts; where it has none, ours is handed on. */
    assert_made("{\"name\":\"n\",\"mtu\":1,\"deviceID\":\"x\",\"delegate\":{\"type\":\"d\","
                "\"mtu\":2,\"delegate\":{\"a\":1},\"statusCode\":7,\"args\":9}}",
                "{\"name\":\"n\",\"mtu\":2,\"deviceID\":\"x\",\"type\":\"d\","
                "\"delegate\":{\"a\":1},\"statusCode\":7,\"args\":9}");
}

static void delegate_that_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *delegate;
        const char *words;
    } rows[] = {
        {"{}", "no type"},
        {"{\"type\":null}", "no type"},
        {"{\"type\":\"\"}", "no type"},
        {"{\"type\":\"a/b\"}", "invalid plugin name: a/b"},
        {"{\"type\":\".\"}", "invalid plugin name: ."},
        {"{\"type\":\"..\"}", "invalid plugin name: .."},
        {"{\"type\":\"dpu-gate\"}", "dpu-gate itself"},
        {"{\"type\":\"renamed\"}", "dpu-gate itself"}, /* as our own type */
        {"{\"type\":\"d\",\"delegateConf\":\"/x\"}", "delegateConf of its own"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        struct cni_error error;
        CLEANUP(json) json_t *made = NULL;
        (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"type\":\"renamed\",\"delegate\":%s}",
                       rows[i].delegate);
        assert_int_equal(make(text, &made, &error), CNI_INVALID_CONFIG);
        assert_non_null(strstr(error.msg, rows[i].words));
    }
}

static void delegate_conf_is_one_plugin(void **state)
{
    static const struct {
        const char *content;
        int code;
    } rows[] = {
        {"{\"type\":\"d\",\"name\":\"o\",\"mtu\":1}", 0},
        {"{\"name\":\"o\",\"plugins\":[{\"type\":\"d\",\"mtu\":1}]}", 0},
        {"{\"plugins\":[]}", CNI_INVALID_CONFIG},
        {"{\"plugins\":[{\"type\":\"a\"},{\"type\":\"b\"}]}", CNI_INVALID_CONFIG},
        {"{\"plugins\":{\"type\":\"a\"}}", CNI_INVALID_CONFIG},
        {"{\"plugins\":[1]}", CNI_INVALID_CONFIG},
        {"{\"mtu\":1}", CNI_INVALID_CONFIG},
        {"[]", CNI_DECODING_FAILURE},
        {"", CNI_DECODING_FAILURE},
        {"{", CNI_DECODING_FAILURE},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        struct cni_error error;
        CLEANUP(fd) int fd = file_of(rows[i].content);
        CLEANUP(json) json_t *made = NULL;
        (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"delegateConf\":\"/proc/self/fd/%d\"}",
                       fd);
        print_message("%s\n", rows[i].content);
        assert_int_equal(make(text, &made, &error), rows[i].code);
        if (rows[i].code == 0) {
            assert_string_equal(json_text_get(made, "type"), "d");
            assert_string_equal(json_text_get(made, "name"), "n");
            assert_int_equal(json_integer_value(json_object_get(made, "mtu")), 1);
            assert_null(json_object_get(made, "delegateConf"));
        }
    }
}

static void delegate_conf_that_is_not_there_may_come_yet(void **state)
{
    struct cni_error error;
    CLEANUP(json) json_t *made = NULL;
    (void)state;
    assert_int_equal(
        make("{\"name\":\"n\",\"delegateConf\":\"/nonexistent/10-ovn.conf\"}", &made, &error),
        CNI_TRY_AGAIN_LATER);
    assert_non_null(strstr(error.msg, "/nonexistent/10-ovn.conf"));
}

static void stdin_is_bounded(void **state)
{
    struct cni_conf conf;
    struct cni_error error = {.code = 0};
    CLEANUP(free) char *text = malloc(CONF_MAX_BYTES + 2);
    (void)state;
    assert_non_null(text);
    memset(text, ' ', CONF_MAX_BYTES + 1);
    memcpy(text, "{\"name\":\"n\"}", 12);
    text[CONF_MAX_BYTES + 1] = '\0';
    assert_int_equal(read_text(text, &conf, &error), CNI_IO_FAILURE);
    text[CONF_MAX_BYTES] = '\0';
    assert_int_equal(read_text(text, &conf, &error), 0);
    conf_fini(&conf);
    assert_int_equal(conf_read(-1, &conf, &error), CNI_IO_FAILURE);
    assert_memory_equal(error.msg, "error reading from stdin: ", 26);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_come_in_the_skeletons_order),
        cmocka_unit_test(our_options_have_defaults),
        cmocka_unit_test(a_mistake_in_our_options_is_named),
        cmocka_unit_test(delegate_has_its_own_keys_and_the_runtimes),
        cmocka_unit_test(delegate_that_cannot_be_is_refused),
        cmocka_unit_test(delegate_conf_is_one_plugin),
        cmocka_unit_test(delegate_conf_that_is_not_there_may_come_yet),
        cmocka_unit_test(stdin_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
