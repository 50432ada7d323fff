/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/lease.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "tests/support/case.h"

#define META "\"name\":\"ovn-dpu-w1\",\"namespace\":\"ns\",\"uid\":\"u1\",\"resourceVersion\":\"7\""
#define NOW  ((struct wall){INT64_C(1790000000123456) * 1000})

static const struct lease_owner OWNER = {.node_name = "w1", .node_uid = "node-uid"};

static json_t *parse(const char *text)
{
    struct err e = ERR_INIT;
    json_t *json = json_text_parse(text, strlen(text), &e);
    if (!json) {
        fail_msg("%s: %s", e.msg, text);
    }
    return json;
}

static void expect_json(const json_t *got, const char *expected)
{
    CLEANUP(json) json_t *want = parse(expected);
    CLEANUP(free) char *text = json_text_dump(got);
    if (!json_equal(got, want)) {
        fail_msg("got %s\nexpected %s", text, expected);
    }
}

static struct lease_view view(const json_t *lease)
{
    struct lease_view v;
    struct err e = ERR_INIT;
    if (lease_read(lease, &v, &e) != 0) {
        fail_msg("%s", e.msg);
    }
    return v;
}

/* Of a lease with this behind the usual metadata, and with this behind all of it. */
static struct lease_view view_of(const char *metadata, const char *rest)
{
    CLEANUP(free) char *text = mem_format("{\"metadata\":{" META "%s}%s}", metadata, rest);
    CLEANUP(json) json_t *lease = parse(text);
    return view(lease);
}

/* ---- reading -------------------------------------------------------------------------------- */

TEST(full_lease_is_read)
{
    CLEANUP(json)
    json_t *lease =
        parse("{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{" META
              ",\"annotations\":{\"dpu.k8s.ovn.org/health\":\"unhealthy\","
              "\"dpu.k8s.ovn.org/health-message\":\"ovs\\u0007 is down\"}},"
              "\"spec\":{\"holderIdentity\":\"h\",\"leaseDurationSeconds\":40,"
              "\"acquireTime\":\"2026-01-02T03:04:05.000000Z\","
              "\"renewTime\":\"2026-01-02T03:04:06.000007Z\"}}");
    const struct lease_view v = view(lease);
    assert_string_equal(v.name, "ovn-dpu-w1");
    assert_string_equal(v.ns, "ns");
    assert_string_equal(v.uid, "u1");
    assert_string_equal(v.resource_version, "7");
    assert_string_equal(v.holder, "h");
    assert_string_equal(v.renew_stamp, "2026-01-02T03:04:06.000007Z");
    assert_true(v.renew_time_valid);
    assert_int_equal(v.renew_time.ns % NS_PER_SEC, 7000);
    assert_int_equal(v.duration_s, 40);
    assert_int_equal(v.health, LEASE_HEALTH_UNHEALTHY);
    assert_string_equal(v.health_message, "ovs  is down");
}

TEST(every_spec_field_may_be_absent_or_null)
{
    static const char *const specs[] = {
        "",
        ",\"spec\":{}",
        ",\"spec\":null",
        ",\"spec\":{\"renewTime\":null,\"acquireTime\":null,\"holderIdentity\":null,"
        "\"leaseDurationSeconds\":null}",
        ",\"spec\":{\"renewTime\":5,\"acquireTime\":{},\"holderIdentity\":[],"
        "\"leaseDurationSeconds\":\"40\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        const struct lease_view v = view_of(",\"annotations\":null", specs[i]);
        assert_string_equal(v.renew_stamp, "");
        assert_string_equal(v.holder, "");
        assert_false(v.renew_time_valid);
        assert_int_equal(v.duration_s, 0);
        assert_int_equal(v.health, LEASE_HEALTH_NONE);
    }
}

