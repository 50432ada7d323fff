/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/node.h"

#include "base/clock.h"
#include "base/text.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(one_file_is_read_as_a_runtime_would)
{
    static const struct {
        const char *text;
        struct cni_entry entry;
    } rows[] = {
        {"{\"name\":\"n\",\"type\":\"t\"}", {.network = "n", .types = "t"}},
        {"{\"name\":\"n\",\"type\":\"t\",\"cniVersion\":\"1.1.0\"}",
         {.network = "n", .types = "t", .version = "1.1.0", .speaks_status = true}},
        {"{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"cniVersions\":[\"1.0.0\",\"1.1.0\"],"
         "\"plugins\":[{\"type\":\"dpu-gate\",\"delegateConf\":\"/c\",\"readinessFile\":\"/r\"}]}",
         {.network = "n",
          .types = "dpu-gate",
          .version = "1.1.0",
          .speaks_status = true,
          .is_gated = true,
          .delegate_conf = "/c",
          .readiness_file = "/r"}},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\"},{\"type\":\"bridge\"}]}",
         {.network = "n",
          .types = "dpu-gate, bridge",
          .is_gated = true,
          .delegate_type = "bridge"}},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"bridge\"},{\"type\":\"dpu-gate\"}]}",
         {.network = "n", .types = "bridge, dpu-gate"}},
        {"{\"name\":\"n\",\"type\":\"dpu-gate\",\"delegate\":{\"type\":\"x\"}}",
         {.network = "n", .types = "dpu-gate", .is_gated = true, .delegate_type = "x"}},
        {"{\"name\":\"m\",\"type\":\"multus-shim\",\"clusterNetwork\":\"n\"}",
         {.network = "m", .types = "multus-shim", .is_multus = true, .cluster_network = "n"}},
        {"{\"name\":\"m\",\"type\":\"multus\",\"delegates\":[{\"type\":\"a\"},{\"type\":\"b\"}]}",
         {.network = "m", .types = "multus", .is_multus = true, .first_delegate = "a"}},
        /* Versions are numbers, not texts. */
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"t\"}],\"cniVersions\":[\"1.10.0\",\"1.9.0\"]}",
         {.network = "n", .types = "t", .version = "1.10.0", .speaks_status = true}},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"t\"}],\"cniVersions\":[1,\"x\",\"0.4.0\"]}",
         {.problem = "its cniVersions holds more than texts",
          .network = "n",
          .types = "t",
          .version = "0.4.0"}},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"t\"}],\"cniVersions\":\"1.1.0\"}",
         {.problem = "its cniVersions is no list", .network = "n", .types = "t"}},
        {"{\"name\":\"n\",\"type\":\"t\",\"cniVersion\":\"1.0.0\",\"cniVersions\":[\"1.1.0\"]}",
         {.network = "n", .types = "t", .version = "1.0.0"}}, /* only a list has several */
        {"{\"name\":\"\\u001b[31m\",\"type\":\"a\\nb\"}", {.network = " [31m", .types = "a b"}},
        /* What none can take. */
        {"[]", {.problem = "it is not a JSON object"}},
        {"{\"type\":\"t\"}", {.problem = "it names no network", .types = "t"}},
        {"{\"name\":\"n\"}", {.problem = "a plugin has no type", .network = "n"}},
        {"{\"name\":\"n\",\"plugins\":[]}", {.problem = "it has no plugins", .network = "n"}},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\"},{}]}",
         {.problem = "a plugin has no type",
          .network = "n",
          .types = "dpu-gate",
          .is_gated = true}},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"},{}]}",
         {.problem = "a plugin has no type", .network = "n", .types = "a"}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct cni_entry *want = &rows[i].entry;
        struct cni_entry seen = {0};
        cni_entry_read(rows[i].text, strlen(rows[i].text), &seen);
        assert_string_equal(seen.problem, want->problem);
        assert_string_equal(seen.network, want->network);
        assert_string_equal(seen.types, want->types);
        assert_string_equal(seen.version, want->version);
        assert_string_equal(seen.delegate_conf, want->delegate_conf);
        assert_string_equal(seen.delegate_type, want->delegate_type);
        assert_string_equal(seen.readiness_file, want->readiness_file);
        assert_string_equal(seen.cluster_network, want->cluster_network);
        assert_string_equal(seen.first_delegate, want->first_delegate);
        assert_int_equal(seen.is_gated, want->is_gated);
        assert_int_equal(seen.is_multus, want->is_multus);
        assert_int_equal(seen.speaks_status, want->speaks_status);
    }
}

