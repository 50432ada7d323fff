/* SPDX-License-Identifier: Apache-2.0 */
/* The environment, the configuration on stdin, and what is printed on stdout. */
#include "cni/protocol.h"

#include "contract/names.h"
#include "tests/support/case.h"
#include "tests/unit/cni_bench.h"

/* ---- environment ----------------------------------------------------------------------------- */

static const char *const names[] = {"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS",
                                    "CNI_IFNAME",  "CNI_PATH",        "CNI_NETNS_OVERRIDE"};

/* Values in the order of `names`; NULL: unset. */
static int read_env(const char *const values[static ARRAY_LEN(names)], struct cni_call *c)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(values[i] ? setenv(names[i], values[i], 1) : unsetenv(names[i]), 0);
    }
    *c = (struct cni_call){.code = 0};
    return cni_read_env(c);
}

TEST(each_verb_needs_its_variables)
{
    static const char *const verbs[] = {
        [CNI_VERB_UNKNOWN] = "",  [CNI_ADD] = "ADD", [CNI_DEL] = "DEL",
        [CNI_CHECK] = "CHECK",    [CNI_GC] = "GC",   [CNI_STATUS] = "STATUS",
        [CNI_VERSION] = "VERSION"};
    static const struct {
        const char *values[ARRAY_LEN(names)];
        const char *msg; /* NULL: accepted */
    } rows[] = {
        {{"ADD", "id", "/ns", "eth0", "/bin", NULL}, NULL},
        {{"ADD", "", "", "", "", ""},
         "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing"},
        {{"CHECK", "id", NULL, "eth0", "/bin", NULL}, "required env variables [CNI_NETNS] missing"},
        {{"DEL", "id", NULL, "eth0", "/bin", NULL}, NULL},
        {{"DEL", "", "", "", "", ""},
         "required env variables [CNI_CONTAINERID,CNI_IFNAME,CNI_PATH] missing"},
        {{"STATUS", "", "", "", "", ""}, "required env variables [CNI_PATH] missing"},
        {{"STATUS", NULL, NULL, NULL, "/bin", NULL}, NULL},
        {{"STATUS", "%%", NULL, "a/b", "/bin", NULL}, NULL}, /* not asked for: not checked */
        {{"GC", NULL, NULL, NULL, NULL, NULL}, "required env variables [CNI_PATH] missing"},
        {{"VERSION", NULL, NULL, NULL, NULL, NULL}, NULL},
        {{"NOPE", NULL, NULL, NULL, NULL, NULL}, NULL}, /* its own error comes after stdin */
        {{NULL, "id", NULL, NULL, NULL, NULL}, "required env variables [CNI_COMMAND] missing"},
        {{"ADD", "%", "/ns", "eth0", NULL, NULL}, "invalid characters in containerID"},
        {{"ADD", "a.b_c-D9", "/ns", "eth0", "/bin", NULL}, NULL},
        {{"ADD", "id", "/ns", "0123456789abcde", "/bin", NULL}, NULL},
        {{"ADD", "id", "/ns", "0123456789abcdef", "/bin", NULL}, "interface name is too long"},
        {{"ADD", "id", "/ns", "..", "/bin", NULL}, "interface name is . or .."},
        {{"ADD", "id", "/ns", "...", "/bin", NULL}, NULL},
        {{"ADD", "id", "/ns", ".", "/bin", NULL}, "interface name is . or .."},
        {{"ADD", "id", "/ns", "te:st", "/bin", NULL},
         "interface name contains / or : or whitespace characters"},
        {{"ADD", "id", "/ns", "a\xe2\x80\x8a", "/bin", NULL},
         "interface name contains / or : or whitespace characters"},
        {{"ADD", "id", "/ns", "a\xe2\x80\x8b", "/bin", NULL}, NULL}, /* of no width: no space */
        {{"ADD", "id", "/ns", "\xe2\x80", "/bin", NULL}, NULL},      /* cut: read no further */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cni_call c;
        int code = read_env(rows[i].values, &c);
        print_message("%zu: %s\n", i, c.msg);
        const char *command = rows[i].values[0];
        bool is_verb = command && strcmp(command, "NOPE") != 0;
        assert_string_equal(verbs[c.verb], is_verb ? command : "");
        assert_int_equal(code, rows[i].msg ? CNI_INVALID_ENVIRONMENT : 0);
        assert_true(!rows[i].msg || strcmp(c.msg, rows[i].msg) == 0);
    }
}

