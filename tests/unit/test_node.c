/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/node.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/text.h"
#include "dpuctl/print.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *entry_of(const char *text)
{
    json_t *entry = cni_entry_json(text, strlen(text));
    assert_non_null(entry);
    return entry;
}

TEST(one_file_is_read_as_a_runtime_would)
{
    static const struct {
        const char *text;
        const char *types;
        const char *says;
    } rows[] = {
        {"{\"name\":\"n\",\"type\":\"t\"}", "t", "network=n !version !isGated !isMultus !isList"},
        {"{\"name\":\"n\",\"type\":\"t\",\"cniVersion\":\"1.1.0\"}", "t",
         "version=1.1.0 speaksStatus"},
        {"{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"cniVersions\":[\"1.0.0\",\"1.1.0\"],"
         "\"plugins\":[{\"type\":\"dpu-gate\",\"delegateConf\":\"/c\",\"readinessFile\":\"/r\"}]}",
         "dpu-gate",
         "version=1.1.0 speaksStatus isGated isWrapping delegateConf=/c readinessFile=/r isList"},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\"},{\"type\":\"bridge\"}]}",
         "dpu-gate, bridge", "isGated delegateType=bridge !isWrapping"},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"bridge\"},{\"type\":\"dpu-gate\"}]}",
         "bridge, dpu-gate", "!isGated !delegateType"},
        {"{\"name\":\"n\",\"type\":\"dpu-gate\",\"delegate\":{\"type\":\"x\"}}", "dpu-gate",
         "isGated isWrapping delegateType=x"},
        {"{\"name\":\"m\",\"type\":\"multus-shim\",\"clusterNetwork\":\"n\"}", "multus-shim",
         "isMultus clusterNetwork=n"},
        {"{\"name\":\"m\",\"type\":\"multus\",\"delegates\":[{\"type\":\"a\"},{\"type\":\"b\"}]}",
         "multus", "isMultus firstDelegate=a"},
        /* Versions are numbers, not texts. */
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"t\"}],\"cniVersions\":[\"1.10.0\",\"1.9.0\"]}",
         "t", "version=1.10.0 speaksStatus"},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"t\"}],\"cniVersions\":[1,\"x\",\"0.4.0\"]}", "t",
         "problem version=0.4.0 !speaksStatus"},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"t\"}],\"cniVersions\":\"1.1.0\"}", "t",
         "problem !version"},
        {"{\"name\":\"n\",\"type\":\"t\",\"cniVersion\":\"1.0.0\",\"cniVersions\":[\"1.1.0\"]}",
         "t", "version=1.0.0 !speaksStatus"}, /* only a list has several */
        {"{\"name\":\"\\u001bm\",\"type\":\"a\\nb\"}", "a b", "network"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char types[64];
        CLEANUP(json) json_t *entry = entry_of(rows[i].text);
        print_fill(entry, "{types}", types, sizeof(types));
        assert_string_equal(types, rows[i].types);
        assert_true(print_holds(entry, rows[i].says));
        assert_int_equal(print_holds(entry, "problem"), strncmp(rows[i].says, "problem", 7) == 0);
        assert_null(strchr(json_string_value(json_object_get(entry, "network")), '\033'));
    }
}

TEST(what_no_runtime_can_take_has_a_problem)
{
    static const char *const rows[][2] = {
        {"[]", "it is not a JSON object"},
        {"{\"name\":", "not valid JSON"},
        {"{\"type\":\"t\"}", "it names no network"},
        {"{\"name\":\"n\"}", "a plugin has no type"},
        {"{\"name\":\"n\",\"plugins\":[]}", "it has no plugins"},
        {"{\"name\":\"n\",\"plugins\":[{\"type\":\"dpu-gate\"},{}]}", "a plugin has no type"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(json) json_t *entry = entry_of(rows[i][0]);
        assert_non_null(strstr(json_string_value(json_object_get(entry, "problem")), rows[i][1]));
    }
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

static const char *member(const json_t *scan, const char *path, char out[static 128])
{
    print_fill(scan, path, out, 128);
    return out;
}

TEST(the_first_that_a_runtime_can_take_counts)
{
    static const char list[] = "{\"name\":\"b\",\"plugins\":[{\"type\":\"dpu-gate\"}]}";
    static const char plugin[] = "{\"name\":\"a\",\"type\":\"t\"}";
    static const struct {
        const char *name, *text;
        const char *problem; /* NULL: none; "": passed over */
    } files[] = {
        {".01-hidden.conf", "{}", "a plugin has no type"}, /* to a runtime one like others */
        {"00-broken.conf", "{", "not valid JSON"},
        {"01-a.conf", list, "has to be in a .conflist"},
        {"02-b.json", list, "has to be in a .conflist"},
        {"03-c.conflist", plugin, "has to have a list"},
        {"05-a.json", plugin, NULL},
        {"06-b.conflist", list, NULL},
        {"README", "x", ""},
        {"02-x.conf.bak", "{}", ""},
    };
    char dir[] = "/tmp/test-cni-scan-XXXXXX";
    char sub[64];
    char text[128];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(sub, sizeof(sub), "%s/00-folder.conf", dir);
    assert_int_equal(mkdir(sub, 0700), 0);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        put(dir, files[i].name, files[i].text);
    }
    CLEANUP(json) json_t *scan = cni_scan_json(dir);
    assert_int_equal(json_array_size(json_object_get(scan, "files")), 7);
    for (size_t i = 0; i < 7; i++) {
        const json_t *entry = json_array_get(json_object_get(scan, "files"), i);
        assert_string_equal(member(entry, "{file}", text), files[i].name);
        (void)member(entry, "{problem}", text);
        assert_true(files[i].problem ? strstr(text, files[i].problem) != NULL : text[0] == '\0');
    }
    assert_string_equal(member(scan, "{first.file} {gate.file}", text), "05-a.json 06-b.conflist");
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        take_away(dir, files[i].name);
    }
    CLEANUP(json) json_t *none = cni_scan_json(dir);
    assert_true(print_holds(none, "!problem !files !first !gate"));
    assert_int_equal(rmdir(sub), 0);
    assert_int_equal(rmdir(dir), 0);
    CLEANUP(json) json_t *gone = cni_scan_json(dir);
    assert_non_null(strstr(member(gone, "{problem}", text), dir));
}

