/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct doctor *new_doctor(void)
{
    struct doctor *d = calloc(1, sizeof(*d)); /* large */
    assert_non_null(d);
    return d;
}

TEST(texts_from_outside_stay_on_their_line)
{
    struct doctor *d = new_doctor();
    check_add(d, CHECK_FAIL, "link", "mend\nit", "%s", "a\033]0;b\nc");
    assert_string_equal(d->results[0].found, "a ]0;b c");
    assert_string_equal(d->results[0].mend, "mend it");
    free(d);
}

TEST(beyond_the_bound_only_a_failure_is_kept)
{
    struct doctor *d = new_doctor();
    for (int i = 0; i < CHECK_MAX + 5; i++) {
        check_add(d, CHECK_PASS, "link", "", "%d", i);
    }
    assert_int_equal(d->count, CHECK_MAX);
    assert_string_equal(d->results[CHECK_MAX - 1].found, "127");
    check_add(d, CHECK_FAIL, "link", "", "broken");
    check_add(d, CHECK_FAIL, "link", "", "broken, too");
    check_add(d, CHECK_WARN, "link", "", "not so well");
    assert_int_equal(d->count, CHECK_MAX);
    assert_string_equal(d->results[CHECK_MAX - 1].found, "broken");
    assert_string_equal(d->results[CHECK_MAX - 2].found, "126");
    free(d);
}

/* ---- CNI: lists that a directory of files cannot easily make ----------------------------------
 */

TEST(a_broken_gate_alone_is_no_gate)
{
    struct doctor *d = new_doctor();
    static const char text[] = "{\"plugins\":[{\"type\":\"dpu-gate\"}]}"; /* names no network */
    cni_entry_read(text, strlen(text), &d->cni.entries[0]);
    d->cni.count = 1;
    d->cni.more = 2;
    check_cni(d);
    assert_int_equal(d->count, 3);
    assert_non_null(strstr(d->results[0].found, "names no network"));
    assert_non_null(strstr(d->results[1].found, "2 more files"));
    assert_non_null(strstr(d->results[2].found, "no configuration"));
    free(d);
}

TEST(what_only_we_may_not_read_accuses_nobody)
{
    struct doctor *d = new_doctor();
    d->cni.entries[0] = (struct cni_entry){
        .file = "05-dpu-gate.conflist", .problem = "Permission denied", .is_forbidden = true};
    d->cni.entries[1] = (struct cni_entry){.file = "10-x.conf", .network = "x", .types = "x"};
    d->cni.count = 2;
    check_cni(d);
    assert_int_equal(d->count, 1);
    assert_int_equal(d->results[0].outcome, CHECK_SKIP);
    free(d);
}

TEST(a_broken_file_before_all_stops_containerd)
{
    static const struct {
        const char *runtime;
        enum check_outcome before, behind;
    } rows[] = {{"containerd://2.1.0", CHECK_FAIL, CHECK_WARN},
                {"cri-o://1.36.3", CHECK_WARN, CHECK_WARN},
                {"", CHECK_WARN, CHECK_WARN}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct doctor *d = new_doctor();
        d->cni.entries[0] = (struct cni_entry){.file = "00-a.conf", .problem = "broken"};
        d->cni.entries[1] = (struct cni_entry){.file = "10-b.conf", .network = "b", .types = "b"};
        d->cni.entries[2] = (struct cni_entry){.file = "20-c.conf", .problem = "broken"};
        d->cni.count = 3;
        (void)strcpy(d->runtime_version, rows[i].runtime);
        check_cni(d);
        assert_int_equal(d->results[0].outcome, rows[i].before);
        assert_int_equal(d->results[1].outcome, rows[i].behind);
        free(d);
    }
}

TEST(a_runtime_is_judged_by_how_it_asks_status)
{
    static const struct {
        const char *version;
        const char *grace;
        enum check_outcome outcome;
    } rows[] = {
        {"containerd://1.7.27-0ubuntu1", "", CHECK_WARN},
        {"containerd://2.0.0", "", CHECK_WARN},
        {"containerd://2.0.1", "", CHECK_FAIL},
        {"containerd://2.0.2", "", CHECK_FAIL},
        {"containerd://2.0.3", "", CHECK_PASS},
        {"containerd://2.0.10", "", CHECK_PASS},
        {"containerd://2.1.4", "", CHECK_PASS},
        {"containerd://10.0.0", "", CHECK_PASS},
        {"containerd://", "", CHECK_SKIP},
        {"containerd://v2.x", "", CHECK_SKIP},
        {"cri-o://1.35.9", "5s", CHECK_WARN},
        {"cri-o://1.36.0", "", CHECK_PASS},
        {"cri-o://1.36.2", "", CHECK_PASS},
        {"cri-o://1.36.3", "", CHECK_WARN},
        {"cri-o://1.36.3", "0s", CHECK_WARN},
        {"cri-o://1.36.3", "0h0m0.0s", CHECK_WARN},
        {"cri-o://1.36.3", "5s", CHECK_PASS},
        {"cri-o://1.36.3", "500ms", CHECK_PASS},
        {"cri-o://1.37.0", "1m", CHECK_PASS},
        {"cri-o://1.35.9", NULL, CHECK_WARN},
        {"cri-o://1.36.2", NULL, CHECK_PASS},
        {"cri-o://1.36.3", NULL, CHECK_SKIP},
        {"cri-o://main", "5s", CHECK_SKIP},
        {"docker://29.0.0", "", CHECK_SKIP},
        {"", "", CHECK_SKIP},
    };
    struct doctor *d = calloc(1, sizeof(*d));
    assert_non_null(d);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        d->count = 0;
        check_judge_runtime(d, rows[i].version, rows[i].grace);
        assert_int_equal(d->count, 1);
        assert_int_equal(d->results[0].outcome, rows[i].outcome);
        bool is_to_mend = rows[i].outcome == CHECK_WARN || rows[i].outcome == CHECK_FAIL;
        assert_int_equal(d->results[0].mend[0] != '\0', is_to_mend);
    }
    free(d);
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
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char value[32] = "as it was";
        bool is_set = check_find_setting(rows[i].text, "key", value, sizeof(value));
        assert_int_equal(is_set, rows[i].value != NULL);
        assert_string_equal(value, rows[i].value ? rows[i].value : "as it was");
    }
}

TEST(more_results_than_fit_are_left_out)
{
    struct doctor *d = calloc(1, sizeof(*d));
    assert_non_null(d);
    for (int i = 0; i < CHECK_MAX + 2; i++) {
        check_add(d, CHECK_PASS, "link", "do\nthis", "seen %d\033[2J", i);
    }
    assert_int_equal(d->count, CHECK_MAX);
    assert_string_equal(d->results[0].found, "seen 0 [2J");
    assert_string_equal(d->results[0].mend, "do this");
    free(d);
}