TEST(what_is_no_lease_is_refused_with_its_name)
{
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"[]", "not a JSON object"},
        {"5", "not a JSON object"},
        {"{}", "without metadata.name"},
        {"{\"metadata\":[]}", "without metadata.name"},
        {"{\"metadata\":{" META "},\"spec\":[]}", "not an object"},
        {"{\"metadata\":{" META ",\"annotations\":\"x\"}}", "not an object"},
        {"{\"kind\":\"Status\",\"metadata\":{" META "}}", "'Status'"},
        {"{\"kind\":\"Lease\",\"apiVersion\":\"v1\",\"metadata\":{" META "}}", "'v1'"},
        {"{\"kind\":\"Lease\",\"metadata\":{\"name\":\"n\"}}", "without metadata.namespace"},
        {"{\"metadata\":{\"name\":\"n\",\"namespace\":\"ns\"}}", "without metadata.uid"},
        {"{\"metadata\":{\"name\":\"n\",\"namespace\":\"ns\",\"uid\":\"u\"}}",
         "without metadata.resourceVersion"},
        {"{\"metadata\":{\"namespace\":\"ns\"}}", "without metadata.name"},
        {"{\"metadata\":{\"name\":\"\"}}", "without metadata.name"},
        {"{\"metadata\":{\"name\":7}}", "without metadata.name"},
        {"{\"metadata\":{\"name\":\"n\",\"namespace\":\"ns\",\"resourceVersion\":\"1\",\"uid\":"
         "\"0123456789012345678901234567890123456789012345678901234567890123456789\"}}",
         "metadata.uid of a lease has 70 bytes, more than 63"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct lease_view v = {.name = "untouched"};
        struct err e = ERR_INIT;
        CLEANUP(json) json_t *json = parse(rows[i].text);
        assert_int_equal(lease_read(json, &v, &e), ERR_PARSE);
        assert_non_null(strstr(e.msg, rows[i].words));
        assert_string_equal(v.name, "untouched");
    }
}

