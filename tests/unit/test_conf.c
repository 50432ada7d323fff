/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol.h"

#include "contract/names.h"
#include "tests/support/case.h"
#include "tests/unit/cni_bench.h"

static int read_text(const char *text, struct cni_conf *out, struct cni_error *error)
{
    CLEANUP(fd) int fd = file_of(text);
    *out = (struct cni_conf){.status_code = 0};
    *error = (struct cni_error){.code = 0};
    return conf_read(fd, out, error);
}

/* All checks up to the options; returns the first error's code. */
static int check_text(const char *text, enum cni_verb verb, struct cni_error *error)
{
    struct cni_conf conf;
    int code = read_text(text, &conf, error);
    code = code == 0 ? conf_check_version(&conf, verb, error) : code;
    code = code == 0 ? conf_read_options(&conf, verb, error) : code;
    conf_fini(&conf);
    return code;
}

TEST(checks_come_in_the_skeletons_order)
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
        {"\"text\"", CNI_ADD, 6, "error unmarshall network config: "},
        {"{\"name\":\"n\"} more", CNI_ADD, 6, "error unmarshall network config: "},
        {"null", CNI_ADD, 7, "missing network name"},
        {"{\"name\":null}", CNI_ADD, 7, "missing network name"},
        {"{\"name\":\"\"}", CNI_ADD, 7, "missing network name"},
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
        {"{\"name\":\"n\",\"statusCode\":7}", CNI_ADD, 7, "statusCode must be 50 or 51"},
        {"{\"name\":\"n\",\"cniVersion\":\"\"}", CNI_ADD, 0, ""},
        {"{\"name\":\"n\",\"cniVersion\":null}", CNI_ADD, 0, ""},
        {"{\"name\":\"n\",\"cniVersion\":\"1.1.0\"}", CNI_STATUS, 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_error error;
        int code = check_text(rows[i].text, rows[i].verb, &error);
        print_message("%s: %d %s\n", rows[i].text, code, error.msg);
        assert_int_equal(code, rows[i].code);
        assert_int_equal(error.code, rows[i].code);
        assert_memory_equal(error.msg, rows[i].msg, strlen(rows[i].msg));
    }
}

/* Each of these blocked the removal of a pod, and Go's reader takes it. */
TEST(what_only_go_can_read_blocks_no_clean_up)
{
    static const char *const members[] = {
        "\"x\":\"a\\u0000b\"",
        "\"x\\u0000\":1",
        "\"x\":\"\\ud800\"",
        "\"x\":\"\xff\"",
        "\"\xff\":1",
        "\"x\":123456789012345678901234567890",
        "\"x\":1e999",
        "\"x\":-9223372036854775809",
        "\"cniVersion\":\"0.4.0\",\"CNIVersion\":null",
        /* Not ours to judge where nothing is gated. */
        "\"statusCode\":7",
        "\"readinessFile\":7",
        "\"statuscode\":51",
        "\"Type\":\"x\"",
    };
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        char text[200];
        struct cni_error error;
        (void)snprintf(text, sizeof(text), "{\"name\":\"n\",%s}", members[i]);
        if (check_text(text, CNI_DEL, &error) != 0) {
            fail_msg("%s: %s", text, error.msg);
        }
    }
}

TEST(name_and_version_are_read_as_go_reads_them)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"{\"NAME\":\"n\"}", 0},
        {"{\"name\":\"a b\",\"Name\":\"n\"}", 0},
        {"{\"Name\":\"n\",\"name\":\"a b\"}", CNI_INVALID_CONFIG},
        {"{\"name\":\"n\",\"name\":null}", 0},
        {"{\"name\":7,\"name\":\"n\"}", CNI_DECODING_FAILURE},
        {"{\"name\":\"n\\u0000\"}", CNI_INVALID_CONFIG},
        {"{\"n\\u0061me\":\"\\u006e\"}", 0},
        {"{\"name\":\"n\",\"cniVersion\":\"9.9.9\",\"cniversion\":\"1.0.0\"}", 0},
        {"{\"name\":\"n\",\"cniVer\xc5\xbfion\":\"9.9.9\"}", CNI_INCOMPATIBLE_VERSION},
        {"{\"name\":\"n\",\"cniVersion\":\"1.0.0\\u0000\"}", CNI_INCOMPATIBLE_VERSION},
        {"{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"CNIVERSION\":7}", CNI_DECODING_FAILURE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_error error;
        int code = check_text(rows[i].text, CNI_ADD, &error);
        print_message("%s: %d %s\n", rows[i].text, code, error.msg);
        assert_int_equal(code, rows[i].code);
    }
}