TEST(override_is_one_or_true)
{
    static const struct {
        const char *value;
        bool expected;
    } rows[] = {{NULL, false}, {"", false},    {"0", false},   {"yes", false},
                {"1", true},   {"true", true}, {"TrUe", true}, {"1 ", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *values[] = {"ADD", "id", "/ns", "eth0", "/bin", rows[i].value};
        struct cni_call c;
        assert_int_equal(read_env(values, &c), 0);
        assert_int_equal(c.netns_override, rows[i].expected);
    }
}

TEST(versions_compare_by_their_numbers)
{
    static const struct {
        const char *a, *b;
        int expected; /* 1: at least, 0: less, -1: an error */
    } rows[] = {
        {"1.1.0", "1.1.0", 1},  {"1.1", "1.1.0", 1},   {"1.1.0", "1.1", 1},
        {"1.10.0", "1.9.9", 1}, {"0.9.9", "1", 0},     {"1.0.9", "1.1", 0},
        {"2", "1.9.9", 1},      {"", "1.0.0", -1},     {"x", "1.0.0", -1},
        {"1..0", "1", -1},      {"1.0.0.0", "1", -1},  {"1.0.", "1", -1},
        {"-1", "1", -1},        {"1.1.0-rc", "1", -1}, {"99999999999999999999", "1", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool at_least = false;
        struct err e = ERR_INIT;
        int rc = cni_version_at_least(rows[i].a, rows[i].b, &at_least, &e);
        print_message("%s >= %s: %d %s\n", rows[i].a, rows[i].b, at_least, e.msg);
        assert_int_equal(rc, rows[i].expected < 0 ? ERR_PARSE : 0);
        assert_int_equal(at_least, rows[i].expected == 1);
    }
}

/* ---- configuration --------------------------------------------------------------------------- */

#define NAMED(members)     "{\"name\":\"n\"," members "}"
#define VERSIONED(version) NAMED("\"cniVersion\":\"" version "\"")

TEST(a_configuration_is_read_as_the_skeleton_and_go_read_it)
{
    static const struct {
        const char *text;
        enum cni_verb verb;
        int code;
        const char *msg;
    } rows[] = {
        /* The order of the checks. */
        {"", CNI_ADD, 6, "error unmarshall network config: unexpected end of JSON input"},
        {"[]", CNI_ADD, 6, "error unmarshall network config: it is not a JSON object"},
        {"{\"name\":[]}", CNI_ADD, 6, "error unmarshall network config: "},
        {"{\"name\":\"n\"} more", CNI_ADD, 6, "error unmarshall network config: "},
        {"null", CNI_ADD, 7, "missing network name"},
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
        /* Each verb has its versions. */
        {VERSIONED("0.3.1"), CNI_CHECK, 1, "config version does not allow CHECK"},
        {VERSIONED("2.0.0"), CNI_CHECK, 1, "plugin version does not allow CHECK"},
        {VERSIONED("1.1.1"), CNI_GC, 1, "plugin version does not allow GC"},
        {VERSIONED("adsfsadf"), CNI_STATUS, 6, "failed to convert major version part \"adsfsadf\""},
        {VERSIONED("1.x"), CNI_GC, 6, "failed to convert minor version part \"x\""},
        {VERSIONED("1.1.0-rc1"), CNI_CHECK, 6, "failed to convert micro version part \"0-rc1\""},
        {VERSIONED("1.2.3.4"), CNI_CHECK, 6, "invalid version \"1.2.3.4\": too many parts"},
        {VERSIONED("1.0"), CNI_CHECK, 1, "incompatible CNI versions"},
        {VERSIONED("0.1.0"), CNI_ADD, 0, ""},
        {VERSIONED("0.4.0"), CNI_CHECK, 0, ""},
        {VERSIONED("1.1.0"), CNI_GC, 0, ""},
        /* Keys fold, and the last one counts. */
        {"{\"NAME\":\"n\"}", CNI_ADD, 0, ""},
        {"{\"name\":7,\"name\":\"n\"}", CNI_ADD, CNI_DECODING_FAILURE, ""},
        {"{\"name\":\"n\",\"cniVersion\":\"9.9.9\",\"cniversion\":\"1.0.0\"}", CNI_ADD, 0, ""},
        {"{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"CNIVERSION\":7}", CNI_ADD,
         CNI_DECODING_FAILURE, ""},
        /* Each of these blocked the removal of a pod, and Go's reader takes it. */
        {NAMED("\"x\":\"a\\u0000b\""), CNI_DEL, 0, ""},
        {NAMED("\"cniVersion\":\"0.4.0\",\"CNIVersion\":null"), CNI_DEL, 0, ""},
        /* Not ours to judge where nothing is gated. */
        {NAMED("\"statusCode\":7"), CNI_DEL, 0, ""},
        {NAMED("\"readinessFile\":7"), CNI_DEL, 0, ""},
        {NAMED("\"statuscode\":51"), CNI_DEL, 0, ""},
        {NAMED("\"Type\":\"x\""), CNI_DEL, 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(call) struct cni_call c;
        int code = open_call(&c, rows[i].verb, rows[i].text);
        print_message("%s: %d %s\n", rows[i].text, code, c.msg);
        assert_int_equal(code, rows[i].code);
        assert_int_equal(c.code, rows[i].code);
        assert_memory_equal(c.msg, rows[i].msg, strlen(rows[i].msg));
        bool is_unknown = strncmp(c.msg, "incompatible", 12) == 0;
        assert_true(!is_unknown ||
                    (strstr(c.details, c.version) && strstr(c.details, "\"0.1.0\" \"0.2.0\"")));
    }
}

TEST(our_options_have_defaults)
{
    CLEANUP(call) struct cni_call c;
    assert_int_equal(open_call(&c, CNI_ADD, VERSIONED("")), 0);
    assert_string_equal(c.version, "0.1.0");
    assert_string_equal(c.readiness_file, NAMES_READINESS_FILE);
    assert_int_equal(c.status_code, CNI_NOT_AVAILABLE);
    assert_false(c.is_wrapping);
    cni_call_fini(&c); /* a second time does no harm */
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
        {"\"delegate\":7", "delegate must be"},
        {"\"delegateConf\":\"/x\"", NULL},
        {"\"delegateConf\":\"x\"", "delegateConf"},
        {"\"delegateConf\":{}", "delegateConf"},
        {"\"delegate\":{},\"delegateConf\":\"/x\"", "exclude each other"},
        {"\"delegate\":{},\"delegateConf\":7", "exclude each other"},
        {"\"delegateCONF\":\"/x\"", "unknown key 'delegateCONF': did you mean 'delegateConf'"},
        {"\"Delegate\":{}", "did you mean 'delegate'"},
        {"\"delegateconf\":\"/x\"", "did you mean 'delegateConf'"},
        {"\"LastDelegate\":{}", "did you mean 'lastDelegate'"},
        {"\"statuscode\":51", "did you mean 'statusCode'"},
        {"\"Type\":\"x\"", "did you mean 'type'"},
        {"\"delegates\":[]", NULL}, /* another plugin's */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        CLEANUP(call) struct cni_call c;
        (void)snprintf(text, sizeof(text), "{\"name\":\"n\",%s}", rows[i].member);
        int code = open_call(&c, CNI_ADD, text);
        print_message("%s: %d %s\n", text, code, c.msg);
        assert_int_equal(code, rows[i].words ? CNI_INVALID_CONFIG : 0);
        assert_true(!rows[i].words || strstr(c.msg, rows[i].words));
        bool is_ours =
            strstr(rows[i].member, "delegate\"") || strstr(rows[i].member, "delegateConf");
        assert_true(code != 0 || c.is_wrapping == is_ours);
        cni_call_fini(&c);
        if (strcasestr(rows[i].member, "delegate")) { /* every verb needs it */
            assert_int_equal(open_call(&c, CNI_DEL, text), code);
        }
    }
}

TEST(limits_say_which_and_how_large)
{
    static const struct {
        enum cni_verb verb;
        const char *key;
    } rows[] = {{CNI_ADD, "readinessFile"}, {CNI_DEL, "delegateConf"}};
    char path[PATH_MAX + 1] = "/";
    memset(path + 1, 'p', PATH_MAX - 1);
    path[PATH_MAX] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[2 * PATH_MAX];
        char msg[100];
        CLEANUP(call) struct cni_call c;
        (void)snprintf(text, sizeof(text), "{\"name\":\"n\",\"%s\":\"%s\"}", rows[i].key, path);
        (void)snprintf(msg, sizeof(msg), "%s has 4096 bytes, but a path has at most 4095",
                       rows[i].key);
        assert_int_equal(open_call(&c, rows[i].verb, text), CNI_INVALID_CONFIG);
        assert_string_equal(c.msg, msg);
    }
}

TEST(stdin_is_bounded)
{
    struct cni_call c;
    CLEANUP(free) char *text = malloc(CONF_MAX_BYTES + 2);
    assert_non_null(text);
    memset(text, ' ', CONF_MAX_BYTES + 1);
    memcpy(text, "{\"name\":\"n\"}", 12);
    text[CONF_MAX_BYTES + 1] = '\0';
    assert_int_equal(open_call(&c, CNI_ADD, text), CNI_IO_FAILURE);
    assert_string_equal(
        c.msg, "error reading from stdin: 'stdin' has more than the allowed 16777216 bytes");
    cni_call_fini(&c);
    text[CONF_MAX_BYTES] = '\0';
    assert_int_equal(open_call(&c, CNI_ADD, text), 0);
    cni_call_fini(&c);
    CLEANUP(fd) int endless = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_int_equal(conf_read(&c, endless), CNI_IO_FAILURE);
    assert_non_null(strstr(c.msg, "more than the allowed 16777216 bytes"));
    cni_call_fini(&c);
    assert_int_equal(conf_read(&c, -1), CNI_IO_FAILURE);
    assert_memory_equal(c.msg, "error reading from stdin: ", 26);
    cni_call_fini(&c);
}

/* ---- answers --------------------------------------------------------------------------------- */

enum { OUTPUT_BYTES = 8192 };

static int put_error(const struct cni_call *c, const char *result)
{
    return reply_error(c);
}

static int put_result(const struct cni_call *c, const char *result)
{
    return reply_result(c, (struct json_slice){result, result ? strlen(result) : 0});
}

static int put_versions(const struct cni_call *c, const char *result)
{
    return reply_versions();
}

typedef int put_fn(const struct cni_call *, const char *);

/* With `file`, which is taken, in place of stdout. */
static int put_into(FILE *file, put_fn *put, const struct cni_call *c, const char *result)
{
    FILE *before = stdout;
    assert_non_null(file);
    stdout = file;
    int status = put(c, result);
    (void)fclose(stdout); /* /dev/full has no room */
    stdout = before;
    return status;
}

/* What `put` prints on stdout, and its status. */
static int capture(put_fn *put, const struct cni_call *c, const char *result,
                   char out[static OUTPUT_BYTES])
{
    return put_into(fmemopen(out, OUTPUT_BYTES, "w"), put, c, result);
}

TEST(error_is_an_object_with_exit_status_one)
{
    char out[OUTPUT_BYTES];
    struct cni_call c = {.version = "1.0.0"};
    assert_int_equal(cni_fail(&c, CNI_TRY_AGAIN_LATER, "DPU Not Ready: %s", "dead"), 11);
    assert_int_equal(capture(put_error, &c, NULL, out), EXIT_FAILURE);
    assert_string_equal(out, "{\n    \"cniVersion\": \"1.0.0\",\n    \"code\": 11,\n"
                             "    \"msg\": \"DPU Not Ready: dead\"\n}\n");
    (void)cni_fail(&c, CNI_NOT_AVAILABLE, "msg");
    assert_int_equal(cni_explain(&c, "m"), CNI_NOT_AVAILABLE);
    assert_int_equal(capture(put_error, &c, NULL, out), EXIT_FAILURE);
    assert_non_null(strstr(out, "\"code\": 50"));
    assert_non_null(strstr(out, "\"details\": \"m\""));
    (void)cni_fail(&c, CNI_NOT_AVAILABLE, "another");
    assert_string_equal(c.details, "");
}

TEST(any_text_becomes_valid_bounded_json)
{
    static char endless[3 * CNI_MSG_BYTES];
    static char quotes[CNI_MSG_BYTES];
    static const char *const texts[] = {
        "\"\\\n\t\x01\x7f", "\xff\xfe\xc3", "\xc3\xa4\xe2\x80\xa8", "%s%n", endless, quotes};
    char out[OUTPUT_BYTES];
    memset(endless, 'x', sizeof(endless) - 1);
    memset(quotes, '"', sizeof(quotes) - 1);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct cni_call c = {.version = "1.0.0"};
        (void)cni_fail(&c, CNI_INVALID_CONFIG, "about %s", texts[i]);
        (void)cni_explain(&c, texts[i]);
        assert_int_equal(capture(put_error, &c, NULL, out), EXIT_FAILURE);
        struct json_slice json;
        char msg[CNI_MSG_BYTES];
        char details[CNI_DETAILS_BYTES];
        assert_int_equal(json_scan_check(out, strlen(out), &json, NULL), 0);
        assert_memory_equal(json_scan_member(json, "code").at, "7,", 2);
        assert_true(json_scan_text(json_scan_member(json, "msg"), msg, sizeof(msg)));
        assert_true(json_scan_text(json_scan_member(json, "details"), details, sizeof(details)));
        assert_memory_equal(msg, "about ", 6);
    }
}