TEST(odd_durations_read_as_absent)
{
    static const struct {
        const char *text;
        uint32_t seconds;
    } rows[] = {
        {"0", 0}, {"-1", 0}, {"1", 1}, {"2147483647", 2147483647}, {"2147483648", 0}, {"1.5", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char spec[64];
        text_format(spec, sizeof(spec), ",\"spec\":{\"leaseDurationSeconds\":%s}", rows[i].text);
        assert_int_equal(view_of("", spec).duration_s, rows[i].seconds);
    }
}

/* Of a lease whose spec has this member with a text of so many bytes. */
static struct lease_view view_of_long(const char *member, char byte, size_t len)
{
    char text[512] = "";
    memset(text, byte, len);
    CLEANUP(free) char *spec = mem_format(",\"spec\":{\"%s\":\"%s\"}", member, text);
    return view_of("", spec);
}

TEST(overlong_stamp_is_none)
{
    for (size_t len = NAMES_STAMP_BYTES; len >= NAMES_STAMP_BYTES - 1; len--) {
        const struct lease_view v = view_of_long("renewTime", '9', len);
        assert_int_equal(strspn(v.renew_stamp, "9"), len < NAMES_STAMP_BYTES ? len : 0);
        assert_int_equal(strlen(v.renew_stamp), len < NAMES_STAMP_BYTES ? len : 0);
        assert_false(v.renew_time_valid);
    }
}

TEST(overlong_holder_never_equals_a_shorter_one)
{
    const struct lease_view v = view_of_long("holderIdentity", 'h', 400);
    assert_int_equal(strlen(v.holder), NAMES_HOLDER_BYTES - 1);
    assert_string_equal(v.holder + strlen(v.holder) - 3, "...");
}

TEST(only_the_two_health_words_count)
{
    static const struct {
        const char *word;
        enum lease_health health;
    } rows[] = {
        {"unhealthy", LEASE_HEALTH_UNHEALTHY},
        {"shutdown", LEASE_HEALTH_SHUTDOWN},
        {"Unhealthy", LEASE_HEALTH_NONE},
        {"healthy", LEASE_HEALTH_NONE},
        {"", LEASE_HEALTH_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char annotations[80];
        text_format(annotations, sizeof(annotations),
                    ",\"annotations\":{\"dpu.k8s.ovn.org/health\":\"%s\"}", rows[i].word);
        assert_int_equal(view_of(annotations, "").health, rows[i].health);
    }
}

static void set_agent(json_t *lease, const char *boot_id, const char *version, bool has_no_probe)
{
    const struct lease_agent agent = {boot_id, version, has_no_probe, false};
    lease_set_agent(lease, &agent);
}

TEST(only_a_kernels_boot_id_counts)
{
    static const char id[] = "0f3c1f00-1111-2222-3333-444455556666";
    static const char *const others[] = {"0f3c1f00-1111-2222-3333-44445555666", "short",
                                         "0f3c1f00-1111-2222-3333-4444555566667",
                                         "0f3c1f00-1111-2222-3333-44445555666\n"};
    CLEANUP(json) json_t *lease = parse("{\"metadata\":{" META "},\"spec\":{}}");
    set_agent(lease, id, "", false);
    assert_string_equal(view(lease).boot_id, id);
    lease_set_renewal(lease, NOW, "me"); /* stays */
    assert_string_equal(view(lease).boot_id, id);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        set_agent(lease, others[i], "", false);
        assert_string_equal(view(lease).boot_id, "");
    }
}

TEST(the_agent_says_its_version_and_that_it_asks_nobody)
{
    CLEANUP(json) json_t *lease = parse("{\"metadata\":{" META "},\"spec\":{}}");
    set_agent(lease, "", "", false);
    assert_null(json_object_get(json_object_get(lease, "metadata"), "annotations"));
    set_agent(lease, "", "1.2.3", false);
    assert_string_equal(view(lease).agent_version, "1.2.3");
    set_agent(lease, "", "1\n2", false); /* from outside: any text */
    assert_string_equal(view(lease).agent_version, "1 2");
    set_agent(lease, "", "", true);
    assert_true(view(lease).has_no_probe);
    set_agent(lease, "", "", false);
    assert_false(view(lease).has_no_probe);
}

/* ---- names ---------------------------------------------------------------------------------- */

#define WROTE(who, what) "{\"manager\":\"" who "\",\"fieldsV1\":{\"f:spec\":{\"f:" what "\":{}}}}"

TEST(one_writer_of_the_renewal_is_named)
{
    static const struct {
        const char *fields;
        const char *writer;
    } rows[] = {
        {"[" WROTE("a", "acquireTime") "," WROTE("b", "renewTime") "]", "b"},
        {"[" WROTE("a", "renewTime") "," WROTE("b", "renewTime") "]", NULL},
        {"[" WROTE("a", "acquireTime") "]", NULL},
        {"[null, 7, {\"manager\":\"a\"}]", NULL},
        {"null", NULL},
        {"{\"f:renewTime\":{}}", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(free)
        char *text = mem_format("{\"metadata\":{" META ",\"managedFields\":%s}}", rows[i].fields);
        CLEANUP(json) json_t *lease = parse(text);
        const char *writer = lease_renewed_by(lease);
        assert_true(rows[i].writer ? text_equal(writer, rows[i].writer) : !writer);
    }
}

/* ---- renewing ------------------------------------------------------------------------------- */

#define SIGN "\"dpu.k8s.ovn.org/renew-time\":\"2026-09-21T14:13:20.123456Z\""

TEST(first_renewal_fills_what_is_unset)
{
    CLEANUP(json) json_t *lease = parse("{\"metadata\":{" META "}}");
    lease_set_renewal(lease, NOW, "me");
    expect_json(lease, "{\"metadata\":{" META ",\"annotations\":{" SIGN "}},\"spec\":{"
                       "\"renewTime\":\"2026-09-21T14:13:20.123456Z\","
                       "\"acquireTime\":\"2026-09-21T14:13:20.123456Z\","
                       "\"holderIdentity\":\"me\"}}");
}

TEST(renewal_changes_renew_time_and_its_sign_and_nothing_else)
{
    CLEANUP(json)
    json_t *lease =
        parse("{\"kind\":\"Lease\",\"future\":[1,{\"a\":null}],\"metadata\":{" META
              ",\"labels\":{\"x\":\"y\"},\"annotations\":{\"z\":\"1\","
              "\"dpu.k8s.ovn.org/health\":\"shutdown\",\"dpu.k8s.ovn.org/health-message\":\"m\"},"
              "\"managedFields\":[{\"manager\":\"k\"}]},"
              "\"spec\":{\"strategy\":\"OldestEmulationVersion\",\"holderIdentity\":\"other\","
              "\"acquireTime\":\"2020-01-01T00:00:00.000000Z\",\"leaseTransitions\":3,"
              "\"leaseDurationSeconds\":41,\"renewTime\":\"2020-01-01T00:00:00.000000Z\"}}");
    lease_set_renewal(lease, NOW, "me");
    expect_json(lease,
                "{\"kind\":\"Lease\",\"future\":[1,{\"a\":null}],\"metadata\":{" META
                ",\"labels\":{\"x\":\"y\"},\"annotations\":{\"z\":\"1\"," SIGN "},"
                "\"managedFields\":[{\"manager\":\"k\"}]},"
                "\"spec\":{\"strategy\":\"OldestEmulationVersion\",\"holderIdentity\":\"other\","
                "\"acquireTime\":\"2020-01-01T00:00:00.000000Z\",\"leaseTransitions\":3,"
                "\"leaseDurationSeconds\":41,\"renewTime\":\"2026-09-21T14:13:20.123456Z\"}}");
}

TEST(stamp_changes_although_the_clock_stands_still)
{
    CLEANUP(json) json_t *lease = parse("{\"metadata\":{" META "}}");
    json_t *spec;
    lease_set_renewal(lease, NOW, "me");
    lease_set_renewal(lease, NOW, "me");
    spec = json_object_get(lease, "spec");
    assert_string_equal(json_text_get(spec, "renewTime"), "2026-09-21T14:13:20.123457Z");
    lease_set_renewal(lease, NOW, "me"); /* not the one before again */
    assert_string_equal(json_text_get(spec, "renewTime"), "2026-09-21T14:13:20.123458Z");
    const struct wall back = {NOW.ns - 59 * NS_PER_SEC};
    lease_set_renewal(lease, back, "me");
    assert_string_equal(json_text_get(spec, "renewTime"), "2026-09-21T14:13:20.123459Z");
    const struct wall far_back = {NOW.ns + 3000 - 60 * NS_PER_SEC};
    lease_set_renewal(lease, far_back, "me");
    assert_string_equal(json_text_get(spec, "renewTime"), "2026-09-21T14:12:20.123459Z");
}

TEST(health_is_written_and_removed_without_a_renewal)
{
    static const char *const before =
        "{\"metadata\":{" META "},\"spec\":{\"renewTime\":\"2020-01-01T00:00:00.000000Z\"}}";
    CLEANUP(json) json_t *lease = parse(before);
    lease_set_health(lease, LEASE_HEALTH_UNHEALTHY, "ovs\n\xff", NOW);
    expect_json(lease,
                "{\"metadata\":{" META ",\"annotations\":{\"dpu.k8s.ovn.org/health\":\"unhealthy\","
                "\"dpu.k8s.ovn.org/health-message\":\"ovs ?\","
                "\"dpu.k8s.ovn.org/health-renew-time\":\"2026-09-21T14:13:20.123456Z\"}},"
                "\"spec\":{\"renewTime\":\"2020-01-01T00:00:00.000000Z\"}}");
    lease_set_health(lease, LEASE_HEALTH_SHUTDOWN, "bye", NOW);
    const struct lease_view v = view(lease);
    assert_int_equal(v.health, LEASE_HEALTH_SHUTDOWN);
    assert_string_equal(v.health_message, "bye");
    assert_string_equal(v.health_stamp, "2026-09-21T14:13:20.123457Z"); /* the clock stood still */
    lease_set_health(lease, LEASE_HEALTH_NONE, "", NOW);
    expect_json(lease, before);
}

TEST(a_renewal_takes_whatever_is_left_of_a_report)
{
    static const char *const annotations[] = {
        "",
        ",\"annotations\":{}",
        ",\"annotations\":{\"dpu.k8s.ovn.org/health\":\"shutdown\"}",
        ",\"annotations\":{\"dpu.k8s.ovn.org/health-message\":\"m\"}",
        ",\"annotations\":{\"dpu.k8s.ovn.org/health-renew-time\":\"t\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(annotations); i++) {
        CLEANUP(free)
        char *text = mem_format("{\"metadata\":{" META "%s},\"spec\":{}}", annotations[i]);
        CLEANUP(json) json_t *lease = parse(text);
        lease_set_health(lease, LEASE_HEALTH_NONE, "", NOW);
        expect_json(lease, "{\"metadata\":{" META "},\"spec\":{}}");
    }
}

/* ---- whose renewTime it is ------------------------------------------------------------------- */

/* On a lease that the API server tracks no writer of. */
static bool is_by_host(const json_t *lease)
{
    const struct lease_view v = view(lease);
    return lease_is_by_host(&v, NULL, "host");
}

TEST(a_renewal_is_signed_until_another_follows_or_the_agent_ends)
{
    CLEANUP(json) json_t *lease = parse("{\"metadata\":{" META "}}");
    assert_string_equal(view(lease).sign, "");
    assert_false(is_by_host(lease));
    lease_set_renewal(lease, NOW, "me");
    assert_string_equal(view(lease).sign, view(lease).renew_stamp);
    assert_false(is_by_host(lease));
    lease_set_health(lease, LEASE_HEALTH_UNHEALTHY, "ovs", NOW);
    assert_false(is_by_host(lease));
    json_t *spec = json_object_get(lease, "spec");
    (void)json_object_set_new(spec, "renewTime", json_string("2026-09-21T14:13:25.000000Z"));
    assert_true(is_by_host(lease));
    lease_set_renewal(lease, NOW, "me");
    assert_false(is_by_host(lease));
    lease_set_health(lease, LEASE_HEALTH_SHUTDOWN, "", NOW);
    (void)json_object_set_new(spec, "renewTime", json_string("2026-09-21T14:13:25.000000Z"));
    assert_false(is_by_host(lease));
    lease_set_renewal(lease, NOW, "me");
    lease_set_agent(lease, &(struct lease_agent){"", "", false, .is_companion = true});
    assert_string_equal(view(lease).sign, "");
}

TEST(a_sign_tells_whoever_is_named)
{
    static const struct {
        const char *sign;
        const char *writer;
        bool is_by_host;
    } rows[] = {{"", NULL, false},  {"", "host", true},   {"", "dpu", false},
                {"a", NULL, false}, {"a", "host", false}, {"a", "dpu", false},
                {"b", NULL, true},  {"b", "host", true},  {"b", "dpu", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct lease_view v = {.renew_stamp = "a", .renew_time_valid = true};
        (void)text_copy(v.sign, sizeof(v.sign), rows[i].sign);
        assert_int_equal(lease_is_by_host(&v, rows[i].writer, "host"), rows[i].is_by_host);
    }
}

/* ---- as text --------------------------------------------------------------------------------- */

#define TEXT_OF(version, extra, acquired, renewed)                                                 \
    "{\"metadata\":{\"name\":\"l\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":"         \
    "\"" version "\"" extra "},\"spec\":{\"acquireTime\":" acquired ",\"renewTime\":\"" renewed    \
    "\",\"unknown\":[1,2]}}"
#define STAMP(second)         "2026-11-20T10:00:" second ".000000Z"
#define TIMES(second)         ",\"managedFields\":[{\"time\":\"2026-11-20T10:00:" second "Z\"},{}]"
#define TEXT(version, second) TEXT_OF(version, TIMES(second), "\"x\"", STAMP(second))
#define KEPT                  TEXT("1019", "09")

#define SIGNED(version, sign, second)                                                              \
    TEXT_OF(version, ",\"annotations\":{\"dpu.k8s.ovn.org/renew-time\":\"" sign "\"}", "\"x\"",    \
            STAMP(second))

static bool matches(const char *kept, const char *text, const char *stamp)
{
    struct lease_text t = {.text = NULL};
    (void)lease_text_keep(&t, kept, strlen(kept));
    bool is_like = lease_text_matches(&t, text, strlen(text), stamp);
    lease_text_fini(&t);
    return is_like;
}

TEST(an_answer_that_differs_in_version_and_times_is_like_the_last)
{
    assert_true(matches(KEPT, KEPT, STAMP("09")));
    assert_true(matches(KEPT, TEXT("2020", "19"), STAMP("19")));
    assert_true(matches(KEPT, TEXT_OF("2020", TIMES("09"), "\"x\"", STAMP("19")), STAMP("19")));
}

/* Whoever else has renewed leaves the sign as it is. */
TEST(an_answer_is_like_the_last_if_its_sign_is_of_its_renewal)
{
    const char *kept = SIGNED("1019", STAMP("09"), "09");
    assert_true(matches(kept, SIGNED("2020", STAMP("19"), "19"), STAMP("19")));
    assert_false(matches(kept, SIGNED("2020", STAMP("09"), "19"), STAMP("19")));
    assert_false(matches(SIGNED("1019", "2026", "09"), SIGNED("2020", "2026", "19"), STAMP("19")));
}

TEST(an_answer_that_differs_in_anything_else_is_not_like_the_last)
{
    static const char *const texts[] = {
        TEXT("10190", "09"),
        TEXT("101x", "09"),
        TEXT("1019", "0Z"),
        KEPT " ",
        "",
        "{}",
        TEXT_OF("1019", TIMES("09"), "\"y\"", STAMP("09")),
        TEXT_OF("1019", TIMES("0\\"), "\"x\"", STAMP("09")),
        TEXT_OF("1019", ",\"managedFields\":[{\"time\":\"2026-11-20T10:00:09Z\"},[]]", "\"x\"",
                STAMP("09"))};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_false(matches(KEPT, texts[i], STAMP("09")));
    }
    assert_false(matches(KEPT, KEPT, STAMP("19"))); /* whatever was sent, it is not stored */
    assert_false(matches(KEPT, KEPT, ""));
}

TEST(a_text_whose_places_are_uncertain_is_not_kept)
{
    static const char *const texts[] = {
        "",
        "{}",
        KEPT "x",
        TEXT_OF("1019", "", "null", STAMP("09")),
        TEXT_OF("1019", "", "\"\"", STAMP("09")),
        TEXT_OF("\\u00319", "", "\"x\"", STAMP("09")),
        TEXT_OF("1019", ",\"managedFields\":[{\"time\":9}]", "\"x\"", STAMP("09")),
        TEXT_OF("1019",
                ",\"managedFields\":[{\"time\":\"1\"},{\"time\":\"2\"},{\"time\":\"3\"},{\"time\":"
                "\"4\"},"
                "{\"time\":\"5\"},{\"time\":\"6\"},{\"time\":\"7\"}]",
                "\"x\"", STAMP("09"))};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct lease_text t = {.text = NULL};
        assert_false(lease_text_keep(&t, texts[i], strlen(texts[i])));
        assert_null(t.text);
    }
}

TEST(a_renewal_in_place_changes_version_and_time_and_sign_only)
{
    struct lease_text t = {.text = NULL};
    const char *kept = SIGNED("1019", STAMP("09"), "09");
    assert_true(lease_text_keep(&t, kept, strlen(kept)));
    assert_true(lease_text_renew(&t, "2020", STAMP("19")));
    assert_string_equal(t.text, SIGNED("2020", STAMP("19"), "19"));
    assert_false(lease_text_renew(&t, "20200", STAMP("19")));
    assert_false(lease_text_renew(&t, "2020", "2026-11-20T10:00:19Z"));
    CLEANUP(json) json_t *lease = parse(kept);
    lease_text_show(&t, SIGNED("3030", STAMP("29"), "29"), lease);
    expect_json(lease, SIGNED("3030", STAMP("29"), "29"));
    lease_text_fini(&t);
    assert_false(lease_text_renew(&t, "", ""));
    assert_true(lease_text_keep(&t, KEPT, strlen(KEPT)));
    assert_false(lease_text_renew(&t, "2020", STAMP("19"))); /* it has no place for the sign */
    CLEANUP(json) json_t *unsigned_lease = parse(KEPT);
    lease_text_show(&t, TEXT("3030", "29"), unsigned_lease);
    expect_json(unsigned_lease, TEXT_OF("3030", TIMES("09"), "\"x\"", STAMP("29")));
    lease_text_fini(&t);
}

/* ---- keeping -------------------------------------------------------------------------------- */

TEST(new_lease_has_no_renew_time_and_is_in_order)
{
    CLEANUP(json) json_t *lease = lease_new("ns", "ovn-dpu-w1", "me", 40, OWNER);
    expect_json(lease,
                "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"
                "\"name\":\"ovn-dpu-w1\",\"namespace\":\"ns\",\"ownerReferences\":[{"
                "\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"w1\",\"uid\":\"node-uid\","
                "\"controller\":false,\"blockOwnerDeletion\":false}]},"
                "\"spec\":{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":40}}");
    struct lease_drift drift = lease_check(lease, "me", 40, OWNER);
    assert_false(drift.duration || drift.owner || drift.holder_empty || drift.holder_foreign);
}