TEST(each_verb_has_its_versions)
{
    static const struct {
        enum cni_verb verb;
        const char *version;
        int code;
        const char *msg;
    } rows[] = {
        {CNI_CHECK, "0.3.1", 1, "config version does not allow CHECK"},
        {CNI_STATUS, "0.3.0", 1, "config version does not allow STATUS"},
        {CNI_CHECK, "2.0.0", 1, "plugin version does not allow CHECK"},
        {CNI_GC, "1.1.1", 1, "plugin version does not allow GC"},
        {CNI_STATUS, "adsfsadf", 6, "failed to convert major version part \"adsfsadf\""},
        {CNI_GC, "1.x", 6, "failed to convert minor version part \"x\""},
        {CNI_CHECK, "1.1.0-rc1", 6, "failed to convert micro version part \"0-rc1\""},
        {CNI_CHECK, "1.2.3.4", 6, "invalid version \"1.2.3.4\": too many parts"},
        {CNI_CHECK, "1.0", 1, "incompatible CNI versions"},
        {CNI_ADD, "adsfsadf", 1, "incompatible CNI versions"},
        {CNI_ADD, "0.1.0", 0, ""},
        {CNI_CHECK, "0.4.0", 0, ""},
        {CNI_GC, "1.1.0", 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[100];
        struct cni_error error;
        (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"cniVersion\":\"%s\"}",
                       rows[i].version);
        assert_int_equal(check_text(text, rows[i].verb, &error), rows[i].code);
        print_message("%s: %s\n", text, error.msg);
        assert_memory_equal(error.msg, rows[i].msg, strlen(rows[i].msg));
    }
}

TEST(our_options_have_defaults)
{
    struct cni_conf conf;
    struct cni_error error;
    assert_int_equal(read_text("{\"name\":\"n\"}", &conf, &error), 0);
    assert_int_equal(conf_check_version(&conf, CNI_ADD, &error), 0);
    assert_int_equal(conf_read_options(&conf, CNI_ADD, &error), 0);
    assert_string_equal(conf.version, "0.1.0");
    assert_string_equal(conf.readiness_file, NAMES_READINESS_FILE);
    assert_int_equal(conf.status_code, CNI_NOT_AVAILABLE);
    assert_false(conf.is_wrapping);
    conf_fini(&conf);
    conf_fini(&conf); /* a second time does no harm */
}

TEST(a_mistake_in_our_options_is_named)
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

TEST(limits_say_which_and_how_large)
{
    char path[PATH_MAX + 40];
    char text[2 * PATH_MAX];
    struct cni_error error;
    memset(path, 'p', PATH_MAX);
    path[0] = '/';
    path[PATH_MAX] = '\0';
    (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"readinessFile\":\"%s\"}", path);
    assert_int_equal(check_text(text, CNI_ADD, &error), CNI_INVALID_CONFIG);
    assert_string_equal(error.msg, "readinessFile is of 4096 bytes, a path has at most 4095");
    (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"delegateConf\":\"%s\"}", path);
    assert_int_equal(check_text(text, CNI_DEL, &error), CNI_INVALID_CONFIG);
    assert_string_equal(error.msg, "delegateConf is of 4096 bytes, a path has at most 4095");
}

TEST(stdin_is_bounded)
{
    struct cni_conf conf;
    struct cni_error error = {.code = 0};
    CLEANUP(free) char *text = malloc(CONF_MAX_BYTES + 2);
    assert_non_null(text);
    memset(text, ' ', CONF_MAX_BYTES + 1);
    memcpy(text, "{\"name\":\"n\"}", 12);
    text[CONF_MAX_BYTES + 1] = '\0';
    assert_int_equal(read_text(text, &conf, &error), CNI_IO_FAILURE);
    assert_string_equal(error.msg, "error reading from stdin: 'stdin' (16777217 bytes) is larger "
                                   "than the allowed 16777216");
    conf_fini(&conf);
    text[CONF_MAX_BYTES] = '\0';
    assert_int_equal(read_text(text, &conf, &error), 0);
    conf_fini(&conf);
    CLEANUP(fd) int endless = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_int_equal(conf_read(endless, &conf, &error), CNI_IO_FAILURE);
    assert_non_null(strstr(error.msg, "is larger than the allowed 16777216"));
    conf_fini(&conf);
    assert_int_equal(conf_read(-1, &conf, &error), CNI_IO_FAILURE);
    assert_memory_equal(error.msg, "error reading from stdin: ", 26);
    conf_fini(&conf);
}