TEST(versions_are_listed_from_the_oldest)
{
    char out[OUTPUT_BYTES];
    assert_int_equal(capture(put_versions, NULL, NULL, out), EXIT_SUCCESS);
    assert_string_equal(out, "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.1.0\",\"0.2.0\","
                             "\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n");
    assert_int_equal(put_into(fopen("/dev/full", "we"), put_versions, NULL, NULL), EXIT_FAILURE);
}

TEST(result_is_passed_on_as_it_stands)
{
    static const struct {
        const char *previous; /* NULL: none */
        const char *out;
    } rows[] = {
        {NULL, "{\"cniVersion\":\"1.0.0\"}\n"},
        {"{}", "{\"cniVersion\":\"1.0.0\"}\n"},
        {"{ \"ips\" : [1.0],\"cniVersion\":\"0.4.0\" }",
         "{ \"ips\" : [1.0],\"cniVersion\":\"0.4.0\" }\n"},
        {"{\"ips\":[\"\\u0000\"],\"cniVersion\":\"\",\"n\":123456789012345678901}",
         "{\"cniVersion\":\"1.0.0\",\"ips\":[\"\\u0000\"],\"n\":123456789012345678901}\n"},
        {"{\"CNIVERSION\":null}", "{\"cniVersion\":\"1.0.0\"}\n"},
        {"{\"cniVersion\":\"1\"}", "{\"cniVersion\":\"1\"}\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[OUTPUT_BYTES];
        const struct cni_call c = {.version = "1.0.0"};
        assert_int_equal(capture(put_result, &c, rows[i].previous, out), EXIT_SUCCESS);
        assert_string_equal(out, rows[i].out);
    }
}
