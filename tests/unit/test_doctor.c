/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "dpuctl/print.h"
#include "tests/support/case.h"

static struct doctor *new_doctor(void)
{
    struct doctor *d = calloc(1, sizeof(*d)); /* large */
    assert_non_null(d);
    d->checks = json_array();
    return d;
}

static void end(struct doctor *d)
{
    json_decref(d->cni);
    json_decref(d->checks);
    free(d);
}

static void expect(const struct doctor *d, size_t index, const char *outcome, const char *found)
{
    const json_t *check = json_array_get(d->checks, index);
    assert_string_equal(json_string_value(json_object_get(check, "outcome")), outcome);
    assert_non_null(strstr(json_string_value(json_object_get(check, "found")), found));
}

TEST(texts_from_outside_stay_on_their_line)
{
    struct doctor *d = new_doctor();
    check_add(d, CHECK_FAIL, "link", "mend\nit", "%s", "a\033]0;b\nc");
    expect(d, 0, "fail", "a ]0;b c");
    assert_true(print_holds(json_array_get(d->checks, 0), "mend !mend=mend\nit"));
    end(d);
}

/* ---- CNI: lists that a directory of files cannot easily make --------------------------------- */

/* Files as cni_scan_json gives them; the first that is whole is taken. */
static struct doctor *see_files(const char *files)
{
    struct doctor *d = new_doctor();
    size_t i;
    json_t *entry;
    d->cni = json_pack("{s:n, s:o}", "problem", "files", json_loads(files, 0, NULL));
    assert_non_null(d->cni);
    json_array_foreach(json_object_get(d->cni, "files"), i, entry)
    {
        if (!json_object_get(entry, "problem") && !json_object_get(d->cni, "first")) {
            assert_int_equal(json_object_set(d->cni, "first", entry), 0);
        }
    }
    return d;
}

TEST(a_broken_gate_alone_is_no_gate_and_one_that_cannot_be_read_is_not_accused)
{
    struct doctor *d = see_files("[{\"file\": \"a\", \"problem\": \"it names no network\", "
                                 "\"isGated\": true}]");
    assert_int_equal(json_object_set_new(d->cni, "more", json_integer(2)), 0);
    check_cni(d);
    assert_int_equal(json_array_size(d->checks), 3);
    expect(d, 0, "fail", "names no network");
    expect(d, 1, "warn", "2 more files");
    expect(d, 2, "warn", "that a runtime can use");
    end(d);
    /* What only we may not read accuses nobody. */
    d = see_files("[{\"file\": \"05-dpu-gate.conflist\", \"problem\": \"denied\", "
                  "\"isForbidden\": true}, {\"file\": \"10-x.conf\"}]");
    check_cni(d);
    assert_int_equal(json_array_size(d->checks), 1);
    expect(d, 0, "skip", "denied");
    end(d);
}

TEST(a_broken_file_before_all_stops_containerd)
{
    static const struct {
        const char *runtime;
        const char *before;
    } rows[] = {{"containerd://2.1.0", "fail"}, {"cri-o://1.36.3", "warn"}, {"", "warn"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct doctor *d =
            see_files("[{\"file\": \"00-a.conf\", \"problem\": \"broken\"}, {\"file\": "
                      "\"10-b.conf\"}, {\"file\": \"20-c.conf\", \"problem\": \"broken\"}]");
        (void)strcpy(d->runtime_version, rows[i].runtime);
        check_cni(d);
        expect(d, 0, rows[i].before, "00-a.conf: broken");
        expect(d, 1, "warn", "20-c.conf: broken");
        end(d);
    }
}

TEST(a_runtime_is_judged_by_how_it_asks_status)
{
    static const struct {
        const char *version;
        const char *grace;
        const char *outcome;
    } rows[] = {
        {"containerd://1.7.27-0ubuntu1", "", "warn"},
        {"containerd://2.0.0", "", "warn"},
        {"containerd://2.0.1", "", "fail"},
        {"containerd://2.0.3", "", "pass"},
        {"containerd://2.0.10", "", "pass"},
        {"containerd://", "", "skip"},
        {"containerd://main", "", "skip"},
        {"cri-o://1.35.9", "5s", "warn"},
        {"cri-o://1.36.2", "", "pass"},
        {"cri-o://1.36.3", "", "warn"},
        {"cri-o://1.36.3", "0h0m0.0s", "warn"},
        {"cri-o://1.36.3", "5s", "pass"},
        {"cri-o://1.36.2", NULL, "pass"},
        {"cri-o://1.36.3", NULL, "skip"},
        {"cri-o://main", "5s", "skip"},
        {"", "", "skip"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct doctor *d = new_doctor();
        check_judge_runtime(d, rows[i].version, rows[i].grace);
        assert_int_equal(json_array_size(d->checks), 1);
        expect(d, 0, rows[i].outcome, "");
        bool is_to_mend = rows[i].outcome[0] == 'w' || rows[i].outcome[0] == 'f';
        assert_int_equal(print_holds(json_array_get(d->checks, 0), "mend"), is_to_mend);
        end(d);
    }
}

TEST(a_setting_is_found_as_toml_has_it)
{
    static const struct {
        const char *text;
        const char *value; /* NULL: not set */
    } rows[] = {
        {"", NULL},
        {"key", NULL},
        {"key =", ""},
        {"key = 5s", "5s"},
        {"key=\"5s\"\n", "5s"},
        {"  key\t=\t'5s'  # why\n", "5s"},
        {"key = 5s # why", "5s"},
        {"# key = \"5s\"\n", NULL},
        {"key_more = 1\nmore_key = 2\nkeys = 3", NULL},
        {"key = 1\nother = 2\nkey = 3\r\n", "3"},
        {"key = 1\nkey =\n", ""},
        {"key\n= 5s\n", NULL},
        {"key = \"\033[31m\"", " [31m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char value[32] = "as it was";
        bool is_set = check_find_setting(rows[i].text, "key", value, sizeof(value));
        assert_int_equal(is_set, rows[i].value != NULL);
        assert_string_equal(value, rows[i].value ? rows[i].value : "as it was");
    }
}