TEST(more_files_than_anyone_needs_are_counted)
{
    char dir[] = "/tmp/test-cni-scan-XXXXXX";
    char name[32];
    char text[128];
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < CNI_SCAN_MAX + 3; i++) {
        (void)snprintf(name, sizeof(name), "%02d.conf", i);
        put(dir, name, "{}");
    }
    CLEANUP(json) json_t *scan = cni_scan_json(dir);
    assert_int_equal(json_array_size(json_object_get(scan, "files")), CNI_SCAN_MAX);
    assert_string_equal(member(scan, "{more}", text), "3");
    for (int i = 0; i < CNI_SCAN_MAX + 3; i++) {
        (void)snprintf(name, sizeof(name), "%02d.conf", i);
        take_away(dir, name);
    }
    assert_int_equal(rmdir(dir), 0);
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

/* Made-up records in a temporary file: what is the answer, and since when. */

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
    node_snapshot_take(config, &look);
    assert_true(look.has_record);
    assert_int_equal(look.answer, row->answer);
    assert_int_equal(look.gate.reason, row->seen);
    assert_false(look.writer_exists);
    assert_true(row->since_s == NOT_KNOWN ? look.since.ns == 0
                                          : is_near(look.since, now, row->since_s));
    assert_true(node_message(&look)[0] != '\0');
}

TEST(a_record_gives_an_answer)
{
    static const struct row rows[] = {
        {READINESS_READY, true, REASON_LEASE_RENEWED, 20, 30, 330, NODE_READY, REASON_LEASE_RENEWED,
         -90},
        /* The lease ran out, and its writer lives: it alone tells. */
        {READINESS_READY, true, REASON_LEASE_RENEWED, -5, 30, 330, NODE_READY, REASON_LEASE_RENEWED,
         -90},
        /* Its writer is dead: held, since it became so. */
        {READINESS_READY, true, REASON_LEASE_RENEWED, -50, -30, 100, NODE_UNKNOWN,
         REASON_LEASE_RENEWED, -30},
        {READINESS_READY, true, REASON_LEASE_RENEWED, -350, -330, -30, NODE_UNKNOWN,
         REASON_RECORD_STALE, -30},
        {READINESS_READY, true, REASON_HEALTH_CHECK_DISABLED, NEVER, 30, NEVER, NODE_READY,
         REASON_HEALTH_CHECK_DISABLED, -90},
        {READINESS_NOT_READY, false, REASON_LEASE_EXPIRED, -50, 30, 330, NODE_NOT_READY,
         REASON_LEASE_EXPIRED, -90},
        {READINESS_NOT_READY, false, REASON_DPU_SHUTDOWN, 20, -30, -1, NODE_NOT_READY,
         REASON_DPU_SHUTDOWN, -90},
        {READINESS_UNKNOWN, true, REASON_API_SERVER_UNREACHABLE, 20, 30, 330, NODE_UNKNOWN,
         REASON_API_SERVER_UNREACHABLE, -90},
        {READINESS_UNKNOWN, false, REASON_AWAITING_FIRST_RENEWAL, 20, 30, 330, NODE_UNKNOWN,
         REASON_AWAITING_FIRST_RENEWAL, -90},
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
    node_snapshot_take(&config, &look);
    assert_false(look.has_record);
    assert_string_equal(look.path, "/host/nonexistent/readiness.json");
    assert_int_equal(look.answer, NODE_UNKNOWN);
    assert_int_equal(look.gate.reason, REASON_RECORD_MISSING);
    assert_int_equal(look.since.ns, 0);
    assert_non_null(strstr(node_message(&look), look.path));
}
