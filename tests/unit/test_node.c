/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/node.h"

#include "base/json_text.h"
#include "base/text.h"
#include "dpuctl/print.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <sys/stat.h>

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

struct world {
    char dir[SCRATCH_BYTES];
};

static void up(struct world *w)
{
    scratch_make(w->dir);
}

static void down(struct world *w)
{
    scratch_remove(w->dir);
}

WORLD(up, down)

static const char *member(const json_t *scan, const char *path, char out[static 128])
{
    print_fill(scan, path, out, 128);
    return out;
}

TEST_IN(the_first_that_a_runtime_can_take_counts)
{
    static const char list[] = "{\"name\":\"b\",\"plugins\":[{\"type\":\"dpu-gate\"}]}";
    static const char plugin[] = "{\"name\":\"a\",\"type\":\"t\"}";
    static const struct {
        const char *name, *text;
        const char *problem; /* NULL: none; "": passed over */
    } files[] = {
        {".01-hidden.conf", "{}", "a plugin has no type"}, /* to a runtime one like others */
        {"00-broken.conf", "{", "not valid JSON"},
        {"01-a.conf", list, "must be in a .conflist"},
        {"02-b.json", list, "must be in a .conflist"},
        {"03-c.conflist", plugin, "must have a list"},
        {"05-a.json", plugin, NULL},
        {"06-b.conflist", list, NULL},
        {"README", "x", ""},
        {"02-x.conf.bak", "{}", ""},
        {"00-folder.conf/x", "{}", ""},
    };
    char text[128];
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        scratch_put(w->dir, files[i].name, files[i].text);
    }
    CLEANUP(json) json_t *scan = cni_scan_json(w->dir);
    assert_int_equal(json_array_size(json_object_get(scan, "files")), 7);
    for (size_t i = 0; i < 7; i++) {
        const json_t *entry = json_array_get(json_object_get(scan, "files"), i);
        assert_string_equal(member(entry, "{file}", text), files[i].name);
        (void)member(entry, "{problem}", text);
        assert_true(files[i].problem ? strstr(text, files[i].problem) != NULL : text[0] == '\0');
    }
    assert_string_equal(member(scan, "{first.file} {gate.file}", text), "05-a.json 06-b.conflist");
    world_renew(w);
    CLEANUP(json) json_t *none = cni_scan_json(w->dir);
    assert_true(print_holds(none, "!problem !files !first !gate"));
    CLEANUP(json) json_t *gone = cni_scan_json("/nonexistent");
    assert_non_null(strstr(member(gone, "{problem}", text), "/nonexistent"));
}

TEST_IN(more_files_than_anyone_needs_are_counted)
{
    char name[32];
    char text[128];
    for (int i = 0; i < CNI_SCAN_MAX + 3; i++) {
        text_format(name, sizeof(name), "%02d.conf", i);
        scratch_put(w->dir, name, "{}");
    }
    CLEANUP(json) json_t *scan = cni_scan_json(w->dir);
    assert_int_equal(json_array_size(json_object_get(scan, "files")), CNI_SCAN_MAX);
    assert_string_equal(member(scan, "{more}", text), "3");
}

#define SAYS(text) "#!/bin/sh\necho '" text "'\n"

TEST_IN(a_program_is_asked_and_never_waited_for_long)
{
    static const struct {
        const char *script;
        const char *problem; /* NULL: none */
    } rows[] = {
        {"#!/bin/sh\n[ $CNI_COMMAND = VERSION ] && echo '{\"supportedVersions\":[\"1.1.0\"]}'\n",
         NULL},
        {SAYS("{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"1.0.0\",\"1.1.0\"]}"), NULL},
        {SAYS("{\"supportedVersions\":[\"1.0.0\"]}"), "does not speak"},
        {SAYS("{\"supportedVersions\":[1.1,null]}"), "does not speak"},
        {SAYS("{\"supportedVersions\":\"1.1.0\"}"), "does not speak"},
        {SAYS("{\"cniVersion\":\"1.1.0\"}"), "does not speak"},
        {SAYS("[]"), "does not speak"},
        {SAYS("usage: ..."), "answer to VERSION"},
        {"#!/bin/sh\nexec sleep 60\n", "did not answer"},
        {"#!/bin/sh\nexit 1\n", "answer to VERSION"},
        {"#!/bin/sh\nexec cat /dev/zero\n", "larger"},
        {"\177ELF of another machine", "running it"},
    };
    char path[SCRATCH_PATH_BYTES];
    text_format(path, sizeof(path), "%s/gate", w->dir);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        scratch_put(w->dir, "gate", rows[i].script);
        assert_int_equal(chmod(path, 0700), 0);
        int rc = cni_probe_version(path, &e);
        assert_int_equal(rc == 0, rows[i].problem == NULL);
        assert_true(rc == 0 || strstr(e.msg, rows[i].problem));
    }
}