TEST(long_lists_are_cut_between_characters)
{
    char text[4096];
    char again[CNI_SCAN_TEXT_BYTES];
    for (int before = 1; before <= 3; before++) { /* bytes, so that one way cuts each character */
        struct cni_entry seen = {0};
        int used = snprintf(text, sizeof(text), "{\"name\":\"n\",\"plugins\":[{\"type\":\"%.*s\"}",
                            7 + before, "xxxxxxxxxx");
        for (int i = 0; i < 40; i++) {
            used += snprintf(text + used, sizeof(text) - (size_t)used,
                             ",{\"type\":\"\xe2\x82\xac\xe2\x82\xac\"}");
        }
        (void)snprintf(text + used, sizeof(text) - (size_t)used, "]}");
        cni_entry_read(text, strlen(text), &seen);
        text_sanitize(again, sizeof(again), seen.types, strlen(seen.types));
        assert_string_equal(again, seen.types);
    }
}

TEST(broken_json_is_a_problem_and_no_more)
{
    struct cni_entry seen = {0};
    cni_entry_read("{\"name\":", 8, &seen);
    assert_true(seen.problem[0] != '\0' && !seen.is_gated);
}

/* ---- a directory ----------------------------------------------------------------------------- */

static void put(const char *dir, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void take_away(const char *dir, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(unlink(path), 0);
}

TEST(the_first_that_a_runtime_can_take_counts)
{
    static const char *const names[] = {"00-broken.conf",  "05-b.conflist", "10-a.json",
                                        ".01-hidden.conf", "README",        "02-x.conf.bak"};
    static const char *const texts[] = {"{",
                                        "{\"name\":\"b\",\"plugins\":[{\"type\":\"dpu-gate\"}]}",
                                        "{\"name\":\"a\",\"type\":\"t\"}",
                                        "{}",
                                        "x",
                                        "{}"};
    char dir[] = "/tmp/test-cni-scan-XXXXXX";
    struct cni_scan *scan = calloc(1, sizeof(*scan));
    assert_non_null(scan);
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        put(dir, names[i], texts[i]);
    }
    cni_scan_directory(dir, scan);
    assert_string_equal(scan->problem, "");
    assert_int_equal(scan->count, 4);
    assert_string_equal(scan->entries[0].file,
                        ".01-hidden.conf"); /* to a runtime one like others */
    assert_string_equal(scan->entries[1].file, "00-broken.conf");
    assert_string_equal(cni_scan_first(scan)->file, "05-b.conflist");
    assert_ptr_equal(cni_scan_first(scan), cni_scan_gated(scan));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        take_away(dir, names[i]);
    }
    cni_scan_directory(dir, scan);
    assert_int_equal(scan->count, 0);
    assert_null(cni_scan_first(scan));
    assert_null(cni_scan_gated(scan));
    assert_int_equal(rmdir(dir), 0);
    cni_scan_directory(dir, scan);
    assert_non_null(strstr(scan->problem, dir));
    free(scan);
}

TEST(a_file_is_taken_by_its_name)
{
    static const char list[] = "{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\"}]}";
    static const char plugin[] = "{\"name\":\"n\",\"type\":\"t\"}";
    char dir[] = "/tmp/test-cni-scan-XXXXXX";
    char sub[64];
    struct cni_scan *scan = calloc(1, sizeof(*scan));
    assert_non_null(scan);
    assert_non_null(mkdtemp(dir));
    (void)snprintf(sub, sizeof(sub), "%s/00-folder.conf", dir);
    assert_int_equal(mkdir(sub, 0700), 0);
    put(dir, "01-a.conf", list);
    put(dir, "02-b.json", list);
    put(dir, "03-c.conflist", plugin);
    put(dir, "04-d.conflist", list);
    cni_scan_directory(dir, scan);
    assert_int_equal(scan->count, 4);
    assert_non_null(strstr(scan->entries[0].problem, "has to be in a .conflist"));
    assert_non_null(strstr(scan->entries[1].problem, "has to be in a .conflist"));
    assert_non_null(strstr(scan->entries[2].problem, "has to have a list"));
    assert_string_equal(cni_scan_first(scan)->file, "04-d.conflist");
    take_away(dir, "01-a.conf");
    take_away(dir, "02-b.json");
    take_away(dir, "03-c.conflist");
    take_away(dir, "04-d.conflist");
    assert_int_equal(rmdir(sub), 0);
    assert_int_equal(rmdir(dir), 0);
    free(scan);
}