TEST(holder_and_duration_drift_is_named)
{
    CLEANUP(json) json_t *lease = lease_new("ns", "ovn-dpu-w1", "me", 40, OWNER);
    assert_true(lease_check(lease, "me", 41, OWNER).duration);
    assert_true(lease_check(lease, "you", 40, OWNER).holder_foreign);
    json_t *spec = json_object_get(lease, "spec");
    assert_int_equal(json_object_del(spec, "holderIdentity"), 0);
    assert_true(lease_check(lease, "me", 40, OWNER).holder_empty);
    assert_false(lease_check(lease, "me", 40, OWNER).holder_foreign);
}

/* As the API server takes the patch: no member in it is null. It has a version only where it writes
 * over what somebody else may have changed. */
static void mend(json_t *lease)
{
    CLEANUP(json) json_t *patch = lease_repair(lease, "me", 40, OWNER);
    struct lease_drift drift = lease_check(lease, "me", 40, OWNER);
    const char *version = json_text_get(json_object_get(patch, "metadata"), "resourceVersion");
    assert_int_equal(text_equal(version, "7"), drift.owner || drift.holder_empty);
    assert_int_equal(json_object_update_recursive(lease, patch), 0);
}

TEST(owner_drift_is_found_and_mended)
{
#define REF(uid, controller, block)                                                                \
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"w1\",\"uid\":\"" uid                      \
    "\",\"controller\":" controller ",\"blockOwnerDeletion\":" block "}"
#define OURS REF("node-uid", "false", "false")
#define OLD  REF("old-uid", "true", "true")
#define ELSE "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"w\",\"uid\":\"3\"}"
#define OTHER                                                                                      \
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"X\",\"name\":\"x\",\"uid\":\"1\",\"controller\":true}"
    static const struct {
        const char *refs;
        bool drift;
        const char *mended;
    } rows[] = {
        {"null", true, "[" OURS "]"},
        {"[]", true, "[" OURS "]"},
        {"[" OURS "]", false, "[" OURS "]"},
        /* Upstream's host made it: its DPU side, with the old UID, could not renew beside that. */
        {"[" REF("node-uid", "true", "false") "]", true, "[" OURS "]"},
        {"[" REF("node-uid", "false", "true") "]", true, "[" OURS "]"},
        {"[" OLD "]", true, "[" OURS "]"},
        {"[" OURS "," OLD "]", false, "[" OURS "," OLD "]"},
        {"[" OTHER "," OURS "]", false, "[" OTHER "," OURS "]"},
        {"[" OTHER "]", true, "[" OURS "," OTHER "]"},
        {"[" ELSE "]", true, "[" OURS "]"},
        {"[" OURS "," ELSE "," OTHER "]", true, "[" OURS "," OTHER "]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *lease = lease_new("ns", "ovn-dpu-w1", "me", 40, OWNER);
        json_t *meta = json_object_get(lease, "metadata");
        assert_int_equal(json_object_set_new(meta, "resourceVersion", json_string("7")), 0);
        assert_int_equal(json_object_set_new(meta, "ownerReferences", parse(rows[i].refs)), 0);
        assert_int_equal(lease_check(lease, "me", 40, OWNER).owner, rows[i].drift);
        mend(lease);
        expect_json(json_object_get(meta, "ownerReferences"), rows[i].mended);
        assert_false(lease_check(lease, "me", 40, OWNER).owner);
    }
}

TEST(repair_fills_duration_and_holder_but_never_renews)
{
    CLEANUP(json)
    json_t *lease = parse("{\"metadata\":{" META "},\"spec\":{\"leaseDurationSeconds\":1,"
                          "\"renewTime\":\"2020-01-01T00:00:00.000000Z\"}}");
    mend(lease);
    expect_json(json_object_get(lease, "spec"),
                "{\"leaseDurationSeconds\":40,\"holderIdentity\":\"me\","
                "\"renewTime\":\"2020-01-01T00:00:00.000000Z\"}");
    json_t *spec = json_object_get(lease, "spec");
    assert_int_equal(json_object_set_new(spec, "holderIdentity", json_string("you")), 0);
    mend(lease);
    assert_true(lease_check(lease, "me", 40, OWNER).holder_foreign);
}

/* ---- pace ---- */

static const int64_t INTERVALS_MS[] = {100, 200, 1000, 2000, 3000, 10000, 60000};

TEST(the_grace_outlasts_a_whole_retry_at_every_interval)
{
    for (size_t i = 0; i < ARRAY_LEN(INTERVALS_MS); i++) {
        int64_t r = INTERVALS_MS[i] * NS_PER_MS;
        assert_true(lease_pace_grace_ns(r) > lease_pace_slow_deadline_ns(r) + r);
        assert_true(lease_pace_grace_ns(r) > 3 * lease_pace_request_ns(r) + r);
        assert_true(lease_pace_request_ns(r) <= r);
        assert_true(lease_pace_grace_ns(r) >= 2 * r);
        assert_true(lease_pace_slow_deadline_ns(r) >= lease_pace_deadline_ns(r));
    }
}

TEST(a_deadline_gives_a_slow_server_one_second_and_five_at_most)
{
    assert_int_equal(lease_pace_deadline_ns(100 * NS_PER_MS), NS_PER_SEC);
    assert_int_equal(lease_pace_deadline_ns(2 * NS_PER_SEC), 4 * NS_PER_SEC);
    assert_int_equal(lease_pace_deadline_ns(10 * NS_PER_SEC), 5 * NS_PER_SEC);
    assert_int_equal(lease_pace_deadline_ns(INT64_MAX), 5 * NS_PER_SEC);
}
