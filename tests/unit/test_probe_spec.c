/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe_spec.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "tests/support/case.h"

static const struct probe_spec DEFAULTS = {.interval_ns = 5 * NS_PER_SEC,
                                           .timeout_ns = 2 * NS_PER_SEC,
                                           .thresholds = {.failures = 3, .successes = 1}};

static struct probe_spec spec_of(const char *text)
{
    struct probe_spec spec;
    struct err e = ERR_INIT;
    if (probe_spec_parse(text, 0, &DEFAULTS, &spec, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    return spec;
}

static int seconds(int64_t ns)
{
    return (int)(ns / NS_PER_SEC);
}

TEST(probe_without_settings_takes_the_defaults)
{
    static const struct {
        const char *text;
        enum probe_kind kind;
        const char *target;
    } rows[] = {
        {"exec:true", PROBE_EXEC, "true"},
        {"exec:a=b; test ${a},1 = b,1", PROBE_EXEC, "a=b; test ${a},1 = b,1"},
        {"unix:/run/ovs.sock", PROBE_UNIX, "/run/ovs.sock"},
        {"http://127.0.0.1:80/x;y", PROBE_HTTP, "127.0.0.1:80/x;y"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct probe_spec spec = spec_of(rows[i].text);
        assert_int_equal(spec.kind, rows[i].kind);
        assert_string_equal(spec.target, rows[i].target);
        assert_string_equal(spec.name, rows[i].text);
        assert_int_equal(spec.interval_ns, 5 * NS_PER_SEC);
        assert_int_equal(spec.thresholds.failures, 3);
    }
}

TEST(settings_go_before_the_probe)
{
    struct probe_spec spec =
        spec_of("interval=100ms,timeout=1,failures=2,successes=4;exec:a;b=c,d");
    assert_string_equal(spec.name, "exec:a;b=c,d");
    assert_int_equal(spec.interval_ns, 100 * NS_PER_MS);
    assert_int_equal(spec.timeout_ns, NS_PER_SEC);
    assert_int_equal(spec.thresholds.failures, 2);
    assert_int_equal(spec.thresholds.successes, 4);
    assert_int_equal(spec_of("failures=100,timeout=600;exec:a").thresholds.failures, 100);
    assert_int_equal(spec_of("failures=1,interval=3600;exec:a").interval_ns, 3600 * NS_PER_SEC);
}

TEST(the_question_for_the_nodes_name_has_its_own_pace)
{
    struct probe_spec spec = probe_spec_of_node_name("/run/ovs");
    assert_int_equal(spec.kind, PROBE_SERVICE);
    assert_string_equal(spec.name, "node-name");
    assert_string_equal(spec.ovs_run_dir, "/run/ovs");
    assert_true(spec.service->place->is_of_ovs);
    assert_int_equal(spec.interval_ns, 5 * NS_PER_SEC);
    assert_int_equal(spec.retry_ns, 5 * NS_PER_SEC);
    assert_int_equal(spec.timeout_ns, 2 * NS_PER_SEC);
}

TEST(a_service_has_defaults_of_its_own)
{
    struct probe_spec spec = spec_of("ovn-controller");
    assert_int_equal(spec.kind, PROBE_SERVICE);
    assert_string_equal(spec.name, "ovn-controller");
    assert_int_equal(spec.interval_ns, 10 * NS_PER_SEC);
    assert_int_equal(spec.timeout_ns, 20 * NS_PER_SEC);
    assert_int_equal(spec.retry_ns, NS_PER_SEC);
    assert_int_equal(spec.thresholds.failures, 1);
    assert_int_equal(spec.thresholds.patience_ns[PROBE_SILENT], 60 * NS_PER_SEC);
    spec = spec_of("interval=200ms,silent=3s;ovn-controller");
    assert_int_equal(spec.retry_ns, 200 * NS_PER_MS);
    assert_int_equal(spec.timeout_ns, 20 * NS_PER_SEC);
    assert_int_equal(spec.thresholds.patience_ns[PROBE_SILENT], 3 * NS_PER_SEC);
    spec = spec_of("vswitchd");
    assert_string_equal(spec.target, "br-int");
    assert_string_equal(spec_of("vswitchd:b").target, "b");
    spec = spec_of("vswitchd:br-ex");
    assert_string_equal(spec.target, "br-ex");
    assert_string_equal(spec.name, "vswitchd:br-ex");
    assert_string_equal(spec_of("ovn-controller").target, "");
    assert_string_equal(spec_of("ovn-controller:dpu-1").target, "dpu-1");
    spec = spec_of("wrong=9s;ovnkube");
    assert_int_equal(spec.beat_limit_ns, 9 * NS_PER_SEC);
    assert_int_equal(spec.thresholds.patience_ns[PROBE_WRONG], 0); /* not twice */
}

/* The table of docs/reasons.md. */
TEST(the_docs_tell_the_patience_with_each_service)
{
    static const int timeouts_s[SERVICE_COUNT] = {2, 5, 5, 5, 10, 20, 5};
    CLEANUP(buf) struct buf page = {.max_bytes = 1 << 20};
    assert_int_equal(file_read(DOCS "/reasons.md", &page, NULL), 0);
    const char *table = strstr(buf_text(&page), "| probe, interval |");
    assert_non_null(table);
    for (size_t i = 0; i < SERVICE_COUNT; i++) {
        const int64_t *ns = services[i].patience_ns;
        char name[32];
        char row[512];
        char interval[32];
        char patience[64];
        (void)snprintf(name, sizeof(name), "`%s`", services[i].name);
        const char *at = strstr(table, name);
        assert_non_null(at);
        (void)snprintf(row, sizeof(row), "%.*s", (int)strcspn(at, "\n"), at);
        (void)snprintf(interval, sizeof(interval), ", %d s |", seconds(services[i].interval_ns));
        (void)snprintf(patience, sizeof(patience), "| %d/%d/%d/%d |", seconds(ns[PROBE_REFUSED]),
                       seconds(ns[PROBE_SILENT]), seconds(ns[PROBE_MISSING]),
                       seconds(ns[PROBE_WRONG]));
        assert_non_null(strstr(row, interval));
        assert_non_null(strstr(row, patience));
        assert_int_equal(services[i].place->is_of_ovs, i < 2);
        assert_int_equal(seconds(services[i].timeout_ns), timeouts_s[i]);
    }
}

TEST(what_is_looked_at_in_sysfs_has_defaults_of_its_own)
{
    struct probe_spec spec = spec_of("pci:0000:03:00.0");
    assert_int_equal(spec.kind, PROBE_PCI);
    assert_string_equal(spec.target, "0000:03:00.0");
    assert_int_equal(spec.interval_ns, NS_PER_SEC);
    assert_int_equal(spec.thresholds.failures, 1);
    assert_int_equal(spec.thresholds.patience_ns[PROBE_MISSING], 0);
    spec = spec_of("netdev:p0");
    assert_int_equal(spec.kind, PROBE_NETDEV);
    assert_int_equal(spec.thresholds.patience_ns[PROBE_MISSING], 3 * NS_PER_SEC);
    assert_false(spec.wants_carrier);
    assert_int_equal(spec.at_least, 0);
    assert_int_equal(spec_of("least=2;netdev:p0,p1").at_least, 2);
    spec = spec_of("carrier=up,wrong=9s;netdev:p0");
    assert_true(spec.wants_carrier);
    assert_int_equal(spec.thresholds.patience_ns[PROBE_WRONG], 9 * NS_PER_SEC);
}

TEST(one_word_stands_for_all_services)
{
    static const char text[] = "silent=7s;ovn-kubernetes";
    assert_int_equal(probe_spec_count("exec:true"), 1);
    assert_int_equal(probe_spec_count(text), SERVICE_COUNT);
    for (size_t i = 0; i < SERVICE_COUNT; i++) {
        struct probe_spec spec;
        assert_int_equal(probe_spec_parse(text, i, &DEFAULTS, &spec, NULL), 0);
        assert_ptr_equal(spec.service, &services[i]);
        assert_string_equal(spec.name, services[i].name);
        assert_int_equal(spec.thresholds.patience_ns[PROBE_SILENT], 7 * NS_PER_SEC);
    }
}

TEST(nonsense_is_refused_with_a_reason)
{
    static const struct {
        const char *text;
        int code;
        const char *words;
    } rows[] = {
        {"", ERR_PARSE, "does not begin with"},
        {"nonsense", ERR_PARSE, "does not begin with"},
        {"ovs", ERR_PARSE, "does not begin with"},
        {"exec:", ERR_PARSE, "nothing follows 'exec:'"},
        {"vswitchd:", ERR_PARSE, "'vswitchd:' needs a bridge"},
        {"ovn-controller:", ERR_PARSE, "'ovn-controller:' needs a chassis"},
        {"ovn-controller:1234567890123456789012345678901234567890123456789012345678901234",
         ERR_LIMIT, "a chassis's name has at most 63 bytes"},
        {"ovsdb:b", ERR_PARSE, "its name must stand alone"},
        {"http://", ERR_PARSE, "nothing follows"},
        {"interval=5s", ERR_PARSE, "does not begin with"},
        {"interval=5s;", ERR_PARSE, "does not begin with"},
        {"interval;exec:true", ERR_PARSE, "is not a setting"},
        {"interval=;exec:true", ERR_PARSE, "interval=;exec:true"},
        {"interval=1ms;exec:true", ERR_LIMIT, "between 100ms and"},
        {"timeout=601s;exec:true", ERR_LIMIT, "and 600s"},
        {"failures=0;exec:true", ERR_LIMIT, "between 1 and 100"},
        {"failures=-1;exec:true", ERR_LIMIT, "'-1' is not between"},
        {"successes=101;exec:true", ERR_LIMIT, "between 1 and 100"},
        {"color=red;exec:true", ERR_PARSE, "unknown setting 'color'"},
        {"interval=5s;timeout=1s;exec:true", ERR_PARSE, "does not begin with"},
        {"ca=;https://127.0.0.1/", ERR_PARSE, "'ca=' needs a file"},
        {"status=204,ca=,timeout=1s;https://127.0.0.1/", ERR_PARSE, "'ca=' needs a file"},
        {"carrier=up;pci:0000:03:00.0", ERR_PARSE, "works only with netdev"},
        {"least=1;pci:0000:03:00.0", ERR_PARSE, "'least' works only with netdev: and bgp:"},
        {"least=0;netdev:p0,p1", ERR_LIMIT, "between 1 and 100"},
        {"carrier=down;netdev:p0", ERR_PARSE, "its only value"},
        {"status=204;unix:/s", ERR_PARSE, "works only with http"},
        {"ca=/x;vswitchd", ERR_PARSE, "works only with http"},
        {"status=99;http://h", ERR_LIMIT, "between 100 and 599"},
        /* and shows no password */
        {"ftp://user:S3CRET@h/", ERR_PARSE, "probe 'ftp://...': it is not a known service"},
        {"ftp://user:S;3CRET@h/", ERR_PARSE, "probe 'ftp://...': it is not a known service"},
        {"http:/user:S3CRET@h/", ERR_PARSE, "probe 'http:...': it is not a known service"},
        {"color=red;http://user:S3CRET@h/", ERR_PARSE, "probe 'color=red;http://...': unknown"},
        {"interval=1ms;exec:curl http://user:S3CRET@h/", ERR_LIMIT, "exec:...': '1ms' is not"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct probe_spec spec = {.target = "untouched"};
        struct err e = ERR_INIT;
        int rc = probe_spec_parse(rows[i].text, 0, &DEFAULTS, &spec, &e);
        if (rc != rows[i].code || !strstr(e.msg, rows[i].words) || !strstr(e.msg, "probe '") ||
            strstr(e.msg, "CRET")) {
            fail_msg("row %zu: %d %s", i, rc, e.msg);
        }
        assert_string_equal(spec.target, "untouched");
    }
}

TEST(the_shown_start_of_a_probe_is_bounded)
{
    static const char cut[] =
        "probe 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...': w";
    char text[200] = "";
    memset(text, 'x', sizeof(text) - 4);
    memcpy(text + sizeof(text) - 4, ":@", 3);
    const char *const rows[][2] = {
        {text, cut}, {"http://h/", "probe 'http://h/': w"}, {"user@h", "probe 'user@h': w"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {.code = ERR_PARSE, .msg = "w"};
        assert_int_equal(probe_spec_refuse(rows[i][0], ERR_PARSE, &e), ERR_PARSE);
        assert_string_equal(e.msg, rows[i][1]);
    }
}

TEST(overlong_probe_is_refused)
{
    char text[PROBE_TARGET_BYTES + 12] = "exec:";
    struct probe_spec spec;
    memset(text + 5, 'x', sizeof(text) - 6);
    assert_int_equal(probe_spec_parse(text, 0, &DEFAULTS, &spec, NULL), ERR_LIMIT);
    memcpy(text, "a=b,=", 5); /* settings without an end */
    memcpy(text + sizeof(text) - 12, ";exec:true", 11);
    assert_int_equal(probe_spec_parse(text, 0, &DEFAULTS, &spec, NULL), ERR_LIMIT);
    memcpy(text, "exec:", 5);
    text[5 + PROBE_TARGET_BYTES - 1] = '\0';
    spec = spec_of(text);
    assert_string_equal(spec.name, text);
}

TEST(a_url_has_a_status_and_an_authority)
{
    struct probe_spec spec = spec_of("status=204,ca=/a/b.pem;https://[::1]:1/x");
    assert_int_equal(spec.kind, PROBE_HTTP);
    assert_int_equal(spec.http_status, 204);
    assert_string_equal(spec.ca_file, "/a/b.pem");
    assert_string_equal(spec.name, "https://[::1]:1/x");
}