TEST(more_files_than_anyone_needs_are_counted)
{
    char dir[] = "/tmp/test-cni-scan-XXXXXX";
    char name[32];
    struct cni_scan *scan = calloc(1, sizeof(*scan));
    assert_non_null(scan);
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < CNI_SCAN_MAX + 3; i++) {
        (void)snprintf(name, sizeof(name), "%02d.conf", i);
        put(dir, name, "{}");
    }
    cni_scan_directory(dir, scan);
    assert_int_equal(scan->count, CNI_SCAN_MAX);
    assert_int_equal(scan->more, 3);
    for (int i = 0; i < CNI_SCAN_MAX + 3; i++) {
        (void)snprintf(name, sizeof(name), "%02d.conf", i);
        take_away(dir, name);
    }
    assert_int_equal(rmdir(dir), 0);
    free(scan);
}

TEST(an_answer_counts_if_it_names_1_1_0)
{
    static const struct {
        const char *text;
        const char *problem; /* NULL: none */
    } rows[] = {
        {"{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"1.0.0\",\"1.1.0\"]}", NULL},
        {"{\"supportedVersions\":[\"1.0.0\"]}", "does not speak"},
        {"{\"supportedVersions\":[1.1,null]}", "does not speak"},
        {"{\"supportedVersions\":\"1.1.0\"}", "does not speak"},
        {"{\"cniVersion\":\"1.1.0\"}", "does not speak"},
        {"[]", "does not speak"},
        {"", "answer to VERSION"},
        {"usage: ...", "answer to VERSION"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err e = ERR_INIT;
        int rc = cni_probe_judge(rows[i].text, strlen(rows[i].text), &e);
        assert_int_equal(rc == 0, rows[i].problem == NULL);
        assert_true(rc == 0 || strstr(e.msg, rows[i].problem));
    }
}

TEST(a_program_is_asked_and_never_waited_for_long)
{
    static const struct {
        const char *script;
        const char *problem; /* NULL: none */
    } rows[] = {
        {"#!/bin/sh\n[ $CNI_COMMAND = VERSION ] && echo '{\"supportedVersions\":[\"1.1.0\"]}'\n",
         NULL},
        {"#!/bin/sh\nexec sleep 60\n", "did not answer"},
        {"#!/bin/sh\nexit 1\n", "answer to VERSION"},
        {"#!/bin/sh\nexec cat /dev/zero\n", "larger"},
        {"\177ELF of another machine", "running it"},
    };
    char dir[] = "/tmp/test-cni-probe-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/gate", dir);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err e = ERR_INIT;
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        assert_true(fputs(rows[i].script, file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(chmod(path, 0700), 0);
        int rc = cni_probe_version(path, &e);
        assert_int_equal(rc == 0, rows[i].problem == NULL);
        assert_true(rc == 0 || strstr(e.msg, rows[i].problem));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Made-up records in a temporary file: what is the answer, since when, and what turns it next. */

enum { NEVER = INT32_MAX, NOT_KNOWN = INT32_MIN };

struct row {
    enum readiness_state state;
    bool admit;
    enum readiness_reason reason;
    int valid_s; /* from now; NEVER */
    int writer_s;
    int hold_s;
    enum node_answer answer;
    enum readiness_reason seen;
    int since_s; /* from now; NOT_KNOWN */
    int flips_s; /* from now; NEVER */
};

static struct mono from_now(struct mono now, int s)
{
    return s == NEVER ? MONO_NEVER : mono_add(now, s * NS_PER_SEC);
}

static void write_record(const char *path, const struct row *row, struct mono now)
{
    struct record r = {
        .node = "worker-1",
        .verdict = {.state = row->state,
                    .admit = row->admit,
                    .reason = row->reason,
                    .message = "said",
                    .observed = from_now(now, -20),
                    .lease_until = from_now(now, row->valid_s),
                    .transition = {clock_wall_now().ns - 90 * NS_PER_SEC},
                    .lease = {.ns = "ovn-kubernetes", .name = "ovn-dpu-worker-1"}},
        .writer_until = from_now(now, row->writer_s),
        .hold_until = from_now(now, row->hold_s),
        .pid = 1, /* lives, and is not dpu-host-agent */
    };
    char page[RECORD_PAGE_BYTES];
    assert_int_equal(clock_boot_id(r.boot_id, NULL), 0);
    assert_int_equal(record_encode(&r, page, NULL), 0);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(page, sizeof(page), 1, file), 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0644), 0);
}

static bool is_near(struct mono t, struct mono now, int s)
{
    int64_t off_ns = mono_since(t, mono_add(now, s * NS_PER_SEC));
    return off_ns > -2 * NS_PER_SEC && off_ns < 2 * NS_PER_SEC;
}

static void check_row(struct admin_config *config, const struct row *row)
{
    struct node_snapshot look;
    struct mono now = clock_mono_now();
    write_record(config->readiness_file, row, now);
    admin_read_record(config);
    node_snapshot_take(config, &look);
    assert_true(look.has_record);
    assert_int_equal(look.answer, row->answer);
    assert_int_equal(look.gate.reason, row->seen);
    assert_false(look.writer_exists);
    assert_true(row->since_s == NOT_KNOWN ? look.since.ns == 0
                                          : is_near(look.since, now, row->since_s));
    assert_true(row->flips_s == NEVER ? mono_is_never(look.flips_at)
                                      : is_near(look.flips_at, now, row->flips_s));
    assert_true(node_message(&look)[0] != '\0');
}

TEST(a_record_gives_an_answer)
{
    static const struct row rows[] = {
        {READINESS_READY, true, REASON_LEASE_RENEWED, 20, 30, 330, NODE_READY, REASON_LEASE_RENEWED,
         -90, 30},
        /* The lease ran out, and its writer lives: it alone tells. */
        {READINESS_READY, true, REASON_LEASE_RENEWED, -5, 30, 330, NODE_READY, REASON_LEASE_RENEWED,
         -90, 30},
        /* Its writer is dead: held, since it became so. */
        {READINESS_READY, true, REASON_LEASE_RENEWED, -50, -30, 100, NODE_UNKNOWN,
         REASON_LEASE_RENEWED, -30, 100},
        {READINESS_READY, true, REASON_LEASE_RENEWED, -350, -330, -30, NODE_UNKNOWN,
         REASON_RECORD_STALE, -30, NEVER},
        {READINESS_READY, true, REASON_HEALTH_CHECK_DISABLED, NEVER, 30, NEVER, NODE_READY,
         REASON_HEALTH_CHECK_DISABLED, -90, 30},
        {READINESS_NOT_READY, false, REASON_LEASE_EXPIRED, -50, 30, 330, NODE_NOT_READY,
         REASON_LEASE_EXPIRED, -90, NEVER},
        {READINESS_NOT_READY, false, REASON_DPU_SHUTDOWN, 20, -30, -1, NODE_NOT_READY,
         REASON_DPU_SHUTDOWN, -90, NEVER},
        {READINESS_UNKNOWN, true, REASON_API_SERVER_UNREACHABLE, 20, 30, 330, NODE_UNKNOWN,
         REASON_API_SERVER_UNREACHABLE, -90, 30},
        {READINESS_UNKNOWN, false, REASON_AWAITING_FIRST_RENEWAL, 20, 30, 330, NODE_UNKNOWN,
         REASON_AWAITING_FIRST_RENEWAL, -90, NEVER},
    };
    char path[] = "/tmp/test-node-look-XXXXXX";
    int fd = mkstemp(path);
    struct admin_config config = {.readiness_file = path};
    assert_true(fd >= 0);
    (void)close(fd);
    if (clock_mono_now().ns < 400 * NS_PER_SEC) {
        skip(); /* a machine that has just started has no such past */
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_row(&config, &rows[i]);
    }
    assert_int_equal(unlink(path), 0);
}

TEST(without_a_record_it_is_named_what_is_missing)
{
    char path[] = "/nonexistent/readiness.json";
    char root[] = "/host";
    struct admin_config config = {.readiness_file = path, .root = root};
    struct node_snapshot look;
    admin_read_record(&config);
    node_snapshot_take(&config, &look);
    assert_false(look.has_record);
    assert_string_equal(look.path, "/host/nonexistent/readiness.json");
    assert_int_equal(look.answer, NODE_UNKNOWN);
    assert_int_equal(look.gate.reason, REASON_RECORD_MISSING);
    assert_int_equal(look.since.ns, 0);
    assert_true(mono_is_never(look.flips_at));
    assert_non_null(strstr(node_message(&look), look.path));
}
